//! The one program: words in, report out, exit code. What each word does lives in the crate of its name.
//!
//! Exit codes: 0 as asked, 1 failed while running or a finding, 2 wrong use or configuration.
#![forbid(unsafe_code)]

mod talk;
mod verbs;
mod words;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let words = words::Words::parse();
    match words.verb {
        words::Verb::Proxy(given) => verbs::proxy(given),
        words::Verb::Check(given) => verbs::check(&given),
        words::Verb::Reference => verbs::reference(),
    }
}
