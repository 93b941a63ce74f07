//! The page's structure, its words, and that text stays text.

use std::sync::Arc;
use std::time::Duration;

use super::findings::sorted_findings;
use super::format::Urgency;
use super::*;
use crate::fake::{Fake, Script};
use crate::hour::Point;
use crate::rates::History;
use handfast_observe::metrics::{
    CacheSnapshot, CertificateSnapshot, FileProblemSnapshot, KeyProcessSnapshot,
};

fn status() -> Status {
    let fake = Fake::new(Arc::new(Script::default()));
    let mut status = Status::of(&fake, &History::default());
    status.rates.over_seconds = 60.0;
    let rates = status.rates.services.entry("web".into()).or_default();
    (rates.connections, rates.handshakes) = (412.0, 410.3);
    (rates.bytes_to_backend, rates.bytes_to_client) = (371_000.0, 17_400_000.0);
    status.rates.cpu = [("worker-0", 0.41), ("worker-1", 0.38), ("control", 0.002), ("access-log", 0.011)]
        .map(|(name, share)| (name.to_owned(), share))
        .into();
    status.hour = (0..200).map(moment).collect();
    status
}

/// Ten seconds of an hour that goes up and down, with a pause in which there were no handshakes.
fn moment(place: u16) -> Point {
    let wave = 1.0 + (f32::from(place) / 15.0).sin();
    Point {
        connections: 200.0 * wave,
        full: 60.0 * wave,
        resumed: 130.0 * wave,
        failures: f32::from(place % 40 / 38) * 3.0,
        to_backend: 200_000.0 * wave,
        to_client: 17_000_000.0 * wave,
        open: 900.0 + 300.0 * wave,
        handshake: (!(80..95).contains(&place)).then_some([0.019, 0.035 + 0.01 * wave]),
        requests: 900.0 * wave,
        server_errors: f32::from(place % 30 / 27) * 40.0,
        no_status: 1.0,
        request: Some([0.004, 0.02 + 0.03 * wave]),
    }
}

/// The text between tags.
fn text_of(page: &str) -> String {
    let body = page.split_once("</style>").expect("a style sheet").1;
    let pieces = body.split('<').skip(1).filter_map(|piece| piece.split_once('>'));
    pieces.map(|(_, text)| format!("{text} ")).collect::<String>().replace("  ", " ")
}

#[test]
fn the_page_shows_what_matters() {
    let text = text_of(&page(&status(), None));
    for expected in [
        "ready",
        "0.0.0.0:443",
        "10.0.0.7:8080",
        "client certificates: require",
        "TLSv1.3 full",
        "X25519MLKEM768 · ECDSA-P256",
        "While carrying bytes, the client reset the connection",
        "relay / client / reset",
        "Before the ClientHello was complete, the client sent something that is not TLS",
        "reached the connection limit of the address",
        "The ECDSA-P256 certificate imap.example.org of mail expires in 3 days: renew it now.",
        "expires in 16 days: its renewal is late",
        "worker-1",
        "41 %",
        "/etc/handfast/handfast.toml",
        "HTTP requests",
        "4,000 since the start",
        "h2 62, http/1.1 8",
        "2xx 88 % · 3xx 8.0 % · 4xx 4.0 % · 5xx 0.40 %",
        "hello 40.0 µs · connect ",
        "92 % 48 idle",
        "3,554 89 %",
        "The last hour",
        "34 of 60 minutes are known",
        "resumed handshakes: ",
        "The last connections that failed",
        "192.0.2.44:50123",
    ] {
        assert!(text.contains(expected), "{expected:?} is missing in:\n{text}");
    }
}

#[test]
fn an_empty_program_has_a_page_too() {
    let empty = handfast_observe::metrics::Registry::new();
    let fake = Fake { script: Arc::new(Script::default()), registry: empty };
    let text = text_of(&page(&Status::of(&fake, &History::default()), None));
    assert!(
        text.contains("No connection has ended yet.") && text.contains("Nothing needs attention."),
        "{text}"
    );
}

#[test]
fn services_that_relay_bytes_have_no_requests() {
    let mut status = status();
    status.measured.services.iter_mut().for_each(|service| service.requests = None);
    assert!(!page(&status, None).contains("HTTP requests"));
    // Before the first request nothing is known.
    status.measured.services[0].requests = Some(handfast_observe::metrics::RequestSnapshot::default());
    status.recent.services.clear();
    let page = page(&status, None);
    assert!(page.contains("HTTP requests") && !page.contains("NaN"), "{page}");
}

#[test]
fn text_cannot_become_markup() {
    let hostile = "<script>alert(1)</script>\"'&<b>";
    let mut status = status();
    status.overview.services[0].name = hostile.into();
    status.overview.services[0].listen = vec![hostile.into()];
    status.overview.services[0].backends = vec![hostile.into()];
    status.overview.configuration = hostile.into();
    status.not_ready_because = Some(hostile.into());
    status.measured.reload.last_problem = Some(hostile.into());
    status.measured.services[0].name = hostile.into();
    status.measured.services[0].backends[0].name = hostile.into();
    status.measured.threads[0].name = hostile.into();
    status.measured.certificates[0].name = hostile.into();
    status.failures[0].service = hostile.into();
    status.failures[0].backend = Some(hostile.into());
    status.failures[0].detail = Some(hostile.into());
    let page = page(&status, None);
    assert!(!page.contains("<script") && !page.contains("&<b>") && !page.contains("\"'&<"), "{page}");
    assert!(
        text_of(&page).matches("&lt;script&gt;alert(1)&lt;/script&gt;&quot;'&amp;&lt;b&gt;").count() >= 11
    );
}

#[test]
fn a_line_is_interrupted_where_nothing_is_known() {
    let mut status = status();
    let page_of = |status: &Status| page(status, None);
    let pieces = |status: &Status| -> usize {
        let page = page_of(status);
        let lines = page.split("<path class=\"l ").skip(1).filter_map(|line| line.split_once("</path>"));
        lines.map(|(line, _)| line.matches('M').count()).sum()
    };
    let with_pause = pieces(&status);
    for (place, point) in status.hour.iter_mut().enumerate() {
        point.handshake.get_or_insert([0.019, place as f32]);
    }
    assert_eq!(with_pause - pieces(&status), 2, "both lines of the time of a handshake");
    status.hour = vec![Point::default(); 3];
    assert!(!page_of(&status).contains("NaN"), "an hour without a connection");
    status.hour.clear();
    assert!(page_of(&status).contains("Lines appear twenty seconds after the start."));
}

#[test]
fn many_findings_leave_room_for_the_rest_of_the_page() {
    let mut status = status();
    assert!(!page(&status, None).contains(" more</summary>"));
    let mut certificate = status.measured.certificates[0].clone();
    certificate.not_after = status.measured.process.now;
    status.measured.certificates = vec![certificate; 100];
    assert!(page(&status, None).contains("<details><summary>"), "most are folded");
}

#[test]
fn refreshing_needs_to_be_asked_for() {
    assert!(!page(&status(), None).contains("http-equiv=\"refresh\""));
    assert!(page(&status(), Some(5)).contains("<meta http-equiv=\"refresh\" content=\"5\">"));
}

#[test]
fn the_page_fetches_and_runs_nothing() {
    let page = page(&status(), Some(5));
    for foreign in ["<script", "<img", "<link", "http://", "https://", "url(", "@import", " style=", " on"] {
        let found = page.split_once("</style>").expect("a style sheet").1.find(&format!("<{foreign}"));
        assert_eq!(found, None, "{foreign}");
    }
    assert!(!page.contains("src=") && !page.contains("https://") && !page.contains("url("));
}

#[test]
fn where_private_keys_are_is_reported() {
    let mut status = status();
    let keys = |answers, restarts| Some(KeyProcessSnapshot { answers, restarts });
    for (process, expected) in [
        (None, "<dd>in this process</dd>"),
        (keys(true, 0), "<dd>in a separate process</dd>"),
        (keys(true, 1), "<dd>in a separate process, started again once</dd>"),
        (keys(false, 1), "<dd>in a separate process, which does not answer</dd>"),
    ] {
        status.measured.key_process = process;
        assert!(page(&status, None).contains(expected), "{expected}");
    }
}

#[test]
fn caches_have_a_table() {
    let mut status = status();
    assert!(!page(&status, None).contains(">Caches<"), "there is none");
    let counts =
        |each: &[(&str, u64)]| each.iter().map(|(word, count)| ((*word).to_owned(), *count)).collect();
    status.measured.caches = vec![CacheSnapshot {
        service: "mirror".into(),
        objects: 1204,
        disk_bytes: 2 << 30,
        disk_bytes_limit: 50 << 30,
        requests: counts(&[("hit", 80), ("shared", 10), ("miss", 6), ("expired", 1), ("method", 3)]),
        changes: counts(&[("evicted", 14), ("purged", 5)]),
        confirmed: 1,
        disk: [("read".to_owned(), (10, 0.02)), ("write".to_owned(), (0, 0.0))].into(),
        ..CacheSnapshot::default()
    }];
    let text = text_of(&page(&status, None));
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let expected =
        "mirror 1,204 2.00 GiB of 50.0 GiB 90 90 % 7 1 confirmed 3 14 5 purged read 2.00 ms 0 errors";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn attention_names_each_fault_the_worst_first() {
    let mut status = status();
    status.measured.certificates.clear();
    // The last minute of the fake has a bit of everything; failures of backends have separate tests.
    status.recent.services.clear();
    assert_eq!(sorted_findings(&status), []);
    status.measured.certificates = vec![CertificateSnapshot {
        service: "web".into(),
        name: "old.example.org".into(),
        kind: "RSA-2048".into(),
        not_after: status.measured.process.now - Duration::from_secs(86_400),
        staple_until: Some(status.measured.process.now + Duration::from_secs(3_600)),
    }];
    status.measured.file_problems =
        vec![FileProblemSnapshot { service: "web".into(), not_stapled: 2, ..Default::default() }];
    status.measured.caches =
        vec![CacheSnapshot { service: "web".into(), undeleted: 3, ..CacheSnapshot::default() }];
    status.measured.access_log_dropped = 12;
    status.measured.key_process = Some(KeyProcessSnapshot { answers: false, restarts: 3 });
    status.measured.threads[0].backing_off = true;
    status.measured.threads[1].panics = 1;
    status.measured.process.source_ports = Some((32_768, 32_769));
    status.measured.process.open_files = status.measured.process.max_files;
    status.measured.reload.last_problem = Some("handfast.toml:3: unknown key".into());
    let points = sorted_findings(&status);
    for expected in [
        "generation 3 is served",
        "old.example.org of web expired 1 day ago",
        "old.example.org of web expires in 1 h",
        "Of web 2 OCSP responses cannot be used",
        "worker-0 accepts nothing for now",
        "worker-1: 1 connection lost",
        "100 % of the source ports towards 10.0.0.7:8080",
        "100 % of the allowed file descriptors",
        "web could not delete the files of 3 objects",
        "12 lines of the access log lost",
        "does not answer: handshakes that need a signature fail",
        "was started again 3 times",
    ] {
        assert!(points.iter().any(|(_, sentence)| sentence.contains(expected)), "{expected}: {points:?}");
    }
    assert!(points.is_sorted_by_key(|(urgency, _)| std::cmp::Reverse(*urgency)), "{points:?}");
    assert_eq!(points[0].0, Urgency::Bad);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "no other program reads the file meanwhile")]
#[ignore = "writes the page to the path in STATUS_PAGE, for a look at it in a browser"]
fn the_page_for_the_eye() {
    let path = std::env::var_os("STATUS_PAGE").expect("STATUS_PAGE names a file");
    let mut status = status();
    super::findings::tests::bring_findings(&mut status);
    status.measured.reload.last_problem = Some(
        "/etc/handfast/handfast.toml:12: unknown key \"certifcate\"\n  hint: did you mean \"certificate\"?"
            .into(),
    );
    std::fs::write(path, page(&status, None)).expect("the file can be written");
}
