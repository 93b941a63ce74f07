//! HTTP without TLS is a target too: no handshake is made, and none is in the report.

use super::support::backend::Backend;
use super::support::load::Load;

/// A server that answers each request with a short page.
fn server() -> Backend {
    Backend::start(|peer| {
        while peer.head().is_some() {
            peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello");
        }
    })
}

#[test]
fn plain_http_has_no_handshakes_in_its_report() {
    let server = server();
    for words in ["", "-n 1", "--rate 100"] {
        let load = Load::at(format!("http://{}/page", server.address)).with("-c 2 -d 300ms --threads 1");
        let ended = load.with(words).run_well();
        assert!(ended.count("/totals/transactions") > 2, "{words}\n{}", ended.all());
        assert_eq!(
            (ended.count("/totals/failed"), ended.count("/mix/full")),
            (0, 0),
            "{words}\n{}",
            ended.all()
        );
        assert!(ended.has_series("connect") && !ended.has_series("handshake"), "{words}\n{}", ended.all());
        assert!(ended.output.contains("none: the target is plain HTTP"), "{words}\n{}", ended.all());
        assert!(!ended.output.to_ascii_lowercase().contains("handshake"), "{words}\n{}", ended.all());
    }
}

#[test]
fn options_about_tls_are_refused_by_name() {
    let ended = Load::at("http://localhost:1/").with("--sni a.example --resume 1 --verify").run();
    assert_eq!(ended.code, Some(2), "{}", ended.all());
    for option in ["--sni", "--resume", "--verify"] {
        assert!(ended.talk.contains(&format!("{option}: is about TLS")), "{option}\n{}", ended.all());
    }
}
