//! Certificates are ordered by ACME and renewed: names, addresses and wildcards, by each way to prove them. A name is never without the
//! certificate that it has, whatever happens to the authority, the store or the process; and never more is ordered than the limits allow.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::support::folder::Folder;
use super::support::pebble::Pebble;
use super::support::skip::needs;
use super::support::tools::{handfast, run};
use super::support::*;

pub(crate) const NAME: &str = "a.example.org";

/// A proxy, with its store outside of the folder that goes with it.
pub(crate) struct Scene {
    pub(crate) pebble: Pebble,
    pub(crate) store: Folder,
    pub(crate) backend: Backend,
}

impl Scene {
    pub(crate) fn new(pebble: Pebble) -> Self {
        Self { pebble, store: Folder::new(), backend: Backend::echo() }
    }

    /// A configuration for these names; what is set in `acme` and `service` comes after it.
    pub(crate) fn config(&self, names: &[&str]) -> Config {
        let listen = format!("[\"{}\", \"{}\"]", self.pebble.tls, self.pebble.http);
        Config::empty()
            .text("process", "watch-interval", "200ms")
            .set("acme", "accept-terms-of-service", true)
            .text("acme", "folder", self.folder().display())
            .text("acme", "directory", self.pebble.directory())
            .text("acme", "ca", self.pebble.ca().display())
            .service("web", self.backend.address)
            .set("service", "listen", listen)
            .text("service", "certificate", "acme")
            .set("service", "acme-names", format!("{names:?}"))
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.store.file("store")
    }

    /// The certificate of a file of the store.
    pub(crate) fn stored(&self, stem: &str) -> Option<String> {
        let pem = std::fs::read_to_string(self.folder().join("certificates").join(stem.to_owned() + ".pem"))
            .ok()?;
        first(&pem)
    }

    /// Orders of a name that are remembered.
    pub(crate) fn orders(&self, stem: &str) -> usize {
        let record = std::fs::read(self.folder().join("records").join(stem.to_owned() + ".json"));
        let record: serde_json::Value =
            record.ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
        record["orders"].as_array().map_or(0, Vec::len)
    }

    /// Waits until another certificate than this one is stored and served.
    pub(crate) fn serves(&self, stem: &str, name: Option<&str>, before: Option<&String>) -> String {
        let new = wait_until("a new certificate in the store", || {
            self.stored(stem).filter(|new| Some(new) != before)
        });
        wait_until("it to be served", || {
            (served(self.pebble.tls, name).as_ref() == Some(&new)).then_some(())
        });
        new
    }
}

/// The first certificate in a text.
fn first(text: &str) -> Option<String> {
    let start = text.find("-----BEGIN CERTIFICATE-----")?;
    let end = text[start..].find("-----END CERTIFICATE-----")? + start;
    Some(text[start..end].replace('\r', ""))
}

/// The certificate that a client gets; `None`: it is refused.
pub(crate) fn served(address: SocketAddr, name: Option<&str>) -> Option<String> {
    let address = address.to_string();
    let mut words = vec!["s_client", "-connect", &address];
    words.extend(name.map_or_else(|| vec!["-noservername"], |name| vec!["-servername", name]));
    first(&run("openssl", &words, b"").output)
}

pub(crate) fn renew(proxy: &Proxy, name: &str) -> String {
    let ran = handfast(&["acme", "renew", name, &proxy.admin().to_string()]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    ran.output
}

#[test]
fn a_name_and_an_address_by_tls_alone() {
    needs!("pebble", "pebble-challtestsrv", "openssl");
    let scene = Scene::new(Pebble::start(""));
    let address = scene.pebble.tls.ip().to_string();
    let proxy = Proxy::start(scene.config(&[NAME, &address]).set("acme", "challenges", "[\"tls-alpn-01\"]"));
    scene.serves(NAME, Some(NAME), None);
    wait_until("a certificate for the address", || scene.stored(&format!("ip_{address}")));
    let record =
        proxy.record("the authority to have asked", |record| record.reason().ends_with("/challenge"));
    assert_eq!(record.text("sni"), NAME);
    let present = || proxy.metrics().sum("handfast_ordered_certificate", &[]);
    wait_until("both to be reported", || (present() > 1.5).then_some(()));
    assert!(!proxy.metrics().text().contains("handfast_connections_failed_total{service=\"web\"} 1"));
}

#[test]
fn a_name_by_plain_http_with_a_profile_and_nothing_else_passes() {
    needs!("pebble", "pebble-challtestsrv", "openssl");
    let scene = Scene::new(Pebble::start(""));
    let config = scene.config(&[NAME]).text("acme", "challenges", "http-01").text("acme", "profile", "short");
    let proxy = Proxy::start(config);
    scene.serves(NAME, Some(NAME), None);
    let status = proxy.status();
    let ordered = &status["ordered"][0];
    assert_eq!(ordered["name"], NAME, "{status}");
    let left = proxy.metrics().sum("handfast_ordered_certificate_expires_in_seconds", &[("name", NAME)]);
    assert!(left > 5.0 * 86_400.0 && left < 6.5 * 86_400.0, "the profile is for six days: {left}");
    let answer = http::get(scene.pebble.http, "/.well-known/acme-challenge/other", "*/*");
    assert_eq!(answer.status, 400, "no question is open any more: {answer:?}");
}

#[test]
fn a_name_by_a_service_that_only_redirects() {
    needs!("pebble", "pebble-challtestsrv", "openssl");
    let scene = Scene::new(Pebble::start(""));
    let listen = format!("[\"{}\"]", scene.pebble.tls);
    let config = scene.config(&[NAME]).text("acme", "challenges", "http-01").set("service", "listen", listen);
    let redirects = format!(
        "{config}\n[[service]]\nname = \"plain\"\nlisten = \"{}\"\nmode = \"http\"\nclient-tls = false\n\n\
         [[service.route]]\nredirect = \"https\"\n",
        scene.pebble.http
    );
    let _proxy = Proxy::start(redirects);
    scene.serves(NAME, Some(NAME), None);
    let answer = http::get(scene.pebble.http, "/.well-known/acme-challenge/other", "*/*");
    assert_eq!(answer.status, 308, "all else is redirected: {answer:?}");
}

#[test]
fn a_wildcard_by_a_record_in_dns() {
    needs!("pebble", "pebble-challtestsrv", "openssl");
    let scene = Scene::new(Pebble::start(""));
    let config = scene.config(&["*.example.org"]).text("acme", "challenges", "dns-persist-01").text(
        "acme",
        "issuer-name",
        "pebble.letsencrypt.org",
    );
    let proxy = Proxy::start(config);
    // The first try makes the account, which the record names.
    proxy.talk.containing("the record for dns-persist-01");
    let listed = handfast(&["acme", "list", "-c", &proxy.file.display().to_string()]);
    assert_eq!(listed.code, Some(1), "there is no certificate yet: {listed:?}");
    let line =
        listed.output.lines().find(|line| line.contains(" IN TXT ")).expect("it prints the record").trim();
    let (host, value) = line.split_once(" IN TXT ").expect("it was looked for");
    scene.pebble.set_record(host, value.trim_matches('"'));
    renew(&proxy, "*.example.org");
    scene.serves("wildcard_.example.org", Some("b.example.org"), None);
    let listed = handfast(&["acme", "list", "-c", &proxy.file.display().to_string()]);
    assert_eq!(listed.code, Some(0), "{listed:?}");
}

#[test]
fn a_wildcard_by_a_program_that_sets_records() {
    needs!("pebble", "pebble-challtestsrv", "openssl", "curl");
    let scene = Scene::new(Pebble::start(""));
    let calls = scene.store.file("calls");
    let script = format!(
        "#!/bin/sh\necho \"$@\" >> {}\n[ \"$1\" = set ] || exit 0\n\
         exec curl -sf -d \"{{\\\"host\\\": \\\"$2.\\\", \\\"value\\\": \\\"$3\\\"}}\" http://{}/set-txt\n",
        calls.display(),
        scene.pebble.dns_control
    );
    let program = scene.store.write("dns", script);
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&program, executable).expect("the file is ours");
    let config = scene.config(&["*.example.org"]).text("acme", "challenges", "dns-01").text(
        "acme",
        "dns-command",
        program.display(),
    );
    let _proxy = Proxy::start(config);
    scene.serves("wildcard_.example.org", Some("b.example.org"), None);
    let calls = std::fs::read_to_string(calls).expect("it was called");
    let words: Vec<_> = calls.lines().map(|line| line.split(' ').next().unwrap_or_default()).collect();
    assert_eq!(words, ["set", "remove"], "{calls}");
}

#[test]
fn an_account_that_was_made_elsewhere() {
    needs!("pebble", "pebble-challtestsrv", "openssl");
    let key = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W";
    let required = format!(
        "\"externalAccountBindingRequired\": true, \"externalAccountMACKeys\": {{\"kid-1\": \"{key}\"}},"
    );
    let scene = Scene::new(Pebble::start(&required));
    let file = scene.store.write("key", key);
    let config = scene.config(&[NAME]).text("acme", "eab-key-id", "kid-1").text(
        "acme",
        "eab-key-file",
        file.display(),
    );
    let _proxy = Proxy::start(config);
    scene.serves(NAME, Some(NAME), None);
}

#[test]
fn until_there_is_one_clients_are_refused_with_a_cause_of_its_own() {
    needs!("pebble", "pebble-challtestsrv", "openssl");
    let mut scene = Scene::new(Pebble::prepare(""));
    let proxy = Proxy::start(scene.config(&[NAME]));
    proxy.talk.containing("no certificate from");
    assert_eq!(served(scene.pebble.tls, Some(NAME)), None);
    let record = proxy.record_of("handshake/local/certificate-pending");
    assert_eq!(record.text("sni"), NAME);
    let attention = proxy.status()["attention"].to_string();
    assert!(attention.contains("There is no certificate for a.example.org"), "{attention}");
    scene.pebble.go();
    renew(&proxy, NAME);
    scene.serves(NAME, Some(NAME), None);
}

#[test]
fn the_old_one_is_served_while_the_authority_is_away_and_a_tunnel_survives_the_new_one() {
    needs!("pebble", "pebble-challtestsrv", "openssl");
    let mut scene = Scene::new(Pebble::start(""));
    let proxy = Proxy::start(scene.config(&[NAME]));
    let old = scene.serves(NAME, Some(NAME), None);
    scene.pebble.fail();
    renew(&proxy, NAME);
    proxy.talk.containing("no certificate from");
    assert_eq!(served(scene.pebble.tls, Some(NAME)), Some(old.clone()));
    let failures = proxy.metrics().sum("handfast_ordered_certificate_failures", &[("name", NAME)]);
    assert!((failures - 1.0).abs() < 0.5, "{failures}");
    // It has forgotten the account, which is made again.
    scene.pebble.go();
    renew(&proxy, NAME);
    proxy.talk.containing("accountDoesNotExist");
    renew(&proxy, NAME);
    scene.serves(NAME, Some(NAME), Some(&old));
}

#[test]
fn a_kill_at_any_moment_costs_no_certificate_and_few_orders() {
    needs!("pebble", "pebble-challtestsrv", "openssl");
    let scene = Scene::new(Pebble::start(""));
    let config = scene.config(&[NAME]);
    let proxy = Proxy::start(&config);
    let old = scene.serves(NAME, Some(NAME), None);
    renew(&proxy, NAME);
    drop(proxy);
    // An order takes some 400 ms here, on an idle machine: each of its steps.
    for moment in [5, 10, 20, 40, 60, 90, 120, 160, 200, 250, 320, 400] {
        let proxy = Proxy::start(&config);
        assert!(served(scene.pebble.tls, Some(NAME)).is_some(), "what was stored is served at once");
        pause(std::time::Duration::from_millis(moment));
        drop(proxy);
    }
    let proxy = Proxy::start(&config);
    scene.serves(NAME, Some(NAME), Some(&old));
    assert!(scene.orders(NAME) <= 4, "{} orders", scene.orders(NAME));
    drop(proxy);
}

#[test]
fn of_two_processes_with_one_store_one_orders() {
    needs!("pebble", "pebble-challtestsrv", "openssl");
    let scene = Scene::new(Pebble::start(""));
    let config = scene.config(&[NAME]);
    let first = Proxy::start(&config);
    let second = Proxy::start(config.set("service", "listen", "[\"127.0.0.1:0\"]"));
    let certificate = scene.serves(NAME, Some(NAME), None);
    wait_until("the other one to serve it", || {
        (served(second.address(), Some(NAME)).as_ref() == Some(&certificate)).then_some(())
    });
    assert_eq!(scene.orders(NAME), 1);
    let refused = handfast(&["acme", "renew", NAME, &second.admin().to_string()]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    // When it ends, the other one orders.
    drop(first);
    wait_until("the other one to have the lock", || {
        let ran = handfast(&["acme", "renew", NAME, &second.admin().to_string()]);
        (ran.code == Some(0)).then_some(())
    });
}

#[test]
fn a_damaged_certificate_in_the_store_is_replaced_and_holds_up_nothing() {
    needs!("pebble", "pebble-challtestsrv", "openssl");
    let scene = Scene::new(Pebble::start(""));
    std::fs::create_dir_all(scene.folder().join("certificates")).expect("the folder is ours");
    scene.store.write(&format!("store/certificates/{NAME}.pem"), "-----BEGIN PRIVATE KEY-----\nMIGH");
    let half = scene.store.write(&format!("store/certificates/.{NAME}.pem.new"), "-----BEGIN");
    let proxy = Proxy::start(scene.config(&[NAME]));
    scene.serves(NAME, Some(NAME), None);
    assert!(!half.exists(), "what was begun by a process that was killed is removed");
    assert!(proxy.reload(), "and a reload has nothing to complain about");
}

#[test]
fn a_store_that_cannot_be_written_is_refused_at_the_start() {
    let store = Folder::new();
    let file = store.write("store", "");
    let config = Config::empty()
        .set("acme", "accept-terms-of-service", true)
        .text("acme", "folder", file.display())
        .service("web", "127.0.0.1:9")
        .text("service", "certificate", "acme")
        .text("service", "acme-names", NAME);
    let config = store.write("handfast.toml", config.to_string());
    let ran = handfast(&["proxy", "-c", &config.display().to_string()]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    let named = ran.talk.contains(&file.display().to_string()) && ran.talk.contains("handfast.toml:");
    assert!(named, "{ran:?}");
    assert!(!Path::new(&file).is_dir());
}
