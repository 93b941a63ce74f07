//! A PROXY header as text for people, and as JSON.
//!
//! In: a checked header, and its bytes. Out: text. All values from the sender are escaped, so that they cannot
//! end a line or control a terminal.

use std::fmt::Write;

use handfast_text::units::counted;
use handfast_wire::proxy_header::{Command, Endpoints, Header, Tls, Tlv, Transport, tlv};
use serde_json::{Value, json};

/// Bytes of a value that are shown as digits.
const SHOWN: usize = 32;

/// Bytes as digits, with blanks between them.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}

/// For people.
pub(super) fn text(header: &Header<'_>, bytes: &[u8]) -> String {
    let length = counted(header.length as u64, "byte");
    let mut text = format!("PROXY header {}, {length}\n", header.version);
    match header.command {
        Command::Local => {
            row(&mut text, 0, "command", "LOCAL: the sender's own connection, the socket's addresses apply");
        }
        Command::Proxy => row(&mut text, 0, "command", "PROXY: the sender forwards a client's connection"),
    }
    if header.ignored > 0 {
        let ignored = counted(header.ignored as u64, "byte");
        row(&mut text, 0, "ignored", &format!("{ignored} behind the fixed part, as LOCAL demands"));
    }
    if header.command == Command::Proxy {
        let (transport, source, destination) = ends(header);
        row(&mut text, 0, "transport", transport);
        row(&mut text, 0, "source", &source.unwrap_or("not known".into()));
        row(&mut text, 0, "destination", &destination.unwrap_or("not known".into()));
    }
    for value in header.tlvs() {
        row(&mut text, 0, &name(value.number), &shown(&value));
        if value.number == tlv::SSL
            && let Some(tls) = header.tls()
        {
            tls.values().for_each(|value| row(&mut text, 2, &name(value.number), &shown(&value)));
        }
    }
    let rest = &bytes[header.length..];
    if !rest.is_empty() {
        let what =
            format!("{} of the connection itself: {}", counted(rest.len() as u64, "byte"), digits(rest));
        row(&mut text, 0, "then", &what);
    }
    text
}

fn row(text: &mut String, indent: usize, name: &str, value: &str) {
    let width = 24 - indent;
    let _ = writeln!(text, "  {:indent$}{name:width$} {value}", "");
}

/// The transport and both addresses.
fn ends(header: &Header<'_>) -> (&'static str, Option<String>, Option<String>) {
    match header.endpoints {
        Endpoints::Unspecified => ("unknown: the socket's addresses apply", None, None),
        Endpoints::Ip { transport, source, destination } => {
            let words = match transport {
                Transport::Stream => "TCP",
                Transport::Datagram => "UDP: the socket's addresses apply",
                Transport::Unspecified => "unknown: the socket's addresses apply",
            };
            (words, Some(source.to_string()), Some(destination.to_string()))
        }
        Endpoints::Unix { source, destination, .. } => (
            "unix socket: the socket's addresses apply",
            Some(source.escape_ascii().to_string()),
            Some(destination.escape_ascii().to_string()),
        ),
    }
}

fn name(number: u8) -> String {
    let name = tlv::name(number).unwrap_or(match number {
        0xe0..=0xef => "private to the sender",
        0xf0..=0xf7 => "for experiments",
        _ => "not assigned",
    });
    format!("{name} (0x{number:02x})")
}

/// Returns true if the value of a type is text.
const fn is_text(number: u8) -> bool {
    matches!(number, tlv::ALPN | tlv::AUTHORITY | tlv::NETNS | tlv::SSL_VERSION..=tlv::SSL_SIG_SCHEME)
}

fn shown(value: &Tlv<'_>) -> String {
    let length = counted(value.value.len() as u64, "byte");
    match value.number {
        number if is_text(number) => match str::from_utf8(value.value) {
            Ok(text) => format!("\"{}\"", text.escape_debug()),
            Err(_) => format!("\"{}\"", value.value.escape_ascii()),
        },
        tlv::CRC32C => format!("0x{}: right", hex(value.value).replace(' ', "")),
        tlv::NOOP => format!("{length} to fill space"),
        tlv::SSL => tls(value.value),
        tlv::SSL_CLIENT_CERT => format!("{length} of DER: {}", digits(value.value)),
        _ if value.value.is_empty() => length,
        _ => format!("{length}: {}", digits(value.value)),
    }
}

/// The fixed part of the TLS value.
fn tls(value: &[u8]) -> String {
    let &[client, a, b, c, d, ..] = value else { return String::new() };
    let certificate = match client & (Tls::CERTIFICATE_NOW | Tls::CERTIFICATE_IN_SESSION) {
        0 => "no client certificate",
        Tls::CERTIFICATE_IN_SESSION => "a client certificate earlier in this session",
        _ => "a client certificate in this connection",
    };
    let verify = match u32::from_be_bytes([a, b, c, d]) {
        0 => "verified (0)".to_owned(),
        other => format!("not verified ({other})"),
    };
    let used = if client & Tls::USED == 0 { "the client did not use TLS" } else { "the client used TLS" };
    format!("{used}, {certificate}, {verify}")
}

/// The first bytes as digits.
fn digits(bytes: &[u8]) -> String {
    let more = if bytes.len() > SHOWN { " …" } else { "" };
    format!("{}{more}", hex(&bytes[..bytes.len().min(SHOWN)]))
}

/// For programs: one object.
pub(super) fn json(header: &Header<'_>, bytes: &[u8]) -> Value {
    let (_, source, destination) = ends(header);
    let transport = match header.endpoints {
        Endpoints::Unspecified => None,
        Endpoints::Ip { transport: Transport::Stream, .. } => Some("tcp"),
        Endpoints::Ip { transport: Transport::Datagram, .. } => Some("udp"),
        Endpoints::Ip { transport: Transport::Unspecified, .. } => None,
        Endpoints::Unix { .. } => Some("unix"),
    };
    let tls = header.tls().map(|tls| {
        json!({
            "used": tls.client & Tls::USED != 0,
            "certificate_now": tls.client & Tls::CERTIFICATE_NOW != 0,
            "certificate_in_session": tls.client & Tls::CERTIFICATE_IN_SESSION != 0,
            "verify": tls.verify,
            "values": tls.values().map(|value| value_json(&value)).collect::<Vec<_>>(),
        })
    });
    json!({
        "version": header.version.name(),
        "length": header.length,
        "command": if header.command == Command::Local { "local" } else { "proxy" },
        "transport": transport,
        "source": source,
        "destination": destination,
        "tlvs": header.tlvs().map(|value| value_json(&value)).collect::<Vec<_>>(),
        "tls": tls,
        "bytes_behind": bytes.len() - header.length,
    })
}

fn value_json(value: &Tlv<'_>) -> Value {
    let text = if is_text(value.number) { str::from_utf8(value.value).ok() } else { None };
    json!({
        "type": value.number,
        "name": tlv::name(value.number),
        "text": text,
        "hex": hex(value.value).replace(' ', ""),
    })
}

#[cfg(test)]
mod tests {
    use handfast_wire::proxy_header::{Peek, V2_LIMIT, Writer, peek};

    use super::*;

    fn sample() -> Vec<u8> {
        let ends = ("192.0.2.7:40000".parse().expect("one"), "192.0.2.8:443".parse().expect("one"));
        let mut header = Writer::proxy(Some(ends));
        assert!(header.add(tlv::AUTHORITY, b"a.example\x1b[2J") && header.add(0xea, &[1; 40]));
        let values: [(u8, &[u8]); 2] = [(tlv::SSL_VERSION, b"TLSv1.3"), (tlv::SSL_CLIENT_CERT, &[0x30])];
        assert!(header.add_tls(Tls::USED | Tls::CERTIFICATE_NOW, 0, &values));
        let mut bytes = header.finish(true);
        bytes.extend(b"\x16\x03\x01");
        bytes
    }

    #[test]
    fn everything_in_a_header_is_reported() {
        let bytes = sample();
        let Peek::Complete(header) = peek(&bytes, V2_LIMIT) else { panic!("it is whole") };
        let text = text(&header, &bytes);
        for line in [
            "PROXY header v2, 116 bytes\n",
            "  command                  PROXY: the sender forwards a client's connection\n",
            "  source                   192.0.2.7:40000\n",
            "  AUTHORITY (0x02)         \"a.example\\u{1b}[2J\"\n",
            "  private to the sender (0xea) 40 bytes: 01 01",
            "  SSL (0x20)               the client used TLS, a client certificate in this connection, verified (0)\n",
            "    SSL_VERSION (0x21)     \"TLSv1.3\"\n",
            "    SSL_CLIENT_CERT (0x28) 1 byte of DER: 30\n",
            ": right\n",
            "  then                     3 bytes of the connection itself: 16 03 01\n",
        ] {
            assert!(text.contains(line), "{line:?} is not in\n{text}");
        }
        assert!(!text.contains('\u{1b}'));
    }

    #[test]
    fn programs_get_the_same() {
        let bytes = sample();
        let Peek::Complete(header) = peek(&bytes, V2_LIMIT) else { panic!("it is whole") };
        let json = json(&header, &bytes);
        assert_eq!(json["source"], "192.0.2.7:40000");
        assert_eq!(json["tlvs"][1]["type"], 0xea);
        assert_eq!(json["tls"]["values"][0]["text"], "TLSv1.3");
        assert_eq!(json["bytes_behind"], 3);
    }
}
