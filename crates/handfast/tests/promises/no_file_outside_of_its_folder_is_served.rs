//! HTTP mode: whatever a path says, and whatever links say, only regular files inside of the folder are sent; and no part of a file looks like all
//! of it.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::support::client::{dial, with_deadline};
use super::support::files::{by_curl, config, get, noise};
use super::support::folder::Folder;
use super::support::record::Record;
use super::support::skip::{needs, skipped};
use super::support::*;

const SECRET: &str = "root of all secrets";

#[test]
fn whatever_a_path_says() {
    needs!("curl");
    let folder = Folder::new();
    let proxy = Proxy::start(config(&folder, ""));
    folder.write("secret.txt", SECRET);
    folder.folder("www/a/b");
    folder.folder("www/.git");
    folder.folder("www/.well-known");
    for (name, text) in [
        ("www/.git/config", SECRET),
        ("www/.htpasswd", SECRET),
        ("www/a/.env", SECRET),
        ("www/.well-known/security.txt", "open"),
        ("www/.well-known/.hidden", SECRET),
        ("www/a/b/c.txt", "open"),
    ] {
        folder.write(name, text);
    }
    let address = proxy.address_of("plain");
    for up in [
        "..",
        "%2e%2e",
        "%2E.",
        ".%2e",
        "%252e%252e",
        "..%2f..",
        "..%5c..",
        "..\\..",
        "....//",
        "..;",
        "..%00",
        "%c0%ae%c0%ae",
        "...",
        "%u002e%u002e",
        "..%c0%af",
        ".%00.",
    ] {
        for target in [
            format!("/{up}/secret.txt"),
            format!("/a/{up}/{up}/secret.txt"),
            format!("/a/b/{up}/{up}/{up}/secret.txt"),
            format!("//{up}/secret.txt"),
            format!("/a{up}/secret.txt"),
            format!("/{up}{}/secret.txt", folder.path().display()),
        ] {
            let answer = get(address, &target);
            assert!(matches!(answer.status, 400 | 404), "{target}: {}", answer.status);
            assert!(!String::from_utf8_lossy(&answer.content).contains(SECRET), "{target}");
            if !target.contains('\\') {
                let answer = by_curl(&proxy, &folder, &["--http2"], &target);
                assert!(matches!(answer.status, 400 | 404), "{target}: {}", answer.status);
                assert!(!String::from_utf8_lossy(&answer.content).contains(SECRET), "{target}");
            }
        }
    }
    for (target, status) in [
        ("/.git/config", 404),
        ("/%2egit/config", 404),
        ("/.htpasswd", 404),
        ("/a/.env", 404),
        ("/a/%2Eenv", 404),
        ("/.well-known/.hidden", 404),
        ("/.well-known/security.txt", 200),
        ("/a/b/c.txt", 200),
        ("/a/b/c.txt%00", 404),
        ("/a/b/c.txt%00.html", 404),
        ("/a%2fb/c.txt", 404),
        ("/a//b/c.txt", 404),
        ("/a/b/c.txt/", 404),
        ("/a/b/c.txt%", 404),
        ("/a/b/", 404),
        ("/a", 404),
    ] {
        assert_eq!(get(address, target).status, status, "{target}");
    }
    let long = format!("/{}", "a/".repeat(3_000));
    assert_eq!(get(address, &long).status, 404, "longer than a path may be");
    let hidden = proxy.record("a request for a hidden file", |record| record.text("path") == "/.htpasswd");
    assert_eq!(
        (hidden.reason(), hidden.detail()),
        ("route/client/no-file".to_owned(), "a part of its path begins with a dot")
    );
}

#[test]
fn whatever_links_say() {
    let folder = Folder::new();
    let proxy = Proxy::start(config(&folder, ""));
    let address = proxy.address_of("plain");
    folder.folder("www/inside");
    folder.folder("outside");
    folder.write("outside/secret.txt", SECRET);
    folder.write("www/inside/a.txt", "inside");
    let www = |name: &str| folder.file("www").join(name);
    let link = |target: &str, name: &str| symlink(target, www(name)).expect("the folder is ours");
    link("../outside/secret.txt", "relative.txt");
    link("../outside", "folder");
    link(&folder.file("outside/secret.txt").display().to_string(), "absolute.txt");
    link(&folder.file("www/inside/a.txt").display().to_string(), "absolute-inside.txt");
    link("/proc/self/root", "magic");
    link("/proc/self/environ", "environ");
    link("inside/../../outside/secret.txt", "later.txt");
    link("relative.txt", "twice.txt");
    link("inside/a.txt", "good.txt");
    link("inside", "good");
    link("/dev/zero", "zero");
    for (target, status) in [
        ("/relative.txt", 404),
        ("/folder/secret.txt", 404),
        ("/absolute.txt", 404),
        ("/absolute-inside.txt", 404),
        ("/magic/etc/passwd", 404),
        ("/environ", 404),
        ("/later.txt", 404),
        ("/twice.txt", 404),
        ("/zero", 404),
        ("/good.txt", 200),
        ("/good/a.txt", 200),
    ] {
        let answer = get(address, target);
        assert_eq!(answer.status, status, "{target}");
        assert!(!String::from_utf8_lossy(&answer.content).contains(SECRET), "{target}");
    }
    let outside = proxy.record("a link that leads out", |record| record.text("path") == "/relative.txt");
    assert_eq!(outside.detail(), "a link leads out of the folder");
}

/// A folder and a link that leads out take turns under one name, while clients ask for a file below it.
#[test]
fn while_a_folder_is_swapped_for_a_link() {
    let folder = Folder::new();
    let proxy = Proxy::start(config(&folder, ""));
    let address = proxy.address_of("plain");
    folder.folder("outside");
    folder.write("outside/a.txt", SECRET);
    folder.folder("www/real");
    folder.write("www/real/a.txt", "inside");
    let www = folder.file("www");
    symlink("../outside", www.join("link")).expect("the folder is ours");
    let (is_over, swaps) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let swapper = {
        let (www, is_over, swaps) = (www.clone(), Arc::clone(&is_over), Arc::clone(&swaps));
        deadline::thread("swapper", move || {
            let swap = |one: &str, other: &str| {
                rustix::fs::renameat_with(
                    rustix::fs::CWD,
                    www.join(one),
                    rustix::fs::CWD,
                    www.join(other),
                    rustix::fs::RenameFlags::EXCHANGE,
                )
            };
            while !is_over.load(Ordering::Relaxed) {
                swap("real", "link").expect("both are there");
                swaps.fetch_add(1, Ordering::Relaxed);
            }
        })
    };
    let mut seen = [0_usize; 2];
    for _ in 0..3_000 {
        let answer = get(address, "/real/a.txt");
        match (answer.status, &*answer.content) {
            (200, b"inside") => seen[0] += 1,
            (404 | 500, content) if !String::from_utf8_lossy(content).contains(SECRET) => seen[1] += 1,
            other => panic!("{other:?}"),
        }
    }
    is_over.store(true, Ordering::Relaxed);
    swapper.join().expect("it swaps");
    assert!(
        seen.iter().all(|count| *count > 0),
        "both were met: {seen:?}, {} swaps",
        swaps.load(Ordering::Relaxed)
    );
}

#[test]
fn nothing_but_regular_files_and_none_holds_a_thread() {
    let folder = Folder::new();
    let proxy = Proxy::start(config(&folder, ""));
    let address = proxy.address_of("plain");
    let www = |name: &str| folder.file("www").join(name);
    folder.write("www/a.txt", "regular");
    rustix::fs::mkfifoat(rustix::fs::CWD, www("fifo"), rustix::fs::Mode::RWXU).expect("the folder is ours");
    let _socket = UnixListener::bind(www("socket")).expect("the folder is ours");
    // More than there are threads.
    for _ in 0..20 {
        for name in ["fifo", "socket"] {
            let answer = get(address, &format!("/{name}"));
            assert_eq!(answer.status, 404, "{name}");
        }
    }
    assert_eq!(get(address, "/a.txt").content, b"regular");
    let detail = proxy.record("a FIFO", |record| record.text("path") == "/fifo");
    assert_eq!(detail.detail(), "it is a FIFO, a socket or a device");
}

/// For an unprivileged process: root reads everything.
#[test]
fn a_file_that_the_user_must_not_read_is_forbidden() {
    let folder = Folder::new();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("it is ours");
    if !rustix::process::geteuid().is_root() {
        skipped!("the program cannot change its user without root");
    }
    let text = config(&folder, "").replace("[process]\n", "[process]\nuser = \"nobody\"\n");
    fs::set_permissions(folder.file("www"), Permissions::from_mode(0o755)).expect("it is ours");
    folder.write("www/denied.txt", SECRET);
    folder.write("www/open.txt", "open");
    fs::set_permissions(folder.file("www/open.txt"), Permissions::from_mode(0o644)).expect("it is ours");
    let proxy = Proxy::start(&text);
    let address = proxy.address_of("plain");
    assert_eq!(get(address, "/open.txt").content, b"open");
    assert_eq!(get(address, "/denied.txt").status, 403);
    let record = proxy.record("a file without permission", |record| record.number("status") == 403);
    assert_eq!(record.reason(), "route/operator/file-unreadable");
    // A folder that the user cannot search is an error at once.
    fs::set_permissions(folder.file("www"), Permissions::from_mode(0o700)).expect("it is ours");
    let ran = tools::handfast(&["check", "-c", &folder.write("bad.toml", &text).display().to_string()]);
    assert_ne!(ran.code, Some(0), "{}", ran.all());
    assert!(ran.all().contains("Permission denied") && ran.all().contains("process.user"), "{}", ran.all());
}

#[test]
fn a_file_that_changes_while_it_is_sent_never_looks_complete() {
    const SIZE: usize = 16 << 20;
    let folder = Folder::new();
    let proxy = Proxy::start(config(&folder, ""));
    let address = proxy.address_of("plain");
    let content = noise(SIZE, 3);
    // What happens to the file, whether all of it comes, and the reason in the log.
    type Change = fn(&Folder);
    let changes: [(&str, Change, bool, &str); 4] = [
        ("shrinks", |folder| set_length(folder, 1_000), false, "relay/local/file-unreadable"),
        ("grows", |folder| set_length(folder, (SIZE + 1_000) as u64), true, ""),
        ("replaced", |folder| drop(folder.replace("www/file", "another")), true, ""),
        ("removed", |folder| fs::remove_dir_all(folder.file("www")).expect("it is ours"), true, ""),
    ];
    for (name, change, is_whole, reason) in changes {
        folder.write("www/file", &content);
        let before = proxy.output.so_far().len();
        let mut stream = dial(address).expect("it listens");
        with_deadline(&stream).expect("a socket");
        stream.write_all(b"GET /file HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("it reads");
        let mut start = vec![0; 100_000];
        stream.read_exact(&mut start).expect("it answers");
        change(&folder);
        let mut rest = Vec::new();
        let read = stream.read_to_end(&mut rest);
        let all = [start, rest].concat();
        let head = all.windows(4).position(|end| end == b"\r\n\r\n").expect("a head") + 4;
        assert_eq!(all[head..] == content, is_whole, "{name}: {} bytes, {read:?}", all.len() - head);
        assert_eq!(read.is_ok(), is_whole, "{name}: an abort is a reset, {read:?}");
        let is_it = |line: &&String| line.contains("\"path\":\"/file\"");
        let line = wait_until("its record", || proxy.output.so_far()[before..].iter().find(is_it).cloned());
        let found = Record::parse(&line).map(|record| record.reason()).unwrap_or_default();
        assert_eq!(found, reason, "{name}");
    }
    assert_eq!(get(address, "/file").status, 404, "the folder is gone");
}

fn set_length(folder: &Folder, length: u64) {
    let file = fs::OpenOptions::new().write(true).open(folder.file("www/file"));
    file.and_then(|file| file.set_len(length)).expect("it is ours");
}

/// A new version of a site is brought in by a link: what it leads to is served without a reload by hand.
#[test]
fn a_folder_that_is_a_link_is_followed_when_it_changes() {
    let folder = Folder::new();
    let text = config(&folder, "");
    let www = folder.file("www").display().to_string();
    for version in ["one", "two"] {
        folder.folder(&format!("releases/{version}"));
        folder.write(&format!("releases/{version}/v.txt"), version);
    }
    symlink("releases/one", folder.file("current")).expect("the folder is ours");
    let text = text
        .replace(&format!("files = \"{www}\""), &format!("files = \"{}\"", folder.file("current").display()));
    let proxy = Proxy::start(text);
    let address = proxy.address_of("plain");
    assert_eq!(get(address, "/v.txt").content, b"one");
    symlink("releases/two", folder.file("next")).expect("the folder is ours");
    fs::rename(folder.file("next"), folder.file("current")).expect("both are ours");
    wait_until("the other release", || (get(address, "/v.txt").content == b"two").then_some(()));
}
