//! Keys that root alone can read are served (`process.private-keys = "separate-process"`, started as root with `process.user`): at the start, after
//! a renewal, after the key process was started again, and by the next process of an upgrade; also from a folder that only root
//! may enter. So is a configuration that root alone can read, at a reload. Without a separate process the start reports what no reload will
//! be able to read.

use std::fs::{Permissions, read_to_string, set_permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;

use super::support::certificates::{Identity, KeyKind, localhost};
use super::support::folder::Folder;
use super::support::key_process::both;
use super::support::skip::skipped;
use super::support::upgrade::upgrade;
use super::support::*;

/// A user that every system has, and who owns nothing.
const USER: &str = "nobody";

/// Skips where the user cannot be changed.
macro_rules! needs_root {
    () => {
        if !rustix::process::geteuid().is_root() {
            skipped!("only root becomes another user");
        }
    };
}

fn mode(path: &Path, mode: u32) {
    set_permissions(path, Permissions::from_mode(mode)).expect("it is ours");
}

fn of_user(config: &Config) -> Config {
    config.clone().text("process", "user", USER).text("process", "watch-interval", "200ms")
}

/// Starts a proxy that gives up root, and whose own configuration its user can read.
fn start(config: &Config) -> Proxy {
    let proxy = Proxy::start(of_user(config));
    mode(&proxy.file, 0o644);
    mode(proxy.file.parent().expect("it is in a folder"), 0o755);
    let status = read_to_string(format!("/proc/{}/status", proxy.process().0)).expect("it lives");
    let user = status.lines().find(|line| line.starts_with("Uid:")).expect("it has one");
    assert!(!user.contains("\t0"), "it has given up root: {user}");
    proxy
}

fn shown(proxy: &Proxy) -> Option<Vec<u8>> {
    let config = Trust::version(Version::Tls13).forgetful().config();
    let client = Client::try_connect(proxy.address(), &config, "localhost").ok()?;
    Some(client.certificate().to_vec())
}

fn is_served(proxy: &Proxy, identity: &Identity) {
    wait_until("the certificate to be served", || {
        (shown(proxy)? == identity.certificate.as_ref()).then_some(())
    });
}

/// Both files of a certificate, readable by root alone.
fn write(folder: &Folder, identity: &Identity) {
    folder.replace("certificates/fullchain.pem", &identity.certificate_pem);
    folder.replace("certificates/privkey.pem", &identity.key_pem);
}

fn apart(folder: &Folder, backend: &Backend) -> Config {
    folder.folder("certificates");
    write(folder, localhost());
    let [chain, key] = ["fullchain.pem", "privkey.pem"]
        .map(|name| folder.file("certificates").join(name).display().to_string());
    Config::empty()
        .service("web", backend.address)
        .set("service", "certificate", format!("{{ certificate = {chain:?}, key = {key:?} }}"))
        .text("process", "private-keys", "separate-process")
        .text("process", "upgrade-socket", folder.file("upgrade.sock").display())
}

/// All that becomes of them.
fn live(folder_mode: u32) {
    let (folder, backend) = (Folder::new(), Backend::echo());
    let config = apart(&folder, &backend);
    mode(folder.path(), 0o755);
    mode(&folder.file("certificates"), folder_mode);
    let mut proxy = start(&config);
    is_served(&proxy, localhost());
    let output = proxy.talk.so_far().join("\n");
    assert!(!output.contains("cannot read"), "another process reads them: {output}");
    // Nothing changes, so nothing is read again, however often it is looked at.
    pause(Duration::from_millis(700));
    assert_eq!(proxy.reloads(), (0.0, 0.0), "{}", proxy.talk.so_far().join("\n"));
    // A renewal without a request to reload.
    let next = authority().identity(&["localhost"], KeyKind::Ecdsa);
    write(&folder, &next);
    is_served(&proxy, &next);
    // A renewal with a request to reload.
    let next = authority().identity(&["localhost"], KeyKind::Ecdsa);
    write(&folder, &next);
    assert!(proxy.reload(), "{}", proxy.talk.so_far().join("\n"));
    is_served(&proxy, &next);
    both(proxy.process()).1.signal(Signal::KILL);
    is_served(&proxy, &next);
    let mut tunnel = Client::connect(proxy.address(), &Trust::version(Version::Tls13).config());
    let new = upgrade(&proxy, &[]).unwrap_or_else(|why| panic!("{why}"));
    is_served(&proxy, &next);
    both(new.0).1.signal(Signal::KILL);
    is_served(&proxy, &next);
    tunnel.echo(b"in the process before");
    tunnel.finish();
    assert_eq!(proxy.ended().code(), Some(0));
}

#[test]
fn in_a_folder_that_everybody_may_enter() {
    needs_root!();
    live(0o755);
}

#[test]
fn in_a_folder_that_root_alone_may_enter() {
    needs_root!();
    live(0o700);
}

#[test]
fn a_configuration_that_root_alone_can_read_is_reloaded() {
    needs_root!();
    let (folder, backend) = (Folder::new(), Backend::echo());
    mode(folder.path(), 0o755);
    let config = apart(&folder, &backend);
    let proxy = start(&config);
    let add = |name: &str| {
        proxy.rewrite(of_user(&config).service(name, backend.address).set("service", "client-tls", false));
        mode(&proxy.file, 0o600);
    };
    add("second");
    assert!(proxy.reload(), "{}", proxy.talk.so_far().join("\n"));
    proxy.address_of("second");
    // The next key process knows the path, too.
    both(proxy.process()).1.signal(Signal::KILL);
    is_served(&proxy, localhost());
    add("third");
    assert!(proxy.reload(), "{}", proxy.talk.so_far().join("\n"));
    proxy.address_of("third");
    // Where the user could replace the file, it could be a link to any file of root.
    add("fourth");
    std::fs::rename(&proxy.file, folder.file("of-root.toml")).expect("it is ours");
    std::os::unix::fs::symlink(folder.file("of-root.toml"), &proxy.file).expect("the folder is ours");
    mode(proxy.file.parent().expect("it is in a folder"), 0o777);
    assert!(!proxy.reload());
    proxy.talk.containing("other users than root can change the folder");
    is_served(&proxy, localhost());
}

#[test]
fn without_a_process_of_their_own_the_start_says_what_cannot_be_renewed() {
    needs_root!();
    let (folder, backend) = (Folder::new(), Backend::echo());
    let config = apart(&folder, &backend).text("process", "private-keys", "in-process");
    mode(folder.path(), 0o755);
    mode(&folder.file("certificates"), 0o755);
    let proxy = start(&config);
    is_served(&proxy, localhost());
    proxy.talk.containing("privkey.pem: the user that serves cannot read it, so no reload will; give it to the user or its group");
    proxy.talk.containing("process.private-keys");
    write(&folder, &authority().identity(&["localhost"], KeyKind::Ecdsa));
    assert!(!proxy.reload());
    is_served(&proxy, localhost());
}
