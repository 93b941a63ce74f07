//! Content codings: which of them a client accepts, and the fields of a response that a coding changes.
//!
//! In: values of `Accept-Encoding`, and entity tags. Out: the coding for a response, pure and without allocation.

use crate::http1::{ResponseHead, tokens};

/// A coding that responses can be compressed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ContentCoding {
    /// Zstandard (RFC 8878, RFC 9659).
    Zstd,
    /// Brotli (RFC 7932).
    Brotli,
    /// The format of gzip (RFC 1952).
    Gzip,
}

impl ContentCoding {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Zstd, Self::Brotli, Self::Gzip];

    /// Returns its name in fields.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Zstd => "zstd",
            Self::Brotli => "br",
            Self::Gzip => "gzip",
        }
    }

    /// Returns the coding with this name, in any case.
    pub fn of(name: &[u8]) -> Option<Self> {
        // RFC 9110 §8.4.1.3.
        let name = if name.eq_ignore_ascii_case(b"x-gzip") { b"gzip" } else { name };
        Self::ALL.into_iter().find(|coding| name.eq_ignore_ascii_case(coding.name().as_bytes()))
    }
}

/// Weights of codings in an `Accept-Encoding`, in thousandths; 0: not acceptable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AcceptedCodings {
    weights: [u16; ContentCoding::ALL.len()],
    /// `None`: nothing is stated, so it is acceptable, and preferred to nothing.
    identity: Option<u16>,
}

impl AcceptedCodings {
    /// Reads all values of the field. Without one, or with an empty one, a client gets what is not coded. An element that cannot be read is
    /// left out. Of several weights of one coding the lowest counts.
    ///
    /// **Source**: RFC 9110 §12.5.3.
    pub fn parse<'v>(values: impl Iterator<Item = &'v [u8]>) -> Self {
        let mut listed = [None; ContentCoding::ALL.len()];
        let (mut identity, mut others) = (None, None);
        for (name, weight) in values.flat_map(tokens).filter_map(weighted) {
            let place = match ContentCoding::of(name) {
                Some(coding) => &mut listed[coding as usize],
                None if name == b"*" => &mut others,
                None if name.eq_ignore_ascii_case(b"identity") => &mut identity,
                None => continue,
            };
            *place = Some(place.map_or(weight, |known: u16| known.min(weight)));
        }
        let weights = listed.map(|weight| weight.or(others).unwrap_or_default());
        Self { weights, identity: identity.or(others) }
    }

    /// Returns true if the client accepts a coding.
    pub const fn accepts(&self, coding: ContentCoding) -> bool {
        self.weights[coding as usize] > 0
    }

    /// Returns true if the client accepts a coding at all.
    pub fn accepts_any(&self) -> bool {
        self.weights.iter().any(|weight| *weight > 0)
    }

    /// Returns true if the client accepts what is not coded.
    pub fn accepts_identity(&self) -> bool {
        self.identity != Some(0)
    }

    /// Returns the offered coding with the highest weight, the first one of several; `None`: the client accepts none, or prefers what is
    /// not coded.
    pub fn best(&self, offered: impl IntoIterator<Item = ContentCoding>) -> Option<ContentCoding> {
        let mut best = None;
        let mut highest = self.identity.unwrap_or_default().max(1);
        for coding in offered {
            let weight = self.weights[coding as usize];
            if weight > highest || (weight == highest && best.is_none()) {
                (best, highest) = (Some(coding), weight);
            }
        }
        best
    }

    /// Returns the offered codings that the client accepts, in the order of its weights; of equal ones the first offered comes first. Those that
    /// it prefers less than what is not coded are left out.
    pub fn in_order(&self, offered: impl IntoIterator<Item = ContentCoding>) -> Vec<ContentCoding> {
        let least = self.identity.unwrap_or_default().max(1);
        let weight = |coding: &ContentCoding| self.weights[*coding as usize];
        let mut accepted: Vec<_> = offered.into_iter().filter(|coding| weight(coding) >= least).collect();
        accepted.sort_by_key(|coding| std::cmp::Reverse(weight(coding)));
        accepted
    }
}

/// Returns the name and the weight of an element, in thousandths; `None`: it cannot be read (RFC 9110 §12.4.2).
pub fn weighted(element: &[u8]) -> Option<(&[u8], u16)> {
    let mut parts = element.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    let name = parts.next()?;
    let weight = match parts.next() {
        None => 1000,
        Some([b'q' | b'Q', b'=', weight @ ..]) => thousandths(weight)?,
        Some(_) => return None,
    };
    parts.next().is_none().then_some((name, weight))
}

fn thousandths(text: &[u8]) -> Option<u16> {
    let (whole, fraction) = match text {
        [whole @ (b'0' | b'1')] => (whole, &text[1..]),
        [whole @ (b'0' | b'1'), b'.', fraction @ ..] if fraction.len() <= 3 => (whole, fraction),
        _ => return None,
    };
    let mut weight = u16::from(whole - b'0') * 1000;
    for (digit, worth) in fraction.iter().zip([100, 10, 1]) {
        weight += u16::from(digit.is_ascii_digit().then(|| digit - b'0')?) * worth;
    }
    (weight <= 1000).then_some(weight)
}

/// Returns the weak form of a strong entity tag; `None`: it is weak, or no entity tag.
///
/// A coding makes other bytes of the same representation, and a strong tag is for the same bytes (RFC 9110 §8.8.3.3).
pub fn weak_tag(tag: &[u8]) -> Option<Vec<u8>> {
    matches!(tag, [b'"', .., b'"']).then(|| [b"W/", tag].concat())
}

/// Returns true if a list of entity tags has the weak form of this strong one, and not the tag itself.
pub fn has_weak_form_alone(list: &[u8], tag: &[u8]) -> bool {
    // Tags can have commas, but neither quotes nor blanks (RFC 9110 §8.8.3).
    let Some(weak) = weak_tag(tag) else { return false };
    let places = |part: &[u8]| list.windows(part.len()).filter(|window| *window == part).count();
    let weak = places(&weak);
    weak > 0 && places(tag) == weak
}

/// Returns true if `Vary` of a response makes `Accept-Encoding` part of the choice.
pub fn varies_by_coding(head: &ResponseHead<'_>) -> bool {
    let names = head.values("vary").flat_map(tokens);
    names.into_iter().any(|name| name == b"*" || name.eq_ignore_ascii_case(b"accept-encoding"))
}

#[cfg(test)]
mod tests {
    use super::ContentCoding::{Brotli, Gzip, Zstd};
    use super::*;

    fn best(value: &str) -> Option<ContentCoding> {
        AcceptedCodings::parse(std::iter::once(value.as_bytes())).best(ContentCoding::ALL)
    }

    #[test]
    fn the_coding_is_chosen_by_weight_then_by_our_preference() {
        for (value, expected) in [
            // Browsers, crawlers, tools.
            ("gzip, deflate, br, zstd", Some(Zstd)),
            ("gzip, deflate, br", Some(Brotli)),
            ("gzip, deflate", Some(Gzip)),
            ("deflate, gzip, br, zstd", Some(Zstd)),
            ("gzip,deflate", Some(Gzip)),
            ("GZIP", Some(Gzip)),
            ("x-gzip", Some(Gzip)),
            // Nothing that is offered.
            ("", None),
            (" ", None),
            (",,", None),
            ("identity", None),
            ("deflate", None),
            ("compress, dcb", None),
            ("gzipped", None),
            // Weights.
            ("gzip;q=1.0, br;q=0.8, zstd;q=0.5", Some(Gzip)),
            ("gzip;q=0.5, br;q=0.501", Some(Brotli)),
            ("gzip;q=0", None),
            ("gzip;q=0.000", None),
            ("gzip;q=0.001", Some(Gzip)),
            ("gzip ; q=0.5", Some(Gzip)),
            ("gzip;\tQ=1", Some(Gzip)),
            ("br;q=0, gzip", Some(Gzip)),
            ("gzip, gzip;q=0", None),
            ("gzip;q=0, x-gzip", None),
            // Content without a coding is preferred, or not acceptable.
            ("identity, gzip;q=0.5", None),
            ("identity;q=0.5, gzip;q=0.4, br;q=0.6", Some(Brotli)),
            ("identity, gzip", Some(Gzip)),
            ("identity;q=0, gzip;q=0.001", Some(Gzip)),
            ("identity;q=0", None),
            // The asterisk is for what is not listed.
            ("*", Some(Zstd)),
            ("*;q=0", None),
            ("gzip, *;q=0", Some(Gzip)),
            ("*;q=0.5, zstd;q=0", Some(Brotli)),
            ("*;q=0.5, gzip;q=0.1", Some(Zstd)),
            // Malformed elements are left out.
            ("gzip;q=2", None),
            ("gzip;q=1.001", None),
            ("gzip;q=0.5555", None),
            ("gzip;q=", None),
            ("gzip;q=-1", None),
            ("gzip;q=.5", None),
            ("gzip;level=1", None),
            ("gzip;q=1;q=0", None),
            ("gzip;q=x, br", Some(Brotli)),
            ("gzip br", None),
            ("\u{e9}, gzip", Some(Gzip)),
        ] {
            assert_eq!(best(value), expected, "{value}");
        }
    }

    #[test]
    fn several_lines_are_one_list() {
        let lines = [b"br;q=0".as_slice(), b"br, gzip"];
        assert_eq!(AcceptedCodings::parse(lines.into_iter()).best(ContentCoding::ALL), Some(Gzip));
        assert_eq!(AcceptedCodings::parse(std::iter::empty()).best(ContentCoding::ALL), None);
    }

    #[test]
    fn the_order_of_the_offer_decides_between_equals() {
        let accepted = AcceptedCodings::parse(std::iter::once(b"gzip, br, zstd".as_slice()));
        assert_eq!(accepted.best([Gzip, Zstd]), Some(Gzip));
        assert_eq!(accepted.best([Brotli, Gzip]), Some(Brotli));
        assert_eq!(accepted.best([]), None);
    }

    #[test]
    fn what_is_not_coded_is_acceptable_unless_refused() {
        for (value, expected) in [
            ("", true),
            ("gzip", true),
            ("identity;q=0", false),
            ("*;q=0", false),
            ("*;q=0, identity", true),
            ("*;q=0.1", true),
        ] {
            let accepted = AcceptedCodings::parse(std::iter::once(value.as_bytes()));
            assert_eq!(accepted.accepts_identity(), expected, "{value}");
        }
    }

    #[test]
    fn strong_tags_become_weak() {
        for (tag, weak) in [
            ("\"a\"", Some("W/\"a\"")),
            ("\"\"", Some("W/\"\"")),
            ("W/\"a\"", None),
            ("a", None),
            ("\"", None),
            ("", None),
        ] {
            assert_eq!(weak_tag(tag.as_bytes()).as_deref(), weak.map(str::as_bytes), "{tag}");
        }
    }

    #[test]
    fn a_client_that_has_the_weak_form_alone_is_found() {
        for (list, found) in [
            ("W/\"a\"", true),
            ("W/\"b\", W/\"a\"", true),
            ("\"b\", W/\"a\"", true),
            ("\"a\"", false),
            ("W/\"a\", \"a\"", false),
            ("W/\"ab\"", false),
            ("*", false),
            ("", false),
        ] {
            assert_eq!(has_weak_form_alone(list.as_bytes(), b"\"a\""), found, "{list}");
        }
        assert!(!has_weak_form_alone(b"W/\"a\"", b"W/\"a\""));
    }
}
