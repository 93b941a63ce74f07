//! A path as a backend may read it: decoded, without dot segments, empty segments and parameters.
//!
//! In: a path as it was sent. Out: the other path that it may be, for routes that do not take every request. It is forwarded as it was sent.

/// The other way to read a path; `None`: it can be read in one way only.
///
/// It decodes percent signs once, takes a backslash for a slash, cuts parameters (`;x`) off each segment, drops empty segments and `.`, and
/// follows `..` (RFC 3986 §5.2.4). The query is cut off.
pub(crate) fn plain(path: &[u8]) -> Option<Vec<u8>> {
    let path = path.split(|byte| matches!(byte, b'?' | b'#')).next().unwrap_or_default();
    let is_strange = |pair: &[u8]| matches!(pair, [b'/', b'/' | b'.'] | [b'%' | b'\\' | b';', _]);
    if !path.windows(2).any(is_strange) && !matches!(path.last(), Some(b'%' | b'\\' | b';')) {
        return None;
    }
    let decoded = decoded(path);
    let mut segments: Vec<&[u8]> = Vec::new();
    for segment in decoded.split(|byte| matches!(byte, b'/' | b'\\')) {
        match segment.split(|byte| *byte == b';').next().unwrap_or_default() {
            b"" | b"." => {}
            b".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    let mut plain = Vec::with_capacity(decoded.len() + 1);
    for segment in &segments {
        plain.push(b'/');
        plain.extend_from_slice(segment);
    }
    if segments.is_empty() || matches!(decoded.last(), Some(b'/' | b'\\')) {
        plain.push(b'/');
    }
    Some(plain)
}

fn decoded(path: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(path.len());
    let mut rest = path;
    while let [first, after @ ..] = rest {
        let digits = (*first == b'%').then(|| after.get(..2)).flatten();
        let byte = digits.and_then(|digits| u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok());
        decoded.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_can_be_read_in_two_ways_has_its_other_form() {
        for (path, expected) in [
            ("/%61dmin", "/admin"),
            ("/a/../admin", "/admin"),
            ("/a/%2e%2E/admin/", "/admin/"),
            ("//admin", "/admin"),
            ("/./admin", "/admin"),
            ("/a%2f..%2fadmin?x=/..", "/admin"),
            ("/a\\..\\admin", "/admin"),
            ("/a/..%5cadmin", "/admin"),
            ("/admin;x=1/b", "/admin/b"),
            ("/admin;", "/admin"),
            ("/a/..;/admin", "/admin"),
            ("/../../admin", "/admin"),
            ("/%zzadmin%", "/%zzadmin%"),
            ("/..", "/"),
            ("/.", "/"),
        ] {
            assert_eq!(plain(path.as_bytes()).as_deref().map(str::from_utf8), Some(Ok(expected)), "{path}");
        }
        for path in ["/", "/admin", "/admin/", "/a.b/c..d?x=%2f//..", "*", ""] {
            assert_eq!(plain(path.as_bytes()), None, "{path}");
        }
    }
}
