//! Rust source as tokens. In: the text of a file. Out: its identifiers and punctuation with their lines, without comments,
//! literals and test code.
//!
//! This is no full lexer: numbers and the inside of macros come out as they are, which no rule about paths minds.

/// An identifier, `::`, or one character of punctuation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    /// Its text.
    pub(super) text: String,
    /// Its line, from 1.
    pub(super) line: usize,
}

impl Token {
    /// Returns true if it is an identifier or a keyword.
    pub(super) fn is_name(&self) -> bool {
        self.text.starts_with(is_name_start)
    }
}

/// Words that begin an item, after its visibility.
const ITEMS: [&str; 14] = [
    "async",
    "const",
    "enum",
    "extern",
    "fn",
    "impl",
    "macro_rules",
    "mod",
    "static",
    "struct",
    "trait",
    "type",
    "unsafe",
    "use",
];

/// Returns true if an identifier may start with it.
pub(super) fn is_name_start(c: char) -> bool {
    c.is_alphabetic() || c == '_'
}

fn is_name_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The tokens of a file without test code.
pub(super) fn product_tokens(text: &str) -> Vec<Token> {
    without_tests(&tokens(text))
}

/// All tokens of a file.
fn tokens(text: &str) -> Vec<Token> {
    let mut found = Vec::new();
    let (mut rest, mut line) = (text, 1);
    while let Some(first) = rest.chars().next() {
        let ignored = ignored_len(rest);
        let len = match ignored {
            0 if is_name_start(first) => rest.find(|c| !is_name_part(c)).unwrap_or(rest.len()),
            0 if rest.starts_with("::") => 2,
            0 => first.len_utf8(),
            ignored => ignored,
        };
        if ignored == 0 {
            found.push(Token { text: rest[..len].into(), line });
        }
        line += rest[..len].matches('\n').count();
        rest = &rest[len..];
    }
    found
}

/// Bytes of the space, comment or literal at the start of `text`; 0 when it starts with a token.
fn ignored_len(text: &str) -> usize {
    let first = text.chars().next().unwrap_or(' ');
    if first.is_whitespace() {
        return first.len_utf8();
    }
    if text.starts_with("//") {
        return text.find('\n').unwrap_or(text.len());
    }
    if text.starts_with("/*") {
        return comment_len(text);
    }
    let prefix = ["br", "cr", "b", "c", "r"].into_iter().find(|prefix| {
        text.strip_prefix(prefix).is_some_and(|after| match *prefix {
            "b" => after.starts_with(['"', '\'']),
            "c" => after.starts_with('"'),
            _raw => after.trim_start_matches('#').starts_with('"'),
        })
    });
    let start = prefix.map_or(0, str::len);
    if prefix.is_some_and(|prefix| prefix.ends_with('r')) {
        let hashes = text[start..].bytes().take_while(|byte| *byte == b'#').count();
        let end = format!("\"{}", "#".repeat(hashes));
        let inside = start + hashes + 1;
        return text[inside..].find(&end).map_or(text.len(), |at| inside + at + end.len());
    }
    match text[start..].chars().next() {
        Some('"') => start + quoted_len(&text[start..], '"'),
        Some('\'') if is_lifetime(&text[start..]) => {
            1 + text[1..].find(|c| !is_name_part(c)).unwrap_or(text.len() - 1)
        }
        Some('\'') => start + quoted_len(&text[start..], '\''),
        _ => 0,
    }
}

/// Returns true if the quote at the start belongs to a lifetime or a label, not to a character.
fn is_lifetime(text: &str) -> bool {
    let mut after = text.chars().skip(1);
    after.next().is_some_and(is_name_start) && after.next() != Some('\'')
}

fn quoted_len(text: &str, quote: char) -> usize {
    let mut escaped = false;
    let end = text.char_indices().skip(1).find(|(_, c)| {
        let is_end = *c == quote && !escaped;
        escaped = *c == '\\' && !escaped;
        is_end
    });
    end.map_or(text.len(), |(at, _)| at + 1)
}

/// Block comments nest.
fn comment_len(text: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(found) = text[at..].find(['/', '*']) {
        at += found;
        let two = text.get(at..at + 2).unwrap_or("");
        match two {
            "/*" => depth += 1,
            "*/" => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

/// Leaves out the items below `#[cfg(test)]`, `#[cfg(all(test, …))]` and `#[test]`.
fn without_tests(tokens: &[Token]) -> Vec<Token> {
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if is_test_attribute(&tokens[at..]) {
            at += item_len(&tokens[at..]);
        } else {
            kept.push(tokens[at].clone());
            at += 1;
        }
    }
    kept
}

fn is_test_attribute(tokens: &[Token]) -> bool {
    let starts = |words: &[&str]| {
        tokens.len() >= words.len() && tokens.iter().zip(words).all(|(token, word)| token.text == *word)
    };
    starts(&["#", "[", "test", "]"])
        || starts(&["#", "[", "cfg", "(", "test", ")", "]"])
        || starts(&["#", "[", "cfg", "(", "all", "(", "test", ","])
}

/// Tokens of the item, field or statement at the start, with its attributes.
fn item_len(tokens: &[Token]) -> usize {
    let mut at = 0;
    while tokens.get(at).is_some_and(|token| token.text == "#") {
        at += 1 + group_len(&tokens[at + 1..]);
    }
    if tokens.get(at).is_some_and(|token| token.text == "pub") {
        at += 1;
        if tokens.get(at).is_some_and(|token| token.text == "(") {
            at += group_len(&tokens[at..]);
        }
    }
    let word = tokens.get(at).map_or("", |token| token.text.as_str());
    let (is_item, is_use) = (ITEMS.contains(&word), word == "use");
    while let Some(token) = tokens.get(at) {
        match token.text.as_str() {
            ";" => return at + 1,
            "," if !is_item => return at + 1,
            ")" | "]" | "}" => return at,
            "{" if !is_use => return at + group_len(&tokens[at..]),
            "(" | "[" | "{" => at += group_len(&tokens[at..]),
            _ => at += 1,
        }
    }
    at
}

/// Tokens from the bracket at the start to the one that closes it.
pub(super) fn group_len(tokens: &[Token]) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate() {
        match token.text.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    tokens.len()
}

#[test]
fn comments_literals_and_tests_are_left_out() {
    let names = |text: &str| {
        let names = product_tokens(text).into_iter().filter(Token::is_name).map(|token| token.text);
        names.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names("a // b\n/* c /* d */ e */ f"), "a f");
    assert_eq!(names(r###"a "b \" c" r#"d " e"# b"f" 'g' '\'' b'h' k"###), "a k");
    assert_eq!(names("fn a<'b>(c: &'b str) { 'd: loop {} }"), "fn a c str loop");
    assert_eq!(names("#[cfg(test)]\nuse a::{b, c};\nd"), "d");
    assert_eq!(names("#[cfg(test)]\n#[expect(x)]\npub(crate) mod a { fn b(c: D, e: F) {} }\ng"), "g");
    assert_eq!(names("#[test]\nfn a(b: C, d: E) -> F<G, H> { i }\nj"), "j");
    assert_eq!(names("struct A { #[cfg(test)] b: C, d: E }"), "struct A d E");
    assert_eq!(names("#[cfg(all(test, unix))] const A: [u8; 2] = [b, c];\nd"), "d");
    assert_eq!(names("#[cfg(not(test))] fn a() {}"), "cfg not test fn a");
}
