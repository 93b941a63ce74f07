//! Lines of a head, and their parts.
//!
//! In: bytes received so far. Out: the parts of a line, or [`Stop`]. A line is judged once it is whole or longer than its limit, so that
//! the result does not depend on how the bytes were split. The first byte is the exception: it alone shows that this is another
//! protocol.

use super::error::Rule;
use super::field::{Field, Kind, tokens};
use super::framing::Facts;
use super::limits::HeadLimits;
use super::scan::{TOKEN, class, is_blank, letters_end, next_control, target_end};

/// Most field names that `Connection` may list.
const NOMINATION_LIMIT: usize = 32;

/// Reason why a parser stopped.
pub(super) enum Stop {
    /// The bytes end within a line.
    Incomplete,
    /// A line is wrong, at this byte.
    Broken(Rule, usize),
    /// The message is wrong whatever follows.
    Final(Rule, usize),
}

/// A cursor over lines.
pub(super) struct Lines<'a> {
    received: &'a [u8],
    /// As much of them as the present line may reach.
    text: &'a [u8],
    /// Start of the present line.
    line: usize,
    /// The next byte.
    pub(super) at: usize,
    limits: HeadLimits,
    in_fields: bool,
    /// True where the sender is a backend. Lines that end with LF alone, and values with control bytes, are tolerated there, as other proxies do:
    /// they leave no doubt about where the message ends. From a client they could hide a field from a proxy in front (RFC 9112 §11.1).
    is_tolerant: bool,
}

impl<'a> Lines<'a> {
    pub(super) fn new(received: &'a [u8], limits: &HeadLimits, is_tolerant: bool) -> Self {
        let (text, limits) = (received, *limits);
        let mut lines = Self { received, text, line: 0, at: 0, limits, in_fields: false, is_tolerant };
        lines.text = &received[..received.len().min(lines.limit())];
        lines
    }

    /// Returns the position by which the present line must have ended. Positions are kept in 32 bits.
    pub(super) fn limit(&self) -> usize {
        let most = self.limits.head.min(u32::MAX as usize);
        if self.in_fields { most } else { self.limits.start_line.min(most) }
    }

    /// A line that has not ended yet is not judged, and one that is too long is nothing else.
    #[cold]
    pub(super) fn judge(&self, stop: Stop) -> Stop {
        match stop {
            Stop::Final(..) => stop,
            Stop::Broken(..) if self.text[self.line..].contains(&b'\n') => stop,
            _ if self.received.len() < self.limit() => Stop::Incomplete,
            _ if self.in_fields || self.limit() == self.limits.head => {
                Stop::Final(Rule::HeadTooLarge, self.line)
            }
            _ => Stop::Final(Rule::StartLineTooLong, self.line),
        }
    }

    /// Everything before the present position.
    pub(super) fn read(&self) -> &'a [u8] {
        &self.received[..self.at]
    }

    /// The first byte of a message must be one of these.
    pub(super) fn first_byte(&self, is_start: impl Fn(u8) -> bool) -> Result<(), Stop> {
        match self.text.first() {
            None => Err(Stop::Incomplete),
            Some(byte) if is_start(*byte) => Ok(()),
            Some(_) => Err(Stop::Final(Rule::FirstByte, 0)),
        }
    }

    /// Skips one empty line, as some clients send behind a body (RFC 9112 §2.2).
    pub(super) fn skip_empty_line(&mut self) {
        if self.text.starts_with(b"\r\n") {
            (self.line, self.at) = (2, 2);
        }
    }

    /// The method and its space.
    pub(super) fn method(&mut self) -> Result<&'a [u8], Stop> {
        let length = self.text[self.at..].iter().position(|byte| class(*byte) & TOKEN == 0);
        self.word(length.map(|length| self.at + length), Rule::Method)
    }

    /// The target and its space.
    pub(super) fn target(&mut self) -> Result<&'a [u8], Stop> {
        self.word(target_end(self.text, self.at), Rule::Target)
    }

    /// Returns the word that ends here, if it is not empty and one space follows it.
    #[inline(always)]
    fn word(&mut self, end: Option<usize>, rule: Rule) -> Result<&'a [u8], Stop> {
        let end = end.ok_or(Stop::Incomplete)?;
        let word = &self.text[self.at..end];
        self.at = end + 1;
        if word.is_empty() || self.text[end] != b' ' { Err(Stop::Broken(rule, end)) } else { Ok(word) }
    }

    /// The rest of the first line, without its end.
    pub(super) fn rest_of_start_line(&mut self) -> Result<&'a [u8], Stop> {
        let (end, next) = self.content_end(self.at, Rule::LineEnd)?;
        let rest = &self.text[self.at..end];
        self.at = next;
        Ok(rest)
    }

    /// All field lines up to the empty one.
    pub(super) fn fields(&mut self, fields: &mut Vec<Field>, facts: &mut Facts<'a>) -> Result<(), Stop> {
        self.in_fields = true;
        let text = &self.received[..self.received.len().min(self.limit())];
        (self.text, self.line) = (text, self.at);
        fields.clear();
        loop {
            let name_start = self.line;
            let mut name_end = letters_end(text, name_start).ok_or(Stop::Incomplete)?;
            let mut has_underscore = false;
            if text[name_end] != b':' || name_end == name_start {
                if text[name_start] == b'\r' || (self.is_tolerant && text[name_start] == b'\n') {
                    break;
                }
                (name_end, has_underscore) = rare_name(text, name_start, name_end)?;
            }
            let (value_start, starts_plain) = value_start(text, name_end + 1);
            let (line_end, next_line) = self.content_end(value_start, Rule::FieldValue)?;
            let mut value_end = line_end;
            while value_end > value_start && is_blank(text[value_end - 1]) {
                value_end -= 1;
            }
            if fields.len() >= self.limits.fields {
                return Err(Stop::Broken(Rule::TooManyFields, name_start));
            }
            let kind = if has_underscore { Kind::Underscore } else { Kind::of(&text[name_start..name_end]) };
            fields.push(Field {
                name_start: name_start as u32,
                name_end: name_end as u32,
                value_start: value_start as u32,
                value_end: value_end as u32,
                kind,
                is_plain: starts_plain && value_end == line_end && next_line == line_end + 2,
            });
            if kind != Kind::Other
                && let Some(field) = fields.last_mut()
            {
                facts.note(field, text, &self.limits).map_err(|rule| Stop::Broken(rule, name_start))?;
            }
            self.line = next_line;
        }
        self.at = self.content_end(self.line, Rule::LineEnd)?.1;
        if facts.has_nominations { self.nominate(fields) } else { Ok(()) }
    }

    /// The end of a line's content, which is where its CRLF starts, and the start of the next line.
    #[inline(always)]
    fn content_end(&self, mut from: usize, control: Rule) -> Result<(usize, usize), Stop> {
        let text = self.text;
        loop {
            let at = next_control(text, from).ok_or(Stop::Incomplete)?;
            match (text[at], text.get(at + 1)) {
                (b'\r', Some(b'\n')) => return Ok((at, at + 2)),
                (b'\r', None) => return Err(Stop::Incomplete),
                (b'\t', _) => from = at + 1,
                (b'\n', _) if self.is_tolerant => return Ok((at, at + 1)),
                (b'\r' | b'\n', _) => return Err(Stop::Broken(Rule::LineEnd, at)),
                (1.., _) if self.is_tolerant => from = at + 1,
                _ => return Err(Stop::Broken(control, at)),
            }
        }
    }

    /// Marks the fields that `Connection` lists.
    #[cold]
    fn nominate(&self, fields: &mut [Field]) -> Result<(), Stop> {
        let mut count = 0;
        for index in 0..fields.len() {
            let connection = fields[index];
            if connection.kind != Kind::Connection {
                continue;
            }
            for token in tokens(connection.value(self.text)) {
                count += 1;
                if count > NOMINATION_LIMIT {
                    return Err(Stop::Final(Rule::ConnectionOptions, connection.name_start as usize));
                }
                for field in fields.iter_mut() {
                    let may_be_listed = matches!(field.kind, Kind::Other | Kind::Forwarding);
                    if may_be_listed && field.name(self.text).eq_ignore_ascii_case(token) {
                        field.kind = Kind::Nominated;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Returns the start of a value, and true if exactly one space is in front of it.
#[inline(always)]
fn value_start(text: &[u8], from: usize) -> (usize, bool) {
    if let Some([b' ', b'!'..=u8::MAX, ..]) = text.get(from..) {
        return (from + 1, true);
    }
    let blanks = text[from..].iter().take_while(|byte| is_blank(**byte)).count();
    (from + blanks, text[from..].starts_with(b" ") && blanks == 1)
}

/// The end of a name that is not of letters and `-` alone, and whether it has an underscore.
#[cold]
fn rare_name(text: &[u8], start: usize, from: usize) -> Result<(usize, bool), Stop> {
    let length = text[from..].iter().position(|byte| class(*byte) & TOKEN == 0);
    let end = from + length.ok_or(Stop::Incomplete)?;
    let rule = match text[end] {
        b':' if end > start => return Ok((end, text[start..end].contains(&b'_'))),
        b' ' | b'\t' if end == start => Rule::Folded,
        b'\r' | b'\n' => Rule::LineEnd,
        _ => Rule::FieldName,
    };
    Err(Stop::Broken(rule, end))
}
