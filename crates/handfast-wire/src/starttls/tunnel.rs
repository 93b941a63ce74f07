//! A way through a proxy: HTTP CONNECT and SOCKS5, as their client.
//!
//! In: the destination, and the credentials. Out: bytes to send, and when the tunnel is open. Unlike before TLS, bytes behind a proxy's
//! last message are the server's and are kept: it may greet first.
//!
//! **Source**: RFC 9110 §9.3.6 (CONNECT), RFC 7617 (Basic), RFC 1928 (SOCKS5), RFC 1929 (user and password).

use std::fmt;
use std::net::IpAddr;

use super::inbox::Inbox;
use super::problem::Problem;
use super::protocol::is_safe_name;
use super::{Progress, UNIT_LIMIT};

/// Credentials for a proxy.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// 1 to 255 bytes, without a colon.
    pub user: Box<str>,
    /// 1 to 255 bytes.
    pub password: Box<str>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

impl Credentials {
    /// `None` where a field is empty or longer than SOCKS5 has room for, the user has a colon, or either has a control character.
    pub fn new(user: &str, password: &str) -> Option<Self> {
        let fits = |text: &str| (1..=255).contains(&text.len()) && !text.chars().any(char::is_control);
        (fits(user) && fits(password) && !user.contains(':'))
            .then(|| Self { user: user.into(), password: password.into() })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Http,
    Method,
    Password,
    Reply,
}

/// Asks a proxy for a way to a server.
#[derive(Debug)]
pub struct Tunnel {
    host: Box<str>,
    port: u16,
    credentials: Option<Credentials>,
    inbox: Inbox,
    stage: Stage,
}

impl Tunnel {
    /// Through an HTTP proxy, by CONNECT. `host`: a name, or an address without brackets. `None` where it cannot be sent safely.
    pub fn http(host: &str, port: u16, credentials: Option<Credentials>) -> Option<Self> {
        Self::new(host, port, credentials, Stage::Http)
    }

    /// Through a SOCKS5 proxy, which looks a name up itself.
    pub fn socks5(host: &str, port: u16, credentials: Option<Credentials>) -> Option<Self> {
        Self::new(host, port, credentials, Stage::Method)
    }

    fn new(host: &str, port: u16, credentials: Option<Credentials>, stage: Stage) -> Option<Self> {
        let inbox = Inbox::default();
        is_safe_name(host).then(|| Self { host: host.into(), port, credentials, inbox, stage })
    }

    /// Writes the first message.
    pub fn begin(&mut self, words: &mut Vec<u8>) {
        match (self.stage, &self.credentials) {
            (Stage::Http, _) => self.write_connect(words),
            // No authentication, and user and password where we have them (RFC 1928 §3).
            (_, Some(_)) => words.extend_from_slice(&[5, 2, 0, 2]),
            (_, None) => words.extend_from_slice(&[5, 1, 0]),
        }
    }

    /// Takes the proxy's bytes; appends the next message to `words`.
    ///
    /// **Errors**: why there is no tunnel; nothing may be taken in after that.
    pub fn take(&mut self, bytes: &[u8], words: &mut Vec<u8>) -> Result<Progress, Problem> {
        self.inbox.push(bytes);
        let progress = match self.stage {
            Stage::Http => self.read_http_reply()?,
            _ => self.read_socks_reply(words)?,
        };
        match progress {
            Progress::More => self.inbox.settle(progress),
            _ => Ok(progress),
        }
    }

    /// Returns the server's first bytes, once the tunnel is open.
    pub fn into_received(self) -> Vec<u8> {
        self.inbox.into_unread()
    }

    fn write_connect(&self, words: &mut Vec<u8>) {
        let brackets = self.host.contains(':') && !self.host.starts_with('[');
        let host = if brackets { format!("[{}]", self.host) } else { self.host.to_string() };
        let port = self.port;
        let request = format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n");
        words.extend_from_slice(request.as_bytes());
        if let Some(Credentials { user, password }) = &self.credentials {
            let basic = base64(format!("{user}:{password}").as_bytes());
            words.extend_from_slice(format!("Proxy-Authorization: Basic {basic}\r\n").as_bytes());
        }
        words.extend_from_slice(b"\r\n");
    }

    /// Reads heads until one is final. A 2xx has no body, whatever its fields are (RFC 9110 §9.3.6).
    fn read_http_reply(&mut self) -> Result<Progress, Problem> {
        while let Some(length) = head_length(self.inbox.unread()) {
            let head = self.inbox.take(length)?;
            let line = head.split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
            match status_class(line) {
                Some(b'2') => return Ok(Progress::Ready),
                Some(b'1') => {}
                Some(_) => return Err(Problem::refused(line)),
                None => return Err(Problem::unexpected("a status line of HTTP/1.1", line)),
            }
        }
        let unread = self.inbox.unread();
        let start = &unread[..unread.len().min(7)];
        if !b"HTTP/1.".starts_with(start) {
            return Err(Problem::unexpected("a status line of HTTP/1.1", unread));
        }
        if unread.len() > 2 * UNIT_LIMIT { Err(Problem::UnitTooLong) } else { Ok(Progress::More) }
    }

    fn read_socks_reply(&mut self, words: &mut Vec<u8>) -> Result<Progress, Problem> {
        loop {
            let Some(packet) = self.inbox.packet(|unread| Ok(socks_length(self.stage, unread)))? else {
                return Ok(Progress::More);
            };
            match (self.stage, packet.as_slice()) {
                (Stage::Method, [5, 0]) => self.write_socks_request(words),
                (Stage::Method, [5, 2]) if self.credentials.is_some() => self.give_password(words),
                (Stage::Method, [5, 0xff]) => {
                    return Err(Problem::Refused { message: "no acceptable way to authenticate".into() });
                }
                (Stage::Password, [1, 0]) => self.write_socks_request(words),
                (Stage::Password, [1, _]) => {
                    return Err(Problem::Refused { message: "wrong user or password".into() });
                }
                // By the length of the address it is known where the server's own words begin.
                (Stage::Reply, [5, 0, _, 1 | 3 | 4, ..]) => return Ok(Progress::Ready),
                (Stage::Reply, [5, 0, ..]) => {
                    return Err(Problem::unexpected(
                        "a SOCKS reply with an address of type 1, 3 or 4",
                        &packet,
                    ));
                }
                (Stage::Reply, [5, code, ..]) => {
                    return Err(Problem::Refused { message: socks_reply(*code).into() });
                }
                _ => return Err(Problem::unexpected("SOCKS version 5", &packet)),
            }
            self.inbox.silent()?;
        }
    }

    fn give_password(&mut self, words: &mut Vec<u8>) {
        self.stage = Stage::Password;
        let Some(Credentials { user, password }) = &self.credentials else { return };
        words.push(1);
        for field in [user, password] {
            // `Credentials::new` has seen that it fits.
            words.push(field.len() as u8);
            words.extend_from_slice(field.as_bytes());
        }
    }

    fn write_socks_request(&mut self, words: &mut Vec<u8>) {
        self.stage = Stage::Reply;
        words.extend_from_slice(&[5, 1, 0]);
        match self.host.parse() {
            Ok(IpAddr::V4(address)) => {
                words.push(1);
                words.extend_from_slice(&address.octets());
            }
            Ok(IpAddr::V6(address)) => {
                words.push(4);
                words.extend_from_slice(&address.octets());
            }
            Err(_) => {
                words.extend_from_slice(&[3, self.host.len() as u8]);
                words.extend_from_slice(self.host.as_bytes());
            }
        }
        words.extend_from_slice(&self.port.to_be_bytes());
    }
}

/// The first digit of a status, which decides what it means (RFC 9110 §15). `None` for what is no status line: the status has three digits,
/// and a space or the end behind them (RFC 9112 §4).
fn status_class(line: &[u8]) -> Option<u8> {
    let [minor, b' ', status @ ..] = line.strip_prefix(b"HTTP/1.")? else { return None };
    let (digits, rest) = status.split_first_chunk::<3>()?;
    let is_status = minor.is_ascii_digit()
        && matches!(digits[0], b'1'..=b'5')
        && digits.iter().all(u8::is_ascii_digit)
        && matches!(rest, [] | [b' ', ..]);
    is_status.then_some(digits[0])
}

/// Bytes of a head up to and with its empty line.
fn head_length(unread: &[u8]) -> Option<usize> {
    let ends = |ending: &[u8]| {
        unread.windows(ending.len()).position(|window| window == ending).map(|at| at + ending.len())
    };
    [ends(b"\r\n\r\n"), ends(b"\n\n")].into_iter().flatten().min()
}

/// Bytes of the message at the front, when that is known.
fn socks_length(stage: Stage, unread: &[u8]) -> Option<usize> {
    match (stage, unread) {
        (Stage::Reply, [5, 0, _, 1, ..]) => Some(10),
        (Stage::Reply, [5, 0, _, 4, ..]) => Some(22),
        (Stage::Reply, [5, 0, _, 3, length, ..]) => Some(7 + usize::from(*length)),
        (Stage::Reply, [5, 0, _, 3] | [5, 0] | [5, 0, _] | [5] | []) => None,
        // An address of a type that does not exist.
        (Stage::Reply, [5, 0, _, _, ..]) => Some(4),
        // A refusal, which may end after its code, and what is no reply at all.
        _ => Some(2),
    }
}

/// RFC 1928 §6.
fn socks_reply(code: u8) -> String {
    let words = match code {
        1 => "general failure",
        2 => "not allowed by its rules",
        3 => "network unreachable",
        4 => "host unreachable",
        5 => "connection refused",
        6 => "time to live expired",
        7 => "command not supported",
        8 => "address type not supported",
        _ => return format!("reply {code}"),
    };
    format!("{words} (reply {code})")
}

/// RFC 4648 §4.
pub(crate) fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let bits =
            chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for digit in 0..4 {
            let six = (bits >> (18 - 6 * digit)) & 0x3f;
            text.push(if digit <= chunk.len() { char::from(DIGITS[six as usize]) } else { '=' });
        }
    }
    text
}
