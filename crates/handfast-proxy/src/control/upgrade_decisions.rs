//! Decisions of the control thread about requests at the upgrade socket, by the state that is served.

use std::sync::Arc;

use handfast_net::listen::Origin;
use handfast_text::units::counted;

use super::upgrade::giver::{Offered, UpgradeEvent, refuse};
use super::upgrade::protocol::{
    Keys, Offer, PROTOCOL_VERSION, Role, ServiceStandings, Socket, UpgradeReply, send,
};
use crate::control::program::Program;
use crate::control::workers::Order;
use crate::state::GivenKeys;
use crate::worker::context::Successor;
use handfast_config::model::Address;
use handfast_observe::metrics::ServiceSnapshot;

impl Program {
    /// Carries out a request. `Some`: another process serves by now, and this one has to drain.
    ///
    /// `leaving`: a stop has begun, so there is nothing to take over.
    pub(crate) fn on_upgrade_event(&mut self, event: UpgradeEvent, leaving: bool) -> Option<Successor> {
        match event {
            UpgradeEvent::Start { requester, .. } if leaving => refuse(&requester, "it is stopping"),
            UpgradeEvent::Start { program, requester } => {
                let process = &self.state.config.process;
                let has_given_up = process.user.is_some() && rustix::process::geteuid().as_raw() != 0;
                self.upgrades.start(program, requester, !has_given_up, &self.notifier);
            }
            UpgradeEvent::Counters { sender } => {
                self.upgrades.receive_counters(sender, Arc::clone(&self.registry))
            }
            UpgradeEvent::TakeOver { taker, .. } if leaving => refuse(&taker, "it is stopping"),
            UpgradeEvent::TakeOver { taker, .. } if self.upgrades.is_under_way() => {
                refuse(&taker, "another process is taking over");
            }
            UpgradeEvent::TakeOver { taker, version, process } => match self.offered() {
                Some(offered) => {
                    tracing::info!("upgrade: process {process} (handfast {version}) is taking over");
                    self.upgrades.give(taker, process, offered);
                }
                None => refuse(&taker, "it is reading its configuration again at this moment; try again"),
            },
            UpgradeEvent::Failed { process, why } if self.upgrades.is_taker(process) => {
                self.upgrade_failed(&why)
            }
            // A process that requested the sockets reports itself why it ends, or its connection ends.
            UpgradeEvent::Ended { attempt, how }
                if self.upgrades.is_attempt(attempt) && !self.upgrades.is_under_way() =>
            {
                self.upgrade_failed(&how);
            }
            // Of one that is over.
            UpgradeEvent::Failed { .. } | UpgradeEvent::Ended { .. } => {}
            UpgradeEvent::Ready { taker, process, .. } if !self.upgrades.is_taker(process) => {
                refuse(&taker, "it came too late");
            }
            UpgradeEvent::Ready { taker, process, addresses, counts } => {
                // Before it speaks: the service manager would not listen. And it does not know what it was not given.
                self.notifier.retain_sockets(&self.listeners.own(Some(&addresses)));
                self.notifier.set_main_process(process, "Upgraded");
                if let Err(error) = send(&taker, &UpgradeReply::Go) {
                    self.notifier.set_main_process(std::process::id(), "Serving on");
                    self.notifier.store_sockets(self.listeners.own(None));
                    self.upgrade_failed(&format!("tell process {process} that it serves now: {error}"));
                    return None;
                }
                let path = self.state.config.process.upgrade_socket.clone();
                let after = self.release_to_successor(process, &addresses);
                if let Some(path) = path.filter(|_| counts) {
                    // Not before the admin page is the other one's: its numbers must not be behind those seen here.
                    self.upgrades.send_counters(taker, path, Arc::clone(&self.registry));
                }
                return Some(after);
            }
        }
        None
    }

    fn upgrade_failed(&mut self, why: &str) {
        self.upgrades.failed(why);
        // The kernel may have woken the other process for some clients: the workers look again.
        self.workers.order_all(|| Order::PredecessorClosed);
        let sentence = format!("{}; the last upgrade failed: {why}", self.sentence());
        self.notifier.set_status(&sentence);
    }

    /// Lets go of everything that the other process has.
    fn release_to_successor(&mut self, process: u32, addresses: &[Address]) -> Successor {
        self.notifier.disconnect();
        let listeners = self.listeners.hand_over(addresses);
        if self.shared.admin_socket().is_some_and(|admin| addresses.contains(&admin.address)) {
            self.shared.release_admin();
        }
        let connections = self.registry.snapshot().services.iter().map(ServiceSnapshot::connections).sum();
        let text = format!(
            "upgraded: process {process} took over {}; process {} has {} left",
            counted(listeners.len() as u64, "listener"),
            std::process::id(),
            counted(connections, "connection"),
        );
        self.upgrades.done(text);
        let has_socket = self.upgrades.address().is_some_and(|address| addresses.contains(&address));
        self.upgrades.close(has_socket);
        Successor::HandedOver(Arc::new(listeners))
    }

    /// Everything that another process needs; `None` while files are read.
    fn offered(&self) -> Option<Offered> {
        let given = self.carried.try_lock()?.rings.to_give();
        let keys = given.into_iter().map(|(fleet, GivenKeys { rotate, lifetime, text })| Keys {
            rotate,
            lifetime,
            fleet,
            text: text.reveal().to_owned(),
        });
        let standings = self.state.services.iter().map(|service| {
            let (operator_states, down) = service.standings.transferred();
            ServiceStandings { service: service.model.name.clone(), operator_states, down }
        });
        let socket_entry = |role, name, written, inherited| Socket { role, name, written, inherited };
        let ours = self.listeners.descriptors().filter(|(_, origin, ..)| *origin != Origin::Inherited);
        let ours = ours.map(|(id, _, _, socket)| {
            let (name, written) = (Some(id.service.clone()), Some((&id.address).into()));
            (socket_entry(Role::Service, name, written, false), socket)
        });
        let inherited = self.listeners.inherited().iter().map(|given| {
            (
                socket_entry(Role::Service, given.name.clone(), None, true),
                given.socket.clone().into_descriptor(),
            )
        });
        let admin = self.shared.admin_socket().map(|admin| {
            let written = self.state.config.admin.as_ref().map(Into::into);
            let name = admin.inherited.then(|| "admin".to_owned());
            (socket_entry(Role::Admin, name, written, admin.inherited), admin.socket)
        });
        let (sockets, descriptors) = ours.chain(inherited).chain(admin).chain(self.upgrades.socket()).unzip();
        let offer = Offer {
            protocol: PROTOCOL_VERSION,
            version: env!("CARGO_PKG_VERSION").into(),
            process: std::process::id(),
            sockets,
            keys: keys.collect(),
            standings: standings.collect(),
            maintenance: Some(self.maintenance.records()),
            counts: true,
        };
        Some((offer, descriptors))
    }
}
