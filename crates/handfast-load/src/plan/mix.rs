//! Clients of several kinds in one run: each member of the mix has a share of the connections, and its own TLS.
//!
//! In: `share=30 tls=1.2 resume=0`, as it is typed or stands in a file. Out: [`Member`]s, resolved against what all of
//! them have in common; or what is wrong and what was expected.

use serde::{Deserialize, Serialize};

use super::Tls;
use crate::words::did_you_mean;

/// Most members of a mix: each has histograms of its own for each second.
pub const MOST_MEMBERS: usize = 32;
/// Most names of one member: they travel with the plan.
pub const MOST_NAMES: usize = 10_000;

/// One kind of client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// What it is called in the report.
    pub name: String,
    /// Its share of the connections, against those of the others.
    pub share: f64,
    /// What it offers and wants.
    pub tls: Tls,
}

/// A name of SNI, of several that are used in turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WeightedName {
    /// The name.
    pub name: String,
    /// How often, against the weights of the others.
    pub weight: u32,
}

/// A member as it is written: words with values, not yet read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberWords {
    /// What it is called; empty: by its number.
    pub name: String,
    /// Its share.
    pub share: String,
    /// The other words, with the values as they were written, each key once.
    pub words: Vec<(String, String)>,
}

/// What may be said of a member, besides `name` and `share`: the options of the command line with the same names.
pub const KEYS: [&str; 9] =
    ["profile", "tls", "suites", "groups", "sni", "alpn", "resume", "client-certificate", "client-key"];

impl MemberWords {
    /// Reads `name=phones share=30 tls=1.3 resume=70%`.
    ///
    /// **Errors**: what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut member = Self::default();
        for word in text.split_ascii_whitespace() {
            let (key, value) = word
                .split_once('=')
                .ok_or_else(|| format!("`{word}` has no value, expected words such as share=30 tls=1.2"))?;
            if value.is_empty() {
                return Err(format!("`{word}` has no value after the ="));
            }
            let again = || format!("`{key}` is there twice");
            match key {
                "name" if member.name.is_empty() => member.name = value.to_owned(),
                "share" if member.share.is_empty() => member.share = value.to_owned(),
                "name" | "share" => return Err(again()),
                key if member.words.iter().any(|(known, _)| known == key) => return Err(again()),
                key if KEYS.contains(&key) => member.words.push((key.to_owned(), value.to_owned())),
                key => {
                    let all = [&["name", "share"], KEYS.as_slice()].concat();
                    return Err(format!("`{key}` is not known: {}", did_you_mean(key, &all)));
                }
            }
        }
        if member.share.is_empty() {
            return Err("there is no share in it, expected one such as share=30".into());
        }
        Ok(member)
    }

    /// Reads a file of members, a line for each; empty lines and lines that begin with `#` mean nothing.
    ///
    /// **Errors**: each line that is wrong, with its number.
    pub fn parse_file(text: &str) -> Result<Vec<Self>, Vec<String>> {
        lines(text, "there is no member in it, expected lines such as `share=30 tls=1.2`", Self::parse)
    }
}

impl WeightedName {
    /// Reads a file of names, `NAME` or `WEIGHT NAME` on each line; empty lines and lines that begin with `#` mean nothing.
    ///
    /// **Errors**: each line that is wrong, with its number.
    pub fn parse_file(text: &str) -> Result<Vec<Self>, Vec<String>> {
        let names =
            lines(text, "there is no name in it, expected lines of `NAME` or `WEIGHT NAME`", Self::parse)?;
        let mut wrong = Vec::new();
        if names.len() > MOST_NAMES {
            wrong.push(format!("{} names, expected at most {MOST_NAMES}", names.len()));
        }
        let mut sorted: Vec<&str> = names.iter().map(|name| name.name.as_str()).collect();
        sorted.sort_unstable();
        wrong.extend(
            sorted.windows(2).find(|two| two[0] == two[1]).map(|two| format!("`{}` is there twice", two[0])),
        );
        if wrong.is_empty() { Ok(names) } else { Err(wrong) }
    }

    fn parse(line: &str) -> Result<Self, String> {
        let mut words = line.split_ascii_whitespace();
        let (first, second, third) = (words.next().unwrap_or_default(), words.next(), words.next());
        let (weight, name) = match (second, third) {
            (None, _) => (1, first),
            (Some(name), None) => {
                let weight = first.parse().ok().filter(|weight| (1..=1_000_000).contains(weight));
                (weight.ok_or_else(|| format!("`{first}` is no weight, expected 1 to 1000000"))?, name)
            }
            (Some(_), Some(more)) => {
                return Err(format!("`{more}` is too much, expected `NAME` or `WEIGHT NAME`"));
            }
        };
        // RFC 6066 §3: names only.
        if !handfast_tls::throwaway::is_host(name) || name.parse::<std::net::IpAddr>().is_ok() {
            return Err(format!("`{name}` is no name, expected one such as www.example.org"));
        }
        Ok(Self { name: name.to_owned(), weight })
    }
}

/// Each line that says something, read; or all that are wrong.
fn lines<T>(text: &str, none: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, Vec<String>> {
    let (mut all, mut wrong) = (Vec::new(), Vec::new());
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match read(line) {
            Ok(one) => all.push(one),
            Err(what) => wrong.push(format!("line {number}: {what}")),
        }
    }
    if all.is_empty() && wrong.is_empty() {
        wrong.push(none.to_owned());
    }
    if wrong.is_empty() { Ok(all) } else { Err(wrong) }
}

/// The shares of members, as they are written: weights, or percents of the whole, which then must be the whole.
///
/// **Errors**: what is wrong with them.
pub fn shares(written: &[&str]) -> Result<Vec<f64>, String> {
    let percents = written.iter().filter(|share| share.ends_with('%')).count();
    if percents > 0 && percents < written.len() {
        return Err("some shares have a % and some have none, expected the same of all".into());
    }
    let read = |share: &&str| {
        let number = share.strip_suffix('%').unwrap_or(share).parse::<f64>().ok();
        number
            .filter(|number| number.is_finite() && *number > 0.0 && *number <= 1e6)
            .ok_or_else(|| format!("`{share}` is no share, expected a number above 0 such as 30 or 30%"))
    };
    let shares = written.iter().map(read).collect::<Result<Vec<f64>, String>>()?;
    let sum: f64 = shares.iter().sum();
    if percents > 0 && (sum - 100.0).abs() > 0.01 {
        return Err(format!("the shares make {sum} % together, expected 100 %"));
    }
    Ok(shares)
}

impl Tls {
    /// What is offered, in a line: `TLS 1.3, 1.2; groups X25519, secp256r1; suites as the library has them; SNI a.example`.
    pub fn sentence(&self) -> String {
        let mut parts = vec![
            format!("TLS {}", self.versions.join(", ")),
            format!("groups {}", self.groups.join(", ")),
            match self.suites.is_empty() {
                true => "suites as the library has them".to_owned(),
                false => format!("suites {}", self.suites.join(", ")),
            },
        ];
        if !self.alpn.is_empty() {
            parts.push(format!("ALPN {}", self.alpn.join(", ")));
        }
        parts.push(match (&self.server_name, self.server_names.as_slice()) {
            (_, [_, ..]) => {
                format!("SNI {} in turn", crate::words::things(self.server_names.len() as u64, "name"))
            }
            (Some(name), _) => format!("SNI {name}"),
            (None, _) => "no SNI".to_owned(),
        });
        if self.client_certificate.is_some() {
            parts.push("a client certificate".into());
        }
        parts.join("; ")
    }
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
        let wrong = |text| MemberWords::parse(text).unwrap_err();
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
        assert!(wrong[0].starts_with("line 4: `nothing`"), "{wrong:?}");
        assert!(MemberWords::parse_file("\n").unwrap_err()[0].contains("no member"));
    }

    #[test]
    fn shares_are_weights_or_make_a_hundred_percent() {
        assert_eq!(shares(&["3", "1"]), Ok(vec![3.0, 1.0]));
        assert_eq!(shares(&["62.5%", "37.5%"]), Ok(vec![62.5, 37.5]));
        assert!(shares(&["60%", "30%"]).unwrap_err().contains("90 % together"));
        assert!(shares(&["60%", "40"]).unwrap_err().contains("some have none"));
        for wrong in ["0", "-1", "x", "inf", "NaN"] {
            assert!(shares(&[wrong]).unwrap_err().contains("no share"), "{wrong}");
        }
    }

    #[test]
    fn names_have_weights_and_are_names() {
        let names = WeightedName::parse_file("a.example\n# b\n\n 9 b.example \n").unwrap();
        let read: Vec<(u32, &str)> = names.iter().map(|name| (name.weight, name.name.as_str())).collect();
        assert_eq!(read, [(1, "a.example"), (9, "b.example")]);
        let wrong = WeightedName::parse_file("10.0.0.1\n0 a.example\n1 2 3\n").unwrap_err();
        assert_eq!(wrong.len(), 3, "{wrong:?}");
        assert!(WeightedName::parse_file("a\na\n").unwrap_err()[0].contains("`a` is there twice"));
        assert!(WeightedName::parse_file("").unwrap_err()[0].contains("no name"));
    }
}
