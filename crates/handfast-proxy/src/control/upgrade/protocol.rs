//! The messages of a take-over between two processes, and their bounds.
//!
//! A message is its length (four bytes, the highest first) and JSON. Both sides name the version of the protocol in their first
//! message; a field that a side does not know is skipped.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use rustix::net::sockopt;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::control::maintenance::CommandRecord;
use handfast_config::model::Address;
use handfast_fleet::Tag;

pub(crate) const PROTOCOL_VERSION: u32 = 1;
/// Bytes of a message: ten thousand services with their keys and standings are far below.
const MAX_MESSAGE_BYTES: u32 = 16 << 20;
pub(crate) const MESSAGE_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout until a new process serves: it reads its configuration and all certificates.
pub(crate) const READY_TIMEOUT: Duration = Duration::from_secs(60);

/// The first message, to the running process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Opening {
    pub(crate) protocol: u32,
    pub(crate) version: String,
    pub(crate) process: u32,
    pub(crate) ask: UpgradeRequest,
}

impl Opening {
    pub(crate) fn new(ask: UpgradeRequest) -> Self {
        let version = env!("CARGO_PKG_VERSION").into();
        Self { protocol: PROTOCOL_VERSION, version, process: std::process::id(), ask }
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum UpgradeRequest {
    TakeOver,
    /// Start a process that takes over: this program, or its own again.
    Start {
        program: Option<PathBuf>,
    },
    /// Receive the counters of a previous process.
    #[serde(rename = "hear")]
    Counters,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum UpgradeReply {
    /// The offer; its descriptors follow.
    Offer(Box<Offer>),
    /// The new process serves from now on.
    Go,
    /// It has taken over: in words.
    Done { text: String },
    /// Nothing has changed: why.
    Refused { why: String },
    /// The process that asks starts it, being allowed more than this one; two descriptors follow, for its outputs. What to start
    /// is not part of it: a process with more rights must not rely on the answer of one with fewer.
    Launch {},
}

/// The message of the new process, once it has the offer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum TakerMessage {
    /// Every one of its workers accepts, from the sockets of these addresses.
    Ready {
        addresses: Vec<WireAddress>,
        /// True if the new process continues from the counters that it receives.
        #[serde(default)]
        counts: bool,
    },
    Failed {
        why: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum WireAddress {
    Ip(SocketAddr),
    Unix(PathBuf),
}

impl From<&Address> for WireAddress {
    fn from(address: &Address) -> Self {
        match address {
            Address::Ip(address) => Self::Ip(*address),
            Address::Unix(path) => Self::Unix(path.clone()),
        }
    }
}

impl From<WireAddress> for Address {
    fn from(place: WireAddress) -> Self {
        match place {
            WireAddress::Ip(address) => Self::Ip(address),
            WireAddress::Unix(path) => Self::Unix(path),
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Offer {
    pub(crate) protocol: u32,
    pub(crate) version: String,
    pub(crate) process: u32,
    /// One for each descriptor, in the same order.
    pub(crate) sockets: Vec<Socket>,
    /// Ticket keys that are in memory alone.
    pub(crate) keys: Vec<Keys>,
    pub(crate) standings: Vec<ServiceStandings>,
    /// Commands that put services in maintenance.
    #[serde(default)]
    pub(crate) maintenance: Option<Vec<CommandRecord>>,
    /// True if counters are sent afterwards.
    #[serde(default)]
    pub(crate) counts: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Role {
    Service,
    Admin,
    Upgrade,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Socket {
    pub(crate) role: Role,
    /// The service that it was accepted for, or the service manager's name for it.
    pub(crate) name: Option<String>,
    /// Its address as it is written in the configuration.
    pub(crate) written: Option<WireAddress>,
    /// True if a service manager opened it.
    pub(crate) inherited: bool,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Keys {
    pub(crate) rotate: Duration,
    pub(crate) lifetime: Duration,
    /// The fleet whose machines have them too.
    #[serde(default)]
    pub(crate) fleet: Option<Tag>,
    /// As in a file of ticket keys.
    pub(crate) text: String,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keys").field("rotate", &self.rotate).finish_non_exhaustive()
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ServiceStandings {
    pub(crate) service: String,
    /// States that an operator has requested: `drain`, `down`, `up`, by a backend's name.
    #[serde(rename = "wishes")]
    pub(crate) operator_states: Vec<(String, String)>,
    pub(crate) down: Vec<crate::backends::standing::TransferredStanding>,
}

/// Checks that the peer runs as root or as the user of this process.
pub(crate) fn check_peer(stream: impl AsFd) -> io::Result<()> {
    let peer = sockopt::socket_peercred(stream)?;
    let (theirs, ours) = (peer.uid, rustix::process::geteuid());
    if theirs.is_root() || theirs == ours {
        return Ok(());
    }
    let what = format!("user {} must not ask, only root and user {} may", theirs.as_raw(), ours.as_raw());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, what))
}

/// Sets the timeout of each read and write.
pub(crate) fn set_timeout(stream: &UnixStream, timeout: Duration) -> io::Result<()> {
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))
}

/// Sends a message.
pub(crate) fn send(mut stream: &UnixStream, message: &impl Serialize) -> io::Result<()> {
    let text = serde_json::to_vec(message)?;
    let length = u32::try_from(text.len()).ok().filter(|length| *length <= MAX_MESSAGE_BYTES);
    let length = length.ok_or_else(|| odd("the message is too long"))?;
    stream.write_all(&length.to_be_bytes())?;
    stream.write_all(&text)
}

/// Receives a message; nothing behind it is read. **Errors**: read(2), an end, a message that is too long or not understood.
pub(crate) fn receive<M: DeserializeOwned>(mut stream: &UnixStream) -> io::Result<M> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length);
    if length > MAX_MESSAGE_BYTES {
        return Err(odd("the message is too long"));
    }
    let mut text = Vec::new();
    // Bytes that are announced and do not arrive take no memory.
    let read = stream.take(length.into()).read_to_end(&mut text)?;
    if read as u64 != u64::from(length) {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_slice(&text)?)
}

fn odd(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// An error of reading or writing, as the other side's user reads it.
pub(crate) fn describe(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
            "the other process has ended, or closed the connection".into()
        }
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "it did not answer in time".into(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use handfast_net::descriptors::{DESCRIPTORS_LIMIT, receive_descriptors, send_descriptors};

    use super::*;

    fn pair() -> (UnixStream, UnixStream) {
        let (one, other) = UnixStream::pair().expect("a pair");
        for stream in [&one, &other] {
            set_timeout(stream, Duration::from_secs(10)).expect("a duration");
        }
        (one, other)
    }

    #[test]
    fn messages_and_descriptors_arrive_in_their_order() {
        let (one, other) = pair();
        let files: Vec<_> =
            (0..150).map(|_| std::fs::File::open("/dev/null").expect("it is there")).collect();
        let fds: Vec<_> = files.iter().map(AsFd::as_fd).collect();
        send(&one, &UpgradeReply::Done { text: "before".into() }).expect("room");
        send_descriptors(&one, &fds).expect("room");
        send(&one, &UpgradeReply::Go).expect("room");
        assert!(matches!(receive(&other), Ok(UpgradeReply::Done { text }) if text == "before"));
        let received = receive_descriptors(&other, 150).expect("they were sent");
        assert_eq!(received.len(), 150);
        assert!(received.iter().all(|fd| fd.as_raw_fd() > 2));
        assert!(matches!(receive(&other), Ok(UpgradeReply::Go)));
    }

    #[test]
    fn what_is_too_long_cut_short_or_not_understood_is_refused() {
        let (one, other) = pair();
        (&one).write_all(&[0xff; 4]).expect("room");
        assert_eq!(
            receive::<UpgradeReply>(&other).expect_err("too long").to_string(),
            "the message is too long"
        );
        let (one, other) = pair();
        (&one).write_all(b"\0\0\0\x09\"go\"").expect("room");
        drop(one);
        let error = receive::<UpgradeReply>(&other).expect_err("cut short");
        assert_eq!(describe(&error), "the other process has ended, or closed the connection");
        let (one, other) = pair();
        (&one).write_all(b"\0\0\0\x04what").expect("room");
        assert!(receive::<UpgradeReply>(&other).is_err());
        let (one, other) = pair();
        (&one).write_all(b"dd").expect("room");
        assert_eq!(receive_descriptors(&other, 1).expect_err("none").to_string(), "a byte without a socket");
        assert!(receive_descriptors(&other, DESCRIPTORS_LIMIT + 1).is_err());
    }
}
