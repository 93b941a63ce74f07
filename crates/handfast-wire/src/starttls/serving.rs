//! Our end as a server: a client has to request TLS, and every other command is refused until it does.

use super::dialogue_step::DialogueStep;
use super::inbox::Inbox;
use super::problem::{Problem, quote};
use super::protocol::Protocol;
use super::{Progress, ldap, postgresql, text, xmpp};
use crate::record::ContentType;

/// Speaks with a client as the server of a protocol would, until TLS begins.
///
/// No client data is kept, and nothing but the request for TLS has an effect: everything else is refused in the protocol's own
/// words. MySQL is not among its protocols: there the real server sends first ([`super::mysql`]).
#[derive(Debug)]
pub struct Server {
    protocol: Protocol,
    name: Box<str>,
    inbox: Inbox,
    xmpp: xmpp::Stream,
    greeted: bool,
}

impl Server {
    /// `name`: what it calls itself in greetings; see [`is_safe_name`](super::is_safe_name). Another one counts as `localhost`.
    pub fn new(protocol: Protocol, name: &str) -> Self {
        let name = if super::is_safe_name(name) { name } else { "localhost" };
        Self {
            protocol,
            name: name.into(),
            inbox: Inbox::default(),
            xmpp: xmpp::Stream::default(),
            greeted: false,
        }
    }

    /// Writes the first message of the server: a greeting, where the protocol has one.
    pub fn begin(&mut self, answer: &mut Vec<u8>) {
        text::greet(self.protocol, &self.name, answer);
    }

    /// Takes the client's bytes; appends the answer to `answer`, also when it fails: then it is the last message.
    ///
    /// **Errors**: why it does not come to TLS; nothing may be taken in after that.
    /// **Cost**: linear in the bytes.
    pub fn take(&mut self, bytes: &[u8], answer: &mut Vec<u8>) -> Result<Progress, Problem> {
        self.inbox.push(bytes);
        if !self.greeted
            && let Some(first) = self.inbox.unread().first()
        {
            self.greeted = true;
            if *first == ContentType::HANDSHAKE.0 {
                let direct = !self.protocol.server_speaks_first();
                return if direct { Ok(Progress::Direct) } else { Err(Problem::TlsAtOnce) };
            }
        }
        let before = answer.len();
        let progress = self.receive(answer)?;
        let settled = self.inbox.settle(progress);
        if settled.is_err() && progress == Progress::Ready {
            // A client that is refused must not begin TLS.
            answer.truncate(before);
        }
        settled
    }

    /// Returns the client's unread bytes: the beginning of TLS after [`Progress::Direct`], a request after [`Progress::Cancel`].
    pub fn into_received(self) -> Vec<u8> {
        self.inbox.into_unread()
    }

    /// Reads all that is whole.
    fn receive(&mut self, answer: &mut Vec<u8>) -> Result<Progress, Problem> {
        loop {
            let step = match self.protocol {
                Protocol::Ldap => {
                    self.inbox.packet(ldap::measure)?.map(|message| ldap::answer(&message, answer))
                }
                Protocol::PostgreSql if postgresql::is_cancel(self.inbox.unread())? => {
                    return Ok(Progress::Cancel);
                }
                Protocol::PostgreSql => {
                    self.inbox.packet(postgresql::measure)?.map(|packet| postgresql::answer(&packet, answer))
                }
                Protocol::Xmpp | Protocol::XmppServer => {
                    let name = &self.name;
                    xmpp::tag(&mut self.inbox)?.map(|tag| self.xmpp.answer(&tag, name, self.protocol, answer))
                }
                Protocol::MySql => {
                    let got = quote(self.inbox.unread());
                    return Err(Problem::Unexpected { expected: "the backend's greeting", got });
                }
                Protocol::Smtp | Protocol::Lmtp | Protocol::Imap | Protocol::Pop3 | Protocol::Nntp => {
                    self.inbox.line()?.map(|line| text::answer(self.protocol, &line, &self.name, answer))
                }
            };
            match step {
                None => return Ok(Progress::More),
                Some(DialogueStep::Continue) => {}
                Some(DialogueStep::Upgrade) => {
                    self.inbox.skip_blanks(self.protocol);
                    return Ok(Progress::Ready);
                }
                Some(DialogueStep::End(problem)) => return Err(problem),
            }
        }
    }
}
