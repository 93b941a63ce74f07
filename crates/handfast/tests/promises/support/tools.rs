//! Other programs, and the one under test where it is run to its end.

use std::process::Command;

pub(crate) use handfast_testkit::tools::*;

use super::proxy::PROGRAM;

/// Runs the program under test to its end: for what does not serve.
pub(crate) fn handfast(arguments: &[&str]) -> Ran {
    run_command(Command::new(PROGRAM).args(arguments), b"")
}
