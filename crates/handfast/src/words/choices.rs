//! Options with a closed set of values, for the completion of shells.
//!
//! In: the values. Out: a parser that names them and accepts any text, since clap would stop at the first mistake:
//! `load/requested_load.rs` reports all mistakes together.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, Command, Error};
use handfast_load::plan::{Arrivals, Close, HttpVersion, profile};

/// The values of an option.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choices(&'static [&'static str]);

pub(crate) const HTTP_VERSIONS: Choices = Choices(&[HttpVersion::Http11.name(), HttpVersion::Http2.name()]);
pub(crate) const ARRIVALS: Choices = Choices(&[Arrivals::Poisson.name(), Arrivals::Fixed.name()]);
pub(crate) const CLOSES: Choices =
    Choices(&[Close::Notify.name(), Close::Fin.name(), Close::Reset.name(), Close::Server.name()]);
pub(crate) const REPLIES: Choices = Choices(&["echo", "any"]);
pub(crate) const DIRECTIONS: Choices = Choices(&["send", "receive", "both"]);
pub(crate) const PROFILES: Choices = Choices(&profile::NAMES);
pub(crate) const ON_WORKER_LOST: Choices = Choices(&["fail", "continue"]);

impl TypedValueParser for Choices {
    type Value = String;

    fn parse_ref(&self, command: &Command, argument: Option<&Arg>, value: &OsStr) -> Result<String, Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.0.iter().map(|name| PossibleValue::new(*name))))
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};
    use clap_complete::{Shell, generate};

    use super::*;
    use crate::words::{Verb, Words};

    const ALL: [(&str, Choices); 7] = [
        ("http", HTTP_VERSIONS),
        ("arrivals", ARRIVALS),
        ("close", CLOSES),
        ("reply", REPLIES),
        ("bulk", DIRECTIONS),
        ("profile", PROFILES),
        ("on-worker-lost", ON_WORKER_LOST),
    ];

    #[test]
    fn shells_complete_the_values() {
        let mut script = Vec::new();
        generate(Shell::Bash, &mut Words::command(), "handfast", &mut script);
        let script = String::from_utf8(script).expect("text");
        let (_, load) = script.split_once(" handfast__subcmd__load)\n").expect("the command");
        for (option, Choices(values)) in ALL {
            let (_, behind) =
                load.split_once(&format!("--{option})\n")).unwrap_or_else(|| panic!("--{option}"));
            let words = format!("compgen -W \"{}\"", values.join(" "));
            assert!(
                behind.trim_start().lines().next().is_some_and(|line| line.contains(&words)),
                "--{option}: {words}"
            );
        }
    }

    #[test]
    fn every_value_is_understood_and_others_reach_the_report_of_all_mistakes() {
        let read = |line: &str| {
            let words = Words::try_parse_from(line.split_whitespace())
                .unwrap_or_else(|error| panic!("{line}: {error}"));
            let Verb::Load(words) = words.verb else { panic!("not load") };
            let mut mistakes = crate::load::Mistakes::default();
            crate::load::parse_load(&words, 7, &mut mistakes);
            mistakes.is_empty()
        };
        for (option, Choices(values)) in ALL {
            let with = match option {
                "http" => "https://a/",
                "arrivals" => "a:1 --rate 5",
                "on-worker-lost" => "a:1 --workers nats://b:4222",
                _ => "a:1",
            };
            for value in values {
                assert!(read(&format!("handfast load {with} --{option} {value}")), "--{option} {value}");
            }
            assert!(!read(&format!("handfast load {with} --{option} sideways")), "--{option} sideways");
        }
    }
}
