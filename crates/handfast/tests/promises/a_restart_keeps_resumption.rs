//! A restart keeps resumption when a ticket-key file is configured, and so does a second machine with the same file; without the
//! file no ticket outlives the process. A reload keeps it in any case.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use rustls::ClientConfig;

use super::support::folder::Folder;
use super::support::skip::needs;
use super::support::*;

/// Connects, exchanges, ends; whether the session was resumed. The exchange brings the ticket along.
fn resumed(proxy: &Proxy, config: &Arc<ClientConfig>) -> bool {
    let mut client = Client::connect(proxy.address(), config);
    client.echo(b"x");
    let resumed = client.resumed();
    client.finish();
    resumed
}

fn with_key_file(folder: &Folder, backend: &Backend) -> Config {
    Config::to(folder, backend.address).text("tickets", "key-file", folder.file("tickets.key").display())
}

#[test]
fn the_second_connection_is_resumed_on_every_thread() {
    let stage = Stage::echo();
    for version in Version::BOTH {
        let config = Trust::version(version).config();
        assert!(!resumed(&stage.proxy, &config), "the first cannot be");
        for number in 0..20 {
            assert!(resumed(&stage.proxy, &config), "{version:?}: connection {number} after the first");
        }
    }
    let record = stage.proxy.record("a resumed connection", |record| record.flag("resumed") == Some(true));
    assert_eq!(record.text("signature"), "", "nothing was signed: {record:?}");
    let metrics = stage.proxy.metrics();
    let count = |kind| metrics.sum("handfast_handshakes_total", &[("kind", kind)]);
    assert!((count("full") - 2.0).abs() < 0.5 && (count("resumed") - 40.0).abs() < 0.5);
    stage.is_quiet();
}

#[test]
fn two_tickets_for_a_full_handshake() {
    let stage = Stage::echo();
    let mut client = stage.any_client();
    client.echo(b"x");
    assert_eq!(client.tls().tls13_tickets_received(), 2);
    client.finish();
}

#[test]
fn none_when_they_are_turned_off() {
    let stage = Stage::with(Backend::echo(), |config, _| config.set("tickets", "per-handshake", 0));
    for version in Version::BOTH {
        let config = Trust::version(version).config();
        assert!(!resumed(&stage.proxy, &config));
        assert!(!resumed(&stage.proxy, &config), "{version:?}");
    }
    stage.serves_and_is_quiet();
}

#[test]
fn across_a_reload() {
    let stage = Stage::echo();
    for version in Version::BOTH {
        let config = Trust::version(version).config();
        assert!(!resumed(&stage.proxy, &config));
        assert!(stage.proxy.reload());
        assert!(resumed(&stage.proxy, &config), "{version:?}");
    }
}

#[test]
fn across_a_restart_with_a_key_file() {
    let (folder, backend) = (Folder::new(), Backend::echo());
    let first = Proxy::start(with_key_file(&folder, &backend));
    let configs = Version::BOTH.map(|version| Trust::version(version).config());
    for config in &configs {
        assert!(!resumed(&first, config));
    }
    let mode =
        std::fs::metadata(folder.file("tickets.key")).expect("it was created").permissions().mode() & 0o777;
    assert_eq!(mode, 0o600, "{mode:o}");
    first.stop();
    let second = Proxy::start(with_key_file(&folder, &backend));
    for config in &configs {
        assert!(resumed(&second, config), "by the restarted program");
    }
}

#[test]
fn on_another_machine_with_the_same_key_file() {
    let (folder, backend) = (Folder::new(), Backend::echo());
    let (first, second) =
        (Proxy::start(with_key_file(&folder, &backend)), Proxy::start(with_key_file(&folder, &backend)));
    let config = Trust::version(Version::Tls13).config();
    assert!(!resumed(&first, &config));
    for _ in 0..5 {
        assert!(resumed(&second, &config));
        assert!(resumed(&first, &config));
    }
}

#[test]
fn not_across_a_restart_without_a_key_file() {
    let (folder, backend) = (Folder::new(), Backend::echo());
    let config = Trust::version(Version::Tls13).config();
    let first = Proxy::start(Config::to(&folder, backend.address));
    assert!(!resumed(&first, &config));
    first.stop();
    let second = Proxy::start(Config::to(&folder, backend.address));
    assert!(!resumed(&second, &config), "the keys were in memory only");
}

#[test]
fn while_keys_rotate() {
    let stage = Stage::with(Backend::echo(), |config, _| {
        config.text("tickets", "rotate", "1s").text("tickets", "lifetime", "1h")
    });
    let config = Trust::version(Version::Tls13).config();
    assert!(!resumed(&stage.proxy, &config));
    for _ in 0..3 {
        // Longer than one key is the newest.
        pause(std::time::Duration::from_millis(1100));
        assert!(resumed(&stage.proxy, &config), "older keys are kept as long as their tickets live");
    }
}

#[test]
fn not_when_the_ticket_is_too_old() {
    let stage = Stage::with(Backend::echo(), |config, _| {
        config.text("tickets", "rotate", "1s").text("tickets", "lifetime", "1s")
    });
    let config = Trust::version(Version::Tls12).config();
    assert!(!resumed(&stage.proxy, &config));
    pause(std::time::Duration::from_millis(2200));
    assert!(!resumed(&stage.proxy, &config));
}

#[test]
fn with_openssl_too() {
    needs!("openssl");
    let stage = Stage::echo();
    let session = stage.folder.file("session");
    for version in ["-tls1_2", "-tls1_3"] {
        let connect = |flag: &str| {
            let address = stage.proxy.address().to_string();
            let path = session.display().to_string();
            let arguments =
                ["s_client", "-connect", &address, "-servername", "localhost", version, flag, &path];
            let mut client = tools::Tool::start("openssl", &arguments);
            client.send(b"x\n");
            client.output.containing("x");
            // A session comes with the first data in TLS 1.3; s_client saves it as it comes.
            wait_until("the session", || session.exists().then_some(()));
            client.ended().output
        };
        let _ = std::fs::remove_file(&session);
        assert!(connect("-sess_out").contains("New, TLS"));
        let again = connect("-sess_in");
        assert!(again.contains("Reused, TLS"), "{version}: {again}");
    }
}
