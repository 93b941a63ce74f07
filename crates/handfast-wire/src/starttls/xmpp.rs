//! XMPP: tags, the header of a stream, and the few elements of its way to TLS.
//!
//! Not a reader of XML: the dialogue before TLS has a handful of known tags, and any other tag ends it.
//!
//! **Source**: RFC 6120 §4.7, §4.9.3, §5.4 and §11.1: headers, errors, STARTTLS, neither comments nor DTDs.

use super::dialogue_step::DialogueStep;
use super::inbox::Inbox;
use super::problem::{Problem, quote};
use super::protocol::{Protocol, is_safe_name};
use super::{Progress, UNIT_LIMIT};

const TLS: &str = "urn:ietf:params:xml:ns:xmpp-tls";

/// One tag, as it was written: from `<` to `>`.
#[derive(Debug)]
pub(super) struct Tag(Vec<u8>);

/// The next tag. Between tags there is white space alone.
pub(super) fn tag(inbox: &mut Inbox) -> Result<Option<Tag>, Problem> {
    tag_behind(inbox, u8::is_ascii_whitespace)
}

/// The next tag behind text, which a list of features has in its elements: the names of mechanisms.
fn tag_behind_text(inbox: &mut Inbox) -> Result<Option<Tag>, Problem> {
    tag_behind(inbox, |byte| *byte != b'<')
}

fn tag_behind(inbox: &mut Inbox, is_between: fn(&u8) -> bool) -> Result<Option<Tag>, Problem> {
    let unread = inbox.unread();
    let blank = unread.iter().take_while(|byte| is_between(byte)).count();
    if blank >= UNIT_LIMIT {
        return Err(Problem::UnitTooLong);
    }
    let Some(first) = unread.get(blank) else { return Ok(None) };
    if *first != b'<' {
        return Err(Problem::unexpected("a tag", unread));
    }
    let mut quoted = None;
    let end = unread[blank..].iter().take(UNIT_LIMIT).position(|byte| {
        match (quoted, *byte) {
            (None, b'"' | b'\'') => quoted = Some(*byte),
            (Some(open), byte) if open == byte => quoted = None,
            _ => {}
        }
        quoted.is_none() && *byte == b'>'
    });
    match end {
        Some(end) => Ok(Some(Tag(inbox.take(blank + end + 1)?.split_off(blank)))),
        None if unread.len() - blank >= UNIT_LIMIT => Err(Problem::UnitTooLong),
        None => Ok(None),
    }
}

impl Tag {
    /// Its name without the prefix of a namespace; with a slash before it where it closes an element.
    fn name(&self) -> &[u8] {
        let inside = &self.0[1..];
        let end = inside.iter().position(|byte| byte.is_ascii_whitespace() || *byte == b'>');
        let name = &inside[..end.unwrap_or(0)];
        let name = name.strip_suffix(b"/").unwrap_or(name);
        match name.iter().position(|byte| *byte == b':') {
            Some(colon) if name[0] != b'/' => &name[colon + 1..],
            _ => name,
        }
    }

    fn closes(&self, name: &[u8]) -> bool {
        let Some(written) = self.name().strip_prefix(b"/") else { return false };
        written == name || written.strip_suffix(name).is_some_and(|prefix| prefix.ends_with(b":"))
    }

    fn is_empty_element(&self) -> bool {
        self.0.ends_with(b"/>")
    }

    fn is_declaration(&self) -> bool {
        self.0.starts_with(b"<?xml")
    }

    /// The value of an attribute, as it was written.
    fn attribute(&self, searched: &str) -> Option<&str> {
        let text = std::str::from_utf8(&self.0).ok()?;
        let mut rest = text.find(|c: char| c.is_ascii_whitespace()).map(|at| &text[at..])?;
        loop {
            let (name, after) = rest.split_once('=')?;
            let after = after.trim_start();
            let open = after.chars().next().filter(|open| matches!(open, '"' | '\''))?;
            let (value, after) = after[1..].split_once(open)?;
            if name.trim() == searched {
                return Some(value);
            }
            rest = after;
        }
    }

    /// Returns true if it is the element `name` of the namespace of TLS.
    fn is_of_tls(&self, name: &str) -> bool {
        let in_tls = || {
            let text = String::from_utf8_lossy(&self.0);
            text.contains(&format!("'{TLS}'")) || text.contains(&format!("\"{TLS}\""))
        };
        self.name() == name.as_bytes() && in_tls()
    }
}

/// State of a server's dialogue with its client.
#[derive(Debug, Default)]
pub(super) struct Stream {
    is_open: bool,
    is_requested: bool,
}

impl Stream {
    /// Answers one tag.
    pub(super) fn answer(
        &mut self,
        tag: &Tag,
        name: &str,
        protocol: Protocol,
        answer: &mut Vec<u8>,
    ) -> DialogueStep {
        if !self.is_open && tag.is_declaration() {
            return DialogueStep::Continue;
        }
        if !self.is_open && tag.name() == b"stream" && !tag.is_empty_element() {
            self.is_open = true;
            let to = tag.attribute("to").filter(|to| is_safe_name(to)).unwrap_or(name);
            open(to, protocol, answer);
            return DialogueStep::Continue;
        }
        if self.is_open && tag.closes(b"stream") {
            answer.extend_from_slice(b"</stream:stream>");
            return DialogueStep::End(Problem::Left { message: "</stream:stream>".into() });
        }
        let whole = (self.is_requested && tag.closes(b"starttls")) || tag.is_empty_element();
        self.is_requested = self.is_open && (self.is_requested || tag.is_of_tls("starttls"));
        if self.is_requested && whole {
            answer.extend_from_slice(format!("<proceed xmlns='{TLS}'/>").as_bytes());
            return DialogueStep::Upgrade;
        }
        if self.is_requested && tag.is_of_tls("starttls") {
            return DialogueStep::Continue;
        }
        self.refuse(tag, name, protocol, answer)
    }

    /// A server that demands TLS ends the stream of a client that requests something else (RFC 6120 §4.9.3.14,
    /// policy-violation).
    fn refuse(&self, tag: &Tag, name: &str, protocol: Protocol, answer: &mut Vec<u8>) -> DialogueStep {
        if !self.is_open {
            header(name, protocol, answer);
        }
        let error = "<stream:error><policy-violation xmlns='urn:ietf:params:xml:ns:xmpp-streams'/></stream:error></stream:stream>";
        answer.extend_from_slice(error.as_bytes());
        let got = quote(&tag.0);
        DialogueStep::End(if self.is_open {
            Problem::Insisted { on: got }
        } else {
            Problem::Unexpected { expected: "the header of a stream", got }
        })
    }
}

const fn namespace(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::XmppServer => "jabber:server",
        _ => "jabber:client",
    }
}

/// The header of an answering stream. Its `id` identifies a stream that TLS replaces at once (RFC 6120 §5.4.3.3), so that nothing hangs on
/// its being hard to guess.
fn header(from: &str, protocol: Protocol, answer: &mut Vec<u8>) {
    let header = format!(
        "<?xml version='1.0'?><stream:stream xmlns='{}' xmlns:stream='http://etherx.jabber.org/streams' \
         id='before-tls' from='{from}' version='1.0' xml:lang='en'>",
        namespace(protocol)
    );
    answer.extend_from_slice(header.as_bytes());
}

fn open(from: &str, protocol: Protocol, answer: &mut Vec<u8>) {
    header(from, protocol, answer);
    let features =
        format!("<stream:features><starttls xmlns='{TLS}'><required/></starttls></stream:features>");
    answer.extend_from_slice(features.as_bytes());
}

/// Opens a stream to a server, for the domain `to`.
pub(super) fn open_stream(to: &str, protocol: Protocol, words: &mut Vec<u8>) {
    let header = format!(
        "<?xml version='1.0'?><stream:stream xmlns='{}' xmlns:stream='http://etherx.jabber.org/streams' \
         to='{to}' version='1.0'>",
        namespace(protocol)
    );
    words.extend_from_slice(header.as_bytes());
}

/// State of our dialogue with a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ClientState {
    /// Its header has not come.
    #[default]
    Header,
    /// Its features are being read.
    Features {
        /// TLS was among them.
        offered: bool,
    },
    /// TLS has been requested.
    Answer,
    /// … and agreed to, in an element that is still open.
    Proceeding,
    /// A stream error came, and its condition is the next tag (RFC 6120 §4.9.2).
    Failing,
}

impl ClientState {
    /// Reads the server's bytes.
    pub(super) fn read_server(
        &mut self,
        inbox: &mut Inbox,
        words: &mut Vec<u8>,
    ) -> Result<Progress, Problem> {
        loop {
            let has_text = matches!(self, Self::Features { .. } | Self::Failing);
            let next = if has_text { tag_behind_text(inbox) } else { tag(inbox) };
            let Some(tag) = next? else { return Ok(Progress::More) };
            if self.step(&tag)? {
                inbox.skip_blanks(Protocol::Xmpp);
                return Ok(Progress::Ready);
            }
            if matches!(self, Self::Features { offered: true }) && tag.closes(b"features") {
                inbox.skip_blanks(Protocol::Xmpp);
                inbox.silent()?;
                words.extend_from_slice(format!("<starttls xmlns='{TLS}'/>").as_bytes());
                *self = Self::Answer;
            }
        }
    }

    /// Takes one tag, and returns true if TLS may begin.
    fn step(&mut self, tag: &Tag) -> Result<bool, Problem> {
        let unexpected = |expected| Err(Problem::unexpected(expected, &tag.0));
        match self {
            Self::Header if tag.is_declaration() => {}
            Self::Header if tag.name() == b"stream" => *self = Self::Features { offered: false },
            Self::Header => return unexpected("the header of a stream"),
            Self::Failing => {
                let condition = [b"stream error ", tag.name()].concat();
                return Err(Problem::refused(&condition));
            }
            _ if tag.name() == b"error" && !tag.is_empty_element() => *self = Self::Failing,
            _ if tag.name() == b"error" => return Err(Problem::refused(&tag.0)),
            Self::Features { offered } if tag.closes(b"features") || tag.is_empty_features() => {
                if !*offered {
                    return Err(Problem::NotOffered);
                }
            }
            Self::Features { offered } => *offered |= tag.is_of_tls("starttls"),
            Self::Answer if tag.is_of_tls("proceed") && tag.is_empty_element() => return Ok(true),
            Self::Answer if tag.is_of_tls("proceed") => *self = Self::Proceeding,
            Self::Answer if tag.is_of_tls("failure") => return Err(Problem::refused(&tag.0)),
            Self::Proceeding if tag.closes(b"proceed") => return Ok(true),
            Self::Answer | Self::Proceeding => return unexpected("proceed"),
        }
        Ok(false)
    }
}

impl Tag {
    fn is_empty_features(&self) -> bool {
        self.name() == b"features" && self.is_empty_element()
    }
}
