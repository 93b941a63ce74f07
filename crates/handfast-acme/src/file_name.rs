//! Names of files.

/// The URL of a directory as the name of a file.
pub(crate) fn directory_stem(directory: &str) -> String {
    let mut name = String::new();
    for byte in directory.bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-' => name.push(byte.into()),
            _ => name.push_str(&format!("_{byte:02x}")),
        }
    }
    name
}
