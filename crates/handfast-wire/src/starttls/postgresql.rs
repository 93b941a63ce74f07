//! PostgreSQL: packets before the startup message, and the one byte that answers them.
//!
//! **Source**: PostgreSQL documentation, "Message Flow" (SSL Session Encryption, GSSAPI Session Encryption) and "Message Formats".

use super::Progress;
use super::dialogue_step::DialogueStep;
use super::inbox::Inbox;
use super::problem::{Problem, quote};

/// Code of an SSLRequest: 1234 and 5679 in two bytes each.
const SSL_REQUEST: u32 = 80_877_103;
const CANCEL_REQUEST: u32 = 80_877_102;
const GSS_REQUEST: u32 = 80_877_104;

/// A packet's length, which is its first field and counts itself.
pub(super) fn measure(unread: &[u8]) -> Result<Option<usize>, Problem> {
    let Some(length) = unread.first_chunk::<4>() else { return Ok(None) };
    match u32::from_be_bytes(*length) {
        // The server's own limit is 10,000 (MAX_STARTUP_PACKET_LENGTH); one over ours is refused by it.
        length @ 8..=10_000 => Ok(Some(length as usize)),
        _ => Err(Problem::unexpected("a packet before the startup message", unread)),
    }
}

/// Length, code and process number of a CancelRequest; its key follows.
const CANCEL_HEADER: usize = 12;
/// Bytes of a key: four, and more from protocol version 3.2 on.
const CANCEL_KEY: std::ops::RangeInclusive<usize> = 4..=256;

/// Returns true if a whole CancelRequest is there, and nothing else.
///
/// A server accepts it without TLS and without a login: it carries the key that the server gave to the connection whose query it is about.
///
/// **Errors**: something came behind it, which no client sends.
pub(super) fn is_cancel(unread: &[u8]) -> Result<bool, Problem> {
    let code = unread.get(4..).and_then(<[u8]>::first_chunk::<4>);
    if code.is_none_or(|code| u32::from_be_bytes(*code) != CANCEL_REQUEST) {
        return Ok(false);
    }
    let Some(length) = measure(unread)? else { return Ok(false) };
    if !length.checked_sub(CANCEL_HEADER).is_some_and(|key| CANCEL_KEY.contains(&key)) {
        return Err(Problem::unexpected("a CancelRequest with a key of 4 to 256 bytes", unread));
    }
    match unread.len().checked_sub(length) {
        None => Ok(false),
        Some(0) => Ok(true),
        Some(count) => Err(Problem::Injected { count }),
    }
}

/// Answers one packet.
pub(super) fn answer(packet: &[u8], answer: &mut Vec<u8>) -> DialogueStep {
    let code = packet[4..].first_chunk::<4>().map_or(0, |code| u32::from_be_bytes(*code));
    match (packet.len(), code) {
        (8, SSL_REQUEST) => {
            answer.push(b'S');
            DialogueStep::Upgrade
        }
        (8, GSS_REQUEST) => {
            answer.push(b'N');
            DialogueStep::Continue
        }
        (_, code) if code >> 16 == 3 => {
            error(answer);
            DialogueStep::End(Problem::Insisted {
                on: "a startup message without SSLRequest (sslmode=disable)".into(),
            })
        }
        _ => DialogueStep::End(Problem::Unexpected { expected: "an SSLRequest", got: quote(packet) }),
    }
}

/// ErrorResponse: severity, the same untranslated, SQLSTATE invalid_authorization_specification, message.
fn error(answer: &mut Vec<u8>) {
    let fields =
        b"SFATAL\0VFATAL\0C28000\0Monly TLS connections are accepted here: use sslmode=require or better\0\0";
    answer.push(b'E');
    answer.extend_from_slice(&(4 + fields.len() as u32).to_be_bytes());
    answer.extend_from_slice(fields);
}

/// Asks for TLS.
pub(super) fn request_tls(words: &mut Vec<u8>) {
    words.extend_from_slice(&8_u32.to_be_bytes());
    words.extend_from_slice(&SSL_REQUEST.to_be_bytes());
}

/// Reads the one byte that a server answers. An error message counts only as a refusal: its text is not authenticated and must not
/// be trusted (CVE-2024-10977).
pub(super) fn outcome(inbox: &mut Inbox) -> Result<Progress, Problem> {
    match inbox.unread().first() {
        None => Ok(Progress::More),
        Some(b'S') => inbox.take(1).map(|_| Progress::Ready),
        Some(b'N') => Err(Problem::NotOffered),
        Some(_) => Err(Problem::unexpected("S or N", inbox.unread())),
    }
}
