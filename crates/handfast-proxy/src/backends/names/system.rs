//! /etc/hosts and /etc/resolv.conf, read as the C library reads them (hosts(5), resolv.conf(5)).
//!
//! In: the files of this machine, read again for each lookup. Out: a name's addresses in the first; nameservers, their options and the names
//! to ask for from the second.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

const HOSTS: &str = "/etc/hosts";
const RESOLVER: &str = "/etc/resolv.conf";
/// The kernel's list of IPv6 addresses: one on a line, in hexadecimal.
const IPV6_ADDRESSES: &str = "/proc/net/if_inet6";
const LOOPBACK_V6: &str = "00000000000000000000000000000001";
/// Lists against advertisements have about 5 MB.
const MAX_FILE: u64 = 16 << 20;
/// Nameservers, and the largest values of options (`MAXNS`, `RES_MAXNDOTS`, `RES_MAXRETRANS`, `RES_MAXRETRY` of resolv.h).
const MAX_NAMESERVERS: usize = 3;
const MAX_DOTS: usize = 15;
const MAX_TIMEOUT: u64 = 30;
const MAX_ATTEMPTS: usize = 5;

/// The text of both files as last read.
#[derive(Clone, Debug, Default)]
pub(super) struct SystemFiles {
    hosts: Arc<str>,
    resolver: Arc<str>,
    /// The error of reading the present files; their former text is used.
    problem: Option<Arc<str>>,
}

impl SystemFiles {
    /// Reads both again. The sandbox may deny a file that was replaced since the start: then the former text remains, which is logged
    /// once. A file that does not exist is empty.
    ///
    /// **Cost**: blocks for the disk.
    pub(super) fn read_again(&self) -> Self {
        let mut files = self.clone();
        files.problem = None;
        for (path, text) in [(HOSTS, &mut files.hosts), (RESOLVER, &mut files.resolver)] {
            match read(path) {
                Ok(read) if read == **text => {}
                Ok(read) => *text = read.into(),
                Err(error) if error.kind() == ErrorKind::NotFound => *text = Arc::default(),
                Err(error) => files.problem = Some(format!("read {path}: {error}").into()),
            }
        }
        if let Some(problem) = files.problem.as_ref().filter(|problem| self.problem.as_ref() != Some(problem))
        {
            tracing::warn!(
                "{problem}; its former content stays in use\n  hint: restart, or `handfast upgrade`, if the file was replaced: the sandbox \
                 opens the file of the start"
            );
        }
        files
    }

    /// Returns the addresses of a name in /etc/hosts: of all lines with this name, in any case of letters.
    pub(super) fn hosts(&self, name: &str) -> Vec<IpAddr> {
        let line = |line: &str| {
            let mut words = line.split('#').next()?.split_whitespace();
            let address = words.next()?;
            words.any(|word| word.eq_ignore_ascii_case(name)).then(|| address.parse().ok())?
        };
        self.hosts.lines().filter_map(line).collect()
    }

    pub(super) fn resolver(&self) -> Resolver {
        Resolver::parse(&self.resolver, || rustix::system::uname().nodename().to_string_lossy().into_owned())
    }
}

fn read(path: &str) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_FILE).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns true if this machine has an IPv6 address besides the loopback's, or if that cannot be found out. The C library resolves no IPv6
/// addresses without (`AI_ADDRCONFIG`).
pub(super) fn has_ipv6() -> bool {
    let listed = |list: String| list.lines().any(|line| !line.starts_with(LOOPBACK_V6));
    match read(IPV6_ADDRESSES) {
        Ok(list) => listed(list),
        // A kernel without IPv6 has no such file.
        Err(error) => error.kind() != ErrorKind::NotFound,
    }
}

/// Content of /etc/resolv.conf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Resolver {
    /// At least one.
    pub(super) nameservers: Vec<IpAddr>,
    search: Vec<String>,
    /// Number of dots from which the name itself comes before its completions.
    dots: usize,
    /// Wait for one nameserver.
    pub(super) timeout: Duration,
    /// Rounds through all nameservers.
    pub(super) attempts: usize,
    pub(super) over_tcp: bool,
    pub(super) without_ipv6: bool,
}

impl Resolver {
    fn parse(text: &str, host: impl Fn() -> String) -> Self {
        let mut resolver = Self {
            nameservers: Vec::new(),
            search: Vec::new(),
            dots: 1,
            timeout: Duration::from_secs(5),
            attempts: 2,
            over_tcp: false,
            without_ipv6: false,
        };
        let mut search = None;
        for line in text.lines().filter(|line| !line.starts_with(['#', ';'])) {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("nameserver") => resolver.nameservers.extend(words.next().and_then(nameserver)),
                // The last line counts, of either kind.
                Some("search") => search = Some(words.map(str::to_owned).collect()),
                Some("domain") => search = Some(words.take(1).map(str::to_owned).collect()),
                Some("options") => words.for_each(|option| resolver.set(option)),
                _ => {}
            }
        }
        resolver.nameservers.truncate(MAX_NAMESERVERS);
        if resolver.nameservers.is_empty() {
            resolver.nameservers.push(Ipv4Addr::LOCALHOST.into());
        }
        let of_host = || host().split_once('.').map(|(_, domain)| domain.to_owned()).into_iter().collect();
        resolver.search = search.unwrap_or_else(of_host);
        resolver
    }

    fn set(&mut self, option: &str) {
        let (option, value) = option.split_once(':').unwrap_or((option, ""));
        let number = value.parse::<u64>().ok();
        let count =
            |most: usize| number.map_or(0, |number| usize::try_from(number).unwrap_or(most).min(most));
        match option {
            "ndots" => self.dots = count(MAX_DOTS),
            "timeout" => self.timeout = Duration::from_secs(number.unwrap_or(0).clamp(1, MAX_TIMEOUT)),
            "attempts" => self.attempts = count(MAX_ATTEMPTS).max(1),
            "use-vc" => self.over_tcp = true,
            "no-aaaa" => self.without_ipv6 = true,
            _ => {}
        }
    }

    /// Returns the names to ask for, absolute and in this order.
    pub(super) fn absolute_names(&self, name: &str) -> Vec<String> {
        if name.ends_with('.') {
            return vec![name.to_owned()];
        }
        let as_it_is = format!("{name}.");
        let dots = name.bytes().filter(|byte| *byte == b'.').count();
        // RFC 6761 §6.3: `localhost` is no name of another domain.
        let is_first = dots >= self.dots || name == "localhost";
        let complete = |domain: &String| match domain.trim_end_matches('.') {
            "" => as_it_is.clone(),
            domain => format!("{name}.{domain}."),
        };
        let mut names: Vec<String> = is_first.then(|| as_it_is.clone()).into_iter().collect();
        names.extend(self.search.iter().map(complete));
        names.push(as_it_is);
        let mut seen = HashSet::new();
        names.retain(|name| seen.insert(name.clone()));
        names
    }
}

/// A nameserver of a line. An address with a zone (`fe80::1%eth0`) is left out: the DNS library has no place for the zone.
fn nameserver(text: &str) -> Option<IpAddr> {
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolver(text: &str) -> Resolver {
        Resolver::parse(text, || "host.of.example".to_owned())
    }

    #[test]
    fn a_name_is_completed_as_the_c_library_completes_it() {
        let rows: [(&str, &str, &[&str]); 11] = [
            ("", "web", &["web.of.example.", "web."]),
            ("search a.example b.example.", "web", &["web.a.example.", "web.b.example.", "web."]),
            ("search a.example", "web.shop", &["web.shop.", "web.shop.a.example."]),
            ("search a.example\noptions ndots:2", "web.shop", &["web.shop.a.example.", "web.shop."]),
            ("search a.example\noptions ndots:0", "web", &["web.", "web.a.example."]),
            ("search a.example", "web.", &["web."]),
            ("search a.example\ndomain b.example", "web", &["web.b.example.", "web."]),
            ("domain b.example\nsearch a.example a.example", "web", &["web.a.example.", "web."]),
            ("search .", "web", &["web."]),
            ("search a.example", "localhost", &["localhost.", "localhost.a.example."]),
            ("; search a.example\n#x\nsearch", "web_app", &["web_app."]),
        ];
        for (text, name, names) in rows {
            assert_eq!(resolver(text).absolute_names(name), names, "{text:?} {name}");
        }
    }

    #[test]
    fn options_and_nameservers_are_bounded() {
        let text = "options timeout:99999999999 attempts:0 ndots:x use-vc\nnameserver fe80::1%eth0\nnameserver ::1\nnameserver 192.0.2.1\n\
                    nameserver 192.0.2.2\nnameserver 192.0.2.3\noptions no-aaaa";
        let found = resolver(text);
        assert_eq!((found.timeout, found.attempts, found.dots), (Duration::from_secs(30), 1, 0));
        assert!(found.over_tcp && found.without_ipv6);
        let addresses: Vec<_> = found.nameservers.iter().map(IpAddr::to_string).collect();
        assert_eq!(addresses, ["::1", "192.0.2.1", "192.0.2.2"]);
        assert_eq!(resolver("nameserver x").nameservers, [IpAddr::from([127, 0, 0, 1])]);
    }

    #[test]
    fn all_lines_of_hosts_with_the_name_count() {
        let hosts = "192.0.2.1 Web_App alias # x web_app2\n2001:db8::1\tweb_app\n\n#192.0.2.9 web_app\nx web_app\n192.0.2.1 other";
        let files = SystemFiles { hosts: hosts.into(), ..SystemFiles::default() };
        let found = |name: &str| files.hosts(name).iter().map(IpAddr::to_string).collect::<Vec<_>>();
        assert_eq!(found("web_app"), ["192.0.2.1", "2001:db8::1"]);
        assert_eq!(found("ALIAS"), ["192.0.2.1"]);
        assert_eq!((found("web_app2"), found("web_app.")), (vec![], vec![]));
    }
}
