//! HTTP mode with `[service.cache]`: whatever happens to the process or to the disk, a client receives a response whole, or sees that it is cut off.

use std::io::Read;
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use rustix::process::Signal;

use super::support::cached::{self, FOLDER, config, wait_until_open};
use super::support::client::dial;
use super::support::deadline::wait_until_seeing;
use super::support::folder::Folder;
use super::support::skip::{needs, skipped};
use super::support::tools;
use super::support::upgrade::upgrade;
use super::support::*;

/// Bytes of a response: several pieces for the disk.
const SIZE: usize = 400_000;

/// Content that an origin sends for a path: other bytes for each.
fn content(path: &str) -> Vec<u8> {
    path.bytes().cycle().take(SIZE).collect()
}

/// Answers each request with the content of its path, in pieces; and the number of requests.
fn origin() -> (Backend, Arc<Mutex<usize>>) {
    let requested = Arc::new(Mutex::new(0));
    let noted = Arc::clone(&requested);
    let backend = cached::origin(move |peer, path| {
        *noted.lock().expect("no one panics") += 1;
        peer.send(cached::head(SIZE).as_bytes());
        content(path).chunks(50_000).for_each(|piece| peer.send(piece));
    });
    (backend, requested)
}

fn send_request(proxy: &Proxy, path: &str) -> TcpStream {
    let mut stream = dial(proxy.address()).expect("it listens");
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    std::io::Write::write_all(&mut stream, request.as_bytes()).expect("it reads");
    stream
}

/// An answer, if it is whole: whether it came from the cache, and its content.
fn whole(proxy: &Proxy, path: &str) -> Option<(bool, Vec<u8>)> {
    let mut answer = Vec::new();
    send_request(proxy, path).read_to_end(&mut answer).ok()?;
    let end = answer.windows(4).position(|part| part == b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    let body = answer[end..].to_vec();
    assert!(body.len() <= SIZE, "{head}");
    (body.len() == SIZE).then(|| (head.contains("Cache-Status: Handfast; hit"), body))
}

#[test]
fn over_an_upgrade() {
    let folder = Folder::new();
    let (backend, requested) = origin();
    let mut proxy = cached::start(&config(&folder, &backend));
    assert_eq!(whole(&proxy, "/a"), Some((false, content("/a"))));
    assert_eq!(whole(&proxy, "/a"), Some((true, content("/a"))));
    let successor = upgrade(&proxy, &[]).unwrap_or_else(|why| panic!("{why}"));
    // Until then it may accept one more.
    assert_eq!(proxy.ended().code(), Some(0));
    wait_until("the new process to have what was kept", || {
        matches!(whole(&proxy, "/a"), Some((true, body)) if body == content("/a")).then_some(())
    });
    let before = *requested.lock().expect("no one panics");
    assert_eq!(whole(&proxy, "/a"), Some((true, content("/a"))));
    assert_eq!(*requested.lock().expect("no one panics"), before);
    drop(successor);
}

#[test]
fn a_kill_at_any_moment() {
    let folder = Folder::new();
    let (backend, _) = origin();
    let text = config(&folder, &backend);
    // After this number of bytes of the answer; the last one is whole for its client.
    let moments = [0, 1, 300, 10_000, 60_000, 150_000, 250_000, 350_000, 399_000, SIZE];
    for (number, moment) in moments.into_iter().enumerate() {
        let mut proxy = cached::start(&text);
        let path = format!("/{number}");
        let mut part = vec![0; moment];
        send_request(&proxy, &path).read_exact(&mut part).expect("it serves until then");
        proxy.signal(Signal::KILL);
        proxy.ended();
    }
    let proxy = cached::start(&text);
    for number in 0..moments.len() {
        let path = format!("/{number}");
        let (_, first) = whole(&proxy, &path).expect("it is kept, or asked for");
        assert_eq!(first, content(&path), "{path}");
        assert_eq!(whole(&proxy, &path), Some((true, content(&path))), "{path}");
    }
    // Of what was not whole nothing is left.
    let files = std::fs::read_dir(folder.file(FOLDER)).expect("it is there").flatten();
    let content_files = files.filter(|file| file.file_name().to_string_lossy().ends_with(".c"));
    let sizes: Vec<u64> = content_files.map(|file| file.metadata().expect("it is there").len()).collect();
    assert_eq!(sizes, vec![SIZE as u64; moments.len()]);
}

#[test]
fn a_full_disk() {
    needs!("unshare", "mount");
    if tools::run("unshare", &["--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"], b"").code != Some(0) {
        skipped!("no file system can be mounted here");
    }
    let folder = Folder::new();
    let (backend, _) = origin();
    let kept = folder.file(FOLDER);
    std::fs::create_dir(&kept).expect("the folder is ours");
    let script = format!("mount -t tmpfs -o size=1m,mode=700 tmpfs {} && exec \"$@\"", kept.display());
    let proxy =
        Proxy::start_under(&["unshare", "--mount", "sh", "-c", &script, "sh"], config(&folder, &backend));
    wait_until_open(&proxy);
    let mut served = 0;
    for number in 0..6 {
        let path = format!("/{number}");
        // One that was being received when the disk was full is cut off, and none is wrong.
        if let Some((_, body)) = whole(&proxy, &path) {
            assert_eq!(body, content(&path), "{path}");
            served += 1;
        }
    }
    assert!(served >= 5, "{served} of 6: requests go to the backend once that is known");
    wait_until_seeing(
        "it to be reported",
        || (proxy.metrics().sum("handfast_cache_disk_errors_total", &[]) > 0.0).then_some(()),
        || proxy.metrics().text().to_owned(),
    );
    assert_eq!(proxy.metrics().sum("handfast_cache_up", &[]), 0.0);
    let page = http::get(proxy.admin(), "/status", "text/html").body;
    assert!(page.contains("The cache of web does not work"), "{page}");
    for number in 0..2 {
        let path = format!("/{number}");
        assert_eq!(whole(&proxy, &path).map(|(_, body)| body), Some(content(&path)));
    }
}
