//! Protocols that change to TLS on the same connection: what their servers greet with, what their clients say.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::backend::{Backend, Peer};
use super::certificates::localhost;
use super::config::Config;
use super::folder::Folder;

/// A protocol: our word, OpenSSL's, what a server greets with, and what a client says to begin.
pub(crate) struct Protocol {
    pub(crate) word: &'static str,
    pub(crate) of_openssl: &'static str,
    pub(crate) greeting: &'static [u8],
    /// Our first bytes, before the request of the client.
    pub(crate) greets: &'static [u8],
    pub(crate) request: &'static [u8],
    pub(crate) yes: &'static [u8],
}

const LDAP: &[u8] = b"\x30\x1d\x02\x01\x01\x77\x18\x80\x161.3.6.1.4.1.1466.20037";
const XMPP: &[u8] = b"<stream:stream to='localhost' xmlns='jabber:client' \
    xmlns:stream='http://etherx.jabber.org/streams' version='1.0'><starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>";
const PROCEED: &[u8] = b"<proceed xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>";

pub(crate) const PROTOCOLS: [Protocol; 9] = [
    Protocol {
        word: "smtp",
        of_openssl: "smtp",
        greeting: b"220-backend\r\n220 ready\r\n",
        greets: b"220 mail.example ESMTP\r\n",
        request: b"STARTTLS\r\n",
        yes: b"220 2.0.0 Ready to start TLS\r\n",
    },
    Protocol {
        word: "lmtp",
        of_openssl: "lmtp",
        greeting: b"220 backend\r\n",
        greets: b"220 mail.example LMTP\r\n",
        request: b"STARTTLS\r\n",
        yes: b"220 2.0.0 Ready to start TLS\r\n",
    },
    Protocol {
        word: "imap",
        of_openssl: "imap",
        greeting: b"* OK [CAPABILITY IMAP4rev1] backend\r\n",
        greets: b"* OK [CAPABILITY IMAP4rev1 STARTTLS LOGINDISABLED] mail.example ready\r\n",
        request: b"1 STARTTLS\r\n",
        yes: b"1 OK Begin TLS negotiation now\r\n",
    },
    Protocol {
        word: "pop3",
        of_openssl: "pop3",
        greeting: b"+OK backend <1.2@backend>\r\n",
        greets: b"+OK mail.example ready\r\n",
        request: b"STLS\r\n",
        yes: b"+OK Begin TLS negotiation\r\n",
    },
    Protocol {
        word: "nntp",
        of_openssl: "nntp",
        greeting: b"200 backend\r\n",
        greets: b"200 mail.example ready\r\n",
        request: b"STARTTLS\r\n",
        yes: b"382 Continue with TLS negotiation\r\n",
    },
    Protocol {
        word: "ldap",
        of_openssl: "ldap",
        greeting: b"",
        greets: b"",
        request: LDAP,
        yes: b"\x30\x24\x02\x01\x01\x78\x1f\x0a\x01\0\x04\0\x04\0\x8a\x161.3.6.1.4.1.1466.20037",
    },
    Protocol {
        word: "postgresql",
        of_openssl: "postgres",
        greeting: b"",
        greets: b"",
        request: &[0, 0, 0, 8, 4, 210, 22, 47],
        yes: b"S",
    },
    Protocol { word: "xmpp", of_openssl: "xmpp", greeting: b"", greets: b"", request: XMPP, yes: PROCEED },
    Protocol {
        word: "xmpp-server",
        of_openssl: "xmpp-server",
        greeting: b"",
        greets: b"",
        request: XMPP,
        yes: PROCEED,
    },
];

/// Greets, if it does, and echoes.
pub(crate) fn greeting_echo(greeting: &'static [u8]) -> Backend {
    Backend::start(move |peer: &mut Peer| {
        let _ = peer.stream.write_all(greeting);
        let mut buffer = vec![0; 65_536];
        while let Ok(count @ 1..) = peer.stream.read(&mut buffer) {
            if peer.stream.write_all(&buffer[..count]).is_err() {
                return;
            }
        }
    })
}

/// A service whose clients ask for TLS in this protocol.
pub(crate) fn service(config: Config, folder: &Folder, word: &str, backend: &Backend) -> Config {
    let certificate = folder.write("web.pem", localhost().combined());
    config.service(word, backend.address).certificate(&certificate).text("service", "starttls", word).text(
        "service",
        "starttls-name",
        "mail.example",
    )
}

/// Reads exactly this.
pub(crate) fn expect(stream: &mut TcpStream, expected: &[u8]) {
    let mut came = vec![0; expected.len()];
    stream.read_exact(&mut came).expect("it speaks");
    assert_eq!(String::from_utf8_lossy(&came), String::from_utf8_lossy(expected));
}

/// A packet of MySQL.
pub(crate) fn packet(number: u8, payload: &[u8]) -> Vec<u8> {
    [&u32::try_from(payload.len()).expect("short").to_le_bytes()[..3], &[number], payload].concat()
}

/// Greeting of a MySQL server, as packet 0; `offers_tls`: whether it offers TLS.
pub(crate) fn mysql_greeting(offers_tls: bool) -> Vec<u8> {
    const GREETING: &[u8] =
        b"\x0a11.8.3\0\x07\0\0\0abcdefgh\0\xfe\xf7\x2d\x02\0\xff\x81\x15\0\0\0\0\0\0\x1d\0\0\0ijklmnopqrst\0";
    let mut greeting = packet(0, GREETING);
    // The second byte of its capabilities, behind version, thread, challenge and a filler.
    greeting[4 + 1 + 7 + 4 + 8 + 1 + 1] |= if offers_tls { 8 } else { 0 };
    greeting
}

/// Login packet of root; `ssl`: the mark of a login over TLS.
pub(crate) fn mysql_login(number: u8, ssl: u32) -> Vec<u8> {
    packet(number, &[&(0x0200 | ssl).to_le_bytes()[..], &[0; 28], b"root\0"].concat())
}

/// A server without TLS that lets root in, after one question, and answers one command.
pub(crate) fn mysql_server() -> Backend {
    Backend::start(move |peer: &mut Peer| {
        peer.stream.write_all(&mysql_greeting(false)).expect("it is heard");
        expect(&mut peer.stream, &mysql_login(1, 0));
        peer.stream.write_all(&packet(2, b"\xfemysql_native_password\0")).expect("it is heard");
        expect(&mut peer.stream, &packet(3, b"scrambled"));
        peer.stream.write_all(&packet(4, b"\0\0\0\x02\0\0\0")).expect("it is heard");
        expect(&mut peer.stream, &packet(0, b"\x03SELECT 1"));
        peer.stream.write_all(&packet(1, b"\x01")).expect("it is heard");
    })
}
