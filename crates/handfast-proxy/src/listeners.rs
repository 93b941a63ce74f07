//! The listening sockets of the process: bound by the control thread, accepted from by the workers.
//!
//! In: the addresses of a configuration. Out: sockets for those that are new, one for each worker. What stays is not
//! touched, so a queue of clients is never thrown away; what is gone is closed by the workers once it is empty.

use std::collections::HashMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use handfast_net::listen::{self, ListeningSocket, Sharing};

use crate::config::model::{Address, Config, Service};
use crate::error::Error;
use crate::thread_state::ListenerId;

/// Sockets on their way to one worker.
pub(crate) type Share = Vec<(ListenerId, ListeningSocket)>;

/// The addresses that are listened on.
#[derive(Debug, Default)]
pub(crate) struct Listeners {
    /// By the address as it is written; the value is as it was bound, with the port that the kernel chose.
    bound: HashMap<ListenerId, Address>,
    /// The files of our unix sockets: another process may have put its own in their place since.
    files: HashMap<PathBuf, FileId>,
    /// Whether another Handfast serves here, which this one is to follow.
    beside: bool,
}

/// What a file is, whatever its name: device and inode.
type FileId = (u64, u64);

/// Sockets that were bound and are not in use yet; dropping it closes them.
#[derive(Debug)]
pub(crate) struct Plan {
    bound: HashMap<ListenerId, Address>,
    /// Those that are new, in the order of the configuration.
    new: Vec<ListenerId>,
    shares: Vec<Share>,
    /// Addresses that are listened on no more.
    gone: Vec<Address>,
}

impl Listeners {
    /// Of a process that may share its addresses with another Handfast, which serves them until it is stopped.
    pub(crate) fn beside_another() -> Self {
        Self { beside: true, ..Self::default() }
    }

    /// Binds what `config` wants and is not bound yet, for so many workers.
    ///
    /// **Errors**: every address that could not be bound, with the cure where there is one. Nothing has changed then.
    pub(crate) fn plan(&self, config: &Config, threads: usize) -> Result<Plan, Error> {
        let mut plan = Plan {
            bound: HashMap::new(),
            new: Vec::new(),
            shares: (0..threads).map(|_| Vec::new()).collect(),
            gone: Vec::new(),
        };
        let mut problems = Vec::new();
        for service in &config.services {
            for address in &service.listen {
                let id = (service.name.clone(), address.clone());
                match self.bound.get(&id) {
                    Some(actual) => drop(plan.bound.insert(id, actual.clone())),
                    None => match bind(service, address, threads, self.sharing(address)) {
                        Ok((actual, sockets)) => {
                            for (share, socket) in plan.shares.iter_mut().zip(sockets) {
                                share.push((id.clone(), socket));
                            }
                            plan.new.push(id.clone());
                            plan.bound.insert(id, actual);
                        }
                        Err(source) => {
                            let whose = format!("service {}", service.name);
                            problems.push(Error::Listen { address: address.clone(), whose, source });
                        }
                    },
                }
            }
        }
        let kept = |address: &&Address| !plan.bound.values().any(|bound| bound == *address);
        plan.gone = self.bound.values().filter(kept).cloned().collect();
        if problems.is_empty() { Ok(plan) } else { Err(Error::ListenOnSeveral(problems)) }
    }

    /// An address that moves from one service to another is bound anew while it is still in use.
    fn sharing(&self, address: &Address) -> Sharing {
        let ours = self.bound.values().any(|bound| bound == address);
        match (ours, self.beside) {
            (true, _) => Sharing::WithOurselves,
            (false, true) => Sharing::WithAnother,
            (false, false) => Sharing::Alone,
        }
    }

    /// From now on nobody else is to be followed: addresses that a reload adds are this process's alone.
    pub(crate) fn stands_alone(&mut self) {
        self.beside = false;
    }

    /// Makes a plan true; the sockets for each worker, which accept from now on.
    ///
    /// **Errors**: listen(2). Nothing has changed then.
    pub(crate) fn adopt(&mut self, plan: Plan) -> Result<Vec<Share>, Error> {
        for (id, socket) in plan.shares.iter().flatten() {
            let failed =
                |source| Error::Listen { address: id.1.clone(), whose: format!("service {}", id.0), source };
            socket.begin().map_err(failed)?;
        }
        for id in &plan.new {
            if let Some(actual) = plan.bound.get(id) {
                tracing::info!("listening on {actual} (service {})", id.0);
            }
        }
        for address in &plan.gone {
            tracing::info!("no longer listening on {address}");
            self.forget(address);
        }
        self.bound = plan.bound;
        for address in self.bound.values() {
            if let Address::Unix(path) = address
                && !self.files.contains_key(path)
            {
                self.files.extend(file_id(path).map(|id| (path.clone(), id)));
            }
        }
        Ok(plan.shares)
    }

    /// Removes the file of a unix socket that is closed, if it is still ours.
    fn forget(&mut self, address: &Address) {
        if let Address::Unix(path) = address
            && let Some(ours) = self.files.remove(path)
            && file_id(path) == Some(ours)
        {
            // It may have been removed by others.
            let _ = std::fs::remove_file(path);
        }
    }

    /// The addresses of a service as they are bound.
    pub(crate) fn of_service(&self, service: &Service) -> Vec<String> {
        let bound = |address: &Address| self.bound.get(&(service.name.clone(), address.clone()));
        service.listen.iter().filter_map(bound).map(ToString::to_string).collect()
    }

    /// Removes the files of unix sockets.
    pub(crate) fn close(&mut self) {
        for address in std::mem::take(&mut self.bound).into_values() {
            self.forget(&address);
        }
    }
}

fn bind(
    service: &Service,
    address: &Address,
    threads: usize,
    sharing: Sharing,
) -> io::Result<(Address, Vec<ListeningSocket>)> {
    listen::bind(address, service.listen_mode, threads, service.limits.patience(), sharing)
}

fn file_id(path: &Path) -> Option<FileId> {
    std::fs::symlink_metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()))
}
