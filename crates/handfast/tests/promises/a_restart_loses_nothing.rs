//! A restart loses nothing: a new process starts beside the old one on the same addresses, serves with it, and has the admin
//! address as soon as the old one stops; no connection fails meanwhile.

use std::time::Duration;

use rustix::process::Signal;

use super::support::crowd::Crowd;
use super::support::folder::Folder;
use super::support::network::{Rules, in_a_network_of_its_own};
use super::support::*;

/// Clients that connect, exchange and close cleanly, repeatedly.
fn crowd(proxy: &Proxy) -> Crowd {
    let (address, config) = (proxy.address(), Trust::version(Version::Tls13).config());
    Crowd::start(6, move |_| {
        let mut client = Client::try_connect(address, &config, "localhost")
            .map_err(|refusal| format!("a new connection failed: {refusal:?}"))?;
        client.echo(b"across a restart");
        client.finish();
        Ok(())
    })
}

/// The same configuration, with the addresses that the running one was given.
fn again(config: &Config, running: &Proxy) -> Config {
    config.clone().text("service", "listen", running.address()).text("admin", "listen", running.admin())
}

#[test]
fn started_beside_the_old_one_which_is_then_stopped() {
    let (folder, backend) = (Folder::new(), Backend::echo());
    let tickets = folder.file("tickets.key");
    let config = Config::to(&folder, backend.address).text("tickets", "key-file", tickets.display());
    let mut old = Proxy::start(config.clone());
    let config = again(&config, &old);
    let mut tunnel = Client::connect(old.address(), &Trust::version(Version::Tls13).config());
    let crowd = crowd(&old);
    for round in 1..=3 {
        let new = Proxy::start(&config);
        new.talk.containing("is a Handfast that has the admin address");
        let (served, both) = (crowd.done(), old.records().len() as u64);
        wait_until("both to serve", || {
            let by_old = old.records().len() as u64 > both;
            (by_old && !new.records().is_empty() && crowd.done() > served + 20).then_some(())
        });
        old.signal(Signal::TERM);
        if round == 1 {
            tunnel.echo(b"begun before");
            tunnel.finish();
            tunnel = Client::connect(new.address(), &Trust::version(Version::Tls13).config());
        }
        // The address is the new one's before the old one has ended.
        new.talk.containing("handfast: admin on");
        wait_until("the new one to be ready", || {
            (http::get(new.admin(), "/ready", "*/*").status == 200).then_some(())
        });
        if round > 1 {
            tunnel.echo(b"of the one before");
            tunnel.finish();
            tunnel = Client::connect(new.address(), &Trust::version(Version::Tls13).config());
        }
        assert_eq!(old.ended().code(), Some(0), "round {round}");
        let lost = old.records().iter().filter(|record| !record.reason().ends_with("/finished")).count();
        assert_eq!(lost, 0, "round {round}: {:?}", old.records().last());
        old = new;
    }
    assert!(crowd.finish() > 100);
}

/// Clients whose TCP handshakes are under way when the old process stops; each is with one process or the other by chance.
const UNDER_WAY: u64 = 16;

#[test]
fn a_client_in_the_middle_of_its_tcp_handshake_is_not_lost() {
    in_a_network_of_its_own!();
    let (folder, backend) = (Folder::new(), Backend::echo());
    let config = Config::to(&folder, backend.address);
    let mut old = Proxy::start(config.clone());
    let new = Proxy::start(again(&config, &old));
    let rules = Rules::new();
    let (address, trust) = (old.address(), Trust::version(Version::Tls13).config());
    // The last segment of a TCP handshake is lost on the way, and so is everything after it.
    let last = format!("tcp dport {} tcp flags & (syn | ack) == ack", address.port());
    rules.add("the last segment", &last, "drop");
    std::thread::scope(|scope| {
        let connect = || {
            let mut client = Client::connect(address, &trust);
            client.echo(b"let in by the one or the other");
            client.finish();
        };
        let clients: Vec<_> = (0..UNDER_WAY).map(|_| scope.spawn(connect)).collect();
        wait_until("all handshakes to be under way", || {
            (rules.applied("the last segment") >= 2 * UNDER_WAY).then_some(())
        });
        old.signal(Signal::TERM);
        old.talk.containing("stopping");
        rules.clear();
        for client in clients {
            client.join().expect("its message is above");
        }
    });
    assert_eq!(old.ended().code(), Some(0));
    let served = (old.records().len(), new.records().len());
    assert!(served.0 > 0, "the old one let in those that were its own: {served:?}");
}

#[test]
fn started_while_the_old_one_drains() {
    let stage = Stage::echo();
    let mut tunnel = stage.any_client();
    tunnel.echo(b"before");
    stage.proxy.signal(Signal::TERM);
    wait_until("the listener to be closed", || client::dial(stage.proxy.address()).err().map(|_| ()));
    let new = Proxy::start(again(&stage.config(), &stage.proxy));
    new.talk.containing("handfast: admin on");
    assert_eq!(http::get(new.admin(), "/ready", "*/*").status, 200, "it is the new one's");
    let mut client = Client::connect(new.address(), &Trust::version(Version::Tls13).config());
    client.echo(b"served");
    client.finish();
    tunnel.echo(b"and still there");
    tunnel.finish();
    let mut old = stage.proxy;
    assert_eq!(old.ended().code(), Some(0), "{:?}", old.talk.so_far());
    old.talk.containing("admin: handed over");
}

#[test]
fn a_unix_socket_belongs_to_the_new_one_and_stays_when_the_old_one_ends() {
    let (folder, backend) = (Folder::new(), Backend::echo());
    let path = folder.file("web.sock");
    let config = Config::to(&folder, backend.address).set(
        "service",
        "listen",
        format!("[\"127.0.0.1:0\", \"unix:{}\"]", path.display()),
    );
    let mut old = Proxy::start(config.clone());
    let listen = format!("[\"{}\", \"unix:{}\"]", old.address(), path.display());
    let new = Proxy::start(config.set("service", "listen", listen).text("admin", "listen", old.admin()));
    old.signal(Signal::TERM);
    assert_eq!(old.ended().code(), Some(0));
    let stream = std::os::unix::net::UnixStream::connect(&path).expect("the socket is still there");
    drop(stream);
    new.record_of("hello/client/closed-early");
}

#[test]
fn it_says_not_ready_while_it_still_serves_and_only_then_refuses() {
    let mut stage = Stage::with(Backend::echo(), |config, _| config.text("process", "drain-delay", "1m"));
    stage.proxy.signal(Signal::TERM);
    let answer = wait_until("it to be not ready", || {
        Some(http::get(stage.proxy.admin(), "/ready", "*/*")).filter(|answer| answer.status == 503)
    });
    assert!(answer.body.contains("stopping"), "{answer:?}");
    let mut client = stage.any_client();
    client.echo(b"served although it is not ready");
    assert!(stage.proxy.reload(), "what it serves by can be renewed");
    // A further signal ends the wait, one more would cut.
    stage.proxy.signal(Signal::TERM);
    wait_until("the listener to be closed", || client::dial(stage.proxy.address()).err().map(|_| ()));
    client.echo(b"what was begun goes on");
    pause(Duration::from_millis(100));
    client.finish();
    assert_eq!(stage.proxy.ended().code(), Some(0));
}

#[test]
fn it_refuses_by_itself_when_the_delay_is_over() {
    let mut stage = Stage::with(Backend::echo(), |config, _| config.text("process", "drain-delay", "500ms"));
    let mut client = stage.any_client();
    let answer = http::request(stage.proxy.admin(), "POST", "/drain", "*/*");
    assert_eq!(answer.status, 202, "{answer:?}");
    wait_until("the listener to be closed", || client::dial(stage.proxy.address()).err().map(|_| ()));
    // A service manager's signal after its pre-stop hook changes nothing.
    stage.proxy.signal(Signal::TERM);
    client.echo(b"what was begun goes on");
    client.finish();
    assert_eq!(stage.proxy.ended().code(), Some(0), "{:?}", stage.proxy.talk.so_far());
}
