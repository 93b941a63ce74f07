//! A network of a test's own: the whole test runs a second time, in a network namespace with nothing in it but loopback, where
//! it may drop, refuse and destroy as it likes. In: the test. Out: its verdict; or why there can be no such network here.

use std::process::Command;
use std::sync::OnceLock;

use super::deadline::wait_until;
use super::tools;

/// Says to the second run that it is one.
const INSIDE: &str = "HANDFAST_TEST_NETWORK";
/// Makes a network, brings its loopback up, and runs the rest there.
const ENTER: &str = "ip link set lo up && exec \"$@\"";
/// What every test needs from its network; a machine that refuses it refuses here.
const PROBE: &str = "ip link set lo up && nft add table inet probe && ip route add blackhole 192.0.2.1";
/// The second run has a deadline for every wait in it; this is for a fault of the harness.
const TOO_LONG: &str = "120";

/// Where a test stands.
pub(crate) enum Place {
    /// In a network of its own: play.
    Inside,
    /// Outside: it has been played, and all was well.
    Played,
    /// There can be no such network here.
    Refused(String),
}

/// Plays the test that this stands in within a network of its own: `in_a_network_of_its_own!()` is its first line.
macro_rules! in_a_network_of_its_own {
    () => {{
        use $crate::support::skip::{needs, skipped};
        needs!("unshare", "nsenter", "ip", "nft", "ss", "timeout");
        fn test() {}
        match $crate::support::network::enter(std::any::type_name_of_val(&test)) {
            $crate::support::network::Place::Inside => {}
            $crate::support::network::Place::Played => return,
            $crate::support::network::Place::Refused(reason) => skipped!("{reason}"),
        }
    }};
}

pub(crate) use in_a_network_of_its_own;

/// Runs a test again in a network of its own; `function` is the type name of a function inside the test.
pub(crate) fn enter(function: &str) -> Place {
    if std::env::var_os(INSIDE).is_some() {
        return Place::Inside;
    }
    let namespace = match namespace() {
        Ok(namespace) => namespace,
        Err(reason) => return Place::Refused(reason.clone()),
    };
    let (_, test) = function.trim_end_matches("::test").split_once("::").expect("a test is in a module");
    let program = std::env::current_exe().expect("a running program has a path");
    let outcome = Command::new("timeout")
        .args(["--kill-after=5", TOO_LONG, "unshare", namespace, "sh", "-c", ENTER, "sh"])
        .arg(program)
        .args([test, "--exact", "--include-ignored", "--nocapture"])
        .env(INSIDE, "yes")
        .env("RUST_BACKTRACE", "0")
        .output()
        .expect("timeout is installed");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (output, talk) = (text(&outcome.stdout), text(&outcome.stderr));
    assert!(outcome.status.success(), "in a network of its own ({}):\n{output}\n{talk}", outcome.status);
    assert!(output.contains("1 passed"), "{test} was not found a second time:\n{output}");
    // It may have found there that it cannot go on; the line that says so is ours to say.
    let skipped = talk.lines().find_map(|line| line.strip_prefix("SKIPPED ")?.split_once(": "));
    skipped.map_or(Place::Played, |(_, reason)| Place::Refused(reason.to_owned()))
}

/// The option of unshare(1) that works here: with privileges of ours, or with those of a user namespace.
fn namespace() -> &'static Result<&'static str, String> {
    static NAMESPACE: OnceLock<Result<&'static str, String>> = OnceLock::new();
    NAMESPACE.get_or_init(|| {
        let mut refusal = String::new();
        for option in ["-n", "-rn"] {
            let ran = tools::run("unshare", &[option, "sh", "-c", PROBE], b"");
            if ran.code == Some(0) {
                return Ok(option);
            }
            refusal = ran.talk;
        }
        Err(format!("no network of its own: {}", refusal.lines().next().unwrap_or("refused")))
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

    /// To how many packets a rule was applied.
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
        // What is dropped after them may want to be reached again. Nothing to be done when that fails.
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

/// A host of its own beside this network, joined to it by a cable. It is there as long as this value.
pub(crate) struct Host {
    name: &'static str,
    holder: tools::Tool,
}

impl Host {
    /// Without a cable yet.
    pub(crate) fn new(name: &'static str) -> Self {
        // It says so from inside: before that, its network is still this one.
        let holder = tools::Tool::start("unshare", &["-n", "sh", "-c", "echo inside; exec sleep 120"]);
        let _ = holder.output.containing("inside");
        Self { name, holder }
    }

    /// Lays the cable: our address at this end, and those of the host at the other; its way out leads through us.
    pub(crate) fn link(&self, ours: &str, its: &[&str]) {
        let (name, process) = (self.name, self.holder.process().0);
        must(&format!("ip link add to-{name} type veth peer name wire netns {process}"));
        must(&format!("ip link set to-{name} up"));
        self.must("ip link set lo up");
        self.must("ip link set wire up");
        self.link_more(ours, its);
    }

    /// More addresses at both ends; the first one of ours in each family is the host's gateway.
    pub(crate) fn link_more(&self, ours: &str, its: &[&str]) {
        let option = if ours.contains(':') { "nodad" } else { "" };
        must(&format!("ip address add {ours} dev to-{} {option}", self.name));
        for address in its {
            self.must(&format!("ip address add {address} dev wire {option}"));
        }
        let (gateway, _) = ours.split_once('/').expect("an address with its prefix");
        self.must(&format!("ip route add default via {gateway}"));
    }

    fn must(&self, command: &str) {
        must(&format!("nsenter -t {} -n {command}", self.holder.process().0));
    }

    /// Does something there: sockets that are opened stay there.
    pub(crate) fn inside<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        let network = std::fs::File::open(format!("/proc/{}/ns/net", self.holder.process().0));
        let network = network.expect("the host is there");
        std::thread::scope(|scope| {
            let acting = scope.spawn(|| {
                // This thread alone, which ends with it.
                rustix::thread::move_into_link_name_space(
                    std::os::fd::AsFd::as_fd(&network),
                    Some(rustix::thread::LinkNameSpaceType::Network),
                )
                .expect("it is a network of ours");
                act()
            });
            acting.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

/// Sets a parameter of the kernel, in this network only; whether that is allowed.
pub(crate) fn set_parameter(name: &str, value: &str) -> bool {
    let path = format!("/proc/sys/{}", name.replace('.', "/"));
    let mut options = std::fs::OpenOptions::new();
    let file = options.write(true).open(path);
    file.is_ok_and(|mut file| std::io::Write::write_all(&mut file, value.as_bytes()).is_ok())
}
