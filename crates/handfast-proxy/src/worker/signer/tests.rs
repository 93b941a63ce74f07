//! Work is done once, by the thread that has it, whatever happens to those that wait for it.

use std::sync::Weak;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::task::Wake;
use std::time::{Duration, SystemTime};

use handfast_tls::client::{Client, ClientSettings, Verification};
use handfast_tls::server::Server;
use handfast_wire::ClientHello;

use super::*;
use crate::state::{self, CarriedOver};
use crate::testing::Folder;

/// Says that it was woken.
struct Bell(SyncSender<()>);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        // Once for each test.
        let _ = self.0.try_send(());
    }
}

/// Records the number of answers at each wake; the last wake ends the signer.
struct Tally {
    shared: Weak<JobQueue>,
    woken_at: Mutex<Vec<u64>>,
    last: usize,
}

impl Wake for Tally {
    fn wake(self: Arc<Self>) {
        let shared = self.shared.upgrade().expect("the signer is there");
        let mut woken_at = self.woken_at.lock().expect("no thread panicked");
        woken_at.push(shared.turns.load(Ordering::Relaxed));
        if woken_at.len() == self.last {
            locked(&shared.queue).ends = true;
        }
    }
}

/// Returns the number of answers at each wake, for `works` jobs in the queue and a clock that advances by `step` with each reading.
fn woken_at(works: usize, step: Duration) -> Vec<u64> {
    let signer = Signer::by_hand();
    let shared = Arc::downgrade(&signer.shared);
    let tally = Arc::new(Tally { shared, woken_at: Mutex::default(), last: works });
    let give = |_| signer.give(work(), Arc::clone(&tally).into()).ok().expect("it takes it");
    let pending: Vec<_> = (0..works).map(give).collect();
    let (begin, looks) = (Instant::now(), AtomicU64::new(0));
    signer.shared.serve(|| begin + step * looks.fetch_add(1, Ordering::Relaxed) as u32);
    assert!(pending.iter().all(|pending| pending.take().is_some()), "each was answered");
    std::mem::take(&mut *tally.woken_at.lock().expect("no thread panicked"))
}

/// A client's hello, and the session for it.
fn work() -> Work {
    let folder = Folder::new();
    folder.dear_certificate("web.pem");
    let source = folder.configure("", &[("web", &["127.0.0.1:2"])]);
    let (config, _) = source.read(false).expect("it is right");
    let built = state::build(config, 1, None, &mut CarriedOver::with_threads(1), SystemTime::now());
    let state = built.state.expect("it can serve");
    let service = &state.services[0];
    let keys = Arc::clone(&service.ring.as_ref().expect("it has tickets").1);
    let settings = service.routes[0].server.as_deref().expect("TLS ends here");
    let server = Server::new(settings.clone(), keys).expect("it can serve");
    let settings = ClientSettings {
        server_name: Some("localhost".to_owned()),
        verification: Verification::Off,
        ..ClientSettings::default()
    };
    let mut client =
        Client::new(&settings, "localhost").expect("they work").connect(false).expect("a session");
    let (mut nothing, mut hello) = (Buffer::default(), Buffer::default());
    assert!(client.receive(&mut [], &mut nothing, &mut hello).failure.is_none());
    let hello = hello.filled().to_vec();
    let read = ClientHello::parse(&hello[9..]).expect("a hello in one record");
    assert!(server.needs_expensive_signature(&read), "or it would not be given away");
    Work { session: server.accept(&read).expect("a session"), hello }
}

fn is_an_answer(answered: &ServerFlight) {
    assert!(answered.received.failure.is_none(), "{:?}", answered.received);
    assert_eq!(answered.replies.filled()[0], 22, "a handshake record");
    assert!(answered.replies.len() > 500, "with a certificate in it");
}

#[test]
fn a_thread_answers_and_wakes() {
    let signer = Signer::start(0).expect("a thread");
    let (bell, rings) = sync_channel(1);
    let pending = signer.give(work(), Arc::new(Bell(bell)).into()).ok().expect("it takes it");
    rings.recv_timeout(Duration::from_secs(20)).expect("it wakes");
    is_an_answer(&pending.take().expect("the answer is there before the wake"));
    assert!(pending.take().is_none(), "once");
}

#[test]
fn waiting_work_is_busy_and_abandoned_work_is_not_computed() {
    let signer = Signer::by_hand();
    assert!(!signer.is_busy());
    let handle = signer.give(work(), Waker::noop().clone()).ok().expect("it takes it");
    let unwanted = signer.give(work(), Waker::noop().clone()).ok().expect("it takes it");
    let slot = Arc::clone(&unwanted.slot);
    drop(unwanted);
    assert!(matches!(*locked(&slot.state), JobState::Away), "its session is gone with its connection");
    assert!(signer.is_busy());
    assert!(handle.take().is_none(), "not yet");
    while signer.work_once() {}
    assert!(!signer.is_busy());
    assert!(matches!(*locked(&slot.state), JobState::Away));
    is_an_answer(&handle.take().expect("done"));
}

#[test]
fn a_signer_that_works_keeps_its_work_and_one_that_does_not_gives_it_back() {
    let signer = Signer::by_hand();
    let give = || signer.give(work(), Waker::noop().clone()).ok().expect("it takes it");
    let (first, mut second) = (give(), give());
    assert!(signer.work_once());
    assert!(second.take_back().is_none(), "it has worked since: its turn will come");
    let work = second.take_back().expect("it has not, since");
    is_an_answer(&work.answer());
    assert!(signer.work_once(), "it finds the place empty");
    assert!(second.take().is_none() && second.take_back().is_none());
    is_an_answer(&first.take().expect("the first was done"));
}

#[test]
fn no_worker_waits_for_its_queue() {
    let signer = Signer::by_hand();
    let queue = locked(&signer.shared.queue);
    let work = signer.give(work(), Waker::noop().clone()).err().expect("it is held");
    assert!(!signer.is_busy());
    drop(queue);
    is_an_answer(&work.answer());
}

#[test]
fn the_worker_is_woken_for_several_answers_at_once() {
    // No time goes by: eight at once, and what is left when there is nothing more to do.
    assert_eq!(woken_at(10, Duration::ZERO), [8, 8, 8, 8, 8, 8, 8, 8, 10, 10]);
    // Each answer takes 1 ms: the first of them waits for 2 ms, and no longer.
    assert_eq!(woken_at(5, Duration::from_millis(1)), [2, 2, 4, 4, 5]);
    // No answer waits for others that do not come.
    assert_eq!(woken_at(1, Duration::ZERO), [1]);
}

#[test]
#[should_panic(expected = "on purpose")]
fn a_panic_is_that_of_the_requester() {
    let signer = Signer::by_hand();
    let pending = signer.give(work(), Waker::noop().clone()).ok().expect("it takes it");
    *locked(&pending.slot.state) = JobState::Panicked(Box::new("on purpose"));
    pending.take();
}

#[test]
fn its_priority_is_below_that_of_every_ordinary_thread() {
    let policy = std::thread::Builder::new().name("idle".into()).spawn(|| {
        handfast_net::sys::run_when_idle().expect("no privilege is needed");
        let stat = std::fs::read_to_string("/proc/thread-self/stat").expect("it is there");
        // The 41st field (proc_pid_stat(5)), counted behind the name, which may have spaces.
        let fields = stat.rsplit_once(") ").expect("a name").1.split(' ').nth(41 - 3).map(str::to_owned);
        fields.expect("as many fields")
    });
    let policy = policy.expect("there are threads");
    assert_eq!(policy.join().expect("it does not panic"), "5", "SCHED_IDLE (sched.h)");
}
