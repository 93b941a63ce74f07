//! `check`, `option httpchk`, `http-check` and `tcp-check`: how backends are checked.

use super::backend::{Backend, Server};
use super::proxy::Proxy;
use super::state::Import;
use super::value::{bounded, time};
use crate::draft::Draft;
use crate::note::Fate;
use crate::toml::Section;

impl<'d> Import<'d> {
    /// The check of a backend; `None`: it has none.
    pub(super) fn check_of(&mut self, proxy: &Proxy<'d>, servers: &[Server<'d>]) -> Option<Section> {
        check(self, proxy, servers)
    }

    /// The check of a service, which all of its backends have.
    pub(super) fn settle_check(&mut self, backends: &[&Backend<'d>], service: &mut Draft) {
        settle(self, backends, service);
    }
}

/// The check of a backend; `None`: it has none.
fn check<'d>(import: &mut Import<'d>, proxy: &Proxy<'d>, servers: &[Server<'d>]) -> Option<Section> {
    let first = servers.iter().find(|server| server.has("check"))?;
    if servers.iter().any(|server| !server.has("check") && !server.has("backup")) {
        import.note_of(
            first.line,
            "check",
            Fate::Approximated,
            "all servers of a backend are checked, or none",
        );
    }
    let mut section = Section::default();
    let has_tls = first.has("ssl");
    section.put("type", if has_tls { "tls" } else { "tcp" });
    if proxy.has(&["option", "httpchk"]) {
        http(import, proxy, &mut section);
    } else if proxy.has(&["option", "redis-check"]) {
        section.put("type", "send-expect");
        section.put("send", "PING\r\n");
        section.put("expect", "+PONG");
    } else if proxy.has(&["option", "smtpchk"]) {
        section.put("type", "send-expect");
        section.put("expect", "220");
    } else if proxy.has(&["option", "ssl-hello-chk"]) {
        section.put("type", if has_tls { "tls" } else { "tcp" });
    } else if proxy.has(&["option", "tcp-check"]) {
        tcp(import, proxy, &mut section);
    }
    if first.has("check-ssl") && !has_tls {
        // Its row has the note.
        section = Section::default();
        section.put("type", "tcp");
    }
    let interval = first.text("inter").and_then(time).unwrap_or(std::time::Duration::from_secs(2));
    let timeout = proxy.last(&["timeout", "check"]).and_then(|line| time(line.word(2))).unwrap_or(interval);
    for (key, time) in [("interval", interval), ("timeout", timeout.min(interval))] {
        if let Some(text) = bounded(time, 100, 3_600) {
            section.put(key, text);
        }
    }
    for key in ["rise", "fall", "port"] {
        if let Some(number) = first.text(key).and_then(|text| text.parse::<i64>().ok()) {
            section.put(key, number);
        }
    }
    Some(section)
}

/// `option httpchk [METHOD] [URI] [VERSION]`, and the rules of `http-check`.
fn http<'d>(import: &mut Import<'d>, proxy: &Proxy<'d>, section: &mut Section) {
    section.put("type", "http");
    let Some(line) = proxy.last(&["option", "httpchk"]) else { return };
    let (mut method, mut path) = match line.words.len() {
        2 => ("OPTIONS", "/"),
        3 => ("OPTIONS", line.word(2)),
        _ => (line.word(2), line.word(3)),
    };
    let mut host = None;
    if let Some((_, written)) = line.from(4).join(" ").to_ascii_lowercase().split_once("host:") {
        host = written.split_whitespace().next().map(ToOwned::to_owned);
    }
    for rule in proxy.all(&["http-check", "send"]) {
        let mut words = rule.from(2).iter().map(String::as_str);
        while let Some(word) = words.next() {
            match word {
                "meth" => method = words.next().unwrap_or_default(),
                "uri" => path = words.next().unwrap_or_default(),
                "ver" => _ = words.next(),
                "hdr" => {
                    let (name, value) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
                    if name.eq_ignore_ascii_case("host") {
                        host = Some(value.to_owned());
                    } else {
                        import.note(rule, Fate::Approximated, format!("the check has no field {name}"));
                    }
                }
                _ => {
                    import.note(rule, Fate::Approximated, "the check is a GET without content");
                    break;
                }
            }
        }
    }
    if method != "GET" {
        import.note(line, Fate::Approximated, format!("the check is a GET, not {method}"));
    }
    if path != "/" {
        section.put("path", path);
    }
    if let Some(host) = host {
        section.put("host", host);
    }
    expected(import, proxy, section);
}

/// `http-check expect`.
fn expected<'d>(import: &mut Import<'d>, proxy: &Proxy<'d>, section: &mut Section) {
    for rule in proxy.all(&["http-check", "expect"]) {
        let words: Vec<&str> = rule.from(2).iter().map(String::as_str).collect();
        match words[..] {
            ["status", codes] => {
                for code in codes.split(',') {
                    match code.parse::<i64>() {
                        Ok(code) => section.append("status", code),
                        Err(_) => section.append("status", code),
                    }
                }
            }
            ["rstatus", text] if text.len() == 2 && matches!(text.as_bytes(), [b'^', b'1'..=b'5']) => {
                let class = &text[1..];
                section.append("status", format!("{class}00-{class}99"));
            }
            ["rstatus", "[23].." | "(2|3)[0-9][0-9]" | "^[23]" | "[2-3][0-9][0-9]" | "^(2|3)"] => {}
            ["!", "rstatus", "^5" | "5.." | "^5.."] => section.append("status", "100-499"),
            _ => import.note(rule, Fate::Approximated, "the status decides, by numbers: 200 to 399"),
        }
    }
}

/// `tcp-check send` and `expect`, one of each.
fn tcp<'d>(import: &mut Import<'d>, proxy: &Proxy<'d>, section: &mut Section) {
    let rules = proxy.all(&["tcp-check"]);
    let of = |name: &str| rules.iter().filter(|rule| rule.word(1) == name).collect::<Vec<_>>();
    let (sends, expects) = (of("send"), of("expect"));
    let is_text = |rule: &&&super::grammar::Line| rule.word(2) == "string" && rule.words.len() == 4;
    match (&sends[..], &expects[..]) {
        ([], []) => {}
        ([send], [expect]) if is_text(expect) && send.words.len() == 3 => {
            section.put("type", "send-expect");
            section.put("send", send.word(2));
            section.put("expect", expect.word(3));
        }
        ([], [expect]) if is_text(expect) => {
            section.put("type", "send-expect");
            section.put("expect", expect.word(3));
        }
        _ => import.note(
            rules[0],
            Fate::Approximated,
            "a connection that is opened is enough: a check sends one text, and expects one",
        ),
    }
}

/// The check of a service, which all of its backends have.
fn settle<'d>(import: &mut Import<'d>, backends: &[&Backend<'d>], service: &mut Draft) {
    let text = |check: &Section| {
        let mut text = String::new();
        check.write("", &mut text);
        text
    };
    let Some((first, check)) =
        backends.iter().find_map(|backend| backend.check.as_ref().map(|check| (backend, check)))
    else {
        return;
    };
    let is_other =
        |backend: &&&Backend<'d>| backend.check.as_ref().is_none_or(|other| text(other) != text(check));
    let mut check = check.clone();
    if let Some(other) = backends.iter().find(is_other) {
        let head = &other.proxy.section.head;
        // A backend without a check must not receive check requests that it does not answer.
        let kinds_differ =
            other.check.as_ref().map_or(check.text("type").as_deref() != Some("\"tcp\""), |other| {
                ["type", "path", "host", "status", "send", "expect", "port"]
                    .iter()
                    .any(|key| other.text(key) != check.text(key))
            });
        if kinds_differ {
            let mut plain = Section::default();
            plain.put("type", "tcp");
            for key in ["interval", "timeout"] {
                if let Some(text) = check.text(key) {
                    plain.put(key, text.trim_matches('"'));
                }
            }
            check = plain;
            let effect = "a service has one check, and its backends have different ones, or none: a connection that is opened is enough";
            import.note_of(head, "check", Fate::Approximated, effect);
        } else {
            let effect = format!("a service has one check, that of {}", first.proxy.name());
            import.note_of(head, "check", Fate::Approximated, effect);
        }
    }
    *service.of("check") = check;
}
