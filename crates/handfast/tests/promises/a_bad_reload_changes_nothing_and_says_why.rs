//! A bad reload changes nothing and says why: the old certificate is served, tunnels stand, and the log, the admin page and the
//! answer to the client that asked name the file and what is wrong with it.
//!
//! A certificate file that cannot be used is left out by itself, and its old version is served
//! (`a_renewal_never_serves_another_name`): such a reload takes effect in part, and counts here with those that failed.

use super::support::certificates::{KeyKind, localhost, localhost_rsa};
use super::support::*;

/// One way to break a configuration: what it is, how to do it, what must be named.
struct Break {
    what: &'static str,
    act: fn(&Stage),
    names: &'static str,
}

fn certificate_is(stage: &Stage, text: impl AsRef<[u8]>) {
    // In place of the good one at once: a half-written file is another promise's matter.
    stage.folder.replace("web.pem", text);
}

fn cut_in_half(text: &str) -> &str {
    &text[..text.len() / 2]
}

const BREAKS: [Break; 12] = [
    Break {
        what: "a missing certificate",
        act: |stage| std::fs::remove_file(stage.folder.file("web.pem")).expect("it is there"),
        names: "web.pem",
    },
    Break { what: "an empty certificate", act: |stage| certificate_is(stage, ""), names: "web.pem" },
    Break {
        what: "a certificate cut in half",
        act: |stage| certificate_is(stage, cut_in_half(&localhost().certificate_pem)),
        names: "web.pem",
    },
    Break {
        what: "a certificate without its key",
        act: |stage| certificate_is(stage, &localhost().certificate_pem),
        names: "web.pem",
    },
    Break {
        what: "a key cut in half",
        act: |stage| {
            let good = localhost();
            certificate_is(stage, format!("{}{}", good.certificate_pem, cut_in_half(&good.key_pem)));
        },
        names: "web.pem",
    },
    Break {
        what: "a key of another certificate",
        act: |stage| {
            certificate_is(stage, format!("{}{}", localhost().certificate_pem, localhost_rsa().key_pem));
        },
        names: "web.pem",
    },
    Break {
        what: "a key behind a passphrase",
        act: |stage| {
            let plain = localhost().key_pem.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
            certificate_is(stage, format!("{}{plain}", localhost().certificate_pem));
        },
        names: "web.pem",
    },
    Break {
        what: "noise instead of a certificate",
        act: |stage| certificate_is(stage, [0xff, 0, 0xfe].repeat(1000)),
        names: "web.pem",
    },
    Break {
        what: "a folder instead of a certificate",
        act: |stage| {
            std::fs::remove_file(stage.folder.file("web.pem")).expect("it is there");
            stage.folder.folder("web.pem");
        },
        names: "web.pem",
    },
    Break {
        what: "a file that is not TOML",
        act: |stage| stage.proxy.rewrite("[[service\n"),
        names: "handfast.toml",
    },
    Break {
        what: "an unknown key",
        act: |stage| stage.proxy.rewrite(stage.config().set("service", "bakend", "\"x\"")),
        names: "bakend",
    },
    Break {
        what: "a configuration that is gone",
        act: |stage| std::fs::remove_file(&stage.proxy.file).expect("it is there"),
        names: "handfast.toml",
    },
];

fn serves_the_old_certificate(stage: &Stage, what: &str) {
    let client = stage.any_client();
    assert_eq!(
        client.certificate(),
        localhost().certificate.as_ref(),
        "{what}: the old certificate is served"
    );
    client.finish();
}

#[test]
fn twelve_kinds_of_broken_input() {
    crowd::for_each(BREAKS.len(), 3, |number| {
        let Break { what, act, names } = &BREAKS[number];
        // The watch must not get ahead of the signal, which is what is tested here.
        let stage = Stage::with(Backend::echo(), |config, _| config.text("process", "watch-interval", "1h"));
        let mut tunnel = stage.any_client();
        act(&stage);
        assert!(!stage.proxy.reload(), "{what}: {:?}", stage.proxy.talk.so_far());
        let metrics = stage.proxy.metrics();
        assert!(metrics.sum("handfast_last_reload_successful", &[]) < 0.5, "{what}: monitoring can see it");
        stage.proxy.talk.containing(names);
        let status = stage.proxy.status().to_string();
        assert!(status.contains(names), "{what}: the status page names {names}: {status}");
        serves_the_old_certificate(&stage, what);
        tunnel.echo(what.as_bytes());
        tunnel.finish();
        stage.is_quiet();
    });
}

#[test]
fn an_expired_certificate_is_reported_as_one() {
    let stage = Stage::echo();
    certificate_is(
        &stage,
        authority().identity_between(&["localhost"], KeyKind::Ecdsa, 2000, 2001).combined(),
    );
    stage.proxy.reload();
    let message = stage.proxy.talk.containing("web.pem");
    assert!(message.contains("expired"), "{message}");
}

#[test]
fn a_request_to_the_admin_page_gets_the_reason() {
    let stage = Stage::echo();
    stage.proxy.rewrite(stage.config().set("service", "bakend", "\"x\""));
    let answer = http::request(stage.proxy.admin(), "POST", "/reload", "*/*");
    assert_eq!(answer.status, 409, "{answer:?}");
    assert!(answer.body.contains("bakend") && answer.body.contains("handfast.toml"), "{answer:?}");
    serves_the_old_certificate(&stage, "over the admin page");
    stage.proxy.rewrite(stage.config());
    let answer = http::request(stage.proxy.admin(), "POST", "/reload", "*/*");
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(stage.proxy.metrics().sum("handfast_last_reload_successful", &[]) > 0.5);
}

#[test]
fn a_mended_configuration_is_taken_up_again() {
    let stage = Stage::echo();
    let good = std::fs::read_to_string(&stage.proxy.file).expect("it was written by this test");
    stage.proxy.rewrite("[[service\n");
    assert!(!stage.proxy.reload());
    stage.proxy.rewrite(good);
    assert!(stage.proxy.reload());
    stage.serves_and_is_quiet();
}

#[test]
fn a_listener_that_cannot_be_bound_changes_nothing() {
    let stage = Stage::echo();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = taken.local_addr().expect("a bound socket has an address");
    stage.proxy.rewrite(Config::to(&stage.folder, stage.backend.address).text("service", "listen", address));
    assert!(!stage.proxy.reload());
    stage.proxy.talk.containing(&address.to_string());
    stage.serves_and_is_quiet();
}
