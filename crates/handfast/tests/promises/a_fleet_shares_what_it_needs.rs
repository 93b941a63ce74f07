//! Machines of a fleet share what they need: a session of one resumes on any other, any of them answers an authority's challenges, and the
//! certificate that one has ordered is served by all. Without their bus each goes on alone, and afterwards all is shared again.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use super::support::bus::{Bus, Wire};
use super::support::deadline::{pause, wait_until_seeing};
use super::support::folder::Folder;
use super::support::pebble::Pebble;
use super::support::proxy::message;
use super::support::skip::needs;
use super::support::tools::{handfast, run};
use super::support::upgrade::upgrade;
use super::support::*;

/// A bus with users and TLS, as `handfast fleet setup` writes it, and the files of its machines.
struct Fleet {
    bus: Bus,
    files: Folder,
    backend: Backend,
}

impl Fleet {
    fn new() -> Self {
        let files = Folder::new();
        let folder = files.path().display().to_string();
        let ran = handfast(&["fleet", "setup", "--host", "127.0.0.1", "--fleet", "blue", &folder]);
        assert_eq!(ran.code, Some(0), "{}", ran.all());
        let bus = Bus::with(&["-c", &files.file("nats-server.conf").display().to_string(), "-p", "-1"]);
        assert!(
            ran.output.contains("[fleet]\nname = \"blue\"\nbus = \"tls://127.0.0.1:4222\"\n"),
            "{}",
            ran.output
        );
        Self { bus, files, backend: Backend::echo() }
    }

    /// A machine of this name, without a service.
    fn machine(&self, name: &str) -> Config {
        let file = |name: &str| self.files.file(name).display().to_string();
        Config::empty()
            .text("process", "watch-interval", "200ms")
            .text("fleet", "name", "blue")
            .text("fleet", "machine", name)
            .text("fleet", "bus", format!("tls://{}", self.bus.address))
            .text("fleet", "ca", file("ca.pem"))
            .text("fleet", "credentials", file("machine.secret"))
            .text("fleet", "secret", file("fleet.secret"))
    }

    /// … with one that has a certificate for localhost.
    fn serving(&self, name: &str) -> Config {
        let certificate = self.files.write("web.pem", certificates::localhost().combined());
        self.machine(name).service("web", self.backend.address).certificate(&certificate)
    }

    /// Machines that receive each other's messages, and have the same key.
    fn machines<const N: usize>(&self, config: impl Fn(Config) -> Config) -> [Proxy; N] {
        let made: [Proxy; N] =
            std::array::from_fn(|place| Proxy::start(config(self.serving(&format!("m{place}")))));
        made.iter().for_each(|proxy| are_together(proxy, N));
        made
    }
}

/// Waits until a machine knows so many, itself included, and one of them has its key.
fn are_together(proxy: &Proxy, machines: usize) {
    wait_until_seeing(
        &format!("{machines} machines with one key"),
        || {
            let metrics = proxy.metrics();
            let machine_count = metrics.sum("handfast_fleet_machines", &[]);
            let shared = metrics.has("handfast_ticket_keys_shared_seconds");
            ((machine_count - machines as f64).abs() < 0.5 && shared).then_some(())
        },
        || proxy.talk.so_far().join("\n"),
    );
}

fn resumes(proxy: &Proxy, trust: &std::sync::Arc<rustls::ClientConfig>) -> bool {
    let mut client = Client::connect(proxy.address(), trust);
    client.echo(b"x");
    let resumed = client.resumed();
    client.finish();
    resumed
}

#[test]
fn a_session_of_one_machine_resumes_on_any_other() {
    needs!("nats-server");
    let fleet = Fleet::new();
    let machines: [Proxy; 3] = fleet.machines(|config| config);
    for version in [Version::Tls13, Version::Tls12] {
        let trust = Trust::version(version).config();
        assert!(!resumes(&machines[0], &trust), "the first one");
        for turn in [1, 2, 0, 2, 1] {
            assert!(resumes(&machines[turn], &trust), "{version:?}, machine {turn}");
        }
    }
    let ran = handfast(&["fleet", "list", &machines[0].admin().to_string()]);
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    for words in [
        "m0 in fleet blue, on tls://127.0.0.1:",
        "another machine reported the one that is used",
        "m1  ",
        "m2  ",
    ] {
        assert!(ran.output.contains(words), "{words}: {}", ran.output);
    }
    let page = http::get(machines[0].admin(), "/status", "text/html").body;
    assert!(page.contains("<h2>Fleet</h2>") && page.contains("m0 is this machine"), "{page}");
    // A machine that has ended is missed at once: it sends a last message.
    let [first, second, third] = machines;
    third.stop();
    wait_until("it to be missed", || {
        (first.metrics().sum("handfast_fleet_machines", &[]) < 2.5).then_some(())
    });
    drop(second);
}

#[test]
fn rotations_interrupt_nothing() {
    needs!("nats-server");
    let fleet = Fleet::new();
    let machines: [Proxy; 3] =
        fleet.machines(|config| config.text("tickets", "rotate", "8s").text("tickets", "lifetime", "30s"));
    let trust = Trust::version(Version::Tls13).config();
    assert!(!resumes(&machines[0], &trust), "the first one");
    let (end, mut full, mut all) = (Instant::now() + Duration::from_secs(26), 0, 0);
    while Instant::now() < end {
        full += usize::from(!resumes(&machines[all % 3], &trust));
        all += 1;
        pause(Duration::from_millis(20));
    }
    assert!(all > 200 && full == 0, "{full} of {all} were full handshakes");
    let ids = |proxy: &Proxy| proxy.metrics().sum("handfast_ticket_keys_shared_seconds", &[]);
    assert!(machines.iter().all(|proxy| ids(proxy) < 70.0), "what they say each minute agrees");
}

#[test]
fn a_load_test_of_several_machines_resumes_everywhere() {
    needs!("nats-server");
    let fleet = Fleet::new();
    let machines: [Proxy; 3] =
        fleet.machines(|config| config.text("tickets", "rotate", "8s").text("tickets", "lifetime", "60s"));
    let addresses = machines.each_ref().map(|proxy| proxy.address().to_string());
    let [first, second, third] = &addresses;
    let words = ["load", first, "--also", second, "--also", third, "--resume", "1", "--json", "-"];
    let ran = handfast(&[&words[..], &["--rate", "100", "--duration", "20s", "--sni", "localhost"]].concat());
    let report: serde_json::Value =
        serde_json::from_str(&ran.output).unwrap_or_else(|_| panic!("{}", ran.all()));
    let also = &report["manifest"]["job"]["plan"]["also"];
    assert_eq!(also.as_array().map(Vec::len), Some(2), "{also}");
    let sum = |kind: &str| -> f64 {
        machines.iter().map(|proxy| proxy.metrics().sum("handfast_handshakes_total", &[("kind", kind)])).sum()
    };
    let (full, resumed) = (sum("full"), sum("resumed"));
    // Those of the rehearsals and of the first tickets are full ones.
    assert!(resumed > 1_500.0 && full < 100.0, "{full} full, {resumed} resumed");
    let each = machines
        .each_ref()
        .map(|proxy| proxy.metrics().sum("handfast_handshakes_total", &[("kind", "resumed")]));
    assert!(each.iter().all(|count| *count > 400.0), "{each:?}");
    let offered: f64 =
        machines.iter().map(|proxy| proxy.metrics().sum("handfast_tickets_offered_total", &[])).sum();
    assert!(resumed >= 0.999 * offered, "{resumed} of {offered} tickets were accepted");
}

#[test]
fn without_the_bus_each_goes_on_alone_and_then_all_is_shared_again() {
    needs!("nats-server");
    let mut fleet = Fleet::new();
    let [first, second]: [Proxy; 2] = fleet.machines(|config| config);
    let conf = fleet.files.file("nats-server.conf").display().to_string();
    fleet.bus.kill();
    wait_until("both to be alone", || {
        let up = |proxy: &Proxy| proxy.metrics().sum("handfast_fleet_bus_up", &[]);
        (up(&first) + up(&second) < 0.5).then_some(())
    });
    let trust = Trust::version(Version::Tls13).config();
    assert!(!resumes(&first, &trust), "the first one");
    assert!(resumes(&second, &trust), "the keys that they have are good for hours");
    let ran = handfast(&["fleet", "list", &first.admin().to_string()]);
    assert_eq!(ran.code, Some(1), "{}", ran.all());
    assert!(ran.output.contains("m0 in fleet blue, alone: "), "{}", ran.output);
    // One that starts now has a separate key, after it has waited for others.
    let third = Proxy::start(fleet.serving("m2"));
    let alone = Trust::version(Version::Tls13).config();
    wait_until("it to resume its own sessions", || resumes(&third, &alone).then_some(()));
    assert!(!resumes(&first, &alone), "no other machine has its key");
    let alone = Trust::version(Version::Tls13).config();
    assert!(!resumes(&third, &alone), "the first one");
    let (address, port) = (fleet.bus.address, fleet.bus.address.port().to_string());
    fleet.bus = Bus::with(&["-c", &conf, "-p", &port]);
    assert_eq!(fleet.bus.address, address);
    [&first, &second, &third].into_iter().for_each(|proxy| are_together(proxy, 3));
    assert!(resumes(&second, &alone), "what was sealed by one alone is opened by all");
    assert!(resumes(&third, &trust), "and the other way round");
    let alone = |line: &&String| line.contains("continues without it");
    assert_eq!(first.talk.so_far().iter().filter(alone).count(), 1, "said once");
}

#[test]
fn another_password_is_found_while_it_serves() {
    needs!("nats-server");
    let mut fleet = Fleet::new();
    let [first, second]: [Proxy; 2] = fleet.machines(|config| config);
    fleet.bus.kill();
    let read = |name: &str| std::fs::read_to_string(fleet.files.file(name)).expect("it is ours");
    let (conf, secret) = (read("nats-server.conf"), read("machine.secret"));
    let (_, old) = secret.trim().split_once(':').expect("a user and a password");
    let conf = fleet.files.replace("nats-server.conf", conf.replace(old, "another-password-for-machines"));
    let port = fleet.bus.address.port().to_string();
    fleet.bus = Bus::with(&["-c", &conf.display().to_string(), "-p", &port]);
    wait_until("both to be alone", || {
        let up = |proxy: &Proxy| proxy.metrics().sum("handfast_fleet_bus_up", &[]);
        (up(&first) + up(&second) < 0.5).then_some(())
    });
    fleet.files.replace("machine.secret", "machine:another-password-for-machines\n");
    let up = |proxy: &Proxy| proxy.metrics().sum("handfast_fleet_bus_up", &[]) > 0.5;
    wait_until("both to be back", || (up(&first) && up(&second)).then_some(()));
    [&first, &second].into_iter().for_each(|proxy| are_together(proxy, 2));
}

#[test]
fn clocks_that_differ_by_minutes_are_reported_and_harm_nothing() {
    needs!("nats-server", "faketime");
    let fleet = Fleet::new();
    let right = Proxy::start(fleet.serving("right"));
    let at = |offset: &'static str, name: &str| {
        Proxy::start_with(fleet.serving(name), |mut command| {
            // As faketime does it, which is not the proxy itself then. The linker knows the folder.
            command.env("LD_PRELOAD", "/usr/$LIB/faketime/libfaketime.so.1");
            command.env("FAKETIME", offset).env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
            command
        })
    };
    let (ahead, behind) = (at("+300s", "ahead"), at("-300s", "behind"));
    let machines = [&right, &ahead, &behind];
    machines.iter().for_each(|proxy| are_together(proxy, 3));
    let trust = Trust::version(Version::Tls13).config();
    assert!(!resumes(&right, &trust), "the first one");
    for turn in [1, 2, 0, 2, 1, 0] {
        assert!(resumes(machines[turn], &trust), "machine {turn}");
    }
    for words in [
        "the clock of ahead is 300 s ahead of this machine's",
        "the clock of behind is 300 s behind this machine's",
    ] {
        right.talk.containing(words);
    }
    let page = http::get(right.admin(), "/status", "text/html").body.replace("&#39;", "'");
    assert!(page.contains("The clock of behind is 5 min behind this machine's."), "{page}");
}

#[test]
fn all_may_be_started_again_at_once() {
    needs!("nats-server");
    let fleet = Fleet::new();
    let before: [Proxy; 3] = fleet.machines(|config| config);
    let trust = Trust::version(Version::Tls13).config();
    assert!(!resumes(&before[0], &trust), "the first one");
    drop(before);
    let machines: [Proxy; 3] = fleet.machines(|config| config);
    assert!(!resumes(&machines[0], &trust), "no machine remembers");
    for turn in [1, 2, 0] {
        assert!(resumes(&machines[turn], &trust), "machine {turn}");
    }
}

#[test]
fn who_has_the_password_of_the_bus_can_neither_read_nor_forge() {
    needs!("nats-server");
    let fleet = Fleet::new();
    let mut stranger = Wire::as_user(&fleet.bus, &fleet.files, "machine");
    stranger.subscribe("hf.blue.m.>");
    let machines: [Proxy; 2] = fleet.machines(|config| config);
    let mut received = Vec::new();
    wait_until("them to have spoken", || {
        received.extend(stranger.settle().0);
        (received.len() > 4).then_some(())
    });
    for message in &received {
        let text = String::from_utf8_lossy(&message.payload);
        // So long that chance does not make them of random bytes.
        let is_readable = ["\"machine\"", "handfast-ticket-keys"].iter().any(|words| text.contains(words));
        assert!(!is_readable && message.payload[0] == 1, "{text:?}");
    }
    let mut changed = received[0].payload.clone();
    *changed.last_mut().expect("it has bytes") ^= 1;
    for payload in [&b""[..], b"{\"from\":\"x\"}", &changed] {
        stranger.publish("hf.blue.m.all", payload);
    }
    // And everything again, which is what it can do.
    received.iter().for_each(|message| stranger.publish("hf.blue.m.all", &message.payload));
    let complaints = stranger.settle().1;
    assert!(complaints.is_empty(), "{complaints:?}");
    // Elsewhere it may say nothing.
    stranger.publish("hf.default.c.all", b"{}");
    assert_eq!(stranger.settle().1.len(), 1);
    wait_until("the forgeries to be counted", || {
        let foreign = machines[0].status()["fleet"]["foreign_messages"].as_u64();
        (foreign == Some(3)).then_some(())
    });
    let trust = Trust::version(Version::Tls13).config();
    assert!(!resumes(&machines[0], &trust), "the first one");
    assert!(resumes(&machines[1], &trust));
    // Replayed messages bring no machine back that has left.
    let [first, second] = machines;
    second.stop();
    // Its own connection was not read meanwhile, so the server has ended it.
    let mut stranger = Wire::as_user(&fleet.bus, &fleet.files, "machine");
    received.iter().for_each(|message| stranger.publish("hf.blue.m.all", &message.payload));
    stranger.publish("hf.blue.m.all", b"the last one");
    wait_until("all that is repeated to have come", || {
        (first.status()["fleet"]["foreign_messages"].as_u64() == Some(4)).then_some(())
    });
    assert_eq!(
        first.status()["fleet"]["machines"].as_array().map(Vec::len),
        Some(0),
        "{}",
        first.status()["fleet"]
    );
}

#[test]
fn another_secret_is_another_fleet_and_a_changed_one_forgets_all_keys() {
    needs!("nats-server");
    let fleet = Fleet::new();
    let machines: [Proxy; 2] = fleet.machines(|config| config);
    let trust = Trust::version(Version::Tls13).config();
    assert!(!resumes(&machines[0], &trust), "the first one");
    assert!(resumes(&machines[1], &trust));
    let others = fleet.files.write("other.secret", "0123456789abcdef".repeat(4));
    let config = fleet.serving("m0").text("fleet", "secret", others.display());
    machines[0].rewrite(config);
    assert!(machines[0].reload());
    wait_until("its keys to be new", || (!resumes(&machines[0], &trust)).then_some(()));
    wait_until("it to have one", || {
        let trust = Trust::version(Version::Tls13).config();
        resumes(&machines[0], &trust);
        resumes(&machines[0], &trust).then_some(())
    });
    let trust = Trust::version(Version::Tls13).config();
    resumes(&machines[0], &trust);
    assert!(!resumes(&machines[1], &trust), "it is another fleet");
}

/// Machines with the secret of before may have its keys.
#[test]
fn an_upgrade_hands_keys_on_within_one_fleet_alone() {
    needs!("nats-server");
    let fleet = Fleet::new();
    let socket = fleet.files.file("upgrade.sock");
    let upgradable = |config: Config| config.text("process", "upgrade-socket", socket.display());
    let proxy = Proxy::start(upgradable(fleet.serving("m0")));
    let replaced = || upgrade(&proxy, &[]).unwrap_or_else(|why| panic!("{why}"));
    // It asks others for theirs before it makes one.
    let session = || {
        let trust = Trust::version(Version::Tls13).config();
        wait_until("a key", || resumes(&proxy, &trust).then_some(()));
        trust
    };
    let trust = session();
    let _second = replaced();
    assert!(resumes(&proxy, &trust), "the same secret");
    let others = fleet.files.write("other.secret", "0123456789abcdef".repeat(4));
    proxy.rewrite(upgradable(fleet.serving("m0").text("fleet", "secret", others.display())));
    let _third = replaced();
    // The process before it may accept one more.
    let is_unknown = |trust| (!resumes(&proxy, trust)).then_some(());
    wait_until("another secret to have other keys", || is_unknown(&trust));
    let trust = session();
    let certificate = fleet.files.file("web.pem");
    let alone = Config::empty().service("web", fleet.backend.address).certificate(&certificate);
    proxy.rewrite(upgradable(alone));
    let _fourth = replaced();
    wait_until("a process without a fleet to have other keys", || is_unknown(&trust));
    wait_until("it to have another one", || resumes(&proxy, &trust).then_some(()));
}

#[test]
fn what_is_wrong_is_reported_before_the_start() {
    let folder = Folder::new();
    let shown = folder.path().display().to_string();
    let ran = handfast(&["fleet", "setup", "--host", "127.0.0.1", &shown]);
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    let again = handfast(&["fleet", "setup", "--host", "127.0.0.1", &shown]);
    assert!(again.code == Some(2) && again.talk.contains("not overwritten"), "{}", again.all());
    let secret = folder.write("open.secret", "0123456789abcdef".repeat(4));
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o644)).expect("it is ours");
    let certificate = folder.write("web.pem", certificates::localhost().combined());
    let config = |secret: &std::path::Path| {
        Config::empty()
            .text("fleet", "bus", "nats://127.0.0.1:4222")
            .text("fleet", "secret", secret.display())
            .service("web", Backend::refusing())
            .certificate(&certificate)
            .to_string()
    };
    for (secret, words) in [
        (secret, "others on this machine can read it"),
        (folder.file("missing.secret"), "hint: `handfast fleet setup"),
        (folder.file("machine.secret"), "expected 64 hexadecimal digits"),
    ] {
        let file = folder.write("handfast.toml", config(&secret));
        let ran = handfast(&["check", "-c", &file.display().to_string()]);
        assert!(ran.code == Some(2) && ran.all().contains(words), "{words}: {}", ran.all());
    }
}

/// The files of certificates in a store, and how many orders are remembered.
fn store(folder: &Folder, name: &str) -> (Option<String>, usize) {
    let store = folder.file("store");
    let pem = std::fs::read_to_string(store.join("certificates").join(format!("{name}.pem"))).ok();
    let record = std::fs::read(store.join("records").join(format!("{name}.json")));
    let record: serde_json::Value =
        record.ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
    (pem, record["orders"].as_array().map_or(0, Vec::len))
}

#[test]
fn one_machine_orders_another_is_queried_and_all_serve() {
    const NAME: &str = "a.example.org";
    needs!("nats-server", "pebble", "pebble-challtestsrv", "openssl");
    let (fleet, pebble) = (Fleet::new(), Pebble::start(""));
    let stores = [Folder::new(), Folder::new(), Folder::new()];
    // The authority asks here, and this machine orders nothing.
    let listen = format!("[\"{}\", \"{}\"]", pebble.tls, pebble.http);
    let requested = Proxy::start(fleet.serving("asked").set("service", "listen", listen));
    let ordering = |place: usize| {
        fleet
            .machine(&format!("m{place}"))
            .set("acme", "accept-terms-of-service", true)
            .text("acme", "folder", stores[place].file("store").display())
            .text("acme", "directory", pebble.directory())
            .text("acme", "ca", pebble.ca().display())
            .service("web", fleet.backend.address)
            .text("service", "certificate", "acme")
            .text("service", "acme-names", NAME)
    };
    // Both have nothing, and begin at once.
    let machines = [Proxy::start(ordering(0)), Proxy::start(ordering(1))];
    let (pem, _) = wait_until("both to have it", || {
        let [one, other] = [store(&stores[0], NAME), store(&stores[1], NAME)];
        (one.0.is_some() && one.0 == other.0).then_some(one)
    });
    assert_eq!(store(&stores[0], NAME).1 + store(&stores[1], NAME).1, 1, "one order");
    let queries = requested.records().iter().filter(|record| record.reason().ends_with("/challenge")).count();
    assert!(queries > 0, "the authority has asked the other machine");
    // One that comes later takes it over.
    let late = Proxy::start(ordering(2));
    wait_until("it to have it too", || (store(&stores[2], NAME).0 == pem).then_some(()));
    assert_eq!(store(&stores[2], NAME).1, 0, "no order");
    let served: BTreeSet<_> = machines
        .iter()
        .chain([&late])
        .map(|proxy| {
            let address = proxy.address().to_string();
            wait_until("it to be served", || {
                let words = ["s_client", "-connect", &address, "-servername", NAME];
                let output = run("openssl", &words, b"").output;
                let start = output.find("-----BEGIN CERTIFICATE-----")?;
                Some(output[start..output.find("-----END CERTIFICATE-----")?].to_owned())
            })
        })
        .collect();
    assert_eq!(served.len(), 1, "all serve the same one");
    let all = machines.iter().chain([&late]).flat_map(|proxy| proxy.talk.so_far());
    let ordered = all.filter(|line| message(line).contains(": ordering a certificate")).count();
    assert_eq!(ordered, 1);
}

#[test]
fn a_bus_that_wants_tls_before_its_greeting_is_joined() {
    needs!("nats-server");
    let bus = Bus::start();
    let files = Folder::new();
    let ca = files.write("ca.pem", authority().pem.clone()).display().to_string();
    // A TLS proxy in front of it does what `handshake_first: true` does in later versions of the server.
    let certificate = files.write("web.pem", certificates::localhost().combined());
    let front = Proxy::start(Config::empty().service("bus", bus.address).certificate(&certificate));
    let url = format!("tls://localhost:{}", front.address().port());
    let machine = |tls_first: bool| {
        let config = Config::empty()
            .service("web", bus.address)
            .certificate(&certificate)
            .text("fleet", "bus", &url)
            .text("fleet", "ca", &ca)
            .text("fleet", "secret", files.write("fleet.secret", "0123456789abcdef".repeat(4)).display());
        if tls_first { config.set("fleet", "tls-first", true) } else { config }
    };
    let joined = Proxy::start(machine(true));
    joined.talk.containing(&format!("fleet: joined default on {url}"));
    let alone = Proxy::start(machine(false));
    alone
        .talk
        .containing("hint: if the server has `handshake_first: true`, set `tls-first = true` in [fleet]");
    let doctor = |more: &[&str]| {
        handfast(&[&["load", "doctor", "--workers", &url, "--bus-ca", &ca][..], more].concat())
    };
    let ran = doctor(&["--bus-tls-first"]);
    assert!(ran.code == Some(0) && ran.output.contains("TLS is required"), "{}", ran.all());
    let ran = doctor(&[]);
    assert!(ran.code == Some(1) && ran.talk.contains("set --bus-tls-first"), "{}", ran.all());
    // The other way round: the server greets first.
    let plain = format!("nats://{}", bus.address);
    let ran = handfast(&["load", "doctor", "--workers", &plain, "--bus-tls-first"]);
    let hint = "if the server has no `handshake_first: true`, remove --bus-tls-first";
    assert!(ran.code == Some(1) && ran.talk.contains(hint), "{}", ran.all());
}
