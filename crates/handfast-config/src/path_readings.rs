//! The ways in which servers read a path.
//!
//! In: a path as it is forwarded. Out: the other paths that a server may take it for, so that a rule about paths can look at all of them.
//!
//! Servers differ in what they decode, merge, remove and cut. Each difference is one [`STEPS`] entry; a reading is the result of any steps in any
//! order. The test of the table runs real servers (`scripts/path-readings`).

/// Bytes that all readings of one path may have. It bounds the time: each is compared with those before it. With four times as many, a path of
/// a kilobyte took 10 ms in a program with few optimisations.
const MAX_BYTES: usize = 64 * 1024;

/// A path with more readings than are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyReadings;

type Step = fn(&[u8]) -> Vec<u8>;

/// The steps of servers, in any order and number.
const STEPS: [Step; 8] = [
    decoded,
    decoded_except_slashes,
    without_dot_segments,
    with_merged_slashes,
    without_parameters,
    with_backslashes_as_slashes,
    without_authority,
    until_end_mark,
];

/// Returns the other readings of a path, without its query; empty for nearly all paths.
///
/// **Errors**: there are more than `limit`, or they are too long together; the caller must refuse the request where a rule depends on it.
/// **Cost**: one look at each byte of an ordinary path, without allocation; for others at most [`MAX_BYTES`] bytes for each step.
pub fn path_readings(target: &[u8], limit: usize) -> Result<Vec<Vec<u8>>, TooManyReadings> {
    let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
    if has_one_reading(path) {
        return Ok(Vec::new());
    }
    let mut readings = vec![path.to_vec()];
    let (mut next, mut bytes) = (0, path.len());
    while next < readings.len() {
        for step in STEPS {
            let reading = step(&readings[next]);
            if readings.contains(&reading) {
                continue;
            }
            bytes += reading.len();
            if readings.len() > limit || bytes > MAX_BYTES {
                return Err(TooManyReadings);
            }
            readings.push(reading);
        }
        next += 1;
    }
    readings.swap_remove(0);
    Ok(readings)
}

fn has_one_reading(path: &[u8]) -> bool {
    let is_special = |pair: &[u8]| matches!(pair, [b'/', b'/' | b'.'] | [b'%' | b'\\' | b';', _]);
    !path.starts_with(b"/")
        || !path.windows(2).any(is_special) && !matches!(path.last(), Some(b'%' | b'\\' | b';'))
}

/// Percent signs decoded once (RFC 3986 §2.1), as in most servers.
pub(crate) fn decoded(path: &[u8]) -> Vec<u8> {
    decode(path, |_| true)
}

/// As Go, Jetty and Tomcat keep `%2F` in a segment.
pub(crate) fn decoded_except_slashes(path: &[u8]) -> Vec<u8> {
    decode(path, |byte| !matches!(byte, b'/' | b'\\'))
}

/// Digits that are not hexadecimal stay as they are.
fn decode(path: &[u8], is_decoded: impl Fn(u8) -> bool) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(path.len());
    let mut rest = path;
    while let [first, after @ ..] = rest {
        let digits = (*first == b'%').then(|| after.get(..2)).flatten();
        let digits = digits.filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let byte = digits.and_then(|digits| u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok());
        let byte = byte.filter(|byte| is_decoded(*byte));
        decoded.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    decoded
}

/// RFC 3986 §5.2.4.
fn without_dot_segments(path: &[u8]) -> Vec<u8> {
    let mut kept: Vec<&[u8]> = Vec::new();
    let mut segments = path.split(|byte| *byte == b'/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        match segment {
            b"." => {}
            b".." => drop(kept.pop()),
            segment => {
                kept.push(segment);
                continue;
            }
        }
        if segments.peek().is_none() {
            kept.push(b"");
        }
    }
    let mut out = Vec::with_capacity(path.len());
    for segment in kept {
        out.push(b'/');
        out.extend_from_slice(segment);
    }
    if out.is_empty() {
        out.push(b'/');
    }
    out
}

/// As nginx, Apache and Go merge them.
fn with_merged_slashes(path: &[u8]) -> Vec<u8> {
    let mut out = path.to_vec();
    out.dedup_by(|one, before| *one == b'/' && *before == b'/');
    out
}

/// As servlet containers cut `;x=1` off each segment.
fn without_parameters(path: &[u8]) -> Vec<u8> {
    let mut is_parameter = false;
    let mut out = Vec::with_capacity(path.len());
    for byte in path {
        is_parameter = *byte == b';' || is_parameter && *byte != b'/';
        if !is_parameter {
            out.push(*byte);
        }
    }
    out
}

/// As Windows and the URL standard of browsers (Node's `URL`) take them.
fn with_backslashes_as_slashes(path: &[u8]) -> Vec<u8> {
    path.iter().map(|byte| if *byte == b'\\' { b'/' } else { *byte }).collect()
}

/// As libraries for URLs take `//x/a`: a host and a path (RFC 3986 §4.2). Node's `URL` skips any number of slashes.
fn without_authority(path: &[u8]) -> Vec<u8> {
    let slashes = path.iter().take_while(|byte| **byte == b'/').count();
    if slashes < 2 {
        return path.to_vec();
    }
    let rest = &path[slashes..];
    rest.iter().position(|byte| *byte == b'/').map_or_else(|| b"/".to_vec(), |at| rest[at..].to_vec())
}

/// As programs in C cut at a zero byte, and others at a question mark or `#` that was decoded too early.
fn until_end_mark(path: &[u8]) -> Vec<u8> {
    path.split(|byte| matches!(byte, b'?' | b'#' | 0)).next().unwrap_or_default().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readings(path: &str) -> Vec<String> {
        let readings = path_readings(path.as_bytes(), 256).expect("a few");
        readings.iter().map(|reading| String::from_utf8_lossy(reading).into_owned()).collect()
    }

    #[test]
    fn every_way_to_write_a_path_has_it_among_its_readings() {
        for path in [
            "/%61dmin",
            "/%2561dmin",
            "/a/../admin",
            "/a/%2e%2E/admin",
            "//admin",
            "/./admin",
            "/a%2f..%2fadmin?x=/..",
            "/a\\..\\admin",
            "/a/..%5cadmin",
            "/%5cadmin",
            "/admin;x=1",
            "/;x/admin",
            "/a/..;/admin",
            "/a/..;x=1/%61dmin;y",
            "/../../admin",
            "//x/admin",
            "///x//admin",
            "/\\x/admin",
            "/%2fx/admin",
            "/x%2fy/../%61dmin",
            "/x%2fy/%2e%2e/admin",
            "/a//../admin",
            "/admin%00.css",
            "/admin%3fx",
            "/admin%23",
            "/admin%2523",
        ] {
            assert!(readings(path).iter().any(|reading| reading == "/admin"), "{path}: {:?}", readings(path));
        }
    }

    #[test]
    fn ordinary_paths_have_one_reading() {
        for path in ["/", "/admin", "/admin/", "/a.b/c..d?x=%2f//..;\\", "*", "", "/~user/:x@y/!$&'()*+,="] {
            assert_eq!(readings(path), [""; 0], "{path}");
        }
    }

    #[test]
    fn what_is_no_escape_stays_as_it_is() {
        assert_eq!(readings("/%zzadmin%"), [""; 0]);
        assert_eq!(readings("/%+1"), [""; 0], "a sign is no digit");
        assert!(readings("/a/..").contains(&"/".to_owned()));
        assert!(readings("/a/b/..").contains(&"/a/".to_owned()));
    }

    #[test]
    fn no_path_has_readings_without_a_bound() {
        let long = format!("/{}", "a/..;/%2e%2e/\\//".repeat(1_000));
        assert_eq!(path_readings(long.as_bytes(), 256), Err(TooManyReadings));
        assert_eq!(path_readings(b"/%2525252525", 3), Err(TooManyReadings));
        let nested = format!("/%{}2e", "25".repeat(300));
        assert_eq!(path_readings(nested.as_bytes(), 256), Err(TooManyReadings));
    }
}
