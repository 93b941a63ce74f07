//! A reload loses nothing: no new connection fails, no open tunnel is cut, memory and descriptors stay as they were.

use std::sync::Arc;

use super::support::crowd::Crowd;
use super::support::*;

const RELOADS: usize = 100;

/// Clients that connect, exchange and close cleanly, repeatedly.
fn crowd(stage: &Stage, size: usize) -> Crowd {
    let (address, config) = (stage.proxy.address(), Trust::version(Version::Tls13).config());
    Crowd::start(size, move |_| {
        let mut client = Client::try_connect(address, &Arc::clone(&config), "localhost")
            .map_err(|refusal| format!("a new connection failed: {refusal:?}"))?;
        client.echo(b"across a reload");
        client.finish();
        Ok(())
    })
}

#[test]
fn under_load() {
    let stage = Stage::echo();
    let mut tunnels: Vec<Client> = (0..20).map(|_| stage.any_client()).collect();
    let crowd = crowd(&stage, 4);
    wait_until("the load to run", || (crowd.done() > 200).then_some(()));
    assert!(stage.proxy.reload(), "the first reload takes effect");
    let (memory, descriptors) = (stage.proxy.process().memory(), stage.proxy.process().descriptors());
    for _ in 1..RELOADS {
        assert!(stage.proxy.reload(), "a reload of an unchanged configuration takes effect");
    }
    let served = crowd.finish();
    assert!(served > 300, "{served} connections only");
    for tunnel in &mut tunnels {
        tunnel.echo(b"still standing");
    }
    let grown = stage.proxy.process().memory().saturating_sub(memory);
    assert!(grown < 2 << 20, "{RELOADS} reloads cost {grown} bytes");
    let generation = stage.proxy.metrics().sum("handfast_configuration_generation", &[]);
    assert!(generation > RELOADS as f64, "every reload has its own number: {generation}");
    for tunnel in tunnels {
        tunnel.finish();
    }
    stage.proxy.settles_at(descriptors);
    stage.serves_and_is_quiet();
}

/// Signals sent by a thousand reloads, one after the other as fast as each is confirmed.
const THOUSAND: usize = 1_000;
/// Bytes that a thousand reloads may leave behind, for the allocator's sake: a kibibyte for each would be a leak.
const LEFT: u64 = 512 << 10;

#[test]
fn a_thousand_times_under_load() {
    let stage = Stage::echo();
    let mut tunnel = stage.any_client();
    let crowd = crowd(&stage, 2);
    wait_until("the load to run", || (crowd.done() > 200).then_some(()));
    // The first ones find the allocator's level.
    (0..THOUSAND / 10).for_each(|_| assert!(stage.proxy.reload(), "{:?}", stage.proxy.talk.so_far()));
    let (memory, served) = (stage.proxy.process().memory(), crowd.done());
    for reload in THOUSAND / 10..THOUSAND {
        assert!(stage.proxy.reload(), "a reload of an unchanged configuration takes effect");
        // The backend gives up a connection that is silent for a minute, which a busy machine may need for all of them.
        if reload.is_multiple_of(THOUSAND / 10) {
            tunnel.echo(b"in between");
        }
    }
    let grown = stage.proxy.process().memory().saturating_sub(memory);
    let meanwhile = crowd.done() - served;
    crowd.finish();
    assert!(meanwhile > THOUSAND as u64 / 2, "{meanwhile} new connections while {THOUSAND} reloads went on");
    assert!(grown <= LEFT, "{THOUSAND} reloads left {grown} bytes behind");
    tunnel.echo(b"as if nothing had been");
    assert_eq!(
        stage.proxy.records().iter().filter(|record| !record.reason().ends_with("/finished")).count(),
        0
    );
    assert!((stage.proxy.reloads().0 - THOUSAND as f64).abs() < 0.5, "each of them was counted");
    tunnel.finish();
    stage.serves_and_is_quiet();
}

#[test]
fn many_signals_at_once_are_one_reload_or_several_but_never_none() {
    let stage = Stage::echo();
    let crowd = crowd(&stage, 2);
    let (before, _) = stage.proxy.reloads();
    for _ in 0..200 {
        stage.proxy.signal(rustix::process::Signal::HUP);
    }
    wait_until("a reload", || (stage.proxy.reloads().0 > before).then_some(()));
    crowd.finish();
    assert!(stage.proxy.reloads().1 < 0.5, "none of them failed");
    stage.serves_and_is_quiet();
}

#[test]
fn a_new_backend_gets_the_new_connections_and_the_old_one_keeps_the_old() {
    let stage = Stage::echo();
    let mut old = stage.any_client();
    old.echo(b"before");
    let other = Backend::echo();
    stage.proxy.rewrite(Config::to(&stage.folder, other.address));
    assert!(stage.proxy.reload(), "{:?}", stage.proxy.talk.so_far());
    let mut new = stage.any_client();
    new.echo(b"after");
    assert_eq!(other.accepted(), 1, "the new backend serves");
    old.echo(b"the old tunnel stands");
    assert_eq!(stage.backend.accepted(), 1);
    old.finish();
    new.finish();
    // Lines of two threads come in any order.
    let generation = |backend: &Backend| {
        let address = backend.address.to_string();
        stage.proxy.record("its line", |record| record.text("backend") == address).number("generation")
    };
    let (before, after) = (generation(&stage.backend), generation(&other));
    assert_eq!(after, before + 1, "a record names the configuration its connection was accepted with");
}

#[test]
fn the_log_file_can_be_rotated_without_a_line_lost() {
    let stage = Stage::with(Backend::echo(), |config, folder| {
        config.text("access-log", "to", folder.file("access.log").display())
    });
    let one = || {
        let mut client = stage.any_client();
        client.echo(b"x");
        client.finish();
    };
    let lines =
        |name: &str| std::fs::read_to_string(stage.folder.file(name)).unwrap_or_default().lines().count();
    one();
    wait_until("the line", || (lines("access.log") == 1).then_some(()));
    std::fs::rename(stage.folder.file("access.log"), stage.folder.file("access.log.1"))
        .expect("the log is there");
    one();
    wait_until("the line in the renamed file", || (lines("access.log.1") == 2).then_some(()));
    stage.proxy.signal(rustix::process::Signal::USR1);
    wait_until("the new file", || stage.folder.file("access.log").exists().then_some(()));
    one();
    wait_until("the line in the new file", || (lines("access.log") == 1).then_some(()));
    assert_eq!(lines("access.log.1"), 2);
}
