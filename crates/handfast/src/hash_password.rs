//! `handfast hash-password`: a line for the file of `basic-auth`.
//!
//! In: a name, and a password from the terminal, without echo and twice, or from standard input, once. Out: `name:hash` on standard
//! output. The password is in no message and on no command line.

use std::io::{self, IsTerminal as _, Read, Write as _};
use std::process::ExitCode;

use handfast_proxy::{PasswordLineError, password_line};
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};
use zeroize::Zeroizing;

use crate::talk::{self, print};
use crate::words::hash_password::HashPasswordWords;

/// Bytes of a password that are read.
const MAX_BYTES: u64 = 1024;
/// Keys of a terminal without line editing.
const CTRL_C: u8 = 0x03;
const CTRL_D: u8 = 0x04;
const BACKSPACE: u8 = 0x08;
const CTRL_U: u8 = 0x15;
const DELETE: u8 = 0x7f;

/// Reason why there is no line.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("read the password: {0}")]
    Read(#[from] io::Error),
    #[error("read the password: cancelled")]
    Cancelled,
    #[error("read the password: it has more than {MAX_BYTES} bytes")]
    TooLong,
    #[error("read the password: standard input has more than one line")]
    SeveralLines,
    #[error("read the password: it is not UTF-8 text")]
    NotUtf8,
    #[error("the two passwords differ; nothing was written")]
    Differ,
    #[error(transparent)]
    Line(#[from] PasswordLineError),
}

/// Reads a password, and prints the line.
pub(crate) fn hash_password(words: &HashPasswordWords) -> ExitCode {
    let line = read().and_then(|password| Ok(password_line(&words.user, &password)?));
    match line {
        Ok(line) => print(&format!("{line}\n"), true),
        Err(failure) => {
            talk::err(&format!("error: {failure}"));
            ExitCode::from(2)
        }
    }
}

fn read() -> Result<Zeroizing<String>, Failure> {
    if !io::stdin().is_terminal() {
        return from_input(io::stdin().lock());
    }
    let terminal = Silent::start()?;
    let first = terminal.read_line("Password: ")?;
    let second = terminal.read_line("The same password again: ")?;
    if first == second { text(first) } else { Err(Failure::Differ) }
}

/// The one line of standard input.
fn from_input(input: impl Read) -> Result<Zeroizing<String>, Failure> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(MAX_BYTES as usize + 2));
    // One more than is allowed, and a newline.
    input.take(MAX_BYTES + 2).read_to_end(&mut bytes)?;
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
    }
    if bytes.contains(&b'\n') {
        return Err(Failure::SeveralLines);
    }
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Failure::TooLong);
    }
    text(bytes)
}

fn text(bytes: Zeroizing<Vec<u8>>) -> Result<Zeroizing<String>, Failure> {
    let text = str::from_utf8(&bytes).map_err(|_| Failure::NotUtf8)?;
    Ok(Zeroizing::new(text.to_owned()))
}

/// A terminal that does not show what is typed, until this is dropped. It sends keys at once, so that Ctrl-C cannot leave it silent.
struct Silent {
    before: Termios,
}

impl Silent {
    fn start() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut silent = before.clone();
        silent.local_modes -= LocalModes::ECHO | LocalModes::ECHONL | LocalModes::ICANON | LocalModes::ISIG;
        silent.special_codes[SpecialCodeIndex::VMIN] = 1;
        silent.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(io::stdin(), OptionalActions::Flush, &silent)?;
        Ok(Self { before })
    }

    /// Shows a prompt, and reads a line.
    fn read_line(&self, prompt: &str) -> Result<Zeroizing<Vec<u8>>, Failure> {
        let mut screen = io::stderr();
        let _ = write!(screen, "{prompt}");
        let line = typed_line(&mut io::stdin().lock().bytes());
        let _ = writeln!(screen);
        line
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &self.before);
    }
}

/// A line of keys.
fn typed_line(keys: &mut dyn Iterator<Item = io::Result<u8>>) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let mut line = Zeroizing::new(Vec::with_capacity(MAX_BYTES as usize + 1));
    for key in keys {
        match key? {
            b'\n' | b'\r' => return Ok(line),
            CTRL_C => return Err(Failure::Cancelled),
            CTRL_D if line.is_empty() => return Err(Failure::Cancelled),
            CTRL_U => line.clear(),
            BACKSPACE | DELETE => {
                // The last character, whose first byte is no continuation.
                let is_continuation = |byte: u8| byte & 0b1100_0000 == 0b1000_0000;
                while line.pop().is_some_and(is_continuation) {}
            }
            byte if line.len() as u64 == MAX_BYTES => {
                let _ = byte;
                return Err(Failure::TooLong);
            }
            byte => line.push(byte),
        }
    }
    Err(Failure::Cancelled)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(keys: &[u8]) -> Result<String, String> {
        let line = typed_line(&mut keys.iter().map(|key| Ok(*key))).map_err(|failure| failure.to_string())?;
        Ok(String::from_utf8(line.to_vec()).expect("a test types text"))
    }

    #[test]
    fn keys_edit_the_line() {
        assert_eq!(typed(b"secret\rrest").as_deref(), Ok("secret"));
        assert_eq!(typed("sé\u{7f}x\n".as_bytes()).as_deref(), Ok("sx"), "a character has several bytes");
        assert_eq!(typed(b"\x7f\x08wrong\x15right\n").as_deref(), Ok("right"));
        for cancelled in [&b"secret\x03"[..], b"\x04", b"no end"] {
            assert_eq!(typed(cancelled), Err("read the password: cancelled".to_owned()));
        }
        let long = [b'x'; MAX_BYTES as usize + 1];
        assert_eq!(typed(&long), Err("read the password: it has more than 1024 bytes".to_owned()));
    }

    #[test]
    fn standard_input_has_one_line() {
        let read = |bytes: &[u8]| {
            from_input(bytes).map(|text| text.to_string()).map_err(|failure| failure.to_string())
        };
        assert_eq!(read(b"secret\n").as_deref(), Ok("secret"));
        assert_eq!(read(b"secret").as_deref(), Ok("secret"));
        assert_eq!(read(b" s \n").as_deref(), Ok(" s "), "spaces belong to it");
        let several = "read the password: standard input has more than one line";
        assert_eq!(read(b"secret\nmore\n"), Err(several.to_owned()));
        assert_eq!(read(b"\xff\n"), Err("read the password: it is not UTF-8 text".to_owned()));
        assert_eq!(read(&[b'x'; 1024]).map(|text| text.len()), Ok(1024));
        assert!(read(&[b'x'; 1025]).is_err());
    }
}
