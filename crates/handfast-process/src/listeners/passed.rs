//! Listening sockets that were passed to this process by a service manager or the previous process, and the listener that each is for.

use std::collections::HashMap;

use handfast_net::listen::{GivenSocket, Origin};

use handfast_config::model::{Address, Config};

/// The service manager's name for the socket of the admin listener.
const ADMIN: &str = "admin";

/// A listener: the service that it belongs to, and its address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ListenerId {
    /// The name of the service.
    pub service: String,
    /// The address as the configuration has it.
    pub address: Address,
}

impl ListenerId {
    /// The listener of this service at this address.
    pub fn new(service: &str, address: &Address) -> Self {
        Self { service: service.to_owned(), address: address.clone() }
    }
}

/// One socket that was passed to this process.
#[derive(Clone, Debug, PartialEq)]
pub struct PassedSocket {
    /// The socket itself.
    pub socket: GivenSocket,
    /// The name of a service: as the service manager gave it, or that of the service that accepted from it.
    pub name: Option<String>,
    /// From the previous process: the address as its configuration had it.
    pub written: Option<Address>,
    /// The program that opened it.
    pub origin: Origin,
}

impl PassedSocket {
    fn is_of(&self, id: &ListenerId) -> bool {
        self.name.as_ref() == Some(&id.service) && self.written.as_ref() == Some(&id.address)
    }
}

/// All sockets that were passed and are not in use.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PassedSockets {
    /// In the order in which they were passed.
    pub sockets: Vec<PassedSocket>,
}

/// The listener that each socket is for.
#[derive(Debug, Default)]
pub(crate) struct AssignedSockets {
    pub(crate) by_listener: HashMap<ListenerId, Vec<PassedSocket>>,
    pub(crate) unused: Vec<PassedSocket>,
}

impl PassedSockets {
    /// Keeps only those of a service manager. They listen whatever this process does, so a client waits in them also while no process
    /// accepts from them.
    pub(crate) fn keep_inherited(&mut self) {
        self.sockets.retain(|passed| passed.origin == Origin::Inherited);
    }

    /// Takes the socket of the admin listener, found by its name or by its address.
    pub fn take_admin(&mut self, config: &Config) -> Option<PassedSocket> {
        let address = config.admin.as_ref()?;
        let is_of_service = |passed: &PassedSocket| {
            config.services.iter().any(|service| {
                passed.name.as_ref() == Some(&service.name)
                    || service.listen.contains(passed.socket.address())
            })
        };
        let is_admin = |passed: &PassedSocket| {
            let is_named = passed.name.as_deref() == Some(ADMIN) && !is_of_service(passed);
            match passed.origin {
                Origin::Inherited => is_named || passed.socket.address() == address,
                _ => passed.name.is_none() && passed.written.as_ref() == Some(address),
            }
        };
        let place = self.sockets.iter().position(is_admin)?;
        Some(self.sockets.remove(place))
    }

    /// Finds the listener that each socket is for: the one that had it; else one with its address; else, for a socket of a service
    /// manager, a listener of the service that it is named after, whatever address the configuration gives it.
    pub(crate) fn assign(self, config: &Config) -> AssignedSockets {
        let of_service = |service: &handfast_config::model::Service| {
            let id = |address: &Address| ListenerId::new(&service.name, address);
            service.listen.iter().map(id).collect::<Vec<_>>()
        };
        let listeners: Vec<ListenerId> = config.services.iter().flat_map(of_service).collect();
        let mut assigned = AssignedSockets { by_listener: HashMap::new(), unused: self.sockets };
        for id in &listeners {
            assigned.give(id, |passed| passed.is_of(id));
        }
        for id in &listeners {
            assigned.give(id, |passed| passed.socket.address() == &id.address);
        }
        for id in &listeners {
            let is_named = |passed: &PassedSocket| {
                passed.origin == Origin::Inherited && passed.name.as_ref() == Some(&id.service)
            };
            let first = assigned.unused.iter().find(|passed| is_named(passed));
            let Some(address) = first.map(|passed| passed.socket.address().clone()) else { continue };
            assigned.give(id, |passed| is_named(passed) && *passed.socket.address() == address);
        }
        assigned
    }
}

impl AssignedSockets {
    /// Gives a listener that has no socket yet all those that are for it.
    fn give(&mut self, id: &ListenerId, is_for: impl Fn(&PassedSocket) -> bool) {
        if self.by_listener.contains_key(id) {
            return;
        }
        let sockets: Vec<_> = self.unused.extract_if(.., |passed| is_for(passed)).collect();
        if !sockets.is_empty() {
            self.by_listener.insert(id.clone(), sockets);
        }
    }

    /// A warning for each unused socket: clients that connect there are not served.
    pub(crate) fn problems(&self) -> Vec<String> {
        let problem = |passed: &PassedSocket| {
            let address = passed.socket.address();
            let named = passed.name.as_ref().map(|name| format!(" (named {name})")).unwrap_or_default();
            match passed.origin {
                Origin::Inherited => format!(
                    "the service manager passed a socket that listens on {address}{named}, and no service listens there or \
                     has this name: it is not used, and clients that connect there are not served; take it out of the socket \
                     unit, or add it to a service's `listen`"
                ),
                _ => format!(
                    "the previous process listened on {address}{named}, and no service of this configuration does"
                ),
            }
        };
        self.unused.iter().map(problem).collect()
    }
}
