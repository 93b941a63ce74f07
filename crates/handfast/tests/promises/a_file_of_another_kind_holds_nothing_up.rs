//! A FIFO, a socket, a folder, a device or a link in the place of a file: a check, a start and a reload end with an error, or go on without
//! it, and never wait for it.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;

use handfast_testkit::cases::pairs;

use super::support::certificates::{authority, localhost};
use super::support::folder::Folder;
use super::support::http::{get, post};
use super::support::proxy::PROGRAM;
use super::support::tools::{Tool, handfast};
use super::support::*;

/// Things that can be in the place of a file.
const KINDS: [&str; 6] = ["fifo", "socket", "folder", "device", "link to a fifo", "link to a device"];

fn put(at: &Path, kind: &str) {
    let _ = fs::remove_file(at);
    let _ = fs::remove_dir_all(at);
    let fifo = |path: &Path| {
        rustix::fs::mkfifoat(rustix::fs::CWD, path, rustix::fs::Mode::RWXU).expect("the folder is ours");
    };
    match kind {
        "fifo" => fifo(at),
        "socket" => drop(UnixListener::bind(at).expect("the path is free")),
        "folder" => fs::create_dir(at).expect("the folder is ours"),
        "device" => symlink("/dev/zero", at).expect("the folder is ours"),
        "link to a device" => symlink("/dev/full", at).expect("the folder is ours"),
        _ => {
            let target = at.with_file_name(format!("{}.target", at.file_name().expect("a name").display()));
            let _ = fs::remove_file(&target);
            fifo(&target);
            symlink(target, at).expect("the folder is ours");
        }
    }
}

/// A configuration with every kind of file, all in one folder.
struct Stage(Folder);

impl Stage {
    fn new() -> Self {
        let folder = Folder::new();
        for name in ["web.pem", "backend.pem"] {
            folder.write(name, localhost().combined());
        }
        for name in ["ca.pem", "backend-ca.pem"] {
            folder.write(name, &authority().pem);
        }
        folder.write("sticky.key", "0123456789abcdef0123456789abcdef");
        folder.write("proxy.password", "hunter2");
        // `htpasswd -nbB -C 4 alice wonderland`
        folder.write("users", "alice:$2y$04$.QqgIUhog8c.srso2zmNGOjywx7AvnfefKghJnaD7BxJB7nDUMDvy\n");
        folder.write("eab.key", "c2VjcmV0LWtleS1vZi1hbi1hY2NvdW50");
        folder.write("fleet.secret", "0123456789abcdef".repeat(4));
        folder.write("fleet.credentials", "user:password");
        for name in ["store/accounts", "store/certificates", "store/records", "store/pending", "cache"] {
            folder.folder(name);
        }
        let config = "\
            [[service]]\nname = \"web\"\nlisten = \"127.0.0.1:0\"\nbackend = \"127.0.0.1:9\"\nmode = \"http\"\n\
            certificate = \"web.pem\"\n\
            [service.client-certificates]\nca = \"ca.pem\"\nmode = \"request\"\n\
            [service.backend-tls]\nca = \"backend-ca.pem\"\ncertificate = \"backend.pem\"\n\
            [service.connect-through]\ntype = \"http\"\naddress = \"127.0.0.1:1\"\nuser = \"u\"\npassword-file = \"proxy.password\"\n\
            [[service.route]]\npath = \"/\"\nbasic-auth = { file = \"users\" }\n\
            sticky = { cookie = \"c\", key-file = \"sticky.key\" }\n\
            [[service]]\nname = \"ordered\"\nlisten = \"127.0.0.1:0\"\nbackend = \"127.0.0.1:9\"\n\
            certificate = \"acme\"\nacme-names = [\"a.example.org\"]\n\
            [tickets]\nkey-file = \"tickets.key\"\n\
            [access-log]\nto = \"./access.log\"\n\
            [admin]\nlisten = \"127.0.0.1:0\"\n\
            [acme]\naccept-terms-of-service = true\nfolder = \"store\"\ndirectory = \"https://127.0.0.1:1/d\"\n\
            eab-key-id = \"k\"\neab-key-file = \"eab.key\"\nca = \"ca.pem\"\n";
        folder.write("handfast.toml", config);
        Self(folder)
    }

    fn config(&self) -> String {
        self.0.file("handfast.toml").display().to_string()
    }

    /// Starts it; until it serves or has ended.
    fn start(&self, what: &str) -> Tool {
        let mut proxy = Tool::start(PROGRAM, &["proxy", "-c", &self.config()]);
        wait_until(what, || {
            let is_ready = proxy.talk.so_far().iter().any(|line| line.ends_with("ready"));
            (is_ready || proxy.has_ended()).then_some(())
        });
        proxy
    }
}

/// Files that the configuration names, and those that the program makes itself.
const FILES: [&str; 19] = [
    "handfast.toml",
    "web.pem",
    "web.pem.ocsp",
    "backend.pem",
    "ca.pem",
    "backend-ca.pem",
    "sticky.key",
    "proxy.password",
    "users",
    "eab.key",
    "tickets.key",
    ".tickets.key.lock",
    "access.log",
    "store/lock",
    "store/records/a.example.org.json",
    "store/records/.a.example.org.json.new",
    "store/pending/a.example.org.json",
    "store/certificates/a.example.org.pem",
    "store/certificates/.a.example.org.pem.new",
];

#[test]
fn a_check_and_a_start_never_wait_for_a_file_of_another_kind() {
    for (file, kind) in pairs(&FILES, &KINDS, 2) {
        let stage = Stage::new();
        put(&stage.0.file(file), kind);
        // Both have the deadline of the test's own waits.
        handfast(&["check", "-c", &stage.config()]);
        drop(stage.start(&format!("a start with a {kind} as {file} to serve or to refuse")));
    }
}

#[test]
fn a_reload_never_waits_for_a_file_of_another_kind() {
    let stage = Stage::new();
    let proxy = stage.start("a start");
    let output = || proxy.talk.so_far();
    let admin = output()
        .iter()
        .find_map(|line| line.split("admin on ").nth(1)?.parse().ok())
        .unwrap_or_else(|| panic!("no admin page: {}", output().join("\n")));
    let files: Vec<_> =
        FILES.into_iter().filter(|file| !file.contains(".json") && !file.contains("/.")).collect();
    for (file, kind) in pairs(&files, &KINDS, 2) {
        let path = stage.0.file(file);
        let aside = stage.0.file("aside");
        let had = fs::rename(&path, &aside).is_ok();
        put(&path, kind);
        post(admin, "/reload", "");
        assert!(get(admin, "/live", "*/*").body.len() < 1_000, "it still answers");
        let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
        if had {
            fs::rename(&aside, &path).expect("the folder is ours");
        }
    }
}
