//! Root trusts nothing of the service user: what answers on the upgrade socket does not decide what `handfast upgrade` executes, and
//! no link in a folder of that user makes a start as root create, change or give away another file.

use std::fs::{self, Permissions};
use std::io::{IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_peercred};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde_json::{Value, json};

use super::support::certificates::localhost;
use super::support::folder::Folder;
use super::support::proxy::PROGRAM;
use super::support::skip::skipped;
use super::support::tools::{self, Ran, Tool};
use super::support::*;

/// A user that every system has and that owns nothing.
const USER: &str = "nobody";
/// Its number in Debian, and that of its group.
const USER_ID: u32 = 65_534;

/// An attacker in the place of the running process.
struct Impostor {
    listener: UnixListener,
    /// Script that the attacker wants root to execute.
    script: PathBuf,
    /// File that the script makes.
    mark: PathBuf,
}

impl Impostor {
    fn new(folder: &Folder) -> Self {
        let listener = UnixListener::bind(folder.file("upgrade.sock")).expect("the path is free");
        set_socket_timeout(&listener, Timeout::Recv, Some(DEADLINE)).expect("it is a socket");
        let mark = folder.file("executed");
        let script = folder.write("script", format!("#!/bin/sh\ntouch {}\n", mark.display()));
        fs::set_permissions(&script, Permissions::from_mode(0o755)).expect("it is ours");
        Self { listener, script, mark }
    }

    /// The next connection, and what it asks for.
    fn accept(&self) -> (UnixStream, Value) {
        let (stream, _) = self.listener.accept().expect("a process asks");
        stream.set_read_timeout(Some(DEADLINE)).expect("it is a socket");
        let ask = receive(&stream);
        (stream, ask)
    }

    /// Wants its script to be executed, with a file of the kernel for its errors.
    fn request_launch(&self, stream: &UnixStream) {
        let launch = json!({ "launch": {
            "program": self.script, "arguments": ["proxy"], "folder": self.script.parent(),
        }});
        send(stream, &launch);
        let (_, writer) = std::io::pipe().expect("there are descriptors");
        let kernel = fs::File::open("/proc/self/uid_map").expect("every process has it");
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors = [writer.as_fd(), kernel.as_fd()];
        assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
        sendmsg(stream, &[IoSlice::new(b"d")], &mut control, SendFlags::NOSIGNAL).expect("it listens");
    }
}

fn send(mut stream: &UnixStream, message: &Value) {
    let text = message.to_string();
    let length = u32::try_from(text.len()).expect("it is short");
    stream
        .write_all(&length.to_be_bytes())
        .and_then(|()| stream.write_all(text.as_bytes()))
        .expect("it listens");
}

fn receive(mut stream: &UnixStream) -> Value {
    let mut length = [0; 4];
    stream.read_exact(&mut length).expect("it speaks");
    let mut text = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut text).expect("all of it");
    serde_json::from_slice(&text).expect("JSON")
}

fn configuration(folder: &Folder) -> PathBuf {
    let config = Config::to(folder, "127.0.0.1:9").text("process", "user", USER).text(
        "process",
        "upgrade-socket",
        folder.file("upgrade.sock").display(),
    );
    folder.write("handfast.toml", config.to_string())
}

/// Starts `handfast upgrade` with these words.
fn upgrade(words: &[&str]) -> Tool {
    let arguments: Vec<&str> = std::iter::once("upgrade").chain(words.iter().copied()).collect();
    Tool::start(PROGRAM, &arguments)
}

fn failed(ran: &Ran) -> &str {
    assert_eq!(ran.code, Some(1), "{}", ran.all());
    &ran.talk
}

#[test]
fn an_answer_does_not_decide_what_is_executed() {
    let folder = Folder::new();
    let (answerer, file) = (Impostor::new(&folder), configuration(&folder));
    let outcome = upgrade(&["-c", &file.display().to_string()]);
    let (stream, ask) = answerer.accept();
    assert_eq!(ask["ask"], json!({ "start": { "program": null } }));
    answerer.request_launch(&stream);
    // The new process requests to take over, and is the program of the command, with its configuration.
    let (taker, ask) = answerer.accept();
    assert_eq!(ask["ask"], json!("take-over"));
    let process = socket_peercred(&taker).expect("it is a unix socket").pid;
    let of_process = |name: &str| format!("/proc/{}/{name}", process.as_raw_nonzero());
    let program = fs::read_link(of_process("exe")).expect("it waits for an answer");
    assert_eq!(program, Path::new(PROGRAM).canonicalize().expect("it is there"));
    let words = fs::read_to_string(of_process("cmdline")).expect("it waits for an answer");
    let socket = folder.file("upgrade.sock");
    let expected = format!("proxy\0--config\0{}\0--take-over\0{}\0", file.display(), socket.display());
    assert_eq!(words.split_once('\0').map(|(_, arguments)| arguments), Some(&*expected));
    let errors = fs::read_link(of_process("fd/2")).expect("it waits for an answer");
    assert_eq!(errors, Path::new("/dev/null"), "a file of the kernel is nothing to write a log to");
    send(&taker, &json!({ "refused": { "why": "\u{1b}[2Jno" } }));
    send(&stream, &json!({ "refused": { "why": "\u{1b}[2Jno" } }));
    let ran = outcome.ended();
    let talk = failed(&ran);
    assert!(talk.contains("keeps serving: \u{fffd}[2Jno"), "nothing that a terminal obeys: {talk:?}");
    assert!(!answerer.mark.exists(), "the attacker's script ran");
}

#[test]
fn only_a_program_that_nobody_else_can_change_is_executed() {
    let folder = Folder::new();
    let (answerer, file) = (Impostor::new(&folder), configuration(&folder));
    fs::set_permissions(&answerer.script, Permissions::from_mode(0o777)).expect("it is ours");
    let (file, script) = (file.display().to_string(), answerer.script.display().to_string());
    let outcome = upgrade(&["-c", &file, "--program", &script]);
    let (stream, _) = answerer.accept();
    answerer.request_launch(&stream);
    let ran = outcome.ended();
    let talk = failed(&ran);
    assert!(talk.contains("other users than root can change the file"), "{talk}");
    assert!(!answerer.mark.exists(), "the script of another user ran");
}

#[test]
fn without_a_configuration_nothing_is_executed() {
    let folder = Folder::new();
    let answerer = Impostor::new(&folder);
    let plain = Config::to(&folder, "127.0.0.1:9").text(
        "process",
        "upgrade-socket",
        folder.file("upgrade.sock").display(),
    );
    let plain = folder.write("plain.toml", plain.to_string()).display().to_string();
    let socket = folder.file("upgrade.sock").display().to_string();
    // One without process.user would serve as root.
    for words in [["--socket", &*socket], ["-c", &*plain]] {
        let outcome = upgrade(&words);
        let (stream, _) = answerer.accept();
        answerer.request_launch(&stream);
        let ran = outcome.ended();
        let talk = failed(&ran);
        assert!(talk.contains("it cannot start the new process as root"), "{talk}");
    }
    assert!(!answerer.mark.exists());
}

#[test]
fn one_that_ends_without_an_answer_is_not_reported_as_serving() {
    let folder = Folder::new();
    let (answerer, file) = (Impostor::new(&folder), configuration(&folder));
    let requested = upgrade(&["-c", &file.display().to_string()]);
    drop(answerer.accept());
    let ran = requested.ended();
    let talk = failed(&ran);
    assert!(talk.contains("outcome unknown: the other process has ended"), "{talk}");
    assert!(!talk.contains("keeps serving"), "{talk}");
}

/// A folder that the service user owns, and beside it what is root's.
struct Trap {
    folder: Folder,
    of_user: PathBuf,
    of_root: PathBuf,
}

const SECRET: &str = "root alone reads this\n";

impl Trap {
    fn new() -> Self {
        let folder = Folder::new();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("it is ours");
        let (of_user, of_root) = (folder.folder("user"), folder.folder("root"));
        chown(&of_user, Some(USER_ID), Some(USER_ID)).expect("root may");
        fs::set_permissions(&of_root, Permissions::from_mode(0o700)).expect("it is ours");
        folder.write("root/secret", SECRET);
        Self { folder, of_user, of_root }
    }

    fn secret(&self) -> PathBuf {
        self.of_root.join("secret")
    }

    /// A configuration that has every kind of file that a start makes or opens in the folder of the user.
    fn config(&self) -> Config {
        let file = |name: &str| self.of_user.join(name).display().to_string();
        Config::to(&self.folder, "127.0.0.1:9")
            .text("service", "listen", format!("unix:{}", file("web.sock")))
            .text("admin", "listen", format!("unix:{}", file("admin.sock")))
            .text("access-log", "to", file("access.log"))
            .text("tickets", "key-file", file("tickets.key"))
            .text("process", "upgrade-socket", file("upgrade.sock"))
            .text("process", "user", USER)
    }

    /// Names, metadata and content of root's files.
    fn seen(&self) -> Vec<(PathBuf, u32, u32, u32, Vec<u8>)> {
        let entries = fs::read_dir(&self.of_root).expect("it is ours");
        let mut seen: Vec<_> = entries
            .map(|entry| {
                let path = entry.expect("it is ours").path();
                let of = fs::symlink_metadata(&path).expect("it is there");
                let text = fs::read(&path).unwrap_or_default();
                (path, of.uid(), of.gid(), of.mode(), text)
            })
            .collect();
        seen.sort();
        seen
    }

    /// Starts the proxy, until it serves or has ended; what it says.
    fn start(&self) -> Vec<String> {
        let file = self.folder.write("handfast.toml", self.config().to_string());
        let proxy = Tool::start(PROGRAM, &["proxy", "-c", &file.display().to_string()]);
        let is_over = |line: &str| line.ends_with("ready") || line.contains("error");
        let output = || proxy.talk.so_far();
        wait_until("it to serve or to refuse", || output().iter().any(|line| is_over(line)).then_some(()));
        output()
    }
}

/// Skips where the user cannot be changed.
macro_rules! needs_root {
    () => {
        if !rustix::process::geteuid().is_root() {
            skipped!("only root becomes another user");
        }
    };
}

#[test]
fn no_link_gives_away_a_file_of_root() {
    needs_root!();
    let names = ["access.log", "tickets.key", ".tickets.key.lock", "web.sock", "admin.sock", "upgrade.sock"];
    for name in names {
        for kind in ["link", "hard link", "link to nothing"] {
            let trap = Trap::new();
            let at = trap.of_user.join(name);
            match kind {
                "link" => symlink(trap.secret(), &at),
                "hard link" => fs::hard_link(trap.secret(), &at),
                _ => symlink(trap.of_root.join("new"), &at),
            }
            .expect("the folder is ours");
            let before = trap.seen();
            let output = trap.start();
            assert_eq!(trap.seen(), before, "{kind} at {name}: {}", output.join("\n"));
        }
    }
}

#[test]
fn what_is_made_in_a_folder_of_the_user_is_the_users() {
    needs_root!();
    let trap = Trap::new();
    let output = trap.start();
    assert!(output.last().is_some_and(|line| line.ends_with("ready")), "{}", output.join("\n"));
    for name in ["access.log", "tickets.key", "web.sock", "admin.sock", "upgrade.sock"] {
        let found =
            fs::symlink_metadata(trap.of_user.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(found.uid(), USER_ID, "{name}");
    }
}

#[test]
fn what_root_made_where_only_root_can_replace_it_is_handed_over_unless_it_has_other_names() {
    needs_root!();
    let trap = Trap::new();
    let log = trap.folder.write("access.log", "");
    let config = trap.config().text("access-log", "to", log.display());
    let file = trap.folder.write("handfast.toml", config.to_string()).display().to_string();
    fs::hard_link(&log, trap.folder.file("another")).expect("the folder is ours");
    let ran = tools::run_command(std::process::Command::new(PROGRAM).args(["proxy", "-c", &file]), b"");
    assert!(failed(&ran).contains("it has 2 names (hard links), expected one"), "{}", ran.talk);
    assert_eq!(fs::metadata(&log).expect("it is there").uid(), 0);
    fs::remove_file(trap.folder.file("another")).expect("it is ours");
    let proxy = Tool::start(PROGRAM, &["proxy", "-c", &file]);
    wait_until("it to serve", || {
        proxy.talk.so_far().iter().any(|line| line.ends_with("ready")).then_some(())
    });
    assert_eq!(fs::metadata(&log).expect("it is there").uid(), USER_ID);
}

#[test]
fn a_key_that_the_user_links_to_is_not_served() {
    needs_root!();
    let trap = Trap::new();
    trap.folder.write("root/other.pem", localhost().combined());
    let at = trap.of_user.join("web.pem");
    symlink(trap.of_root.join("other.pem"), &at).expect("the folder is ours");
    let config = Config::empty().service("web", "127.0.0.1:9").certificate(&at).text("process", "user", USER);
    let apart = config.clone().text("process", "private-keys", "separate-process");
    let modes = [
        (config, "must not read what root reads there"),
        (apart.clone(), "web.pem"),
        (apart.text("process", "sandbox", "off"), "is outside of what the configuration of the start named"),
    ];
    for (config, expected) in modes {
        let file = trap.folder.write("handfast.toml", config.to_string()).display().to_string();
        let ran = tools::run_command(std::process::Command::new(PROGRAM).args(["proxy", "-c", &file]), b"");
        assert_eq!(ran.code, Some(2), "{}", ran.all());
        assert!(ran.talk.contains(expected), "{expected}: {}", ran.talk);
    }
    let password = trap.of_user.join("password");
    symlink(trap.secret(), &password).expect("the folder is ours");
    let config = Config::to(&trap.folder, "127.0.0.1:9")
        .text("service.connect-through", "type", "socks5")
        .text("service.connect-through", "address", "127.0.0.1:9")
        .text("service.connect-through", "user", "bob")
        .text("service.connect-through", "password-file", password.display())
        .text("process", "user", USER);
    let file = trap.folder.write("handfast.toml", config.to_string()).display().to_string();
    let ran = tools::run_command(std::process::Command::new(PROGRAM).args(["proxy", "-c", &file]), b"");
    assert_eq!(ran.code, Some(2), "{}", ran.all());
    assert!(ran.talk.contains("password: cannot be read: Permission denied"), "{}", ran.talk);
    // Its own file is read, by whatever link.
    fs::remove_file(&at).expect("the folder is ours");
    let own = trap.folder.write("user/own.pem", localhost().combined());
    chown(&own, Some(USER_ID), Some(USER_ID)).expect("root may");
    symlink("own.pem", &at).expect("the folder is ours");
    for mode in ["in-process", "separate-process"] {
        let config = Config::empty()
            .service("web", "127.0.0.1:9")
            .certificate(&at)
            .text("process", "user", USER)
            .text("process", "private-keys", mode);
        let _ready = Proxy::start(config);
    }
}
