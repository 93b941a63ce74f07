//! A network of a test's own: the whole test runs a second time, in a network namespace with nothing in it but loopback, where
//! it may drop, refuse and destroy as it likes. In: the test. Out: its verdict; or why there can be no such network here. The network
//! and what is laid in it are the laboratory's; here is what makes a test of it, and rules for packets.

use std::net::IpAddr;
use std::sync::OnceLock;

use handfast_lab::host;
use handfast_lab::namespace::{Inside, alone};
use handfast_lab::netlink::Prefix;

use super::deadline::wait_until;
use super::tools;

/// Commands that every test needs from its network; a machine that refuses them refuses here.
const PROBE: &str = "ip link set lo up && nft add table inet probe && ip route add blackhole 192.0.2.1";
/// The second run has a deadline for every wait in it; this is for a fault of the harness.
const TOO_LONG: &str = "120";

/// The place where a test runs.
pub(crate) enum Place {
    /// In a separate network: play.
    Inside,
    /// Outside: it has been played, and all was well.
    Played,
    /// There can be no such network here.
    Refused(String),
}

/// Plays the calling test within a separate network: `in_a_network_of_its_own!()` is its first line.
macro_rules! in_a_network_of_its_own {
    () => {{
        use handfast_testkit::{needs, skipped};
        needs!("ip", "nft", "ss", "timeout");
        fn test() {}
        match $crate::support::network::enter(std::any::type_name_of_val(&test)) {
            $crate::support::network::Place::Inside => {}
            $crate::support::network::Place::Played => return,
            $crate::support::network::Place::Refused(reason) => skipped!("{reason}"),
        }
    }};
}

pub(crate) use in_a_network_of_its_own;

/// The network of this process, if it is the second run.
fn inside() -> Option<Inside> {
    static INSIDE: OnceLock<Option<Inside>> = OnceLock::new();
    *INSIDE.get_or_init(|| alone::inside().expect("the second run is in a separate network"))
}

/// Runs a test again in a separate network; `function` is the type name of a function inside the test.
pub(crate) fn enter(function: &str) -> Place {
    if inside().is_some() {
        return Place::Inside;
    }
    if let Some(reason) = refusal() {
        return Place::Refused(reason.clone());
    }
    let (_, test) = function.trim_end_matches("::test").split_once("::").expect("a test is in a module");
    let program = std::env::current_exe().expect("a running program has a path");
    let timeout = ["env", "RUST_BACKTRACE=0", "timeout", "--kill-after=5", TOO_LONG].map(Into::into);
    let options = [test, "--exact", "--include-ignored", "--nocapture"].map(Into::into);
    let outcome = alone::run(&[&timeout[..], &[program.into()], &options].concat());
    let outcome = outcome.expect("there is such a network, and timeout is installed");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (output, talk) = (text(&outcome.stdout), text(&outcome.stderr));
    assert!(outcome.status.success(), "in a separate network ({}):\n{output}\n{talk}", outcome.status);
    assert!(output.contains("1 passed"), "{test} was not found a second time:\n{output}");
    // It may have found there that it cannot go on; then this process reports the test as skipped.
    let skipped = talk.lines().find_map(|line| line.strip_prefix("SKIPPED ")?.split_once(": "));
    skipped.map_or(Place::Played, |(_, reason)| Place::Refused(reason.to_owned()))
}

/// Reason why there can be no such network here, with rules and routes in it.
fn refusal() -> &'static Option<String> {
    static REFUSAL: OnceLock<Option<String>> = OnceLock::new();
    REFUSAL.get_or_init(|| {
        let why = match alone::run(&["sh", "-c", PROBE].map(Into::into)) {
            Ok(ran) if ran.status.success() => return None,
            Ok(ran) => String::from_utf8_lossy(&ran.stderr).into_owned(),
            Err(error) => error.to_string(),
        };
        Some(format!("no separate network: {}", why.lines().next().unwrap_or("refused")))
    })
}

/// Runs a command that must succeed, given as words.
pub(crate) fn must(command: &str) -> String {
    let mut words = command.split_whitespace();
    let program = words.next().expect("a command has a first word");
    let words: Vec<&str> = words.collect();
    let ran = tools::run(program, &words, b"");
    assert_eq!(ran.code, Some(0), "{command}: {}", ran.all());
    ran.output
}

/// Rules on what comes in; each has a name, and a counter that shows whether it was ever applied. They end with this value.
pub(crate) struct Rules(());

impl Rules {
    /// None yet.
    pub(crate) fn new() -> Self {
        let table = b"table inet faults {\n chain input {\n  type filter hook input priority 0;\n }\n}\n";
        let ran = tools::run("nft", &["-f", "-"], table);
        assert_eq!(ran.code, Some(0), "{}", ran.all());
        Self(())
    }

    /// Adds one: which packets, and what becomes of them.
    pub(crate) fn add(&self, name: &str, packets: &str, verdict: &str) {
        must(&format!("nft add rule inet faults input {packets} counter {verdict} comment \"{name}\""));
    }

    /// Takes all of them away.
    pub(crate) fn clear(&self) {
        must("nft flush chain inet faults input");
    }

    /// Number of packets to which a rule was applied.
    pub(crate) fn applied(&self, name: &str) -> u64 {
        let listing = must("nft list table inet faults");
        let name = format!("comment \"{name}\"");
        let rule = listing.lines().find(|line| line.trim().ends_with(&name)).expect("the rule was added");
        let (_, count) = rule.split_once("counter packets ").expect("the rule counts");
        count.split(' ').next().and_then(|count| count.parse().ok()).expect("nft writes a number")
    }
}

impl Drop for Rules {
    fn drop(&mut self) {
        // Values that are dropped after the rules might need the network again. A failure here has no remedy.
        let _ = tools::run("nft", &["delete", "table", "inet", "faults"], b"");
    }
}

/// Waits until everything that was sent from a local port has been acknowledged; acknowledgements may be late by 40 ms.
pub(crate) fn all_acknowledged(from: u16) {
    wait_until("everything to be acknowledged", || {
        let sockets = must(&format!("ss -Htn state established sport = :{from}"));
        sockets.lines().all(|socket| socket.split_whitespace().nth(1) == Some("0")).then_some(())
    });
}

/// A separate host beside this network, joined to it by a cable with addresses at both ends; packets for elsewhere go to the first of
/// ours in each family.
pub(crate) struct Host(host::Host);

impl Host {
    /// Makes it, and lays the cable.
    pub(crate) fn joined(name: &str, ours: &[&str], its: &[&str]) -> Self {
        let host =
            host::Host::new(inside().expect("the test is in its network"), name).expect("a host can be made");
        let prefixes = |texts: &[&str]| texts.iter().map(|text| prefix(text)).collect::<Vec<_>>();
        host.lay_cable(&prefixes(ours), &prefixes(its)).expect("a cable can be laid");
        Self(host)
    }

    /// Does something there: sockets that are opened stay there.
    pub(crate) fn inside<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        self.0.run(act).expect("the host is there")
    }
}

fn prefix(text: &str) -> Prefix {
    let (address, bits) = text.split_once('/').expect("an address with its prefix");
    Prefix(address.parse::<IpAddr>().expect("an address"), bits.parse().expect("a number of bits"))
}

/// Sets a parameter of the kernel, in this network only; whether that is allowed.
pub(crate) fn set_parameter(name: &str, value: &str) -> bool {
    inside().is_some_and(|inside| alone::set_parameter(inside, name, value).is_ok())
}
