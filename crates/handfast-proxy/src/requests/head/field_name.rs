//! Names of fields, as backends read them.

/// Returns true if two field names are the same to programs that read an underscore as `-` (CGI, WSGI).
pub(crate) fn is_same_field(one: &[u8], other: &[u8]) -> bool {
    let plain = |byte: &u8| if *byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
    one.len() == other.len() && one.iter().map(plain).eq(other.iter().map(plain))
}
