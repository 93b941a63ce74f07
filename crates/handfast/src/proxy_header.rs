//! `handfast proxy-header`: bytes in, an explanation of a PROXY header out, or exactly what is wrong with it.
//!
//! In: a file, standard input, hexadecimal digits, or the line of version 1. Out: text or JSON. It uses the parser of
//! the proxy; only the limit of a header's length is that of the format.

mod describe;

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::process::ExitCode;

use handfast_report::ToolError;
use handfast_text::units::counted;
use handfast_wire::proxy_header::{Invalid, Peek, V2_LIMIT, peek};
use serde_json::json;

use crate::load::refused;
use crate::talk;
use crate::talk::print;
use crate::words::proxy_header::ProxyHeaderWords;

/// Most bytes of a file: enough for the longest header as digits with blanks between them.
const MAX_INPUT_BYTES: u64 = 1 << 20;
/// Bytes of the fixed part of version 2.
const FIXED: usize = 16;

/// Runs `handfast proxy-header`.
pub(crate) fn proxy_header(words: &ProxyHeaderWords) -> ExitCode {
    let bytes = match bytes_of(&words.input) {
        Ok(bytes) => bytes,
        Err(error) => return refused(&ToolError::wrong_use(format!("proxy-header: {error}"))),
    };
    let bad = match peek(&bytes, usize::MAX) {
        Peek::Complete(header) if words.json => {
            return print(&format!("{}\n", describe::json(&header, &bytes)), true);
        }
        Peek::Complete(header) => return print(&describe::text(&header, &bytes), true),
        Peek::Incomplete => Bad::NotWhole(&bytes),
        Peek::Absent => Bad::Absent { differs_at: 1 + of_signature(&bytes) },
        Peek::Invalid(invalid) => Bad::Invalid(invalid),
    };
    if words.json {
        print(&format!("{}\n", json!({ "error": bad.to_string() })), true);
    } else {
        talk::err(&format!("handfast: proxy-header: {bad}"));
    }
    ExitCode::from(1)
}

/// Reason why bytes contain no header.
enum Bad<'a> {
    NotWhole(&'a [u8]),
    /// The first byte that is in neither signature, counted from 1.
    Absent {
        differs_at: usize,
    },
    Invalid(Invalid),
}

impl fmt::Display for Bad<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotWhole(bytes) => {
                let came = counted(bytes.len() as u64, "byte");
                match bytes.get(14..FIXED) {
                    Some(&[high, low]) if bytes[0] == b'\r' => {
                        let announced = FIXED + usize::from(u16::from_be_bytes([high, low]));
                        write!(f, "the header is incomplete: {came} came, {announced} are announced")
                    }
                    _ => write!(f, "the header is incomplete: {came} came, valid so far"),
                }
            }
            // The bytes themselves can be those of a key, if the file is another one than was meant.
            Self::Absent { differs_at } => write!(
                f,
                "no PROXY header: byte {differs_at} is wrong, expected `PROXY ` (version 1) or \
                 0d 0a 0d 0a 00 0d 0a 51 55 49 54 0a (version 2)"
            ),
            Self::Invalid(invalid) => write!(f, "not a valid PROXY header: {invalid}"),
        }
    }
}

/// Returns the number of bytes that agree with the signature of one of the versions.
fn of_signature(bytes: &[u8]) -> usize {
    let common = |signature: &[u8]| {
        bytes.iter().zip(signature).take_while(|(byte, expected)| byte == expected).count()
    };
    common(b"PROXY ").max(common(b"\r\n\r\n\0\r\nQUIT\n"))
}

/// Reason why there are no bytes to parse.
#[derive(Debug)]
enum NoBytes {
    Io(String, io::Error),
    TooLarge(String),
    /// Several arguments that are neither digits nor a line.
    Words(String),
}

impl fmt::Display for NoBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(name, error) => write!(f, "read {name}: {error}"),
            Self::TooLarge(name) => write!(f, "read {name}: larger than 1 MiB, which no header is"),
            Self::Words(words) => {
                write!(f, "`{words}` is neither hexadecimal digits nor a line that begins with PROXY")
            }
        }
    }
}

fn bytes_of(input: &[String]) -> Result<Vec<u8>, NoBytes> {
    let joined = input.join(" ");
    match input {
        [one] if one == "-" => read("standard input", io::stdin().lock()),
        // The argument has no line end.
        [first, ..] if first == "PROXY" || first.starts_with("PROXY ") => {
            Ok(format!("{}\r\n", joined.trim_end()).into_bytes())
        }
        [one] => match digits(one.as_bytes()) {
            Some(bytes) => Ok(bytes),
            None => read(one, File::open(one).map_err(|error| NoBytes::Io(one.clone(), error))?),
        },
        _ => digits(joined.as_bytes()).ok_or(NoBytes::Words(joined)),
    }
}

/// The bytes of a file, or those that its digits encode.
fn read(name: &str, file: impl Read) -> Result<Vec<u8>, NoBytes> {
    let mut bytes = Vec::new();
    let read = file.take(MAX_INPUT_BYTES + 1).read_to_end(&mut bytes);
    if read.map_err(|error| NoBytes::Io(name.to_owned(), error))? as u64 > MAX_INPUT_BYTES {
        return Err(NoBytes::TooLarge(name.to_owned()));
    }
    match peek(&bytes, V2_LIMIT) {
        Peek::Absent => Ok(digits(&bytes).unwrap_or(bytes)),
        _ => Ok(bytes),
    }
}

/// Decodes hexadecimal digits; `None` when there are other characters, no digits, or an odd number of them.
fn digits(text: &[u8]) -> Option<Vec<u8>> {
    let text = str::from_utf8(text).ok()?.replace("0x", "").replace("\\x", "");
    let digits: Vec<u8> = text
        .chars()
        .filter(|character| !character.is_ascii_whitespace() && !matches!(character, ',' | ':'))
        .map(|character| character.to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
        .collect::<Option<_>>()?;
    let (pairs, rest) = digits.as_chunks::<2>();
    (rest.is_empty() && !pairs.is_empty()).then(|| pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn input(words: &[&str]) -> Result<Vec<u8>, String> {
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        bytes_of(&words).map_err(|error| error.to_string())
    }

    #[test]
    fn digits_may_be_written_in_any_way() {
        for words in [&["0d0a00ff"][..], &["0D:0A", "00,ff"], &["0x0d0x0a", "\\x00\\xff"]] {
            assert_eq!(input(words), Ok(vec![13, 10, 0, 255]), "{words:?}");
        }
        let line = "PROXY TCP4 192.0.2.7 192.0.2.8 40000 443";
        let typed: Vec<&str> = line.split(' ').collect();
        assert_eq!(input(&typed), Ok(format!("{line}\r\n").into_bytes()));
        assert_eq!(input(&[line]), Ok(format!("{line}\r\n").into_bytes()));
        let wrong = input(&["0d0", "0a"]).map(|_| ());
        assert_eq!(
            wrong,
            Err("`0d0 0a` is neither hexadecimal digits nor a line that begins with PROXY".into())
        );
    }

    #[test]
    fn a_file_holds_bytes_or_digits() {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        let path = file.path().to_str().expect("text").to_owned();
        file.write_all(b"PROXY UNKNOWN\r\n").expect("written");
        assert_eq!(input(&[&path]), Ok(b"PROXY UNKNOWN\r\n".to_vec()));
        file.as_file().set_len(0).expect("emptied");
        let mut file = File::create(&path).expect("opened");
        file.write_all(b"0d0a 0d0a\n").expect("written");
        assert_eq!(input(&[&path]), Ok(b"\r\n\r\n".to_vec()));
        assert!(input(&["/none/here"]).expect_err("there is none").starts_with("read /none/here: No such"));
    }

    #[test]
    fn what_is_no_header_is_reported_exactly() {
        let block = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\x01";
        let message = Bad::NotWhole(block).to_string();
        assert_eq!(message, "the header is incomplete: 17 bytes came, 28 are announced");
        let message = Bad::NotWhole(b"PROXY TCP4").to_string();
        assert_eq!(message, "the header is incomplete: 10 bytes came, valid so far");
        assert_eq!([&b"\x16\x03"[..], b"PROXY-", b"\r\n\r\n\n"].map(of_signature), [0, 5, 4]);
        let message = Bad::Absent { differs_at: 6 }.to_string();
        assert!(message.starts_with("no PROXY header: byte 6 is wrong, expected"), "{message}");
    }
}
