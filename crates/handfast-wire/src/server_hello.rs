//! Parsed ServerHello: the agreed parameters, as far as they are in the clear.
//!
//! In: the body of one whole handshake message. Out: [`ServerHello`], small and owned. Source: RFC 9846 §4.2.3; RFC 5246 §7.4.1.3.

use crate::invalid::Invalid;
use crate::reader::Reader;

/// Choices of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerHello {
    /// The version that will be spoken.
    pub version: u16,
    /// The cipher suite.
    pub cipher_suite: u16,
    /// It is a HelloRetryRequest: the client must send its hello again (RFC 9846 §4.2.4).
    pub is_retry: bool,
    /// The group of the key exchange, in TLS 1.3 alone; of a retry, the requested one.
    pub group: Option<u16>,
    /// A TLS 1.3 session goes on (RFC 9846 §4.3.11).
    pub has_pre_shared_key: bool,
    /// The application protocol, up to TLS 1.2 alone: TLS 1.3 encrypts it.
    pub alpn: Option<Box<[u8]>>,
}

/// The random of a HelloRetryRequest: SHA-256 of those words (RFC 9846 §4.2.3).
const RETRY: [u8; 32] = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91, 0xc2,
    0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];

impl ServerHello {
    /// Reads the body of a ServerHello message, without the message's type and length.
    ///
    /// **Errors**: the first [`Invalid`] in the order of the bytes.
    pub fn parse(body: &[u8]) -> Result<Self, Invalid> {
        let mut reader = Reader::new(body, "server_hello");
        let mut hello = Self { version: reader.u16()?, ..Self::default() };
        hello.is_retry = reader.take(RETRY.len())? == RETRY;
        reader.vector8("legacy_session_id_echo")?;
        hello.cipher_suite = reader.u16()?;
        reader.take(1)?;
        if reader.is_empty() {
            return Ok(hello);
        }
        let mut extensions = reader.vector16("extensions")?;
        reader.finish()?;
        while !extensions.is_empty() {
            let extension = extensions.u16()?;
            let mut data = extensions.vector16("extension_data")?;
            match extension {
                16 => {
                    let mut names = data.vector16("protocol_name_list")?;
                    hello.alpn = Some(names.vector8("protocol_name")?.rest()?.into());
                }
                41 => hello.has_pre_shared_key = true,
                43 => hello.version = data.u16()?,
                51 => hello.group = Some(data.u16()?),
                _ => {}
            }
        }
        Ok(hello)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn made(random: [u8; 32], extensions: &[u8]) -> Vec<u8> {
        let mut body = vec![3, 3];
        body.extend(random);
        body.extend([2, 9, 9, 0x13, 0x01, 0]);
        body.extend((extensions.len() as u16).to_be_bytes());
        body.extend(extensions);
        body
    }

    #[test]
    fn what_was_chosen_is_read() {
        let modern = made([7; 32], &[0, 43, 0, 2, 3, 4, 0, 51, 0, 6, 0, 29, 0, 2, 1, 1, 0, 41, 0, 2, 0, 0]);
        let hello = ServerHello::parse(&modern).expect("sound");
        assert_eq!((hello.version, hello.cipher_suite, hello.group), (0x0304, 0x1301, Some(29)));
        assert!(hello.has_pre_shared_key && !hello.is_retry);
        let retry =
            ServerHello::parse(&made(RETRY, &[0, 43, 0, 2, 3, 4, 0, 51, 0, 2, 0, 24])).expect("sound");
        assert!(retry.is_retry && retry.group == Some(24));
        let older = made([7; 32], &[0, 16, 0, 5, 0, 3, 2, b'h', b'2']);
        let hello = ServerHello::parse(&older).expect("sound");
        assert_eq!((hello.version, hello.alpn.as_deref()), (0x0303, Some(&b"h2"[..])));
        assert!(ServerHello::parse(&older[..older.len() - 1]).is_err());
        let oldest = ServerHello::parse(&older[..40]).expect("without extensions");
        assert_eq!((oldest.version, oldest.alpn), (0x0303, None));
    }

    proptest! {
        #[test]
        fn no_hello_is_read_past_its_end(cut in 0_usize..70, at in 0_usize..70, byte: u8) {
            let mut hello = made([7; 32], &[0, 43, 0, 2, 3, 4, 0, 51, 0, 6, 0, 29, 0, 2, 1, 1]);
            let at = at % hello.len();
            hello[at] = byte;
            hello.truncate(cut);
            let _ = ServerHello::parse(&hello);
        }
    }
}
