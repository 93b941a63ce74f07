//! The protocols of lines, as their server: SMTP, LMTP, IMAP, POP3, NNTP.

use super::dialogue_step::DialogueStep;
use super::problem::{Problem, quote};
use super::protocol::{Protocol, is_safe_name};

/// Says the greeting of a server, where the protocol has one.
pub(super) fn greet(protocol: Protocol, name: &str, answer: &mut Vec<u8>) {
    let greeting = match protocol {
        Protocol::Smtp => format!("220 {name} ESMTP\r\n"),
        Protocol::Lmtp => format!("220 {name} LMTP\r\n"),
        Protocol::Imap => format!("* OK [CAPABILITY {IMAP_CAPABILITIES}] {name} ready\r\n"),
        Protocol::Pop3 => format!("+OK {name} ready\r\n"),
        Protocol::Nntp => format!("200 {name} ready\r\n"),
        _ => return,
    };
    answer.extend_from_slice(greeting.as_bytes());
}

/// A greeting for a client that waits for one, where the server's own came before TLS: that one is not trusted or passed on
/// (RFC 3207 §4.2), and the server has no second one. It reports the server as ready, and lists no capabilities: a client that needs them requests
/// them. `name`: name of the server, see [`is_safe_name`]; another one counts as `localhost`. Empty where the client sends first, and for
/// MySQL ([`mysql`](super::mysql)).
pub fn second_greeting(protocol: Protocol, name: &str) -> Vec<u8> {
    let name = if is_safe_name(name) { name } else { "localhost" };
    let mut greeting = Vec::new();
    match protocol {
        Protocol::Imap => greeting.extend_from_slice(format!("* OK {name} ready\r\n").as_bytes()),
        _ => greet(protocol, name, &mut greeting),
    }
    greeting
}

/// LOGINDISABLED keeps clients from sending a password at all (RFC 9051 §6.2.3).
const IMAP_CAPABILITIES: &str = "IMAP4rev1 STARTTLS LOGINDISABLED";

/// Answers one line.
pub(super) fn answer(protocol: Protocol, line: &[u8], name: &str, answer: &mut Vec<u8>) -> DialogueStep {
    let (text, progress) = match protocol {
        Protocol::Imap => imap(line, name),
        Protocol::Pop3 => pop3(line),
        Protocol::Nntp => nntp(line),
        _ => smtp(line, name, protocol == Protocol::Lmtp),
    };
    answer.extend_from_slice(text.as_bytes());
    progress
}

/// The first word in capitals, and whether more follows.
fn verb(line: &[u8]) -> (String, bool) {
    let end = line.iter().position(|byte| *byte == b' ').unwrap_or(line.len());
    let rest = line[end..].iter().any(|byte| *byte != b' ');
    (String::from_utf8_lossy(&line[..end]).to_ascii_uppercase(), rest)
}

fn left(line: &[u8]) -> DialogueStep {
    DialogueStep::End(Problem::Left { message: quote(line) })
}

/// RFC 3207 §4. Everything before TLS is discarded (RFC 3207 §4.2), so nothing but a greeting is of any use before it.
fn smtp(line: &[u8], name: &str, is_lmtp: bool) -> (String, DialogueStep) {
    let (verb, rest) = verb(line);
    let answer = match (verb.as_str(), rest) {
        ("EHLO", true) if !is_lmtp => format!("250-{name}\r\n250-ENHANCEDSTATUSCODES\r\n250 STARTTLS\r\n"),
        ("LHLO", true) if is_lmtp => format!("250-{name}\r\n250-ENHANCEDSTATUSCODES\r\n250 STARTTLS\r\n"),
        ("HELO", true) if !is_lmtp => format!("250 {name}\r\n"),
        ("EHLO" | "HELO" | "LHLO", false) => "501 5.5.4 Syntax error in parameters\r\n".into(),
        // RFC 2033 §4.1: LMTP has LHLO alone, and SMTP the other two.
        ("EHLO" | "HELO" | "LHLO", true) => "500 5.5.1 Command not recognized\r\n".into(),
        ("NOOP" | "RSET", _) => "250 2.0.0 Ok\r\n".into(),
        ("QUIT", false) => return (format!("221 2.0.0 {name} closing connection\r\n"), left(line)),
        ("STARTTLS", true) => "501 5.5.4 Syntax error (no parameters allowed)\r\n".into(),
        ("STARTTLS", false) => return ("220 2.0.0 Ready to start TLS\r\n".into(), DialogueStep::Upgrade),
        _ => "530 5.7.0 Must issue a STARTTLS command first\r\n".into(),
    };
    (answer, DialogueStep::Continue)
}

/// RFC 9051 §6.2.1; the response code of a refusal is RFC 5530 §3.
fn imap(line: &[u8], name: &str) -> (String, DialogueStep) {
    let tag_end = line.iter().position(|byte| *byte == b' ').unwrap_or(0);
    let tag = &line[..tag_end];
    let allowed = |byte: &u8| byte.is_ascii_graphic() && !b"(){%*\"\\+".contains(byte);
    if tag.is_empty() || tag.len() > 64 || !tag.iter().all(allowed) {
        return ("* BAD a command has a tag and a name\r\n".into(), DialogueStep::Continue);
    }
    let tag = String::from_utf8_lossy(tag);
    let (verb, rest) = verb(&line[tag_end + 1..]);
    let answer = match (verb.as_str(), rest) {
        ("CAPABILITY", false) => {
            format!("* CAPABILITY {IMAP_CAPABILITIES}\r\n{tag} OK CAPABILITY completed\r\n")
        }
        ("NOOP", false) => format!("{tag} OK NOOP completed\r\n"),
        ("LOGOUT", false) => {
            return (format!("* BYE {name} closing connection\r\n{tag} OK LOGOUT completed\r\n"), left(line));
        }
        ("STARTTLS", false) => {
            return (format!("{tag} OK Begin TLS negotiation now\r\n"), DialogueStep::Upgrade);
        }
        ("CAPABILITY" | "NOOP" | "LOGOUT" | "STARTTLS", true) => {
            format!("{tag} BAD no parameters allowed\r\n")
        }
        _ => format!("{tag} NO [PRIVACYREQUIRED] STARTTLS first\r\n"),
    };
    (answer, DialogueStep::Continue)
}

/// RFC 2595 §4, CAPA of RFC 2449 §5.
fn pop3(line: &[u8]) -> (String, DialogueStep) {
    let answer = match verb(line) {
        (verb, false) if verb == "CAPA" => "+OK Capability list follows\r\nSTLS\r\n.\r\n",
        (verb, false) if verb == "QUIT" => return ("+OK closing connection\r\n".into(), left(line)),
        (verb, false) if verb == "STLS" => {
            return ("+OK Begin TLS negotiation\r\n".into(), DialogueStep::Upgrade);
        }
        (verb, true) if verb == "STLS" => "-ERR no parameters allowed\r\n",
        _ => "-ERR STLS first\r\n",
    };
    (answer.into(), DialogueStep::Continue)
}

/// RFC 4642 §2.2; 483 is RFC 3977 §3.2.1.
fn nntp(line: &[u8]) -> (String, DialogueStep) {
    let answer = match verb(line) {
        (verb, _) if verb == "CAPABILITIES" => "101 Capability list:\r\nVERSION 2\r\nSTARTTLS\r\n.\r\n",
        (verb, false) if verb == "QUIT" => return ("205 closing connection\r\n".into(), left(line)),
        (verb, false) if verb == "STARTTLS" => {
            return ("382 Continue with TLS negotiation\r\n".into(), DialogueStep::Upgrade);
        }
        (verb, true) if verb == "STARTTLS" => "501 No parameters allowed\r\n",
        _ => "483 Encryption required: STARTTLS first\r\n",
    };
    (answer.into(), DialogueStep::Continue)
}
