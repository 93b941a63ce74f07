//! Syntax of host names.
//!
//! In: the bytes of a `HostName` in the server_name extension. Out: the name in lower case, or the [`NameProblem`].

use std::fmt;
use std::net::IpAddr;

/// Most characters of a host name: 255 bytes on the DNS wire, less the first length and the root (RFC 1035 §2.3.4).
pub const NAME_LIMIT: usize = 253;

/// Most characters between two dots (RFC 1035 §2.3.4).
pub const LABEL_LIMIT: usize = 63;

/// Reason why a host name is invalid; the connection may still continue without a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NameProblem {
    /// It has no characters.
    Empty,
    /// It has more than [`NAME_LIMIT`] characters.
    TooLong {
        /// Number of characters.
        length: usize,
    },
    /// It is an IPv4 or IPv6 address; these "are not permitted in HostName" (RFC 6066 §3).
    Address,
    /// Nothing between two dots, or before the first.
    LabelEmpty,
    /// More than [`LABEL_LIMIT`] characters between two dots.
    LabelTooLong {
        /// Number of characters.
        length: usize,
    },
    /// A number behind a colon: some clients take the host of a URL with its port.
    Port,
    /// A byte other than an ASCII letter or digit, `-`, `_` and `.`; other alphabets come as A-labels (RFC 5890 §2.3.2.1).
    Character {
        /// That byte.
        byte: u8,
    },
    /// Only digits after the last dot: such a name would be read as an address by some and as a name by others.
    LastLabelNumeric,
}

impl NameProblem {
    /// Returns true if it is an address, which is no attempt at a name.
    pub const fn is_address(self) -> bool {
        matches!(self, Self::Address)
    }
}

impl fmt::Display for NameProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("server name is empty"),
            Self::TooLong { length } => write!(f, "server name of {length} characters, limit {NAME_LIMIT}"),
            Self::Address => f.write_str("server name is an IP address, expected a host name"),
            Self::LabelEmpty => f.write_str("server name has an empty label"),
            Self::LabelTooLong { length } => {
                write!(f, "server name has a label of {length} characters, limit {LABEL_LIMIT}")
            }
            Self::Port => f.write_str("server name has a port, expected the host name alone"),
            Self::Character { byte } => {
                f.write_str("server name has ")?;
                match byte {
                    b' ' => f.write_str("a blank")?,
                    b'!'..=b'~' => write!(f, "'{}'", char::from(*byte))?,
                    _ => write!(f, "byte 0x{byte:02x}")?,
                }
                f.write_str(", expected letters, digits, '-', '_' and '.'")
            }
            Self::LastLabelNumeric => f.write_str("server name has only digits after its last dot"),
        }
    }
}

impl std::error::Error for NameProblem {}

/// Checks a host name and gives it in lower case, without the dot that some clients leave at its end.
///
/// "www.example.org." is how DNS writes a name that is whole, and some clients send it as a user typed it. RFC 6066 §3
/// requires the name without the dot, and defines no alert; other servers treat it as the name without.
///
/// Hyphens may stand anywhere in a label: names like `a-.example` are in use, and nothing here depends on the rule
/// against them. Underscores are taken for the same reason.
///
/// **Errors**: the first [`NameProblem`] found. **Cost**: one allocation of the name's length, on success only.
/// **Source**: RFC 6066 §3.
pub fn host_name(bytes: &[u8]) -> Result<Box<str>, NameProblem> {
    let text = str::from_utf8(bytes).ok();
    if text.is_some_and(|text| text.parse::<IpAddr>().is_ok()) {
        return Err(NameProblem::Address);
    }
    let bytes = bytes.strip_suffix(b".").unwrap_or(bytes);
    if bytes.is_empty() {
        return Err(NameProblem::Empty);
    }
    if bytes.len() > NAME_LIMIT {
        return Err(NameProblem::TooLong { length: bytes.len() });
    }
    if has_port(bytes) {
        return Err(NameProblem::Port);
    }
    if let Some(byte) = bytes.iter().find(|byte| !is_name_byte(**byte)) {
        return Err(NameProblem::Character { byte: *byte });
    }
    bytes.split(|byte| *byte == b'.').try_for_each(check_label)?;
    if last_label(bytes).iter().all(u8::is_ascii_digit) {
        return Err(NameProblem::LastLabelNumeric);
    }
    // Every byte was seen to be ASCII, so this changes nothing but the letters' case.
    Ok(String::from_utf8_lossy(bytes).to_ascii_lowercase().into_boxed_str())
}

const fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

/// Returns true if the only colon is followed by a number: an IPv6 address has more.
fn has_port(name: &[u8]) -> bool {
    let mut parts = name.split(|byte| *byte == b':');
    let port = parts.next().and(parts.next());
    port.is_some_and(|port| !port.is_empty() && port.iter().all(u8::is_ascii_digit)) && parts.next().is_none()
}

const fn check_label(label: &[u8]) -> Result<(), NameProblem> {
    match label.len() {
        0 => Err(NameProblem::LabelEmpty),
        1..=LABEL_LIMIT => Ok(()),
        length => Err(NameProblem::LabelTooLong { length }),
    }
}

fn last_label(name: &[u8]) -> &[u8] {
    name.rsplit(|byte| *byte == b'.').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_in_lower_case() {
        for (given, expected) in [
            ("www.Example.COM", "www.example.com"),
            ("localhost", "localhost"),
            ("xn--bcher-kva.example", "xn--bcher-kva.example"),
            ("_sip._tcp.example", "_sip._tcp.example"),
            ("a-.example", "a-.example"),
            ("1.2.3.4.example", "1.2.3.4.example"),
            ("1password.example", "1password.example"),
            ("www.Example.", "www.example"),
            ("localhost.", "localhost"),
        ] {
            assert_eq!(host_name(given.as_bytes()).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn each_problem_has_its_name() {
        for (given, problem) in [
            ("", NameProblem::Empty),
            ("192.0.2.1", NameProblem::Address),
            ("2001:db8::1", NameProblem::Address),
            (".", NameProblem::Empty),
            ("..", NameProblem::LabelEmpty),
            ("www.example..", NameProblem::LabelEmpty),
            (".example", NameProblem::LabelEmpty),
            ("192.0.2.1.", NameProblem::LastLabelNumeric),
            ("www..example", NameProblem::LabelEmpty),
            ("bücher.example", NameProblem::Character { byte: 0xc3 }),
            ("*.example", NameProblem::Character { byte: b'*' }),
            ("www.example:443", NameProblem::Port),
            ("www.example.:443", NameProblem::Port),
            ("www.example:", NameProblem::Character { byte: b':' }),
            ("[2001:db8::1]:443", NameProblem::Character { byte: b'[' }),
            ("www example", NameProblem::Character { byte: b' ' }),
            ("www.exam\0ple", NameProblem::Character { byte: 0 }),
            ("192.0.2.256", NameProblem::LastLabelNumeric),
            ("192.0.2", NameProblem::LastLabelNumeric),
        ] {
            assert_eq!(host_name(given.as_bytes()), Err(problem), "{given:?}");
        }
        assert_eq!(host_name(&[b'a', 0xff]), Err(NameProblem::Character { byte: 0xff }));
        assert!(NameProblem::Address.is_address() && !NameProblem::LastLabelNumeric.is_address());
    }

    #[test]
    fn each_problem_has_its_words() {
        let words = [
            (NameProblem::Empty, "is empty"),
            (NameProblem::TooLong { length: 254 }, "of 254 characters, limit 253"),
            (NameProblem::Address, "is an IP address, expected a host name"),
            (NameProblem::LabelEmpty, "has an empty label"),
            (NameProblem::LabelTooLong { length: 64 }, "has a label of 64 characters, limit 63"),
            (NameProblem::Character { byte: b'*' }, "has '*', expected letters, digits, '-', '_' and '.'"),
            (
                NameProblem::Character { byte: b' ' },
                "has a blank, expected letters, digits, '-', '_' and '.'",
            ),
            (
                NameProblem::Character { byte: 0xc3 },
                "has byte 0xc3, expected letters, digits, '-', '_' and '.'",
            ),
            (NameProblem::Port, "has a port, expected the host name alone"),
            (NameProblem::LastLabelNumeric, "has only digits after its last dot"),
        ];
        for (problem, words) in words {
            assert_eq!(problem.to_string(), format!("server name {words}"));
        }
    }

    #[test]
    fn limits_are_met_exactly() {
        let label = "a".repeat(LABEL_LIMIT);
        assert!(host_name(label.as_bytes()).is_ok());
        assert_eq!(
            host_name(format!("{label}a.example").as_bytes()),
            Err(NameProblem::LabelTooLong { length: 64 })
        );
        let longest = format!("{label}.{label}.{label}.{}", "a".repeat(61));
        assert_eq!(longest.len(), NAME_LIMIT);
        assert!(host_name(longest.as_bytes()).is_ok() && host_name(format!("{longest}.").as_bytes()).is_ok());
        assert_eq!(host_name(format!("{longest}a").as_bytes()), Err(NameProblem::TooLong { length: 254 }));
    }
}
