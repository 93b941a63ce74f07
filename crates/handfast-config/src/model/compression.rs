//! Compression of responses.
//!
//! Made by `kind/compression.rs`, run by `handfast-proxy/src/requests/decide/compression.rs`.

use handfast_http::content_coding::ContentCoding;

/// Compression of the responses of a service, or of a route (`compression`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compression {
    /// Codings with their levels, best first.
    pub codings: Vec<(ContentCoding, u8)>,
    /// Types of content that are compressed.
    pub types: MediaRanges,
    /// Fewest bytes that are compressed, where their number is known.
    pub min_size: u64,
    /// True if responses that may have secrets are compressed.
    pub with_secrets: bool,
}

/// Compression as a route has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RouteCompression {
    /// That of its service.
    #[default]
    Inherit,
    /// None.
    Off,
    /// That of its service, or by default where that has none.
    On,
    /// Its own.
    Own(Compression),
}

impl RouteCompression {
    /// Returns the settings for the responses of a route, or of the service itself (`of_service`: `None`).
    pub fn resolve(&self, of_service: Option<&Compression>) -> Option<Compression> {
        match self {
            Self::Inherit => of_service.cloned(),
            Self::Off => None,
            Self::On => Some(of_service.cloned().unwrap_or_default()),
            Self::Own(own) => Some(own.clone()),
        }
    }
}

impl Default for Compression {
    fn default() -> Self {
        Self {
            codings: DEFAULT_LEVELS.to_vec(),
            types: DEFAULT_TYPES.into_iter().collect(),
            min_size: 1024,
            with_secrets: false,
        }
    }
}

/// Codings and levels by default.
const DEFAULT_LEVELS: [(ContentCoding, u8); 3] =
    [(ContentCoding::Zstd, 3), (ContentCoding::Brotli, 4), (ContentCoding::Gzip, 5)];

/// Types that are compressed by default.
pub(crate) const DEFAULT_TYPES: [&str; 15] = [
    "text/*",
    "application/json",
    "application/*+json",
    "application/javascript",
    "application/ecmascript",
    "application/xml",
    "application/*+xml",
    "application/wasm",
    "application/vnd.ms-fontobject",
    "font/ttf",
    "font/otf",
    "image/svg+xml",
    "image/bmp",
    "image/x-icon",
    "image/vnd.microsoft.icon",
];

/// Ranges of media types, in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediaRanges(Box<[Box<str>]>);

impl MediaRanges {
    /// Returns true if a value of `Content-Type` is in one of them.
    pub fn fit(&self, value: &[u8]) -> bool {
        let essence = value.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        self.0.iter().any(|range| fits(range.as_bytes(), essence))
    }

    /// As they are written.
    pub fn written(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(AsRef::as_ref)
    }
}

impl<T: Into<Box<str>>> FromIterator<T> for MediaRanges {
    fn from_iter<I: IntoIterator<Item = T>>(ranges: I) -> Self {
        Self(ranges.into_iter().map(Into::into).collect())
    }
}

fn fits(range: &[u8], essence: &[u8]) -> bool {
    let parts = range.iter().position(|byte| *byte == b'*').map(|at| (&range[..at], &range[at + 1..]));
    match parts {
        None => essence.eq_ignore_ascii_case(range),
        Some((b"", _)) => essence.contains(&b'/'),
        Some((start, end)) => {
            essence.len() > start.len() + end.len()
                && essence[..start.len()].eq_ignore_ascii_case(start)
                && essence[essence.len() - end.len()..].eq_ignore_ascii_case(end)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_inherits_what_it_does_not_set() {
        let of_service = Compression { min_size: 7, ..Compression::default() };
        let own = Compression { min_size: 9, ..Compression::default() };
        let size = |route: RouteCompression, of_service| {
            route.resolve(of_service).map(|compression| compression.min_size)
        };
        assert_eq!(size(RouteCompression::Inherit, None), None);
        assert_eq!(size(RouteCompression::Inherit, Some(&of_service)), Some(7));
        assert_eq!(size(RouteCompression::Off, Some(&of_service)), None);
        assert_eq!(size(RouteCompression::On, None), Some(1024));
        assert_eq!(size(RouteCompression::On, Some(&of_service)), Some(7));
        assert_eq!(size(RouteCompression::Own(own), Some(&of_service)), Some(9));
    }

    #[test]
    fn ranges_fit_types_without_parameters() {
        let ranges = MediaRanges::from_iter(["text/*", "application/json", "application/*+json"]);
        for (value, fit) in [
            ("text/html", true),
            ("text/html; charset=utf-8", true),
            ("Text/HTML;charset=utf-8", true),
            ("text/", false),
            ("text", false),
            ("application/json", true),
            (" application/json ; a=b", true),
            ("application/jsonl", false),
            ("application/problem+JSON", true),
            ("application/+json", false),
            ("application/x+json+zip", false),
            ("image/png", false),
            ("", false),
        ] {
            assert_eq!(ranges.fit(value.as_bytes()), fit, "{value}");
        }
        let all = MediaRanges::from_iter(["*/*"]);
        assert!(all.fit(b"image/png") && !all.fit(b"image"));
    }

    #[test]
    fn what_is_compressed_already_is_not_compressed_by_default() {
        let ranges = MediaRanges::from_iter(DEFAULT_TYPES);
        for (value, fit) in [
            ("text/event-stream", true),
            ("application/ld+json", true),
            ("application/manifest+json", true),
            ("application/xhtml+xml", true),
            ("application/rss+xml", true),
            ("text/javascript", true),
            ("image/svg+xml", true),
            ("font/ttf", true),
            ("font/woff", false),
            ("font/woff2", false),
            ("image/png", false),
            ("image/avif", false),
            ("video/mp4", false),
            ("application/zip", false),
            ("application/gzip", false),
            ("application/pdf", false),
            ("application/octet-stream", false),
            ("application/grpc", false),
            ("multipart/byteranges; boundary=a", false),
        ] {
            assert_eq!(ranges.fit(value.as_bytes()), fit, "{value}");
        }
    }
}
