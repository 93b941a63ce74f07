//! Changed certificates are picked up without a signal: replaced at once, written in place, or swapped as a pair; a pair that
//! does not fit is never served, not even for a moment.

use std::time::Duration;

use super::support::certificates::{Identity, KeyKind};
use super::support::crowd::Crowd;
use super::support::*;

fn another() -> Identity {
    authority().identity(&["localhost"], KeyKind::Ecdsa)
}

fn served(stage: &Stage) -> Vec<u8> {
    stage.any_client().certificate().to_vec()
}

fn wait_for(stage: &Stage, identity: &Identity) {
    wait_until("the new certificate to be served", || {
        (served(stage) == identity.certificate.as_ref()).then_some(())
    });
}

fn stage(more: impl FnOnce(Config, &folder::Folder) -> Config) -> Stage {
    Stage::with(Backend::echo(), |config, folder| {
        more(config, folder).text("process", "watch-interval", "200ms")
    })
}

#[test]
fn replaced_by_rename() {
    let stage = stage(|config, _| config);
    let mut tunnel = stage.any_client();
    for _ in 0..3 {
        let new = another();
        stage.folder.replace("web.pem", new.combined());
        wait_for(&stage, &new);
    }
    tunnel.echo(b"standing since the first one");
    tunnel.finish();
    stage.serves_and_is_quiet();
}

#[test]
fn written_in_place_with_a_pause_in_the_middle() {
    let stage = stage(|config, _| config);
    let (old, new) = (served(&stage), another());
    let text = new.combined();
    for part in 1..=4 {
        // Grows like a file that a slow editor writes; every part but the last is broken.
        stage.folder.write("web.pem", &text[..text.len() * part / 4]);
        if part < 4 {
            pause(Duration::from_millis(300));
            assert_eq!(served(&stage), old, "a half-written file is not served");
        }
    }
    wait_for(&stage, &new);
    stage.serves_and_is_quiet();
}

#[test]
fn swapped_as_a_pair_of_files() {
    let first = another();
    let stage = stage(|_, folder| {
        let chain = folder.write("chain.pem", &first.certificate_pem);
        let key = folder.write("key.pem", &first.key_pem);
        Config::empty().service("web", "127.0.0.1:1").certificate(&chain).text(
            "service",
            "key",
            key.display(),
        )
    });
    let second = another();
    stage.folder.replace("chain.pem", &second.certificate_pem);
    pause(Duration::from_millis(500));
    assert_eq!(
        stage.any_client().certificate(),
        first.certificate.as_ref(),
        "a pair that does not fit is not served"
    );
    stage.folder.replace("key.pem", &second.key_pem);
    wait_for(&stage, &second);
}

#[test]
fn never_a_failed_handshake_while_certificates_change() {
    let stage = stage(|config, _| config);
    let (address, config) = (stage.proxy.address(), Trust::version(Version::Tls13).config());
    let crowd = Crowd::start(2, move |_| {
        Client::try_connect(address, &config, "localhost")
            .map(Client::finish)
            .map_err(|refusal| format!("{refusal:?}"))
    });
    for round in 0..20 {
        let new = another();
        match round % 2 {
            0 => stage.folder.replace("web.pem", new.combined()),
            _ => stage.folder.write("web.pem", new.combined()),
        };
        wait_for(&stage, &new);
    }
    assert!(crowd.finish() > 50);
    stage.is_quiet();
}

#[test]
fn added_to_and_taken_from_a_folder() {
    let stage = stage(|config, folder| {
        let path = folder.folder("certificates");
        folder.write("certificates/a.pem", authority().identity(&["a.example"], KeyKind::Ecdsa).combined());
        let config = config.certificate(&path).text("service", "unknown-name", "refuse");
        config.text("process", "keep-removed-certificates", "0s")
    });
    let config = Trust::version(Version::Tls13).config();
    let connect_for = |name: &str| Client::try_connect(stage.proxy.address(), &config, name).map(|_| ());
    assert!(connect_for("a.example").is_ok());
    assert!(connect_for("b.example").is_err());
    stage
        .folder
        .replace("certificates/b.pem", authority().identity(&["b.example"], KeyKind::Ecdsa).combined());
    wait_until("the new name to be served", || connect_for("b.example").ok());
    std::fs::remove_file(stage.folder.file("certificates/a.pem")).expect("it is there");
    wait_until("the old name to be refused", || connect_for("a.example").err());
}
