//! Parses haproxy.cfg: sections of lines, words, quotes, escapes, comments and environment variables.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::imported::{ImportError, read, shown_option};
use crate::note::Place;

/// The words that begin a section.
const SECTIONS: [&str; 20] = [
    "global",
    "defaults",
    "frontend",
    "backend",
    "listen",
    "userlist",
    "peers",
    "mailers",
    "resolvers",
    "cache",
    "ring",
    "log-forward",
    "log-profile",
    "http-errors",
    "program",
    "fcgi-app",
    "traces",
    "crt-store",
    "acme",
    "healthcheck",
];
/// Limit for the lines of all files. HAProxy has none; no configuration reaches this number.
const MAX_LINES: usize = 200_000;

/// An environment variable in a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Variable {
    pub(super) name: String,
    /// True if its line has a default, which is used if the variable is not set.
    pub(super) has_default: bool,
}

/// One line.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) words: Vec<String>,
    /// `no option …` and `default option …`.
    pub(super) is_off: bool,
    pub(super) variables: Vec<Variable>,
    pub(super) place: Place,
}

impl Line {
    /// A word, or nothing.
    pub(super) fn word(&self, at: usize) -> &str {
        self.words.get(at).map_or("", String::as_str)
    }

    /// The words from one on.
    pub(super) fn from(&self, at: usize) -> &[String] {
        self.words.get(at..).unwrap_or_default()
    }

    pub(super) fn begins(&self, words: &[&str]) -> bool {
        words.iter().enumerate().all(|(at, word)| self.word(at) == *word)
    }

    /// As it is written, with one blank between words, and without what follows a word such as `password`.
    pub(super) fn text(&self) -> String {
        const SECRET: [&str; 4] = ["auth", "password", "secret", "token"];
        let is_secret =
            |word: &String| SECRET.iter().any(|secret| word.to_ascii_lowercase().contains(secret));
        let shown = self.words.iter().position(is_secret).map_or(self.words.len(), |at| at + 1);
        let prefix = if self.is_off { "no " } else { "" };
        let hidden = if shown < self.words.len() { " ***" } else { "" };
        format!("{prefix}{}{hidden}", self.words[..shown].join(" "))
    }
}

/// A section, and its first line.
#[derive(Clone, Debug)]
pub(super) struct Section {
    pub(super) head: Line,
    pub(super) lines: Vec<Line>,
}

impl Section {
    pub(super) fn kind(&self) -> &str {
        self.head.word(0)
    }

    pub(super) fn name(&self) -> &str {
        match self.head.word(1) {
            "from" if self.kind() == "defaults" => "",
            name => name,
        }
    }

    /// The defaults that it names.
    pub(super) fn from(&self) -> Option<&str> {
        let at = self.head.words.iter().skip(1).position(|word| word == "from")?;
        self.head.words.get(at + 2).map(String::as_str)
    }
}

/// Reads files, as if one followed the other. The lines of `.if` are not in the sections.
pub(super) fn sections(files: &[PathBuf]) -> Result<(Vec<Section>, Vec<Line>), ImportError> {
    let (mut sections, mut conditions, mut wrong): (Vec<Section>, Vec<Line>, Vec<String>) =
        (Vec::new(), Vec::new(), Vec::new());
    let mut count = 0;
    for path in files {
        let (text, file) = (read(path)?, Rc::new(path.clone()));
        let mut is_first = true;
        for (at, text) in text.lines().enumerate() {
            count += 1;
            let place = Place::Line(Rc::clone(&file), at + 1);
            if count > MAX_LINES {
                return Err(ImportError::Grammar(vec![format!("{place}: more than {MAX_LINES} lines")]));
            }
            let line = match line(text, place) {
                Ok(Some(line)) => line,
                Ok(None) => continue,
                Err(what) => {
                    wrong.push(format!("{}:{}: {what}", path.display(), at + 1));
                    continue;
                }
            };
            if line.word(0).starts_with('.') {
                conditions.push(line);
            } else if SECTIONS.contains(&line.word(0)) && !line.is_off {
                sections.push(Section { head: line, lines: Vec::new() });
                is_first = false;
            } else {
                match sections.last_mut().filter(|_| !is_first) {
                    Some(section) => section.lines.push(line),
                    None => wrong.push(format!(
                        "{}: expected a section such as `frontend`, but found {}",
                        line.place,
                        shown_option(line.word(0), "")
                    )),
                }
            }
        }
    }
    if wrong.is_empty() { Ok((sections, conditions)) } else { Err(ImportError::Grammar(wrong)) }
}

/// The words of a line; `None`: it has none.
fn line(text: &str, place: Place) -> Result<Option<Line>, &'static str> {
    let mut words = Words { signs: text.chars().peekable(), variables: Vec::new() };
    let mut all = words.all()?;
    let is_off = matches!(all.first().map(String::as_str), Some("no" | "default")) && all.len() > 1;
    if is_off {
        all.remove(0);
    }
    Ok((!all.is_empty()).then_some(Line { words: all, is_off, variables: words.variables, place }))
}

struct Words<'t> {
    signs: std::iter::Peekable<std::str::Chars<'t>>,
    variables: Vec<Variable>,
}

impl Words<'_> {
    fn all(&mut self) -> Result<Vec<String>, &'static str> {
        let (mut words, mut word): (Vec<String>, Option<String>) = (Vec::new(), None);
        while let Some(sign) = self.signs.next() {
            match sign {
                '#' => break,
                sign if sign.is_ascii_whitespace() => words.extend(word.take()),
                '"' => self.quoted(word.get_or_insert_default())?,
                '\'' => {
                    let word = word.get_or_insert_default();
                    loop {
                        match self.signs.next() {
                            Some('\'') => break,
                            Some(sign) => word.push(sign),
                            None => return Err("the text has no closing quote"),
                        }
                    }
                }
                '\\' => self.escaped(word.get_or_insert_default(), false)?,
                sign => word.get_or_insert_default().push(sign),
            }
        }
        words.extend(word);
        Ok(words)
    }

    fn quoted(&mut self, word: &mut String) -> Result<(), &'static str> {
        loop {
            match self.signs.next() {
                Some('"') => return Ok(()),
                Some('\\') => self.escaped(word, true)?,
                Some('$') => self.variable(word)?,
                Some(sign) => word.push(sign),
                None => return Err("the text has no closing quote"),
            }
        }
    }

    /// Reads the sign behind a backslash. In front of other signs the backslash is literal, as in regular expressions.
    fn escaped(&mut self, word: &mut String, is_quoted: bool) -> Result<(), &'static str> {
        match self.signs.peek().copied() {
            Some(sign @ (' ' | '\\' | '#' | '"' | '\'')) => word.push(sign),
            Some('$') if is_quoted => word.push('$'),
            Some('n') => word.push('\n'),
            Some('r') => word.push('\r'),
            Some('t') => word.push('\t'),
            Some('x') => {
                self.signs.next();
                let digits: String = [self.signs.next(), self.signs.next()].into_iter().flatten().collect();
                let byte = u8::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 2);
                word.push(char::from(byte.ok_or("expected two hexadecimal digits after `\\x`")?));
                return Ok(());
            }
            _ => {
                word.push('\\');
                return Ok(());
            }
        }
        self.signs.next();
        Ok(())
    }

    /// `$NAME`, `${NAME}` or `${NAME-value}`.
    fn variable(&mut self, word: &mut String) -> Result<(), &'static str> {
        let is_braced = self.signs.next_if_eq(&'{').is_some();
        let mut name = String::new();
        while let Some(sign) = self.signs.next_if(|sign| sign.is_ascii_alphanumeric() || *sign == '_') {
            name.push(sign);
        }
        let mut default = None;
        if is_braced {
            let mut rest = String::new();
            loop {
                match self.signs.next() {
                    Some('}') => break,
                    Some(sign) => rest.push(sign),
                    None => return Err("`${` has no closing brace"),
                }
            }
            default = rest.strip_prefix('-').map(ToOwned::to_owned);
        }
        self.variables.push(Variable { name, has_default: default.is_some() });
        word.push_str(&default.unwrap_or_default());
        Ok(())
    }
}

/// Reads a list of patterns or of certificates: lines without blanks around them and without comments.
pub(super) fn entries(path: &Path) -> Result<Vec<String>, ImportError> {
    let text = read(path)?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    Ok(lines.map(ToOwned::to_owned).collect())
}
