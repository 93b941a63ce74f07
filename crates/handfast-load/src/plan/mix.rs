//! Clients of several kinds in one run: each member of the mix has a share of the connections, and its own TLS.
//!
//! In: `share=30 tls=1.2 resume=0`, as it is typed or read from a file. Out: [`Member`]s, resolved against what all of
//! them have in common; or what is wrong and what was expected.

use super::WeightedName;
use super::error::{FileError, PlanError};
pub use super::limits::{KEYS, MAX_NAMES};
use super::weight::weight;

/// Most members of a mix: each has separate histograms for each second.
pub const MAX_MEMBERS: usize = 32;

/// A member as it is written: words with values, not yet read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberWords {
    /// Its name; empty: its number.
    pub name: String,
    /// Its share.
    pub share: String,
    /// The other words, with the values as they were written, each key once.
    pub words: Vec<(String, String)>,
}

impl MemberWords {
    /// Reads `name=phones share=30 tls=1.3 resume=70%`.
    ///
    /// **Errors**: what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, PlanError> {
        let mut member = Self::default();
        for word in text.split_ascii_whitespace() {
            let (key, value) = word
                .split_once('=')
                .filter(|(_, value)| !value.is_empty())
                .ok_or_else(|| PlanError::NoValue(word.to_owned()))?;
            match key {
                "name" if member.name.is_empty() => member.name = value.to_owned(),
                "share" if member.share.is_empty() => member.share = value.to_owned(),
                "name" | "share" => return Err(PlanError::Twice(key.to_owned())),
                key if member.words.iter().any(|(known, _)| known == key) => {
                    return Err(PlanError::Twice(key.to_owned()));
                }
                key if KEYS.contains(&key) => member.words.push((key.to_owned(), value.to_owned())),
                key => return Err(PlanError::UnknownKey(key.to_owned())),
            }
        }
        if member.share.is_empty() { Err(PlanError::NoShare) } else { Ok(member) }
    }

    /// Reads a file of members, a line for each; empty lines and lines that begin with `#` mean nothing.
    ///
    /// **Errors**: each line that is wrong, with its number.
    pub fn parse_file(text: &str) -> Result<Vec<Self>, Vec<FileError>> {
        let none = PlanError::NothingInFile { entry: "member", expected: "such as `share=30 tls=1.2`" };
        lines(text, none, Self::parse)
    }
}

/// Reads a file of names, `NAME` or `WEIGHT NAME` on each line; empty lines and lines that begin with `#` mean nothing.
///
/// **Errors**: each line that is wrong, with its number.
pub fn names(text: &str) -> Result<Vec<WeightedName>, Vec<FileError>> {
    let none = PlanError::NothingInFile { entry: "name", expected: "of `NAME` or `WEIGHT NAME`" };
    let names = lines(text, none, name)?;
    let mut wrong: Vec<FileError> = Vec::new();
    if names.len() > MAX_NAMES {
        wrong.push(PlanError::TooManyNames(names.len()).into());
    }
    let mut sorted: Vec<(&str, usize)> = names.iter().map(|name| name.name.as_str()).zip(1..).collect();
    sorted.sort_unstable();
    let equal = sorted.windows(2).find(|two| two[0].0 == two[1].0);
    wrong.extend(equal.map(|two| PlanError::EqualNames { first: two[0].1, second: two[1].1 }.into()));
    if wrong.is_empty() { Ok(names) } else { Err(wrong) }
}

fn name(line: &str) -> Result<WeightedName, PlanError> {
    let mut words = line.split_ascii_whitespace();
    let (first, second, third) = (words.next().unwrap_or_default(), words.next(), words.next());
    let (weight, name) = match (second, third) {
        (None, _) => (1, first),
        (Some(name), None) => (weight(first)?, name),
        (Some(_), Some(more)) => {
            return Err(PlanError::TooMuch { word: more.to_owned(), expected: "`NAME` or `WEIGHT NAME`" });
        }
    };
    // RFC 6066 §3: names only.
    if !handfast_pki::throwaway::is_host(name) || name.parse::<std::net::IpAddr>().is_ok() {
        return Err(PlanError::ServerName(name.to_owned()));
    }
    Ok(WeightedName { name: name.to_owned(), weight })
}

/// Each line with content, parsed; or all mistakes.
fn lines<T>(
    text: &str,
    none: PlanError,
    read: impl Fn(&str) -> Result<T, PlanError>,
) -> Result<Vec<T>, Vec<FileError>> {
    let (mut all, mut wrong) = (Vec::new(), Vec::new());
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match read(line) {
            Ok(one) => all.push(one),
            Err(mistake) => wrong.push(FileError::at_line(number, mistake)),
        }
    }
    if all.is_empty() && wrong.is_empty() {
        wrong.push(none.into());
    }
    if wrong.is_empty() { Ok(all) } else { Err(wrong) }
}

/// The shares of members, as they are written: weights, or percents of the whole, which then must be the whole.
///
/// **Errors**: what is wrong with them.
pub fn shares(written: &[&str]) -> Result<Vec<f64>, PlanError> {
    let percents = written.iter().filter(|share| share.ends_with('%')).count();
    if percents > 0 && percents < written.len() {
        return Err(PlanError::MixedShares);
    }
    let read = |share: &&str| {
        let number = share.strip_suffix('%').unwrap_or(share).parse::<f64>().ok();
        let number = number.filter(|number| number.is_finite() && *number > 0.0 && *number <= 1e6);
        number.ok_or_else(|| PlanError::Share((*share).to_owned()))
    };
    let shares = written.iter().map(read).collect::<Result<Vec<f64>, PlanError>>()?;
    let sum: f64 = shares.iter().sum();
    if percents > 0 && (sum - 100.0).abs() > 0.01 {
        return Err(PlanError::SharesDoNotAddUp(sum));
    }
    Ok(shares)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_words_with_values() {
        let member = MemberWords::parse("name=old share=30% tls=1.2 resume=0").unwrap();
        assert_eq!((member.name.as_str(), member.share.as_str()), ("old", "30%"));
        assert_eq!(
            member.words,
            [("tls".to_owned(), "1.2".to_owned()), ("resume".to_owned(), "0".to_owned())]
        );
        let wrong = |text| MemberWords::parse(text).unwrap_err().to_string();
        assert!(wrong("tls=1.2").contains("no share"));
        assert!(wrong("share=1 tls").contains("has no value"));
        assert!(wrong("share=1 tls=").contains("has no value"));
        assert!(wrong("share=1 share=2").contains("twice"));
        assert!(wrong("share=1 tls=1.2 tls=1.3").contains("twice"));
        assert!(
            wrong("share=1 group=X25519").contains("did you mean `groups`?"),
            "{}",
            wrong("share=1 group=X25519")
        );
        let wrong = MemberWords::parse_file("share=1\n\n# no\nnothing\n").unwrap_err();
        assert!(wrong[0].to_string().starts_with("line 4: `***`"), "{wrong:?}");
        assert!(MemberWords::parse_file("\n").unwrap_err()[0].to_string().contains("no member"));
    }

    #[test]
    fn shares_are_weights_or_make_a_hundred_percent() {
        assert_eq!(shares(&["3", "1"]), Ok(vec![3.0, 1.0]));
        assert_eq!(shares(&["62.5%", "37.5%"]), Ok(vec![62.5, 37.5]));
        assert!(shares(&["60%", "30%"]).unwrap_err().to_string().contains("add up to 90 %"));
        assert!(shares(&["60%", "40"]).unwrap_err().to_string().contains("some have none"));
        for wrong in ["0", "-1", "x", "inf", "NaN"] {
            assert!(shares(&[wrong]).unwrap_err().to_string().contains("invalid share"), "{wrong}");
        }
    }

    #[test]
    fn names_have_weights_and_are_names() {
        let names = super::names("a.example\n# b\n\n 9 b.example \n").unwrap();
        let read: Vec<(u32, &str)> = names.iter().map(|name| (name.weight, name.name.as_str())).collect();
        assert_eq!(read, [(1, "a.example"), (9, "b.example")]);
        let wrong = super::names("10.0.0.1\n0 a.example\n1 2 3\n").unwrap_err();
        assert_eq!(wrong.len(), 3, "{wrong:?}");
        assert!(super::names("a\na\n").unwrap_err()[0].to_string().contains("names 1 and 2 are equal"));
        assert!(super::names("").unwrap_err()[0].to_string().contains("no name"));
    }
}
