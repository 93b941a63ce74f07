//! Parses hitch.conf: `name = value`, `name = { … }`, `# comment`.

use std::path::Path;
use std::rc::Rc;

use crate::imported::ImportError;
use crate::note::Place;

/// A `pem-file` in a `frontend` is the deepest block. A file must not control the recursion depth.
const MAX_DEPTH: usize = 2;

/// One option; a block has options inside.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    pub(super) name: String,
    pub(super) value: Value,
    pub(super) place: Place,
}

#[derive(Clone, Debug)]
pub(super) enum Value {
    Word(String),
    /// Several words, as `tls-protos` has them.
    Words(Vec<String>),
    Block(Vec<Setting>),
}

impl Setting {
    /// Its value as text; of a block, nothing.
    pub(super) fn text(&self) -> &str {
        match &self.value {
            Value::Word(word) => word,
            Value::Words(words) => words.first().map_or("", String::as_str),
            Value::Block(_) => "",
        }
    }

    pub(super) fn words(&self) -> Vec<&str> {
        match &self.value {
            Value::Word(word) => word.split_whitespace().collect(),
            Value::Words(words) => words.iter().map(String::as_str).collect(),
            Value::Block(_) => Vec::new(),
        }
    }

    pub(super) fn is_on(&self) -> bool {
        matches!(self.text().to_ascii_lowercase().as_str(), "on" | "yes" | "true" | "1")
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Equals,
    Open,
    Close,
}

/// Parses the text of a file.
pub(super) fn settings(file: &Path, text: &str) -> Result<Vec<Setting>, ImportError> {
    let file = Rc::new(file.to_owned());
    let mut reader = Reader { tokens: Vec::new(), at: 0, file, problems: Vec::new() };
    for (at, line) in text.lines().enumerate() {
        reader.take_line(line, at + 1);
    }
    let settings = reader.block(0);
    if reader.problems.is_empty() { Ok(settings) } else { Err(ImportError::Grammar(reader.problems)) }
}

struct Reader {
    tokens: Vec<(Token, usize)>,
    at: usize,
    file: Rc<std::path::PathBuf>,
    problems: Vec<String>,
}

impl Reader {
    fn take_line(&mut self, line: &str, number: usize) {
        let mut rest = line.trim_start();
        while let Some(first) = rest.chars().next() {
            let (token, length) = match first {
                '#' => return,
                '=' => (Token::Equals, 1),
                '{' => (Token::Open, 1),
                '}' => (Token::Close, 1),
                '"' => match rest[1..].find('"') {
                    Some(end) => (Token::Word(rest[1..=end].to_owned()), end + 2),
                    None => {
                        self.complain(number, "the text has no closing `\"`");
                        return;
                    }
                },
                _ => {
                    let is_end = |sign: char| sign.is_whitespace() || "={}#\"".contains(sign);
                    let end = rest.find(is_end).unwrap_or(rest.len());
                    (Token::Word(rest[..end].to_owned()), end)
                }
            };
            self.tokens.push((token, number));
            rest = rest[length..]
                .trim_start_matches(|sign: char| sign.is_whitespace() || sign == ',' || sign == ';');
        }
    }

    fn complain(&mut self, line: usize, what: &str) {
        self.problems.push(format!("{}:{line}: {what}", self.file.display()));
    }

    /// Options up to the end of a block, or of the file.
    fn block(&mut self, depth: usize) -> Vec<Setting> {
        let mut settings = Vec::new();
        while let Some((token, line)) = self.tokens.get(self.at).cloned() {
            self.at += 1;
            match token {
                Token::Close if depth > 0 => return settings,
                Token::Word(name)
                    if self.tokens.get(self.at).is_some_and(|(next, _)| *next == Token::Equals) =>
                {
                    self.at += 1;
                    let value = self.value(depth, line);
                    let place = Place::Line(Rc::clone(&self.file), line);
                    // An empty text is the option's default.
                    if !matches!(&value, Value::Word(word) if word.is_empty()) {
                        settings.push(Setting { name, value, place });
                    }
                }
                Token::Word(_) => self.complain(line, "expected `option = value`"),
                Token::Close => self.complain(line, "`}` closes nothing"),
                Token::Open | Token::Equals => self.complain(line, "expected an option's name"),
            }
        }
        if depth > 0 {
            let line = self.tokens.last().map_or(1, |(_, line)| *line);
            self.complain(line, "the block has no closing `}`");
        }
        settings
    }

    fn value(&mut self, depth: usize, line: usize) -> Value {
        if self.tokens.get(self.at).is_some_and(|(token, _)| *token == Token::Open) {
            if depth == MAX_DEPTH {
                self.complain(line, "a block within a block that is in a frontend");
                return Value::Words(Vec::new());
            }
            self.at += 1;
            return Value::Block(self.block(depth + 1));
        }
        let mut words = Vec::new();
        while let Some((Token::Word(word), _)) = self.tokens.get(self.at) {
            // The word in front of the next `=` is the next option.
            if self.tokens.get(self.at + 1).is_some_and(|(next, _)| *next == Token::Equals) {
                break;
            }
            words.push(word.clone());
            self.at += 1;
        }
        if words.len() == 1 { Value::Word(words.remove(0)) } else { Value::Words(words) }
    }
}
