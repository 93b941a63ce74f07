//! Data that is carried from each state to the next: ticket keys (one ring for each combination of file, rotation and lifetime), the
//! throwaway certificate, the built-in backend, the sockets of programs.

#![expect(
    clippy::disallowed_types,
    reason = "what outlives a reload is locked while files are read, off the path"
)]

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, SystemTime};

use handfast_fleet::Tag;
use handfast_pki::apart::Holder;
use handfast_pki::files::replace_own;
use handfast_pki::throwaway::{self, Throwaway};
use handfast_tls::keyed_hash::HashKey;
use handfast_tls::ticket::{KeySet, KeySource, KeyText, Merged, TicketKeys, TicketSettings};

use crate::admission::verifier::Verifier;
use crate::backends::tunnel::OwnTargets;
use crate::files::FileThreads;
use handfast_config::model::{CertificateEntry, Config, Tickets};
use handfast_process::key_process::KeyProcess;
use handfast_process::privileges::ServiceUser;

/// Data that outlives the states of a process, and from which each new one is made.
#[derive(Debug, Default)]
pub(crate) struct CarriedOver {
    pub(crate) rings: KeyRings,
    pub(crate) throwaway: Option<Arc<Throwaway>>,
    pub(crate) own_targets: OwnTargets,
    pub(crate) threads: usize,
    /// Key process that holds the private keys; `None`: this process holds them.
    pub(crate) keys: Option<Arc<KeyProcess>>,
    /// For cookies whose secret is in no file.
    pub(crate) sticky_key: Option<HashKey>,
    /// Verifies passwords of clients.
    pub(crate) verifier: Arc<Verifier>,
    /// Reads files that are sent to clients.
    pub(crate) file_threads: FileThreads,
}

impl CarriedOver {
    /// Returns the process that reads files with keys; `None`: this one does.
    pub(crate) fn holder(&self) -> Option<Arc<dyn Holder>> {
        self.keys.as_ref().map(|keys| Arc::clone(keys) as _)
    }
}

#[cfg(test)]
impl CarriedOver {
    /// Nothing yet, for a process with this number of threads.
    pub(crate) fn with_threads(threads: usize) -> Self {
        Self { threads, ..Self::default() }
    }
}

/// The same, lent to the thread that reads files.
#[derive(Clone, Debug)]
pub(crate) struct SharedCarriedOver(Arc<Mutex<CarriedOver>>);

impl SharedCarriedOver {
    /// Owned by the control thread.
    pub(crate) fn new(carried: CarriedOver) -> Self {
        Self(Arc::new(Mutex::new(carried)))
    }

    /// For as long as files are read.
    pub(crate) fn lock(&self) -> MutexGuard<'_, CarriedOver> {
        // A reload that panicked leaves at worst a ring of keys that no service uses.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Without waiting; `None` while files are read.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, CarriedOver>> {
        match self.0.try_lock() {
            Ok(carried) => Some(carried),
            Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// Reason why there is no throwaway certificate.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ThrowawayError {
    #[error(transparent)]
    Make(#[from] throwaway::ThrowawayError),
    #[error("write the throwaway CA to {}: {source}", .file.display())]
    Write { file: PathBuf, source: io::Error },
}

/// Makes the throwaway certificate if `config` asks for one and there is none yet, and writes its CA. A reload finds one, and could not write
/// from within the sandbox.
///
/// **Errors**: making it, or writing the CA's file.
pub(crate) fn make_throwaway(
    config: &Config,
    carried: &mut CarriedOver,
    now: SystemTime,
) -> Result<(), ThrowawayError> {
    if carried.throwaway.is_some() {
        return Ok(());
    }
    let tls = config.services.iter().filter_map(|service| service.tls.as_ref());
    for source in tls.flat_map(|tls| &tls.certificates) {
        let CertificateEntry::Throwaway { ca_file } = source else { continue };
        let throwaway = match carried.throwaway.take() {
            Some(made) => made,
            None => Arc::new(throwaway::make(None, now)?),
        };
        let write = || replace_own(ca_file, throwaway.ca_pem.as_bytes(), 0o666);
        ServiceUser::from(&config.process)
            .try_on(ca_file, write)
            .map_err(|source| ThrowawayError::Write { file: ca_file.clone(), source })?;
        carried.throwaway = Some(throwaway);
    }
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RingId(usize);

/// Settings that make two services use the same keys: source, rotation and lifetime.
type RingIdentity = (KeySource, Duration, Duration);

/// Keys that were in the memory of the previous process.
#[derive(Debug)]
pub(crate) struct GivenKeys {
    pub(crate) rotate: Duration,
    pub(crate) lifetime: Duration,
    pub(crate) text: KeyText,
}

/// All ticket keys of the process. They outlive reloads, so sessions do too.
#[derive(Debug, Default)]
pub(crate) struct KeyRings {
    rings: Vec<(RingIdentity, TicketKeys)>,
    /// For rings that are not made yet, with the fleet that they are of.
    given: Vec<(Option<Tag>, GivenKeys)>,
    /// The fleet that shared keys are of.
    fleet: Option<Tag>,
    /// The user that makes their files where it can replace them.
    user: ServiceUser,
}

impl KeyRings {
    /// With keys of the previous process, each with its fleet, for services that want just those; `fleet` is that of this process, and
    /// `user` serves.
    pub(crate) fn with(given: Vec<(Option<Tag>, GivenKeys)>, fleet: Option<Tag>, user: ServiceUser) -> Self {
        Self { rings: Vec::new(), given, fleet, user }
    }

    /// Those that are in memory alone, for the process that follows, each with its fleet.
    pub(crate) fn to_give(&self) -> Vec<(Option<Tag>, GivenKeys)> {
        let given = |((source, rotate, lifetime), keys): &(RingIdentity, TicketKeys)| {
            let of = match source {
                KeySource::Fleet => Some(self.fleet.clone()?),
                KeySource::Memory | KeySource::File(_) => None,
            };
            Some((of, GivenKeys { rotate: *rotate, lifetime: *lifetime, text: keys.to_give()? }))
        };
        self.rings.iter().filter_map(given).collect()
    }

    /// Those of the previous process for a ring without a file, if there are any. Keys of another fleet, of one that was left, or of none
    /// for one that was joined stay where they are: machines with the secret of before may have them.
    fn take_given(&mut self, fleet: Option<&Tag>, settings: TicketSettings) -> Option<GivenKeys> {
        let place = self.given.iter().position(|(of, given)| {
            of.as_ref() == fleet && (given.rotate, given.lifetime) == (settings.rotate, settings.lifetime)
        })?;
        Some(self.given.swap_remove(place).1)
    }

    /// Keys for a ring of this process alone: those that were given, or new ones.
    fn in_memory(
        &mut self,
        now: SystemTime,
        settings: TicketSettings,
    ) -> Result<TicketKeys, handfast_tls::Error> {
        if let Some(given) = self.take_given(None, settings) {
            if let Some(keys) = TicketKeys::given(&given.text, now, settings)? {
                return Ok(keys);
            }
            tracing::warn!(
                "the ticket keys of the previous process have an unknown format: its clients need a full handshake"
            );
        }
        TicketKeys::random(now, settings)
    }

    fn in_file(
        &self,
        path: &Path,
        now: SystemTime,
        settings: TicketSettings,
    ) -> Result<TicketKeys, handfast_tls::Error> {
        let made = self.user.act_on(path, || TicketKeys::load_or_create(path, now, settings));
        made.unwrap_or_else(|error| {
            let source = io::Error::other(error.to_string());
            Err(handfast_tls::Error::File { act: "read ticket keys", file: path.to_path_buf(), source })
        })
    }

    pub(super) fn ring(
        &mut self,
        tickets: &Tickets,
        now: SystemTime,
    ) -> Result<(RingId, Arc<KeySet>), handfast_tls::Error> {
        let identity = (tickets.key_source.clone(), tickets.rotate, tickets.lifetime);
        let known = self.rings.iter().position(|(known, _)| *known == identity);
        let index = match known {
            Some(index) => index,
            None => {
                let settings = TicketSettings { rotate: tickets.rotate, lifetime: tickets.lifetime };
                let keys = match &tickets.key_source {
                    KeySource::File(path) => self.in_file(path, now, settings)?,
                    KeySource::Memory => self.in_memory(now, settings)?,
                    KeySource::Fleet => {
                        // None that is known: what was given is of another one.
                        let fleet = self.fleet.clone();
                        let given = fleet.and_then(|fleet| self.take_given(Some(&fleet), settings));
                        TicketKeys::shared(given.as_ref().map(|given| &given.text), now, settings)?
                    }
                };
                self.rings.push((identity, keys));
                self.rings.len() - 1
            }
        };
        Ok((RingId(index), self.rings[index].1.keys()))
    }

    /// Rotates what is due and reads what other processes wrote; the sets that have changed, and what went wrong.
    pub(crate) fn refresh(&mut self, now: SystemTime) -> (Vec<(RingId, Arc<KeySet>)>, Vec<String>) {
        let mut changed = Vec::new();
        let mut problems = Vec::new();
        for (index, (_, keys)) in self.rings.iter_mut().enumerate() {
            match keys.refresh(now) {
                Ok(Some(keys)) => changed.push((RingId(index), keys)),
                Ok(None) => {}
                Err(error) => problems.push(error.to_string()),
            }
        }
        (changed, problems)
    }

    /// Keys that other machines of the fleet have too, by the settings of their ring.
    pub(crate) fn to_share(&self) -> Vec<GivenKeys> {
        let shared = |(identity, keys): &(RingIdentity, TicketKeys)| {
            let (_, rotate, lifetime) = identity;
            Some(GivenKeys { rotate: *rotate, lifetime: *lifetime, text: keys.to_share()? })
        };
        self.rings.iter().filter_map(shared).collect()
    }

    /// Adds keys of another machine of the fleet to the ring that has their settings; `None`: there is none.
    pub(crate) fn merge(&mut self, theirs: &GivenKeys, now: SystemTime) -> Option<Merged> {
        let identity = (KeySource::Fleet, theirs.rotate, theirs.lifetime);
        let (_, keys) = self.rings.iter_mut().find(|(known, _)| *known == identity)?;
        Some(keys.merge(&theirs.text, now))
    }

    /// This process is in this fleet from now on, or in none. If that is another one than before, all shared keys are forgotten.
    pub(crate) fn follow(&mut self, fleet: Option<Tag>, now: SystemTime) {
        if self.fleet != fleet {
            self.fleet = fleet;
            self.rings.iter_mut().for_each(|(_, keys)| keys.forget(now));
            self.given.retain(|(of, _)| of.is_none());
        }
    }

    /// Returns the time of the next refresh; `None` without any keys.
    pub(crate) fn next_refresh(&self) -> Option<SystemTime> {
        self.rings.iter().map(|(_, keys)| keys.next_refresh()).min()
    }
}

#[cfg(test)]
mod tests {
    use handfast_fleet::Secret;

    use std::io::Write;

    use super::*;

    fn tickets(key_source: KeySource) -> Tickets {
        let hour = Duration::from_secs(3600);
        Tickets { per_handshake: 1, key_source, rotate: hour, lifetime: 2 * hour }
    }

    /// Returns the number of given keys that a process keeps, by the key source of its service.
    fn same_keys(before: &KeyRings, now: Option<&Tag>, source: KeySource) -> usize {
        let mut after = KeyRings::with(before.to_give(), now.cloned(), ServiceUser::default());
        let known = before.rings[0].1.to_give().expect("they are in memory");
        let (RingId(id), _) =
            after.ring(&tickets(source), SystemTime::now()).expect("there are random numbers");
        let text = after.rings[id].1.to_give().expect("they are in memory");
        let [ours, theirs] = [&text, &known].map(|text| text.reveal().lines().collect::<Vec<_>>());
        ours.iter().filter(|line| line.starts_with("key ") && theirs.contains(line)).count()
    }

    #[test]
    fn keys_of_a_fleet_are_for_that_fleet_alone() {
        let [blue, red] = ["blue", "red"].map(|name| {
            let (text, file) =
                ("0123456789abcdef".repeat(4), tempfile::NamedTempFile::new().expect("a file"));
            write!(file.as_file(), "{text}").expect("it is ours");
            Secret::read(file.path()).expect("it is a secret").tag(name)
        });
        let now = SystemTime::now();
        let mut fleet = KeyRings::with(Vec::new(), Some(blue.clone()), ServiceUser::default());
        fleet
            .ring(&tickets(KeySource::Fleet), now - Duration::from_secs(10))
            .expect("there are random numbers");
        fleet.refresh(now);
        let blue_to = |now, source| same_keys(&fleet, now, source);
        assert_eq!(blue_to(Some(&blue), KeySource::Fleet), 1);
        assert_eq!(blue_to(Some(&red), KeySource::Fleet), 0, "another fleet");
        assert_eq!(blue_to(None, KeySource::Fleet), 0, "one whose secret cannot be read");
        assert_eq!(blue_to(None, KeySource::Memory), 0, "it was left");
        let mut alone = KeyRings::default();
        alone.ring(&tickets(KeySource::Memory), now).expect("there are random numbers");
        assert_eq!(same_keys(&alone, Some(&blue), KeySource::Memory), 1);
        assert_eq!(
            same_keys(&alone, Some(&blue), KeySource::Fleet),
            0,
            "all machines of the fleet have them"
        );

        // Keys that no service has requested yet end with the fleet too.
        let mut given = KeyRings::with(fleet.to_give(), Some(blue.clone()), ServiceUser::default());
        given.follow(Some(red), now);
        given.follow(Some(blue.clone()), now);
        given.ring(&tickets(KeySource::Fleet), now).expect("there are random numbers");
        assert!(given.to_share().is_empty(), "it asks others first");

        fleet.follow(Some(blue), now);
        assert!(!fleet.to_share().is_empty(), "it is the same one");
        fleet.follow(None, now);
        assert!(fleet.to_share().is_empty() && fleet.to_give().is_empty(), "it was left");
    }
}
