//! Tests of slips in the syntax: one problem for each, in words, and the rest of the file is read all the same.

use super::super::parse;

/// The problems of a text, each as `line:column what | hint`.
fn problems(text: &str) -> Vec<String> {
    let problems = parse("handfast.toml", text, &|_| false).expect_err(text);
    problems
        .iter()
        .map(|problem| {
            let place = problem.place.to_string();
            let place = place.trim_start_matches("handfast.toml:");
            format!("{place} {} | {}", problem.what, problem.hint.as_deref().unwrap_or("-"))
        })
        .collect()
}

#[test]
fn each_slip_is_reported_in_words_with_its_cure() {
    let quotes = "put texts, durations, sizes and addresses in quotes:";
    let table = [
        ("[[service]]\nname = web\n", format!("2:8 `web` is not a value | {quotes} `\"web\"`")),
        ("[[service]]\nlisten = 127.0.0.1:80 # here\n", format!("2:15 `127.0.0.1:80` is not a value | {quotes} `\"127.0.0.1:80\"`")),
        ("[limits]\nidle = 10s\n", format!("2:8 `10s` is not a value | {quotes} `\"10s\"`")),
        ("[limits]\nidle =\n", "2:7 there is no value after `=` | -".to_owned()),
        ("[limits]\nidle: \"10s\"\n", "2:7 there is no `=` after the key | write `idle = \"10s\"`".to_owned()),
        ("[limits]\nidle 10s\n", "2:6 there is no `=` after the key | write `idle = \"10s\"`".to_owned()),
        ("[limits]\nidle\n", "2:5 there is no `=` after the key | write `key = value`".to_owned()),
        ("[[service]]\nname = \"web\n", "2:12 the text has no closing quote | end it with the quote it begins with, on the same line".to_owned()),
        ("[[service]]\nkey = \"c:\\path\"\n", "2:11 `\\` begins an escape in a text in double quotes | write `\\\\`, or put the text in single quotes".to_owned()),
        ("[[service]]\nlisten-mode = 0660\n", "2:15 a number does not begin with 0 | modes are written as text: `\"0660\"`".to_owned()),
        ("[[service]]\nname = \"a\"\nname = \"b\"\n", "3:1 `name` is written twice | keep one of them; several values go into one list, as in `listen = [\"127.0.0.1:8443\", \"[::1]:8443\"]`".to_owned()),
        ("[process]\n[process]\n", "2:2 `process` is written twice | put its keys into one section".to_owned()),
        ("[[service]]\nname = \"a\"\n[[service.name]]\nmatch = \"b\"\n", "3:11 `name` is there already, as something else | rules for certain names begin with `[[service.rule]]`, and have `names`".to_owned()),
        ("[[service\nname = \"a\"\n", "1:10 this header of a section is not right | write `[[service]]`".to_owned()),
        ("[service]]\nname = \"a\"\n", "1:10 this header of a section is not right | write `[[service]]`".to_owned()),
        ("[limits\nidle = \"10s\"\n", "1:8 this header of a section is not right | write `[limits]`".to_owned()),
        ("; a comment\n", "1:3 this is not a key | comments begin with `#`".to_owned()),
        ("// a comment\n", "1:4 this is not a key | comments begin with `#`".to_owned()),
        ("[[service]]\nlisten = [\"a:1\" \"b:1\"]\n", "2:17 a comma is missing | separate what is in a list by `,`".to_owned()),
        ("[process]\nthreads = 1 drain = \"1s\"\n", "2:11 `1 drain` is not a value | texts are quoted, and each key has its own line".to_owned()),
        ("[[service]]\nlisten = [\"127.0.0.1:1\",\nname = \"a\"\n", "2:10 the list that begins here is not closed | add the missing `]`".to_owned()),
        ("[[service]]\nclient-certificates = { mode = \"off\"\n", "2:23 what begins here with `{` is not closed | add the missing `}`".to_owned()),
    ];
    for (text, expected) in table {
        assert_eq!(problems(text), [expected], "{text}");
    }
}

#[test]
fn limits_of_a_service_before_the_service_are_explained() {
    let expected = [
        "1:2 there may be several of these, so each begins with [[service]] | -",
        "2:3 `service` is there already, as something else | each service begins with `[[service]]`, before its \
         `[service.limits]` and the like",
    ];
    assert_eq!(problems("[service.limits]\n[[service]]\n"), expected);
}

#[test]
fn the_rest_of_the_file_is_read_and_only_what_may_be_spoilt_is_not_missed() {
    let text = "[proces]\n[[service]]\nname: \"web\"\nlisten = 127.0.0.1:80\ncertifcate = \"a.pem\"\n[service.limits]\nidle = 5\n\
                connect = 5s\nhello = \"1k\"\n";
    let lines: Vec<String> =
        problems(text).iter().map(|line| line.split(' ').next().unwrap_or_default().to_owned()).collect();
    assert_eq!(lines, ["1:2", "3:7", "4:15", "5:1", "7:8", "8:11", "9:9"]);
}

#[test]
fn what_follows_a_broken_header_or_list_is_not_taken_for_the_section_before() {
    assert_eq!(problems("[process]\nthreads = 1\n[limits\nidle = 5\n").len(), 1);
    assert_eq!(problems("[process]\nthreads = 1\n[[service]]\nlisten = [\"a\n  \"b\",\n  3\n]\nname = \"x\"\n[limits]\nidle = 5\n").last().map(String::as_str),
        Some("10:8 expected a duration, such as `\"10s\"` or `\"1h30m\"`, found a whole number | give a unit: `\"5s\"`"));
}

#[test]
fn slips_without_end_are_cut() {
    let text = "a\n[[[\n\"\n".repeat(3000);
    assert!(problems(&text).len() <= 400);
}
