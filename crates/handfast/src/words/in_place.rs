//! The command lines of stunnel and hitch, for a program file that is called as they are: a link to this program, or a copy of it.
//!
//! In: the words as typed. Out: the command of ours that does the same, or an answer without one. Options of their configuration files
//! are converted where the file is.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

use crate::talk;

/// stunnel's own default.
const STUNNEL_FILE: &str = "/etc/stunnel/stunnel.conf";
/// The file of a hitch that has its whole configuration on the command line.
const NO_FILE: &str = "/dev/null";
const STUNNEL_USAGE: &str = "stunnel [FILE] | -fd NUMBER | -help | -version";
const HITCH_USAGE: &str = "hitch [--config=FILE] [--test] [--OPTION[=VALUE] …] [PEM …] | --help | --version";

/// Options of hitch's command line: long name, letter, and true if it takes a value.
const HITCH_OPTIONS: [(&str, Option<char>, bool); 40] = [
    ("ciphers", Some('c'), true),
    ("ssl-engine", Some('e'), true),
    ("prefer-server-ciphers", Some('O'), false),
    ("backend", Some('b'), true),
    ("frontend", Some('f'), true),
    ("workers", Some('n'), true),
    ("backlog", Some('B'), true),
    ("shared-cache", Some('C'), true),
    ("shared-cache-listen", Some('U'), true),
    ("shared-cache-peer", Some('P'), true),
    ("shared-cache-if", Some('M'), true),
    ("pidfile", Some('p'), true),
    ("keepalive", Some('k'), true),
    ("backend-refresh", Some('R'), true),
    ("chroot", Some('r'), true),
    ("user", Some('u'), true),
    ("group", Some('g'), true),
    ("quiet", Some('q'), false),
    ("log-filename", Some('l'), true),
    ("log-level", Some('L'), true),
    ("syslog", Some('s'), false),
    ("ocsp-dir", Some('o'), true),
    ("syslog-facility", None, true),
    ("send-bufsize", None, true),
    ("recv-bufsize", None, true),
    ("tls", None, false),
    ("ssl", None, false),
    ("enable-tcp-fastopen", None, false),
    ("daemon", None, false),
    ("write-ip", None, false),
    ("write-proxy-v1", None, false),
    ("write-proxy-v2", None, false),
    ("write-proxy", None, false),
    ("proxy-proxy", None, false),
    ("sni-nomatch-abort", None, false),
    ("alpn-protos", None, true),
    ("tls-protos", None, true),
    ("dbg-listen", None, true),
    ("backend-connect-timeout", None, true),
    ("ssl-handshake-timeout", None, true),
];

/// Translation of a command line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Translation {
    /// It is a command line of ours, unchanged.
    Own(Vec<OsString>),
    /// Our words for the command line of another program.
    OfAnother(Vec<OsString>),
    /// Nothing is run; this is printed.
    Printed(Printed),
}

/// Text for a command line that runs nothing, and the exit code of the program.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Printed {
    text: String,
    to_output: bool,
    is_good: bool,
}

impl Printed {
    fn wrong(what: &str, usage: &str) -> Translation {
        let text = format!("{what}\nusage: {usage}\n");
        Translation::Printed(Self { text, to_output: false, is_good: false })
    }

    fn good(text: String, to_output: bool) -> Translation {
        Translation::Printed(Self { text, to_output, is_good: true })
    }

    /// Writes it to the stream where the other program does.
    pub(crate) fn print(self) -> ExitCode {
        if self.to_output {
            return talk::print(&self.text, self.is_good);
        }
        talk::err(self.text.trim_end());
        if self.is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// An option of another program is not written `NAME=VALUE`.
#[derive(Debug, thiserror::Error)]
#[error("expected NAME=VALUE")]
pub(crate) struct NoValue;

/// Reads `NAME=VALUE`.
pub(crate) fn option(text: &str) -> Result<(String, String), NoValue> {
    let (name, value) = text.split_once('=').ok_or(NoValue)?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Translates the words, of which the first is the name that the program was called by.
pub(crate) fn translate(typed: Vec<OsString>) -> Translation {
    let name = typed.first().map(Path::new).and_then(Path::file_name).and_then(OsStr::to_str);
    let words = typed.iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>();
    match name {
        Some("stunnel" | "stunnel4") => stunnel(&words),
        Some("hitch") => hitch(&words),
        _ => Translation::Own(typed),
    }
}

/// The text of `-version` and `--version`.
fn version(of: &str) -> String {
    format!("handfast {}, in the place of {of}\n", env!("CARGO_PKG_VERSION"))
}

fn of_another(words: impl IntoIterator<Item = String>) -> Translation {
    Translation::OfAnother(
        std::iter::once("handfast".into()).chain(words.into_iter().map(Into::into)).collect(),
    )
}

fn stunnel(words: &[String]) -> Translation {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let file = match *words {
        [] => STUNNEL_FILE.to_owned(),
        ["-help"] => return Printed::good(format!("usage: {STUNNEL_USAGE}\n"), false),
        ["-version"] => return Printed::good(version("stunnel"), false),
        ["-fd", number] if number.parse::<u16>().is_ok() => format!("/dev/fd/{number}"),
        [file] if !file.starts_with('-') => file.to_owned(),
        _ => return Printed::wrong("expected one configuration file, or one option", STUNNEL_USAGE),
    };
    of_another(["proxy", "--stunnel"].map(str::to_owned).into_iter().chain([file]))
}

/// hitch's command line while it is read.
#[derive(Debug, Default)]
struct Hitch {
    file: Option<String>,
    is_test: bool,
    given: Vec<String>,
}

fn hitch(words: &[String]) -> Translation {
    if words.is_empty() {
        return Printed::wrong("expected options", HITCH_USAGE);
    }
    let mut hitch = Hitch::default();
    let (mut files, mut left) = (Vec::new(), words.iter());
    while let Some(word) = left.next() {
        let read = match word.as_str() {
            "--" => {
                files.extend(left.by_ref());
                continue;
            }
            "--help" | "-h" => return Printed::good(format!("usage: {HITCH_USAGE}\n"), true),
            "--version" | "-V" => return Printed::good(version("hitch"), true),
            long if long.starts_with("--") => hitch.long(&long[2..], &mut left),
            short if short.len() > 1 && short.starts_with('-') => hitch.short(&short[1..], &mut left),
            _ => {
                files.push(word);
                continue;
            }
        };
        if let Err(what) = read {
            return Printed::wrong(&what.to_string(), HITCH_USAGE);
        }
    }
    // As in hitch, the files come last.
    hitch.given.extend(files.into_iter().map(|file| format!("pem-file={file}")));
    let verb = if hitch.is_test { "check" } else { "proxy" };
    let file = hitch.file.unwrap_or_else(|| NO_FILE.to_owned());
    let given = hitch.given.into_iter().map(|option| format!("--hitch-option={option}"));
    of_another([verb.to_owned(), "--hitch".to_owned(), file].into_iter().chain(given))
}

/// Problem with hitch's command line.
#[derive(Debug, thiserror::Error)]
enum HitchError {
    #[error("{0} needs a value")]
    NeedsValue(String),
    #[error("{0} is not an option of hitch's command line")]
    Unknown(String),
}

type Rest<'w> = std::slice::Iter<'w, String>;

impl Hitch {
    /// `NAME`, `NAME=VALUE` or `NAME VALUE`.
    fn long(&mut self, word: &str, left: &mut Rest<'_>) -> Result<(), HitchError> {
        let (name, value) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
        match name {
            "test" => self.is_test = true,
            "config" => self.file = Some(needed(name, value, left)?),
            _ => {
                let known = HITCH_OPTIONS.into_iter().find(|(known, ..)| *known == name);
                let (_, _, takes_value) = known.ok_or_else(|| HitchError::Unknown(format!("--{name}")))?;
                let value =
                    if takes_value { needed(name, value, left)? } else { value.unwrap_or("on").to_owned() };
                self.given.push(format!("{name}={value}"));
            }
        }
        Ok(())
    }

    /// Letters, of which the last may take a value: the rest of the word, or the next one.
    fn short(&mut self, letters: &str, left: &mut Rest<'_>) -> Result<(), HitchError> {
        for (at, letter) in letters.char_indices() {
            if letter == 't' {
                self.is_test = true;
                continue;
            }
            let known = HITCH_OPTIONS.into_iter().find(|(_, known, _)| *known == Some(letter));
            let (name, _, takes_value) = known.ok_or_else(|| HitchError::Unknown(format!("-{letter}")))?;
            if !takes_value {
                self.given.push(format!("{name}=on"));
                continue;
            }
            let rest = Some(&letters[at + letter.len_utf8()..]).filter(|rest| !rest.is_empty());
            self.given.push(format!("{name}={}", needed(name, rest, left)?));
            return Ok(());
        }
        Ok(())
    }
}

fn needed(name: &str, value: Option<&str>, left: &mut Rest<'_>) -> Result<String, HitchError> {
    let value = value.map(str::to_owned).or_else(|| left.next().cloned());
    value.ok_or_else(|| HitchError::NeedsValue(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(line: &str) -> Translation {
        translate(line.split_whitespace().map(Into::into).collect())
    }

    /// Asserts what a command line becomes.
    fn becomes(line: &str, ours: &str) {
        let expected = Translation::OfAnother(ours.split_whitespace().map(Into::into).collect());
        assert_eq!(translated(line), expected, "{line}");
    }

    #[test]
    fn the_name_of_the_program_decides() {
        for line in ["handfast proxy", "/usr/bin/handfast", "mystunnel x", ""] {
            let Translation::Own(words) = translated(line) else { panic!("{line}") };
            assert_eq!(words.len(), line.split_whitespace().count());
        }
        becomes("/usr/sbin/hitch -t", "handfast check --hitch /dev/null");
    }

    #[test]
    fn stunnel_takes_a_file() {
        becomes("stunnel", "handfast proxy --stunnel /etc/stunnel/stunnel.conf");
        becomes("/usr/bin/stunnel4 a.conf", "handfast proxy --stunnel a.conf");
        becomes("stunnel -fd 3", "handfast proxy --stunnel /dev/fd/3");
        for (line, is_good) in [
            ("-help", true),
            ("-version", true),
            ("-fd", false),
            ("-fd x", false),
            ("a b", false),
            ("-x", false),
        ] {
            let Translation::Printed(answer) = translated(&format!("stunnel {line}")) else {
                panic!("{line}")
            };
            assert!(answer.is_good == is_good && !answer.to_output, "{line}: {answer:?}");
        }
    }

    #[test]
    fn hitch_takes_options_before_or_behind_its_file() {
        becomes("hitch --config=a.conf", "handfast proxy --hitch a.conf");
        becomes("hitch --config a.conf --test", "handfast check --hitch a.conf");
        becomes(
            "hitch one.pem --frontend=[*]:443 --write-proxy-v2 --user nobody -qn4 -b [::1]:80 -- -two.pem",
            "handfast proxy --hitch /dev/null --hitch-option=frontend=[*]:443 --hitch-option=write-proxy-v2=on --hitch-option=user=nobody \
             --hitch-option=quiet=on --hitch-option=workers=4 --hitch-option=backend=[::1]:80 --hitch-option=pem-file=one.pem \
             --hitch-option=pem-file=-two.pem",
        );
        becomes("hitch --write-ip=off", "handfast proxy --hitch /dev/null --hitch-option=write-ip=off");
        for (line, is_good) in [
            ("--help", true),
            ("-V", true),
            ("", false),
            ("--OBVIOUSLY_BROKEN", false),
            ("-Z", false),
            ("-b", false),
        ] {
            let Translation::Printed(answer) = translated(&format!("hitch {line}")) else { panic!("{line}") };
            assert!(answer.is_good == is_good && answer.to_output == is_good, "{line}: {answer:?}");
        }
    }
}
