//! The listening sockets of the process: bound and kept by the control thread, accepted from by the workers.
//!
//! In: the addresses of a configuration. Out: sockets for those that are new, one for each worker. What stays is not
//! touched, so a queue of clients is never thrown away; what is gone is closed by the workers once it is empty.
//!
//! ```text
//! Listeners ── taken() ─▶ Taken ── plan(config) ─▶ Plan ── adopt() ─▶ Listeners, and a share for each worker
//!  (owns)                (values)                 (bound, in nobody's use yet)
//! ```

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};

use handfast_net::file_id::FileId;
use handfast_net::listen::{self, GivenSocket, ListeningSocket, More, Origin, Sharing};
use handfast_net::stream::SocketTimeouts;

use crate::error::Error;
use crate::privileges::ServiceUser;
use handfast_config::model::{Address, Config, Service};

pub mod given;

use given::{Given, GivenSockets};

/// Sockets on their way to one worker.
pub type Share = Vec<(ListenerId, ListeningSocket)>;

/// The addresses that are listened on, each with its sockets.
#[derive(Debug, Default)]
pub struct Listeners {
    /// By the address as it is written.
    listening: HashMap<ListenerId, Listening>,
    /// Whether another Handfast serves here, which this one is to follow.
    beside: bool,
    /// What was given at the start; later what a service manager gave, also while no service wants it.
    given: GivenSockets,
}

/// One address, how its sockets were made, and the sockets.
///
/// What is needed to hand them to another process, or to take some from one: nothing about them has to be found out again.
#[derive(Debug)]
pub(crate) struct Listening {
    /// As it was bound, with the port that the kernel chose.
    address: Address,
    origin: Origin,
    options: Options,
    /// One for each worker on TCP, with a queue each; one for all of them otherwise.
    ///
    /// Weak: each is open for as long as its worker accepts from it. A socket that listens on while nobody accepts (its
    /// service is gone, the program drains, its task has panicked) would take clients that nobody ever serves.
    descriptors: Vec<Weak<OwnedFd>>,
    /// The file of a unix socket: another process may have put its own in its place since.
    file: Option<FileId>,
}

/// What the sockets of an address were made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Permission bits of a unix socket's file.
    pub(crate) mode: u32,
    /// What accepted connections inherit.
    pub(crate) timeouts: SocketTimeouts,
}

/// Which addresses are taken already: what a plan is made from, on whatever thread.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Taken {
    bound: HashMap<ListenerId, Address>,
    /// Those of them whose file was removed: bound again where that is possible.
    lost: HashSet<ListenerId>,
    beside: bool,
    given: GivenSockets,
}

/// Sockets that were bound and are not in use yet; dropping it closes them, and removes the files that were made.
#[derive(Debug)]
pub struct Plan {
    kept: HashSet<ListenerId>,
    /// Those that are new, in the order of the configuration.
    new: Vec<(ListenerId, Listening)>,
    shares: Vec<Share>,
}

impl Taken {
    /// Binds what `config` wants and is not bound yet, for so many workers.
    ///
    /// One that is lost and cannot be bound again stays as it is: no reload is refused for it.
    ///
    /// **Errors**: every address that could not be bound, with the cure where there is one. Nothing has changed then.
    pub fn plan(&self, config: &Config, threads: usize) -> Result<Plan, Error> {
        let mut plan = Plan {
            kept: HashSet::new(),
            new: Vec::new(),
            shares: (0..threads).map(|_| Vec::new()).collect(),
        };
        let mut problems = Vec::new();
        let user = ServiceUser::from(&config.process);
        let mut given = self.given.clone().assign(config);
        crate::log_lines::log_warnings(&given.problems());
        for service in &config.services {
            for address in &service.listen {
                let id = (service.name.clone(), address.clone());
                let is_lost = self.lost.contains(&id);
                if self.bound.contains_key(&id) && !is_lost {
                    plan.kept.insert(id);
                    continue;
                }
                let listening = match given.of.remove(&id) {
                    Some(given) => adopt(service, given, threads),
                    None => bind(service, address, threads, self.sharing(address), &user),
                };
                match listening {
                    Ok((listening, sockets)) => {
                        for (share, sockets) in plan.shares.iter_mut().zip(sockets) {
                            share.extend(sockets.into_iter().map(|socket| (id.clone(), socket)));
                        }
                        plan.new.push((id, listening));
                    }
                    Err(source) if is_lost => {
                        tracing::error!("{}; no client can connect there", failed(&id, source));
                        plan.kept.insert(id);
                    }
                    Err(source) => problems.push(failed(&id, source)),
                }
            }
        }
        if problems.is_empty() { Ok(plan) } else { Err(Error::ListenOnSeveral(problems)) }
    }

    /// An address that moves from one service to another is bound again while it is still in use.
    fn sharing(&self, address: &Address) -> Sharing {
        let ours = self.bound.values().any(|bound| bound == address);
        match (ours, self.beside) {
            (true, _) => Sharing::WithOurselves,
            (false, true) => Sharing::WithAnother,
            (false, false) => Sharing::Alone,
        }
    }
}

impl Listeners {
    /// Of a process that was given these sockets. `beside`: another Handfast may listen, which this one is to follow.
    pub fn with(beside: bool, given: GivenSockets) -> Self {
        Self { beside, given, ..Self::default() }
    }

    /// Which addresses are taken.
    pub fn taken(&self) -> Taken {
        let bound = |(id, listening): (&ListenerId, &Listening)| (id.clone(), listening.address.clone());
        let lost = self.listening.iter().filter(|(_, listening)| listening.is_lost());
        Taken {
            bound: self.listening.iter().map(bound).collect(),
            lost: lost.map(|(id, _)| id.clone()).collect(),
            beside: self.beside,
            given: self.given.clone(),
        }
    }

    /// Unix sockets that no client can connect to any more, because their file was removed: a reload binds them again.
    pub fn lost(&self) -> impl Iterator<Item = &Address> {
        self.listening.values().filter(|listening| listening.is_lost()).map(|listening| &listening.address)
    }

    /// From now on nobody else is to be followed: addresses that a reload adds are this process's alone.
    pub fn stands_alone(&mut self) {
        self.beside = false;
    }

    /// Makes a plan true; the sockets for each worker, which accept from now on.
    ///
    /// **Errors**: listen(2). Nothing has changed then.
    pub fn adopt(&mut self, mut plan: Plan) -> Result<Vec<Share>, Error> {
        for (id, socket) in plan.shares.iter().flatten() {
            socket.begin().map_err(|source| failed(id, source))?;
        }
        let mut before = std::mem::take(&mut self.listening);
        // Taken out, so that dropping the plan removes no file.
        for (id, mut listening) in std::mem::take(&mut plan.new) {
            tracing::info!(
                "listening on {} (service {}){}",
                listening.address,
                id.0,
                listening.came_from(&id.1)
            );
            // Not before: until it serves, the file is that of the process that had it.
            listening.file = listening.file.or_else(|| FileId::of_address(&listening.address));
            self.listening.insert(id, listening);
        }
        for id in std::mem::take(&mut plan.kept) {
            self.listening.extend(before.remove_entry(&id));
        }
        for gone in before.into_values() {
            let moved = self.listening.values().any(|listening| listening.address == gone.address);
            if !moved {
                tracing::info!("no longer listening on {}", gone.address);
                gone.remove_file();
            }
        }
        // What the process before this one gave and nobody wants is its own to close.
        self.given.keep_inherited();
        Ok(std::mem::take(&mut plan.shares))
    }

    /// The addresses of a service as they are bound.
    pub fn of_service(&self, service: &Service) -> Vec<String> {
        let bound = |address: &Address| self.listening.get(&(service.name.clone(), address.clone()));
        service.listen.iter().filter_map(bound).map(|listening| listening.address.to_string()).collect()
    }

    /// Every socket that is still accepted from, with the listener that it belongs to, who made it and with what: all that
    /// another process needs to serve in this one's place. It stays open for as long as the descriptor is held.
    pub fn descriptors(&self) -> impl Iterator<Item = (&ListenerId, Origin, Options, Arc<OwnedFd>)> + '_ {
        self.listening.iter().flat_map(|(id, listening)| {
            let open = listening.descriptors.iter().filter_map(Weak::upgrade);
            open.map(move |socket| (id, listening.origin, listening.options, socket))
        })
    }

    /// The sockets of this process that are accepted from, at these addresses or, with `None`, at all: not those that a service
    /// manager has opened.
    pub fn own(&self, at: Option<&[Address]>) -> Vec<Arc<OwnedFd>> {
        let wanted = |listening: &&Listening| {
            listening.origin != Origin::Inherited && at.is_none_or(|at| at.contains(&listening.address))
        };
        let listening = self.listening.values().filter(wanted);
        listening.flat_map(|listening| listening.descriptors.iter().filter_map(Weak::upgrade)).collect()
    }

    /// What a service manager gave, whether it is in use or not.
    pub fn inherited(&self) -> &[Given] {
        &self.given.0
    }

    /// Where sockets listen that this process did not make.
    pub fn not_ours(&self) -> impl Iterator<Item = &Address> {
        let foreign = self.listening.values().filter(|listening| listening.origin != Origin::Bound);
        foreign.map(|listening| &listening.address)
    }

    /// Another process has the sockets of these addresses, and their files; which listeners that are.
    pub fn hand_over(&mut self, addresses: &[Address]) -> HashSet<ListenerId> {
        let is_theirs = |listening: &Listening| addresses.contains(&listening.address);
        let theirs = self.listening.extract_if(|_, listening| is_theirs(listening));
        theirs.map(|(id, _)| id).collect()
    }

    /// Removes the files of unix sockets.
    pub fn close(&mut self) {
        std::mem::take(&mut self.listening).into_values().for_each(|listening| listening.remove_file());
    }
}

impl Listening {
    /// Who made it, if that was not this process.
    fn came_from(&self, written: &Address) -> String {
        match self.origin {
            Origin::Bound => String::new(),
            Origin::HandedOver => ", handed over".into(),
            Origin::Kept => ", kept by the service manager".into(),
            Origin::Inherited if self.address == *written => ", from the service manager".into(),
            Origin::Inherited => format!(", from the service manager in place of {written}"),
        }
    }

    /// Whether the file of its unix socket is no longer this one, and no other process listens there.
    fn is_lost(&self) -> bool {
        self.origin.owns_address()
            && self.file.is_some()
            && FileId::of_address(&self.address) != self.file
            && listen::is_unreachable(&self.address)
    }

    /// Removes the file of a unix socket that is closed, if it is still the one that this process made or was given.
    fn remove_file(&self) {
        if let Address::Unix(path) = &self.address
            && self.origin.owns_address()
            && self.file.is_some()
            && FileId::of(path) == self.file
        {
            // It may have been removed by others.
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Drop for Plan {
    fn drop(&mut self) {
        self.new.iter().for_each(|(_, listening)| listening.remove_file());
    }
}

fn bind(
    service: &Service,
    address: &Address,
    threads: usize,
    sharing: Sharing,
    user: &ServiceUser,
) -> io::Result<(Listening, Vec<Vec<ListeningSocket>>)> {
    let options = options(service);
    let bind = || listen::bind(address, options.mode, threads, options.timeouts, sharing);
    let (bound, sockets) = user.bind(address, bind)?;
    let file = FileId::of_address(&bound);
    let sockets: Vec<_> = sockets.into_iter().map(|socket| vec![socket]).collect();
    let descriptors = each_once(&sockets);
    Ok((Listening { address: bound, origin: Origin::Bound, options, descriptors, file }, sockets))
}

/// Takes sockets that were given, all for one listener.
fn adopt(
    service: &Service,
    given: Vec<Given>,
    threads: usize,
) -> io::Result<(Listening, Vec<Vec<ListeningSocket>>)> {
    let options = options(service);
    let Some(first) = given.first() else { return Err(io::ErrorKind::NotFound.into()) };
    let (address, origin) = (first.socket.address().clone(), first.origin);
    let more = if origin == Origin::Inherited { More::No } else { More::IfAllowed };
    let sockets: Vec<GivenSocket> = given.into_iter().map(|given| given.socket).collect();
    let sockets = listen::share_out(sockets, threads, options.timeouts, more)?;
    let descriptors = each_once(&sockets);
    Ok((Listening { address, origin, options, descriptors, file: None }, sockets))
}

fn options(service: &Service) -> Options {
    Options { mode: service.listen_mode, timeouts: service.limits.socket_timeouts() }
}

/// Every socket once, in the order in which they began to listen, whatever number of threads has it.
fn each_once(shares: &[Vec<ListeningSocket>]) -> Vec<Weak<OwnedFd>> {
    let mut each: Vec<Arc<OwnedFd>> = Vec::new();
    let rounds = shares.iter().map(Vec::len).max().unwrap_or(0);
    for round in 0..rounds {
        for socket in shares.iter().filter_map(|share| share.get(round)) {
            let socket = socket.descriptor();
            if !each.iter().any(|known| Arc::ptr_eq(known, &socket)) {
                each.push(socket);
            }
        }
    }
    each.iter().map(Arc::downgrade).collect()
}

fn failed((service, address): &ListenerId, source: io::Error) -> Error {
    Error::Listen { address: address.clone(), whose: format!("service {service}"), source }
}

/// A listener: the service it belongs to, and its address as it is written in the configuration.
pub type ListenerId = (String, Address);

#[cfg(test)]
mod tests;
