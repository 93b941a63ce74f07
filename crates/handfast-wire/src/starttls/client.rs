//! Our end as a client: it requests TLS from a server, which accepts or refuses.

use super::inbox::Inbox;
use super::problem::Problem;
use super::protocol::Protocol;
use super::{Progress, ldap, mysql, postgresql, xmpp};

/// Asks a server for TLS in its own protocol.
///
/// The server's messages are checked and discarded: a greeting or a list of capabilities that came without protection is worthless
/// once TLS is established (RFC 3207 §4.2), whatever its content.
#[derive(Debug)]
pub struct Client {
    protocol: Protocol,
    name: Box<str>,
    inbox: Inbox,
    stage: Stage,
    /// The reply so far offers STARTTLS.
    offered: bool,
    xmpp: xmpp::ClientState,
}

/// Whose answer is awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Greeting,
    /// To EHLO or LHLO.
    Hello,
    /// To the request for TLS.
    Request,
}

impl Client {
    /// `name`: the domain that an XMPP stream is for, and with which SMTP's client introduces itself; see
    /// [`is_safe_name`](super::is_safe_name), another one counts as `localhost`.
    pub fn new(protocol: Protocol, name: &str) -> Self {
        let name = if super::is_safe_name(name) { name } else { "localhost" };
        Self {
            protocol,
            name: name.into(),
            inbox: Inbox::default(),
            stage: if protocol.server_speaks_first() { Stage::Greeting } else { Stage::Request },
            offered: false,
            xmpp: xmpp::ClientState::default(),
        }
    }

    /// Writes the first message of the client; none, where the server greets first.
    pub fn begin(&mut self, words: &mut Vec<u8>) {
        match self.protocol {
            Protocol::Ldap => ldap::request_tls(words),
            Protocol::PostgreSql => postgresql::request_tls(words),
            Protocol::Xmpp | Protocol::XmppServer => xmpp::open_stream(&self.name, self.protocol, words),
            _ => {}
        }
    }

    /// Takes the server's bytes; appends the next message to `words`.
    ///
    /// After [`Progress::Ready`] the words, if any, go first (MySQL's request for TLS has no answer), and TLS behind them.
    ///
    /// **Errors**: why it does not come to TLS; nothing may be taken in after that.
    /// **Cost**: linear in the bytes.
    pub fn take(&mut self, bytes: &[u8], words: &mut Vec<u8>) -> Result<Progress, Problem> {
        self.inbox.push(bytes);
        let progress = match self.protocol {
            Protocol::Ldap => ldap::outcome(&mut self.inbox)?,
            Protocol::PostgreSql => postgresql::outcome(&mut self.inbox)?,
            Protocol::Xmpp | Protocol::XmppServer => self.xmpp.read_server(&mut self.inbox, words)?,
            Protocol::MySql => mysql::request_tls(&mut self.inbox, words)?,
            _ => self.read_lines(words)?,
        };
        self.inbox.settle(progress)
    }

    fn read_lines(&mut self, words: &mut Vec<u8>) -> Result<Progress, Problem> {
        while let Some(line) = self.inbox.line()? {
            let is_over = match self.protocol {
                Protocol::Imap => self.imap(&line)?,
                Protocol::Pop3 => Self::pop3(&line)?,
                Protocol::Nntp => self.nntp(&line)?,
                _ => self.smtp(&line)?,
            };
            if !is_over {
                continue;
            }
            if self.stage == Stage::Request {
                return Ok(Progress::Ready);
            }
            // A server that sends more when it is our turn may be injecting a second reply.
            self.inbox.silent()?;
            self.next(words)?;
        }
        Ok(Progress::More)
    }

    /// Handles a whole reply: appends the next message.
    fn next(&mut self, words: &mut Vec<u8>) -> Result<(), Problem> {
        let (stage, message) = match (self.stage, self.protocol) {
            (Stage::Greeting, Protocol::Smtp) => (Stage::Hello, format!("EHLO {}\r\n", self.name)),
            (Stage::Greeting, Protocol::Lmtp) => (Stage::Hello, format!("LHLO {}\r\n", self.name)),
            (Stage::Hello, _) if !self.offered => return Err(Problem::NotOffered),
            (_, Protocol::Imap) => (Stage::Request, "a1 STARTTLS\r\n".into()),
            (_, Protocol::Pop3) => (Stage::Request, "STLS\r\n".into()),
            _ => (Stage::Request, "STARTTLS\r\n".into()),
        };
        self.stage = stage;
        words.extend_from_slice(message.as_bytes());
        Ok(())
    }

    /// One line of a reply (RFC 5321 §4.2.1); whether it is the last.
    fn smtp(&mut self, line: &[u8]) -> Result<bool, Problem> {
        let code = reply_code(line)?;
        let expected = if self.stage == Stage::Hello { 250 } else { 220 };
        match code {
            _ if code == expected => {}
            400..=599 => return Err(Problem::refused(line)),
            _ => return Err(Problem::unexpected("a reply of success", line)),
        }
        // Every line of a reply to EHLO but the first is a keyword.
        let keyword = line.get(4..).unwrap_or_default();
        self.offered |= self.stage == Stage::Hello && keyword.eq_ignore_ascii_case(b"STARTTLS");
        Ok(line.get(3) != Some(&b'-'))
    }

    fn nntp(&self, line: &[u8]) -> Result<bool, Problem> {
        match (self.stage, reply_code(line)?) {
            (Stage::Greeting, 200 | 201) | (Stage::Request, 382) => Ok(true),
            (_, 400..=599) => Err(Problem::refused(line)),
            _ => Err(Problem::unexpected("a response of success", line)),
        }
    }

    fn pop3(line: &[u8]) -> Result<bool, Problem> {
        if line.starts_with(b"+OK") {
            return Ok(true);
        }
        let refused = line.starts_with(b"-ERR");
        Err(if refused { Problem::refused(line) } else { Problem::unexpected("+OK or -ERR", line) })
    }

    /// PREAUTH would have us skip TLS, as STARTTLS is not allowed after it (RFC 9051 §7.1.4): a refusal, whatever its origin.
    fn imap(&self, line: &[u8]) -> Result<bool, Problem> {
        let starts =
            |word: &[u8]| line.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
        match self.stage {
            Stage::Greeting if starts(b"* OK") => Ok(true),
            Stage::Greeting if starts(b"* BYE") || starts(b"* PREAUTH") => Err(Problem::refused(line)),
            Stage::Greeting => Err(Problem::unexpected("* OK", line)),
            _ if starts(b"a1 OK") => Ok(true),
            _ if starts(b"a1 NO") || starts(b"a1 BAD") || starts(b"* BYE") => Err(Problem::refused(line)),
            _ if starts(b"* ") => Ok(false),
            _ => Err(Problem::unexpected("a1 OK", line)),
        }
    }
}

/// The three digits that a reply of SMTP or NNTP begins with.
pub(super) fn reply_code(line: &[u8]) -> Result<u16, Problem> {
    let ends = line.get(3).is_none_or(|byte| matches!(byte, b' ' | b'-'));
    let digits = line.get(..3).filter(|digits| ends && digits.iter().all(u8::is_ascii_digit));
    let digits = digits.ok_or_else(|| Problem::unexpected("a reply of three digits", line))?;
    Ok(digits.iter().fold(0, |code, digit| code * 10 + u16::from(digit - b'0')))
}
