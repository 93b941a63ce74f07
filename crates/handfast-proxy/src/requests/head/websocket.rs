//! Keys of WebSocket handshakes that the proxy makes for clients of HTTP/2, which have none.

use data_encoding::BASE64;

/// A random key for a WebSocket handshake that came by HTTP/2, which has none: 16 bytes in base64 (RFC 6455 §4.1); `None`: there are no random
/// numbers.
pub(crate) fn websocket_key() -> Option<String> {
    handfast_tls::random::bytes::<16>().map(|bytes| BASE64.encode(&bytes))
}

/// The value of `Sec-WebSocket-Accept` for a key (RFC 6455 §4.2.2).
pub(crate) fn websocket_accept(key: &[u8]) -> String {
    const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    BASE64.encode(&handfast_tls::keyed_hash::legacy_sha1(&[key, GUID]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_websocket_key_is_random_and_its_proof_is_known() {
        let keys = [websocket_key(), websocket_key()].map(|key| key.expect("random numbers"));
        for key in &keys {
            assert_eq!(data_encoding::BASE64.decode(key.as_bytes()).expect("base64").len(), 16);
        }
        // No byte is that of a counter.
        assert_ne!(keys[0][..4], keys[1][..4]);
        // RFC 6455 §1.3.
        assert_eq!(websocket_accept(b"dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
