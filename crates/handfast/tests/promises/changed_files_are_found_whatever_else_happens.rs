//! Changed files are found whatever else happens: within the interval where no notification comes, also while the service manager is
//! notified all the time that all is well; however soon one change follows another; and where TLS is spoken to backends alone. A link in
//! the middle of a path is changed instead of a file on a network file system: neither sends a notification.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::time::Duration;

use super::support::certificates::{Authority, Identity, KeyKind};
use super::support::client::dial;
use super::support::crowd::Crowd;
use super::support::folder::Folder;
use super::support::manager::Manager;
use super::support::secured::{Secured, server};
use super::support::*;

/// Puts a file where the path `live/site/NAME` leads from now on, in a new folder.
fn publish(folder: &Folder, name: &str, release: usize, text: &str) {
    folder.folder(&format!("release-{release}/site"));
    folder.write(&format!("release-{release}/site/{name}"), text);
    let aside = folder.file(".live");
    symlink(format!("release-{release}"), &aside).expect("it is ours");
    fs::rename(aside, folder.file("live")).expect("it is ours");
}

/// Permits the sandbox to read the folder: the link leads elsewhere each time.
fn reaches(folder: &Folder, config: Config) -> Config {
    config.set("process", "sandbox-folders", format!("[{:?}]", folder.path().display().to_string()))
}

fn another() -> Identity {
    authority().identity(&["localhost"], KeyKind::Ecdsa)
}

fn serves(proxy: &Proxy, identity: &Identity) -> bool {
    let client = Client::connect(proxy.address(), &Trust::version(Version::Tls13).forgetful().config());
    client.certificate() == identity.certificate.as_ref()
}

#[test]
fn the_interval_goes_on_while_the_service_manager_receives_pings() {
    let (folder, backend, manager) = (Folder::new(), Backend::echo(), Manager::with_path());
    publish(&folder, "web.pem", 0, &another().combined());
    let config =
        Config::empty().service("web", backend.address).certificate(&folder.file("live/site/web.pem"));
    let config = reaches(&folder, config.text("process", "watch-interval", "1s"));
    let proxy = Proxy::start_with(config, |command| {
        let mut command = manager.starts(command);
        command.env("WATCHDOG_USEC", "400000");
        command
    });
    // The first look comes soon after the start, whatever happens; the interval is what the others have.
    for release in 1..=3 {
        let new = another();
        publish(&folder, "web.pem", release, &new.combined());
        wait_until("the new certificate to be served", || serves(&proxy, &new).then_some(()));
        manager.wait_for("WATCHDOG");
    }
}

#[test]
fn the_last_of_two_changes_is_served_whatever_the_pause_between_them() {
    let (folder, backend, manager) = (Folder::new(), Backend::echo(), Manager::with_path());
    let file = folder.write("web.pem", another().combined());
    let config = Config::empty().service("web", backend.address).certificate(&file);
    let proxy = Proxy::start_with(config.text("process", "watch-interval", "1s"), |command| {
        let mut command = manager.starts(command);
        command.env("WATCHDOG_USEC", "40000");
        command
    });
    // Its socket has room for a few messages only.
    let manager = Crowd::start(1, move |_| {
        let _ = manager.receive(Duration::from_millis(50));
        Ok(())
    });
    for pause_between in [1, 30, 90, 110, 150, 250, 400, 900, 1_200] {
        folder.replace("web.pem", another().combined());
        pause(Duration::from_millis(pause_between));
        let last = another();
        // In place and by another file in turn.
        match pause_between % 20 {
            10 => folder.write("web.pem", last.combined()),
            _ => folder.replace("web.pem", last.combined()),
        };
        let what = format!("the second certificate, {pause_between} ms after the first one");
        wait_until(&what, || serves(&proxy, &last).then_some(()));
    }
    manager.finish();
}

/// Returns true if a client is served by a backend that has a certificate for localhost by the usual authority.
fn is_trusted(proxy: &Proxy) -> bool {
    // Or the failures would add up to a backend that is down.
    pause(Duration::from_millis(20));
    let mut client = dial(proxy.address()).expect("it listens");
    let mut answer = [0; 5];
    client.write_all(b"hello").is_ok() && client.read_exact(&mut answer).is_ok()
}

#[test]
fn a_ca_that_is_taken_away_is_trusted_no_more_where_tls_is_spoken_to_backends_alone() {
    let (folder, settings) = (Folder::new(), server(Version::Tls13, false));
    let backend = Backend::start(move |peer| {
        if let Ok(mut secured) = Secured::accept(peer, &settings) {
            secured.echo();
        }
    });
    let (usual, other) = (authority().pem.clone(), Authority::new("another").pem);
    let both = format!("{usual}{other}");
    publish(&folder, "ca.pem", 0, &usual);
    let config = Config::empty().service("web", backend.address).set("service", "client-tls", false);
    let config = config
        .text("service.backend-tls", "ca", folder.file("live/site/ca.pem").display())
        .text("service.backend-tls", "name", "localhost")
        // Or the backend that is not trusted is tried more and more rarely.
        .set("service.limits", "backend-failures", 1_000)
        .text("process", "watch-interval", "2s");
    let proxy = Proxy::start(reaches(&folder, config));
    assert!(is_trusted(&proxy));
    let mut release = 0;
    let mut publish = |text: &str| {
        release += 1;
        publish(&folder, "ca.pem", release, text);
    };
    for pause_between in [100, 1_000, 1_500, 2_000] {
        publish(&both);
        pause(Duration::from_millis(pause_between));
        publish(&other);
        wait_until("the backend not to be trusted", || (!is_trusted(&proxy)).then_some(()));
        publish(&both);
        wait_until("the backend to be trusted", || is_trusted(&proxy).then_some(()));
    }
}
