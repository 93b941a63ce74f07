//! Sockets from a configuration: which are kept, which are new, which process owns them.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::*;
use handfast_config::parse;

/// One service for each list of addresses.
fn config(services: &[(&str, &[&str])]) -> Config {
    let service = |(name, listen): &(&str, &[&str])| {
        format!(
            "[[service]]\nname = {name:?}\nlisten = {listen:?}\nbackend = \"127.0.0.1:1\"\ncertificate = \"web.pem\"\n"
        )
    };
    let text: String = services.iter().map(service).collect();
    parse("handfast.toml", &text, &|_| false).expect("a test's configuration is right").0
}

fn adopt(listeners: &mut Listeners, config: &Config) -> Vec<Share> {
    let plan = listeners.snapshot().plan(config, 2).expect("it can be bound");
    listeners.adopt(plan).expect("it can listen")
}

/// Returns the port of a service's only TCP listener.
fn port(listeners: &Listeners) -> u16 {
    let port = |listening: &Listening| match &listening.address {
        Address::Ip(address) => Some(address.port()),
        Address::Unix(_) => None,
    };
    listeners.listening.values().find_map(port).expect("one listens on TCP")
}

fn connects(port: u16) -> bool {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    TcpStream::connect_timeout(&address, Duration::from_secs(10)).is_ok()
}

/// A child of another test has this process's descriptors until it runs its own program.
fn becomes_closed(port: u16) -> bool {
    let start = Instant::now();
    while connects(port) {
        if start.elapsed() > Duration::from_secs(10) {
            return false;
        }
        std::thread::yield_now();
    }
    true
}

fn unix(folder: &tempfile::TempDir, name: &str) -> (PathBuf, String) {
    let path = folder.path().join(name);
    let text = format!("unix:{}", path.display());
    (path, text)
}

#[test]
fn what_stays_is_not_touched_and_what_is_gone_is_left_to_the_workers() {
    let mut listeners = Listeners::default();
    let first = adopt(&mut listeners, &config(&[("web", &["127.0.0.1:0"])]));
    let port = port(&listeners);
    assert_eq!(first.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1], "a socket for each worker");
    let again = adopt(&mut listeners, &config(&[("web", &["127.0.0.1:0"])]));
    assert!(again.iter().all(Vec::is_empty), "no new sockets");
    assert!(connects(port));
    adopt(&mut listeners, &config(&[("mail", &["127.0.0.1:0"])]));
    assert!(connects(port), "the workers have not closed it yet");
    drop(first);
    assert!(becomes_closed(port), "the last worker has closed it");
}

/// Otherwise a client would wait, while the program stops, in a queue that no worker accepts from.
#[test]
fn a_socket_is_open_for_as_long_as_its_worker_has_it() {
    let mut listeners = Listeners::default();
    let mut shares = adopt(&mut listeners, &config(&[("web", &["127.0.0.1:0"])]));
    let port = port(&listeners);
    shares.pop();
    assert_eq!(listeners.descriptors().count(), 1, "the other one is closed");
    assert!((0..20).all(|_| connects(port)), "every client comes to the one that is left");
    let held: Vec<_> = listeners.descriptors().collect();
    drop(shares);
    assert!(connects(port), "a descriptor that is passed on keeps it open");
    drop(held);
    assert!(becomes_closed(port), "the list of listeners does not");
}

#[test]
fn every_socket_is_there_with_its_listener_and_how_it_was_made() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_, socket) = unix(&folder, "web.sock");
    let mut listeners = Listeners::default();
    let _shares = adopt(&mut listeners, &config(&[("web", &["127.0.0.1:0", &socket])]));
    let seen: Vec<_> = listeners.descriptors().collect();
    let of = |written: &str| {
        seen.iter().filter(|(id, ..)| id.service == "web" && id.address.to_string() == written).count()
    };
    assert_eq!((of("127.0.0.1:0"), of(&socket)), (2, 1), "by the address as it is written");
    assert!(seen.iter().all(|(_, origin, options, _)| *origin == Origin::Bound && options.mode == 0o660));
    let mut ports = seen.iter().filter_map(|(.., socket)| {
        SocketAddr::try_from(rustix::net::getsockname(socket).expect("a socket")).ok()
    });
    assert!(ports.by_ref().all(|address| address.port() == port(&listeners)));
}

#[test]
fn a_refused_plan_leaves_nothing_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, socket) = unix(&folder, "web.sock");
    let other = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let taken = other.local_addr().expect("it is bound").to_string();
    let refused = Listeners::default().snapshot().plan(&config(&[("web", &[&socket, &taken])]), 2);
    let problem = refused.expect_err("another socket listens there").to_string();
    assert!(problem.starts_with(&format!("listen on {taken} (service web): ")), "{problem}");
    assert!(!path.exists(), "the socket that could be made is gone again");
}

#[test]
fn a_sockets_file_is_removed_by_the_process_that_owns_it() {
    for (origin, is_removed) in
        [(Origin::Bound, true), (Origin::HandedOver, true), (Origin::Inherited, false)]
    {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, socket) = unix(&folder, "web.sock");
        let mut listeners = Listeners::default();
        let _shares = adopt(&mut listeners, &config(&[("web", &[&socket])]));
        listeners.listening.values_mut().for_each(|listening| listening.origin = origin);
        listeners.close();
        assert_eq!(!path.exists(), is_removed, "{origin:?}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (path, socket) = unix(&folder, "web.sock");
    let mut listeners = Listeners::default();
    let _shares = adopt(&mut listeners, &config(&[("web", &[&socket])]));
    std::fs::remove_file(&path).expect("it is there");
    let _others = std::os::unix::net::UnixListener::bind(&path).expect("the name is free");
    listeners.close();
    assert!(path.exists(), "another process has replaced it");
}

#[test]
fn an_address_may_move_to_another_service() {
    let mut listeners = Listeners::default();
    let old = adopt(&mut listeners, &config(&[("web", &["127.0.0.1:0"])]));
    let address = format!("127.0.0.1:{}", port(&listeners));
    let new = adopt(&mut listeners, &config(&[("mail", &[&address])]));
    drop(old);
    assert!(connects(port(&listeners)), "it was bound again before the old one was closed");
    drop(new);
}

#[test]
fn a_socket_whose_file_is_gone_is_bound_again_and_refuses_no_reload_where_that_cannot_be() {
    let folder = tempfile::tempdir().expect("there is room");
    let below = folder.path().join("below");
    std::fs::create_dir(&below).expect("the folder is ours");
    let path = below.join("web.sock");
    let config = config(&[("web", &[&format!("unix:{}", path.display())])]);
    let mut listeners = Listeners::default();
    let _shares = adopt(&mut listeners, &config);
    assert_eq!(listeners.lost().count(), 0);
    std::fs::remove_dir_all(&below).expect("it is ours");
    assert_eq!(listeners.lost().count(), 1);
    assert!(adopt(&mut listeners, &config).iter().all(Vec::is_empty), "its folder is gone");
    std::fs::create_dir(&below).expect("the folder is ours");
    let again = adopt(&mut listeners, &config);
    assert!(again.iter().all(|share| share.len() == 1), "a socket for each worker");
    assert_eq!(listeners.lost().count(), 0);
    assert!(std::os::unix::net::UnixStream::connect(&path).is_ok());
}
