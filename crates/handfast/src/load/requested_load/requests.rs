//! The requested HTTP requests: `--method`, `--header`, `--body`, `--url`.
//!
//! In: the options. Out: requests, or every mistake. Files of headers and requests are read here; the generators read
//! bodies.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};

use handfast_load::Plan;
use handfast_load::plan::error::{FileError, PlanError};
use handfast_load::plan::request::{self, MAX_REQUESTS};
use handfast_load::plan::take;
use handfast_load::plan::{Header, Request, Work};

use crate::load::mistakes::Mistakes;
use crate::words::load::WorkWords;

/// Longest file of headers, requests, names or members.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Every request that is to be sent, in turn by their weights.
pub(super) fn requests(
    words: &WorkWords,
    origin: &str,
    path: String,
    mistakes: &mut Mistakes,
) -> Vec<Request> {
    let body = words.body.as_deref().map(request::body);
    let usual = if body.is_some() { "POST" } else { "GET" };
    let method = mistakes.read("--method", words.method.as_ref(), request::method);
    let mut base =
        Request { method: method.unwrap_or_else(|| usual.to_owned()), path, body, ..Request::default() };
    headers(&words.header, mistakes).into_iter().for_each(|header| base.set(header));
    if words.url.is_empty() {
        let several = [("--in-order", words.in_order), ("--take", !words.take.is_empty())];
        mistakes.forbid("is for several requests, expected --url with it", &several);
        return vec![base];
    }
    if base.path != "/" {
        mistakes.note("target", format!("`{}` has a path, expected a URL without one with --url", base.path));
    }
    let mut all = Vec::new();
    for url in &words.url {
        let read = match url.strip_prefix('@') {
            Some(file) => from_file(file, |text| request::parse_file(text, &base, origin)),
            None => one(request::parse(url, &base, origin)),
        };
        all.extend(mistakes.read_all(&place("--url", url), read));
    }
    if all.len() > MAX_REQUESTS {
        mistakes.note("--url", format!("{} requests, expected at most {MAX_REQUESTS}", all.len()));
    }
    for text in &words.take {
        let number = all.len();
        let read = |text: &str| {
            let (place, value) = take::parse(text)?;
            let request =
                all.get_mut(place).ok_or(PlanError::TakeFromNone { number: place + 1, count: number })?;
            request.take.push(value);
            Ok::<_, PlanError>(())
        };
        mistakes.read("--take", Some(text), read);
    }
    for what in take::mistakes(&all, words.in_order) {
        mistakes.note(if what == PlanError::WeightInOrder { "--in-order" } else { "--take" }, what);
    }
    all
}

/// Every header that was given.
fn headers(given: &[String], mistakes: &mut Mistakes) -> Vec<Header> {
    let mut headers = Vec::new();
    for text in given {
        let Some(file) = text.strip_prefix('@') else {
            headers.extend(mistakes.read("--header", Some(text), request::header));
            continue;
        };
        match read(file) {
            Ok(lines) => {
                let lines = (1..).zip(lines.lines()).filter(|(_, line)| !line.trim().is_empty());
                for (number, line) in lines {
                    let place = format!("--header @{file}: line {number}");
                    let header = |line: &str| request::header(line).map_err(PlanError::masked);
                    headers.extend(mistakes.read(&place, Some(&line.to_owned()), header));
                }
            }
            Err(what) => mistakes.note("--header", what),
        }
    }
    headers
}

/// Restores the values of secret headers in a plan from a report.
pub(crate) fn fill_in(plan: &mut Plan, given: &[String], mistakes: &mut Mistakes) {
    let given = headers(given, mistakes);
    let Work::Http { requests, .. } = &mut plan.work else {
        if !given.is_empty() {
            mistakes.note("--header", "there is no HTTP in this report");
        }
        return;
    };
    for header in given {
        let all = requests.iter_mut().flat_map(|request| &mut request.headers);
        let mut kept = all.filter(|kept| kept.name == header.name && kept.value.is_none()).peekable();
        if kept.peek().is_none() {
            let what = format!("`{}` is in the report already, or was never sent", header.name);
            mistakes.note("--header", what);
        }
        kept.for_each(|kept| kept.value.clone_from(&header.value));
    }
    let all = requests.iter().flat_map(|request| &request.headers);
    let mut names: Vec<&str> =
        all.filter(|header| header.value.is_none()).map(|header| header.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let what = format!(
            "the report does not keep the value of the header `{name}`, expected --header '{name}: VALUE' with it"
        );
        mistakes.note("--replay", what);
    }
}

/// The file behind an @.
fn read(file: &str) -> Result<String, ReadError> {
    let failed = |error| ReadError::Io { file: file.to_owned(), error };
    let opened = File::open(file).map_err(failed)?;
    let mut text = String::new();
    let length = opened.take(MAX_FILE_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
    if length as u64 > MAX_FILE_BYTES { Err(ReadError::TooLong { file: file.to_owned() }) } else { Ok(text) }
}

/// Everything in the file behind an @.
pub(super) fn from_file<T>(
    file: &str,
    parse: impl FnOnce(&str) -> Result<Vec<T>, Vec<FileError>>,
) -> Result<Vec<T>, Vec<ListError>> {
    let text = read(file).map_err(|error| vec![ListError::Unreadable(error)])?;
    parse(&text).map_err(|wrong| wrong.into_iter().map(ListError::Wrong).collect())
}

/// A list with one entry, from the command line.
pub(super) fn one<T>(read: Result<T, PlanError>) -> Result<Vec<T>, Vec<ListError>> {
    read.map(|one| vec![one]).map_err(|mistake| vec![ListError::Wrong(mistake.into())])
}

/// Reason why a file behind an @ could not be read.
#[derive(Debug)]
pub(super) enum ReadError {
    /// It cannot be opened or read, or is not text.
    Io { file: String, error: io::Error },
    /// It is longer than [`MAX_FILE_BYTES`].
    TooLong { file: String },
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { file, error } => write!(f, "read {file}: {error}"),
            Self::TooLong { file } => write!(f, "read {file}: larger than 1 MiB"),
        }
    }
}

/// A mistake in a list: its file, or an entry.
#[derive(Debug)]
pub(super) enum ListError {
    Unreadable(ReadError),
    Wrong(FileError),
}

impl fmt::Display for ListError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(error) => error.fmt(f),
            Self::Wrong(mistake) => mistake.fmt(f),
        }
    }
}

/// The option, with the file's name if it was one.
pub(super) fn place(option: &str, given: &str) -> String {
    if given.starts_with('@') { format!("{option} {given}") } else { format!("{option} '{given}'") }
}
