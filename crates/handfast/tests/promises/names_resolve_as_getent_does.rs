//! Names of backends resolve as `getent ahosts` resolves them on the same machine: by /etc/hosts, then by the nameservers, options and
//! search domains of /etc/resolv.conf. An operator that tries a name by hand sees what the proxy dials.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::support::folder::Folder;
use super::support::nameserver::{Nameserver, Record, Zone};
use super::support::network::{in_a_network_of_its_own, must};
use super::support::skip::needs;
use super::support::tools::run;
use super::support::*;

const HOSTS: &str = "\
127.0.0.1 localhost
192.0.2.1 web_app hosts4
2001:db8::1 hosts6
192.0.2.2 both
2001:db8::2 Both # other
192.0.2.3 First.Line second
192.0.2.4 second
";

/// Names of every row: in /etc/hosts, in DNS, in both, nowhere.
const NAMES: [&str; 21] = [
    "web_app",
    "hosts4",
    "hosts4.",
    "hosts4.corp.example",
    "hosts6",
    "BOTH",
    "other",
    "second",
    "first.line",
    "in_dns.corp.example",
    "in_dns",
    "dns4.example",
    "dns6.example.",
    "dns46.example",
    "chain.example",
    "short",
    "a.short",
    "nodata",
    "failing",
    "one_family.example",
    "nowhere.example",
];

/// Lines of /etc/resolv.conf. Nothing listens on 127.0.0.8; 127.0.0.9 answers nothing; 127.0.0.3 has errors only; 127.0.0.2 has other
/// addresses.
const ROWS: [&str; 13] = [
    "nameserver 127.0.0.1",
    "nameserver 127.0.0.1\nsearch corp.example b.example",
    "nameserver 127.0.0.1\nsearch b.example corp.example.",
    "nameserver 127.0.0.1\nsearch b.example\ndomain corp.example",
    "nameserver 127.0.0.1\nsearch corp.example\noptions ndots:3",
    "nameserver 127.0.0.1\nsearch fails.example corp.example",
    "nameserver 127.0.0.9\nnameserver 127.0.0.1\nsearch b.example corp.example",
    "nameserver 127.0.0.8\nnameserver 127.0.0.1",
    "nameserver 127.0.0.3\nnameserver 127.0.0.1",
    "nameserver 127.0.0.2\nnameserver 127.0.0.1\nsearch corp.example",
    "nameserver 127.0.0.1\nnameserver 127.0.0.2\nsearch corp.example",
    "# no nameserver\nsearch corp.example",
    "nameserver 127.0.0.1\noptions no-aaaa",
];

fn addresses(texts: &[&str]) -> Record {
    Record::Addresses(texts.iter().map(|text| text.parse().expect("an address")).collect())
}

fn zone() -> Zone {
    vec![
        ("hosts4", addresses(&["198.51.100.1"])),
        ("hosts6", addresses(&["198.51.100.2"])),
        ("hosts4.corp.example", addresses(&["198.51.100.3"])),
        ("in_dns.corp.example", addresses(&["198.51.100.4", "2001:db8:1::4"])),
        ("dns4.example", addresses(&["198.51.100.5"])),
        ("dns6.example", addresses(&["2001:db8:1::6"])),
        ("dns46.example", addresses(&["198.51.100.7", "198.51.100.8", "2001:db8:1::7"])),
        ("chain.example", Record::Alias("chain2.example")),
        ("chain2.example", Record::Alias("chain3.corp.example")),
        ("chain3.corp.example", addresses(&["198.51.100.9", "2001:db8:1::9"])),
        ("short.corp.example", addresses(&["198.51.100.10"])),
        ("short.b.example", addresses(&["198.51.100.11"])),
        ("a.short", addresses(&["198.51.100.12"])),
        ("a.short.corp.example", addresses(&["198.51.100.13"])),
        ("nodata", addresses(&[])),
        ("nodata.corp.example", addresses(&["2001:db8:1::14"])),
        ("failing", Record::Failure),
        ("short.fails.example", Record::Failure),
        ("one_family.example", Record::SilentForIpv6("198.51.100.15".parse().expect("an address"))),
    ]
}

/// Runs a command where /etc/hosts and /etc/resolv.conf have this content.
fn covered(folder: &Folder, hosts: &str, resolver: &str) -> Vec<String> {
    let cover = |name: &str, text: &str| {
        let file = folder.replace(name, format!("{text}\n"));
        format!("mount --bind {} /etc/{name} && ", file.display())
    };
    let script =
        cover("hosts", hosts) + &cover("resolv.conf", &format!("{resolver}\noptions timeout:1 attempts:1"));
    ["unshare", "--mount", "sh", "-c", &format!("{script}exec \"$@\""), "sh"].map(str::to_owned).to_vec()
}

/// The addresses that the C library finds.
fn by_getent(prefix: &[String], name: &str) -> BTreeSet<IpAddr> {
    let words: Vec<&str> = prefix[1..].iter().map(String::as_str).chain(["getent", "ahosts", name]).collect();
    let ran = run(&prefix[0], &words, b"");
    assert!([Some(0), Some(2)].contains(&ran.code), "{}", ran.all());
    let address = |line: &str| line.split_whitespace().next()?.parse().ok();
    ran.output.lines().filter_map(address).collect()
}

/// The same for all names, at the same time: some wait for nameservers.
fn by_getent_all(prefix: &[String]) -> Vec<(&'static str, BTreeSet<IpAddr>)> {
    std::thread::scope(|scope| {
        let running = NAMES.map(|name| (name, scope.spawn(move || by_getent(prefix, name))));
        running.map(|(name, running)| (name, running.join().expect("getent ran"))).into()
    })
}

/// A proxy with all names, and the addresses that it finds for each.
struct Resolving(Proxy);

impl Resolving {
    fn start(prefix: &[String]) -> Self {
        let backends: Vec<_> = NAMES.iter().map(|name| format!("\"{name}:80\"")).collect();
        let config = format!(
            "admin.listen = \"127.0.0.1:0\"\n[[service]]\nname = \"web\"\nlisten = \"127.0.0.1:0\"\nclient-tls = false\nbackend = [{}]\n\
             limits.resolve = \"1s\"\n",
            backends.join(", ")
        );
        let prefix: Vec<&str> = prefix.iter().map(String::as_str).collect();
        Self(Proxy::start_under(&prefix, config))
    }

    fn found(&self, name: &str) -> Option<(BTreeSet<IpAddr>, Option<String>)> {
        let status = self.0.status();
        let names = status["names"].as_array().expect("a list of names");
        let name = format!("{}:80", name.to_lowercase());
        let entry = names.iter().find(|entry| entry["name"] == name.as_str()).expect("the name is followed");
        let count = |key: &str| entry[key].as_u64().unwrap_or(0);
        let addresses = entry["addresses"].as_array().into_iter().flatten();
        let addresses = addresses.filter_map(|address| address.as_str()?.parse().ok()).collect();
        let problem = entry["problem"].as_str().map(str::to_owned);
        (count("answered") + count("failed") > 0).then_some((addresses, problem))
    }
}

/// The names of a row that getent finds addresses for, and those that the proxy resolves differently.
fn compare(row: &str) -> (usize, Vec<String>) {
    let folder = Folder::new();
    let prefix = covered(&folder, HOSTS, row);
    let proxy = Resolving::start(&prefix);
    let (mut resolved, mut differences) = (0, Vec::new());
    for (name, expected) in by_getent_all(&prefix) {
        let (seen, problem) = wait_until(&format!("an outcome for {name}"), || proxy.found(name));
        resolved += usize::from(!expected.is_empty());
        if seen != expected {
            differences.push(format!("{row:?} {name}: {seen:?} ({problem:?}), getent: {expected:?}"));
        }
    }
    (resolved, differences)
}

#[test]
fn whatever_the_files_and_nameservers_are() {
    needs!("getent", "unshare", "mount");
    in_a_network_of_its_own!();
    must("ip address add 192.0.2.77/32 dev lo");
    must("ip address add 2001:db8::77/128 dev lo nodad");
    let at = |last: u8| ([127, 0, 0, last], 53).into();
    let other = NAMES.iter().map(|name| (*name, addresses(&["203.0.113.1"]))).collect();
    let failing = NAMES.iter().map(|name| (*name, Record::Failure)).collect();
    let _servers = [
        Nameserver::start(at(1), Some(zone())),
        Nameserver::start(at(2), Some(other)),
        Nameserver::start(at(3), Some(failing)),
        Nameserver::start(at(9), None),
    ];
    // At the same time: most of a row is waiting for nameservers.
    let compared = std::thread::scope(|scope| {
        ROWS.map(|row| scope.spawn(move || compare(row))).map(|running| running.join().expect("a row ended"))
    });
    let resolved: usize = compared.iter().map(|(resolved, _)| resolved).sum();
    assert!(resolved > ROWS.len() * NAMES.len() / 2, "most names have addresses: {resolved}");
    let differences: Vec<_> = compared.into_iter().flat_map(|(_, differences)| differences).collect();
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
}

#[test]
fn without_ipv6_on_the_machine() {
    needs!("getent", "unshare", "mount");
    in_a_network_of_its_own!();
    must("ip address add 192.0.2.77/32 dev lo");
    let _server = Nameserver::start(([127, 0, 0, 1], 53).into(), Some(zone()));
    let folder = Folder::new();
    let prefix = covered(&folder, HOSTS, ROWS[0]);
    let proxy = Resolving::start(&prefix);
    for name in ["dns46.example", "both"] {
        let (seen, _) = wait_until(&format!("an outcome for {name}"), || proxy.found(name));
        assert_eq!(seen, by_getent(&prefix, name), "{name}");
        assert!(!seen.is_empty() && seen.iter().all(IpAddr::is_ipv4), "{name}: {seen:?}");
    }
}

#[test]
fn after_the_files_changed() {
    needs!("getent", "unshare", "mount");
    in_a_network_of_its_own!();
    let other = NAMES.iter().map(|name| (*name, addresses(&["203.0.113.1"]))).collect();
    let _servers = [
        Nameserver::start(([127, 0, 0, 1], 53).into(), Some(zone())),
        Nameserver::start(([127, 0, 0, 2], 53).into(), Some(other)),
    ];
    let folder = Folder::new();
    let prefix = covered(&folder, HOSTS, ROWS[0]);
    let proxy = Resolving::start(&prefix);
    let finds = |name: &str, address: &str| {
        let address: IpAddr = address.parse().expect("an address");
        wait_until(&format!("{name} to have {address}"), || {
            proxy.found(name).filter(|(found, _)| found.iter().eq([&address])).map(drop)
        });
    };
    finds("hosts4", "192.0.2.1");
    finds("dns4.example", "198.51.100.5");
    // In place, as programs that manage these files within containers do.
    for (name, text) in [("hosts", "192.0.2.99 hosts4\n"), ("resolv.conf", "nameserver 127.0.0.2\n")] {
        let script = format!("printf '{text}' > {}", folder.file(name).display());
        assert_eq!(run("sh", &["-c", &script], b"").code, Some(0));
    }
    finds("hosts4", "192.0.2.99");
    finds("dns4.example", "203.0.113.1");
}
