//! The access log against real files, pipes and full devices.

#![expect(clippy::disallowed_methods, reason = "a test's own files and threads: no other test uses them")]

use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, Instant, UNIX_EPOCH};

use handfast_config::model;
use handfast_net::fault::Cause as SocketCause;
use proptest::prelude::*;
use rustix::fs::Mode;
use serde_json::Value;

use super::writer::start_on;
use super::*;
use crate::cause::Cause;
use crate::proxied::{Proxied, ProxiedBy};
use crate::reason::{CloseReason, Side, Step};
use crate::record::{BackendFailures, Record, StepTimes};
use handfast_pki::ShownCertificate;
use handfast_tls::session::Agreed;
use handfast_wire::proxy_header::Version;

mod machine;
mod requests;

/// Long enough for a busy machine; nothing waits for it when all is well.
const TIMEOUT: Duration = Duration::from_secs(20);

fn record() -> Record {
    Record {
        accepted_at: UNIX_EPOCH + Duration::from_millis(1_772_366_400_042),
        service_index: 0,
        service: "web".into(),
        generation: 3,
        client: Some(([192, 0, 2, 7], 50_123).into()),
        rule: None,
        details: None,
        starttls: None,
        server_name: Some("example.org".into()),
        tls: Agreed {
            alpn: Some("h2".into()),
            version: Some("TLSv1.3"),
            suite: Some("TLS_AES_128_GCM_SHA256"),
            group: Some("X25519MLKEM768"),
            signature: Some("ECDSA-P256"),
            resumed: Some(false),
            ..Agreed::default()
        },
        seconds: StepTimes { hello: Duration::from_nanos(21_499), ..StepTimes::default() },
        backend: Some("127.0.0.1:8080".into()),
        backend_failures: BackendFailures::default(),
        bytes_to_backend: 17,
        bytes_to_client: u64::MAX,
        requests: 0,
        idle_turns: 0,
    }
}

fn reason(detail: Option<&str>) -> CloseReason {
    CloseReason {
        step: Step::Relay,
        side: Side::Client,
        cause: Cause::Finished,
        detail: detail.map(Into::into),
    }
}

fn one_line(record: &Record, reason: &CloseReason) -> String {
    let mut buffer = Vec::new();
    line::append(&mut buffer, record, reason);
    String::from_utf8(buffer).expect("a line is text")
}

fn parsed(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}")))
        .collect()
}

fn log_to(path: &Path) -> AccessLogHandle {
    start(&model::AccessLog::File(path.into())).expect("the log starts")
}

/// Waits until it is true; a test that waits for nothing else than this fails by name.
fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < TIMEOUT, "waited in vain for {what}");
        std::thread::yield_now();
    }
}

/// The record of a connection behind a proxy.
fn behind(proxied: Proxied, unique_id: Option<&[u8]>) -> Record {
    let mut record = record();
    record.details().proxied = Some(proxied);
    record.details().unique_id = unique_id.map(Into::into);
    record
}

#[test]
fn the_header_of_a_proxy_in_front_is_in_the_line() {
    let proxied = |unique_id: &[u8]| Proxied {
        by: ProxiedBy::Address(([10, 0, 0, 1], 5_000).into()),
        version: Version::V2,
        is_local: false,
        destination: None,
        authority: Some("a.example\u{1b}[2J".into()),
        alpn: Some(b"h2\xff"[..].into()),
        unique_id: Some(unique_id.into()),
    };
    let line = |record: &Record| parsed(&one_line(record, &reason(None))).remove(0);
    let seen = line(&behind(proxied(b"\0\xff"), None));
    assert_eq!(seen["client"], "192.0.2.7:50123", "that it named");
    assert_eq!(seen["proxied_by"], "10.0.0.1:5000");
    assert_eq!(
        (&seen["proxied_authority"], &seen["proxied_alpn"]),
        (&"a.example\u{1b}[2J".into(), &"h2\u{fffd}".into())
    );
    assert_eq!(seen["unique_id"], "00ff", "what cannot be read is written as digits");
    // The identifier sent to the backend is logged.
    let logged = behind(proxied(b"x"), Some(b"id-1"));
    assert_eq!(line(&logged)["unique_id"], "id-1");
    let unix = Proxied { by: ProxiedBy::Unix, ..proxied(b"") };
    assert_eq!(line(&behind(unix, None))["proxied_by"], "unix");
}

#[test]
fn a_line_says_everything_about_a_connection() {
    assert_eq!(
        one_line(&record(), &reason(None)),
        concat!(
            r#"{"time":"2026-03-01T12:00:00.042Z","service":"web","client":"192.0.2.7:50123","sni":"example.org","#,
            r#""alpn":"h2","version":"TLSv1.3","suite":"TLS_AES_128_GCM_SHA256","group":"X25519MLKEM768","#,
            r#""signature":"ECDSA-P256","resumed":false,"seconds":{"hello":0.000021,"handshake":0.000000,"#,
            r#""handshake_crypto":0.000000,"handshake_wait":0.000000,"connect":0.000000,"relay":0.000000,"#,
            r#""close":0.000000},"bytes_to_backend":17,"bytes_to_client":18446744073709551615,"#,
            r#""backend":"127.0.0.1:8080","reason":{"step":"relay","side":"client","cause":"finished"},"#,
            "\"generation\":3}\n",
        )
    );
}

#[test]
fn what_is_not_known_is_left_out() {
    let record =
        Record { server_name: None, tls: Agreed::default(), client: None, backend: None, ..record() };
    let reason = CloseReason { cause: Cause::Socket(SocketCause::Errno(121)), ..reason(Some("x")) };
    let line = &parsed(&one_line(&record, &reason))[0];
    for absent in ["client", "sni", "alpn", "version", "suite", "group", "signature", "resumed", "backend"] {
        assert_eq!(line.get(absent), None, "{absent}");
    }
    assert_eq!(line["reason"]["errno"], 121);
    assert_eq!(line["reason"]["detail"], "x");
}

#[test]
fn what_a_peer_chose_can_neither_end_the_line_nor_speak_to_a_terminal() {
    let hostile = "\"},\"x\":1}\n\r\u{1b}[2J\u{9b}31m\u{202e}\u{2028}\\ \u{7f}\0é😀";
    let mut record = record();
    record.server_name = Some(hostile.into());
    record.tls.alpn = Some(hostile.into());
    record.tls.client_certificate = Some(Box::new(ShownCertificate {
        subject: hostile.into(),
        serial: "01".into(),
        fingerprint: "ab".into(),
    }));
    let text = one_line(&record, &reason(Some(hostile)));
    assert!(text.trim_end_matches('\n').bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{text:?}");
    let line = &parsed(&text)[0];
    for seen in [&line["sni"], &line["alpn"], &line["client_subject"], &line["reason"]["detail"]] {
        assert_eq!(seen, hostile);
    }
}

#[test]
fn a_long_text_is_cut_between_characters() {
    let text = one_line(&record(), &reason(Some(&"€".repeat(10_000))));
    assert_eq!(parsed(&text)[0]["reason"]["detail"], "€".repeat(170), "512 bytes would be half of one");
}

proptest! {
    #[test]
    fn seconds_are_what_the_standard_library_would_write(microseconds in 0_u64..1 << 50, longer in 1e9_f64..1e18) {
        for value in [microseconds as f64 / 1e6, (microseconds % 10_000_000) as f64 / 1e6, longer, -longer] {
            let mut ours = Vec::new();
            serde_json::ser::Formatter::write_f64(&mut super::line::PlainAscii, &mut ours, value).unwrap();
            prop_assert_eq!(String::from_utf8(ours).unwrap(), format!("{value:.6}"));
        }
    }

    #[test]
    fn any_text_is_one_line_of_ascii_and_comes_back(text in "\\PC{0,100}|[\\x00-\\u{2fff}]{0,100}") {
        let mut record = record();
        record.server_name = Some(text.as_str().into());
        let written = one_line(&record, &reason(None));
        prop_assert_eq!(written.find(|c: char| !(' '..='~').contains(&c)), Some(written.len() - 1));
        prop_assert_eq!(&parsed(&written)[0]["sni"], &Value::from(text));
    }
}

#[test]
fn lines_of_many_threads_arrive_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("access.log");
    let log = log_to(&path);
    let workers: Vec<_> = (0..4)
        .map(|worker| {
            let mut log = log.for_thread();
            std::thread::spawn(move || {
                for count in 0..500 {
                    log.write(
                        &Record { generation: worker, bytes_to_client: count, ..record() },
                        &reason(None),
                    );
                    if count % 7 == 0 {
                        log.flush();
                    }
                }
            })
        })
        .collect();
    workers.into_iter().for_each(|worker| worker.join().expect("a worker does not panic"));
    let stopped = log.stop(TIMEOUT);
    assert!(stopped.finished);
    assert_eq!(stopped.written + stopped.dropped, 2_000);
    let lines = parsed(&fs::read_to_string(&path).expect("the log is there"));
    let of_workers = lines.iter().filter(|line| line.get("dropped_lines").is_none()).count();
    assert_eq!(of_workers as u64, stopped.written);
    assert_eq!(
        fs::metadata(&path).expect("the log is there").permissions().mode() & 0o137,
        0,
        "at most 0640"
    );
}

#[test]
fn an_existing_log_is_continued() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("access.log");
    fs::write(&path, "before\n").expect("writable");
    let log = log_to(&path);
    log.for_thread().write(&record(), &reason(None));
    assert_eq!(log.stop(TIMEOUT), Stopped { written: 1, dropped: 0, finished: true });
    let text = fs::read_to_string(&path).expect("the log is there");
    assert!(text.starts_with("before\n{"), "{text}");
}

#[test]
fn a_line_waits_no_longer_than_it_is_due() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = log_to(&folder.path().join("access.log"));
    let mut thread = log.for_thread();
    assert_eq!(thread.due(), None);
    thread.write(&record(), &reason(None));
    let due = thread.due().expect("a line waits");
    assert!(due <= Instant::now() + LINE_DELAY);
    thread.write(&record(), &reason(None));
    assert_eq!(thread.due(), Some(due), "later lines do not put it off");
    thread.flush();
    assert_eq!(thread.due(), None);
    while thread.due().is_none() || thread.block.lines > 1 {
        thread.write(&record(), &reason(None));
        assert!(thread.block.bytes.len() < BLOCK_BYTES, "a full block is handed over at once");
    }
}

#[test]
fn a_full_disk_costs_lines_and_nothing_else() {
    let log = log_to(Path::new("/dev/full"));
    let mut thread = log.for_thread();
    for _ in 0..100 {
        thread.write(&record(), &reason(None));
        thread.flush();
    }
    drop(thread);
    assert_eq!(log.stop(TIMEOUT), Stopped { written: 0, dropped: 100, finished: true });
}

#[test]
fn what_was_lost_is_reported_once_it_works_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("access.log");
    std::os::unix::fs::symlink("/dev/full", &path).expect("a link");
    let log = log_to(&path);
    let totals = log.totals();
    let mut thread = log.for_thread();
    (0..3).for_each(|_| thread.write(&record(), &reason(None)));
    thread.flush();
    wait_for("the loss to be counted", || totals.dropped() == 3);

    fs::remove_file(&path).expect("the link goes");
    log.reopen();
    thread.write(&record(), &reason(None));
    drop(thread);
    assert_eq!(log.stop(TIMEOUT), Stopped { written: 1, dropped: 3, finished: true });
    let lines = parsed(&fs::read_to_string(&path).expect("the log is there"));
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!(lines[0]["dropped_lines"], 3);
    assert!(
        lines[0]["because"].as_str().is_some_and(|because| because.contains("No space left")),
        "{lines:?}"
    );
    assert_eq!(lines[1]["service"], "web");
}

#[test]
fn reopening_follows_the_path_after_a_rename() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, old) = (folder.path().join("access.log"), folder.path().join("access.log.1"));
    let log = log_to(&path);
    let totals = log.totals();
    let mut thread = log.for_thread();
    thread.write(&record(), &reason(None));
    thread.flush();
    wait_for("the first line", || totals.written() == 1);
    fs::rename(&path, &old).expect("renamed");
    thread.write(&record(), &reason(None));
    thread.flush();
    wait_for("the second line", || totals.written() == 2);
    assert_eq!(fs::read_to_string(&old).expect("it is there").lines().count(), 2, "until it is told");
    log.reopen();
    thread.write(&record(), &reason(None));
    drop(thread);
    assert!(log.stop(TIMEOUT).finished);
    assert_eq!(fs::read_to_string(&old).expect("it is there").lines().count(), 2);
    assert_eq!(fs::read_to_string(&path).expect("it is there").lines().count(), 1);
}

#[test]
fn a_path_that_cannot_be_opened_again_keeps_the_old_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let sub = folder.path().join("logs");
    fs::create_dir(&sub).expect("a folder");
    let log = log_to(&sub.join("access.log"));
    fs::rename(&sub, folder.path().join("elsewhere")).expect("renamed");
    log.reopen();
    log.for_thread().write(&record(), &reason(None));
    assert_eq!(log.stop(TIMEOUT), Stopped { written: 1, dropped: 0, finished: true });
    let text = fs::read_to_string(folder.path().join("elsewhere/access.log")).expect("it is there");
    assert_eq!(text.lines().count(), 1);
}

#[test]
fn a_deleted_log_is_created_again_without_a_signal() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("access.log");
    let log = log_to(&path);
    let mut thread = log.for_thread();
    fs::remove_file(&path).expect("deleted");
    wait_for("the file to be created again", || {
        thread.write(&record(), &reason(None));
        thread.flush();
        fs::metadata(&path).is_ok_and(|metadata| metadata.size() > 0)
    });
}

#[test]
fn a_pipe_that_nobody_reads_holds_up_neither_workers_nor_the_stop() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let log = start_on(std::os::fd::OwnedFd::from(writer).into(), None).expect("the log starts");
    let mut thread = log.for_thread();
    let totals = log.totals();
    let mut written = 0;
    // 64 KiB fit into the pipe, 4 MiB into the queue.
    wait_for("the queue to be full", || {
        thread.write(&record(), &reason(None));
        written += 1;
        totals.dropped() > 0
    });
    drop(thread);
    let begun = Instant::now();
    let stopped = log.stop(Duration::from_millis(50));
    assert!(!stopped.finished && begun.elapsed() < TIMEOUT / 2, "{stopped:?}");
    assert_eq!(stopped.written + stopped.dropped, written, "every line is accounted for");
    drop(reader);
}

#[test]
fn a_slow_reader_receives_the_number_of_lost_lines() {
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let log = start_on(std::os::fd::OwnedFd::from(writer).into(), None).expect("the log starts");
    let mut thread = log.for_thread();
    let totals = log.totals();
    wait_for("the queue to be full", || {
        thread.write(&record(), &reason(None));
        totals.dropped() > 0
    });
    let reading = std::thread::spawn(move || {
        let mut text = String::new();
        reader.read_to_string(&mut text).map(|_| text)
    });
    wait_for("the queue to be empty", || totals.waiting() == 0);
    thread.write(&record(), &reason(None));
    drop(thread);
    let stopped = log.stop(TIMEOUT);
    let lines = parsed(&reading.join().expect("no panic").expect("readable"));
    let missed: u64 = lines.iter().filter_map(|line| line["dropped_lines"].as_u64()).sum();
    assert_eq!(missed, stopped.dropped);
    assert_eq!(lines.iter().filter(|line| line.get("service").is_some()).count() as u64, stopped.written);
}

#[test]
fn a_closed_pipe_costs_lines_and_nothing_else() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let log = start_on(std::os::fd::OwnedFd::from(writer).into(), None).expect("the log starts");
    log.for_thread().write(&record(), &reason(None));
    assert_eq!(log.stop(TIMEOUT), Stopped { written: 0, dropped: 1, finished: true });
}

#[test]
fn a_named_pipe_without_a_reader_is_an_error_at_start_and_no_hang() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
        .expect("a pipe");
    assert!(start(&model::AccessLog::File(path.clone())).is_err());

    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let reader = fs::OpenOptions::new().read(true).custom_flags(flags).open(&path).expect("a reader");
    let log = log_to(&path);
    let mut thread = log.for_thread();
    // More than the pipe holds: the writer waits for the reader instead of spinning or losing.
    (0..1_000).for_each(|_| thread.write(&record(), &reason(None)));
    drop(thread);
    let totals = log.totals();
    let mut reader = reader;
    let mut text = Vec::new();
    wait_for("all lines", || {
        let _ = reader.read_to_end(&mut text);
        totals.written() == 1_000
    });
    assert_eq!(log.stop(TIMEOUT), Stopped { written: 1_000, dropped: 0, finished: true });
    let _ = reader.read_to_end(&mut text);
    assert_eq!(parsed(std::str::from_utf8(&text).expect("text")).len(), 1_000);
}

#[test]
fn off_costs_and_counts_nothing() {
    let log = start(&model::AccessLog::Off).expect("nothing can fail");
    let mut thread = log.for_thread();
    thread.write(&record(), &reason(None));
    assert_eq!(thread.due(), None);
    drop(thread);
    log.reopen();
    assert_eq!(log.stop(TIMEOUT), Stopped { written: 0, dropped: 0, finished: true });
}
