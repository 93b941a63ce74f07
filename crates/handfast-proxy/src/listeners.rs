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
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Weak};

use handfast_net::listen::{self, ListeningSocket, Origin, Sharing};
use handfast_net::stream::Patience;

use crate::config::model::{Address, Config, Service};
use crate::error::Error;
use crate::thread_state::ListenerId;

/// Sockets on their way to one worker.
pub(crate) type Share = Vec<(ListenerId, ListeningSocket)>;

/// The addresses that are listened on, each with its sockets.
#[derive(Debug, Default)]
pub(crate) struct Listeners {
    /// By the address as it is written.
    listening: HashMap<ListenerId, Listening>,
    /// Whether another Handfast serves here, which this one is to follow.
    beside: bool,
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
    /// One for each worker on TCP, with a queue each; handles of the same socket otherwise.
    ///
    /// Weak: each is open for as long as its worker accepts from it. A socket that listens on while nobody accepts (its
    /// service is gone, the program drains, its task has panicked) would take clients that nobody ever serves.
    descriptors: Vec<Weak<OwnedFd>>,
    /// The file of a unix socket: another process may have put its own in its place since.
    file: Option<FileId>,
}

/// What the sockets of an address were made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// Permission bits of a unix socket's file.
    pub(crate) mode: u32,
    /// What accepted connections inherit.
    pub(crate) patience: Patience,
}

/// What a file is, whatever its name: device and inode.
type FileId = (u64, u64);

/// Which addresses are taken already: what a plan is made from, on whatever thread.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Taken {
    bound: HashMap<ListenerId, Address>,
    beside: bool,
}

/// Sockets that were bound and are not in use yet; dropping it closes them, and removes the files that were made.
#[derive(Debug)]
pub(crate) struct Plan {
    kept: HashSet<ListenerId>,
    /// Those that are new, in the order of the configuration.
    new: Vec<(ListenerId, Listening)>,
    shares: Vec<Share>,
}

impl Taken {
    /// Binds what `config` wants and is not bound yet, for so many workers.
    ///
    /// **Errors**: every address that could not be bound, with the cure where there is one. Nothing has changed then.
    pub(crate) fn plan(&self, config: &Config, threads: usize) -> Result<Plan, Error> {
        let mut plan = Plan {
            kept: HashSet::new(),
            new: Vec::new(),
            shares: (0..threads).map(|_| Vec::new()).collect(),
        };
        let mut problems = Vec::new();
        for service in &config.services {
            for address in &service.listen {
                let id = (service.name.clone(), address.clone());
                if self.bound.contains_key(&id) {
                    plan.kept.insert(id);
                    continue;
                }
                match bind(service, address, threads, self.sharing(address)) {
                    Ok((listening, sockets)) => {
                        for (share, socket) in plan.shares.iter_mut().zip(sockets) {
                            share.push((id.clone(), socket));
                        }
                        plan.new.push((id, listening));
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
    /// Of a process that listens on nothing yet. `beside`: another Handfast may, which this one is to follow.
    pub(crate) fn nothing(beside: bool) -> Self {
        Self { listening: HashMap::new(), beside }
    }

    /// Which addresses are taken.
    pub(crate) fn taken(&self) -> Taken {
        let bound = |(id, listening): (&ListenerId, &Listening)| (id.clone(), listening.address.clone());
        Taken { bound: self.listening.iter().map(bound).collect(), beside: self.beside }
    }

    /// From now on nobody else is to be followed: addresses that a reload adds are this process's alone.
    pub(crate) fn stands_alone(&mut self) {
        self.beside = false;
    }

    /// Makes a plan true; the sockets for each worker, which accept from now on.
    ///
    /// **Errors**: listen(2). Nothing has changed then.
    pub(crate) fn adopt(&mut self, mut plan: Plan) -> Result<Vec<Share>, Error> {
        for (id, socket) in plan.shares.iter().flatten() {
            socket.begin().map_err(|source| failed(id, source))?;
        }
        let mut before = std::mem::take(&mut self.listening);
        // Taken out, so that dropping the plan removes no file.
        for (id, listening) in std::mem::take(&mut plan.new) {
            tracing::info!("listening on {} (service {})", listening.address, id.0);
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
        Ok(std::mem::take(&mut plan.shares))
    }

    /// The addresses of a service as they are bound.
    pub(crate) fn of_service(&self, service: &Service) -> Vec<String> {
        let bound = |address: &Address| self.listening.get(&(service.name.clone(), address.clone()));
        service.listen.iter().filter_map(bound).map(|listening| listening.address.to_string()).collect()
    }

    /// Every socket that is still accepted from, with the listener that it belongs to, who made it and with what: all that
    /// another process needs to serve in this one's place. It stays open for as long as the descriptor is held.
    #[cfg_attr(not(test), expect(dead_code, reason = "for handing sockets to the process that follows"))]
    pub(crate) fn descriptors(
        &self,
    ) -> impl Iterator<Item = (&ListenerId, Origin, Options, Arc<OwnedFd>)> + '_ {
        self.listening.iter().flat_map(|(id, listening)| {
            let open = listening.descriptors.iter().filter_map(Weak::upgrade);
            open.map(move |socket| (id, listening.origin, listening.options, socket))
        })
    }

    /// Removes the files of unix sockets.
    pub(crate) fn close(&mut self) {
        std::mem::take(&mut self.listening).into_values().for_each(|listening| listening.remove_file());
    }
}

impl Listening {
    /// Removes the file of a unix socket that is closed, if it is still the one that this process made or was given.
    fn remove_file(&self) {
        if let Address::Unix(path) = &self.address
            && self.origin.owns_address()
            && self.file.is_some()
            && file_id(path) == self.file
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
) -> io::Result<(Listening, Vec<ListeningSocket>)> {
    let options = Options { mode: service.listen_mode, patience: service.limits.patience() };
    let (bound, sockets) = listen::bind(address, options.mode, threads, options.patience, sharing)?;
    let file = match &bound {
        Address::Unix(path) => file_id(path),
        Address::Ip(_) => None,
    };
    let descriptors = sockets.iter().map(|socket| Arc::downgrade(&socket.descriptor())).collect();
    Ok((Listening { address: bound, origin: Origin::Bound, options, descriptors, file }, sockets))
}

fn failed((service, address): &ListenerId, source: io::Error) -> Error {
    Error::Listen { address: address.clone(), whose: format!("service {service}"), source }
}

fn file_id(path: &Path) -> Option<FileId> {
    std::fs::symlink_metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

#[cfg(test)]
mod tests;
