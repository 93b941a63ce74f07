//! A backend that was marked down is tried by one connection of the whole process, however many threads there are and however
//! long it does not answer; the others go elsewhere, or where there is no other backend, wait for that one's outcome.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::support::network::{Rules, in_a_network_of_its_own};
use super::support::*;

/// Timeout of an attempt without an answer. Below a second the kernel sends one SYN for it, so SYNs are attempts.
const CONNECT: Duration = Duration::from_millis(300);
/// Time for which a backend is not used after that.
const PAUSE: Duration = Duration::from_millis(300);
/// Clients that come one after the other, so many at a time.
const CLIENTS: usize = 12;

fn config(folder: &folder::Folder, backend: std::net::SocketAddr) -> Config {
    Config::to(folder, backend)
        .set("process", "threads", 4)
        .set("service.limits", "backend-failures", 3)
        .text("service.limits", "connect", format!("{}ms", CONNECT.as_millis()))
        .text("service.limits", "backend-retry", format!("{}ms", PAUSE.as_millis()))
}

/// Clients that come until the value is dropped.
struct Clients {
    stop: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Clients {
    fn come(to: &Proxy) -> Self {
        let (stop, address) = (Arc::new(AtomicBool::new(false)), to.address());
        let client = |_| {
            let (stop, trust) = (Arc::clone(&stop), Trust::version(Version::Tls13).config());
            deadline::thread("client", move || {
                while !stop.load(Ordering::Acquire) {
                    let Ok(mut client) = Client::try_connect(address, &trust, "localhost") else { continue };
                    // The proxy's record shows if it is served.
                    if client.try_send(b"x").is_ok() {
                        client.close_notify();
                        client.read_to_end();
                    }
                }
            })
        };
        let threads = (0..CLIENTS).map(client).collect();
        Self { stop, threads }
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        for thread in self.threads.drain(..) {
            // The panic of a client is reported already.
            let _ = thread.join();
        }
    }
}

fn up(proxy: &Proxy, backend: &Backend) -> f64 {
    proxy.metrics().sum("handfast_backend_up", &[("backend", &backend.address.to_string())])
}

/// Waits until attempts that began before it was marked down have failed: one at the most, which is the trial, has not.
/// Gives the number of attempts so far.
fn settled(proxy: &Proxy, backend: &Backend, rules: &Rules) -> u64 {
    let failures = || {
        let labels = [("backend", &*backend.address.to_string())];
        proxy.metrics().sum("handfast_backend_failures_total", &labels)
    };
    wait_until("the backend to be marked down", || (up(proxy, backend) < 0.5).then_some(()));
    wait_until("the first attempts to have failed", || {
        // In this order: what is begun meanwhile counts as not failed.
        let failed = failures();
        let attempts = rules.applied("gone");
        (attempts as f64 - failed < 1.5).then_some(attempts)
    })
}

#[test]
fn one_connection_of_all_threads_tries_a_backend_that_is_down() {
    in_a_network_of_its_own!();
    let (silent, good) = (Backend::echo(), Backend::echo());
    let rules = Rules::new();
    rules.add("gone", &format!("tcp dport {} tcp flags syn", silent.address.port()), "drop");
    let folder = folder::Folder::new();
    let proxy = Proxy::start(config(&folder, silent.address).backend(good.address));
    let clients = Clients::come(&proxy);
    let before = settled(&proxy, &silent, &rules);
    let start = Instant::now();
    wait_until("five trials", || (rules.applied("gone") >= before + 5).then_some(()));
    let (trials, took) = (rules.applied("gone") - before, start.elapsed());
    // One may have begun as the clock did, and one just now.
    let most = took.as_secs_f64() / (CONNECT + PAUSE).as_secs_f64() + 2.0;
    assert!(trials as f64 <= most, "{trials} attempts within {took:?}: {most:.1} at the most");
    let served = good.accepted();
    wait_until("clients to be served meanwhile", || (good.accepted() > served + CLIENTS).then_some(()));
    drop(rules);
    wait_until("it to be up again", || (up(&proxy, &silent) > 0.5).then_some(()));
    drop(clients);
    let lines = |what: &str| proxy.talk.so_far().iter().filter(|line| line.contains(what)).count();
    let name = silent.address;
    assert_eq!(lines(&format!("backend {name} is marked down for 300ms after 3 failures in a row")), 1);
    assert_eq!(lines(&format!("backend {name} is up again")), 1);
}

#[test]
fn where_there_is_no_other_backend_clients_wait_for_the_one_that_tries() {
    in_a_network_of_its_own!();
    let backend = Backend::echo();
    let rules = Rules::new();
    rules.add("gone", &format!("tcp dport {} tcp flags syn", backend.address.port()), "drop");
    let folder = folder::Folder::new();
    let proxy = Proxy::start(config(&folder, backend.address));
    let clients = Clients::come(&proxy);
    let before = settled(&proxy, &backend, &rules);
    let (start, known) = (Instant::now(), proxy.records().len());
    wait_until("five attempts", || (rules.applied("gone") >= before + 5).then_some(()));
    let (attempts, took) = (rules.applied("gone") - before, start.elapsed());
    let most = took.as_secs_f64() / CONNECT.as_secs_f64() + 2.0;
    assert!(attempts as f64 <= most, "{attempts} attempts within {took:?}: {most:.1} at the most");
    // Far more clients got the result than there were attempts, each with the cause, and none had to wait for another attempt.
    let lines =
        proxy.record("a client with that cause", |record| record.detail().contains("another connection"));
    assert_eq!(lines.reason(), "connect/backend/connect-timeout", "{lines:?}");
    wait_until("more records than clients that tried", || {
        (proxy.records().len() - known > 2 * CLIENTS).then_some(())
    });
    drop(rules);
    wait_until("clients to be served again", || (backend.accepted() > CLIENTS).then_some(()));
    assert!(up(&proxy, &backend) > 0.5);
    drop(clients);
}
