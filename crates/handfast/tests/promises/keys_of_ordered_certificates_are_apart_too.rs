//! Keys of ordered certificates, and of accounts, are made in the key process and stay there (`process.private-keys = "separate-process"`): the process
//! that serves has no byte of them in its memory and no descriptor to their folder, also while it orders, renews, reloads and upgrades; and
//! the user that serves cannot read them.

use std::fs::{self, Permissions, set_permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use rustls_pki_types::PrivatePkcs8KeyDer;
use rustls_pki_types::pem::PemObject;

use super::certificates_are_ordered_and_renewed::{NAME, Scene, renew, served};
use super::support::folder::Folder;
use super::support::key_process::{both, has_ended};
use super::support::pebble::Pebble;
use super::support::process::Process;
use super::support::secrets::{Secret, found_in, of_pkcs8};
use super::support::skip::{needs, skipped};
use super::support::upgrade::upgrade;
use super::support::*;

/// A user that every system has, and who owns nothing.
const USER: &str = "nobody";
const USER_ID: u32 = 65_534;

fn mode(path: &Path, mode: u32) {
    set_permissions(path, Permissions::from_mode(mode)).expect("it is ours");
}

fn apart(scene: &Scene) -> Config {
    scene
        .config(&[NAME])
        .text("process", "private-keys", "separate-process")
        .text("process", "upgrade-socket", scene.store.folder("run").join("upgrade.sock").display())
        .text("acme", "key-folder", keys(scene).display())
}

fn keys(scene: &Scene) -> PathBuf {
    scene.store.file("keys")
}

/// Starts it as root, to serve as another user.
fn start(scene: &Scene, config: &Config) -> Proxy {
    for path in [scene.store.path(), scene.pebble.ca().parent().expect("it is in a folder")] {
        mode(path, 0o755);
    }
    mode(&scene.pebble.ca(), 0o644);
    for folder in ["store", "run"] {
        chown(scene.store.folder(folder), Some(USER_ID), Some(USER_ID)).expect("we are root");
    }
    let proxy = Proxy::start(config.clone().text("process", "user", USER));
    mode(&proxy.file, 0o644);
    mode(proxy.file.parent().expect("it is in a folder"), 0o755);
    proxy
}

/// Files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("it is there").flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// Every key in the folder of keys: of certificates, and of the account.
fn secrets(scene: &Scene) -> Vec<Secret> {
    let mut all = Vec::new();
    for file in files(&keys(scene)) {
        let text = fs::read_to_string(&file).expect("we are root");
        let account: Option<serde_json::Value> = serde_json::from_str(&text).ok();
        let name = if account.is_some() { "the account's" } else { "a certificate's" };
        // In PEM from the store, or in base64url; either is in memory as text too where it was read.
        let body = match account {
            Some(account) => account["key"].as_str().expect("a key").to_owned(),
            None => text.lines().filter(|line| !line.starts_with('-')).collect(),
        };
        let pem = body.replace('-', "+").replace('_', "/");
        let padding = "=".repeat((4 - pem.len() % 4) % 4);
        let pem = format!("-----BEGIN PRIVATE KEY-----\n{pem}{padding}\n-----END PRIVATE KEY-----\n");
        let der = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes()).expect("a key");
        all.extend(of_pkcs8(name, der.secret_pkcs8_der()));
        all.push((name, body.as_bytes()[..60].to_vec()));
    }
    all
}

/// The process that serves has nothing of them; what searches finds them in the key process.
fn are_apart(scene: &Scene, proxy: Process) {
    let secrets = secrets(scene);
    let names: Vec<_> = secrets.iter().map(|(name, _)| *name).collect();
    assert!(names.contains(&"the account's") && names.contains(&"a certificate's"), "{names:?}");
    assert_eq!(found_in(proxy, &secrets), Vec::<&str>::new(), "in the process that serves");
    let (supervisor, key_process) = both(proxy);
    assert_eq!(found_in(supervisor, &secrets), Vec::<&str>::new(), "in the supervisor");
    assert!(found_in(key_process, &secrets).contains(&"a certificate's"), "the search can find them");
    let open = fs::read_dir(format!("/proc/{}/fd", proxy.0)).expect("it lives").flatten();
    let open: Vec<_> = open.filter_map(|entry| fs::read_link(entry.path()).ok()).collect();
    assert!(!open.iter().any(|path| path.starts_with(keys(scene))), "{open:?}");
    for file in files(&scene.folder()) {
        let text = fs::read_to_string(&file).expect("it is text");
        assert!(!text.contains("PRIVATE") && !text.contains("\"own_key\""), "{}: {text}", file.display());
    }
}

#[test]
fn a_name_is_ordered_renewed_reloaded_and_upgraded_without_its_key() {
    needs!("pebble", "pebble-challtestsrv", "openssl");
    if !rustix::process::geteuid().is_root() {
        skipped!("only root reads the memory of others");
    }
    let scene = Scene::new(Pebble::start(""));
    let mut proxy = start(&scene, &apart(&scene));
    let first = scene.serves(NAME, Some(NAME), None);
    are_apart(&scene, proxy.process());
    let output = proxy.talk.so_far().join("\n");
    assert!(!output.contains("acme.key-folder"), "the sandbox does not reach it: {output}");
    let owners: Vec<_> = files(&keys(&scene)).iter().map(|path| owner(path)).collect();
    assert!(owners.iter().all(|(user, mode)| *user == 0 && mode & 0o077 == 0), "{owners:?}");

    renew(&proxy, NAME);
    let second = scene.serves(NAME, Some(NAME), Some(&first));
    are_apart(&scene, proxy.process());
    assert!(proxy.reload(), "{}", proxy.talk.so_far().join("\n"));
    both(proxy.process()).1.signal(Signal::KILL);
    wait_until("the next key process to sign", || {
        (served(scene.pebble.tls, Some(NAME)).as_ref() == Some(&second)).then_some(())
    });

    let next = upgrade(&proxy, &[]).unwrap_or_else(|why| panic!("{why}"));
    assert_eq!(proxy.ended().code(), Some(0));
    assert_eq!(served(scene.pebble.tls, Some(NAME)), Some(second.clone()));
    wait_until("the next process to order", || {
        let ran = tools::handfast(&["acme", "renew", NAME, &proxy.admin().to_string()]);
        (ran.code == Some(0)).then_some(())
    });
    scene.serves(NAME, Some(NAME), Some(&second));
    are_apart(&scene, next.0);
    assert_eq!(files(&keys(&scene)).len(), 3, "the account's, the present one's, and the one before");
    let (supervisor, key_process) = both(next.0);
    drop(next);
    wait_until("all to end", || (has_ended(supervisor) && has_ended(key_process)).then_some(()));
}

fn owner(path: &Path) -> (u32, u32) {
    let metadata = fs::metadata(path).expect("it is there");
    (std::os::unix::fs::MetadataExt::uid(&metadata), metadata.permissions().mode())
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
    let config =
        apart(&scene).text("acme", "eab-key-id", "kid-1").text("acme", "eab-key-file", file.display());
    let _proxy = Proxy::start(config);
    scene.serves(NAME, Some(NAME), None);
}

#[test]
fn the_certificate_from_before_is_served_when_keys_move_apart() {
    needs!("pebble", "pebble-challtestsrv", "openssl");
    let mut scene = Scene::new(Pebble::start(""));
    let proxy = Proxy::start(scene.config(&[NAME]));
    let old = scene.serves(NAME, Some(NAME), None);
    drop(proxy);
    scene.pebble.fail();
    let proxy = Proxy::start(apart(&scene));
    assert_eq!(served(scene.pebble.tls, Some(NAME)), Some(old.clone()));
    scene.pebble.go();
    renew(&proxy, NAME);
    let new = scene.serves(NAME, Some(NAME), Some(&old));
    // And back: the chain alone is in the store, and its key where this user can read it.
    drop(proxy);
    scene.pebble.fail();
    let _proxy = Proxy::start(scene.config(&[NAME]));
    assert_eq!(served(scene.pebble.tls, Some(NAME)), None, "the start does not know where the key is");
    let _ = new;
}

#[test]
fn a_folder_that_others_can_enter_or_a_link_is_refused() {
    let store = Folder::new();
    let config = |folder: &Path| {
        Config::empty()
            .set("acme", "accept-terms-of-service", true)
            .text("acme", "folder", store.file("store").display())
            .text("acme", "key-folder", folder.display())
            .text("process", "private-keys", "separate-process")
            .service("web", "127.0.0.1:9")
            .text("service", "certificate", "acme")
            .text("service", "acme-names", NAME)
    };
    let refused = |folder: &Path| {
        let config = store.write("handfast.toml", config(folder).to_string());
        let file = config.display().to_string();
        let checked = tools::handfast(&["check", "-c", &file]);
        assert!(checked.code != Some(0) && checked.all().contains("private keys"), "{checked:?}");
        let ran = tools::handfast(&["proxy", "-c", &file]);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.talk.contains(&folder.display().to_string()) && ran.talk.contains("hint:"), "{ran:?}");
        ran.talk
    };
    let open = store.folder("open");
    mode(&open, 0o755);
    assert!(refused(&open).contains("mode 755"), "{}", refused(&open));
    let shared = store.folder("shared");
    mode(&shared, 0o777);
    let output = refused(&shared.join("keys"));
    assert!(output.contains("other users than root can change"), "{output}");
    let file = store.write("file", "");
    refused(&file);
}

/// The key process, the process that serves and its order, in every part of an order.
#[test]
fn a_kill_at_any_moment_leaves_a_certificate_with_its_key() {
    needs!("pebble", "pebble-challtestsrv", "openssl");
    let scene = Scene::new(Pebble::start(""));
    let config = apart(&scene);
    let proxy = Proxy::start(&config);
    let old = scene.serves(NAME, Some(NAME), None);
    renew(&proxy, NAME);
    both(proxy.process()).1.signal(Signal::KILL);
    drop(proxy);
    for moment in [20, 60, 120, 200, 300, 400] {
        let proxy = Proxy::start(&config);
        assert!(served(scene.pebble.tls, Some(NAME)).is_some(), "what was stored is served at once");
        pause(std::time::Duration::from_millis(moment));
        both(proxy.process()).1.signal(Signal::KILL);
    }
    let proxy = Proxy::start(&config);
    scene.serves(NAME, Some(NAME), Some(&old));
    assert!(scene.orders(NAME) <= 4, "{} orders", scene.orders(NAME));
    let left = files(&keys(&scene)).len();
    assert!(left <= 2 + 4, "the account's, the old one's, and one for each order: {left}");
    drop(proxy);
}

#[test]
fn a_folder_that_the_sandbox_opens_is_named() {
    needs!("pebble", "pebble-challtestsrv");
    let scene = Scene::new(Pebble::prepare(""));
    let beside = scene.store.file("upgrade.sock");
    let proxy = Proxy::start(apart(&scene).text("process", "upgrade-socket", beside.display()));
    if proxy.talk.so_far().iter().any(|line| line.contains("served without")) {
        skipped!("this kernel has no sandbox for files");
    }
    proxy.talk.containing("is below a folder that the sandbox of this process opens");
}
