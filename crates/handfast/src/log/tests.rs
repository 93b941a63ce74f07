//! Lines of the access log as the proxy writes them, and others.

#![expect(clippy::disallowed_methods, reason = "a test's own files: no other process reads them")]

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;
use std::time::Duration;

use handfast_observe::cause::Cause;

use super::entry::{Connection, Entry, parse};
use super::show::{Look, line};
use super::*;

mod requests;

const SERVED: &str = r#"{"time":"2026-11-21T22:00:40.688Z","service":"web","client":"127.0.0.1:38052","sni":"www.example.org","alpn":"http/1.1","version":"TLSv1.3","suite":"TLS_AES_128_GCM_SHA256","group":"X25519","signature":"ECDSA-P256","resumed":false,"seconds":{"hello":0.002889,"handshake":0.002932,"handshake_crypto":0.000446,"handshake_wait":0.002486,"connect":0.000053,"relay":0.002275,"close":0.000023},"bytes_to_backend":85,"bytes_to_client":190,"backend":"127.0.0.1:18080","reason":{"step":"relay","side":"client","cause":"finished"},"generation":1}"#;
const LOSS: &str = r#"{"time":"2026-11-21T22:00:41.000Z","dropped_lines":7,"because":"write: No space left on device (os error 28)"}"#;
const PLAIN: Look = Look { columns: Some(120), color: false };

/// Writer that keeps the text, for a test that examines it.
#[derive(Clone, Default)]
struct Paper(Rc<RefCell<Vec<u8>>>);

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A line of a client that is refused in this way.
fn failed(client: &str, service: &str, cause: &str) -> String {
    SERVED.replace("127.0.0.1:38052", client).replace("\"web\"", &format!("\"{service}\"")).replace(
        "\"cause\":\"finished\"",
        &format!("\"cause\":\"{cause}\",\"detail\":\"certificate unknown\""),
    )
}

fn words(arguments: &[&str]) -> LogWords {
    let typed = ["handfast", "log"].into_iter().chain(arguments.iter().copied()).map(Into::into);
    match crate::words::Words::read(typed).expect("it is right").verb {
        crate::words::Verb::Log(words) => words,
        other => panic!("{other:?}"),
    }
}

/// The output for a text, and the number of its lines that were skipped.
fn shown(arguments: &[&str], text: &[u8]) -> (String, u64) {
    let (words, paper) = (words(arguments), Paper::default());
    let mut reader = Reader::new(&words, Box::new(paper.clone()));
    let mut take = |number: u64, line: Option<&[u8]>| reader.take("test", number, line);
    input::read(text, &mut take).expect("memory can be read");
    reader.finish().expect("memory takes all");
    let text = String::from_utf8(paper.0.take()).expect("text");
    (text, reader.skipped)
}

fn connection(line: &str) -> Connection {
    match parse(line.as_bytes()).expect("a line") {
        Entry::Connection(connection) => *connection,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_connection_is_one_line() {
    let show = |text: &str| line(&parse(text.as_bytes()).expect("a line"), PLAIN);
    assert_eq!(
        show(SERVED),
        "11-21 22:00:40.688 127.0.0.1:38052       web      1.3 2.99 ms, 85 B↑ 190 B↓, 8.17 ms, \
         www.example.org → 127.0.0.1:18080"
    );
    assert_eq!(
        show(&failed("[2001:db8::1]:5", "mail", "alert")),
        "11-21 22:00:40.688 [2001:db8::1]:5       mail     relay alert: the client sent a fatal TLS alert: certificate unknown, name www.example.org"
    );
    assert_eq!(
        show(LOSS),
        "11-21 22:00:41.000 7 lines are missing here: write: No space left on device (os error 28)"
    );
    // A word of a version to come.
    assert!(show(&failed("1.2.3.4:5", "web", "tired")).contains("relay tired: certificate unknown"));
    let color = line(
        &parse(failed("1.2.3.4:5", "web", "reset").as_bytes()).expect("a line"),
        Look { color: true, ..PLAIN },
    );
    assert!(
        color.contains("\u{1b}[31mrelay reset: the client reset the connection")
            && color.ends_with("\u{1b}[0m")
    );
}

#[test]
fn a_line_fits_unless_it_has_a_reason_and_cannot_steer_the_terminal() {
    let long = "x".repeat(500);
    for cause in Cause::all() {
        for (client, service) in [("[2001:db8:1111:2222:3333:4444:5555:6666]:65535", long.as_str()), ("", "")]
        {
            let text = failed(client, service, cause.name())
                .replace("www.example.org", &format!("\\u001b[2J\\u202e{long}"))
                .replace("127.0.0.1:18080", &long);
            for columns in [Some(60), Some(120), None] {
                let entry = parse(text.as_bytes()).expect("a line");
                let shown = line(&entry, Look { columns, color: false });
                let Entry::Connection(connection) = &entry else { panic!("{entry:?}") };
                match (connection.has_failed(), columns) {
                    (true, _) => assert!(shown.contains("certificate unknown"), "a reason is whole: {shown}"),
                    (false, Some(columns)) => assert!(shown.chars().count() <= columns, "{shown}"),
                    (false, None) => assert!(shown.contains(&long) && !shown.contains('…'), "{shown}"),
                }
                assert!(
                    !shown.contains(|letter: char| letter.is_control() || letter == '\u{202e}'),
                    "{shown}"
                );
            }
        }
    }
}

#[test]
fn what_is_no_line_is_named_counted_and_skipped() {
    let cases: [&[u8]; 12] = [
        b"hello",
        b"{",
        b"{\"",
        b"{\"time\":1}",
        b"{\"time\":\"2026-11-21T22:00:40.688Z\"}",
        b"{\"time\":\"yesterday\",\"reason\":{\"cause\":\"reset\"}}",
        b"{\"time\":\"2026-11-21T22:00:40.688Z\",\"reason\":{\"cause\":\"\"}}",
        b"{\"time\":\"2026-11-21T22:00:40.688Z\",\"reason\":[]}",
        b"\xff\xfe{\"\xff",
        b"[1,2,3]",
        b"x{\"time\":\"2026-11-21T22:00:40.688Z\",\"reason\":{\"cause\":\"reset\"}}",
        b"{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":",
    ];
    for case in cases {
        assert!(parse(case).is_err(), "{}", String::from_utf8_lossy(case));
        let text = [SERVED.as_bytes(), b"\n", case, b"\n\nhandfast: ready\n", SERVED.as_bytes()].concat();
        let (text, skipped) = shown(&["-"], &text);
        assert_eq!((text.lines().count(), skipped), (2, 1), "{}", String::from_utf8_lossy(case));
    }
    // A line cut anywhere is an error or a line, and nothing else.
    for end in 0..SERVED.len() {
        assert!(parse(&SERVED.as_bytes()[..end]).is_err(), "{end}");
    }
    let deep = format!("{{\"time\":{}", "[".repeat(100_000));
    assert!(parse(deep.as_bytes()).is_err(), "a line cannot exhaust the stack");
    let odd = SERVED.replace("0.002889", "1e308").replace("85", "-1");
    assert_eq!((connection(&odd).hello, connection(&odd).to_backend), (1e9, 0));
}

#[test]
fn a_system_logs_prefix_is_passed_over() {
    let text = format!("Nov 21 22:00:41 host handfast-access[7]: {SERVED}\n");
    assert_eq!(shown(&["-", "--json"], text.as_bytes()), (format!("{SERVED}\n"), 0));
}

#[test]
fn only_what_is_wanted_is_shown() {
    let text =
        [SERVED.to_owned(), failed("192.0.2.7:1", "mail", "reset"), failed("192.0.3.7:1", "web", "idle")];
    let text = text.join("\n");
    let which = |arguments: &[&str]| {
        let all: Vec<&str> = ["-", "--json"].iter().chain(arguments).copied().collect();
        let (shown, skipped) = shown(&all, text.as_bytes());
        assert_eq!(skipped, 0);
        text.lines().map(|line| if shown.contains(line) { 'x' } else { '.' }).collect::<String>()
    };
    let cases: [(&[&str], &str); 14] = [
        (&[], "xxx"),
        (&["--failures"], ".xx"),
        (&["--cause", "reset"], ".x."),
        (&["--cause", "reset", "--cause", "finished"], "xx."),
        (&["--client", "192.0.2.0/24"], ".x."),
        (&["--client", "192.0.3.7", "--client", "127.0.0.0/8"], "x.x"),
        (&["--service", "web"], "x.x"),
        (&["--service", "web", "--failures"], "..x"),
        (&["--slow", "2985us"], "xxx"),
        (&["--slow", "2986us"], "..."),
        // The connection was accepted at 22:00:40.688 and ended 8 ms later.
        (&["--since", "2026-11-21T22:00:40.690Z"], "xxx"),
        (&["--since", "2026-11-21T22:00:40.697Z"], "..."),
        (&["--until", "2026-11-21T22:00:40.697Z"], "xxx"),
        (&["--until", "2026-11-21T22:00:40.690Z"], "..."),
    ];
    for (arguments, expected) in cases {
        assert_eq!(which(arguments), expected, "{arguments:?}");
    }
    assert_eq!(shown(&["-", "--until", "2026-11-21"], LOSS.as_bytes()).0, "");
    assert_ne!(shown(&["-", "--failures"], LOSS.as_bytes()).0, "", "missing lines may have been failures");
}

#[test]
fn a_summary_counts() {
    let resumed = SERVED.replace("\"resumed\":false", "\"resumed\":true").replace("0.002932", "0.001");
    let text = [SERVED, &resumed, &failed("192.0.2.7:1", "mail", "reset"), LOSS].join("\n");
    let (text, _) = shown(&["-", "--summary"], text.as_bytes());
    let expected = "\
3 connections ended from 2026-11-21 22:00:40 UTC to 2026-11-21 22:00:40 UTC; 1 failed (33 %); 255 B to backends, 570 B to clients; \
7 lines are missing

cause     side    step   connections
finished  client  relay            2  closed cleanly in both directions
reset     client  relay            1  the client reset the connection

service  connections  failed
web                2       0  0 %
mail               1       1  100 %

time                    connections     50 %     90 %     99 %   99.9 %  longest
handshake, full                   2";
    assert!(text.starts_with(expected), "{text}");
    assert!(text.contains("\nhandshake, resumed                1  1.00 ms "), "{text}");
    assert_eq!(shown(&["-", "--summary"], b"").0, "no connections\n");
}

#[test]
fn words_without_end_are_counted_together() {
    let text: String =
        (0..2_000).map(|number| failed("1.2.3.4:5", &format!("s{number}"), "reset") + "\n").collect();
    let (text, _) = shown(&["-", "--summary"], text.as_bytes());
    assert!(text.contains("\n(others)        1,500   1,500  100 %\n"), "{text}");
    assert!(text.lines().count() < 520);
}

#[test]
fn gzip_is_known_by_its_first_bytes() {
    let packed = |text: &str| {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(text.as_bytes()).expect("memory takes all");
        packer.finish().expect("memory takes all")
    };
    let line = format!("{SERVED}\n");
    // Two members: what logrotate and others append to.
    let both = [packed(&line), packed(&line)].concat();
    assert_eq!(shown(&["-", "--json"], &both), (line.repeat(2), 0));
    let mut number = 0;
    let torn = &both[..both.len() - 20];
    let read = input::read(torn, &mut |_, _| {
        number += 1;
        Ok(())
    });
    assert!(matches!(read, Err(InputError::Read(_))) && number == 1, "{read:?} {number}");
    for short in [&b""[..], b"\x1f"] {
        assert!(input::read(short, &mut |_, _| Ok(())).is_ok());
    }
}

#[test]
fn the_configuration_says_where_the_log_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("handfast.toml");
    let with = |to: &str| {
        let service = "[[service]]\nname = \"web\"\nlisten = \"127.0.0.1:1\"\nbackend = \"127.0.0.1:2\"\ncertificate = \"a.pem\"\n";
        std::fs::write(&path, format!("[access-log]\nto = \"{to}\"\n{service}")).expect("the folder is ours");
        file_of(&path)
    };
    assert_eq!(with("logs/access.log"), Ok(folder.path().join("logs/access.log")));
    for (to, hint) in [
        ("stdout", "journalctl -u"),
        ("off", "give [access-log]"),
        ("journald", "journalctl -t"),
        ("syslog", "name the file"),
    ] {
        let wrong = with(to).expect_err(to).to_string();
        assert!(
            wrong.contains("the access log ") && wrong.contains("\nhint: ") && wrong.contains(hint),
            "{wrong}"
        );
    }
    assert!(files(&words(&[])).expect_err("nothing is named").to_string().contains("hint: handfast log -c"));
    assert!(files(&words(&["a", "b", "-f"])).expect_err("two").to_string().contains("expected one"));
}

#[test]
fn wrong_words_are_reported() {
    let wrong = |arguments: &[&str]| {
        let typed = ["handfast", "log"].iter().chain(arguments).map(Into::into);
        crate::words::Words::read(typed).expect_err("it is wrong").to_string()
    };
    assert!(
        wrong(&["--cause", "resett"]).contains("did you mean `reset`"),
        "{}",
        wrong(&["--cause", "resett"])
    );
    assert!(wrong(&["--since", "noon"]).contains("expected a time such as 1h"));
    assert!(wrong(&["--client", "300.1.1.1"]).contains("300.1.1.1"));
    assert!(wrong(&["--summary", "--follow"]).contains("cannot be used with"));
    assert_eq!(words(&["--slow", "100ms"]).only.slow, Some(Duration::from_millis(100)));
}

/// Logs of an older version, and options of its user, have old words.
#[test]
fn old_words_of_causes_mean_the_new_ones() {
    for (old, new) in handfast_text::renamed::CAUSES {
        assert!(Cause::named(old).is_none() && Cause::named(new).is_some(), "{old}, {new}");
        let text = [failed("192.0.2.1:1", "web", old), failed("192.0.2.1:2", "web", new), SERVED.to_owned()]
            .join("\n");
        for word in [old, new] {
            let (lines, skipped) = shown(&["--cause", word, "access.log"], text.as_bytes());
            assert_eq!((lines.lines().count(), skipped), (2, 0), "{word}: {lines}");
        }
    }
}
