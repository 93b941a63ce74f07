//! HTTP mode with `[service.cache]`: a kill or a full disk at any step of storing a response costs this response at most.
//!
//! strace lists the system calls with which one thread of the cache stores a response, and then makes one after the other fail. A kill is before the call
//! takes effect, so the state after a call is met at the next one. strace counts the calls of each thread separately: all other threads that store are held.

use std::collections::{BTreeSet, HashMap};
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use rustix::process::Signal;

use super::support::backend::is_over;
use super::support::cached::{self, FOLDER, STORING, Step, one_writer, steps};
use super::support::client::dial;
use super::support::deadline::wait_until_seeing;
use super::support::folder::Folder;
use super::support::tracer::{Tracer, needs_tracing};
use super::support::*;

/// Bytes of a response, and of each write: the origin sends the next piece when the client has the one before.
const SIZE: usize = PIECES * PIECE;
const PIECE: usize = 4000;
const PIECES: usize = 3;

/// The cache must ask the origin: what it has is replaced.
const REPLACE: &str = "Cache-Control: no-cache\r\n";

/// State that the origin and the client share.
#[derive(Default)]
struct Exchange {
    /// Number of requests to the origin for each path.
    versions: Mutex<HashMap<String, usize>>,
    /// Bytes that the client has received of the running answer.
    received: AtomicUsize,
}

struct Scene {
    folder: Folder,
    _backend: Backend,
    config: String,
    exchange: Arc<Exchange>,
    /// True if the response replaces one that is stored.
    replaces: bool,
}

/// Content that the origin sends for a path: different each time.
fn content(path: &str, version: usize) -> String {
    format!("{path} {version}, ").chars().cycle().take(SIZE).collect()
}

impl Scene {
    fn new(replaces: bool) -> Self {
        let exchange = Arc::<Exchange>::default();
        let shared = Arc::clone(&exchange);
        let backend = cached::origin(move |peer, path| {
            let version = {
                let mut versions = shared.versions.lock().expect("no one panics");
                let version = versions.entry(path.to_owned()).or_default();
                *version += 1;
                *version
            };
            let answer = cached::head(SIZE) + &content(path, version);
            for left in (0..PIECES).rev() {
                let from = if left + 1 == PIECES { 0 } else { answer.len() - (left + 1) * PIECE };
                peer.send(&answer.as_bytes()[from..answer.len() - left * PIECE]);
                wait_until("the client to have the piece", || {
                    let received = shared.received.load(Ordering::SeqCst);
                    (left == 0 || received >= SIZE - left * PIECE || is_over(&peer.stream)).then_some(())
                });
            }
        });
        let folder = Folder::new();
        let config = cached::config(&folder, &backend);
        Self { folder, _backend: backend, config, exchange, replaces }
    }

    /// An answer if it is whole: whether it is a hit, and its version. One that is cut off is the beginning of a whole one.
    fn request(&self, proxy: &Proxy, path: &str, fields: &str) -> Option<(bool, usize)> {
        let received = &self.exchange.received;
        received.store(0, Ordering::SeqCst);
        let mut stream = dial(proxy.address()).expect("it listens");
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{fields}\r\n");
        stream.write_all(request.as_bytes()).expect("it reads");
        let (mut answer, mut buffer) = (Vec::new(), vec![0; 65_536]);
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            answer.extend_from_slice(&buffer[..count]);
            received.fetch_add(count, Ordering::SeqCst);
        }
        received.store(usize::MAX, Ordering::SeqCst);
        let http::Response { status, head, body } = http::parse(&String::from_utf8(answer).expect("text"))?;
        assert!(status == 200 && head.contains(&format!("content-length: {SIZE}")), "{head}");
        let versions = self.exchange.versions.lock().expect("no one panics")[path];
        let version = (1..=versions).find(|version| content(path, *version).starts_with(&body));
        let version = version.unwrap_or_else(|| panic!("{path}: other content than the origin sent: {body}"));
        (body.len() == SIZE).then(|| (head.contains("cache-status: handfast; hit"), version))
    }

    /// A request whose response is stored or given up before this returns.
    fn fill(&self, proxy: &Proxy, path: &str, fields: &str) -> Option<(bool, usize)> {
        let over = || {
            let metrics = proxy.metrics();
            let of = |change| metrics.sum("handfast_cache_changes_total", &[("change", change)]);
            of("stored") + of("given-up")
        };
        let before = over();
        let answer = self.request(proxy, path, fields);
        wait_until("the response to be stored or given up", || (over() > before).then_some(()));
        answer
    }

    /// Stores the first version if it is to be replaced.
    fn prepare(&self, proxy: &Proxy, path: &str) {
        if self.replaces {
            assert_eq!(self.fill(proxy, path, ""), Some((false, 1)));
        }
    }

    /// Waits until index and folder have this number of objects, and the folder has nothing else.
    fn wait_until_tidy(&self, proxy: &Proxy, objects: usize, what: &str) {
        let names = || -> BTreeSet<String> {
            let files = std::fs::read_dir(self.folder.file(FOLDER)).expect("it is there").flatten();
            files.map(|file| file.file_name().to_string_lossy().into_owned()).collect()
        };
        let indexed = || proxy.metrics().sum("handfast_cache_objects", &[]);
        let is_tidy = || {
            let names = names();
            let pairs = names.iter().filter_map(|name| Some(format!("{}.c", name.strip_suffix(".h")?)));
            let pairs = pairs.filter(|content| names.contains(content)).count();
            pairs == objects && names.len() == 2 * objects + 1 && indexed() == objects as f64
        };
        wait_until_seeing(
            &format!("{objects} objects and a lock after {what}"),
            || is_tidy().then_some(()),
            || format!("{} objects in the index, {:?}", indexed(), names()),
        );
    }

    /// A running proxy, with two objects stored; and the steps of the second one.
    fn start(&self) -> (Proxy, Vec<Step>) {
        let proxy = cached::start(&self.config);
        self.fill(&proxy, "/before", "");
        self.prepare(&proxy, "/listed");
        let (writer, _held) = one_writer(&proxy);
        let tracer = Tracer::list(writer, STORING, None);
        self.fill(&proxy, "/listed", REPLACE);
        let lines = tracer.lines();
        let steps = steps(&lines);
        let mut names: Vec<_> = steps.iter().map(|step| format!("{} {}", step.call, step.file)).collect();
        assert_eq!(names.iter().filter(|name| *name == "pwrite64 c").count(), PIECES, "{lines:?}");
        names.dedup();
        let new = "openat c, pwrite64 c, fdatasync c, openat t, pwrite64 t, fdatasync t, renameat t";
        let removed = if self.replaces { ", unlinkat h, unlinkat c" } else { "" };
        assert_eq!(names.join(", "), format!("{new}{removed}"), "{lines:?}");
        self.wait_until_tidy(&proxy, 2, "two fills");
        (proxy, steps)
    }

    /// Kills the proxy at this step of storing the response for a path, and starts it again.
    fn kill_at(&self, mut proxy: Proxy, step: &Step, path: &str) -> Proxy {
        self.prepare(&proxy, path);
        let (writer, held) = one_writer(&proxy);
        let kill = format!("{}:signal=KILL:when={}", step.call, step.number);
        let tracer = Tracer::list(writer, STORING, Some(&kill));
        // A process that was killed ends when its held threads are released.
        let lines = deadline::thread("the end of the writer", move || {
            let lines = tracer.lines_to_the_end();
            held.release();
            lines
        });
        self.request(&proxy, path, REPLACE);
        let lines = lines.join().unwrap_or_else(|_| panic!("{step:?} is not met"));
        assert_eq!(proxy.ended().signal(), Some(Signal::KILL.as_raw()), "{step:?}");
        assert!(lines.last().is_some_and(|line| line.contains("killed by SIGKILL")), "{step:?}: {lines:?}");
        assert_eq!(steps(&lines).last(), Some(step), "{lines:?}");
        cached::start(&self.config)
    }

    /// Lets the disk be full at this step of storing the response for a path: the number of objects stays.
    fn full_at(&self, (proxy, writer): (&Proxy, u32), step: &Step, path: &str, objects: usize) {
        let errors = || proxy.metrics().sum("handfast_cache_disk_errors_total", &[]);
        let before = errors();
        let full = format!("{}:error=ENOSPC:when={}", step.call, step.number);
        let tracer = Tracer::list(writer, STORING, Some(&full));
        let answer = self.fill(proxy, path, REPLACE);
        assert!(matches!(answer, Some((false, _))), "{step:?}: it is served from memory: {answer:?}");
        assert!(errors() > before, "{step:?}: it is counted");
        assert_eq!(proxy.metrics().sum("handfast_cache_up", &[]), 0.0, "{step:?}");
        let page = http::get(proxy.admin(), "/status", "text/html").body;
        assert!(page.contains("The cache of web does not work"), "{step:?}: {page}");
        self.wait_until_tidy(proxy, objects, &format!("a full disk at {step:?}"));
        assert_eq!(tracer.injected(), 1, "{step:?}");
    }

    /// Requests until the cache works again: each answer is whole, and the last one is stored.
    fn heal(&self, proxy: &Proxy, path: &str) {
        wait_until("the cache to work again", || {
            assert!(self.request(proxy, path, "").is_some(), "{path} is cut off");
            (proxy.metrics().sum("handfast_cache_up", &[]) == 1.0).then_some(())
        });
    }

    fn assert_hit(&self, proxy: &Proxy, path: &str, version: usize, what: &str) {
        assert_eq!(self.request(proxy, path, ""), Some((true, version)), "{path} after {what}");
    }

    fn kill_at_each_step(&self) {
        let (mut proxy, steps) = self.start();
        let rename = steps.iter().position(|step| step.file == 't' && step.call.starts_with("rename"));
        let mut stored = vec![("/before".to_owned(), 1)];
        for (number, step) in steps.iter().enumerate() {
            let (path, objects) = (format!("/{number}"), 2 + number);
            let what = format!("a kill at {step:?}");
            proxy = self.kill_at(proxy, step, &path);
            self.wait_until_tidy(&proxy, objects + usize::from(self.replaces), &what);
            let is_renamed = rename.is_some_and(|rename| number > rename);
            if !self.replaces {
                assert_eq!(self.fill(&proxy, &path, ""), Some((false, 2)), "{what}");
                self.wait_until_tidy(&proxy, objects + 1, &what);
            }
            stored.push((path, if self.replaces && !is_renamed { 1 } else { 2 }));
            stored.iter().for_each(|(path, version)| self.assert_hit(&proxy, path, *version, &what));
        }
        self.fill(&proxy, "/last", "");
        proxy.signal(Signal::KILL);
        proxy.ended();
        let proxy = cached::start(&self.config);
        self.wait_until_tidy(&proxy, steps.len() + 3, "a kill behind the last step");
        self.assert_hit(&proxy, "/last", 1, "a kill behind the last step");
    }

    fn full_at_each_step(&self) {
        let (proxy, mut steps) = self.start();
        steps.retain(|step| !step.call.starts_with("unlink"));
        let (writer, _held) = one_writer(&proxy);
        for (number, step) in steps.iter().enumerate() {
            let (path, objects) = (format!("/{number}"), 2 + 2 * number);
            let what = format!("a full disk at {step:?}");
            self.prepare(&proxy, &path);
            self.full_at((&proxy, writer), step, &path, objects + usize::from(self.replaces));
            self.heal(&proxy, &format!("/after/{number}"));
            if !self.replaces {
                assert_eq!(self.fill(&proxy, &path, ""), Some((false, 2)), "{what}");
            }
            self.assert_hit(&proxy, &path, if self.replaces { 1 } else { 2 }, &what);
            self.assert_hit(&proxy, "/before", 1, &what);
            self.wait_until_tidy(&proxy, objects + 2, &what);
        }
    }
}

#[test]
fn a_file_that_cannot_be_deleted_is_deleted_later() {
    needs_tracing!();
    let scene = Scene::new(true);
    let (proxy, mut steps) = scene.start();
    steps.retain(|step| step.call.starts_with("unlink"));
    assert_eq!(steps.iter().map(|step| step.file).collect::<String>(), "hc");
    let errors = || proxy.metrics().sum("handfast_cache_disk_errors_total", &[]);
    let (writer, _held) = one_writer(&proxy);
    for (number, step) in steps.iter().enumerate() {
        let (path, what) = (format!("/{number}"), format!("no deletion at {step:?}"));
        scene.prepare(&proxy, &path);
        let before = errors();
        let tracer =
            Tracer::list(writer, STORING, Some(&format!("{}:error=EIO:when={}", step.call, step.number)));
        assert_eq!(scene.fill(&proxy, &path, REPLACE), Some((false, 2)), "{what}");
        assert!(errors() > before, "{what}: it is counted");
        assert_eq!(tracer.injected(), 1, "{what}");
        scene.heal(&proxy, &format!("/after/{number}"));
        scene.wait_until_tidy(&proxy, 2 + 2 * (number + 1), &what);
        scene.assert_hit(&proxy, &path, 2, &what);
        assert_eq!(proxy.metrics().sum("handfast_cache_undeleted_objects", &[]), 0.0, "{what}");
    }
}

#[test]
fn a_kill_at_each_step_of_a_new_object() {
    needs_tracing!();
    Scene::new(false).kill_at_each_step();
}

#[test]
fn a_kill_at_each_step_of_a_replacement() {
    needs_tracing!();
    Scene::new(true).kill_at_each_step();
}

#[test]
fn a_full_disk_at_each_step_of_a_new_object() {
    needs_tracing!();
    Scene::new(false).full_at_each_step();
}

#[test]
fn a_full_disk_at_each_step_of_a_replacement() {
    needs_tracing!();
    Scene::new(true).full_at_each_step();
}
