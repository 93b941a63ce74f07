//! Folders as they are on disks: links, special files, changes; and the responses with their files.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::task::{Poll, Wake, Waker};
use std::time::Duration;

use tempfile::TempDir;

use super::disk_threads::DiskThreads;
use super::file_path::FilePath;
use handfast_http::content_coding::{AcceptedCodings, ContentCoding};

use super::folder::{FileRules, FindError, Folder, NotFound};
use super::found_file::{FileOutcome, FileSearch, FoundFile};
use crate::rules::lists::date_text;
use crate::rules::tests::request;

const DAY_MS: u64 = 86_400_000;

struct Site {
    _around: TempDir,
    path: PathBuf,
}

struct Bell(SyncSender<()>);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        let _ = self.0.try_send(());
    }
}

fn bell() -> (Waker, Receiver<()>) {
    let (sender, receiver) = sync_channel(1);
    (Arc::new(Bell(sender)).into(), receiver)
}

fn wait<T>(mut poll: impl FnMut(&Waker) -> Poll<T>) -> T {
    let (waker, rings) = bell();
    loop {
        match poll(&waker) {
            Poll::Ready(ready) => return ready,
            Poll::Pending => rings.recv_timeout(Duration::from_secs(30)).expect("the disk's threads answer"),
        }
    }
}

impl Site {
    fn new() -> Self {
        let around = tempfile::tempdir().expect("a temporary folder");
        let path = around.path().join("www");
        fs::create_dir_all(path.join("docs")).expect("the folder is ours");
        fs::create_dir_all(path.join("empty")).expect("the folder is ours");
        let site = Self { _around: around, path };
        for (name, content) in [
            ("a.txt", "text of a"),
            ("about.html", "about"),
            ("index.html", "home"),
            ("docs/index.html", "docs"),
            ("../secret.txt", "secret"),
        ] {
            site.write(name, content);
        }
        site
    }

    fn write(&self, name: &str, content: &str) {
        let mut file = File::create(self.path.join(name)).expect("the folder is ours");
        io::Write::write_all(&mut file, content.as_bytes()).expect("there is room");
    }

    fn folder(&self, rules: FileRules, descriptors_below: u32) -> Arc<Folder> {
        let threads = Arc::new(DiskThreads::default());
        threads.start().expect("a thread can be started");
        let folder = Folder::open(&self.path, rules, |_| threads, descriptors_below);
        Arc::new(folder.expect("it is a folder"))
    }

    fn found(&self, rules: FileRules, target: &str, accepted: &str) -> Result<FoundFile, FindError> {
        let folder = self.folder(rules, u32::MAX);
        let path = FilePath::parse(target.as_bytes()).expect("a path");
        let mut search =
            FileSearch::new(&folder, path, AcceptedCodings::parse(std::iter::once(accepted.as_bytes())));
        match wait(|waker| search.poll(waker))? {
            FileOutcome::File(file) => Ok(file),
            FileOutcome::Folder => panic!("{target} is a folder"),
        }
    }

    fn content(&self, rules: FileRules, target: &str) -> Result<String, FindError> {
        self.found(rules, target, "").map(|file| read(&file).expect("it can be read"))
    }
}

fn index() -> FileRules {
    FileRules { index: vec!["index.html".into()], ..FileRules::default() }
}

fn read(file: &FoundFile) -> io::Result<String> {
    let mut reader = file.reader(0..file.file.size);
    let mut text = Vec::new();
    while wait(|waker| reader.poll_piece(4, waker, |piece| text.extend_from_slice(piece)))?.is_some() {}
    Ok(String::from_utf8(text).expect("the files are text"))
}

#[test]
fn a_path_leads_to_a_file_an_index_or_what_was_named_for_it() {
    let site = Site::new();
    let rules = FileRules { extension: Some(".html".into()), fallback: Some("index.html".into()), ..index() };
    for (target, alone, with_rules) in [
        ("/a.txt", Ok("text of a"), "text of a"),
        ("/", Ok("home"), "home"),
        ("/docs/", Ok("docs"), "docs"),
        ("/about", Err(NotFound::Name), "about"),
        ("/absent", Err(NotFound::Name), "home"),
        ("/empty/", Err(NotFound::Index), "home"),
        ("/empty", Err(NotFound::Index), "home"),
        ("/a.txt/", Err(NotFound::Index), "home"),
        ("/a.txt/b", Err(NotFound::Name), "home"),
    ] {
        let alone = alone.map(str::to_owned).map_err(FindError::NotFound);
        assert_eq!(site.content(index(), target), alone, "{target}");
        assert_eq!(site.content(rules.clone(), target), Ok(with_rules.to_owned()), "{target}");
    }
    let long = format!("/{}", "a".repeat(300));
    assert_eq!(site.content(index(), &long), Err(FindError::NotFound(NotFound::Name)));
}

#[test]
fn a_folder_without_its_slash_is_one_if_it_has_an_index() {
    let site = Site::new();
    let folder = site.folder(index(), u32::MAX);
    let path = FilePath::parse(b"/docs").expect("a path");
    let mut search = FileSearch::new(&folder, path, AcceptedCodings::default());
    assert!(matches!(wait(|waker| search.poll(waker)), Ok(FileOutcome::Folder)));
}

#[test]
fn no_link_leads_out_and_only_regular_files_are_opened() {
    let site = Site::new();
    let path = |name: &str| site.path.join(name);
    for (target, name) in [
        ("a.txt", "inside"),
        ("docs", "inside-folder"),
        ("../secret.txt", "above"),
        ("..", "above-folder"),
        ("docs/../../secret.txt", "above-later"),
        ("/etc/passwd", "absolute"),
        ("/proc/self/root/etc/passwd", "magic"),
        ("loop", "loop"),
        ("absent", "dangling"),
    ] {
        symlink(target, path(name)).expect("the folder is ours");
    }
    symlink(path("a.txt"), path("absolute-inside")).expect("the folder is ours");
    rustix::fs::mkfifoat(rustix::fs::CWD, path("fifo"), rustix::fs::Mode::RUSR).expect("the folder is ours");
    let _socket = std::os::unix::net::UnixListener::bind(path("socket")).expect("the folder is ours");
    for (target, expected) in [
        ("/inside", Ok("text of a")),
        ("/inside-folder/", Ok("docs")),
        ("/above", Err(NotFound::Outside)),
        ("/above-folder/secret.txt", Err(NotFound::Outside)),
        ("/above-later", Err(NotFound::Outside)),
        ("/absolute", Err(NotFound::Outside)),
        ("/absolute-inside", Err(NotFound::Outside)),
        ("/magic", Err(NotFound::Outside)),
        ("/loop", Err(NotFound::Name)),
        ("/dangling", Err(NotFound::Name)),
        ("/fifo", Err(NotFound::Special)),
        ("/socket", Err(NotFound::Special)),
    ] {
        let expected = expected.map(str::to_owned).map_err(FindError::NotFound);
        assert_eq!(site.content(index(), target), expected, "{target}");
    }
}

#[test]
fn a_precompressed_file_is_chosen_by_the_client() {
    let site = Site::new();
    site.write("a.txt.gz", "gzip of a");
    site.write("a.txt.br", "br of a");
    let rules = FileRules { precompressed: vec![ContentCoding::Brotli, ContentCoding::Gzip], ..index() };
    for (accepted, content, coding) in [
        ("gzip, br", "br of a", Some("br")),
        ("br;q=0.5, gzip", "gzip of a", Some("gzip")),
        ("identity", "text of a", None),
        ("", "text of a", None),
    ] {
        let file = site.found(rules.clone(), "/a.txt", accepted).expect("it is there");
        assert_eq!(read(&file).expect("it can be read"), content, "{accepted}");
        let head = String::from_utf8(file.respond(&request(""), DAY_MS).head).expect("a head is text");
        let line = coding.map(|coding| format!("Content-Encoding: {coding}\r\n"));
        assert_eq!(head.contains("Content-Encoding"), coding.is_some(), "{head}");
        assert!(line.is_none_or(|line| head.contains(&line)), "{head}");
        assert!(head.contains("Vary: Accept-Encoding\r\n"), "{head}");
        assert!(head.contains("Content-Type: text/plain; charset=utf-8\r\n"), "{head}");
    }
    let file = site.found(rules, "/", "gzip").expect("it is there");
    assert_eq!(read(&file).expect("it can be read"), "home", "it has no neighbour");
}

#[test]
fn a_file_that_shrinks_ends_in_an_error_and_one_that_grows_at_its_length() {
    let site = Site::new();
    site.write("grows", "0123456789");
    let file = site.found(index(), "/grows", "").expect("it is there");
    let longer = fs::OpenOptions::new().append(true).open(site.path.join("grows"));
    io::Write::write_all(&mut longer.expect("it is ours"), b"more").expect("there is room");
    assert_eq!(read(&file).expect("it can be read"), "0123456789");
    let shorter = fs::OpenOptions::new().write(true).open(site.path.join("grows"));
    shorter.expect("it is ours").set_len(3).expect("it is ours");
    assert_eq!(read(&file).map_err(|error| error.kind()), Err(io::ErrorKind::UnexpectedEof));
}

#[test]
fn a_replaced_file_is_sent_to_its_end() {
    let site = Site::new();
    let file = site.found(index(), "/a.txt", "").expect("it is there");
    site.write("new", "something else");
    fs::rename(site.path.join("new"), site.path.join("a.txt")).expect("the folder is ours");
    assert_eq!(read(&file).expect("it can be read"), "text of a");
    assert_eq!(site.content(index(), "/a.txt"), Ok("something else".to_owned()));
}

#[test]
fn descriptors_that_connections_need_are_not_taken() {
    let site = Site::new();
    let folder = site.folder(index(), 0);
    let path = FilePath::parse(b"/a.txt").expect("a path");
    let mut search = FileSearch::new(&folder, path, AcceptedCodings::default());
    let outcome = wait(|waker| search.poll(waker)).map(|_| ());
    assert_eq!(outcome, Err(FindError::OutOfFiles));
}

#[test]
fn a_folder_that_cannot_be_served_is_not_opened() {
    let site = Site::new();
    let open = |name: &str| {
        let folder = Folder::open(&site.path.join(name), index(), |_| Arc::default(), u32::MAX);
        folder.map(|_| ()).map_err(|error| error.kind())
    };
    assert_eq!(open("docs"), Ok(()));
    assert_eq!(open("absent"), Err(io::ErrorKind::NotFound));
    assert_eq!(open("a.txt"), Err(io::ErrorKind::NotADirectory));
}

/// The status and the bytes of `0123456789` that follow.
#[test]
fn conditions_and_ranges_decide_in_the_order_of_rfc_9110() {
    let site = Site::new();
    site.write("digits", "0123456789");
    let day = rustix::fs::Timespec { tv_sec: 86_400, tv_nsec: 0 };
    let times = rustix::fs::Timestamps { last_access: day, last_modification: day };
    let file = File::open(site.path.join("digits")).expect("it is there");
    rustix::fs::futimens(&file, &times).expect("it is ours");
    let file = site.found(index(), "/digits", "").expect("it is there");
    // Ten seconds after its last change.
    let now_ms = u64::try_from(file.file.changed_ns / 1_000_000).expect("after 1970") + 10_000;
    let tag = super::response::etag(&file.file, now_ms);
    assert!(tag.starts_with('"'), "{tag}");
    let unsettled = super::response::etag(&file.file, now_ms - 9_000);
    assert_eq!(unsettled, format!("W/{tag}"));
    let (date, before, after) = (date_text(86_400), date_text(86_399), date_text(86_401));
    for (fields, status, content) in [
        ("", 200, 0..10),
        ("HEAD /", 200, 0..0),
        ("If-None-Match: {tag}", 304, 0..0),
        ("If-None-Match: W/{tag}", 304, 0..0),
        ("If-None-Match: \"x\", {tag}", 304, 0..0),
        ("If-None-Match: *", 304, 0..0),
        ("If-None-Match: \"x\"", 200, 0..10),
        ("If-None-Match: \"x\"\nIf-Modified-Since: {date}", 200, 0..10),
        ("If-Modified-Since: {date}", 304, 0..0),
        ("If-Modified-Since: {after}", 304, 0..0),
        ("If-Modified-Since: {before}", 200, 0..10),
        ("If-Modified-Since: yesterday", 200, 0..10),
        ("If-Match: {tag}", 200, 0..10),
        ("If-Match: *", 200, 0..10),
        ("If-Match: \"x\"", 412, 0..0),
        ("If-Match: W/{tag}", 412, 0..0),
        ("If-Match: {tag}\nIf-None-Match: {tag}", 304, 0..0),
        ("If-Match: {tag}\nIf-Unmodified-Since: {before}", 200, 0..10),
        ("If-Unmodified-Since: {date}", 200, 0..10),
        ("If-Unmodified-Since: {before}", 412, 0..0),
        ("If-Unmodified-Since: yesterday", 200, 0..10),
        ("Range: bytes=2-4", 206, 2..5),
        ("Range: bytes=2-", 206, 2..10),
        ("Range: bytes=-3", 206, 7..10),
        ("Range: bytes=-20", 206, 0..10),
        ("Range: bytes=9-99999999999999999999", 206, 9..10),
        ("Range: bytes=10-", 416, 0..0),
        ("Range: bytes=-0", 416, 0..0),
        ("Range: bytes=4-2", 200, 0..10),
        ("Range: bytes=0-1,3-4", 200, 0..10),
        ("Range: lines=0-1", 200, 0..10),
        ("Range: bytes=0-1\nRange: bytes=0-1", 200, 0..10),
        ("HEAD /\nRange: bytes=0-1", 200, 0..0),
        ("Range: bytes=0-1\nIf-Range: {tag}", 206, 0..2),
        ("Range: bytes=0-1\nIf-Range: W/{tag}", 200, 0..10),
        ("Range: bytes=0-1\nIf-Range: \"x\"", 200, 0..10),
        ("Range: bytes=0-1\nIf-Range: {date}", 206, 0..2),
        ("Range: bytes=0-1\nIf-Range: {after}", 200, 0..10),
        ("Range: bytes=0-1\nIf-None-Match: {tag}", 304, 0..0),
        ("Range: bytes=0-1\nIf-Match: \"x\"", 412, 0..0),
    ] {
        let fields = fields.replace("{tag}", &tag).replace("{date}", &date);
        let fields = fields.replace("{before}", &before).replace("{after}", &after);
        let response = file.respond(&request(&fields), now_ms);
        assert_eq!((response.status, response.content), (status, content), "{fields}");
    }
    let head = |fields: &str| String::from_utf8(file.respond(&request(fields), now_ms).head).expect("text");
    let (part, none) = (head("Range: bytes=2-4"), head("Range: bytes=10-"));
    assert!(
        part.contains("Content-Range: bytes 2-4/10\r\n") && part.contains("Content-Length: 3\r\n"),
        "{part}"
    );
    assert!(
        none.contains("Content-Range: bytes */10\r\n") && none.contains("Content-Length: 0\r\n"),
        "{none}"
    );
    assert!(head("HEAD /").contains("Content-Length: 10\r\n"));
    assert!(!head("If-None-Match: *").contains("Content-Length"));
    assert!(head("").contains(&format!("Last-Modified: {date}\r\nETag: {tag}\r\n")));
}
