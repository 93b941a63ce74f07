//! The listening sockets of the process: bound and kept by the control thread, accepted from by the workers.
//!
//! In: the addresses of a configuration. Out: sockets for the new addresses, one for each worker. A socket whose address stays is not
//! touched, so its queue of clients is never dropped; a socket whose address is gone is closed by the workers once its queue is empty.
//!
//! ```text
//! Listeners ── snapshot() ─▶ ListenerSnapshot ── plan(config) ─▶ ListenPlan ── adopt() ─▶ Listeners, and a share for each worker
//!  (owns)                     (values)                            (bound, not in use yet)
//! ```

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};

use handfast_net::file_id::FileId;
use handfast_net::listen::{self, GivenSocket, ListeningSocket, More, Origin, Sharing};
use handfast_net::stream::SocketTimeouts;

use crate::error::Error;
use crate::log_lines::REPORT;
use crate::privileges::ServiceUser;
use handfast_config::model::{Address, Config, Service};

mod passed;

pub use passed::{ListenerId, PassedSocket, PassedSockets};

/// The sockets for one worker.
pub type Share = Vec<(ListenerId, ListeningSocket)>;

/// The addresses that are listened on, each with its sockets.
#[derive(Debug, Default)]
pub struct Listeners {
    listening: HashMap<ListenerId, Listening>,
    /// True if another Handfast serves here, which this one replaces.
    has_predecessor: bool,
    /// Everything that was passed at the start; later only the sockets of a service manager, also those that no service uses.
    passed: PassedSockets,
}

/// The present listeners as values, from which any thread can make a plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListenerSnapshot {
    bound: HashMap<ListenerId, Address>,
    /// Those of them whose file was removed: bound again where that is possible.
    lost: HashSet<ListenerId>,
    has_predecessor: bool,
    passed: PassedSockets,
}

/// Sockets that were bound and are not in use yet. Dropping it closes them, and removes the files that were made.
#[derive(Debug)]
pub struct ListenPlan {
    kept: HashSet<ListenerId>,
    /// The new ones, in the order of the configuration.
    new: Vec<(ListenerId, Listening)>,
    shares: Vec<Share>,
}

impl ListenerSnapshot {
    /// Binds the addresses of `config` that are not bound yet, for this number of workers.
    ///
    /// A unix socket that lost its file and cannot be bound again stays as it is: no reload is refused for it.
    ///
    /// **Errors**: every address that could not be bound, each with a hint where there is one. Nothing has changed then.
    pub fn plan(&self, config: &Config, threads: usize) -> Result<ListenPlan, Error> {
        let mut plan = ListenPlan {
            kept: HashSet::new(),
            new: Vec::new(),
            shares: (0..threads).map(|_| Vec::new()).collect(),
        };
        let mut problems = Vec::new();
        let user = ServiceUser::from(&config.process);
        let mut passed = self.passed.clone().assign(config);
        crate::log_lines::log_warnings(&passed.problems());
        let listeners =
            config.services.iter().flat_map(|service| service.listen.iter().map(move |at| (service, at)));
        for (service, address) in listeners {
            let id = ListenerId::new(&service.name, address);
            let is_lost = self.lost.contains(&id);
            if self.bound.contains_key(&id) && !is_lost {
                plan.kept.insert(id);
                continue;
            }
            let listening = match passed.by_listener.remove(&id) {
                Some(passed) => adopt(service, passed, threads),
                None => bind(service, address, threads, self.sharing(address), &user),
            };
            match listening {
                Ok((listening, sockets)) => plan.add(id, listening, sockets),
                Err(source) if is_lost => {
                    tracing::error!(target: REPORT, "{}; no client can connect there", failed(&id, source));
                    plan.kept.insert(id);
                }
                Err(source) => problems.push(failed(&id, source)),
            }
        }
        if problems.is_empty() { Ok(plan) } else { Err(Error::ListenOnSeveral(problems)) }
    }

    /// An address that moves from one service to another is bound again while it is still in use.
    fn sharing(&self, address: &Address) -> Sharing {
        let ours = self.bound.values().any(|bound| bound == address);
        match (ours, self.has_predecessor) {
            (true, _) => Sharing::WithOurselves,
            (false, true) => Sharing::WithAnother,
            (false, false) => Sharing::Alone,
        }
    }
}

impl ListenPlan {
    fn add(&mut self, id: ListenerId, listening: Listening, sockets: Vec<Vec<ListeningSocket>>) {
        for (share, sockets) in self.shares.iter_mut().zip(sockets) {
            share.extend(sockets.into_iter().map(|socket| (id.clone(), socket)));
        }
        self.new.push((id, listening));
    }
}

impl Listeners {
    /// For a process that these sockets were passed to. `has_predecessor`: another Handfast may listen, which this one replaces.
    pub fn new(has_predecessor: bool, passed: PassedSockets) -> Self {
        Self { has_predecessor, passed, ..Self::default() }
    }

    /// The present listeners as values.
    pub fn snapshot(&self) -> ListenerSnapshot {
        let bound = |(id, listening): (&ListenerId, &Listening)| (id.clone(), listening.address.clone());
        let lost = self.listening.iter().filter(|(_, listening)| listening.is_lost());
        ListenerSnapshot {
            bound: self.listening.iter().map(bound).collect(),
            lost: lost.map(|(id, _)| id.clone()).collect(),
            has_predecessor: self.has_predecessor,
            passed: self.passed.clone(),
        }
    }

    /// Unix sockets that no client can connect to any more, because their file was removed: a reload binds them again.
    pub fn lost(&self) -> impl Iterator<Item = &Address> {
        self.listening.values().filter(|listening| listening.is_lost()).map(|listening| &listening.address)
    }

    /// The predecessor has ended: from now on this process shares no address that a reload adds.
    pub fn predecessor_ended(&mut self) {
        self.has_predecessor = false;
    }

    /// Puts a plan into effect, and returns the sockets for each worker, which accept from now on.
    ///
    /// **Errors**: listen(2). Nothing has changed then.
    pub fn adopt(&mut self, mut plan: ListenPlan) -> Result<Vec<Share>, Error> {
        for (id, socket) in plan.shares.iter().flatten() {
            socket.begin().map_err(|source| failed(id, source))?;
        }
        let mut before = std::mem::take(&mut self.listening);
        // Taken out, so that dropping the plan removes no file.
        for (id, mut listening) in std::mem::take(&mut plan.new) {
            tracing::info!(
                target: REPORT,
                "listening on {} (service {}){}",
                listening.address,
                id.service,
                listening.describe_origin(&id.address)
            );
            // Not before: until this process serves, the file belongs to the process that made it.
            listening.file = listening.file.or_else(|| FileId::of_address(&listening.address));
            self.listening.insert(id, listening);
        }
        for id in std::mem::take(&mut plan.kept) {
            self.listening.extend(before.remove_entry(&id));
        }
        for gone in before.into_values() {
            let moved = self.listening.values().any(|listening| listening.address == gone.address);
            if !moved {
                tracing::info!(target: REPORT, "no longer listening on {}", gone.address);
                gone.remove_file();
            }
        }
        // The previous process closes what it passed and no listener uses.
        self.passed.keep_inherited();
        Ok(std::mem::take(&mut plan.shares))
    }

    /// The addresses of a service as they are bound.
    pub fn of_service(&self, service: &Service) -> Vec<String> {
        let bound = |address: &Address| self.listening.get(&ListenerId::new(&service.name, address));
        service.listen.iter().filter_map(bound).map(|listening| listening.address.to_string()).collect()
    }

    /// Every socket that a worker still accepts from, with its listener, its origin and its options: everything that another process
    /// needs to serve in place of this one. A socket stays open for as long as the descriptor is held.
    pub fn descriptors(&self) -> impl Iterator<Item = (&ListenerId, Origin, Options, Arc<OwnedFd>)> + '_ {
        self.listening.iter().flat_map(|(id, listening)| {
            let open = listening.descriptors.iter().filter_map(Weak::upgrade);
            open.map(move |socket| (id, listening.origin, listening.options, socket))
        })
    }

    /// The sockets that a worker accepts from, at these addresses or, with `None`, at all addresses, without those that a service manager
    /// opened.
    pub fn own(&self, at: Option<&[Address]>) -> Vec<Arc<OwnedFd>> {
        let is_own = |listening: &&Listening| {
            listening.origin != Origin::Inherited && at.is_none_or(|at| at.contains(&listening.address))
        };
        let listening = self.listening.values().filter(is_own);
        listening.flat_map(|listening| listening.descriptors.iter().filter_map(Weak::upgrade)).collect()
    }

    /// The sockets of a service manager, in use or not.
    pub fn inherited(&self) -> &[PassedSocket] {
        &self.passed.sockets
    }

    /// The addresses of sockets that this process did not make.
    pub fn not_ours(&self) -> impl Iterator<Item = &Address> {
        let foreign = self.listening.values().filter(|listening| listening.origin != Origin::Bound);
        foreign.map(|listening| &listening.address)
    }

    /// Gives up the sockets of these addresses, and their files, which another process has now. Returns their listeners.
    pub fn hand_over(&mut self, addresses: &[Address]) -> HashSet<ListenerId> {
        let is_theirs = |listening: &Listening| addresses.contains(&listening.address);
        let theirs = self.listening.extract_if(|_, listening| is_theirs(listening));
        theirs.map(|(id, _)| id).collect()
    }

    /// Removes the files of all unix sockets.
    pub fn close(&mut self) {
        std::mem::take(&mut self.listening).into_values().for_each(|listening| listening.remove_file());
    }
}

impl Drop for ListenPlan {
    fn drop(&mut self) {
        self.new.iter().for_each(|(_, listening)| listening.remove_file());
    }
}

/// One address, how its sockets were made, and the sockets: everything that another process needs to take them over.
#[derive(Debug)]
struct Listening {
    /// As it was bound, with the port that the kernel chose.
    address: Address,
    origin: Origin,
    options: Options,
    /// One for each worker on TCP, with a queue each; one for all of them otherwise.
    ///
    /// Weak: each is open for as long as its worker accepts from it. A socket that is open while no worker accepts (its
    /// service is gone, the program drains, its task has panicked) would take clients that are never served.
    descriptors: Vec<Weak<OwnedFd>>,
    /// The file of a unix socket: another process may have replaced it since.
    file: Option<FileId>,
}

/// The options that the sockets of an address were made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    mode: u32,
    /// Inherited by accepted connections.
    timeouts: SocketTimeouts,
}

type Opened = (Listening, Vec<Vec<ListeningSocket>>);

impl Listening {
    /// For the log: the program that opened it, if that was not this process.
    fn describe_origin(&self, written: &Address) -> String {
        match self.origin {
            Origin::Bound => String::new(),
            Origin::HandedOver => ", handed over".into(),
            Origin::Kept => ", kept by the service manager".into(),
            Origin::Inherited if self.address == *written => ", from the service manager".into(),
            Origin::Inherited => format!(", from the service manager in place of {written}"),
        }
    }

    /// Returns true if the file of its unix socket was removed or replaced, and no other process listens there.
    fn is_lost(&self) -> bool {
        self.origin.owns_address()
            && self.file.is_some()
            && FileId::of_address(&self.address) != self.file
            && listen::is_unreachable(&self.address)
    }

    /// Removes the file of its unix socket, if it is still the one that this process made or that was passed to it.
    fn remove_file(&self) {
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

fn bind(
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
fn adopt(service: &Service, passed: Vec<PassedSocket>, threads: usize) -> io::Result<Opened> {
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

fn failed(id: &ListenerId, source: io::Error) -> Error {
    Error::Listen { address: id.address.clone(), owner: format!("service {}", id.service), source }
}

#[cfg(test)]
mod tests;
