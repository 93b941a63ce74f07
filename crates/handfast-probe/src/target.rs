//! The target: `HOST`, `HOST:PORT`, or a URL.
//!
//! In: the typed text. Out: a [`Target`], or what is wrong with it; then its addresses, and how long resolving them took.

use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use handfast_net::clock::Moment;
use handfast_wire::starttls::Protocol;

use crate::error::{ProbeError, Step};

/// The server to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Name or address, without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// The path of a request, where the target is a URL.
    pub path: Option<String>,
    /// The protocol before TLS.
    pub starttls: Option<Protocol>,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// The port on which a protocol changes to TLS.
const fn usual_port(protocol: Protocol) -> u16 {
    match protocol {
        Protocol::Smtp => 25,
        Protocol::Lmtp => 24,
        Protocol::Imap => 143,
        Protocol::Pop3 => 110,
        Protocol::Nntp => 119,
        Protocol::Ldap => 389,
        Protocol::PostgreSql => 5432,
        Protocol::MySql => 3306,
        Protocol::Xmpp => 5222,
        Protocol::XmppServer => 5269,
    }
}

/// Forms of a target.
pub const FORMS: &str = "HOST, HOST:PORT, [ADDRESS]:PORT or https://HOST[:PORT]/PATH";

/// A text that is no target.
#[derive(Debug, thiserror::Error)]
#[error("target {text:?}: {problem}; expected {FORMS}")]
pub struct TargetError {
    text: String,
    #[source]
    problem: TargetProblem,
}

#[derive(Debug, thiserror::Error)]
enum TargetProblem {
    #[error("{0}:// is not supported")]
    Scheme(String),
    #[error("the path has a space or a control character")]
    Path,
    #[error("the bracket is not closed")]
    Bracket,
    #[error("{0:?} is no port, expected 1 to 65535")]
    Port(String),
    #[error("the host is missing, or has a character that no name has")]
    Host,
    #[error("--starttls and https:// exclude each other")]
    Exclusive,
}

impl Target {
    /// Reads what was typed.
    ///
    /// **Errors**: what is wrong, and what is expected.
    pub fn parse(text: &str, starttls: Option<Protocol>) -> Result<Self, TargetError> {
        let wrong = |problem| TargetError { text: text.to_owned(), problem };
        let (rest, mut path) = match text.split_once("://") {
            None => (text, None),
            Some(("https", rest)) => match rest.split_once(['/', '?']) {
                None => (rest, Some("/".to_owned())),
                Some((host, _)) => (host, Some(rest[host.len()..].to_owned())),
            },
            Some((scheme, _)) => return Err(wrong(TargetProblem::Scheme(scheme.to_owned()))),
        };
        if let Some(path) = path.as_mut().filter(|path| path.starts_with('?')) {
            path.insert(0, '/');
        }
        if path.as_ref().is_some_and(|path| path.bytes().any(|byte| byte <= b' ' || byte == 0x7f)) {
            return Err(wrong(TargetProblem::Path));
        }
        let usual = starttls.map_or(443, usual_port);
        let (host, port) = match rest.strip_prefix('[') {
            Some(rest) => {
                let (host, rest) = rest.split_once(']').ok_or_else(|| wrong(TargetProblem::Bracket))?;
                (host, rest.strip_prefix(':').or((!rest.is_empty()).then_some(rest)))
            }
            None if rest.parse::<IpAddr>().is_ok() => (rest, None),
            None => match rest.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (rest, None),
            },
        };
        let port = match port {
            None => usual,
            Some(port) => match port.parse() {
                Ok(0) | Err(_) => return Err(wrong(TargetProblem::Port(port.to_owned()))),
                Ok(port) => port,
            },
        };
        let sound = |c: char| !c.is_whitespace() && !c.is_control() && !matches!(c, '/' | '@' | '[' | ']');
        if host.is_empty() || !host.chars().all(sound) {
            return Err(wrong(TargetProblem::Host));
        }
        if starttls.is_some() && path.is_some() {
            return Err(wrong(TargetProblem::Exclusive));
        }
        Ok(Self { host: host.to_owned(), port, path, starttls })
    }

    /// The name to be sent as SNI: none for an address.
    pub fn server_name(&self) -> Option<String> {
        self.host.parse::<IpAddr>().is_err().then(|| self.host.trim_end_matches('.').to_owned())
    }
}

/// Family of the addresses to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Family {
    /// All.
    #[default]
    Any,
    /// IPv4 alone.
    V4,
    /// IPv6 alone.
    V6,
}

/// The target's addresses as applications of this machine get them, each once, and how long that took.
///
/// **Errors**: no such name, or no answer in time.
pub(crate) fn resolve(
    target: &Target,
    family: Family,
    timeout: Duration,
) -> Result<(Vec<SocketAddr>, Duration), ProbeError> {
    let (host, port) = (target.host.clone(), target.port);
    let (answer, waiting) = sync_channel(1);
    let began = Moment::now();
    let thread = std::thread::Builder::new().name("resolve".into()).spawn(move || {
        // getaddrinfo(3) has no deadline: a separate thread waits, and may outlive this call.
        let found = (host.as_str(), port).to_socket_addrs().map(Iterator::collect::<Vec<_>>);
        let _ = answer.send((found, Moment::now()));
    });
    let name = &target.host;
    let failed = |why: String| ProbeError::new(Step::Resolve, "resolve", format!("resolve {name}: {why}"));
    thread.map_err(|error| failed(format!("start a thread: {error}")))?;
    let (found, ended) = waiting.recv_timeout(timeout).map_err(|_| {
        failed(format!("no answer within {}", handfast_text::duration::written(timeout)))
            .hint("check /etc/resolv.conf, or give an address instead of a name")
    })?;
    let found = found.map_err(|error| failed(error.to_string()).hint("check how the name is written"))?;
    let mut seen = Vec::new();
    for address in found {
        let fits = match family {
            Family::Any => true,
            Family::V4 => address.is_ipv4(),
            Family::V6 => address.is_ipv6(),
        };
        if fits && !seen.contains(&address) {
            seen.push(address);
        }
    }
    if seen.is_empty() {
        return Err(failed("it has no address of this family".to_owned()).hint("leave -4 or -6 away"));
    }
    Ok((seen, ended.since(began)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_as_people_write_them() {
        let read = |text: &str| {
            let target = Target::parse(text, None).expect(text);
            (target.to_string(), target.path)
        };
        assert_eq!(read("example.org"), ("example.org:443".into(), None));
        assert_eq!(read("example.org:8443"), ("example.org:8443".into(), None));
        assert_eq!(read("[2001:db8::1]:8443").0, "[2001:db8::1]:8443");
        assert_eq!(read("2001:db8::1").0, "[2001:db8::1]:443");
        assert_eq!(read("https://example.org"), ("example.org:443".into(), Some("/".into())));
        assert_eq!(read("https://example.org:1/a?b"), ("example.org:1".into(), Some("/a?b".into())));
        assert_eq!(read("https://example.org?b").1, Some("/?b".into()));
        let mail = Target::parse("mail.example", Some(Protocol::Smtp)).expect("mail");
        assert_eq!(mail.port, 25);
        for wrong in
            ["", ":443", "a:0", "a:b", "http://a/", "[::1", "[::1]x", "a b", "https://a/b c", "https://u@h/"]
        {
            let why = Target::parse(wrong, None).expect_err(wrong).to_string();
            assert!(why.contains("expected HOST"), "{why}");
        }
        assert!(Target::parse("https://a/", Some(Protocol::Smtp)).is_err());
        assert_eq!(Target::parse("192.0.2.1", None).expect("an address").server_name(), None);
        assert_eq!(
            Target::parse("a.example.", None).expect("a name").server_name(),
            Some("a.example".into())
        );
    }
}
