//! Listening sockets that were given to this process, and which listener of the configuration each is for.
//!
//! In: sockets of a service manager, with its names for them; sockets of the process before this one, with what they were to
//! it. Out: for each listener those that are its own, and what nobody wants.

use std::collections::HashMap;

use handfast_net::listen::{GivenSocket, Origin};

use crate::listeners::ListenerId;
use handfast_config::model::{Address, Config};

/// What a service manager calls the socket of the admin listener.
const ADMIN: &str = "admin";

/// One socket.
#[derive(Clone, Debug, PartialEq)]
pub struct Given {
    /// The socket itself.
    pub socket: GivenSocket,
    /// A service's name: by the service manager, or that of the service that it was accepted for.
    pub name: Option<String>,
    /// Of the process before this one: the address as it was written there.
    pub written: Option<Address>,
    /// Who opened it.
    pub origin: Origin,
}

impl Given {
    fn is_of(&self, (service, address): &ListenerId) -> bool {
        self.name.as_ref() == Some(service) && self.written.as_ref() == Some(address)
    }
}

/// All that were given and are not in use.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GivenSockets(pub Vec<Given>);

/// For which listener each is.
#[derive(Debug, Default)]
pub(crate) struct Assigned {
    pub(crate) of: HashMap<ListenerId, Vec<Given>>,
    /// What no listener wants.
    pub(crate) unused: Vec<Given>,
}

impl GivenSockets {
    /// Only those of a service manager: they listen whatever this process does, so whoever holds them keeps nobody waiting.
    pub(crate) fn keep_inherited(&mut self) {
        self.0.retain(|given| given.origin == Origin::Inherited);
    }

    /// Takes the admin listener's: by its name, or by its address.
    pub fn take_admin(&mut self, config: &Config) -> Option<Given> {
        let address = config.admin.as_ref()?;
        let of_service = |given: &Given| {
            config.services.iter().any(|service| {
                given.name.as_ref() == Some(&service.name) || service.listen.contains(given.socket.address())
            })
        };
        let is_admins = |given: &Given| {
            let named = given.name.as_deref() == Some(ADMIN) && !of_service(given);
            match given.origin {
                Origin::Inherited => named || given.socket.address() == address,
                _ => given.name.is_none() && given.written.as_ref() == Some(address),
            }
        };
        let place = self.0.iter().position(is_admins)?;
        Some(self.0.remove(place))
    }

    /// Finds the listener that each is for: the one that had it; else one with its address; else, for those of a service
    /// manager, one of the service that it is named after, wherever that one listens by its configuration.
    pub(crate) fn assign(self, config: &Config) -> Assigned {
        let listeners = config
            .services
            .iter()
            .flat_map(|service| service.listen.iter().map(|address| (service.name.clone(), address.clone())));
        let listeners: Vec<ListenerId> = listeners.collect();
        let mut assigned = Assigned { of: HashMap::new(), unused: self.0 };
        for id in &listeners {
            assigned.give(id, |given| given.is_of(id));
        }
        for id in &listeners {
            assigned.give(id, |given| given.socket.address() == &id.1);
        }
        for id in &listeners {
            let named =
                |given: &Given| given.origin == Origin::Inherited && given.name.as_ref() == Some(&id.0);
            let first = assigned.unused.iter().find(|given| named(given));
            let Some(address) = first.map(|given| given.socket.address().clone()) else { continue };
            assigned.give(id, |given| named(given) && *given.socket.address() == address);
        }
        assigned
    }
}

impl Assigned {
    /// Gives a listener that has none yet all that are for it.
    fn give(&mut self, id: &ListenerId, is_for: impl Fn(&Given) -> bool) {
        if self.of.contains_key(id) {
            return;
        }
        let (its, others) = std::mem::take(&mut self.unused).into_iter().partition(is_for);
        self.unused = others;
        let its: Vec<Given> = its;
        if !its.is_empty() {
            self.of.insert(id.clone(), its);
        }
    }

    /// What to say of those that nobody wants: who connects there is not served.
    pub(crate) fn problems(&self) -> Vec<String> {
        let problem = |given: &Given| {
            let address = given.socket.address();
            let named = given.name.as_ref().map(|name| format!(" (named {name})")).unwrap_or_default();
            match given.origin {
                Origin::Inherited => format!(
                    "the service manager passed a socket that listens on {address}{named}, and no service listens there or \
                     has this name: it is not used, and whoever connects there is not served; take it out of the socket \
                     unit, or add it to a service's `listen`"
                ),
                _ => format!(
                    "the process before this one listened on {address}{named}, and no service of this configuration does"
                ),
            }
        };
        self.unused.iter().map(problem).collect()
    }
}
