//! File descriptors passed between processes over a unix socket (`SCM_RIGHTS`, unix(7)).

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// Descriptors in one message; the kernel takes 253 (`SCM_MAX_FD`).
const BATCH: usize = 64;
/// Most descriptors that [`receive_descriptors`] accepts in one call.
pub const DESCRIPTORS_LIMIT: usize = 1 << 16;

/// Sends descriptors, which stay open here.
///
/// **Errors**: sendmsg(2).
pub fn send_descriptors(stream: &impl AsFd, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    for batch in descriptors.chunks(BATCH) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(BATCH))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !control.push(SendAncillaryMessage::ScmRights(batch)) {
            return Err(invalid("the descriptors have no room"));
        }
        // They need a byte to go with.
        sendmsg(stream, &[IoSlice::new(b"d")], &mut control, SendFlags::NOSIGNAL)?;
    }
    Ok(())
}

/// Receives `count` descriptors, which are closed when another program is executed. Messages that the peer sends behind them stay in the socket.
///
/// **Errors**: recvmsg(2); fewer or more than were announced, as when this process may have no more open files.
pub fn receive_descriptors(stream: &impl AsFd, count: usize) -> io::Result<Vec<OwnedFd>> {
    if count > DESCRIPTORS_LIMIT {
        return Err(invalid("too many sockets"));
    }
    let mut descriptors = Vec::new();
    while descriptors.len() < count {
        let before = descriptors.len();
        let mut byte = [0];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(BATCH))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received =
            recvmsg(stream, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(some) = message {
                descriptors.extend(some);
            }
        }
        if received.flags.contains(ReturnFlags::CTRUNC) {
            return Err(invalid(
                "not all sockets arrived: this process may have too few open files (ulimit -n, LimitNOFILE=)",
            ));
        }
        if received.bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if descriptors.len() == before {
            return Err(invalid("a byte without a socket"));
        }
    }
    if descriptors.len() == count { Ok(descriptors) } else { Err(invalid("more sockets than announced")) }
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
