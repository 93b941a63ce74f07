//! Lists of words for people, and the word that was probably meant.
//!
//! In: a word and those that are allowed. Out: the nearest, a question, a list.

use std::fmt;

/// Longest word that is compared: the comparison costs the product of the two lengths.
const COMPARED: usize = 64;

/// The candidate that `word` was probably meant to be.
///
/// Case, `_` for `-`, and a missing or added plural `s` are forgiven; otherwise at most one edit for each three letters.
/// **Cost**: linear in the candidates; words over 64 bytes are not compared.
pub fn closest<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    if word.is_empty() || word.len() > COMPARED {
        return None;
    }
    let searched = plain(word);
    let allowed = (searched.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (strsim::osa_distance(&searched, &plain(candidate)), candidate))
        // Words without a common letter are not similar, however short they are.
        .filter(|(distance, candidate)| *distance <= allowed && *distance < candidate.len())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// A word in the way that keys are written: in lower case, with `-`.
pub fn plain(word: &str) -> String {
    word.to_lowercase().replace('_', "-")
}

/// [`closest`] as a question: ``did you mean `listen`?``
pub fn did_you_mean<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<String> {
    closest(word, candidates).map(|candidate| format!("did you mean `{candidate}`?"))
}

/// [`did_you_mean`], or else all candidates: ``there are `connect`, `total` and `lag` ``.
pub fn did_you_mean_or_all(word: &str, candidates: &[&str]) -> String {
    did_you_mean(word, candidates.iter().copied())
        .unwrap_or_else(|| format!("there are {}", listed(candidates.iter().copied(), "and")))
}

/// The words as a list of possibilities: `` `a`, `b` or `c` ``.
pub fn one_of<'w>(words: impl IntoIterator<Item = &'w str>) -> String {
    listed(words, "or")
}

fn listed<'w>(words: impl IntoIterator<Item = &'w str>, last_by: &str) -> String {
    let quoted: Vec<String> = words.into_iter().map(|word| format!("`{word}`")).collect();
    match quoted.as_slice() {
        [] => "nothing".to_owned(),
        [only] => only.clone(),
        [most @ .., last] => format!("{} {last_by} {last}", most.join(", ")),
    }
}

/// One sentence of what is wrong, what is expected and a hint, as all errors of this crate have it.
pub(crate) fn sentence(
    f: &mut fmt::Formatter<'_>,
    what: &str,
    expected: &str,
    hint: Option<String>,
) -> fmt::Result {
    write!(f, "{what}, expected {expected}")?;
    hint.map_or(Ok(()), |hint| write!(f, "; hint: {hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closest_word_is_found_and_a_strange_one_has_none() {
        let keys = ["certificate", "listen", "backend", "max-connections"];
        let table = [
            ("certifcate", Some("certificate")),
            ("Listen", Some("listen")),
            ("max_connections", Some("max-connections")),
            ("backends", Some("backend")),
            ("lsiten", Some("listen")),
            ("colour", None),
            ("", None),
            ("x", None),
        ];
        for (word, expected) in table {
            assert_eq!(closest(word, keys), expected, "{word}");
        }
        assert_eq!(closest("b", ["a", "ab"]), Some("ab"), "`a` shares nothing with `b`");
        let long = "x".repeat(COMPARED);
        assert_eq!(closest(&long, [long.as_str()]), Some(long.as_str()));
        let longer = format!("{long}x");
        assert_eq!(closest(&longer, [longer.as_str()]), None, "not compared");
    }

    #[test]
    fn a_near_word_is_proposed_and_a_strange_one_gets_the_list() {
        assert_eq!(did_you_mean_or_all("handshak", &["connect", "handshake"]), "did you mean `handshake`?");
        assert_eq!(
            did_you_mean_or_all("zzzzz", &["connect", "total", "lag"]),
            "there are `connect`, `total` and `lag`"
        );
        assert!(did_you_mean_or_all(&"x".repeat(1 << 20), &["total"]).starts_with("there are"));
    }

    #[test]
    fn lists_read_as_people_write_them() {
        assert_eq!([one_of([]), one_of(["a"]), one_of(["a", "b"])], ["nothing", "`a`", "`a` or `b`"]);
        assert_eq!(one_of(["a", "b", "c"]), "`a`, `b` or `c`");
    }
}
