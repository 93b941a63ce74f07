//! A real nats-server on a separate port, and what only it can show: permissions, TLS, its end.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use handfast_testkit::folder::Folder;
use handfast_testkit::{bus, needs};

use super::places::{Place, join};
use super::script::Script;
use super::{plan, run, within};
use crate::distributed::protocol::{Event, Identity, Subjects, decode};
use crate::distributed::worker::Worker;
use crate::distributed::{BusAddress, LEASE, OnLost, doctor, setup};
use crate::outcome::EarlyEnd;

/// A server that ends with its test.
pub(super) struct Server {
    bus: bus::Bus,
    /// The folder of [`setup`], where it was used.
    folder: Option<Folder>,
}

impl Server {
    /// Starts one with these arguments, on loopback.
    pub(super) fn start(arguments: &[&str]) -> Self {
        let bus = bus::Bus::with(&[&["-a", "127.0.0.1", "-p", "-1"], arguments].concat());
        Self { bus, folder: None }
    }

    /// One as [`setup`] would have it.
    fn set_up() -> Self {
        let folder = Folder::new();
        let next = setup(folder.path(), "127.0.0.1", 4222, "default").unwrap();
        assert!(next.contains("handfast worker tls://127.0.0.1:4222"), "{next}");
        let server = Self::start(&["-c", &folder.file("nats-server.conf").display().to_string()]);
        Self { folder: Some(folder), ..server }
    }

    /// The address for a client with this role.
    pub(super) fn address(&self, role: &str) -> BusAddress {
        let mut address = BusAddress::new(self.bus.url());
        if let Some(folder) = &self.folder {
            address.ca = Some(folder.file("ca.pem"));
            address.credentials = Some(folder.file(&format!("{role}.secret")));
        }
        address
    }
}

#[tokio::test]
async fn what_setup_writes_works_and_gives_nobody_more_than_he_needs() {
    needs!("nats-server");
    let server = Server::set_up();
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
    needs!("nats-server");
    let server = Server::set_up();
    let coordinator = join(&server.address("coordinator"), "c").await;
    let worker = join(&server.address("worker"), "w").await;
    let other = join(&server.address("worker"), "v").await;
    let mut orders = other.subscribe("hf.default.c.all").await.unwrap();
    let mut spied = worker.subscribe("hf.default.w.>").await.unwrap();
    let mut events = coordinator.subscribe("hf.default.w.c.>").await.unwrap();

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
            let message = tokio::time::timeout(Duration::from_secs(5), events.next()).await.unwrap().unwrap();
            assert_eq!(&message.payload[..], b"for the coordinator");
        }
    };
    tokio::join!(say, hear);
    let silence = tokio::time::timeout(Duration::from_millis(300), spied.next()).await;
    assert!(!matches!(silence, Ok(Some(_))), "a worker received another worker's message: {silence:?}");
}

#[tokio::test]
async fn a_server_without_users_allows_everything_and_that_is_seen() {
    needs!("nats-server");
    let server = Server::start(&[]);
    let found = doctor(&server.address("worker")).await.unwrap().join("\n");
    assert!(found.contains("does not authenticate users: any program here"), "{found}");
    assert!(found.contains("may publish to and listen to subjects that are not the fleet's"), "{found}");
}

#[tokio::test]
async fn a_server_that_takes_too_little_is_refused() {
    needs!("nats-server");
    let folder = Folder::new();
    let configuration = folder.write("small.conf", "max_payload: 64KB\n").display().to_string();
    let server = Server::start(&["-c", &configuration]);
    let refusal = Place::on(server).gather(1).await.unwrap_err();
    assert!(refusal.what.contains("takes messages of 6"), "{refusal}");
    assert!(refusal.hint.unwrap().contains("max_payload"));
}

#[tokio::test]
async fn a_bus_that_dies_ends_the_run_and_the_load_and_may_come_back() {
    needs!("nats-server");
    let mut place = Place::nats();
    let script = Script::of(60).slow();
    let loading = script.loading();
    place.worker("a", script).await;
    let mut lineup = place.gather(1).await.unwrap();
    let (outcome, killed) = tokio::join!(run(&mut lineup, OnLost::Fail), async {
        within(Duration::from_secs(10), "the load begins", || loading.load(Ordering::SeqCst)).await;
        tokio::time::sleep(Duration::from_millis(1500)).await;
        place.server().bus.kill();
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

    place.server().bus.back();
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
    needs!("nats-server");
    let place = Place::nats();
    let listener = place.bus("listener").await;
    let mut events = listener.subscribe("hf.default.w.>").await.unwrap();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "distributed::tests::server::worker_process", "--ignored"])
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
            let message = events.next().await.unwrap();
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
    assert!(refusal.is_wrong_use(), "{refusal}");
}
