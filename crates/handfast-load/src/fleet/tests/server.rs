//! A real nats-server on a separate port, and what only it can show: permissions, TLS, its end.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tempfile::TempDir;
use tokio::sync::mpsc;

use super::places::{Place, join};
use super::script::Script;
use super::{plan, run, skipped, within, write};
use crate::fleet::protocol::{Event, Identity, Subjects, decode};
use crate::fleet::worker::Worker;
use crate::fleet::{BusAddress, LEASE, OnLost, doctor, setup};
use crate::outcome::EarlyEnd;

const PROGRAM: &str = "/usr/sbin/nats-server";

/// A server that ends with its test.
pub(super) struct Server {
    child: Child,
    /// Where it listens.
    pub(super) port: u16,
    /// The folder of [`setup`], where it was used.
    folder: Option<TempDir>,
}

impl Server {
    /// Starts one with these arguments, on loopback; `None` where there is no such program.
    pub(super) async fn start(arguments: &[&str]) -> Option<Self> {
        Self::start_at("-1", arguments).await
    }

    async fn start_at(port: &str, arguments: &[&str]) -> Option<Self> {
        if !Path::new(PROGRAM).exists() {
            return None;
        }
        let mut child = Command::new(PROGRAM)
            .args(["-a", "127.0.0.1", "-p", port])
            .args(arguments)
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let (tell, mut port) = mpsc::channel(1);
        // Reads to the end, so that the server can always write.
        let read = move || {
            let mut found = None;
            for line in lines.map_while(Result::ok) {
                if let Some((_, port)) = line.split_once("client connections on 127.0.0.1:") {
                    found = port.trim().parse::<u16>().ok();
                }
                if line.contains("Server is ready") {
                    let _ = tell.try_send(found.expect("a port before it is ready"));
                }
            }
        };
        std::thread::Builder::new().name("server-log".into()).spawn(read).unwrap();
        let port = tokio::time::timeout(Duration::from_secs(10), port.recv()).await;
        Some(Self { child, port: port.unwrap().expect("the server did not start"), folder: None })
    }

    /// One as [`setup`] would have it.
    async fn set_up() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let next = setup(folder.path(), "127.0.0.1", 4222, "default").unwrap();
        assert!(next.contains("handfast worker tls://127.0.0.1:4222"), "{next}");
        let configuration = folder.path().join("nats-server.conf");
        let mut server = Self::start(&["-c", configuration.to_str().unwrap()]).await?;
        server.folder = Some(folder);
        Some(server)
    }

    fn file(&self, name: &str) -> Option<PathBuf> {
        self.folder.as_ref().map(|folder| folder.path().join(name))
    }

    /// The address for a client with this role.
    pub(super) fn address(&self, role: &str) -> BusAddress {
        let mut address = BusAddress::new(format!("nats://127.0.0.1:{}", self.port));
        address.ca = self.file("ca.pem");
        address.credentials = self.file(&format!("{role}.secret"));
        address
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn what_setup_writes_works_and_gives_nobody_more_than_he_needs() {
    let Some(server) = Server::set_up().await else { skipped!("no nats-server") };
    let (coordinator, worker) = (server.address("coordinator"), server.address("worker"));
    for address in [&coordinator, &worker] {
        let found = doctor(address).await.unwrap().join("\n");
        assert!(found.contains("TLS is required") && found.contains("users are required"), "{found}");
        assert!(found.contains("no subjects but the fleet's"), "{found}");
    }
    let nobody = BusAddress { credentials: None, ..worker.clone() };
    assert!(doctor(&nobody).await.unwrap_err().what.contains("rejected this user"));
    let stranger = BusAddress { ca: None, ..worker.clone() };
    assert!(doctor(&stranger).await.is_err(), "no certificate of this CA is in the system");

    let mut place = Place::on(server);
    place.worker("a", Script::of(2)).await;
    place.worker("b", Script::of(2)).await;
    let mut lineup = place.gather(2).await.unwrap();
    let outcome = run(&mut lineup, OnLost::Fail).await.0.unwrap();
    assert!(outcome.early_end.is_none() && outcome.workers.iter().all(|worker| worker.sums_agree));
}

#[tokio::test]
async fn a_worker_can_neither_command_nor_listen_to_others() {
    let Some(server) = Server::set_up().await else { skipped!("no nats-server") };
    let coordinator = join(&server.address("coordinator"), "c").await;
    let worker = join(&server.address("worker"), "w").await;
    let other = join(&server.address("worker"), "v").await;
    let mut orders = other.subscribe("hf.default.c.all").await.unwrap();
    let mut spied = worker.subscribe("hf.default.w.>").await.unwrap();
    let mut heard = coordinator.subscribe("hf.default.w.c.>").await.unwrap();

    // A subscription may be younger than a message: so several of each, in turns.
    let say = async {
        for _ in 0..50 {
            worker.publish("hf.default.c.all", Bytes::from_static(b"by a worker")).await.unwrap();
            other.publish("hf.default.w.c.r.v", Bytes::from_static(b"for the coordinator")).await.unwrap();
            coordinator.publish("hf.default.c.all", Bytes::from_static(b"by the coordinator")).await.unwrap();
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let hear = async {
        for _ in 0..10 {
            let message = tokio::time::timeout(Duration::from_secs(5), orders.next()).await.unwrap().unwrap();
            assert_eq!(&message.payload[..], b"by the coordinator", "a worker's order was delivered");
            let message = tokio::time::timeout(Duration::from_secs(5), heard.next()).await.unwrap().unwrap();
            assert_eq!(&message.payload[..], b"for the coordinator");
        }
    };
    tokio::join!(say, hear);
    let silence = tokio::time::timeout(Duration::from_millis(300), spied.next()).await;
    assert!(!matches!(silence, Ok(Some(_))), "a worker received another worker's message: {silence:?}");
}

#[tokio::test]
async fn a_server_without_users_allows_everything_and_that_is_seen() {
    let Some(server) = Server::start(&[]).await else { skipped!("no nats-server") };
    let found = doctor(&server.address("worker")).await.unwrap().join("\n");
    assert!(found.contains("does not authenticate users: any program here"), "{found}");
    assert!(found.contains("may publish to and listen to subjects that are not the fleet's"), "{found}");
}

#[tokio::test]
async fn a_server_that_takes_too_little_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let configuration = folder.path().join("small.conf");
    write(&configuration, "max_payload: 64KB\n");
    let started = Server::start(&["-c", configuration.to_str().unwrap()]).await;
    let Some(server) = started else { skipped!("no nats-server") };
    let refusal = Place::on(server).gather(1).await.unwrap_err();
    assert!(refusal.what.contains("takes messages of 6"), "{refusal}");
    assert!(refusal.hint.unwrap().contains("max_payload"));
}

#[tokio::test]
async fn a_bus_that_dies_ends_the_run_and_the_load_and_may_come_back() {
    let Some(mut place) = Place::nats().await else { skipped!("no nats-server") };
    let script = Script::of(60).slow();
    let loading = script.loading();
    place.worker("a", script).await;
    let mut lineup = place.gather(1).await.unwrap();
    let (outcome, killed) = tokio::join!(run(&mut lineup, OnLost::Fail), async {
        within(Duration::from_secs(10), "the load begins", || loading.load(Ordering::SeqCst)).await;
        tokio::time::sleep(Duration::from_millis(1500)).await;
        place.server().kill();
        Instant::now()
    });
    assert!(killed.elapsed() < Duration::from_secs(4), "the coordinator needed {:?}", killed.elapsed());
    let outcome = outcome.0.unwrap();
    assert_eq!(outcome.early_end, Some(EarlyEnd::WorkerLost("a".into())));
    let why = outcome.workers[0].lost.clone().unwrap();
    assert!(why.contains("the bus nats://127.0.0.1:") && why.contains("was lost"), "{why}");
    let left = (LEASE + Duration::from_secs(1)).saturating_sub(killed.elapsed());
    within(left, "the load ends", || !loading.load(Ordering::SeqCst)).await;
    drop(lineup);

    let port = place.server().port.to_string();
    *place.server() = Server::start_at(&port, &[]).await.unwrap();
    let mut lineup = place.gather(1).await.unwrap();
    let (asker, mut stop) = tokio::sync::watch::channel(false);
    let mut each = |_: &crate::sample::Interval| {
        asker.send_replace(true);
    };
    let outcome = lineup.run(&plan(), OnLost::Fail, &mut each, &mut stop).await.unwrap();
    assert_eq!(outcome.early_end, Some(EarlyEnd::Interrupted), "the same worker served again");
}

/// The worker of the test below, in a separate process: this program with other arguments.
#[tokio::test]
#[ignore = "a part of another test, which starts it"]
async fn worker_process() {
    let Ok(url) = std::env::var("HANDFAST_TEST_BUS") else { return };
    let bus = join(&BusAddress::new(url), "child").await;
    let subjects = Subjects::new("default").unwrap();
    let script = Arc::new(Script::of(60).slow());
    let identity = Identity::own().unwrap();
    let worker = Worker::new(bus, subjects, "child".into(), "child".into(), identity, script);
    worker.serve(tokio::sync::watch::channel(false).1).await.unwrap();
}

struct Process(Child);

impl Process {
    fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.0), signal).unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn a_process_that_was_stopped_does_not_go_on_when_it_is_continued() {
    let Some(place) = Place::nats().await else { skipped!("no nats-server") };
    let listener = place.bus("listener").await;
    let mut heard = listener.subscribe("hf.default.w.>").await.unwrap();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "fleet::tests::server::worker_process", "--ignored"])
        .env("HANDFAST_TEST_BUS", place.url())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let child = Process(child.unwrap());
    let mut lineup = place.gather(1).await.unwrap();
    // The coordinator falls silent at the same moment: no order to stop waits for the process, only old leases.
    tokio::select! {
        _ = run(&mut lineup, OnLost::Fail) => panic!("ended by itself"),
        () = tokio::time::sleep(Duration::from_millis(3500)) => child.signal(rustix::process::Signal::STOP),
    }
    tokio::time::sleep(LEASE + Duration::from_secs(1)).await;
    child.signal(rustix::process::Signal::CONT);
    let end = async {
        loop {
            let message = heard.next().await.unwrap();
            if let Some(Event::End { end, cut }) = decode(&message.payload) {
                break (end, cut);
            }
        }
    };
    let (end, cut) = tokio::time::timeout(Duration::from_secs(2), end).await.unwrap();
    assert!(cut.unwrap().contains("silent for 5 s"));
    // About two seconds before it was stopped; and those of the pause, which a script makes at once when it wakes.
    assert!(end.totals.tally.transactions < 12 * super::script::SAMPLES, "{:?}", end.totals.tally);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named() {
    // Tcpmux, which no program serves; a port that was free a moment ago may be another test's now.
    let refusal = doctor(&BusAddress::new("nats://127.0.0.1:1")).await.unwrap_err();
    assert!(refusal.what.contains("reach the bus nats://127.0.0.1:1"), "{refusal}");
    assert!(refusal.what.contains("refused"), "{refusal}");
    let refusal = doctor(&BusAddress::new("http://127.0.0.1")).await.unwrap_err();
    assert!(refusal.wrong_use, "{refusal}");
}
