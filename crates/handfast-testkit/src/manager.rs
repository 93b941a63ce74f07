//! A service manager as a process sees it: a datagram socket for notifications (sd_notify(3)), and listening
//! sockets that are passed on (sd_listen_fds(3)). In: a command. Out: the same with these, and its notifications.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixDatagram};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};

use crate::deadline::DEADLINE;
use crate::folder::Folder;

/// First number of descriptors that are on their way to another process.
const HIGH: i32 = 200;

/// One datagram: its assignments.
pub type Message = BTreeMap<String, String>;

/// Service manager with a socket on which it receives messages.
pub struct Manager {
    socket: UnixDatagram,
    name: String,
    _folder: Folder,
}

impl Manager {
    /// With a socket in the file system.
    pub fn with_path() -> Self {
        let folder = Folder::new();
        let path = folder.file("notify");
        let socket = UnixDatagram::bind(&path).expect("the folder is writable");
        Self { socket, name: path.display().to_string(), _folder: folder }
    }

    /// With a socket that has a name and no file.
    pub fn without_path() -> Self {
        let folder = Folder::new();
        let name = format!("handfast-test{}", folder.path().display());
        let address = UnixAddress::from_abstract_name(&name).expect("it is short");
        let socket = UnixDatagram::bind_addr(&address).expect("the name is unique");
        Self { socket, name: format!("@{name}"), _folder: folder }
    }

    /// Tells a command where to send messages.
    pub fn starts(&self, mut command: Command) -> Command {
        command.env("NOTIFY_SOCKET", &self.name);
        command
    }

    /// The next message, if one comes within `time`.
    pub fn receive(&self, time: Duration) -> Option<Message> {
        self.socket.set_read_timeout(Some(time)).expect("it is a duration");
        let mut bytes = [0; 4096];
        let length = self.socket.recv(&mut bytes).ok()?;
        let text = String::from_utf8(bytes[..length].to_vec()).expect("messages are text");
        let pair = |line: &str| line.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
        Some(
            text.lines()
                .map(|line| pair(line).unwrap_or_else(|| panic!("not an assignment: {line:?}")))
                .collect(),
        )
    }

    /// Waits for a message that has this assignment; others are passed over.
    pub fn wait_for(&self, key: &str) -> Message {
        let end = Instant::now() + DEADLINE;
        let mut others = Vec::new();
        while Instant::now() < end {
            let Some(message) = self.receive(Duration::from_millis(100)) else { continue };
            if message.contains_key(key) {
                return message;
            }
            others.push(message);
        }
        panic!("waited {DEADLINE:?} for {key}; told meanwhile: {others:?}");
    }
}

/// Sockets that a manager opened: they listen for as long as it lives, whichever process accepts.
pub struct Passed(Vec<(TcpListener, String)>);

impl Passed {
    /// One socket on loopback for each of these names.
    pub fn named(names: &[&str]) -> Self {
        let open = |name: &&str| {
            (TcpListener::bind("127.0.0.1:0").expect("loopback has a free port"), (*name).to_owned())
        };
        Self::of(names.iter().map(open).collect())
    }

    /// Sockets that were opened before, with their names.
    pub fn of(sockets: Vec<(TcpListener, String)>) -> Self {
        // High numbers, which are not those that they are passed as.
        let high = |(socket, name)| {
            let moved = fcntl_dupfd_cloexec(&socket, HIGH).expect("there are descriptors");
            (TcpListener::from(moved), name)
        };
        Self(sockets.into_iter().map(high).collect())
    }

    /// Address of the socket at this place.
    pub fn address(&self, place: usize) -> SocketAddr {
        self.0[place].0.local_addr().expect("it is bound")
    }

    /// Passes them to a command.
    pub fn to(&self, command: &Command) -> Command {
        let mut redirected = String::new();
        for (place, (socket, _)) in self.0.iter().enumerate() {
            // Inherited by the next process that is started.
            fcntl_setfd(socket.as_fd(), FdFlags::empty()).expect("it is open");
            redirected.push_str(&format!(" {}<&{}", place + 3, socket.as_raw_fd()));
        }
        // The program has each of them once.
        for (socket, _) in &self.0 {
            assert!(self.0.len() + 3 < HIGH as usize, "no test passes this many");
            redirected.push_str(&format!(" {}<&-", socket.as_raw_fd()));
        }
        let names: Vec<_> = self.0.iter().map(|(_, name)| name.as_str()).collect();
        let mut shell = Command::new("bash");
        shell.arg("-c").arg(format!("export LISTEN_PID=$$; exec \"$@\"{redirected}")).arg("manager");
        shell.arg(command.get_program()).args(command.get_args());
        shell.env("LISTEN_FDS", names.len().to_string()).env("LISTEN_FDNAMES", names.join(":"));
        shell
    }

    /// Once the command has been started.
    pub fn are_kept(&self) {
        for (socket, _) in &self.0 {
            fcntl_setfd(socket.as_fd(), FdFlags::CLOEXEC).expect("it is open");
        }
    }
}
