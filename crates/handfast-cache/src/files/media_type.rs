//! The media type of a file, by the end of its name.

/// Type of content of which nothing is known.
const UNKNOWN: &str = "application/octet-stream";

/// Returns the value of `Content-Type` for a file with this name. Text is in UTF-8.
pub fn media_type(name: &[u8]) -> String {
    let extension = name.rsplit(|byte| matches!(byte, b'.' | b'/')).next().unwrap_or_default();
    let has_extension = extension.len() < name.len() && name[name.len() - extension.len() - 1] == b'.';
    let extension = str::from_utf8(extension).ok().filter(|_| has_extension);
    let guessed = extension.and_then(|extension| mime_guess::from_ext(extension).first_raw());
    match guessed.unwrap_or(UNKNOWN) {
        // RFC 9239 §3: an old name.
        "application/javascript" => "text/javascript; charset=utf-8".to_owned(),
        text if text.starts_with("text/") => format!("{text}; charset=utf-8"),
        other => other.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_name_gives_the_type() {
        for (name, expected) in [
            ("index.html", "text/html; charset=utf-8"),
            ("a/b.CSS", "text/css; charset=utf-8"),
            ("app.js", "text/javascript; charset=utf-8"),
            ("app.mjs", "text/javascript; charset=utf-8"),
            ("data.json", "application/json"),
            ("site.webmanifest", "application/manifest+json"),
            ("logo.svg", "image/svg+xml"),
            ("photo.webp", "image/webp"),
            ("photo.avif", "image/avif"),
            ("font.woff2", "font/woff2"),
            ("module.wasm", "application/wasm"),
            ("a.tar.gz", "application/gzip"),
            ("a.pdf", "application/pdf"),
            ("README", UNKNOWN),
            ("html", UNKNOWN),
            ("a.b/c", UNKNOWN),
            ("a.unknown-end", UNKNOWN),
            ("", UNKNOWN),
        ] {
            assert_eq!(media_type(name.as_bytes()), expected, "{name}");
        }
        assert_eq!(media_type(b"a.\xff"), UNKNOWN);
    }
}
