//! Errors of product code are types: a text as an error has no causes that a caller could tell apart, and no source.
//! In: the Rust files of crates. Out: complaints about `Result<…, String>` and `type Err = String`.

use super::tokens::{Token, product_tokens};
use super::{Complaint, SourceFile, check_files, sample};

/// Crates that are not shipped, and those that are not converted yet.
const EXEMPT: [&str; 2] = ["handfast-testkit", "handfast-trials"];

/// Returns true if a file is part of a program, by its name: a test module is `tests.rs`, `NAME_tests.rs` or `testing.rs`.
fn is_product(file: &SourceFile) -> bool {
    let is_test = |part: &str| {
        let stem = part.strip_suffix(".rs").unwrap_or(part);
        stem == "tests" || stem == "testing" || stem.ends_with("_tests")
    };
    let mut below = file.path.split('/').skip(2);
    file.is_rust()
        && below.next() == Some("src")
        && !below.any(is_test)
        && file.crate_name().is_some_and(|name| !EXEMPT.contains(&name))
}

fn texts_as_errors(file: &SourceFile) -> Vec<Complaint> {
    let tokens = product_tokens(&file.text);
    let complain = |(at, token): (usize, &Token)| {
        let rest = &tokens[at + 1..];
        let is_text = match token.text.as_str() {
            "Result" => last_argument(rest).is_some_and(is_string),
            "Err" => {
                rest.first().is_some_and(|next| next.text == "=")
                    && until_end(&rest[1..]).is_some_and(is_string)
            }
            _ => false,
        };
        let what = "a String as an error; hint: an enum with a variant for each cause, and Display as users see it today";
        is_text.then(|| Complaint::new(&file.path, token.line, what))
    };
    tokens.iter().enumerate().filter_map(complain).collect()
}

/// The tokens before the next `;`.
fn until_end(tokens: &[Token]) -> Option<&[Token]> {
    let end = tokens.iter().position(|token| token.text == ";")?;
    Some(&tokens[..end])
}

/// The last of the arguments in angle brackets at the start; `None`: there are fewer than two.
fn last_argument(tokens: &[Token]) -> Option<&[Token]> {
    let (mut depth, mut begin) = (0_usize, None);
    for (at, token) in tokens.iter().enumerate() {
        let is_arrow = at > 0 && tokens[at - 1].text == "-";
        match token.text.as_str() {
            "<" | "(" | "[" => depth += 1,
            ">" if is_arrow => {}
            ">" if depth == 1 => return begin.map(|begin| &tokens[begin..at]),
            ">" | ")" | "]" => depth = depth.checked_sub(1)?,
            // One behind the last argument begins none.
            "," if depth == 1 && tokens.get(at + 1).is_some_and(|next| next.text != ">") => {
                begin = Some(at + 1)
            }
            _ => {}
        }
        if depth == 0 {
            return None;
        }
    }
    None
}

fn is_string(tokens: &[Token]) -> bool {
    let name = tokens.iter().rev().find(|token| token.text != ",");
    let is_path = tokens.iter().all(|token| token.is_name() || matches!(token.text.as_str(), "::" | ","));
    is_path && name.is_some_and(|name| name.text == "String")
}

#[test]
fn product_code_has_no_text_as_an_error() {
    check_files(is_product, texts_as_errors);
}

#[test]
fn a_text_as_an_error_is_seen() {
    let lines = |text: &str| -> Vec<usize> {
        texts_as_errors(&sample("crates/handfast/src/a.rs", text)).iter().map(|found| found.line).collect()
    };
    for wrong in [
        "fn a() -> Result<(), String> {}",
        "fn a() -> Result<Vec<(String, u8)>, String> {}",
        "fn a() -> Result<(), std::string::String> {}",
        "type A = Result<\n    Box<dyn Fn(&str) -> u8>,\n    String,\n>;",
        "struct A { reply: oneshot::Sender<Result<String, String>> }",
        "impl FromStr for A { type Err = String; }",
    ] {
        assert_eq!(lines(wrong), [1], "{wrong}");
    }
    for good in [
        "fn a() -> Result<String, Error> {}",
        "fn a() -> Result<Vec<u8>, Vec<String>> {}",
        "fn a() -> io::Result<String> {}",
        "// Result<(), String>",
        "type Err = Error;",
        "#[cfg(test)]\nmod tests { fn a() -> Result<(), String> {} }",
    ] {
        assert!(lines(good).is_empty(), "{good}");
    }
    let is_checked = |path: &str| is_product(&sample(path, ""));
    assert!(is_checked("crates/handfast/src/log.rs"));
    for path in [
        "crates/handfast/src/log/tests.rs",
        "crates/handfast/src/log/tests/more.rs",
        "crates/handfast/src/log/a_tests.rs",
        "crates/handfast-acme/src/testing.rs",
        "crates/handfast/tests/tidy/main.rs",
        "crates/handfast-testkit/src/crowd.rs",
    ] {
        assert!(!is_checked(path), "{path}");
    }
}
