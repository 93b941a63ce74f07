//! Parses nginx.conf: `name argument … ;`, `name argument … { … }`, `# comment`, and follows `include`.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::imported::{ImportError, read, shown_option};
use crate::note::Place;

/// Blocks within blocks, and files that include files. A file must not control the recursion depth.
const MAX_DEPTH: usize = 16;
/// Files that are read. A pattern such as `/*` would include thousands.
const MAX_FILES: usize = 1000;

/// One directive; included files are in the place of their `include`.
#[derive(Clone, Debug)]
pub(super) struct Directive {
    pub(super) name: String,
    pub(super) arguments: Vec<String>,
    pub(super) block: Option<Vec<Directive>>,
    pub(super) place: Place,
}

impl Directive {
    /// An argument, or nothing.
    pub(super) fn argument(&self, at: usize) -> &str {
        self.arguments.get(at).map_or("", String::as_str)
    }

    /// The rest of the argument that starts with this, such as `zone=`.
    pub(super) fn option(&self, start: &str) -> Option<&str> {
        self.arguments.iter().find_map(|argument| argument.strip_prefix(start))
    }

    pub(super) fn inner(&self) -> &[Directive] {
        self.block.as_deref().unwrap_or_default()
    }

    pub(super) fn is_on(&self) -> bool {
        self.argument(0) == "on"
    }

    /// As it is written, without its block.
    pub(super) fn text(&self) -> String {
        let words = std::iter::once(self.name.as_str()).chain(self.arguments.iter().map(String::as_str));
        words.collect::<Vec<_>>().join(" ")
    }
}

/// Reads files, as if one followed the other. `prefix`: where relative paths in all of them start from.
pub(super) fn directives(files: &[PathBuf], prefix: &Path) -> Result<Vec<Directive>, ImportError> {
    let mut reader = Reader { prefix, files: 0 };
    let mut all = Vec::new();
    for file in files {
        all.extend(reader.file(file, 0)?);
    }
    Ok(all)
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Open,
    Close,
    End,
}

/// The tokens of a text with their lines, or the line of a mistake.
fn tokens(text: &str) -> Result<Vec<(Token, usize)>, (usize, &'static str)> {
    let (mut tokens, mut line) = (Vec::new(), 1);
    let mut signs = text.chars().peekable();
    while let Some(sign) = signs.next() {
        let token = match sign {
            '\n' => {
                line += 1;
                continue;
            }
            _ if sign.is_ascii_whitespace() => continue,
            '#' => {
                while signs.next_if(|next| *next != '\n').is_some() {}
                continue;
            }
            ';' => Token::End,
            '{' => Token::Open,
            '}' => Token::Close,
            _ => {
                let start = line;
                let word = word(sign, &mut signs, &mut line).map_err(|what| (start, what))?;
                tokens.push((Token::Word(word), start));
                continue;
            }
        };
        tokens.push((token, line));
    }
    Ok(tokens)
}

/// The rest of a word after its first sign. A word that starts with a quote ends with it; in others, quotes are signs as any.
fn word(
    first: char,
    signs: &mut std::iter::Peekable<std::str::Chars<'_>>,
    line: &mut usize,
) -> Result<String, &'static str> {
    let quote = Some(first).filter(|sign| matches!(sign, '"' | '\''));
    let mut word = String::new();
    let mut next = if quote.is_some() { signs.next() } else { Some(first) };
    while let Some(sign) = next {
        *line += usize::from(sign == '\n');
        match sign {
            '\\' => match signs.next() {
                Some(escaped @ ('"' | '\'' | '\\')) => word.push(escaped),
                Some('t') => word.push('\t'),
                Some('r') => word.push('\r'),
                Some('n') => word.push('\n'),
                Some(other) => word.extend(['\\', other]),
                None => return Err("the file ends after `\\`"),
            },
            _ if Some(sign) == quote => return Ok(word),
            _ => word.push(sign),
        }
        if quote.is_none() {
            // `${name}` is a variable, and no block.
            let is_variable = sign == '$';
            match signs.peek() {
                Some('{') if is_variable => {}
                Some(end) if end.is_ascii_whitespace() || matches!(end, ';' | '{') => return Ok(word),
                _ => {}
            }
        }
        next = signs.next();
    }
    if quote.is_some() { Err("the text has no closing quote") } else { Ok(word) }
}

struct Reader<'p> {
    prefix: &'p Path,
    files: usize,
}

/// A file whose tokens are read.
struct Source {
    file: Rc<PathBuf>,
    tokens: std::iter::Peekable<std::vec::IntoIter<(Token, usize)>>,
    line: usize,
}

impl Source {
    fn wrong(&self, what: &str) -> ImportError {
        ImportError::Grammar(vec![format!("{}:{}: {what}", self.file.display(), self.line)])
    }
}

impl Reader<'_> {
    fn file(&mut self, path: &Path, depth: usize) -> Result<Vec<Directive>, ImportError> {
        self.files += 1;
        let text = read(path)?;
        let file = Rc::new(path.to_owned());
        let tokens = tokens(&text).map_err(|(line, what)| {
            ImportError::Grammar(vec![format!("{}:{line}: {what}", path.display())])
        })?;
        let mut source = Source { file, tokens: tokens.into_iter().peekable(), line: 1 };
        self.block(&mut source, depth, false)
    }

    /// Directives up to the end of a block, or of the file.
    fn block(
        &mut self,
        source: &mut Source,
        depth: usize,
        is_inner: bool,
    ) -> Result<Vec<Directive>, ImportError> {
        if depth > MAX_DEPTH {
            return Err(source.wrong(&format!("more than {MAX_DEPTH} blocks or files within each other")));
        }
        let mut directives = Vec::new();
        while let Some((token, line)) = source.tokens.next() {
            source.line = line;
            match token {
                Token::Close if is_inner => return Ok(directives),
                Token::Close => return Err(source.wrong("`}` closes nothing")),
                Token::Open | Token::End => return Err(source.wrong("expected the name of a directive")),
                Token::Word(name) => {
                    let directive = self.directive(source, name, depth)?;
                    match directive.name.as_str() {
                        "include" => directives.extend(self.include(source, &directive, depth)?),
                        _ => directives.push(directive),
                    }
                }
            }
        }
        if is_inner { Err(source.wrong("the file ends, expected `}`")) } else { Ok(directives) }
    }

    fn directive(
        &mut self,
        source: &mut Source,
        name: String,
        depth: usize,
    ) -> Result<Directive, ImportError> {
        let place = Place::Line(Rc::clone(&source.file), source.line);
        let mut arguments = Vec::new();
        loop {
            match source.tokens.next() {
                Some((Token::Word(word), _)) => arguments.push(word),
                Some((Token::End, _)) => return Ok(Directive { name, arguments, block: None, place }),
                Some((Token::Open, _)) => {
                    let block = Some(self.block(source, depth + 1, true)?);
                    return Ok(Directive { name, arguments, block, place });
                }
                Some((Token::Close, _)) | None => {
                    let name = shown_option(&name, "");
                    return Err(source.wrong(&format!("{name}: expected `;` or `{{` at its end")));
                }
            }
        }
    }

    fn include(
        &mut self,
        source: &Source,
        directive: &Directive,
        depth: usize,
    ) -> Result<Vec<Directive>, ImportError> {
        if depth == MAX_DEPTH {
            return Err(
                source.wrong(&format!("include: more than {MAX_DEPTH} blocks or files within each other"))
            );
        }
        let pattern = self.prefix.join(directive.argument(0)).display().to_string();
        let paths: Vec<PathBuf> = if pattern.contains(['*', '?', '[']) {
            let paths = glob::glob(&pattern).map_err(|error| source.wrong(&format!("include: {error}")))?;
            paths.flatten().filter(|path| path.is_file()).collect()
        } else {
            vec![PathBuf::from(pattern)]
        };
        let mut directives = Vec::new();
        for path in paths {
            if self.files >= MAX_FILES {
                return Err(source.wrong(&format!("include: more than {MAX_FILES} files")));
            }
            match self.file(&path, depth + 1) {
                Ok(inner) => directives.extend(inner),
                Err(error @ ImportError::Read { .. }) => {
                    return Err(source.wrong(&format!("include: {error}")));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(directives)
    }
}
