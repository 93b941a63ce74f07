//! The listening sockets of the process: bound by the control thread, accepted from by the workers.
//!
//! In: the addresses of a configuration. Out: sockets for those that are new, one for each worker. What stays is not
//! touched, so a queue of clients is never thrown away; what is gone is closed by the workers once it is empty.

use std::collections::HashMap;
use std::io;

use handfast_net::listen::{ListeningSocket, Sharing, listen};

use crate::config::model::{Address, Config, Service};
use crate::thread_state::ListenerId;

/// Sockets on their way to one worker.
pub(crate) type Share = Vec<(ListenerId, ListeningSocket)>;

/// The addresses that are listened on.
#[derive(Debug, Default)]
pub(crate) struct Listeners {
    /// By the address as it is written; the value is as it was bound, with the port that the kernel chose.
    bound: HashMap<ListenerId, Address>,
}

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
    /// Binds what `config` wants and is not bound yet, for so many workers.
    ///
    /// **Errors**: every address that could not be bound, with the cure where there is one. Nothing has changed then.
    pub(crate) fn plan(&self, config: &Config, threads: usize) -> Result<Plan, Vec<String>> {
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
                        Err(error) => problems.push(problem(service, address, &error)),
                    },
                }
            }
        }
        let kept = |address: &&Address| !plan.bound.values().any(|bound| bound == *address);
        plan.gone = self.bound.values().filter(kept).cloned().collect();
        if problems.is_empty() { Ok(plan) } else { Err(problems) }
    }

    /// An address that moves from one service to another is bound anew while it is still in use.
    fn sharing(&self, address: &Address) -> Sharing {
        let ours = self.bound.values().any(|bound| bound == address);
        if ours { Sharing::WithOurselves } else { Sharing::Alone }
    }

    /// Makes a plan true; the sockets for each worker.
    pub(crate) fn adopt(&mut self, plan: Plan) -> Vec<Share> {
        for id in &plan.new {
            if let Some(actual) = plan.bound.get(id) {
                tracing::info!("listening on {actual} (service {})", id.0);
            }
        }
        for address in &plan.gone {
            tracing::info!("no longer listening on {address}");
            forget(address);
        }
        self.bound = plan.bound;
        plan.shares
    }

    /// The addresses of a service as they are bound.
    pub(crate) fn of_service(&self, service: &Service) -> Vec<String> {
        let bound = |address: &Address| self.bound.get(&(service.name.clone(), address.clone()));
        service.listen.iter().filter_map(bound).map(ToString::to_string).collect()
    }

    /// Removes the files of unix sockets.
    pub(crate) fn close(&mut self) {
        for (_, address) in self.bound.drain() {
            forget(&address);
        }
    }
}

fn bind(
    service: &Service,
    address: &Address,
    threads: usize,
    sharing: Sharing,
) -> io::Result<(Address, Vec<ListeningSocket>)> {
    listen(address, service.listen_mode, threads, service.limits.patience(), sharing)
}

fn problem(service: &Service, address: &Address, error: &io::Error) -> String {
    let hint = match (error.kind(), address) {
        (io::ErrorKind::AddrInUse, _) => "\n  hint: another program listens there; `ss -ltnp` names it",
        (io::ErrorKind::PermissionDenied, Address::Ip(address)) if address.port() < 1024 => {
            "\n  hint: ports below 1024 need CAP_NET_BIND_SERVICE; start as root and set process.user"
        }
        (io::ErrorKind::AddrNotAvailable, _) => "\n  hint: no interface of this machine has that address",
        _ => "",
    };
    format!("listen on {address} (service {}): {error}{hint}", service.name)
}

/// The file of a unix socket that is closed.
fn forget(address: &Address) {
    if let Address::Unix(path) = address {
        // It may have been removed by others, or never have been ours to remove.
        let _ = std::fs::remove_file(path);
    }
}
