//! A program serves each connection, or is a service's only client, or the client is at standard input: with the sandbox on, and as inetd
//! and stunnel have it.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use super::support::certificates::KeyKind;
use super::support::client::dial;
use super::support::folder::Folder;
use super::support::proxy::PROGRAM;
use super::support::servers::address_of_ones_own;
use super::support::skip::needs;
use super::support::tools::{self, Tool};
use super::support::*;

/// A backend of `web` that is a shell with a script.
fn shell(config: Config, script: &str) -> Config {
    // These clients do not answer the end of a program, and each would be waited for.
    config.text("service.limits", "half-closed-client", "100ms").set(
        "service",
        "backend",
        format!("{{ program = [\"/bin/sh\", \"-c\", {script:?}] }}"),
    )
}

/// A proxy whose one backend is a script.
fn scripted(folder: &Folder, script: &str) -> Proxy {
    Proxy::start(shell(Config::to(folder, "replaced:1"), script))
}

fn client(proxy: &Proxy) -> Client {
    Client::connect(proxy.address(), &Trust::version(Version::Tls13).config())
}

#[test]
fn each_connection_has_its_own() {
    let folder = Folder::new();
    let proxy = scripted(&folder, "echo hello from $REMOTE_HOST; exec cat");
    let mut clients: Vec<_> = (0..20).map(|_| client(&proxy)).collect();
    for client in &mut clients {
        assert_eq!(client.read_exactly(21), b"hello from 127.0.0.1\n");
    }
    for (number, client) in clients.iter_mut().enumerate() {
        let bytes = vec![number as u8; 100_000];
        client.send(&bytes);
        assert_eq!(client.read_exactly(bytes.len()), bytes);
    }
    clients.into_iter().for_each(Client::finish);
    // The end of a program is the end of its connection.
    let brief = scripted(&folder, "echo bye");
    let ending = client(&brief).read_to_end();
    assert!(ending.is_clean() && ending.bytes == b"bye\n", "{ending:?}");
}

#[test]
fn it_receives_the_clients_certificate() {
    let folder = Folder::new();
    let ca = folder.write("ca.pem", &authority().pem);
    let config = Config::to(&folder, "replaced:1")
        .text("service.client-certificates", "mode", "require")
        .text("service.client-certificates", "ca", ca.display());
    let proxy = Proxy::start(shell(config, "echo $SSL_CLIENT_DN by $SSL_CLIENT_I_DN"));
    let shown = authority().identity_called("Ada", None);
    let trust = Trust::version(Version::Tls13).showing(&shown).config();
    let ending = Client::connect(proxy.address(), &trust).read_to_end();
    let output = String::from_utf8_lossy(&ending.bytes).into_owned();
    assert!(output.starts_with("/CN=Ada by /") && ending.is_clean(), "{output:?} {ending:?}");
}

#[test]
fn one_that_cannot_be_started_aborts_the_connection() {
    let folder = Folder::new();
    let path = folder.write("program", "#!/bin/sh\necho hello\n");
    let config = Config::to(&folder, "replaced:1");
    let config = config.set("service", "backend", format!("{{ program = {path:?} }}"));
    let file = folder.write("checked.toml", config.to_string()).display().to_string();
    let checked = tools::handfast(&["check", "-c", &file]).all();
    assert!(checked.contains("program: cannot be executed: Permission denied"), "{checked}");
    let proxy = Proxy::start(config);
    let ending = client(&proxy).read_to_end();
    assert!(ending.bytes.is_empty() && ending.is_abort(), "{ending:?}");
    let message = proxy.talk.containing("serve a connection");
    assert!(
        message.contains("program: serve a connection: Permission denied") && message.contains("error"),
        "{message}"
    );
    let reason = proxy.record("of the client", |_| true).reason();
    assert!(reason.contains("backend"), "{reason}");
}

/// The sandbox executes nothing: a reload that needs another process is refused with a message, and serving continues.
#[test]
fn a_reload_cannot_add_one() {
    let folder = Folder::new();
    let config = Config::to(&folder, "replaced:1");
    let proxy = Proxy::start(shell(config.clone(), "echo one"));
    proxy.rewrite(shell(config.clone(), "echo two"));
    assert!(!proxy.reload());
    let message = proxy.talk.containing("only a start can add programs");
    assert!(message.contains("service web: the program /bin/sh -c echo two is new"), "{message}");
    assert_eq!(client(&proxy).read_to_end().bytes, b"one\n");
    // The same one, with something else.
    proxy.rewrite(shell(config, "echo one").set("service", "max-connections", 7));
    assert!(proxy.reload());
    assert_eq!(client(&proxy).read_to_end().bytes, b"one\n");
}

/// The process whose number a program says.
fn parent(client: &mut Client) -> rustix::process::Pid {
    let ending = client.read_to_end();
    let number = String::from_utf8_lossy(&ending.bytes).trim().parse().expect("the number of a process");
    rustix::process::Pid::from_raw(number).expect("a process")
}

#[test]
fn a_starter_that_ends_is_started_again() {
    let folder = Folder::new();
    let proxy = scripted(&folder, "echo $PPID");
    let mut starter = parent(&mut client(&proxy));
    for _ in 0..2 {
        rustix::process::kill_process(starter, rustix::process::Signal::KILL).expect("it is of this test");
        wait_until("its end", || rustix::process::test_kill_process(starter).err());
        // A client that connects before the next starter process is ready waits for it.
        let next = parent(&mut client(&proxy));
        assert_ne!(next, starter);
        starter = next;
    }
    let message = proxy.talk.containing("the process that starts programs has ended");
    assert!(message.contains("signal: 9") && message.contains("is started again"), "{message}");
}

/// A program that is the only client of a service.
#[test]
fn a_program_can_be_the_client() {
    let backend = Backend::echo();
    let config = |more: &str| {
        format!(
            "[admin]\nlisten = \"off\"\n[[service]]\nname = \"out\"\nclient-tls = false\nbackend = \"{}\"\n\
             only-client = {{ program = [\"/bin/sh\", \"-c\", \"echo hello; read answer; echo got $answer >&2\"]{more} }}\n",
            backend.address
        )
    };
    let proxy = Proxy::start(config(""));
    proxy.talk.containing("got hello");
    let again = Proxy::start(config(", again = true"));
    wait_until("the third start", || (backend.accepted() >= 4).then_some(()));
    let first: Vec<_> = proxy.talk.so_far().into_iter().filter(|line| line == "got hello").collect();
    assert_eq!(first.len(), 1, "the first was not started again");
    // A shorter delay: ten starts take a tenth of the second that each would have to wait.
    let soon = Proxy::start(config(", again = \"10ms\""));
    let before = backend.accepted();
    wait_until("ten starts", || (backend.accepted() >= before + 10).then_some(()));
    assert_eq!(soon.stop().0, Some(0));
    // The program has ended with its connection, and is not started again.
    assert_eq!(again.stop().0, Some(0));
}

/// Starts a proxy whose client is at these standard input and output.
fn at_standard_input(folder: &Folder, input: Stdio, output: Stdio, errors: Stdio) -> std::process::Child {
    let config = "[admin]\nlisten = \"off\"\n[[service]]\nname = \"in\"\nonly-client = \"stdin\"\nclient-tls = false\n\
                  backend = { program = [\"/bin/sh\", \"-c\", \"echo from $REMOTE_HOST; exec cat\"] }\n";
    let file = folder.write("inetd.toml", config);
    let mut command = Command::new(PROGRAM);
    command.args(["proxy", "-c"]).arg(file).env("RUST_BACKTRACE", "0");
    command.stdin(input).stdout(output).stderr(errors).spawn().expect("it can be started")
}

#[test]
fn the_client_can_be_at_standard_input() {
    let folder = Folder::new();
    let mut child = at_standard_input(&folder, Stdio::piped(), Stdio::piped(), Stdio::null());
    let (mut input, mut output) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
    let bytes: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
    let mut received = Vec::new();
    std::thread::scope(|scope| {
        // It ends its input, too.
        scope.spawn(|| {
            input.write_all(&bytes).expect("it reads all");
            drop(input);
        });
        output.read_to_end(&mut received).expect("it writes until its end");
    });
    assert!(received.strip_prefix(b"from\n") == Some(&bytes), "{} bytes of {}", received.len(), bytes.len());
    assert!(child.wait().expect("it ended").success());
}

/// As inetd(8) does it: the socket is standard input, output and error. Nothing of the log comes to the client.
#[test]
fn a_socket_of_inetd_is_the_client() {
    let folder = Folder::new();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let mut client = dial(listener.local_addr().expect("it listens")).expect("it listens");
    let (socket, _) = listener.accept().expect("there is a client");
    let copy = || Stdio::from(OwnedFd::from(socket.try_clone().expect("a descriptor is free")));
    let mut child = at_standard_input(&folder, copy(), copy(), copy());
    drop(socket);
    client.write_all(b"hello\n").expect("it is connected");
    client.shutdown(std::net::Shutdown::Write).expect("it is connected");
    let mut received = String::new();
    client.read_to_string(&mut received).expect("text until the end");
    assert_eq!(received, "from 127.0.0.1\nhello\n");
    assert!(child.wait().expect("it ended").success());
    // Without an address: a unix socket.
    let (ours, theirs) = UnixStream::pair().expect("descriptors are free");
    let input = theirs.try_clone().expect("a descriptor is free");
    let mut child =
        at_standard_input(&folder, OwnedFd::from(input).into(), OwnedFd::from(theirs).into(), Stdio::null());
    ours.shutdown(std::net::Shutdown::Write).expect("it is connected");
    let mut received = String::new();
    (&ours).read_to_string(&mut received).expect("text until the end");
    assert_eq!(received, "from\n");
    assert!(child.wait().expect("it ended").success());
}

/// stunnel's own ways: a program for each connection, and no section at all.
#[test]
fn stunnel_and_ours_start_the_same_programs() {
    needs!("stunnel4");
    let folder = Folder::new();
    let cert = folder.write("web.pem", authority().identity(&["localhost"], KeyKind::Rsa).combined());
    let config = |listen: std::net::SocketAddr| {
        let global = "foreground = yes\npid =\nsyslog = no\ndebug = err\n";
        format!(
            "{global}[web]\naccept = {listen}\ncert = {}\nexec = /bin/sh\nexecArgs = sh {}\n",
            cert.display(),
            folder.write("script", "echo $REMOTE_HOST; read line; echo $line\n").display()
        )
    };
    let (there, here) = (address_of_ones_own(), address_of_ones_own());
    let theirs = folder.write("theirs.conf", config(there)).display().to_string();
    let ours = folder.write("ours.conf", config(here)).display().to_string();
    let _stunnel = Tool::start("stunnel4", &[&theirs]);
    let _handfast = Tool::start(PROGRAM, &["proxy", "--stunnel", &ours]);
    for address in [there, here] {
        wait_until("it to listen", || dial(address).ok());
        let mut client = Client::connect(address, &Trust::version(Version::Tls13).config());
        client.send(b"hello\n");
        assert_eq!(client.read_exactly(16), b"127.0.0.1\nhello\n", "{address}");
    }
}
