//! What heads of requests and responses have in common: lines, limits, fields, and how an incomplete head is waited for.
//!
//! In: bytes received so far. Out: the parts of a line, or [`Stop`]. A line is judged once it is whole or longer than its limit, so that
//! the result does not depend on how the bytes were split. The first byte is the exception: it alone says that this is another protocol.

use super::error::{HeadError, Rule};
use super::field::{Field, Kind, tokens};
use super::framing::Facts;
use super::scan::{TOKEN, class, is_blank, letters_end, next_control, target_end};

/// Most field names that `Connection` may list.
const NOMINATION_LIMIT: usize = 32;

/// How large a head may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadLimits {
    /// Most bytes of a head, and of a trailer section.
    pub head: usize,
    /// Most bytes of the first line, its end included.
    pub start_line: usize,
    /// Most fields.
    pub fields: usize,
    /// What happens to field names with an underscore.
    pub underscores: Underscores,
}

impl Default for HeadLimits {
    fn default() -> Self {
        Self { head: 32_768, start_line: 16_384, fields: 128, underscores: Underscores::Drop }
    }
}

/// What happens to field names with an underscore. CGI and WSGI take `X_Real_IP` for `X-Real-IP`, so a client could set fields of the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Underscores {
    /// Such fields are not forwarded.
    Drop,
    /// Such messages are refused.
    Refuse,
    /// Such fields are forwarded: for backends that distinguish both bytes.
    Forward,
}

/// How much of an incomplete head was looked at: waiting for its end byte by byte costs one look at each byte, and one pass for each line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeadProgress {
    searched: usize,
    /// At this number of bytes the last line is too long.
    judged_at: usize,
}

impl HeadProgress {
    /// Whether a parser cannot find more than before: no line ended.
    fn waits(&self, received: &[u8]) -> bool {
        let new = received.get(self.searched..).unwrap_or(&[]);
        received.len() < self.judged_at && !new.contains(&b'\n')
    }
}

/// Why a parser stopped.
pub(super) enum Stop {
    /// The bytes end within a line.
    Incomplete,
    /// A line is wrong, at this byte.
    Broken(Rule, usize),
    /// The message is wrong whatever follows.
    Final(Rule, usize),
}

/// Runs a parser over a head, unless no line was completed since the last time; `None` waits for more.
pub(super) fn run<'a, T>(
    received: &'a [u8],
    progress: &mut HeadProgress,
    limits: &HeadLimits,
    is_response: bool,
    parse: impl FnOnce(&mut Lines<'a>) -> Result<T, Stop>,
) -> Result<Option<T>, HeadError> {
    if progress.searched > 0 && progress.waits(received) {
        progress.searched = received.len();
        return Ok(None);
    }
    let mut lines = Lines { text: received, line: 0, at: 0, line_limit: limits.start_line, limits: *limits };
    let stop = match parse(&mut lines) {
        Ok(parsed) => {
            *progress = HeadProgress::default();
            return Ok(Some(parsed));
        }
        Err(stop) => stop,
    };
    match lines.judge(stop) {
        Stop::Incomplete => {
            *progress = HeadProgress { searched: received.len(), judged_at: lines.line_end_limit() };
            Ok(None)
        }
        Stop::Broken(rule, at) | Stop::Final(rule, at) => {
            *progress = HeadProgress::default();
            Err(HeadError::new(rule, is_response, received, at))
        }
    }
}

/// A cursor over lines.
pub(super) struct Lines<'a> {
    pub(super) text: &'a [u8],
    /// Where the present line starts.
    line: usize,
    pub(super) at: usize,
    /// Most bytes of the present line.
    line_limit: usize,
    pub(super) limits: HeadLimits,
}

impl<'a> Lines<'a> {
    /// Where the present line must have ended. Positions are kept in 32 bits.
    fn line_end_limit(&self) -> usize {
        (self.line.saturating_add(self.line_limit)).min(self.limits.head).min(u32::MAX as usize)
    }

    /// A line that has not ended yet is not judged, and one that is too long is nothing else.
    #[cold]
    fn judge(&self, stop: Stop) -> Stop {
        if let Stop::Final(..) = stop {
            return stop;
        }
        let limit = self.line_end_limit();
        let ends = self.text[..self.text.len().min(limit)].get(self.line..).unwrap_or(&[]).contains(&b'\n');
        match stop {
            Stop::Broken(..) if ends => stop,
            _ if self.text.len() < limit => Stop::Incomplete,
            _ => self.too_long(),
        }
    }

    fn too_long(&self) -> Stop {
        let is_start_line = self.line_limit < self.limits.head && self.line_end_limit() < self.limits.head;
        let rule = if is_start_line { Rule::StartLineTooLong } else { Rule::HeadTooLarge };
        Stop::Final(rule, self.line)
    }

    /// After a whole line: checks its length and goes to the next one.
    fn next_line(&mut self) -> Result<(), Stop> {
        if self.at > self.line_end_limit() {
            return Err(self.too_long());
        }
        self.line = self.at;
        self.line_limit = usize::MAX;
        Ok(())
    }

    /// The first byte of a message must be one of these.
    pub(super) fn first_byte(&self, is_start: impl Fn(u8) -> bool) -> Result<(), Stop> {
        match self.text.get(self.at) {
            None => Err(Stop::Incomplete),
            Some(byte) if is_start(*byte) => Ok(()),
            Some(_) => Err(Stop::Final(Rule::FirstByte, self.at)),
        }
    }

    /// Skips one empty line, as some clients send behind a body (RFC 9112 §2.2).
    pub(super) fn skip_empty_line(&mut self) -> Result<(), Stop> {
        match self.text.get(self.at..) {
            Some([b'\r', b'\n', ..]) => self.at += 2,
            Some([b'\r']) => return Err(Stop::Incomplete),
            _ => {}
        }
        self.line = self.at;
        Ok(())
    }

    /// The method and its space.
    pub(super) fn method(&mut self) -> Result<&'a [u8], Stop> {
        let rest = &self.text[self.at..];
        let length = rest.iter().position(|byte| class(*byte) & TOKEN == 0);
        self.word(length.map(|length| self.at + length), Rule::Method)
    }

    /// The target and its space.
    pub(super) fn target(&mut self) -> Result<&'a [u8], Stop> {
        self.word(target_end(self.text, self.at), Rule::Target)
    }

    /// What ends here, if it is not empty and one space is behind it.
    #[inline(always)]
    fn word(&mut self, end: Option<usize>, rule: Rule) -> Result<&'a [u8], Stop> {
        let end = end.ok_or(Stop::Incomplete)?;
        let word = &self.text[self.at..end];
        self.at = end + 1;
        if word.is_empty() || self.text[end] != b' ' { Err(Stop::Broken(rule, end)) } else { Ok(word) }
    }

    /// The rest of the first line, without its end.
    pub(super) fn rest_of_start_line(&mut self) -> Result<&'a [u8], Stop> {
        let start = self.at;
        let end = content_end(self.text, start, Rule::LineEnd)?;
        self.at = end + 2;
        self.next_line()?;
        Ok(&self.text[start..end])
    }

    /// All field lines up to the empty one.
    pub(super) fn fields(&mut self, fields: &mut Vec<Field>, facts: &mut Facts<'a>) -> Result<(), Stop> {
        let text = self.text;
        self.line_limit = usize::MAX;
        let head_end = self.line_end_limit();
        fields.clear();
        loop {
            let name_start = self.line;
            let mut name_end = letters_end(text, name_start).ok_or(Stop::Incomplete)?;
            let mut has_underscore = false;
            if text[name_end] != b':' || name_end == name_start {
                if text[name_start] == b'\r' {
                    break;
                }
                (name_end, has_underscore) = rare_name(text, name_start, name_end)?;
            }
            let (value_start, starts_plain) = value_start(text, name_end + 1);
            let line_end = content_end(text, value_start, Rule::FieldValue)?;
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
                is_plain: starts_plain && value_end == line_end,
            });
            if kind != Kind::Other
                && let Some(field) = fields.last_mut()
            {
                facts.note(field, self)?;
            }
            if line_end + 2 > head_end {
                return Err(self.too_long());
            }
            self.line = line_end + 2;
        }
        self.at = content_end(text, self.line, Rule::LineEnd)? + 2;
        self.next_line()?;
        if facts.has_nominations {
            self.nominate(fields)?;
        }
        Ok(())
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

/// Where a value starts, and whether one space is in front of it.
#[inline(always)]
fn value_start(text: &[u8], from: usize) -> (usize, bool) {
    if let Some([b' ', b'!'..=u8::MAX, ..]) = text.get(from..) {
        return (from + 1, true);
    }
    let blanks = text[from..].iter().take_while(|byte| is_blank(**byte)).count();
    (from + blanks, text[from..].first() == Some(&b' ') && blanks == 1)
}

/// Where the content of a line ends, which is where its CRLF starts.
#[inline(always)]
fn content_end(text: &[u8], mut from: usize, control: Rule) -> Result<usize, Stop> {
    loop {
        let at = next_control(text, from).ok_or(Stop::Incomplete)?;
        if let Some([b'\r', b'\n', ..]) = text.get(at..) {
            return Ok(at);
        }
        match (text[at], text.get(at + 1)) {
            (b'\t', _) => from = at + 1,
            (b'\r', None) => return Err(Stop::Incomplete),
            (b'\r' | b'\n', _) => return Err(Stop::Broken(Rule::LineEnd, at)),
            _ => return Err(Stop::Broken(control, at)),
        }
    }
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
