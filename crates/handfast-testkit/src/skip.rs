//! A test that cannot run on this machine is reported by name. The line goes past libtest's capture to standard error, where
//! `scripts/count` finds it and counts the test as skipped instead of passed.

use std::io::Write;

/// Writes the line.
pub fn report(test: &str, reason: &str) {
    // One write, so that lines of tests that run beside this one cannot get in between.
    let line = format!("SKIPPED {test}: {reason}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// The test with this function in it, by the type name of the function.
pub fn test_of(function: &str) -> &str {
    let test = function.trim_end_matches("::marker").trim_end_matches("::{{closure}}");
    test.split_once("::").map_or(test, |(_, test)| test)
}

/// Skips the calling test: `skipped!("no TUN device here")`.
#[macro_export]
macro_rules! skipped {
    ($($reason:tt)+) => {{
        fn marker() {}
        let test = $crate::skip::test_of(std::any::type_name_of_val(&marker));
        $crate::skip::report(test, &format!($($reason)+));
        return;
    }};
}

/// Skips the calling test unless the programs are installed, in a version that it can use: `needs!("openssl", "curl")`.
#[macro_export]
macro_rules! needs {
    ($($program:literal),+) => {
        $(if let Err(reason) = $crate::tools::usable($program) {
            $crate::skipped!("{reason}");
        })+
    };
}

pub use crate::{needs, skipped};
