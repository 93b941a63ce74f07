//! Shares of the open files that this process may have: for connections, for caches, for everything else.

use std::ops::RangeInclusive;

use handfast_net::limits::{FileLimit, file_limit, reserve_descriptors};

use crate::error::Error;
use handfast_config::model::{Address, Config, Http, RouteAction};
use handfast_text::units::counted;

/// Descriptors kept for everything but connections (listeners, logs, certificates being read, admin): an eighth, within these bounds.
const RESERVED_FILES: RangeInclusive<u64> = 40..=128;
/// Listening sockets that have room among them.
const LISTENING_SOCKETS: u64 = 16;
/// The default of `process.max-connections`, where the limit on open files allows more.
const MAX_CONNECTIONS: usize = 1_000_000;

/// Shares of the descriptors of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptors {
    /// The limit on open files.
    pub limit: FileLimit,
    /// Kept for everything but connections and caches.
    pub reserved: u64,
    /// For each connection: the client's, a backend's, and a file where a service has a cache or serves files.
    pub per_connection: u64,
    /// The number of connections that may be served at once.
    pub connections: usize,
}

impl Descriptors {
    /// Shares them out; `check_slots`: the number of health checks that may run at once, with a descriptor each; `threads`: each has a socket
    /// for each address.
    ///
    /// **Errors**: the limit on open files is too low for the number in the configuration, or for any connection.
    pub fn share_out(
        config: &Config,
        limit: FileLimit,
        check_slots: u32,
        threads: usize,
    ) -> Result<Self, Error> {
        let allowed = limit.now;
        let has_files = |http: &Http| {
            let mut routes = http.routes.iter();
            http.cache.is_some() || routes.any(|route| matches!(route.action, RouteAction::Files(_)))
        };
        let mut http = config.services.iter().filter_map(|service| service.http.as_ref());
        let per_connection = if http.any(has_files) { 3 } else { 2 };
        let is_checked = config.services.iter().any(|service| service.check.is_some());
        let reserved = (allowed / 8).clamp(*RESERVED_FILES.start(), *RESERVED_FILES.end())
            + listening_sockets(config, threads).saturating_sub(LISTENING_SOCKETS)
            + if is_checked { u64::from(check_slots) } else { 0 };
        let possible = allowed.saturating_sub(reserved) / per_connection;
        let possible = usize::try_from(possible).unwrap_or(usize::MAX);
        if possible == 0 {
            return Err(Error::TooFewFiles { allowed, reserved, per_connection });
        }
        let connections = match config.process.max_connections {
            Some(required) if required > possible => {
                return Err(Error::TooManyConnections {
                    required,
                    possible,
                    allowed,
                    reserved,
                    per_connection,
                });
            }
            Some(required) => required,
            None => possible.min(MAX_CONNECTIONS),
        };
        Ok(Self { limit, reserved, per_connection, connections })
    }

    /// Keeps the reserve from connections and caches.
    pub fn reserve(&self) {
        reserve_descriptors(self.connection_numbers(), self.file_numbers());
    }

    /// Moves the reserve when the limit was changed from outside (prlimit(1)). The number of connections stays: permits for it were given
    /// out at the start.
    ///
    /// **Cost**: a call.
    pub fn follow_limit(&mut self) {
        let Some(moved) = self.moved_to(file_limit()) else { return };
        tracing::warn!(
            "the limit on open files was changed from {} to {}: connections have the descriptors below number {}, and max-connections is \
             still {}\n  hint: a restart or `handfast upgrade` shares out the new limit",
            self.limit.now,
            moved.limit.now,
            moved.connection_numbers(),
            moved.connections
        );
        moved.reserve();
        *self = moved;
    }

    /// `None`: the limit has not changed.
    fn moved_to(&self, limit: u64) -> Option<Self> {
        (limit != self.limit.now).then_some(Self { limit: FileLimit { now: limit, ..self.limit }, ..*self })
    }

    /// Connections have the descriptors below this number. Half of the smallest reserve is above it, for what comes and goes: the admin
    /// listener's clients, files of a reload.
    pub fn connection_numbers(&self) -> u32 {
        below(self.limit.now.saturating_sub(RESERVED_FILES.start() / 2))
    }

    /// Files of caches have the descriptors below this number: above it there is one for each connection, so that a request that cannot be
    /// answered from a cache reaches its backend.
    pub fn file_numbers(&self) -> u32 {
        below(u64::from(self.connection_numbers()).saturating_sub(self.connections as u64))
    }

    /// Logs how many connections there may be, and why.
    pub fn log(&self, threads: usize) {
        let FileLimit { before, now } = self.limit;
        let raised = if now == before { String::new() } else { format!(" (raised from {before})") };
        tracing::info!("{}{raised}, {}", self.describe(), counted(threads as u64, "worker thread"));
    }

    /// Returns the arithmetic.
    pub fn describe(&self) -> String {
        format!(
            "up to {}, with {} descriptors each: {} allowed, {} reserved",
            counted(self.connections as u64, "connection"),
            self.per_connection,
            counted(self.limit.now, "open file"),
            self.reserved
        )
    }
}

fn below(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// The number of sockets that listen: of TCP one for each thread.
fn listening_sockets(config: &Config, threads: usize) -> u64 {
    let addresses = config.services.iter().flat_map(|service| &service.listen);
    addresses.map(|address| if let Address::Ip(_) = address { threads as u64 } else { 1 }).sum()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn share_out(now: u64, change: impl FnOnce(&mut Config)) -> Result<Descriptors, String> {
        let mut config = Config::embedded(PathBuf::from("ca.pem"));
        change(&mut config);
        let limit = FileLimit { before: now, now };
        Descriptors::share_out(&config, limit, 64, 2).map_err(|error| error.to_string())
    }

    fn connections(now: u64, required: Option<usize>) -> Result<usize, String> {
        share_out(now, |config| config.process.max_connections = required).map(|shared| shared.connections)
    }

    #[test]
    fn an_eighth_of_the_files_is_kept_but_neither_less_than_40_nor_more_than_128() {
        assert_eq!(connections(240, None), Ok(100), "40 of 240");
        assert_eq!(connections(800, None), Ok(350), "100 of 800");
        assert_eq!(connections(65_536, None), Ok(32_704), "128 of 65536");
        assert_eq!(connections(u64::MAX, None), Ok(MAX_CONNECTIONS));
    }

    #[test]
    fn a_number_that_is_too_high_is_refused_with_the_highest_possible() {
        assert_eq!(connections(240, Some(100)), Ok(100));
        let refused = connections(240, Some(101)).expect_err("242 files are needed");
        assert!(refused.starts_with(
            "process.max-connections: 242 open files are needed for 101 connections, this process may have 240\n"
        ));
        assert!(refused.ends_with("set max-connections to 100 or less"), "{refused}");
        let refused = connections(41, None).expect_err("not even one");
        assert!(refused.starts_with("this process may have 41 open files, it needs 40 and 2 for each"));
    }

    #[test]
    fn many_listening_sockets_are_counted() {
        let listen = |number: u16| {
            move |config: &mut Config| {
                let address = |port| Address::Ip(([127, 0, 0, 1], port).into());
                config.services[0].listen = (1..=number).map(address).collect();
            }
        };
        let reserved = |number| share_out(1_024, listen(number)).map(|shared| shared.reserved);
        assert_eq!(reserved(8), Ok(128), "16 sockets, two threads");
        assert_eq!(reserved(100), Ok(128 + 200 - 16));
    }

    #[test]
    fn the_reserve_follows_a_limit_that_is_changed_from_outside() {
        let shared = share_out(1_000, |_| {}).expect("enough");
        assert_eq!(shared.moved_to(1_000), None);
        for limit in [100, 10, 0, 5_000, u64::MAX] {
            let moved = shared.moved_to(limit).expect("it was changed");
            let numbers = u32::try_from(limit.saturating_sub(20)).unwrap_or(u32::MAX);
            assert_eq!((moved.connection_numbers(), moved.connections), (numbers, shared.connections));
        }
    }

    /// Whatever the numbers: clients have room, a request past the cache reaches its backend, and what is reserved stays.
    #[test]
    fn numbers_of_files_are_below_those_of_connections_and_both_below_the_reserve() {
        for (now, per_connection) in (42..2_000).flat_map(|now| [(now, 2), (now, 3)]) {
            let Ok(shared) = share_out(now, |_| {}) else { continue };
            let connections = usize::try_from((now - shared.reserved) / per_connection).expect("few");
            let shared = Descriptors { per_connection, connections, ..shared };
            let (numbers, files) = (shared.connection_numbers(), shared.file_numbers());
            assert_eq!(u64::from(numbers), now - 20, "{shared:?}");
            assert_eq!(files as usize + connections, numbers as usize, "{shared:?}");
        }
    }
}
