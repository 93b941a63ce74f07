//! Parts of a configuration's text that no message shows: a password may be in them, or a key that was given as a configuration.
//!
//! In: the text, which may be any file. Out: byte ranges. Lines that are no key of a configuration are hidden, and so are comments and the
//! values of unknown keys. Of known keys the values are shown, but for those that are secret, or look so.

use std::ops::Range;

use super::known_names::KnownNames;

/// Words in the names of keys whose value is a secret.
const SECRET_WORDS: [&str; 9] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "credential",
    "authorization",
    "api-key",
    "users",
];
/// Keys whose value is the path of a file with a secret: some write the secret itself.
const SECRET_FILES: [&str; 6] = ["key", "key-file", "eab-key-file", "secret", "credentials", "password-file"];
/// Keys whose value is sent to a backend, perhaps with a password in it.
const SENT: [&str; 1] = ["send"];
/// Bytes of an unknown key that is shown.
const MAX_SHOWN_KEY_BYTES: usize = 32;
/// Bytes of a word without a space or point that is shown: longer ones may be keys.
const MAX_SHOWN_RUN_BYTES: usize = 31;
/// Unknown keys that are compared with the known ones: each takes some 20 µs, and a file may have a million.
const MAX_COMPARISONS: usize = 500;
/// Hidden parts of the lines of a message that are looked for in it.
const MAX_HIDDEN_PARTS: usize = 200;
/// Replacement for a hidden part.
const MASK: &str = "***";

/// The parts of a text that no message shows, in their order.
#[derive(Debug)]
pub(crate) struct Hidden(Vec<Range<usize>>);

impl Hidden {
    /// Finds them; `names`: those that a configuration may have. **Cost**: linear in the text, and a look-up for each key.
    pub(crate) fn of(text: &str, names: KnownNames) -> Self {
        let mut scan = Scan {
            text,
            names,
            hidden: Vec::new(),
            depth: 0,
            delimiter: None,
            shown: Shown::Nothing,
            outer: Shown::Nothing,
            has_key: false,
            comparisons: MAX_COMPARISONS,
        };
        let mut start = 0;
        for line in text.split_inclusive('\n') {
            scan.line(start, start + line.trim_end_matches(['\n', '\r']).len());
            start += line.len();
        }
        Self(scan.hidden)
    }

    /// The text with each byte of the hidden parts replaced, so that places stay right.
    pub(crate) fn masked(&self, text: &str) -> String {
        let mut masked = String::with_capacity(text.len());
        let mut end = 0;
        for range in &self.0 {
            masked.push_str(&text[end..range.start]);
            masked.extend(std::iter::repeat_n('*', range.len()));
            end = range.end;
        }
        masked + &text[end..]
    }

    /// A message about a place, without what is hidden in the lines of that place.
    pub(crate) fn redacted(&self, message: &str, text: &str, place: &Range<usize>) -> String {
        let (start, end) = (text.floor_char_boundary(place.start), text.ceil_char_boundary(place.end));
        let first = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let last = text[end..].find('\n').map_or(text.len(), |newline| end + newline);
        let from = self.0.partition_point(|range| range.end <= first);
        let near = &self.0[from..from + self.0[from..].partition_point(|range| range.start < last)];
        if near.len() > MAX_HIDDEN_PARTS {
            return "nothing of this line can be shown".to_owned();
        }
        near.iter().fold(message.to_owned(), |message, range| without(&message, &text[range.clone()]))
    }
}

/// A message without a hidden text, which may be cut in it.
fn without(message: &str, hidden: &str) -> String {
    const MIN_BYTES: usize = 4;
    /// Bytes in common that are no accident.
    const CERTAIN: usize = 12;
    if hidden.chars().count() < MIN_BYTES {
        let quoted = |quote: char| (format!("{quote}{hidden}{quote}"), format!("{quote}{MASK}{quote}"));
        return ['`', '"', '\''].into_iter().fold(message.to_owned(), |message, quote| {
            let (from, to) = quoted(quote);
            message.replace(&from, &to)
        });
    }
    let head = &hidden[..hidden.char_indices().nth(MIN_BYTES).map_or(hidden.len(), |(end, _)| end)];
    let (mut clean, mut rest) = (String::new(), message);
    while let Some(at) = rest.find(head) {
        let same = rest[at..].chars().zip(hidden.chars()).take_while(|(here, there)| here == there);
        let length: usize = same.map(|(here, _)| here.len_utf8()).sum();
        let (before, after) = (&rest[..at], &rest[at + length..]);
        // Words of ours may begin in the same way.
        let is_inside = before.ends_with(char::is_alphanumeric) || after.starts_with(char::is_alphanumeric);
        let is_it = length == hidden.len() && !is_inside || length >= CERTAIN || after.starts_with("...");
        clean.push_str(before);
        clean.push_str(if is_it { MASK } else { &rest[at..at + length] });
        rest = after;
    }
    clean + rest
}

/// Returns true for a text in double quotes that is none: a backslash is in front of no escape.
fn is_wrong_escape(text: &str) -> bool {
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        if letter == '\\' && !letters.next().is_some_and(|next| "btnfreuUx\"\\".contains(next)) {
            return true;
        }
    }
    false
}

/// The part of a key's value that a message may show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    Nothing,
    /// It, if it looks like the path of a file; `true`: or like the name of one.
    Path(bool),
    /// All but what looks like a secret.
    Value,
}

struct Scan<'t> {
    text: &'t str,
    /// The names of all keys and sections.
    names: KnownNames,
    hidden: Vec<Range<usize>>,
    /// Brackets that are open.
    depth: usize,
    /// The end of a text over several lines that is open.
    delimiter: Option<&'static str>,
    /// For the values that follow.
    shown: Shown,
    /// For the values of the key that is outside of all brackets.
    outer: Shown,
    /// The key of the values that follow is in the same line.
    has_key: bool,
    /// Unknown keys that are still compared with the known ones.
    comparisons: usize,
}

impl Scan<'_> {
    fn line(&mut self, start: usize, end: usize) {
        let mut at = start;
        self.has_key = false;
        if let Some(delimiter) = self.delimiter {
            let found = self.text[start..end].find(delimiter);
            at = found.map_or(end, |found| start + found);
            self.hide(start..at);
            if found.is_none() {
                return;
            }
            self.delimiter = None;
            at += delimiter.len();
        } else {
            let line = self.text[start..end].trim_start();
            let from = end - line.len();
            let key = line.split_once('=').map(|(key, _)| key.trim());
            if self.depth > 0 && (is_header(line) || key.is_some_and(is_word)) {
                // A bracket was not closed.
                self.depth = 0;
            }
            if self.depth == 0 && line.starts_with('[') && is_header(line) {
                let header = line.trim_start_matches('[');
                let close = header.find(']').unwrap_or(header.len());
                let is_shown = header[..close].trim().split('.').all(|name| self.is_shown_key(name.trim()));
                let rest = header[close..].trim_start_matches(']');
                return if is_shown { self.hide(end - rest.len()..end) } else { self.hide_words(from..end) };
            }
            if self.depth == 0 && key.is_none() {
                let word = line.split([':', ' ', '\t']).next().unwrap_or_default();
                if !self.names.has(word) || self.shown_value(word) != Shown::Value {
                    return self.hide_words(from..end);
                }
                // `key: value`
                (self.shown, self.has_key, at) = (Shown::Value, true, from + word.len());
            }
        }
        while at < end {
            at = self.token(at, end);
        }
    }

    /// Takes what begins at `at`; where the next token begins.
    fn token(&mut self, at: usize, end: usize) -> usize {
        let text = &self.text[at..end];
        let Some(first) = text.chars().next() else { return end };
        match first {
            '#' => {
                self.hide(at..end);
                end
            }
            '[' | '{' => {
                self.depth += 1;
                at + 1
            }
            ']' | '}' => {
                self.depth = self.depth.saturating_sub(1);
                if self.depth == 0 {
                    self.shown = Shown::Nothing;
                }
                at + 1
            }
            '"' | '\'' => self.quoted(at, end, first),
            _ if "=,:".contains(first) || first.is_whitespace() => at + first.len_utf8(),
            _ => {
                let is_end = |character: char| character.is_whitespace() || "=,[]{}#\"'".contains(character);
                let after = at + text.find(is_end).unwrap_or(text.len());
                self.word(at..after, self.is_key(after, end), false);
                after
            }
        }
    }

    fn quoted(&mut self, at: usize, end: usize, quote: char) -> usize {
        let triple = if quote == '"' { "\"\"\"" } else { "'''" };
        if self.text[at..end].starts_with(triple) {
            let close = self.text[at + 3..end].find(triple);
            let content = close.map_or(end, |close| at + 3 + close);
            self.hide(at + 3..content);
            if close.is_none() {
                self.delimiter = Some(triple);
                return end;
            }
            return content + 3;
        }
        let mut is_escaped = false;
        let close = self.text[at + 1..end].find(|character: char| {
            let is_close = character == quote && !is_escaped;
            is_escaped = character == '\\' && quote == '"' && !is_escaped;
            is_close
        });
        let Some(close) = close else {
            // It may be any text, with a quote in it.
            self.hide(at + 1..end);
            return end;
        };
        let content = at + 1 + close;
        if quote == '"' && is_wrong_escape(&self.text[at + 1..content]) {
            self.hide(at + 1..content);
            return content + 1;
        }
        let after = end.min(content + 1);
        self.word(at + 1..content, self.is_key(after, end), true);
        after
    }

    /// Returns true if an `=` follows.
    fn is_key(&self, after: usize, end: usize) -> bool {
        self.text[after..end].trim_start().starts_with('=')
    }

    fn word(&mut self, range: Range<usize>, is_key: bool, is_quoted: bool) {
        let word = &self.text[range.clone()];
        if is_key {
            let key = word.rsplit('.').next().unwrap_or(word);
            let is_inner = self.depth > 0 && self.outer == Shown::Value && !is_secret(key);
            self.shown = match self.shown_value(key) {
                // An inline table has keys that are no keys of its section.
                Shown::Nothing if is_inner && is_plain(key) => Shown::Value,
                shown => shown,
            };
            if self.depth == 0 {
                self.outer = self.shown;
            }
            self.has_key = true;
            if !word.split('.').all(|part| self.is_shown_key(part)) {
                self.hide(range);
            }
            return;
        }
        let is_shown = match self.shown {
            Shown::Nothing => false,
            Shown::Path(or_name) => word.contains('.') || word.starts_with('/') || or_name && is_plain(word),
            // Without quotes it may be the next line of any text, behind a bracket that was not closed.
            Shown::Value if !is_quoted => {
                let is_plain = |byte: u8| byte.is_ascii_digit() || self.has_key && !byte.is_ascii_uppercase();
                word.bytes().all(is_plain)
            }
            Shown::Value => true,
        };
        if is_shown {
            self.hide_parts(range)
        } else {
            self.hide(range)
        }
        if self.depth == 0 {
            // A key has one value.
            self.shown = Shown::Nothing;
        }
    }

    /// Hides what looks like a secret in a value that is shown.
    fn hide_parts(&mut self, range: Range<usize>) {
        let value = &self.text[range.clone()];
        let lower = value.to_ascii_lowercase();
        let named = SECRET_WORDS.iter().chain(&["cookie"]).filter_map(|word| {
            let after = lower.find(word)? + word.len();
            value[after..].starts_with([':', '=', ' ']).then_some(after + 1)
        });
        if let Some(after) = named.min() {
            return self.hide(range.start + after..range.end);
        }
        let start = value.find("://").map_or(0, |scheme| scheme + 3);
        let authority = value[start..].split('/').next().unwrap_or_default();
        // Without a scheme a mail address is shown.
        if let Some(at) = authority.rfind('@').filter(|at| start > 0 || authority[..*at].contains(':')) {
            return self.hide(range.start + start..range.start + start + at);
        }
        let is_run = |character: char| character.is_ascii_alphanumeric() || "+/=_".contains(character);
        let runs = value.split(|character| !is_run(character));
        if !value.starts_with('/') && runs.into_iter().any(|run| run.len() > MAX_SHOWN_RUN_BYTES) {
            self.hide(range);
        }
    }

    /// The known name that a word is, or is nearly.
    fn name(&mut self, word: &str) -> Option<&'static str> {
        if let Some(name) = self.names.get(word) {
            return Some(name);
        }
        self.comparisons = self.comparisons.checked_sub(1)?;
        self.names.meant(word)
    }

    fn shown_value(&mut self, key: &str) -> Shown {
        let name = self.name(key);
        match name {
            Some(name) if SENT.contains(&name) => Shown::Nothing,
            Some(name) if name != key && is_secret(key) => Shown::Nothing,
            // Others are made at random, and no words.
            Some(name) if SECRET_FILES.contains(&name) => Shown::Path(name != "password-file"),
            Some(_) => Shown::Value,
            None => Shown::Nothing,
        }
    }

    fn is_shown_key(&mut self, key: &str) -> bool {
        is_plain(key) || self.name(key).is_some()
    }

    /// Hides a line word by word: a message may have some of them.
    fn hide_words(&mut self, line: Range<usize>) {
        let is_between = |sign: char| sign.is_whitespace() || "[]=:\"'`".contains(sign);
        let text = self.text;
        for word in text[line].split(is_between) {
            let start = word.as_ptr() as usize - text.as_ptr() as usize;
            self.hide(start..start + word.len());
        }
    }

    fn hide(&mut self, range: Range<usize>) {
        if !range.is_empty() {
            self.hidden.push(range);
        }
    }
}

/// Returns true for a key whose value is a secret.
fn is_secret(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    SECRET_WORDS.iter().any(|word| key.contains(word))
}

/// Returns true for an unknown key that is shown.
fn is_plain(key: &str) -> bool {
    key.len() <= MAX_SHOWN_KEY_BYTES
        && key.bytes().all(|byte| byte.is_ascii_lowercase() || matches!(byte, b'-' | b'_'))
}

/// Returns true for `[section]` and `[[section]]`.
fn is_header(line: &str) -> bool {
    line.starts_with('[') && !line.contains([',', '"', '\'', '='])
}

/// Returns true for what may be a key.
fn is_word(key: &str) -> bool {
    !key.is_empty()
        && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

#[cfg(test)]
mod tests;
