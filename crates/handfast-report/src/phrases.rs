//! Sentences about numbers, and words that were nearly right.
//!
//! In: counts, sizes, misspelt words. Out: `2 addresses`, `4 KiB`, the word that was meant. Plain figures with their
//! units are [`crate::units`].

use crate::units::count;

/// `1 thing`, `2 things`, `2 addresses`.
pub fn things(number: u64, one: &str) -> String {
    let plural = match (number, one.ends_with('s')) {
        (1, _) => "",
        (_, true) => "es",
        (_, false) => "s",
    };
    format!("{} {one}{plural}", count(number))
}

/// Bytes, in a binary unit where that is exact: `4 KiB`, `1,000 bytes`.
pub fn size(bytes: u64) -> String {
    for (shift, unit) in [(30, "GiB"), (20, "MiB"), (10, "KiB")] {
        if bytes > 0 && bytes.is_multiple_of(1 << shift) {
            return format!("{} {unit}", count(bytes >> shift));
        }
    }
    things(bytes, "byte")
}

/// `did you mean …?` when one of the candidates is near, else the whole list.
pub fn did_you_mean(word: &str, candidates: &[&str]) -> String {
    let wanted = word.to_lowercase().replace('_', "-");
    let allowed = (wanted.chars().count() / 3).max(1);
    let distance = |candidate: &&str| strsim::osa_distance(&wanted, candidate);
    // Longer words are not compared: the comparison costs their product.
    let nearest = candidates.iter().copied().filter(|_| word.len() <= 64).min_by_key(distance);
    match nearest.filter(|candidate| distance(candidate) <= allowed) {
        Some(candidate) => format!("did you mean `{candidate}`?"),
        None => format!("there are {}", list(candidates)),
    }
}

/// "`a`, `b` and `c`".
fn list(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.as_slice() {
        [most @ .., last] if !most.is_empty() => format!("{} and {last}", most.join(", ")),
        few => few.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_and_sizes_are_said_as_people_do() {
        assert_eq!([things(1, "second"), things(2_000, "address")], ["1 second", "2,000 addresses"]);
        assert_eq!(
            [4096, 1000, 1 << 30, 0, 1].map(size),
            ["4 KiB", "1,000 bytes", "1 GiB", "0 bytes", "1 byte"]
        );
    }

    #[test]
    fn a_near_word_is_proposed_and_a_strange_one_gets_the_list() {
        assert_eq!(did_you_mean("handshak", &["connect", "handshake"]), "did you mean `handshake`?");
        assert_eq!(
            did_you_mean("zzzzz", &["connect", "total", "lag"]),
            "there are `connect`, `total` and `lag`"
        );
        assert!(did_you_mean(&"x".repeat(1 << 20), &["total"]).starts_with("there are"));
    }
}
