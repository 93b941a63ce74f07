//! A test that cannot run on this machine is reported by name. The line goes past libtest's capture to standard error, where
//! `scripts/count` finds it and counts the test as skipped instead of passed.

use std::io::Write;

/// Writes the line; `function` is the type name of a function inside the test.
pub(crate) fn say(function: &str, reason: &str) {
    let test = function.trim_end_matches("::marker").split_once("::").map_or(function, |(_, test)| test);
    // One write, so that lines of tests that run beside this one cannot get in between.
    let line = format!("SKIPPED {test}: {reason}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Skips the calling test: `skipped!("no TUN device here")`.
macro_rules! skipped {
    ($($reason:tt)+) => {{
        fn marker() {}
        $crate::support::skip::say(std::any::type_name_of_val(&marker), &format!($($reason)+));
        return;
    }};
}

/// Skips the calling test unless the programs are installed, in a version that it can use: `needs!("openssl", "curl")`.
macro_rules! needs {
    ($($program:literal),+) => {
        $(if let Err(reason) = $crate::support::tools::usable($program) {
            skipped!("{reason}");
        })+
    };
}

pub(crate) use {needs, skipped};
