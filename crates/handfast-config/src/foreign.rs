//! Configurations of other programs, recognised: one sentence about the file instead of one about each of its lines.
//!
//! In: a text that cannot be read, or an unknown key. Out: the program it is for, and its words in this program.

use std::collections::HashSet;

use super::foreign_keys::{self, has_word};
use super::keys;
use super::part::Part;
use super::problem::{Fault, Place, Problem};
use super::reading::Reading;

/// The weight of matching lines that identifies another program's file.
const MIN_WEIGHT: usize = 2;
/// Lines that are looked at; a configuration shows its kind early.
const LOOKED_AT: usize = 500;

/// Another program's configuration.
struct Program {
    name: &'static str,
    /// The weight of a line, without spaces around it, as a sign of this program.
    weight: fn(&str) -> usize,
    /// Its words in ours.
    hint: &'static str,
}

const PROGRAMS: [Program; 7] = [
    Program {
        name: "nginx",
        weight: |line| usize::from(is_nginx(line)),
        hint: "write a [[service]]: `listen` is `listen = \"*:443\"`, `ssl_certificate` is `certificate`, `ssl_certificate_key` is \
               `key`, `proxy_pass` is `backend`, `ssl_protocols` is `versions`; a `server_name` needs a line only in a \
               [[service.rule]], the certificates say the names. `handfast import nginx` writes all of it",
    },
    Program {
        name: "HAProxy",
        weight: |line| usize::from(is_haproxy(line)),
        hint: "write a [[service]]: `bind` is `listen = \"*:443\"`, its `crt` is `certificate`, `server` is `backend`, \
               `ca-file` with `verify` is `client-certificates`, `maxconn` is `max-connections`, and what `timeout` says is in \
               [service.limits]. `handfast import haproxy` writes all of it",
    },
    Program {
        name: "stunnel",
        weight: |line| usize::from(is_stunnel(line)),
        hint: "write a [[service]] for each section: `accept` is `listen = \"*:443\"`, `connect` is `backend`, `cert` is \
               `certificate`, `key` is `key`, `CAfile` with `verify` is `client-certificates`, `sslVersion` is `versions`; texts \
               stand in quotes; `client = yes` is `client-tls = false` with `backend-tls = {}`. `handfast import stunnel` writes all of it",
    },
    Program {
        name: "hitch",
        weight: |line| usize::from(is_hitch(line)),
        hint: "write a [[service]]: `frontend` is `listen = \"*:443\"`, `backend` is `backend = \"127.0.0.1:80\"` without square \
               brackets, `pem-file` is `certificate`, `alpn-protos` is `alpn`, `tls-protos` is `versions`, `workers` is \
               `threads` in [process]. `handfast import hitch` writes all of it",
    },
    Program {
        name: "Caddy",
        weight: caddy,
        hint: "`caddy adapt --config FILE > caddy.json`, then `handfast import caddy caddy.json` writes all of it. By hand: write a \
               [[service]] for each site: its address is `listen = \"*:443\"`, `reverse_proxy` is `backend`, and a certificate that Caddy \
               fetched is `certificate`, or `certificate = \"acme\"` with [acme]",
    },
    Program { name: "a program that reads YAML", weight: |line| usize::from(is_yaml(line)), hint: TOML },
    Program {
        name: "a program that reads JSON",
        weight: json,
        hint: "Caddy's JSON is converted by `handfast import caddy`. Otherwise write TOML: [[service]] on a separate line, and below it \
               `name = \"web\"`, `listen = \"*:443\"`, `backend = \"127.0.0.1:8080\"` and `certificate = \"web.pem\"`",
    },
];

const TOML: &str = "a configuration of Handfast is TOML: write [[service]] on a separate line, and below it `name = \"web\"`, \
                    `listen = \"*:443\"`, `backend = \"127.0.0.1:8080\"` and `certificate = \"web.pem\"`";

/// The problem that a file as a whole is: it was written for another program.
pub(crate) fn file(part: &Part<'_>, reading: &Reading<'_>) -> Option<Problem> {
    let text = part.text();
    let lines = || text.lines().take(LOOKED_AT).map(str::trim).filter(|line| !is_comment(line));
    if lines().any(|line| line.starts_with("[[service")) {
        return None;
    }
    let marks = |program: &&Program| lines().map(program.weight).sum::<usize>();
    let program = PROGRAMS.iter().rev().max_by_key(marks).filter(|program| marks(program) >= MIN_WEIGHT)?;
    let first = text.lines().find(|line| (program.weight)(line.trim()) > 0).unwrap_or_default();
    let start = first.as_ptr() as usize - text.as_ptr() as usize;
    let fault = Fault::new(format!("this is a configuration for {}, not for Handfast", program.name));
    Some(reading.problem(&part.outside(&(start..start + first.len())), fault.hint(program.hint)))
}

/// The problem of a file with a certificate or a key in it. It has no line of the file.
pub(crate) fn holds_pem(text: &str, file: &str) -> Option<Problem> {
    let line = text.lines().position(|line| line.contains("-----BEGIN "))? + 1;
    let what =
        format!("line {line}: a certificate or key begins here (PEM), which is no part of a configuration");
    let hint =
        "keep it in a separate file, and write the path of that file, as in `certificate = \"web.pem\"`";
    let problem = Problem::error(Place::File { file: file.to_owned() }, what);
    Some(Problem { hint: Some(hint.to_owned()), ..problem })
}

/// The problem of a file without any section or key of a configuration, such as a file of passwords. It has no line of the file.
pub(crate) fn no_configuration(text: &str, file: &str) -> Option<Problem> {
    let sections = keys::FILE.all();
    let names: HashSet<&str> = sections.iter().flat_map(|section| section.names()).collect();
    let is_called =
        |word: &str| sections.iter().flat_map(|section| section.keys).any(|key| key.is_called(word));
    let is_known = |word: &str| word.split('.').all(|part| names.contains(part.trim()));
    let is_known = |word: &str| is_known(word) || foreign_keys::hint(word).is_some() || is_called(word);
    let is_ours = |line: &str| match line.trim_start().strip_prefix('[') {
        Some(header) => {
            header.trim_start_matches('[').split_once(']').is_some_and(|(name, _)| is_known(name))
        }
        None => line.split_once(['=', ':', ' ']).is_some_and(|(key, _)| is_known(key.trim())),
    };
    let mut lines = text.lines().filter(|line| !is_comment(line.trim())).take(LOOKED_AT).peekable();
    if lines.peek().is_none() || lines.any(is_ours) {
        return None;
    }
    let what = "this is no configuration: it has none of its sections and keys".to_owned();
    let problem = Problem::error(Place::File { file: file.to_owned() }, what);
    Some(Problem { hint: Some(TOML.to_owned()), ..problem })
}

fn is_comment(line: &str) -> bool {
    line.is_empty() || line.starts_with(['#', ';']) || line.starts_with("//")
}

fn first_word(line: &str) -> &str {
    line.split([' ', '\t']).next().unwrap_or_default()
}

fn is_nginx(line: &str) -> bool {
    let block = line.ends_with('{') && !line.contains('=');
    let ours = ["http", "server", "stream", "events", "upstream", "location", "map"];
    (block && ours.contains(&first_word(line)))
        || (line.ends_with(';')
            && !line.contains('=')
            && line.contains([' ', '\t'])
            && !line.starts_with('"'))
}

fn is_haproxy(line: &str) -> bool {
    const WORDS: &str =
        "frontend backend listen bind server default_backend use_backend mode timeout option maxconn log acl";
    let alone = ["global", "defaults", "daemon"].contains(&line);
    let word = first_word(line);
    let rest = line[word.len()..].trim_start();
    let has_word_of_it = has_word(WORDS, word)
        && !rest.is_empty()
        && !rest.starts_with(['=', '{'])
        && !line.ends_with([';', '{']);
    alone || has_word_of_it
}

/// Key and value of a line with `=`.
fn assignment(line: &str) -> Option<(String, &str)> {
    let (key, value) = line.split_once('=')?;
    Some((key.trim().to_lowercase(), value.trim()))
}

fn is_stunnel(line: &str) -> bool {
    const WORDS: &str =
        "accept connect cert key cafile capath client sslversion verifychain verifypeer foreground pid";
    assignment(line).is_some_and(|(key, value)| {
        has_word(WORDS, &key) && !value.is_empty() && !value.starts_with(['"', '\'', '[', '{'])
    })
}

fn is_hitch(line: &str) -> bool {
    const WORDS: &str = "frontend pem-file pem-dir alpn-protos tls-protos write-proxy-v2 prefer-server-ciphers workers ciphers";
    assignment(line).is_some_and(|(key, value)| {
        has_word(WORDS, &key) || (key == "backend" && value.trim_start_matches('"').starts_with('['))
    })
}

fn is_yaml(line: &str) -> bool {
    if line == "---" || line.starts_with("- ") {
        return true;
    }
    line.split_once(':').is_some_and(|(key, value)| {
        let word = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        !key.is_empty()
            && key.bytes().all(word)
            && (value.is_empty() || value.starts_with(' '))
            && !value.ends_with(['{', ';'])
    })
}

/// TOML has no line that begins with an object; a file without line breaks is such a line.
fn json(line: &str) -> usize {
    let starts = |beginning: &str| line.starts_with(beginning) && line.contains("\":");
    if starts("{") || starts("[{") {
        return MIN_WEIGHT;
    }
    usize::from(line == "{" || starts("\""))
}

/// A site's address with its block, and directives. Those that no other program has are enough for a file of one site.
fn caddy(line: &str) -> usize {
    const ALONE: &str = "reverse_proxy php_fastcgi file_server handle_path basic_auth basicauth forward_auth acme_dns on_demand_tls";
    const SHARED: &str = "encode header handle redir respond root route tls bind log email import try_files";
    let word = first_word(line);
    if line.ends_with([';', ',']) || line[word.len()..].trim_start().starts_with('=') {
        return 0;
    }
    let is_address = line.ends_with('{') && word.contains(['.', ':']) && !line.contains(['=', '"']);
    match has_word(ALONE, word) {
        true => MIN_WEIGHT,
        false => usize::from(is_address || has_word(SHARED, word)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;

    fn problems(text: &str) -> Vec<(usize, String)> {
        let problems = parse("handfast.toml", text, &|_| false).expect_err(text);
        assert!(problems.iter().all(|problem| problem.hint.is_some() || problems.len() > 1), "{problems:?}");
        problems.iter().map(|problem| (problem.line(), problem.what.clone())).collect()
    }

    #[test]
    fn a_file_for_another_program_is_reported_as_such() {
        let table = [
            (
                "nginx",
                1,
                "events {}\nstream {\n  server {\n    listen 443 ssl;\n    ssl_certificate /etc/a.pem;\n    proxy_pass 127.0.0.1:80;\n  }\n}\n",
            ),
            (
                "HAProxy",
                1,
                "global\n  maxconn 4000\ndefaults\n  mode tcp\n  timeout client 30s\nfrontend f\n  bind :443 ssl crt /etc/a.pem\n  default_backend b\nbackend b\n  server s 127.0.0.1:80\n",
            ),
            (
                "stunnel",
                2,
                "; a comment\nforeground = yes\n[https]\naccept = 443\nconnect = 127.0.0.1:80\ncert = /etc/a.pem\nCAfile = /etc/ca.pem\n",
            ),
            (
                "hitch",
                1,
                "frontend = \"[*]:443\"\nbackend = \"[127.0.0.1]:80\"\npem-file = \"/etc/a.pem\"\nworkers = 4\n",
            ),
            ("hitch", 1, "frontend = {\n  host = \"*\"\n  port = \"443\"\n}\npem-file = \"/etc/a.pem\"\n"),
            (
                "a program that reads YAML",
                1,
                "services:\n  - name: web\n    listen: \"*:443\"\n    backend: 127.0.0.1:80\n",
            ),
            ("a program that reads JSON", 1, "{\n  \"services\": [\n    {\"name\": \"web\"}\n  ]\n}\n"),
            ("a program that reads JSON", 1, "{\"apps\":{\"http\":{\"servers\":{}}}}"),
            ("a program that reads JSON", 2, "\n[{\"listen\": 443}]\n"),
            ("Caddy", 1, "example.org {\n\treverse_proxy 127.0.0.1:8080\n\tencode gzip\n}\n"),
            ("Caddy", 1, ":8443 {\n  respond \"hello\"\n}\n"),
            ("Caddy", 2, "{\n  email a@example.org\n}\nexample.org {\n  root * /srv\n  file_server\n}\n"),
            ("Caddy", 2, "localhost\nreverse_proxy :9000\n"),
            ("Caddy", 1, "http://a.example, http://b.example {\n  redir https://{host}{uri}\n}\n"),
        ];
        for (program, line, text) in table {
            let first = if program == "nginx" { 2 } else { line };
            let expected = format!("this is a configuration for {program}, not for Handfast");
            let found = problems(text);
            assert_eq!(found.len(), 1, "{program}: {found:?}");
            assert!(found[0].0 == line || found[0].0 == first, "{program}: {found:?}");
            assert_eq!(found[0].1, expected);
        }
    }

    /// A hint that denies an existing counterpart would mislead.
    #[test]
    fn hints_name_keys_that_there_are() {
        let stunnel = "[smtp]\nclient = yes\naccept = 127.0.0.1:25\nconnect = mail.example:465\n";
        let hint = |text: &str| {
            let problems = parse("handfast.toml", text, &|_| false).expect_err(text);
            problems[0].hint.clone().unwrap_or_default()
        };
        assert!(hint(stunnel).contains("`client = yes` is `client-tls = false` with `backend-tls = {}`"));
        for (key, named) in [
            ("client", "`client-tls = false`"),
            ("proxy-ssl", "[service.backend-tls]"),
            ("backend-tls", "`backend-tls` belongs in [[service]]"),
            ("ssl-stapling", "`.ocsp`"),
            ("ssl-crl", "`crl` in [service.client-certificates]"),
        ] {
            let hint = hint(&format!("{key} = true\n"));
            assert!(hint.contains(named), "{key}: {hint}");
        }
    }

    #[test]
    fn our_own_file_with_slips_is_not_taken_for_another_program_s() {
        for text in [
            "[[service]]\nname: web\nlisten: \"*:443\"\nbackend: \"a:1\"\n",
            "[[service]]\naccept = 443\nconnect = 127.0.0.1:80\ncert = a.pem\n",
            "[limits]\nidle = 10s\n",
            "[process]\nthreads = 4;\nuser = \"a\";\n",
        ] {
            let found = problems(text);
            assert!(found.iter().all(|(_, what)| !what.contains("configuration for")), "{text}: {found:?}");
        }
    }
}
