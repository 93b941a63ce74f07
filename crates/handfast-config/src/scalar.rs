//! Values that are written as text: durations, sizes, modes, addresses, names, protocols.
//!
//! In: the text between the quotes. Out: the value, or a [`Fault`]: what is wrong, what is allowed and
//! what was probably meant. Pure: relative paths are joined to the folder that is handed in, no file is looked at.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use handfast_text::duration::DurationError;
use handfast_text::size::{SizeError, Spelling};
use handfast_text::suggest::closest;

use super::foreign_keys::has_word;
use super::model::{Address, Target};
use super::problem::Fault;

/// Longest path of a unix socket on Linux: `sun_path` has 108 bytes, the last of which is the terminator (unix(7)).
const UNIX_PATH_BYTES: usize = 107;

/// A duration in whole milliseconds: `10s`, `500ms`, `1h30m`.
pub(crate) fn duration(text: &str) -> Result<Duration, Fault> {
    let fault =
        |error: DurationError| Fault::new(error.what()).allowed(error.expected()).maybe_hint(error.hint());
    let duration = handfast_text::duration::parse(text).map_err(fault)?;
    if !duration.subsec_nanos().is_multiple_of(1_000_000) {
        return Err(Fault::new(format!("invalid duration `{text}`: finer than a millisecond")));
    }
    Ok(duration)
}

/// A size: `512B`, `16KiB`, `1MiB`.
pub(crate) fn size(text: &str) -> Result<u64, Fault> {
    let fault =
        |error: SizeError| Fault::new(error.what()).allowed(error.expected()).maybe_hint(error.hint());
    handfast_text::size::parse(text, Spelling::Full).map_err(fault)
}

/// Mode bits of a file, in octal: `0660`.
pub(crate) fn mode(text: &str) -> Result<u32, Fault> {
    let octal = (3..=4).contains(&text.len()) && text.bytes().all(|digit| (b'0'..=b'7').contains(&digit));
    match u32::from_str_radix(text, 8) {
        Ok(mode) if octal && mode <= 0o777 => Ok(mode),
        _ => {
            Err(Fault::new(format!("`{text}` is not a file mode")).allowed("octal digits, `0000` to `0777`"))
        }
    }
}

/// An address to listen on: `127.0.0.1:8443`, `[::1]:8443`, `*:8443` (IPv6 and IPv4), `unix:/run/x.sock`.
pub(crate) fn listen_address(text: &str, folder: &Path) -> Result<Address, Fault> {
    let wrong =
        |fault: Fault| fault.allowed("`127.0.0.1:8443`, `[::1]:8443`, `*:8443` or `unix:/run/x.sock`");
    if let Some(path) = text.strip_prefix("unix:") {
        return unix(path, folder).map_err(wrong);
    }
    if let Some(port) = text.strip_prefix("*:") {
        let port = port_number(port, 0).map_err(wrong)?;
        return Ok(Address::Ip(SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port)));
    }
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(Address::Ip(address));
    }
    let fault = Fault::new(format!("`{text}` is not an address to listen on"));
    Err(wrong(match (text.rsplit_once(':'), text.trim_start_matches(':').parse::<u16>()) {
        (_, Ok(port)) if !text.contains("::") => {
            fault.hint(format!("write `*:{port}` for every address of this machine"))
        }
        (Some(("localhost", port)), _) => {
            fault.hint(format!("names are not listened on; write [\"127.0.0.1:{port}\", \"[::1]:{port}\"]"))
        }
        _ => fault.maybe_hint(address_hint(text, "8443")),
    }))
}

/// A backend to dial: as for listening, or `name:port`; wildcards cannot be dialled.
pub(crate) fn target(text: &str, folder: &Path) -> Result<Target, Fault> {
    let wrong = |fault: Fault| {
        fault.allowed("`127.0.0.1:8080`, `[::1]:8080`, `backend.example:8080` or `unix:/run/x.sock`")
    };
    if let Some(path) = text.strip_prefix("unix:") {
        return unix(path, folder).map(Target::Address).map_err(wrong);
    }
    if let Ok(address) = text.parse::<SocketAddr>() {
        return dialled(text, address).map_err(wrong);
    }
    let not_one =
        |hint: Option<String>| wrong(Fault::new(format!("`{text}` is not a backend")).maybe_hint(hint));
    if let Some(port) = text.strip_prefix("*:").or_else(|| text.strip_prefix(':')) {
        return Err(not_one(Some(format!("write `127.0.0.1:{port}` for this machine"))));
    }
    if text.parse::<u16>().is_ok() {
        return Err(not_one(Some(format!("write `127.0.0.1:{text}` for this machine"))));
    }
    let Some((name, port)) = text.rsplit_once(':').filter(|_| !text.contains("://")) else {
        return Err(not_one(address_hint(text, "8080")));
    };
    host_name(name).map_err(|reason| not_one(address_hint(text, "8080").or(Some(reason.to_string()))))?;
    let port = port_number(port, 1).map_err(wrong)?;
    Ok(Target::Name(name.to_lowercase(), port))
}

fn dialled(text: &str, address: SocketAddr) -> Result<Target, Fault> {
    let fault = Fault::new(format!("`{text}` cannot be connected to"));
    match address.ip() {
        ip if ip.is_unspecified() => {
            let port = address.port();
            Err(fault.hint(format!("write `127.0.0.1:{port}` or `[::1]:{port}` for this machine")))
        }
        ip if ip.is_multicast() || ip == IpAddr::V4(Ipv4Addr::BROADCAST) => Err(fault),
        _ if address.port() == 0 => Err(fault.hint("a backend's port is 1 to 65535")),
        _ => Ok(Target::Address(Address::Ip(address))),
    }
}

fn unix(path: &str, folder: &Path) -> Result<Address, Fault> {
    if path.is_empty() {
        return Err(Fault::new("`unix:` is not followed by a path"));
    }
    if path.starts_with('@') || path.contains('\0') {
        return Err(Fault::new(format!("`unix:{}` is not a path", path.escape_debug()))
            .hint("abstract sockets are not supported: they have no owner and no mode"));
    }
    let path = folder.join(path.strip_prefix("//").map_or(path, |_| &path[1..]));
    let bytes = path.as_os_str().len();
    if bytes > UNIX_PATH_BYTES {
        return Err(Fault::new(format!(
            "the path of a unix socket has at most {UNIX_PATH_BYTES} bytes; this one has {bytes}"
        )));
    }
    Ok(Address::Unix(path))
}

fn port_number(text: &str, least: u16) -> Result<u16, Fault> {
    match text.parse::<u16>() {
        Ok(port) if port >= least && text.bytes().all(|digit| digit.is_ascii_digit()) => Ok(port),
        _ => Err(Fault::new(format!("`{text}` is not a port")).hint("ports are 1 to 65535")),
    }
}

fn address_hint(text: &str, port: &str) -> Option<String> {
    if text.starts_with('/') || text.starts_with("./") {
        return Some(format!("write `unix:{text}` for a unix socket"));
    }
    if let Some((_, rest)) = text.split_once("://") {
        return Some(format!("write an address without a scheme: `{}`", rest.trim_end_matches('/')));
    }
    if let Ok(ip) = text.trim_matches(['[', ']']).parse::<IpAddr>() {
        return Some(format!("add a port: `{}`", SocketAddr::new(ip, port.parse().unwrap_or(443))));
    }
    let (host, digits) = text.rsplit_once(':')?;
    if digits.parse::<u16>().is_err() {
        return Some("ports are 1 to 65535".to_owned());
    }
    if host.parse::<Ipv6Addr>().is_ok() {
        return Some(format!("write IPv6 addresses in brackets: `[{host}]:{digits}`"));
    }
    if host.split('.').all(|part| !part.is_empty() && part.bytes().all(|digit| digit.is_ascii_digit())) {
        return Some("an IPv4 address is four numbers from 0 to 255".to_owned());
    }
    host_name(host)
        .is_ok()
        .then(|| "listen on an address of this machine, or on `*` for all of them".to_owned())
}

/// Reason why a text is no name in DNS (RFC 1035 §2.3.1).
#[derive(Debug, thiserror::Error)]
enum NameError {
    #[error("the last part of a name is not a number")]
    LastIsNumber,
    #[error("a name has at most 253 bytes; this one has {0}")]
    TooLong(usize),
    #[error("a name has no empty parts: one dot between two parts, none at the ends")]
    EmptyPart,
    #[error("a part of a name has at most 63 bytes; `{part}` has {}", .part.len())]
    LongPart { part: String },
    #[error(
        "names consist of letters, digits, `-` and `_`{}",
        if .0.is_ascii() { "" } else { "; names in other scripts are written as `xn--…`" }
    )]
    Character(char),
    #[error("a part of a name neither begins nor ends with `-`, as `{0}` does")]
    Hyphen(String),
}

/// Checks that `name` can be resolved; the error has the reason.
fn host_name(name: &str) -> Result<(), NameError> {
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.split('.').next_back().is_none_or(|last| last.bytes().all(|byte| byte.is_ascii_digit())) {
        return Err(NameError::LastIsNumber);
    }
    labels(name)
}

/// Checks that `name` consists of DNS labels (RFC 1035 §2.3.1, with `_`, which is in use); the error has the reason.
fn labels(name: &str) -> Result<(), NameError> {
    if name.len() > 253 {
        return Err(NameError::TooLong(name.len()));
    }
    for label in name.split('.') {
        if label.is_empty() {
            return Err(NameError::EmptyPart);
        }
        if label.len() > 63 {
            return Err(NameError::LongPart { part: label.to_owned() });
        }
        let is_strange = |character: &char| !character.is_ascii_alphanumeric() && !"-_".contains(*character);
        if let Some(strange) = label.chars().find(is_strange) {
            return Err(NameError::Character(strange));
        }
        if label.starts_with('-') || label.ends_with('-') {
            return Err(NameError::Hyphen(label.to_owned()));
        }
    }
    Ok(())
}

/// A name as a client can ask for it (SNI), in lower case; `None` for an address, a wildcard, a URL.
pub(crate) fn sni_name(text: &str) -> Option<String> {
    let name = name_pattern(text.strip_suffix('.').unwrap_or(text)).ok()?;
    (!name.contains('*')).then_some(name)
}

/// A server name or a wildcard (`*.example.org`), in lower case.
pub(crate) fn name_pattern(text: &str) -> Result<String, Fault> {
    let wrong = Fault::new(format!("`{text}` is not a server name"))
        .allowed("a name such as `www.example.org`, or a wildcard such as `*.example.org`");
    if text.trim_matches(['[', ']']).parse::<IpAddr>().is_ok() {
        return Err(wrong.hint("clients send no server name for addresses (RFC 6066, section 3)"));
    }
    if text.contains(':') || text.contains('/') {
        return Err(wrong.hint("a name alone, without scheme, port or path"));
    }
    let name = text.to_lowercase();
    let fixed = name.strip_prefix("*.").unwrap_or(&name);
    if fixed.contains('*') {
        return Err(wrong.hint("`*` matches the whole first part, and is allowed nowhere else"));
    }
    match labels(fixed) {
        Ok(()) => Ok(name),
        Err(reason) => Err(wrong.hint(reason.to_string())),
    }
}

/// Application protocols in common use (IANA's "TLS ALPN Protocol IDs"), to notice misspelt ones.
const KNOWN_PROTOCOLS: &str = "h2 http/1.1 http/1.0 h3 acme-tls/1 imap pop3 managesieve ftp mqtt dot ntske/1 postgresql \
                               xmpp-client xmpp-server";

/// An application protocol: 1 to 255 bytes (RFC 7301 §3.1).
pub(crate) fn protocol(text: &str) -> Result<String, Fault> {
    if text.is_empty() || text.len() > 255 {
        return Err(Fault::new(format!("a protocol's name has 1 to 255 bytes; this one has {}", text.len())));
    }
    Ok(text.to_owned())
}

/// Returns a warning about a well-formed application protocol that is unusual.
pub(crate) fn odd_protocol(text: &str) -> Option<Fault> {
    if has_word(KNOWN_PROTOCOLS, text) {
        return (text == "h3").then(|| Fault::new("`h3` is HTTP over QUIC: no client asks for it over TCP"));
    }
    let lower = text.to_lowercase();
    let meant = match lower.as_str() {
        "http2" | "http/2" | "http/2.0" | "h2c" => Some("h2"),
        "http" | "http1" | "http1.1" | "http/1" | "h1" => Some("http/1.1"),
        _ => closest(&lower, KNOWN_PROTOCOLS.split(' ')),
    };
    meant.map(|meant| {
        Fault::new(format!("no client is known to ask for the protocol `{text}`"))
            .hint(format!("did you mean `{meant}`?"))
    })
}

#[cfg(test)]
mod tests;
