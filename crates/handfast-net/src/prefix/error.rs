//! Reason why a text is not a prefix, with its probable meaning.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

/// Reason why a text is not a prefix. Its `Display` is the whole sentence; its parts are for callers that show them in
/// separate places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefixError {
    text: String,
    wrong: Wrong,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// The text before the `/` is no address.
    Address { cure: Option<String> },
    /// The text after it is no length of this family.
    Length { most: u8, cure: Option<String> },
    /// Bits behind the length: what the prefix is, and what the address alone.
    HostBits { whole: String, one: String },
}

/// Characters of a wrong text that are shown.
const SHOWN: usize = 60;

impl PrefixError {
    pub(super) fn new(text: &str, wrong: Wrong) -> Self {
        let shown = match text.char_indices().nth(SHOWN) {
            Some((end, _)) => format!("{}...", &text[..end]),
            None => text.to_owned(),
        };
        Self { text: shown, wrong }
    }

    /// Returns the text and the fault in it.
    pub fn what(&self) -> String {
        let text = &self.text;
        match &self.wrong {
            Wrong::Address { .. } => format!("`{text}` is not an address prefix"),
            Wrong::Length { most, .. } => {
                format!("`{text}` is not an address prefix: the length is 0 to {most}")
            }
            Wrong::HostBits { .. } => format!("`{text}` has bits of an address behind its length"),
        }
    }

    /// Returns the expected form, with examples.
    pub const fn expected(&self) -> &'static str {
        "`10.0.0.0/8`, `2001:db8::/32`, or one address such as `192.0.2.7`"
    }

    /// The cure, where it can be guessed.
    pub fn hint(&self) -> Option<String> {
        match &self.wrong {
            Wrong::Address { cure } | Wrong::Length { cure, .. } => cure.clone(),
            Wrong::HostBits { whole, one } => {
                Some(format!("write `{whole}` for all of it, or `{one}` for this address alone"))
            }
        }
    }
}

impl fmt::Display for PrefixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; expected {}", self.what(), self.expected())?;
        match self.hint() {
            Some(hint) => write!(f, " (hint: {hint})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for PrefixError {}

/// Returns a hint about the probable meaning of this text instead of an address.
pub(super) fn meant(address: &str, length: Option<&str>) -> Option<String> {
    if matches!(address, "*" | "all" | "any" | "everyone") {
        return Some("write `0.0.0.0/0` and `::/0` for every address".to_owned());
    }
    if address == "localhost" {
        return Some("write `127.0.0.0/8` and `::1`".to_owned());
    }
    if let Ok(ip) = address.trim_matches(['[', ']']).parse::<IpAddr>() {
        let length = length.map(|length| format!("/{length}")).unwrap_or_default();
        return Some(format!("write it without brackets: `{ip}{length}`"));
    }
    if let Ok(address) = address.parse::<std::net::SocketAddr>() {
        return Some(format!("clients have any port: write `{}`", address.ip()));
    }
    if let Some((_, zone)) = address.split_once('%') {
        return Some(format!("write it without `%{zone}`: a prefix has no interface"));
    }
    if let Some((from, to)) = address.split_once('-')
        && from.trim().parse::<IpAddr>().is_ok()
        && to.trim().parse::<IpAddr>().is_ok()
    {
        return Some("ranges are written as the prefixes that they consist of".to_owned());
    }
    shortened(address, length)
        .or_else(|| name(address).then(|| "names are not looked up: write addresses".to_owned()))
}

/// `10`, `10.1`, `10.1.*`: an IPv4 address that breaks off.
fn shortened(address: &str, length: Option<&str>) -> Option<String> {
    let parts: Vec<&str> = address.trim_end_matches(['.', '*']).split('.').collect();
    let numbers: Vec<u8> = parts.iter().map(|part| part.parse().ok()).collect::<Option<_>>()?;
    if numbers.is_empty() || numbers.len() > 3 {
        return None;
    }
    let mut octets = [0; 4];
    octets[..numbers.len()].copy_from_slice(&numbers);
    let length = length.map_or_else(|| (numbers.len() * 8).to_string(), str::to_owned);
    let cure = format!("{}/{length}", Ipv4Addr::from(octets));
    cure.parse::<super::Prefix>().ok().map(|cure| format!("write `{cure}`"))
}

fn name(text: &str) -> bool {
    let labels = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    text.bytes().any(|byte| byte.is_ascii_alphabetic()) && text.bytes().all(labels)
}

/// A netmask in the place of a length.
pub(super) fn netmask(address: IpAddr, mask: &str) -> Option<String> {
    let ones = match (address, mask.parse::<IpAddr>().ok()?) {
        (IpAddr::V4(_), IpAddr::V4(mask)) => {
            let mask = mask.to_bits();
            (mask.leading_ones() + mask.trailing_zeros() == 32).then(|| mask.leading_ones())
        }
        (IpAddr::V6(_), IpAddr::V6(mask)) => {
            let mask = mask.to_bits();
            (mask.leading_ones() + mask.trailing_zeros() == 128).then(|| mask.leading_ones())
        }
        _ => None,
    }?;
    let prefix = super::Prefix::of(address, u8::try_from(ones).ok()?)?;
    Some(format!("write `{prefix}`"))
}
