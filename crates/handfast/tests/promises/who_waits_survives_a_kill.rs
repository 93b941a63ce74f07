//! Clients that wait to be accepted survive a kill: a service manager that keeps our listening sockets (`FDSTORE=1`) passes them to the
//! next process, and no client that connects meanwhile is lost. It keeps only the listening sockets: an address that is given up, by a
//! reload, a stop or an upgrade, refuses at once.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU8, Ordering};

use rustix::process::Signal;

use super::support::folder::Folder;
use super::support::keeper::Keeper;
use super::support::skip::needs;
use super::support::upgrade::upgrade;
use super::support::*;

/// An address that is free, and that no other test uses: on loopback, but not where all others are.
fn free() -> SocketAddr {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let ip = Ipv4Addr::new(127, 83, (std::process::id() % 256) as u8, NEXT.fetch_add(1, Ordering::Relaxed));
    let socket = TcpListener::bind((ip, 0)).expect("all of 127.0.0.0/8 is loopback's");
    socket.local_addr().expect("it is bound")
}

fn config(folder: &Folder, backend: &Backend, addresses: &[SocketAddr], threads: u8) -> Config {
    let certificate = folder.write("web.pem", certificates::localhost().combined());
    let mut config = Config::empty()
        .set("process", "threads", threads)
        .text("process", "upgrade-socket", folder.file("upgrade.sock").display())
        .text("process", "drain", "5m");
    for (place, address) in addresses.iter().enumerate() {
        config = config
            .service(&format!("web-{place}"), backend.address)
            .text("service", "listen", address)
            .certificate(&certificate);
    }
    config
}

fn start(keeper: &Keeper, config: &Config) -> Proxy {
    let mut passed = None;
    let proxy = Proxy::start_with(config, |command| {
        let (command, sockets) = keeper.starts(command);
        passed = Some(sockets);
        command
    });
    passed.expect("it was started").are_kept();
    proxy
}

fn keeps(keeper: &Keeper, count: usize) {
    wait_until("the service manager to keep what is accepted from", || {
        (keeper.count() == count).then_some(())
    });
}

/// Opens this number of connections, which only the kernel accepts.
fn connect(address: SocketAddr, count: usize) -> Vec<TcpStream> {
    (0..count).map(|_| TcpStream::connect_timeout(&address, DEADLINE).expect("a process listens")).collect()
}

/// Each of them gets an answer: it is not TLS, so an alert.
fn are_answered(waiting: Vec<TcpStream>) {
    for mut stream in waiting {
        stream.write_all(b"hello there\r\n\r\n").expect("it was not reset");
        stream.set_read_timeout(Some(DEADLINE)).expect("a duration");
        let mut answer = [0; 16];
        let length = stream.read(&mut answer).expect("it is answered");
        assert!(length > 0 && answer[0] == 21, "an alert: {:?}", &answer[..length]);
    }
}

fn is_served(address: SocketAddr) {
    let mut client = Client::connect(address, &Trust::version(Version::Tls13).config());
    client.echo(b"by any process");
    client.finish();
}

/// There is no listener, or soon none: children of other tests may hold for a moment what was on its way to a process of this one.
fn is_refused(address: SocketAddr) {
    let refused = || TcpStream::connect_timeout(&address, DEADLINE).err();
    let why = wait_until("no process to listen there", refused);
    assert_eq!(why.kind(), std::io::ErrorKind::ConnectionRefused, "{why}");
}

#[test]
fn whatever_the_number_of_threads() {
    needs!("bash");
    let (folder, backend, keeper) = (Folder::new(), Backend::echo(), Keeper::new());
    for (before, after) in [(4, 1), (1, 4)] {
        let address = free();
        let mut first = start(&keeper, &config(&folder, &backend, &[address], before));
        keeps(&keeper, before.into());
        first.signal(Signal::KILL);
        first.ended();
        let waiting = connect(address, 40);
        let second = start(&keeper, &config(&folder, &backend, &[address], after));
        second.talk.containing(", kept by the service manager");
        keeps(&keeper, before.max(after).into());
        are_answered(waiting);
        (0..20).for_each(|_| is_served(address));
        second.stop();
        keeps(&keeper, 0);
    }
}

#[test]
fn an_address_that_a_reload_gives_up_refuses() {
    needs!("bash");
    let (folder, backend, keeper) = (Folder::new(), Backend::echo(), Keeper::new());
    let [one, other] = [free(), free()];
    let proxy = start(&keeper, &config(&folder, &backend, &[one, other], 2));
    keeps(&keeper, 4);
    proxy.rewrite(config(&folder, &backend, &[one], 2));
    assert!(proxy.reload());
    is_refused(other);
    assert_eq!(keeper.count(), 2, "before its workers stopped to accept");
    proxy.rewrite(config(&folder, &backend, &[one, other], 2));
    assert!(proxy.reload());
    keeps(&keeper, 4);
    is_served(other);
}

#[test]
fn a_process_that_drains_refuses() {
    needs!("bash");
    let (folder, backend, keeper, address) = (Folder::new(), Backend::echo(), Keeper::new(), free());
    let mut proxy = start(&keeper, &config(&folder, &backend, &[address], 2));
    let mut tunnel = Client::connect(address, &Trust::version(Version::Tls13).config());
    keeps(&keeper, 2);
    proxy.signal(Signal::TERM);
    proxy.talk.containing("stopping: no new connections");
    is_refused(address);
    assert_eq!(keeper.count(), 0);
    tunnel.echo(b"all the while");
    tunnel.finish();
    assert_eq!(proxy.ended().code(), Some(0));
}

#[test]
fn an_address_that_the_next_process_of_a_kill_does_not_want_refuses() {
    needs!("bash");
    let (folder, backend, keeper) = (Folder::new(), Backend::echo(), Keeper::new());
    let [one, other] = [free(), free()];
    let mut first = start(&keeper, &config(&folder, &backend, &[one, other], 2));
    keeps(&keeper, 4);
    first.signal(Signal::KILL);
    first.ended();
    let second = start(&keeper, &config(&folder, &backend, &[one], 2));
    second.talk.containing("and no service of this configuration does");
    keeps(&keeper, 2);
    is_refused(other);
    is_served(one);
}

#[test]
fn after_an_upgrade_too() {
    needs!("bash");
    let (folder, backend, keeper) = (Folder::new(), Backend::echo(), Keeper::new());
    let [one, other] = [free(), free()];
    let mut first = start(&keeper, &config(&folder, &backend, &[one, other], 2));
    keeps(&keeper, 4);
    first.rewrite(config(&folder, &backend, &[one], 3));
    let second = upgrade(&first, &[]).unwrap_or_else(|why| panic!("{why}"));
    assert_eq!(first.ended().code(), Some(0));
    keeps(&keeper, 3);
    is_refused(other);
    is_served(one);
    second.0.signal(Signal::KILL);
    // Its first thread may be gone before the others, and with them its files.
    let socket_path = folder.file("upgrade.sock");
    wait_until("it to end", || std::os::unix::net::UnixStream::connect(&socket_path).is_err().then_some(()));
    let waiting = connect(one, 30);
    let third = start(&keeper, &config(&folder, &backend, &[one], 1));
    are_answered(waiting);
    is_served(one);
    third.stop();
    keeps(&keeper, 0);
}
