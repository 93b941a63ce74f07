//! Last messages of protocols whose clients end a session themselves and wait for no answer.
//!
//! In: the last bytes that a client sent in plain text. Out: the message that they are. A client that closes right behind such a message
//! has lost nothing, with close_notify or without.
//!
//! The end of a message of another protocol can look the same (the two bytes of MQTT in 1 of 65,536 cases), so nothing but the name of an
//! end may depend on it.

/// A message by which a client ends its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastMessage {
    /// Its name, for the log.
    pub name: &'static str,
    /// Servers answer it before they end.
    pub is_answered: bool,
}

/// Returns the message that ends a session, if `last` is the end of one. `last`: the last eight bytes, zeros in front of fewer.
///
/// **Source**: MQTT, DISCONNECT; PostgreSQL, "Message Formats", Terminate; MySQL, `COM_QUIT`; LDAP unbind (RFC 4511 §4.3); `QUIT` of SMTP
/// (RFC 5321 §4.1.1.10), POP3 (RFC 1939 §5), NNTP (RFC 3977 §5.4) and Redis; `LOGOUT` of IMAP (RFC 9051 §6.1.3) and `ManageSieve`
/// (RFC 5804 §2.3); XMPP (RFC 6120 §4.4).
pub fn last_message(last: [u8; 8]) -> Option<LastMessage> {
    let unanswered = |name| Some(LastMessage { name, is_answered: false });
    match last {
        [.., 0xe0, 0x00] | [.., 0xe0, 0x01, _] | [.., 0xe0, 0x02, _, 0x00] => unanswered("MQTT DISCONNECT"),
        // With a session expiry interval as its only property.
        [0x07, _, 0x05, 0x11, ..] => unanswered("MQTT DISCONNECT"),
        [.., b'X', 0, 0, 0, 4] => unanswered("PostgreSQL Terminate"),
        [.., 1, 0, 0, 0, 1] => unanswered("MySQL COM_QUIT"),
        [_, 0x30, 0x05, 0x02, 0x01, _, 0x42, 0x00] | [0x30, 0x06, 0x02, 0x02, _, _, 0x42, 0x00] => {
            unanswered("LDAP unbind")
        }
        _ => last_line(last),
    }
}

/// Returns the reason for which a server of PostgreSQL ended a login, if `last` is the end of its error, whose last field is the routine of the
/// server (`read_client_final_message`). With clients that are not broken, channel binding alone fails there.
///
/// **Source**: PostgreSQL, "Error and Notice Message Fields".
pub fn refused_login(last: [u8; 8]) -> Option<&'static str> {
    let reason =
        "the server refused the last SCRAM message of a login: channel binding to another certificate";
    (last == *b"essage\0\0").then_some(reason)
}

fn last_line(last: [u8; 8]) -> Option<LastMessage> {
    let upper = last.map(|byte| byte.to_ascii_uppercase());
    [(&b"LOGOUT\r\n"[..], "LOGOUT"), (b"QUIT\r\n", "QUIT"), (b":STREAM>", "</stream:stream>")]
        .into_iter()
        .find_map(|(end, name)| upper.ends_with(end).then_some(LastMessage { name, is_answered: true }))
}

#[cfg(test)]
mod tests {
    use super::{last_message, refused_login};

    #[test]
    fn a_login_that_fails_for_its_channel_binding_is_told_apart() {
        let end = |routine: &str| {
            let error = format!("SFATAL\0C28000\0MSCRAM\0Fauth-scram.c\0R{routine}\0\0");
            *error.as_bytes().last_chunk().expect("more than eight bytes")
        };
        assert!(refused_login(end("read_client_final_message")).is_some());
        assert_eq!(refused_login(end("auth_failed")), None);
    }

    fn of(bytes: &[u8]) -> Option<&'static str> {
        let mut last = [0; 8];
        let kept = &bytes[bytes.len().saturating_sub(8)..];
        last[8 - kept.len()..].copy_from_slice(kept);
        last_message(last).map(|message| message.name)
    }

    #[test]
    fn each_protocol_has_its_last_message() {
        for (bytes, name) in [
            (&b"\xe0\x00"[..], "MQTT DISCONNECT"),
            (b"0\x04\0\x01x1\xe0\x00", "MQTT DISCONNECT"),
            (b"\xe0\x01\x04", "MQTT DISCONNECT"),
            (b"\xe0\x02\x00\x00", "MQTT DISCONNECT"),
            (b"\xe0\x07\x00\x05\x11\0\0\x0e\x10", "MQTT DISCONNECT"),
            (b"X\0\0\0\x04", "PostgreSQL Terminate"),
            (b"\x01\0\0\0\x01", "MySQL COM_QUIT"),
            (b"0\x05\x02\x01\x03B\0", "LDAP unbind"),
            (b"0\x06\x02\x02\x01\x03B\0", "LDAP unbind"),
            (b"a7 LOGOUT\r\n", "LOGOUT"),
            (b"a7 logout\r\n", "LOGOUT"),
            (b".\r\nQUIT\r\n", "QUIT"),
            (b"*1\r\n$4\r\nquit\r\n", "QUIT"),
            (b"</stream:stream>", "</stream:stream>"),
        ] {
            assert_eq!(of(bytes), Some(name), "{bytes:?}");
        }
    }

    #[test]
    fn other_messages_end_no_session() {
        for bytes in [
            &b""[..],
            b"\x10\x10\0\x04MQTT\x04\x02\0<\0\x04name",
            b"Q\0\0\0\x0dSELECT 1\0",
            b"\x01\0\0\0\x0e",
            b"a6 NOOP\r\n",
            b"QUIT",
            b"GET / HTTP/1.1\r\nhost: x\r\n\r\n",
            b"0\x0c\x02\x01\x01`\x07\x02\x01\x03\x04\0\x80\0",
        ] {
            assert_eq!(of(bytes), None, "{bytes:?}");
        }
    }
}
