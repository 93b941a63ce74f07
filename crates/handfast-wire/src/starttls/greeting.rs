//! The greeting of a server behind us, which a client that has changed to TLS does not expect any more.
//!
//! After STARTTLS it is the client's turn (RFC 3207 §4.2: it sends EHLO; RFC 9051 §6.2.1, RFC 2595 §4, RFC 4642 §2.2.2 likewise
//! have no second greeting). A server behind us that is spoken to in plain text, or in TLS from the first byte, knows nothing of the
//! first one and greets. That greeting is consumed here.
//!
//! A server of MySQL greets before TLS, and its client needs the greeting to log in: there it is passed on.

use super::client::reply_code;
use super::inbox::Inbox;
use super::mysql;
use super::problem::Problem;
use super::protocol::Protocol;

/// Reads the greeting of a server, and keeps what came behind it.
#[derive(Clone, Debug)]
pub struct Greeting {
    protocol: Protocol,
    /// The server must offer TLS in it.
    needs_tls: bool,
    inbox: Inbox,
    /// The lines so far; of MySQL, the bytes.
    lines: Vec<u8>,
}

/// Outcome of a greeting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Greeted {
    /// It is not whole.
    More,
    /// The server is ready. The bytes behind its greeting are the client's; of MySQL, the greeting itself.
    Ready(Vec<u8>),
    /// The server does not serve. Its words are the client's: they are as good an answer to what it asks first.
    Refused {
        /// As they came, and what came behind them.
        words: Vec<u8>,
        /// For people.
        problem: Problem,
    },
}

impl Greeting {
    /// `None` where the server does not greet before its client sends, or does so as part of the way to TLS (MySQL).
    pub fn new(protocol: Protocol) -> Option<Self> {
        let greets = protocol.server_speaks_first() && protocol != Protocol::MySql;
        greets.then(|| Self { protocol, needs_tls: false, inbox: Inbox::default(), lines: Vec::new() })
    }

    /// The greeting of a MySQL server, which is passed on. `needs_tls`: TLS follows, so the server must offer it.
    pub fn of_mysql(needs_tls: bool) -> Self {
        Self { protocol: Protocol::MySql, needs_tls, inbox: Inbox::default(), lines: Vec::new() }
    }

    /// Takes the server's bytes.
    ///
    /// **Errors**: what is no greeting of this protocol.
    /// **Cost**: linear in the bytes.
    pub fn take(&mut self, bytes: &[u8]) -> Result<Greeted, Problem> {
        if self.protocol == Protocol::MySql {
            return self.take_mysql(bytes);
        }
        self.inbox.push(bytes);
        while let Some(line) = self.inbox.line()? {
            self.lines.extend_from_slice(&line);
            self.lines.extend_from_slice(b"\r\n");
            let is_ready = match self.protocol {
                Protocol::Imap => imap(&line)?,
                Protocol::Pop3 if line.starts_with(b"+OK") => true,
                Protocol::Pop3 if line.starts_with(b"-ERR") => false,
                Protocol::Pop3 => return Err(Problem::unexpected("+OK", &line)),
                Protocol::Nntp => by_code(&line, &[200, 201])?,
                _ if line.get(3) == Some(&b'-') => {
                    reply_code(&line)?;
                    continue;
                }
                _ => by_code(&line, &[220])?,
            };
            let inbox = std::mem::take(&mut self.inbox);
            return Ok(if is_ready {
                Greeted::Ready(inbox.into_unread())
            } else {
                let problem = Problem::refused(&line);
                let words = [std::mem::take(&mut self.lines), inbox.into_unread()].concat();
                Greeted::Refused { words, problem }
            });
        }
        self.inbox.settle(super::Progress::More).map(|_| Greeted::More)
    }

    fn take_mysql(&mut self, bytes: &[u8]) -> Result<Greeted, Problem> {
        self.lines.extend_from_slice(bytes);
        match mysql::greeting(&self.lines) {
            Ok(None) => Ok(Greeted::More),
            Ok(Some(greeting)) if self.needs_tls && !greeting.offers_tls() => Err(Problem::NotOffered),
            Ok(Some(_)) => Ok(Greeted::Ready(std::mem::take(&mut self.lines))),
            Err(problem @ Problem::Refused { .. }) => {
                Ok(Greeted::Refused { words: std::mem::take(&mut self.lines), problem })
            }
            Err(problem) => Err(problem),
        }
    }
}

fn by_code(line: &[u8], ready: &[u16]) -> Result<bool, Problem> {
    match reply_code(line)? {
        code if ready.contains(&code) => Ok(true),
        400..=599 => Ok(false),
        _ => Err(Problem::unexpected("a greeting", line)),
    }
}

/// A server that authenticates every connection at once (PREAUTH) would do so for every client, and no message could warn them.
fn imap(line: &[u8]) -> Result<bool, Problem> {
    let starts = |word: &[u8]| line.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
    match () {
        () if starts(b"* OK") => Ok(true),
        () if starts(b"* BYE") => Ok(false),
        () => Err(Problem::unexpected("* OK", line)),
    }
}
