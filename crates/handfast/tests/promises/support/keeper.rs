//! A service manager that keeps sockets (`FDSTORE=1`, sd_pid_notify_with_fds(3)). In: what a process says. Out: the sockets that are kept,
//! which listen for as long as they are, and are passed to the next process.

use std::collections::BTreeMap;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::sync::{Arc, Mutex};

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use super::folder::Folder;
use super::manager::Passed;

type StoredSockets = Arc<Mutex<BTreeMap<String, OwnedFd>>>;

/// A service manager's store of sockets: its address and the sockets that it keeps.
pub(crate) struct Keeper {
    path: String,
    kept: StoredSockets,
    _folder: Folder,
}

impl Keeper {
    pub(crate) fn new() -> Self {
        let (folder, kept) = (Folder::new(), StoredSockets::default());
        let path = folder.file("notify");
        let socket = UnixDatagram::bind(&path).expect("the folder is writable");
        let keeps = Arc::clone(&kept);
        // It ends with the tests.
        let receive = move || while receive_message(&socket, &keeps).is_some() {};
        std::thread::Builder::new().name("keeper".into()).spawn(receive).expect("there are threads");
        Self { path: path.display().to_string(), kept, _folder: folder }
    }

    /// Number of sockets that it keeps.
    pub(crate) fn count(&self) -> usize {
        self.kept.lock().expect("no thread panicked").len()
    }

    /// Starts a process with all sockets that are kept, and receives its notifications.
    pub(crate) fn starts(&self, command: Command) -> (Command, Passed) {
        let kept = self.kept.lock().expect("no thread panicked");
        let copy = |socket: &OwnedFd| TcpListener::from(socket.try_clone().expect("there are descriptors"));
        let passed = Passed::of(kept.iter().map(|(name, socket)| (copy(socket), name.clone())).collect());
        let mut command = if kept.is_empty() { command } else { passed.to(&command) };
        command.env("NOTIFY_SOCKET", &self.path);
        (command, passed)
    }
}

/// Does what one message says.
fn receive_message(socket: &UnixDatagram, kept: &StoredSockets) -> Option<()> {
    let (mut bytes, mut space) = ([0; 4096], [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))]);
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut room = [IoSliceMut::new(&mut bytes)];
    let length = recvmsg(socket, &mut room, &mut control, RecvFlags::CMSG_CLOEXEC).ok()?.bytes;
    let mut descriptors = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    let descriptor = descriptors.next().and_then(|mut descriptors| descriptors.next());
    let text = std::str::from_utf8(&bytes[..length]).expect("messages are text");
    let name = text.lines().find_map(|line| line.strip_prefix("FDNAME=")).map(str::to_owned);
    let mut kept = kept.lock().expect("no thread panicked");
    match (text.lines().next(), name, descriptor) {
        (Some("FDSTORE=1"), Some(name), Some(descriptor)) => drop(kept.insert(name, descriptor)),
        (Some("FDSTOREREMOVE=1"), Some(name), None) => drop(kept.remove(&name)),
        (Some("FDSTORE=1" | "FDSTOREREMOVE=1"), ..) => panic!("not as sd_notify(3) has it: {text}"),
        // A barrier's descriptor is closed here, when all that came before it was done.
        _ => {}
    }
    Some(())
}
