//! LDAP: just enough of its messages to ask for TLS, to agree, and to refuse everything else.
//!
//! **Source**: RFC 4511 §4.1.1, §4.12, §4.14 and §5.1: messages, extended operations, StartTLS, definite lengths alone.

use super::Progress;
use super::dialogue_step::DialogueStep;
use super::inbox::Inbox;
use super::problem::{Problem, quote};

/// The name of the StartTLS operation (RFC 4511 §4.14.1).
const START_TLS: &[u8] = b"1.3.6.1.4.1.1466.20037";

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const ENUMERATED: u8 = 0x0a;
const OCTET_STRING: u8 = 0x04;
const UNBIND_REQUEST: u8 = 0x42;
const ABANDON_REQUEST: u8 = 0x50;
const EXTENDED_REQUEST: u8 = 0x77;
const EXTENDED_RESPONSE: u8 = 0x78;
/// `[0]` in an extended request: its name.
const REQUEST_NAME: u8 = 0x80;
/// `[10]` in an extended response: the same.
const RESPONSE_NAME: u8 = 0x8a;

const SUCCESS: u8 = 0;
const CONFIDENTIALITY_REQUIRED: u8 = 13;

/// Tag, bytes of the header, bytes of the content; `None` when the header is not whole.
fn header(bytes: &[u8]) -> Result<Option<(u8, usize, usize)>, Problem> {
    let malformed = || Problem::unexpected("an LDAP message", bytes);
    let [tag, first, rest @ ..] = bytes else { return Ok(None) };
    let digits = match *first {
        short @ 0..=0x7f => return Ok(Some((*tag, 2, usize::from(short)))),
        0x81..=0x84 => usize::from(*first & 0x7f),
        _ => return Err(malformed()),
    };
    let Some(digits) = rest.get(..digits) else { return Ok(None) };
    let length = digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit));
    Ok(Some((*tag, 2 + digits.len(), length)))
}

/// The length of the message at the front.
pub(super) fn measure(unread: &[u8]) -> Result<Option<usize>, Problem> {
    if unread.first().is_some_and(|tag| *tag != SEQUENCE) {
        return Err(Problem::unexpected("an LDAP message", unread));
    }
    Ok(header(unread)?.map(|(_, header, content)| header.saturating_add(content)))
}

/// Takes the element at the front: its tag and content.
fn element<'a>(bytes: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let (tag, start, length) = header(bytes).ok()??;
    let content = bytes.get(start..start.checked_add(length)?)?;
    *bytes = &bytes[start + length..];
    Some((tag, content))
}

/// The message's number as it was written, and its operation.
fn message(bytes: &[u8]) -> Option<(&[u8], u8, &[u8])> {
    let mut rest = bytes;
    let (SEQUENCE, mut content) = element(&mut rest)? else { return None };
    let (INTEGER, id) = element(&mut content)? else { return None };
    let (operation, body) = element(&mut content)?;
    (rest.is_empty() && (1..=4).contains(&id.len())).then_some((id, operation, body))
}

/// Answers one message.
pub(super) fn answer(bytes: &[u8], answer: &mut Vec<u8>) -> DialogueStep {
    let Some((id, operation, mut body)) = message(bytes) else {
        return DialogueStep::End(Problem::Unexpected { expected: "an LDAP message", got: quote(bytes) });
    };
    let response = match operation {
        UNBIND_REQUEST => return DialogueStep::End(Problem::Left { message: "an unbind request".into() }),
        // It has no response (RFC 4511 §4.11).
        ABANDON_REQUEST => return DialogueStep::Continue,
        EXTENDED_REQUEST => {
            // A value must not be there (RFC 4511 §4.14.1).
            if element(&mut body) == Some((REQUEST_NAME, START_TLS)) && body.is_empty() {
                respond(id, EXTENDED_RESPONSE, SUCCESS, "", answer);
                return DialogueStep::Upgrade;
            }
            EXTENDED_RESPONSE
        }
        // Bind, search, modify, add, modify DN, compare: the response has the next number; a search its done.
        0x60 | 0x66 | 0x68 | 0x6c | 0x6e => operation + 1,
        0x63 => 0x65,
        // Delete, whose request is not constructed.
        0x4a => 0x6b,
        _ => {
            return DialogueStep::End(Problem::Unexpected { expected: "an LDAP request", got: quote(bytes) });
        }
    };
    respond(id, response, CONFIDENTIALITY_REQUIRED, "StartTLS first", answer);
    DialogueStep::Continue
}

fn put(tag: u8, content: &[u8], out: &mut Vec<u8>) {
    // Nothing that is written here has 128 bytes.
    out.push(tag);
    out.push(content.len() as u8);
    out.extend_from_slice(content);
}

fn respond(id: &[u8], tag: u8, code: u8, diagnostic: &str, answer: &mut Vec<u8>) {
    let mut result = Vec::new();
    put(ENUMERATED, &[code], &mut result);
    put(OCTET_STRING, b"", &mut result);
    put(OCTET_STRING, diagnostic.as_bytes(), &mut result);
    if tag == EXTENDED_RESPONSE && code == SUCCESS {
        put(RESPONSE_NAME, START_TLS, &mut result);
    }
    let mut content = Vec::new();
    put(INTEGER, id, &mut content);
    put(tag, &result, &mut content);
    put(SEQUENCE, &content, answer);
}

/// Asks for TLS, in the first message of the connection.
pub(super) fn request_tls(words: &mut Vec<u8>) {
    let mut request = Vec::new();
    put(REQUEST_NAME, START_TLS, &mut request);
    let mut content = Vec::new();
    put(INTEGER, &[1], &mut content);
    put(EXTENDED_REQUEST, &request, &mut content);
    put(SEQUENCE, &content, words);
}

/// Reads the response.
pub(super) fn outcome(inbox: &mut Inbox) -> Result<Progress, Problem> {
    let Some(bytes) = inbox.packet(measure)? else { return Ok(Progress::More) };
    let unexpected = || Problem::unexpected("the response to StartTLS", &bytes);
    let (id, operation, mut body) = message(&bytes).ok_or_else(unexpected)?;
    let (code_tag, code) = element(&mut body).ok_or_else(unexpected)?;
    let diagnostic = element(&mut body).and_then(|_| element(&mut body)).map_or(&b""[..], |(_, text)| text);
    match (operation, id, code_tag, code) {
        (EXTENDED_RESPONSE, [1], ENUMERATED, [SUCCESS]) => Ok(Progress::Ready),
        // 0: a notice of disconnection (RFC 4511 §4.4.1).
        (EXTENDED_RESPONSE, [0 | 1], ENUMERATED, [code]) => {
            let message = format!("result code {code} {}", quote(diagnostic));
            Err(Problem::Refused { message: message.trim_end().into() })
        }
        _ => Err(unexpected()),
    }
}
