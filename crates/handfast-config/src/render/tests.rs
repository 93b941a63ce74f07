//! Tests of what a person sees; each expected text was read as by an operator woken at night.

use super::super::{FlagInput, from_flags, parse};
use super::*;

/// Output for a text with problems.
fn shown(text: &str) -> String {
    let problems = match parse("handfast.toml", text, &|_| false) {
        Ok((_, warnings)) => warnings,
        Err(problems) => problems,
    };
    render(&problems, &[("handfast.toml", text)], false)
}

#[test]
fn several_mistakes_in_one_service() {
    let text = r#"[[service]]
name = "web"
listen = ["127.0.0.1:8443", "localhost:8443"]
backend = "127.0.0.1:8443"
certifcate = "web.pem"

[service.limits]
handshake = 10
"#;
    let expected = r#"error: `localhost:8443` is not an address to listen on
 --> handfast.toml:3:29
  |
3 | listen = ["127.0.0.1:8443", "localhost:8443"]
  |                             ^^^^^^^^^^^^^^^^
  |
  = allowed: `127.0.0.1:8443`, `[::1]:8443`, `*:8443` or `unix:/run/x.sock`
  = hint: names are not listened on; write ["127.0.0.1:8443", "[::1]:8443"]

error: this backend is the service itself: connections would loop forever
 --> handfast.toml:4:11
  |
3 | listen = ["127.0.0.1:8443", "localhost:8443"]
  |           ---------------- it listens here
4 | backend = "127.0.0.1:8443"
  |           ^^^^^^^^^^^^^^^^

error: unknown key `certifcate` in [[service]]
 --> handfast.toml:5:1
  |
5 | certifcate = "web.pem"
  | ^^^^^^^^^^
  |
  = hint: did you mean `certificate`?

error: expected a duration, such as `"10s"` or `"1h30m"`, found a whole number
 --> handfast.toml:8:13
  |
8 | handshake = 10
  |             ^^
  |
  = hint: give a unit: `"10s"`

4 errors in handfast.toml
"#;
    assert_eq!(shown(text), expected);
}

#[test]
fn slips_in_the_syntax() {
    let text = "[process]\nuser = handfast\ndrain: \"1m\"\n\n[[service]\nname = \"web\"\n";
    let expected = r#"error: `handfast` is not a value
 --> handfast.toml:2:8
  |
2 | user = handfast
  |        ^^^^^^^^
  |
  = hint: put texts, durations, sizes and addresses in quotes: `"handfast"`

error: there is no `=` after the key
 --> handfast.toml:3:8
  |
3 | drain: "1m"
  |        ^
  |
  = hint: write `drain = "1m"`

error: this header of a section is not right
 --> handfast.toml:5:11
  |
5 | [[service]
  |           ^
  |
  = hint: write `[[service]]`

3 errors in handfast.toml
"#;
    assert_eq!(shown(text), expected);
}

#[test]
fn an_error_and_a_warning_with_a_second_place_far_away() {
    let text = r#"[admin]
listen = "0.0.0.0:7643"

[[service]]
name = "web"
listen = "*:8443"
backend = "10.0.0.1:8080"
certificate = "web.pem"

[[service]]
name = "web"
listen = "*:8444"
backend = "10.0.0.2:8080"
certificate = "web.pem"
"#;
    let expected = r#"warning: the admin listener has no authentication, and others than this machine can reach it
 --> handfast.toml:2:10
  |
2 | listen = "0.0.0.0:7643"
  |          ^^^^^^^^^^^^^^
  |
  = hint: use a loopback address or a unix socket, and a tunnel to get there; or set `token-file`

error: two services are called `web`
  --> handfast.toml:11:8
   |
 5 | name = "web"
   |        ----- the first one
...
11 | name = "web"
   |        ^^^^^
   |
   = hint: metrics and logs need different names

1 error, 1 warning in handfast.toml
"#;
    assert_eq!(shown(text), expected);
}

#[test]
fn flags_are_shown_as_they_were_given() {
    let input = FlagInput {
        listen: vec!["8443".to_owned()],
        certificate: vec!["a.pem".to_owned()],
        ..FlagInput::default()
    };
    let problems = from_flags(&input).expect_err("no backend, and no address");
    let expected = r#"error: --backend is missing; a service by flags needs it
 |
 = hint: add `--backend 127.0.0.1:8080`, or name a configuration file with `-c`

error: `8443` is not an address to listen on
 |
 | --listen 8443
 |          ^^^^
 |
 = allowed: `127.0.0.1:8443`, `[::1]:8443`, `*:8443` or `unix:/run/x.sock`
 = hint: write `*:8443` for every address of this machine

error: a.pem: is not there
 |
 | --certificate a.pem
 |               ^^^^^

3 errors in the flags
"#;
    assert_eq!(render(&problems, &[], false), expected);
}

#[test]
fn color_changes_nothing_but_escape_sequences() {
    let text = "[proces]\n";
    let problems = parse("handfast.toml", text, &|_| false).expect_err("wrong");
    let colored = render(&problems, &[("handfast.toml", text)], true);
    assert!(colored.contains("\u{1b}["));
    let mut plain = String::new();
    let mut parts = colored.split("\u{1b}[");
    plain.push_str(parts.next().unwrap_or_default());
    plain.extend(parts.map(|part| part.split_once('m').map_or("", |(_, rest)| rest)));
    assert_eq!(plain, shown(text));
}

#[test]
fn what_is_in_the_file_cannot_command_the_terminal() {
    let text = "\"\\u001b[2J\" = 1\nname = \"\u{7}\u{9b}2J\"\n[[service]]\nname = \"\\u001b[2J\"\nlisten = \"\\u001b]0;x\\u0007\"\n";
    let shown = shown(text);
    assert!(shown.chars().all(|character| character == '\n' || !character.is_control()), "{shown:?}");
}

#[test]
fn no_problems_are_no_problems() {
    assert_eq!(summary(&[]), "no problems");
}
