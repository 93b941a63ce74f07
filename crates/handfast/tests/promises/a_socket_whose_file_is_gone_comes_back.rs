//! A socket whose file is gone comes back: another process of the same configuration, or an administrator, may remove the files of the
//! upgrade socket, of the admin address and of a service; the process that serves makes them again, and removes only files that are its own.

use std::fs;

use rustix::process::Signal;

use super::support::folder::Folder;
use super::support::tools;
use super::support::upgrade::{config, upgrade};
use super::support::*;

fn with_unix_admin(folder: &Folder, backend: &Backend) -> Config {
    config(folder, backend).text("admin", "listen", format!("unix:{}", folder.file("admin.sock").display()))
}

fn is_ready(proxy: &Proxy) -> bool {
    tools::handfast(&["check", "--ready", "-c", &proxy.file.display().to_string()]).code == Some(0)
}

#[test]
fn when_it_was_removed() {
    let (folder, backend) = (Folder::new(), Backend::echo());
    let proxy = Proxy::start(with_unix_admin(&folder, &backend));
    for name in ["admin.sock", "upgrade.sock"] {
        fs::remove_file(folder.file(name)).expect("it is there");
    }
    wait_until("the admin address to answer", || is_ready(&proxy).then_some(()));
    wait_until("the upgrade socket", || folder.file("upgrade.sock").exists().then_some(()));
    let _new = upgrade(&proxy, &[]).expect("it can be asked");
    proxy.talk.find(0, "the missing file to be named", |line| {
        line.contains("upgrade socket: the file ").then_some(())
    });
}

#[test]
fn when_it_is_that_of_a_service() {
    let (folder, backend) = (Folder::new(), Backend::echo());
    let path = folder.file("web.sock");
    let config = Config::to(&folder, backend.address)
        .text("service", "listen", format!("unix:{}", path.display()))
        .text("process", "watch-interval", "200ms");
    let proxy = Proxy::start(config);
    fs::remove_file(&path).expect("it is there");
    wait_until("clients to be let in", || std::os::unix::net::UnixStream::connect(&path).ok().map(drop));
    wait_until("the line about it", || {
        proxy.talk.so_far().iter().any(|line| line.contains("a reload binds it again")).then_some(())
    });
}

#[test]
fn when_a_second_process_has_taken_and_removed_it() {
    let (folder, backend) = (Folder::new(), Backend::echo());
    let first = Proxy::start(with_unix_admin(&folder, &backend));
    let second = Proxy::start(with_unix_admin(&folder, &backend));
    second.stop();
    wait_until("the admin address to answer", || is_ready(&first).then_some(()));
    wait_until("the upgrade socket", || folder.file("upgrade.sock").exists().then_some(()));
    let _new = upgrade(&first, &[]).expect("the first can be asked");
}

#[test]
fn and_that_of_another_process_stays() {
    let (folder, backend) = (Folder::new(), Backend::echo());
    let mut proxy = Proxy::start(with_unix_admin(&folder, &backend));
    let mut others = Vec::new();
    for name in ["admin.sock", "upgrade.sock"] {
        let (path, aside) = (folder.file(name), folder.file("aside"));
        others.push(std::os::unix::net::UnixListener::bind(&aside).expect("the name is free"));
        fs::rename(&aside, &path).expect("it is ours");
    }
    proxy.signal(Signal::TERM);
    assert_eq!(proxy.ended().code(), Some(0));
    for name in ["admin.sock", "upgrade.sock"] {
        assert!(folder.file(name).exists(), "{name} is another process's");
    }
}
