//! `handfast log` reads what the proxy wrote: from a file that grows, over its rotation, in memory that does not grow with it. And the
//! log of the machine gets a line for each connection, also after its daemon was restarted, though the proxy is in its sandbox.

use std::io::Write;
use std::os::unix::net::UnixDatagram;

use rustix::process::Signal;

use super::support::backend::Backend;
use super::support::client::{Client, dial};
use super::support::config::Config;
use super::support::deadline::{DEADLINE, wait_until};
use super::support::folder::Folder;
use super::support::proxy::{PROGRAM, Proxy};
use super::support::tools::{self, Tool};
use super::support::trust::{Trust, Version};

/// A proxy that writes its access log there.
fn logging_to(folder: &Folder, to: &str) -> (Proxy, Backend) {
    let backend = Backend::echo();
    let config = Config::to(folder, backend.address).text("access-log", "to", to);
    (Proxy::start(config), backend)
}

/// A connection that closes cleanly.
fn served(proxy: &Proxy) {
    let mut client = Client::connect(proxy.address(), &Trust::version(Version::Tls13).config());
    client.echo(b"hello");
    client.finish();
}

/// A connection that fails.
fn refused(proxy: &Proxy) {
    let mut stream = dial(proxy.address()).expect("it listens");
    stream.write_all(&[0xff; 64]).expect("it takes what is no TLS");
}

#[test]
fn a_file_is_followed_over_its_rotation() {
    let folder = Folder::new();
    let path = folder.file("access.log");
    let name = path.display().to_string();
    let (proxy, _backend) = logging_to(&folder, &name);
    let config = proxy.file.display().to_string();
    // From the beginning, so that nothing depends on who is first.
    let tool = Tool::start(PROGRAM, &["log", "-c", &config, "--follow", "--since", "1h"]);
    refused(&proxy);
    tool.output.containing("hello not-tls: the client sent something that is not TLS");
    std::fs::rename(&path, folder.file("access.log.1")).expect("the folder is ours");
    served(&proxy);
    tool.output.containing("1.3 ");
    proxy.signal(Signal::USR1);
    wait_until("the file to be opened again", || path.exists().then_some(()));
    let seen = tool.output.so_far().len();
    refused(&proxy);
    let found = tool.output.find(seen, "the connection after the rotation", |line| {
        line.contains("not-tls").then(|| line.to_owned())
    });
    assert!(!found.1.contains('…'), "into a pipe nothing is cut: {}", found.1);
    // A file that was copied and truncated begins again (copytruncate).
    std::fs::OpenOptions::new().write(true).truncate(true).open(&path).expect("it is there");
    let seen = tool.output.so_far().len();
    served(&proxy);
    tool.output.find(seen, "the connection after the cut", |line| line.contains("1.3 ").then_some(()));
    drop(tool);
    let both = [folder.file("access.log.1"), path].map(|path| path.display().to_string());
    let ran = tools::handfast(&["log", "--summary", &both[0], &both[1]]);
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    assert!(ran.output.starts_with("3 connections ended from ") && ran.talk.is_empty(), "{}", ran.all());
    let ran = tools::handfast(&["log", "--failures", "--cause", "not-tls", &both[0], &both[1]]);
    assert_eq!(ran.output.lines().count(), 1, "{}", ran.all());
    let ran = tools::handfast(&["log", "--cause", "handshake-deadline", &both[0]]);
    let expected = "warning: --cause: `handshake-deadline` is now called `handshake-timeout`\n";
    assert_eq!((ran.code, &*ran.talk), (Some(0), expected), "{}", ran.all());
    let ran = tools::handfast(&["log", &both[0], "/nowhere", &both[1]]);
    assert_eq!((ran.code, ran.output.lines().count()), (Some(1), 3), "{}", ran.all());
}

#[test]
fn memory_does_not_grow_with_the_log() {
    let line = "{\"time\":\"2026-11-21T22:00:40.688Z\",\"service\":\"web\",\"client\":\"192.0.2.7:38052\",\"seconds\":{\"relay\":0.1},\
                \"reason\":{\"step\":\"relay\",\"side\":\"client\",\"cause\":\"reset\"}}\n";
    let mut tool = Tool::start(PROGRAM, &["log", "-", "--summary"]);
    // A pipe holds 64 KiB, so nearly all was read when all was written.
    tool.send(line.repeat(1_000).as_bytes());
    let before = tool.process().memory();
    for _ in 0..60 {
        tool.send(line.repeat(1_000).as_bytes());
    }
    // And a line without an end.
    tool.send(&vec![b'{'; 32 << 20]);
    let after = tool.process().memory();
    let ran = tool.ended();
    assert!(ran.output.starts_with("61,000 connections ended"), "{}", ran.all());
    assert!(ran.talk.contains("longer than 1,048,576 bytes"), "{}", ran.all());
    assert!(after < before + (6 << 20), "{before} and then {after}");
}

#[test]
fn the_log_of_the_machine_gets_every_line() {
    let folder = Folder::new();
    let path = folder.file("log");
    let bind = || {
        let socket = UnixDatagram::bind(&path).expect("the folder is ours");
        socket.set_read_timeout(Some(DEADLINE)).expect("a time above zero");
        socket
    };
    let received = |socket: &UnixDatagram| {
        let mut buffer = vec![0; 65_536];
        let count = socket.recv(&mut buffer).expect("a datagram comes");
        String::from_utf8_lossy(&buffer[..count]).into_owned()
    };
    for to in ["syslog", "journald"] {
        let daemon = bind();
        let (proxy, _backend) = logging_to(&folder, &format!("{to}:{}", path.display()));
        refused(&proxy);
        let first = received(&daemon);
        assert!(first.contains("handfast-access") && first.contains("\"cause\":\"not-tls\""), "{first}");
        drop(daemon);
        std::fs::remove_file(&path).expect("it is ours");
        refused(&proxy);
        proxy.talk.containing("lines are lost until it works again");
        let daemon = bind();
        served(&proxy);
        assert!(received(&daemon).contains("\"dropped_lines\":1,"));
        let last = received(&daemon);
        assert!(last.contains("\"cause\":\"finished\""), "{last}");
        proxy.talk.containing("access log: writing works again");
        assert!(!proxy.talk.so_far().iter().any(|line| line.contains("sandbox: refused")));
        // Lines that a syslog daemon writes to a file are read back, with any prefix.
        if to == "syslog" {
            let ran = tools::run(PROGRAM, &["log", "-", "--json"], last.as_bytes());
            assert!(ran.output.starts_with("{\"time\"") && ran.talk.is_empty(), "{}", ran.all());
        }
        drop((proxy, daemon));
        std::fs::remove_file(&path).expect("it is ours");
    }
    let config =
        Config::to(&folder, "127.0.0.1:1").text("access-log", "to", format!("syslog:{}", path.display()));
    let config = folder.write("handfast.toml", config.to_string()).display().to_string();
    for command in ["check", "proxy"] {
        let ran = tools::handfast(&[command, "-c", &config]);
        assert_ne!(ran.code, Some(0), "{}", ran.all());
        assert!(ran.talk.contains("open the access log at the socket "), "{}", ran.all());
    }
}

#[test]
fn a_health_check_needs_no_other_program() {
    let folder = Folder::new();
    let (mut proxy, _backend) = logging_to(&folder, "off");
    let admin = proxy.admin().to_string();
    let config = std::fs::read_to_string(&proxy.file).expect("it is there");
    // The admin section comes first.
    let config = config.replacen("listen = \"127.0.0.1:0\"", &format!("listen = \"{admin}\""), 1);
    let file = folder.write("running.toml", config).display().to_string();
    let ran = tools::handfast(&["check", "--ready", "-c", &file]);
    assert_eq!((ran.code, ran.output.trim()), (Some(0), "ready"), "{}", ran.all());
    proxy.signal(Signal::TERM);
    proxy.ended();
    let ran = tools::handfast(&["check", "--ready", "-c", &file]);
    assert_eq!(ran.code, Some(1), "{}", ran.all());
    assert!(
        ran.talk.contains(&format!("check whether the proxy at {admin} is ready: no answer: ")),
        "{}",
        ran.all()
    );
}
