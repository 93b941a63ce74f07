//! Rules about `scripts/count`, which adds up a run of the tests: no test is lost, also when its program dies.

use std::io::Write;
use std::process::{Command, Stdio};

use super::root;

/// Two programs with results, as cargo and libtest print them.
const OUTPUT: &str = "\
check formatting: passed
     Running unittests src/lib.rs (target/debug/deps/handfast_one-0123456789abcdef)
test a::fast ... ok <0.001s>
test a::slow ... ok <2.500s>
SKIPPED a::fast: there is no TUN device
test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 2.60s
     Running tests/two/main.rs (target/debug/deps/two-0123456789abcdef)
test b::good ... ok <0.100s>
test b::bad ... FAILED <0.200s>
test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.30s
";

/// Output of the script for that output, with cargo's exit status; and whether it succeeds.
fn count(output: &str, status: &str) -> (Vec<String>, bool) {
    let mut script = Command::new(root().join("scripts/count"))
        .arg(status)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the script is there, and python3");
    let mut input = script.stdin.take().expect("it is piped");
    input.write_all(output.as_bytes()).expect("the script reads all of it");
    drop(input);
    let done = script.wait_with_output().expect("the script ends");
    let printed = String::from_utf8(done.stdout).expect("the script prints UTF-8");
    (printed.lines().map(String::from).collect(), done.status.success())
}

fn last(output: &str, status: &str) -> String {
    count(output, status).0.pop().expect("the script prints a line")
}

#[test]
fn passed_failed_skipped_and_ignored_tests_are_counted() {
    let (lines, success) = count(OUTPUT, "101");
    assert!(!success, "{lines:?}");
    assert_eq!(lines.last().map(String::as_str), Some("3 passed, 1 failed, 2 skipped"));
    for line in ["failed: b::bad", "   2.500 s a::slow", "    2.60 s     2 tests  handfast-one, lib"] {
        assert!(lines.iter().any(|found| found == line), "no `{line}` in {lines:#?}");
    }
}

#[test]
fn a_run_without_a_failure_succeeds() {
    let good = OUTPUT.replace("FAILED. 1 passed; 1 failed", "ok. 2 passed; 0 failed").replace("FAILED", "ok");
    let (lines, success) = count(&good, "0");
    assert!(success, "{lines:?}");
    assert_eq!(lines.last().map(String::as_str), Some("4 passed, 0 failed, 2 skipped"));
}

#[test]
fn a_program_that_died_is_a_failure_beside_others_and_its_tests_are_counted() {
    let died: String =
        OUTPUT.split_inclusive('\n').filter(|line| !line.starts_with("test result: ok")).collect();
    assert_eq!(last(&died, "101"), "3 passed, 2 failed, 1 skipped");
}

#[test]
fn a_program_that_was_not_built_is_a_failure() {
    assert_eq!(
        last("check formatting: passed\nerror: could not compile\n", "101"),
        "1 passed, 1 failed, 0 skipped"
    );
}
