//! One address that is listened on, with its sockets.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};

use handfast_net::file_id::FileId;
use handfast_net::listen::{self, GivenSocket, ListeningSocket, More, Origin, Sharing};
use handfast_net::stream::SocketTimeouts;

use super::passed::PassedSocket;
use crate::privileges::ServiceUser;
use handfast_config::model::{Address, Service};

/// One address, how its sockets were made, and the sockets: everything that another process needs to take them over.
#[derive(Debug)]
pub(crate) struct Listening {
    /// As it was bound, with the port that the kernel chose.
    pub(super) address: Address,
    pub(super) origin: Origin,
    pub(super) options: Options,
    /// One for each worker on TCP, with a queue each; one for all of them otherwise.
    ///
    /// Weak: each is open for as long as its worker accepts from it. A socket that is open while no worker accepts (its
    /// service is gone, the program drains, its task has panicked) would take clients that are never served.
    pub(super) descriptors: Vec<Weak<OwnedFd>>,
    /// The file of a unix socket: another process may have replaced it since.
    pub(super) file: Option<FileId>,
}

/// The options that the sockets of an address were made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Permission bits of a unix socket's file.
    pub(crate) mode: u32,
    /// Inherited by accepted connections.
    pub(crate) timeouts: SocketTimeouts,
}

/// A listener, and its sockets for each worker.
pub(super) type Opened = (Listening, Vec<Vec<ListeningSocket>>);

impl Listening {
    /// For the log: the program that opened it, if that was not this process.
    pub(super) fn describe_origin(&self, written: &Address) -> String {
        match self.origin {
            Origin::Bound => String::new(),
            Origin::HandedOver => ", handed over".into(),
            Origin::Kept => ", kept by the service manager".into(),
            Origin::Inherited if self.address == *written => ", from the service manager".into(),
            Origin::Inherited => format!(", from the service manager in place of {written}"),
        }
    }

    /// Whether the file of its unix socket was removed or replaced, and no other process listens there.
    pub(super) fn is_lost(&self) -> bool {
        self.origin.owns_address()
            && self.file.is_some()
            && FileId::of_address(&self.address) != self.file
            && listen::is_unreachable(&self.address)
    }

    /// Removes the file of its unix socket, if it is still the one that this process made or that was passed to it.
    pub(super) fn remove_file(&self) {
        if let Address::Unix(path) = &self.address
            && self.origin.owns_address()
            && self.file.is_some()
            && FileId::of(path) == self.file
        {
            // Another process may have removed it.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Binds an address of a service.
pub(super) fn bind(
    service: &Service,
    address: &Address,
    threads: usize,
    sharing: Sharing,
    user: &ServiceUser,
) -> io::Result<Opened> {
    let options = options(service);
    let bind = || listen::bind(address, options.mode, threads, options.timeouts, sharing);
    let (bound, sockets) = user.bind(address, bind)?;
    let file = FileId::of_address(&bound);
    let sockets: Vec<_> = sockets.into_iter().map(|socket| vec![socket]).collect();
    let descriptors = distinct(&sockets);
    Ok((Listening { address: bound, origin: Origin::Bound, options, descriptors, file }, sockets))
}

/// Makes a listener of sockets that were passed to this process.
pub(super) fn adopt(service: &Service, passed: Vec<PassedSocket>, threads: usize) -> io::Result<Opened> {
    let options = options(service);
    let Some(first) = passed.first() else { return Err(io::ErrorKind::NotFound.into()) };
    let (address, origin) = (first.socket.address().clone(), first.origin);
    let more = if origin == Origin::Inherited { More::No } else { More::IfAllowed };
    let sockets: Vec<GivenSocket> = passed.into_iter().map(|passed| passed.socket).collect();
    let sockets = listen::share_out(sockets, threads, options.timeouts, more)?;
    let descriptors = distinct(&sockets);
    Ok((Listening { address, origin, options, descriptors, file: None }, sockets))
}

fn options(service: &Service) -> Options {
    Options { mode: service.listen_mode, timeouts: service.limits.socket_timeouts() }
}

/// Every socket once, in the order in which they began to listen, however many threads share it.
fn distinct(shares: &[Vec<ListeningSocket>]) -> Vec<Weak<OwnedFd>> {
    let mut distinct: Vec<Arc<OwnedFd>> = Vec::new();
    let rounds = shares.iter().map(Vec::len).max().unwrap_or(0);
    for round in 0..rounds {
        for socket in shares.iter().filter_map(|share| share.get(round)) {
            let socket = socket.descriptor();
            if !distinct.iter().any(|known| Arc::ptr_eq(known, &socket)) {
                distinct.push(socket);
            }
        }
    }
    distinct.iter().map(Arc::downgrade).collect()
}
