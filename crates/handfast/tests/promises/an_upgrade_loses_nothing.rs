//! An upgrade loses nothing: a new process, with whatever number of threads, takes over the listening sockets, ticket keys and
//! what is known of backends; tunnels live on in the old one. One that fails changes nothing, and says why.

use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;

use super::support::crowd::Crowd;
use super::support::folder::Folder;
use super::support::manager::Manager;
use super::support::metrics::Metrics;
use super::support::upgrade::{config, upgrade};
use super::support::*;

fn is_served(proxy: &Proxy) {
    let mut client = Client::connect(proxy.address(), &Trust::version(Version::Tls13).config());
    client.echo(b"after the upgrade");
    client.finish();
}

#[test]
fn under_load_with_changing_threads_and_broken_programs_among_them() {
    let (folder, backend) = (Folder::new(), Backend::echo());
    let config = config(&folder, &backend);
    let mut first = Proxy::start(&config);
    let socket = std::fs::metadata(folder.file("upgrade.sock")).expect("it is there");
    assert_eq!(socket.permissions().mode() & 0o777, 0o600);
    let broken = folder.write("broken", "#!/bin/sh\nexit 3\n");
    std::fs::set_permissions(&broken, std::fs::Permissions::from_mode(0o700)).expect("it is ours");
    let mut tunnel = Client::connect(first.address(), &Trust::version(Version::Tls13).config());
    let (address, trust) = (first.address(), Trust::version(Version::Tls13).config());
    let crowd = Crowd::start(4, move |_| {
        let mut client = Client::try_connect(address, &trust, "localhost")
            .map_err(|refusal| format!("a new connection failed: {refusal:?}"))?;
        client.echo(b"across an upgrade");
        client.finish();
        Ok(())
    });
    let mut served_by = None;
    for threads in [3, 1, 4, 2, 2] {
        let served = crowd.done();
        first.rewrite(config.clone().set("process", "threads", threads));
        let new = upgrade(&first, &[]).unwrap_or_else(|why| panic!("to {threads} threads: {why}"));
        assert_eq!(new.0.threads_named("worker").len(), threads, "it reads the configuration");
        tunnel.echo(b"begun before all of them");
        wait_until("others to be served", || (crowd.done() > served + 20).then_some(()));
        assert_eq!(http::get(first.admin(), "/ready", "*/*").status, 200);
        let why = upgrade(&first, &["--program", &broken.display().to_string()]).err().expect("it is broken");
        assert!(why.contains("nothing has changed, the old process keeps serving: "), "{why}");
        assert!(why.contains("the new process ended before it served, with exit status: 3"), "{why}");
        // The previous process has no connection left, and has ended or is about to.
        served_by = Some(new);
    }
    assert!(crowd.finish() > 100);
    assert!(first.lives(), "its tunnel lives");
    tunnel.finish();
    assert_eq!(first.ended().code(), Some(0));
    let last = served_by.expect("there were upgrades");
    last.0.signal(Signal::TERM);
    let lost: Vec<_> =
        first.records().into_iter().filter(|record| !record.reason().ends_with("/finished")).collect();
    assert!(lost.is_empty(), "{} of {}: {:?}", lost.len(), first.records().len(), lost.last());
}

#[test]
fn sessions_are_resumed_and_backends_stay_as_they_were_set() {
    let (folder, backend, other) = (Folder::new(), Backend::echo(), Backend::echo());
    let config = config(&folder, &backend).backend(other.address);
    let proxy = Proxy::start(&config);
    let trust = Trust::version(Version::Tls13).config();
    let resumed = || {
        let mut client = Client::connect(proxy.address(), &trust);
        client.echo(b"x");
        let resumed = client.resumed();
        client.finish();
        resumed
    };
    assert!(!resumed(), "the first cannot be");
    let drained = format!("/backends/web/{}?state=drain", backend.address);
    assert_eq!(http::request(proxy.admin(), "POST", &drained, "*/*").status, 200);
    let _new = upgrade(&proxy, &[]).expect("it can be replaced");
    assert!(resumed(), "by the keys of the process before");
    let status = proxy.status();
    let text = status.to_string();
    assert!(text.contains("\"drain\""), "{text}");
}

#[test]
fn a_configuration_that_cannot_be_served_changes_nothing() {
    let (folder, backend) = (Folder::new(), Backend::echo());
    let mut proxy = Proxy::start(config(&folder, &backend));
    proxy.rewrite(config(&folder, &backend).text("service", "certificate", "/none/web.pem"));
    let why = upgrade(&proxy, &[]).err().expect("there is no such certificate");
    assert!(why.contains("/none/web.pem"), "{why}");
    is_served(&proxy);
    proxy.signal(Signal::TERM);
    assert_eq!(proxy.ended().code(), Some(0));
    assert!(!folder.file("upgrade.sock").exists(), "it is this process's to remove");
}

#[test]
fn a_service_manager_receives_the_main_process() {
    let manager = Manager::with_path();
    let (folder, backend) = (Folder::new(), Backend::echo());
    let mut proxy = Proxy::start_with(config(&folder, &backend), |command| manager.starts(command));
    manager.wait_for("READY");
    let new = upgrade(&proxy, &[]).expect("it can be replaced");
    let main = manager.wait_for("MAINPID");
    assert_eq!(main["MAINPID"], new.0.0.to_string());
    assert!(manager.wait_for("READY")["STATUS"].starts_with("Serving 1 service"));
    assert_eq!(proxy.ended().code(), Some(0));
    is_served(&proxy);
    new.0.signal(Signal::TERM);
    // Of the old one's end nothing was said: it is not the service's.
    manager.wait_for("STOPPING");
    while let Some(message) = manager.receive(std::time::Duration::from_millis(100)) {
        assert!(!message.contains_key("STOPPING"), "{message:?}");
    }
}

#[test]
fn counters_go_on_and_every_connection_is_counted_once() {
    let (folder, backend) = (Folder::new(), Backend::echo());
    let proxy = Proxy::start(config(&folder, &backend));
    let trust = Trust::version(Version::Tls13).config();
    let read = || proxy.metrics();
    let served = |count: usize| {
        for _ in 0..count {
            is_served(&proxy);
        }
    };
    let counts = |metrics: &Metrics| {
        [
            "handfast_connections_accepted_total",
            "handfast_connections_closed_total",
            "handfast_handshakes_total",
            "handfast_handshake_seconds_count",
            "handfast_backend_connect_seconds_count",
            "handfast_connection_duration_seconds_count",
        ]
        .map(|name| metrics.sum(name, &[]))
    };
    served(3);
    let mut tunnel = Client::connect(proxy.address(), &trust);
    tunnel.echo(b"begun before");
    wait_until("three to be counted", || (counts(&read())[1] == 3.0).then_some(()));
    let before = read();
    let mut new = Vec::new();
    for upgrades in 1..=2 {
        new.push(upgrade(&proxy, &[]).expect("it can be replaced"));
        let now = read();
        assert_eq!(counts(&now), [4.0, 3.0, 4.0, 4.0, 4.0, 3.0].map(|count| count + f64::from(upgrades - 1)));
        assert_eq!(now.sum("handfast_connections", &[]), 0.0, "it has none itself");
        let recent = &proxy.status()["recent"]["services"]["web"]["handshakes"];
        assert_eq!(recent, 0, "what was counted before is not of the last minute");
        // The second has ended by then, and the first one looks for who serves now.
        wait_until("the tunnel to be known of", || {
            (read().sum("handfast_connections_draining", &[]) == 1.0).then_some(())
        });
        served(1);
        let expected = f64::from(3 + upgrades);
        wait_until("one more to be counted", || (counts(&read())[1] == expected).then_some(()));
    }
    let bytes =
        |metrics: &Metrics| metrics.sum("handfast_relayed_bytes_total", &[("direction", "to_client")]);
    let seen = bytes(&read());
    assert!(seen > bytes(&before), "{seen}");
    // Later counts of the first process are sent to the third: the second had no connections, and has ended.
    tunnel.echo(&[7; 50_000]);
    wait_until("the tunnel's bytes to be counted", || (bytes(&read()) == seen + 50_000.0).then_some(()));
    tunnel.finish();
    wait_until("the tunnel to be counted", || {
        let now = read();
        let lines = now.sum("handfast_access_log_lines_total", &[("outcome", "written")]);
        let left = now.sum("handfast_connections_draining", &[]);
        (counts(&now) == [6.0; 6] && (lines, left) == (6.0, 0.0)).then_some(())
    });
}

#[test]
fn one_that_is_killed_while_it_drains_has_no_connections_left() {
    let (folder, backend) = (Folder::new(), Backend::echo());
    let mut proxy = Proxy::start(config(&folder, &backend));
    let trust = Trust::version(Version::Tls13).config();
    let _tunnel = Client::connect(proxy.address(), &trust);
    let _new = upgrade(&proxy, &[]).expect("it can be replaced");
    let draining = |proxy: &Proxy| proxy.metrics().sum("handfast_connections_draining", &[]);
    assert_eq!(draining(&proxy), 1.0);
    proxy.signal(Signal::KILL);
    proxy.ended();
    wait_until("it to be missed", || (draining(&proxy) == 0.0).then_some(()));
    assert_eq!(proxy.metrics().sum("handfast_connections_accepted_total", &[]), 1.0);
}
