//! One lookup of a name, with the outcome that the C library has: /etc/hosts first, then the nameservers in their order.
//!
//! In: a name, the system's files. Out: its addresses and for how long they are valid, or why there are none. The C library itself has no
//! time to live in its answers.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{NameServerConfig, ResolveHosts, ResolverConfig};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::rr::{Name, RecordType};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::system::{Resolver, SystemFiles, has_ipv6};

/// /etc/hosts has no time to live.
const HOSTS_TTL: Duration = Duration::from_secs(30);

/// The reason for a lookup without an address.
#[derive(Debug)]
pub(crate) enum Unresolved {
    NoSuchName,
    /// It exists, and has no address.
    NoAddress,
    Deadline(Duration),
    /// The thread that reads `/etc/hosts` and `/etc/resolv.conf` failed.
    Files,
    /// No nameserver gave an answer; the failure of the last one.
    Nameserver {
        address: IpAddr,
        waited: Duration,
        error: Box<NetError>,
    },
}

impl Unresolved {
    /// Returns true if DNS answered that there is no address.
    pub(super) fn is_an_answer(&self) -> bool {
        matches!(self, Self::NoSuchName | Self::NoAddress)
    }
}

impl fmt::Display for Unresolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchName => f.write_str("there is no such name"),
            Self::NoAddress => f.write_str("it has no address"),
            Self::Deadline(time) => write!(f, "no answer within {time:?}"),
            Self::Files => f.write_str("read /etc/hosts and /etc/resolv.conf: failed unexpectedly"),
            Self::Nameserver { address, waited, error } => match &**error {
                NetError::Timeout => write!(f, "no answer from nameserver {address} within {waited:?}"),
                NetError::Dns(DnsError::ResponseCode(code)) => {
                    write!(f, "nameserver {address} answered with an error: {code}")
                }
                NetError::Io(error) => write!(f, "ask nameserver {address}: {error}"),
                error => write!(f, "ask nameserver {address}: {error}"),
            },
        }
    }
}

impl std::error::Error for Unresolved {}

/// Addresses, and how long they hold.
pub(super) type Resolved = (Vec<IpAddr>, Duration);

/// Looks a name up; returns the files as read for it, too.
pub(super) async fn resolve(name: &str, files: SystemFiles) -> (SystemFiles, Result<Resolved, Unresolved>) {
    let (before, searched) = (files.clone(), name.to_owned());
    let read = tokio::task::spawn_blocking(move || {
        let files = files.read_again();
        let hosts = files.hosts(&searched);
        (files, hosts, has_ipv6())
    });
    let (files, hosts, has_ipv6) = match finished(read).await {
        Ok(read) => read,
        Err(error) => return (before, Err(error)),
    };
    let found = match hosts.is_empty() {
        true => Nameservers::new(files.resolver()).search(name).await,
        false => Ok((hosts, HOSTS_TTL)),
    };
    let reachable = found.map(|(mut addresses, ttl)| {
        if !has_ipv6 && addresses.iter().any(IpAddr::is_ipv4) {
            addresses.retain(IpAddr::is_ipv4);
        }
        (addresses, ttl)
    });
    (files, reachable)
}

/// The outcome of reading files, which is no answer about the name where it failed.
async fn finished<T>(read: JoinHandle<T>) -> Result<T, Unresolved> {
    read.await.map_err(|_| Unresolved::Files)
}

/// The nameservers of one lookup.
struct Nameservers {
    config: Resolver,
    /// Unresponsive ones are at the end: each would cost its timeout again for every name of the search list.
    order: Vec<IpAddr>,
}

impl Nameservers {
    fn new(config: Resolver) -> Self {
        Self { order: config.nameservers.clone(), config }
    }

    /// Tries the names of the search list until one has an address. A nameserver's error for one name does not end the search; that no
    /// nameserver answers does, as in `res_search` of the C library.
    async fn search(&mut self, name: &str) -> Result<Resolved, Unresolved> {
        let mut worst = Unresolved::NoSuchName;
        for name in self.config.absolute_names(name) {
            // Only the search list can make it too long.
            let Ok(name) = Name::from_ascii(&name) else { continue };
            match self.query(&name).await {
                Ok(found) => return Ok(found),
                Err(Unresolved::NoSuchName) => {}
                Err(Unresolved::NoAddress) if !worst.is_an_answer() => {}
                Err(error @ Unresolved::Nameserver { .. }) if !has_answered(&error) => return Err(error),
                Err(error) => worst = error,
            }
        }
        Err(worst)
    }

    /// Asks the nameservers one after the other, and for this number of rounds.
    async fn query(&mut self, name: &Name) -> Result<Resolved, Unresolved> {
        let mut last = Unresolved::NoSuchName;
        for _ in 0..self.config.attempts {
            for address in self.order.clone() {
                match self.query_one(address, name).await {
                    Err(error @ Unresolved::Nameserver { .. }) => {
                        if !has_answered(&error) {
                            self.order.retain(|other| *other != address);
                            self.order.push(address);
                        }
                        last = error;
                    }
                    answer => return answer,
                }
            }
        }
        Err(last)
    }

    /// Asks one nameserver for both families at the same time. Addresses of one are enough where the other brings an error: some
    /// nameservers never answer for IPv6.
    async fn query_one(&self, address: IpAddr, name: &Name) -> Result<Resolved, Unresolved> {
        let waited = self.config.timeout;
        let failed = |error| Unresolved::Nameserver { address, waited, error: Box::new(error) };
        let server = client(address, &self.config).map_err(failed)?;
        let v4 = server.lookup(name.clone(), RecordType::A);
        let answers = match self.config.without_ipv6 {
            true => vec![v4.await],
            false => {
                let (v4, v6) = tokio::join!(v4, server.lookup(name.clone(), RecordType::AAAA));
                vec![v4, v6]
            }
        };
        let (mut found, mut ttl) = (Vec::new(), Duration::MAX);
        let (mut error, mut is_unknown) = (None, false);
        for answer in answers {
            match answer {
                Ok(answer) => {
                    found.extend(answer.answers().iter().filter_map(|record| record.data.ip_addr()));
                    let left =
                        Instant::from_std(answer.valid_until()).saturating_duration_since(Instant::now());
                    ttl = ttl.min(left);
                }
                Err(answer) if answer.is_no_records_found() => is_unknown |= answer.is_nx_domain(),
                Err(problem) => error = Some(problem),
            }
        }
        match error {
            _ if !found.is_empty() => Ok((found, ttl)),
            Some(error) => Err(failed(error)),
            None if is_unknown => Err(Unresolved::NoSuchName),
            None => Err(Unresolved::NoAddress),
        }
    }
}

/// Returns true if the nameserver sent an answer, though an error.
fn has_answered(error: &Unresolved) -> bool {
    matches!(error, Unresolved::Nameserver { error, .. } if matches!(**error, NetError::Dns(_)))
}

/// A client for one nameserver. It keeps no answers: a name that did not exist a moment ago may exist now.
fn client(address: IpAddr, config: &Resolver) -> Result<TokioResolver, NetError> {
    let transport = if config.over_tcp { NameServerConfig::tcp } else { NameServerConfig::udp_and_tcp };
    let servers = ResolverConfig::from_parts(None, Vec::new(), vec![transport(address)]);
    let mut builder = TokioResolver::builder_with_config(servers, TokioRuntimeProvider::default());
    let options = builder.options_mut();
    (options.timeout, options.attempts, options.cache_size) = (config.timeout, 0, 0);
    options.use_hosts_file = ResolveHosts::Never;
    builder.build()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After an answer without an address, the addresses that are in use would be dropped.
    #[test]
    fn a_panic_while_files_are_read_is_no_answer() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let read =
            async { finished(tokio::task::spawn_blocking(|| -> u8 { panic!("as a fault would") })).await };
        let error = runtime.block_on(read).expect_err("it panicked");
        assert!(!error.is_an_answer(), "{error}");
    }
}
