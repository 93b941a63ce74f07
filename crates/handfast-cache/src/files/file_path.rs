//! The file that a target names: percent signs decoded once, and no part that could lead elsewhere.

use std::fmt;

/// Path of a file below a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePath {
    /// Parts joined by `/`, without one at the beginning; a folder has one at its end. Empty: the folder itself.
    pub(super) relative: Vec<u8>,
}

/// Reason why a target names no file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAFile {
    /// It does not begin with a slash, as the `*` of OPTIONS.
    NoPath,
    /// Two slashes follow each other: other programs read such a path as another one.
    EmptyPart,
    /// A part begins with a dot: a hidden file, or `..`.
    Hidden,
    /// A percent sign without two hexadecimal digits.
    BadEscape,
    /// A part has an encoded slash or a NUL, which no name has.
    NoName,
}

impl fmt::Display for NotAFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoPath => "its target is no path",
            Self::EmptyPart => "its path has an empty part (`//`)",
            Self::Hidden => "a part of its path begins with a dot",
            Self::BadEscape => "its path has a percent sign without two hexadecimal digits",
            Self::NoName => "its path has an encoded slash or NUL, which no file has in its name",
        })
    }
}

/// The one folder with a dot that is served, as the first part (RFC 8615).
const WELL_KNOWN: &[u8] = b".well-known";

impl FilePath {
    /// Reads a target; the query is ignored.
    ///
    /// **Errors**: the reason why it names no file.
    pub fn parse(target: &[u8]) -> Result<Self, NotAFile> {
        let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
        let path = path.strip_prefix(b"/").ok_or(NotAFile::NoPath)?;
        let mut relative = Vec::with_capacity(path.len());
        let mut parts = path.split(|byte| *byte == b'/').peekable();
        while let Some(part) = parts.next() {
            let (is_first, is_last) = (relative.is_empty(), parts.peek().is_none());
            let start = relative.len();
            decode(part, &mut relative)?;
            match &relative[start..] {
                [] if !is_last => return Err(NotAFile::EmptyPart),
                name if name.contains(&b'/') || name.contains(&0) => return Err(NotAFile::NoName),
                name if name.starts_with(b".") && !(is_first && name == WELL_KNOWN) => {
                    return Err(NotAFile::Hidden);
                }
                _ => {}
            }
            if !is_last {
                relative.push(b'/');
            }
        }
        Ok(Self { relative })
    }

    /// Returns true if it names a folder: it ends with a slash.
    pub fn is_folder(&self) -> bool {
        matches!(self.relative.last(), None | Some(b'/'))
    }
}

/// Decodes percent signs once (RFC 3986 §2.1).
fn decode(mut part: &[u8], out: &mut Vec<u8>) -> Result<(), NotAFile> {
    while let [first, rest @ ..] = part {
        part = rest;
        if *first != b'%' {
            out.push(*first);
            continue;
        }
        let digit = |at: usize| Some(char::from(*rest.get(at)?).to_digit(16)? as u8);
        let byte = digit(0).zip(digit(1)).map(|(high, low)| high << 4 | low);
        out.push(byte.ok_or(NotAFile::BadEscape)?);
        part = &rest[2..];
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_names_one_file_or_none() {
        let named = |path: &str| Ok(path.as_bytes().to_vec());
        for (target, expected) in [
            ("/", named("")),
            ("/a.css", named("a.css")),
            ("/a/b/", named("a/b/")),
            ("/a%20b?x=/../..", named("a b")),
            ("/%61", named("a")),
            ("/%2561", named("%61")),
            ("/a\\b", named("a\\b")),
            ("/a..b/c.", named("a..b/c.")),
            ("/.well-known/security.txt", named(".well-known/security.txt")),
            ("/%2Ewell-known/x", named(".well-known/x")),
            ("/a/.well-known/x", Err(NotAFile::Hidden)),
            ("/.well-known/.x", Err(NotAFile::Hidden)),
            ("/.well-known2/x", Err(NotAFile::Hidden)),
            ("/.git/config", Err(NotAFile::Hidden)),
            ("/..", Err(NotAFile::Hidden)),
            ("/a/../b", Err(NotAFile::Hidden)),
            ("/a/./b", Err(NotAFile::Hidden)),
            ("/%2e%2e/b", Err(NotAFile::Hidden)),
            ("/a/.%2E", Err(NotAFile::Hidden)),
            ("/a%2fb", Err(NotAFile::NoName)),
            ("/..%2f..%2fetc", Err(NotAFile::NoName)),
            ("/a%00", Err(NotAFile::NoName)),
            ("//a", Err(NotAFile::EmptyPart)),
            ("/a//b", Err(NotAFile::EmptyPart)),
            ("/a//", Err(NotAFile::EmptyPart)),
            ("/a%", Err(NotAFile::BadEscape)),
            ("/a%2", Err(NotAFile::BadEscape)),
            ("/a%zz", Err(NotAFile::BadEscape)),
            ("/a%+1", Err(NotAFile::BadEscape)),
            ("*", Err(NotAFile::NoPath)),
            ("", Err(NotAFile::NoPath)),
        ] {
            let found = FilePath::parse(target.as_bytes()).map(|path| path.relative);
            assert_eq!(found, expected, "{target}");
        }
    }
}
