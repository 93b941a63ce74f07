//! HTTP mode: with `max-requests` a backend has no more requests at once than that, over all threads; others wait in their order for as long as the
//! queue says, and get 503 where it is full or the time has passed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use super::support::backend::Peer;
use super::support::folder::Folder;
use super::support::skip::needs;
use super::support::tools;
use super::support::*;

/// Requests of a backend now and at most, and whether it answers.
#[derive(Default)]
struct Load {
    now: AtomicUsize,
    most: AtomicUsize,
    answers: Mutex<bool>,
    changed: Condvar,
}

impl Load {
    fn answer(&self) {
        *self.answers.lock().expect("no test panics with it") = true;
        self.changed.notify_all();
    }
}

/// Answers each request once it may.
fn busy(load: &Arc<Load>) -> Backend {
    let load = Arc::clone(load);
    Backend::start(move |peer: &mut Peer| {
        while peer.head().is_some() {
            let now = load.now.fetch_add(1, Ordering::SeqCst) + 1;
            load.most.fetch_max(now, Ordering::SeqCst);
            let answers = load.answers.lock().expect("no test panics with it");
            drop(load.changed.wait_while(answers, |answers| !*answers).expect("no test panics with it"));
            load.now.fetch_sub(1, Ordering::SeqCst);
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
    })
}

fn proxy(folder: &Folder, backend: &Backend, queue: &str) -> Proxy {
    let config =
        Config::to(folder, backend.address).text("service", "mode", "http").set("process", "threads", 2);
    Proxy::start(format!("{config}[service.http]\nmax-requests = 3\nqueue = {queue}\n"))
}

fn h2load(proxy: &Proxy, requests: &str, clients: &str) -> tools::Tool {
    let url = format!("https://localhost:{}/", proxy.address().port());
    tools::Tool::start("h2load", &["-n", requests, "-c", clients, "-m", "10", &url])
}

#[test]
fn those_that_wait_are_served_when_others_end() {
    needs!("h2load");
    let (folder, load) = (Folder::new(), Arc::<Load>::default());
    let backend = busy(&load);
    let proxy = proxy(&folder, &backend, "{ length = 100, timeout = \"60s\" }");
    let run = h2load(&proxy, "60", "6");
    wait_until("the backend has what it may have", || (load.now.load(Ordering::SeqCst) == 3).then_some(()));
    load.answer();
    let ran = run.ended();
    assert!(ran.output.contains("status codes: 60 2xx, 0 3xx, 0 4xx, 0 5xx"), "{}", ran.all());
    assert_eq!(load.most.load(Ordering::SeqCst), 3);
    proxy.output.containing("\"queue\":");
}

#[test]
fn a_full_queue_and_a_long_wait_are_errors() {
    needs!("h2load", "curl");
    let (folder, load) = (Folder::new(), Arc::<Load>::default());
    let backend = busy(&load);
    let proxy = proxy(&folder, &backend, "{ length = 5, timeout = \"2s\" }");
    let run = h2load(&proxy, "20", "2");
    let full = proxy.record("the queue is full", |record| record.reason() == "connect/backend/queue-full");
    assert_eq!(full.number("status"), 503);
    let late = proxy.record("a long wait", |record| record.reason() == "connect/backend/queue-timeout");
    assert!(late.seconds("queue") >= 1.9 && late.seconds("queue") < 30.0, "{late:?}");
    let address = proxy.address();
    let ca = folder.write("ca.pem", &authority().pem).display().to_string();
    let to = format!("localhost:{}:{}", address.port(), address.ip());
    let url = format!("https://localhost:{}/", address.port());
    let ran = tools::run("curl", &["-sSi", "--cacert", &ca, "--resolve", &to, &url], b"");
    assert!(
        ran.output.contains(" 503") && ran.output.to_lowercase().contains("retry-after: 1\r\n"),
        "{}",
        ran.all()
    );
    load.answer();
    let ran = run.ended();
    assert!(ran.output.contains("status codes: 3 2xx, 0 3xx, 0 4xx, 17 5xx"), "{}", ran.all());
    assert_eq!(load.most.load(Ordering::SeqCst), 3);
    // Requests that waited in vain left nothing behind.
    let ran = tools::run("curl", &["-sSi", "--cacert", &ca, "--resolve", &to, &url], b"");
    assert!(ran.output.contains(" 200"), "{}", ran.all());
}
