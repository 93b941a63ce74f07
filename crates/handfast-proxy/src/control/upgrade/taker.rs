//! The new process's side: it takes over from the running process, and reports when it serves itself.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use handfast_net::listen::{GivenSocket, Origin};

use super::counter_transfer;
use super::protocol::{
    Keys, MESSAGE_TIMEOUT, Offer, Opening, PROTOCOL_VERSION, Role, TakerMessage, UpgradeReply,
    UpgradeRequest, describe, receive, send, set_timeout,
};
use crate::backends::standing::Standing;
use crate::control::error::{Error, TakeOverError};
use crate::control::maintenance::CommandRecord;
use crate::state::{GivenKeys, State};
use handfast_config::model::Address;
use handfast_fleet::Tag;
use handfast_net::descriptors::receive_descriptors;
use handfast_observe::metrics::Registry;
use handfast_observe::operator_state::OperatorState;
use handfast_process::listeners::{PassedSocket, PassedSockets};
use handfast_tls::ticket::KeyText;

#[derive(Debug)]
pub(crate) struct Taking {
    connection: GiverConnection,
    offer: Offer,
    given: PassedSockets,
    upgrade: Option<(PathBuf, OwnedFd)>,
    /// Of backends that are down, until threads use them.
    kept: Vec<Arc<Standing>>,
}

#[derive(Debug)]
pub(crate) struct GiverConnection {
    stream: UnixStream,
    path: PathBuf,
}

impl GiverConnection {
    fn failed(&self, source: TakeOverError) -> Error {
        Error::TakeOver { path: self.path.clone(), source }
    }

    /// Sends the reason why this process cannot serve to the one that requested the upgrade.
    pub(crate) fn report_failure(&self, why: &Error) {
        // The process there finds out in any case, when this connection ends.
        let _ = send(&self.stream, &TakerMessage::Failed { why: why.to_string() });
    }
}

impl Taking {
    /// Asks the process that listens at `path` for everything that it serves with. Nothing changes for it by that.
    ///
    /// **Errors**: no process there, a refusal, an incomplete answer. **Cost**: waits for the answer.
    pub(crate) fn begin(path: &Path) -> Result<Self, Error> {
        let failed = |source| Error::TakeOver { path: path.to_owned(), source };
        let talk = || -> io::Result<(UnixStream, UpgradeReply)> {
            let stream = UnixStream::connect(path)?;
            set_timeout(&stream, MESSAGE_TIMEOUT)?;
            send(&stream, &Opening::new(UpgradeRequest::TakeOver))?;
            let answer = receive(&stream)?;
            Ok((stream, answer))
        };
        let (stream, answer) = talk().map_err(|error| failed(TakeOverError::Connection(error)))?;
        let offer = match answer {
            UpgradeReply::Offer(offer) if offer.protocol == PROTOCOL_VERSION => offer,
            UpgradeReply::Offer(offer) => {
                return Err(failed(TakeOverError::OtherProtocol { theirs: offer.protocol }));
            }
            UpgradeReply::Refused { why } => return Err(failed(TakeOverError::Refused { why })),
            UpgradeReply::Go | UpgradeReply::Done { .. } | UpgradeReply::Launch {} => {
                return Err(failed(TakeOverError::OutOfOrder));
            }
        };
        let descriptors = receive_descriptors(&stream, offer.sockets.len());
        let descriptors = descriptors.map_err(|error| failed(TakeOverError::Connection(error)))?;
        let connection = GiverConnection { stream, path: path.to_path_buf() };
        Self::of(connection, *offer, descriptors)
    }

    fn of(connection: GiverConnection, mut offer: Offer, descriptors: Vec<OwnedFd>) -> Result<Self, Error> {
        let (mut given, mut upgrade) = (Vec::new(), None);
        for (offered, descriptor) in std::mem::take(&mut offer.sockets).into_iter().zip(descriptors) {
            if offered.role == Role::Upgrade {
                let Some(Address::Unix(path)) = offered.written.map(Address::from) else { continue };
                upgrade = Some((path, descriptor));
                continue;
            }
            let socket = GivenSocket::new(descriptor)
                .map_err(|unfit| connection.failed(TakeOverError::UnfitSocket(unfit)))?;
            let written = offered.written.map(Address::from);
            if written.as_ref().is_some_and(|written| !is_bound_to(written, socket.address())) {
                let bound = socket.address().clone();
                return Err(connection.failed(TakeOverError::OtherSocket { bound }));
            }
            let origin = if offered.inherited { Origin::Inherited } else { Origin::HandedOver };
            let name = offered.name.filter(|_| offered.role == Role::Service || offered.inherited);
            given.push(PassedSocket { socket, name, written, origin });
        }
        tracing::info!(
            "taking over from process {} (handfast {}), which serves until this one does",
            offer.process,
            offer.version
        );
        Ok(Self { connection, offer, given: PassedSockets { sockets: given }, upgrade, kept: Vec::new() })
    }

    /// A second handle of the connection, to report a failure on it.
    pub(crate) fn connection(&self) -> Result<GiverConnection, Error> {
        let stream = self.connection.stream.try_clone().map_err(Error::system("take over"))?;
        Ok(GiverConnection { stream, path: self.connection.path.clone() })
    }

    pub(crate) fn take_sockets(&mut self) -> PassedSockets {
        std::mem::take(&mut self.given)
    }

    /// Ticket keys, and the fleet that they are of.
    pub(crate) fn take_keys(&mut self) -> Vec<(Option<Tag>, GivenKeys)> {
        let given = |Keys { rotate, lifetime, fleet, text }| {
            (fleet, GivenKeys { rotate, lifetime, text: KeyText::from(text) })
        };
        std::mem::take(&mut self.offer.keys).into_iter().map(given).collect()
    }

    /// The commands that put services in maintenance; `None`: the previous process does not know of maintenance.
    pub(crate) fn take_maintenance(&mut self) -> Option<Vec<CommandRecord>> {
        self.offer.maintenance.take()
    }

    /// The socket for upgrade requests, if this process is to have it at the same path.
    pub(crate) fn take_upgrade(&mut self, path: &Path) -> Option<OwnedFd> {
        self.upgrade.take_if(|(known, _)| known == path).map(|(_, socket)| socket)
    }

    /// Makes the standings of backends those that the previous process knew.
    pub(crate) fn restore(&mut self, state: &State) {
        for known in std::mem::take(&mut self.offer.standings) {
            let service = state.services.iter().find(|service| service.model.name == known.service);
            let Some(service) = service else { continue };
            for (backend, requested) in known.operator_states {
                if let Some(requested) = OperatorState::named(&requested) {
                    service.standings.set_operator_state(&backend, requested);
                }
            }
            self.kept.extend(known.down.iter().map(|down| service.standings.restore(down)));
        }
    }

    /// Reports that every worker accepts, from the sockets of these addresses; then the previous process stops accepting, and the registry
    /// continues from its counters.
    ///
    /// If that process is gone by now, this one serves nevertheless: it has the sockets. **Errors**: the previous process keeps serving,
    /// for the reason that it reports.
    pub(crate) fn report_ready<'a>(
        self,
        addresses: impl Iterator<Item = &'a Address>,
        registry: &Arc<Registry>,
    ) -> Result<(), Error> {
        let Self { connection, offer: Offer { process, version, counts, .. }, .. } = self;
        let word = TakerMessage::Ready { addresses: addresses.map(Into::into).collect(), counts };
        let answer = send(&connection.stream, &word).and_then(|()| receive(&connection.stream));
        match answer {
            Ok(UpgradeReply::Go) => {
                tracing::info!("took over from process {process} (handfast {version}), which drains");
                if counts {
                    counter_transfer::take_up(connection.stream, process, Arc::clone(registry));
                }
                Ok(())
            }
            Ok(UpgradeReply::Refused { why }) => Err(connection.failed(TakeOverError::Refused { why })),
            Ok(_) => Err(connection.failed(TakeOverError::OutOfOrder)),
            Err(error) => {
                tracing::warn!("process {process} did not say that it drains: {}", describe(&error));
                Ok(())
            }
        }
    }
}

/// Returns true if a socket can be the one of an address as it is written: port 0 is the kernel's choice, and a unix socket may have been
/// bound under another name.
fn is_bound_to(written: &Address, bound: &Address) -> bool {
    match (written, bound) {
        (Address::Ip(written), Address::Ip(bound)) => {
            written.ip() == bound.ip() && [0, bound.port()].contains(&written.port())
        }
        (Address::Unix(_), Address::Unix(_)) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_of_another_address_is_not_taken_for_one_of_ours() {
        let ip = |text: &str| Address::Ip(text.parse().expect("an address"));
        let unix = |text: &str| Address::Unix(text.into());
        for (written, bound) in [
            (ip("[::]:443"), ip("[::]:443")),
            (ip("127.0.0.1:0"), ip("127.0.0.1:4000")),
            (unix("/run/web.sock"), unix("/run/web.sock.12")),
        ] {
            assert!(is_bound_to(&written, &bound), "{written} {bound}");
        }
        for (written, bound) in [
            (ip("127.0.0.1:443"), ip("127.0.0.1:4000")),
            (ip("127.0.0.1:443"), ip("127.0.0.2:443")),
            (ip("127.0.0.1:443"), unix("/run/web.sock")),
            (unix("/run/web.sock"), ip("127.0.0.1:443")),
        ] {
            assert!(!is_bound_to(&written, &bound), "{written} {bound}");
        }
    }
}
