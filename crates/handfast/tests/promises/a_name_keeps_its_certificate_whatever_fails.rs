//! A name keeps its ordered certificate whatever fails: a full disk, a store that becomes read-only, files that were written in part, an
//! issuer that is away until the certificate has nearly run out, another machine that orders for the same name. What failed is reported,
//! nothing is ordered that could not be stored, and the next order succeeds when the fault has gone. Accounts of other clients are used on.

use std::fs;
use std::path::{Path, PathBuf};

use super::certificates_are_ordered_and_renewed::{NAME, Scene, renew, served};
use super::support::folder::Folder;
use super::support::pebble::Pebble;
use super::support::skip::{needs, skipped};
use super::support::tools::{handfast, run};
use super::support::*;

/// A store in a separate file system of this size, mounted where only the proxy and its children see it.
fn small(scene: &Scene, size: &str) -> [String; 5] {
    let store = scene.folder().display().to_string();
    let copy = scene.store.file("copy").display().to_string();
    let script = format!(
        "set -e; cp -a {store} {copy}; mount -t tmpfs -o size={size},mode=700 tmpfs {store}; cp -a {copy}/. {store}; \
         for folder in {store}/*/; do mount --bind $folder $folder; done; exec \"$@\""
    );
    ["unshare", "--mount", "bash", "-c", &script].map(str::to_owned)
}

/// Starts a proxy on such a store, which has a certificate; returns the store as the proxy sees it.
fn start_small(scene: &Scene, size: &str) -> (Proxy, PathBuf, String) {
    let proxy = Proxy::start(scene.config(&[NAME]));
    let old = scene.serves(NAME, Some(NAME), None);
    drop(proxy);
    let mut prefix: Vec<_> = small(scene, size).to_vec();
    prefix.push("bash".to_owned());
    let prefix: Vec<&str> = prefix.iter().map(String::as_str).collect();
    let proxy = Proxy::start_under(&prefix, scene.config(&[NAME]));
    let root = PathBuf::from(format!("/proc/{}/root", proxy.process().0));
    let seen = root.join(scene.folder().strip_prefix("/").expect("it is absolute"));
    (proxy, seen, old)
}

/// Returns true if this test can mount.
fn can_mount() -> bool {
    run("unshare", &["--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"], b"").code == Some(0)
}

fn orders(store: &Path) -> usize {
    let record = fs::read(store.join("records").join(NAME.to_owned() + ".json")).expect("it is there");
    let record: serde_json::Value = serde_json::from_slice(&record).expect("it is JSON");
    record["orders"].as_array().map_or(0, Vec::len)
}

fn is_renewed(scene: &Scene, proxy: &Proxy, old: &str) {
    renew(proxy, NAME);
    wait_until("a new certificate", || {
        served(scene.pebble.tls, Some(NAME)).filter(|new| new != old).map(drop)
    });
}

#[test]
fn a_full_disk_costs_no_order() {
    needs!("pebble", "pebble-challtestsrv", "openssl", "unshare", "mount");
    if !can_mount() {
        skipped!("no file system can be mounted here");
    }
    let scene = Scene::new(Pebble::start(""));
    let (proxy, store, old) = start_small(&scene, "1m");
    let filler = store.join("filler");
    let fills = run("dd", &["if=/dev/zero", &format!("of={}", filler.display()), "bs=4k"], b"");
    assert_ne!(fills.code, Some(0), "it is full now: {fills:?}");
    let before = orders(&store);
    let refused = handfast(&["acme", "renew", NAME, &proxy.admin().to_string()]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.all().contains("No space left"), "{}", refused.all());
    proxy.talk.containing("no certificate from");
    assert_eq!(served(scene.pebble.tls, Some(NAME)), Some(old.clone()));
    assert_eq!(orders(&store), before, "nothing was ordered");
    fs::remove_file(filler).expect("we are root");
    is_renewed(&scene, &proxy, &old);
}

#[test]
fn a_store_that_becomes_read_only_costs_no_order() {
    needs!("pebble", "pebble-challtestsrv", "openssl", "unshare", "mount", "nsenter");
    if !can_mount() {
        skipped!("no file system can be mounted here");
    }
    let scene = Scene::new(Pebble::start(""));
    let (proxy, store, old) = start_small(&scene, "1m");
    let target = format!("--target={}", proxy.process().0);
    let remount = |how: &str| {
        // Each folder, and not the file that is locked: no file may be open for writing.
        for folder in ["accounts", "certificates", "pending", "records"] {
            let folder = scene.folder().join(folder).display().to_string();
            let options = format!("remount,bind,{how}");
            let ran = run("nsenter", &[&target, "--mount", "mount", "-o", &options, &folder], b"");
            assert_eq!(ran.code, Some(0), "{ran:?}");
        }
    };
    remount("ro");
    let before = orders(&store);
    let refused = handfast(&["acme", "renew", NAME, &proxy.admin().to_string()]);
    assert!(refused.code == Some(1) && refused.all().contains("Read-only"), "{}", refused.all());
    proxy.talk.containing("no certificate from");
    assert_eq!(served(scene.pebble.tls, Some(NAME)), Some(old.clone()));
    let failures = proxy.metrics().sum("handfast_ordered_certificate_failures", &[("name", NAME)]);
    assert!(failures > 0.5, "it is remembered without the disk: {failures}");
    assert_eq!(orders(&store), before, "nothing was ordered");
    remount("rw");
    is_renewed(&scene, &proxy, &old);
}

#[test]
fn files_that_were_written_in_part_hold_up_nothing() {
    needs!("pebble", "pebble-challtestsrv", "openssl");
    let scene = Scene::new(Pebble::start(""));
    let config = scene.config(&[NAME]);
    let proxy = Proxy::start(&config);
    let old = scene.serves(NAME, Some(NAME), None);
    drop(proxy);
    let record = format!("records/{NAME}.json");
    let account = fs::read_dir(scene.folder().join("accounts")).expect("it is there").flatten().next();
    let account = account.expect("there is one").path();
    let account = format!("accounts/{}", account.file_name().expect("it has one").to_string_lossy());
    for file in [&format!("pending/{NAME}.json"), &record, &account] {
        let whole =
            fs::read_to_string(scene.folder().join(file)).unwrap_or_else(|_| "{\"directory\": \"x\"}".into());
        scene.store.write(&format!("store/{file}"), &whole[..whole.len() / 2]);
        let (folder, name) = file.split_once('/').expect("it is below");
        scene.store.write(&format!("store/{folder}/.{name}.new"), "{");
        let proxy = Proxy::start(&config);
        assert_eq!(served(scene.pebble.tls, Some(NAME)), Some(old.clone()), "with half of {file}");
        let known = |what: &str| proxy.metrics().sum(&format!("handfast_ordered_certificate{what}"), &[]);
        wait_until("its state", || (known("") > 0.5).then_some(()));
        if file == &record {
            assert!(known("_failures") > 0.5, "orders may be forgotten: an hour without");
        }
        if file == &account {
            // It is not made again: the account may have rights that a new one has not.
            renew(&proxy, NAME);
            proxy.talk.containing("no certificate from");
            proxy.talk.containing(&account);
        }
        drop(proxy);
        scene.store.write(&format!("store/{file}"), &whole);
        assert!(!scene.folder().join(folder).join(format!(".{name}.new")).exists());
    }
    fs::remove_file(scene.folder().join(&record)).expect("it is ours");
    let proxy = Proxy::start(&config);
    is_renewed(&scene, &proxy, &old);
}

/// The clock of the proxy is moved, and no other: the issuer answers again when the certificate has nearly run out.
#[test]
fn an_issuer_may_be_away_for_months() {
    needs!("pebble", "pebble-challtestsrv", "openssl", "faketime");
    let later = |days: &str, config: &Config| {
        Proxy::start_with(config, |mut command| {
            // As faketime does it, which is not the proxy itself then. The linker knows the folder.
            command.env("LD_PRELOAD", "/usr/$LIB/faketime/libfaketime.so.1");
            command.env("FAKETIME", days).env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
            command
        })
    };
    let mut scene = Scene::new(Pebble::start(""));
    let config = scene.config(&[NAME]).text("acme", "profile", "default");
    let proxy = Proxy::start(&config);
    let old = scene.serves(NAME, Some(NAME), None);
    drop(proxy);
    let ordered = scene.orders(NAME);
    scene.pebble.fail();
    for (days, failures) in [("+62d", 1.0), ("+70d", 2.0), ("+80d", 3.0), ("+88d", 4.0)] {
        let proxy = later(days, &config);
        let known = || proxy.metrics().sum("handfast_ordered_certificate_failures", &[("name", NAME)]);
        wait_until("a try", || (known() > failures - 0.5).then_some(()));
        assert!(known() < failures + 0.5, "one try, and then a pause: {}", known());
        assert_eq!(served(scene.pebble.tls, Some(NAME)), Some(old.clone()), "{days}");
        let attention = proxy.status()["attention"].to_string();
        assert!(attention.contains(NAME), "{days}: {attention}");
    }
    assert_eq!(scene.orders(NAME), ordered, "no order was sent");
    scene.pebble.go();
    // It has forgotten the account, which is made again by the second try.
    let proxy = later("+89d", &config);
    proxy.talk.containing("accountDoesNotExist");
    renew(&proxy, NAME);
    scene.serves(NAME, Some(NAME), Some(&old));
}

/// Each machine has its own store and account, so each has a record in DNS.
#[test]
fn two_machines_order_for_one_name_by_dns() {
    needs!("pebble", "pebble-challtestsrv", "openssl");
    let scene = Scene::new(Pebble::start(""));
    let other = Folder::new();
    let config = |store: &Path| {
        scene
            .config(&[NAME])
            .text("acme", "challenges", "dns-persist-01")
            .text("acme", "issuer-name", "pebble.letsencrypt.org")
            .text("acme", "folder", store.display())
            .set("service", "listen", "[\"127.0.0.1:0\"]")
    };
    let stores = [scene.folder(), other.file("store")];
    let proxies = stores.clone().map(|store| Proxy::start(config(&store)));
    for proxy in &proxies {
        proxy.talk.containing("the record for dns-persist-01");
        let listed = handfast(&["acme", "list", "-c", &proxy.file.display().to_string()]);
        let line =
            listed.output.lines().find(|line| line.contains(" IN TXT ")).expect("it prints the record");
        let (host, value) = line.trim().split_once(" IN TXT ").expect("it was looked for");
        scene.pebble.set_record(host, value.trim_matches('"'));
    }
    let certificates = proxies.each_ref().map(|proxy| {
        renew(proxy, NAME);
        wait_until("a certificate", || served(proxy.address(), Some(NAME)))
    });
    assert_ne!(certificates[0], certificates[1], "each has its own");
    for store in &stores {
        assert!(orders(store) <= 2, "the try without a record, and the one with it: {}", orders(store));
    }
}

/// The account of a store is that of another client: its URL and its key. With keys apart its key is in the folder of keys alone.
#[test]
fn an_order_goes_on_under_the_account_of_another_client() {
    needs!("pebble", "pebble-challtestsrv", "openssl");
    let scene = Scene::new(Pebble::start(""));
    let proxy = Proxy::start(scene.config(&[NAME]));
    let old = scene.serves(NAME, Some(NAME), None);
    drop(proxy);
    let account = |store: &Path| {
        let entries = fs::read_dir(store.join("accounts")).expect("it is there").flatten();
        let text =
            entries.map(|entry| fs::read_to_string(entry.path()).expect("it is text")).collect::<String>();
        serde_json::from_str::<serde_json::Value>(&text).expect("one account")
    };
    let url = account(&scene.folder())["account"]["id"].clone();
    for apart in [false, true] {
        let other = Folder::new();
        let mut config = scene.config(&[NAME]).text("acme", "folder", other.file("store").display());
        if apart {
            config = config.text("process", "private-keys", "separate-process").text(
                "acme",
                "key-folder",
                other.file("keys").display(),
            );
        }
        let file = other.write("handfast.toml", config.to_string());
        let import = || {
            let folder = scene.folder().display().to_string();
            handfast(&["acme", "import", "-c", &file.display().to_string(), &folder])
        };
        let imported = import();
        assert!(
            imported.code == Some(0) && imported.output.matches(": taken from").count() == 2,
            "{imported:?}"
        );
        assert!(import().output.contains("the store has one"), "once");
        let proxy = Proxy::start(&config);
        assert_eq!(served(scene.pebble.tls, Some(NAME)), Some(old.clone()));
        is_renewed(&scene, &proxy, &old);
        let stored = account(&other.file("store"));
        assert_eq!(stored["url"], url, "no other account was made");
        assert_eq!(stored.get("own_key").is_some(), !apart);
    }
}
