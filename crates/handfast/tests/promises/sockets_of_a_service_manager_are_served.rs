//! Sockets that a service manager opened are served: by the name of a service, or by their address; no client that waits in
//! them is lost when the proxy stops, and one that no service wants is named.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use rustix::process::Signal;

use super::support::folder::Folder;
use super::support::manager::{Manager, Passed};
use super::support::skip::needs;
use super::support::*;

fn start(config: &Config, passed: &Passed) -> Proxy {
    let proxy = Proxy::start_with(config, |command| passed.to(&command));
    passed.are_kept();
    proxy
}

fn is_served(address: std::net::SocketAddr) {
    let mut client = Client::connect(address, &Trust::version(Version::Tls13).config());
    client.echo(b"by an inherited socket");
    client.finish();
}

#[test]
fn by_name_by_address_and_the_admin_page_too() {
    needs!("bash");
    let (folder, backend) = (Folder::new(), Backend::echo());
    let passed = Passed::named(&["web", "", "admin"]);
    let certificate = folder.write("web.pem", certificates::localhost().combined());
    // The service that is named listens elsewhere by its configuration; the other one has the address.
    let config = Config::to(&folder, backend.address)
        .service("mail", backend.address)
        .text("service", "listen", passed.address(1))
        .certificate(&certificate);
    let proxy = start(&config, &passed);
    assert_eq!(proxy.address_of("web"), passed.address(0));
    proxy.talk.containing("from the service manager in place of 127.0.0.1:0");
    assert_eq!(proxy.address_of("mail"), passed.address(1));
    for _ in 0..8 {
        is_served(passed.address(0));
        is_served(passed.address(1));
    }
    assert_eq!(http::get(passed.address(2), "/ready", "*/*").status, 200);
}

#[test]
fn one_that_no_service_wants_is_named() {
    needs!("bash");
    let (folder, backend) = (Folder::new(), Backend::echo());
    let passed = Passed::named(&["web", "ftp"]);
    let proxy = start(&Config::to(&folder, backend.address), &passed);
    let line = proxy.talk.containing("passed a socket that listens on");
    assert!(line.contains(&passed.address(1).to_string()) && line.contains("(named ftp)"), "{line}");
    is_served(passed.address(0));
}

#[test]
fn who_connects_while_no_process_runs_is_served_by_the_next_one() {
    needs!("bash");
    let (folder, backend) = (Folder::new(), Backend::echo());
    let passed = Passed::named(&["web"]);
    let config = Config::to(&folder, backend.address);
    let mut first = start(&config, &passed);
    is_served(passed.address(0));
    first.signal(Signal::TERM);
    assert_eq!(first.ended().code(), Some(0));
    let mut waiting =
        TcpStream::connect_timeout(&passed.address(0), Duration::from_secs(10)).expect("it listens");
    let second = start(&config, &passed);
    // Not TLS, so the process that accepted it answers with an alert.
    waiting.write_all(b"hello there\r\n\r\n").expect("it was not reset");
    waiting.set_read_timeout(Some(DEADLINE)).expect("a duration");
    let _ = waiting.read(&mut [0; 16]);
    second.record("the one who waited", |record| record.reason().starts_with("hello/client/"));
}

#[test]
fn a_service_that_a_reload_takes_away_and_brings_back_is_served_again() {
    needs!("bash");
    let (folder, backend) = (Folder::new(), Backend::echo());
    let passed = Passed::named(&["web", "mail"]);
    let one = Config::to(&folder, backend.address);
    let both = one.clone().service("mail", backend.address).certificate(&folder.file("web.pem"));
    let proxy = start(&both, &passed);
    is_served(passed.address(1));
    proxy.rewrite(&one);
    assert!(proxy.reload());
    proxy.talk.containing("(named mail)");
    proxy.rewrite(&both);
    assert!(proxy.reload());
    is_served(passed.address(1));
    is_served(passed.address(0));
}

#[test]
fn what_is_no_socket_is_named_and_the_others_are_served() {
    needs!("bash");
    let (folder, backend, manager) = (Folder::new(), Backend::echo(), Manager::with_path());
    let proxy = Proxy::start_with(Config::to(&folder, backend.address), |command| {
        let mut shell = std::process::Command::new("bash");
        shell.arg("-c").arg("export LISTEN_PID=$$; exec \"$@\" 3</dev/null").arg("manager");
        shell.arg(command.get_program()).args(command.get_args());
        shell.env("LISTEN_FDS", "2").env("LISTEN_FDNAMES", "null");
        manager.starts(shell)
    });
    proxy.talk.containing("the service manager passed descriptor 3 (named null), which is not a socket");
    proxy.talk.containing("LISTEN_FDS counts descriptor 4, which is not open");
    is_served(proxy.address());
}
