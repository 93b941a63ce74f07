//! Structured fields (RFC 9651), as far as a cache needs them: reading a dictionary, writing strings.
//!
//! In: a field value. Out: the members of a dictionary with their bare items, or nothing if any of it is malformed. Parameters are read and
//! dropped. Inner lists are no cache directive: they are read and make a member without a value that could be used.

/// A bare item, as far as it matters here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    Integer(i64),
    Boolean(bool),
    String(Vec<u8>),
    /// A decimal, token, byte sequence, date, display string or inner list.
    Other,
}

/// The members of a dictionary in their order; of several with one key the last counts. `None` if it cannot be read.
pub(crate) fn dictionary(text: &[u8]) -> Option<Vec<(String, Item)>> {
    let mut reader = Reader { rest: text.trim_ascii() };
    let mut members: Vec<(String, Item)> = Vec::new();
    while !reader.rest.is_empty() {
        let key = reader.key()?;
        let item = if reader.take(b'=') { reader.value()? } else { Item::Boolean(true) };
        reader.parameters()?;
        members.retain(|(known, _)| *known != key);
        members.push((key, item));
        reader.skip(b" \t");
        if reader.rest.is_empty() {
            break;
        }
        if !reader.take(b',') {
            return None;
        }
        reader.skip(b" \t");
        // A comma at the end.
        reader.rest.first()?;
    }
    Some(members)
}

/// Writes a string; bytes that a string cannot have are left out.
pub(crate) fn push_string(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars().filter(|character| matches!(character, ' '..='~')) {
        if matches!(character, '"' | '\\') {
            out.push('\\');
        }
        out.push(character);
    }
    out.push('"');
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl Reader<'_> {
    fn take(&mut self, byte: u8) -> bool {
        match self.rest {
            [first, rest @ ..] if *first == byte => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    fn skip(&mut self, bytes: &[u8]) {
        while let [first, rest @ ..] = self.rest
            && bytes.contains(first)
        {
            self.rest = rest;
        }
    }

    fn while_true(&mut self, accepts: impl Fn(u8) -> bool) -> &[u8] {
        let end = self.rest.iter().position(|byte| !accepts(*byte)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    fn key(&mut self) -> Option<String> {
        let key = self
            .while_true(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.*".contains(&byte));
        let is_key = key.first().is_some_and(|first| first.is_ascii_lowercase() || *first == b'*');
        is_key.then(|| String::from_utf8_lossy(key).into_owned())
    }

    fn parameters(&mut self) -> Option<()> {
        while self.take(b';') {
            self.skip(b" ");
            self.key()?;
            if self.take(b'=') {
                self.bare()?;
            }
        }
        Some(())
    }

    fn value(&mut self) -> Option<Item> {
        if !self.take(b'(') {
            return self.bare();
        }
        loop {
            self.skip(b" ");
            if self.take(b')') {
                return Some(Item::Other);
            }
            self.bare()?;
            self.parameters()?;
            if !matches!(self.rest.first(), Some(b' ' | b')')) {
                return None;
            }
        }
    }

    fn bare(&mut self) -> Option<Item> {
        match *self.rest.first()? {
            b'-' | b'0'..=b'9' => self.number(),
            b'"' => self.string().map(Item::String),
            b'?' => {
                self.take(b'?');
                let is_true = self.take(b'1');
                (is_true || self.take(b'0')).then_some(Item::Boolean(is_true))
            }
            b':' => {
                self.take(b':');
                self.while_true(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte));
                self.take(b':').then_some(Item::Other)
            }
            b'@' => {
                self.take(b'@');
                matches!(self.number()?, Item::Integer(_)).then_some(Item::Other)
            }
            b'%' => {
                self.take(b'%');
                self.string().map(|_| Item::Other)
            }
            b'*' | b'a'..=b'z' | b'A'..=b'Z' => {
                self.while_true(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&byte));
                Some(Item::Other)
            }
            _ => None,
        }
    }

    fn number(&mut self) -> Option<Item> {
        let is_negative = self.take(b'-');
        let digits = self.while_true(|byte| byte.is_ascii_digit()).to_vec();
        let number: i64 = str::from_utf8(&digits).ok()?.parse().ok().filter(|_| digits.len() <= 15)?;
        if self.take(b'.') {
            let fraction = self.while_true(|byte| byte.is_ascii_digit()).len();
            return (digits.len() <= 12 && (1..=3).contains(&fraction)).then_some(Item::Other);
        }
        Some(Item::Integer(if is_negative { -number } else { number }))
    }

    fn string(&mut self) -> Option<Vec<u8>> {
        let mut text = Vec::new();
        if !self.take(b'"') {
            return None;
        }
        loop {
            let (first, rest) = self.rest.split_first()?;
            self.rest = rest;
            match first {
                b'"' => return Some(text),
                b'\\' => {
                    let (escaped, rest) = self.rest.split_first()?;
                    self.rest = rest;
                    if !matches!(escaped, b'"' | b'\\') {
                        return None;
                    }
                    text.push(*escaped);
                }
                b' '..=b'~' => text.push(*first),
                _ => return None,
            }
        }
    }
}
