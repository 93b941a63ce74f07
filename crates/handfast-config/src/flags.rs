//! Configurations without a file: one service by flags, and the defaults to try things with.
//!
//! In: what was given on the command line. Out: the same [`Config`] as from a file, by the same checks: the flags are
//! written down as a small file, one value a line, and what is wrong with a line is wrong with its flag.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use super::file::{Parsed, ReadFiles, parse, read};
use super::machine::ThisMachine;
use super::model::{AccessLog, CertificateEntry, Config, Places, Target};
use super::problem::{Place, Problem};

/// The flags of `handfast proxy`; empty and `None`: not given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlagInput {
    /// `--listen`, each time it was given.
    pub listen: Vec<String>,
    /// `--backend`, each time it was given.
    pub backend: Vec<String>,
    /// `--certificate`, each time it was given.
    pub certificate: Vec<String>,
    /// `--key`.
    pub key: Option<String>,
    /// `--admin`.
    pub admin: Option<String>,
    /// `--access-log`.
    pub access_log: Option<String>,
}

/// Makes the configuration of one service, called `main`, out of flags; everything else is as by default.
///
/// Relative paths start from the current folder. The file system shows if a path is a folder. Warnings are
/// handed back with the configuration.
pub fn from_flags(input: &FlagInput) -> Parsed {
    let not_given = lists(input).into_iter().filter(|(_, values, _)| values.is_empty());
    let missing: Vec<Problem> = not_given.map(|(flag, _, example)| missing(flag, example)).collect();
    let (text, lines) = as_file(input);
    let ReadFiles { parsed: result, named, .. } = read("", &text, &ThisMachine::STRICT);
    let to_flags = |problems: Vec<Problem>| -> Vec<Problem> {
        problems.into_iter().filter_map(|problem| at_flag(problem, &lines)).collect()
    };
    match result {
        Ok((config, warnings)) if missing.is_empty() => {
            let places = config.places.changed(|place| flag_of(place, &lines));
            Ok((Config { places, ..config }, to_flags(warnings)))
        }
        Ok((_, problems)) | Err(problems) => {
            let problems = named.with_problems_of_files(problems, SystemTime::now());
            Err(missing.into_iter().chain(to_flags(problems)).collect())
        }
    }
}

/// The flags that must be given, each with its values and an example.
fn lists(input: &FlagInput) -> [(&'static str, &[String], &'static str); 3] {
    [
        ("--listen", &input.listen, "--listen 127.0.0.1:8443"),
        ("--backend", &input.backend, "--backend 127.0.0.1:8080"),
        ("--certificate", &input.certificate, "--certificate web.pem --key web.key"),
    ]
}

fn missing(flag: &'static str, example: &str) -> Problem {
    let place = Place::Flag { flag, value: String::new() };
    let hint = Some(format!("add `{example}`, or name a configuration file with `-c`"));
    Problem { hint, ..Problem::error(place, "is missing; a service by flags needs it".to_owned()) }
}

/// A line of the made-up file: its flag, and the value that was given.
type Line = Option<(&'static str, String)>;

/// The flags as a file, and the flag of each line.
fn as_file(input: &FlagInput) -> (String, Vec<Line>) {
    let (mut text, mut lines) = (String::new(), Vec::new());
    let mut add = |line: &str, of: Line| {
        text.push_str(line);
        text.push('\n');
        lines.push(of);
    };
    let quoted = |value: &str| toml::Value::String(one_line(value)).to_string();
    add("[[service]]", None);
    add("name = \"main\"", None);
    for (flag, values, _) in lists(input).into_iter().filter(|(_, values, _)| !values.is_empty()) {
        // A line for each value and each bracket.
        add(&format!("{} = [", flag.trim_start_matches('-')), None);
        for value in values {
            add(&format!("{},", quoted(value)), Some((flag, value.clone())));
        }
        add("]", None);
    }
    for (flag, section, key, value) in [
        ("--key", None, "key", &input.key),
        ("--admin", Some("[admin]"), "listen", &input.admin),
        ("--access-log", Some("[access-log]"), "to", &input.access_log),
    ] {
        let Some(value) = value else { continue };
        if let Some(header) = section {
            add(header, None);
        }
        add(&format!("{key} = {}", quoted(value)), Some((flag, value.clone())));
    }
    (text, lines)
}

/// A value in one line: a newline in it would be shown as more lines than it has flags.
fn one_line(value: &str) -> String {
    value.replace(['\n', '\r'], "\u{fffd}")
}

/// A problem of the made-up file as one of its flag; `None` for what is missing, which is reported by the flag's name.
fn at_flag(problem: Problem, lines: &[Line]) -> Option<Problem> {
    Some(Problem { place: flag_of(&problem.place, lines)?, see: None, ..problem })
}

/// A place of the made-up file as its flag.
fn flag_of(place: &Place, lines: &[Line]) -> Option<Place> {
    let Place::Text { line, .. } = place else { return None };
    let (flag, value) = lines.get(line.checked_sub(1)?)?.clone()?;
    Some(Place::Flag { flag, value })
}

impl Config {
    /// The configuration of `handfast proxy` without flags: something to try it with, on this machine only.
    ///
    /// Listens on `127.0.0.1:8443` and `[::1]:8443` with a throwaway certificate, whose CA is written to `ca_file`, in
    /// front of the built-in backend; everything else is as by default.
    pub fn embedded(ca_file: PathBuf) -> Self {
        let input = FlagInput {
            listen: vec!["127.0.0.1:8443".to_owned(), "[::1]:8443".to_owned()],
            backend: vec!["127.0.0.1:1".to_owned()],
            certificate: vec!["replaced".to_owned()],
            ..FlagInput::default()
        };
        let (text, _) = as_file(&input);
        let (mut config, _) = parse("", &text, &|_| false).expect("a test reads this very text");
        config.access_log = AccessLog::Stdout;
        config.places = Places::default();
        for service in &mut config.services {
            service.backends = Arc::new([Target::BuiltIn.into()]);
            if let Some(tls) = &mut service.tls {
                tls.certificates = vec![CertificateEntry::Throwaway { ca_file: ca_file.clone() }];
            }
        }
        config
    }
}

#[cfg(test)]
mod tests;
