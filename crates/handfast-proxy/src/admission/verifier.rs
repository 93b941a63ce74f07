//! Verifies passwords on separate threads: one takes a tenth of a second and more, and a worker has thousands of connections.
//!
//! In: a name, a password and the users of a route. Out: whether they belong together; the task that waits is woken. The queue is bounded, and
//! what was right is remembered for a while, here for all workers and in each worker for itself (`Remembered`). What is remembered is a keyed
//! hash, never the password.

#![expect(
    clippy::disallowed_types,
    reason = "held for as long as one job takes to be moved, and only for a password that a worker does not remember"
)]

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use handfast_net::clock::Moment;
use handfast_process::sandbox;
use handfast_tls::keyed_hash::Digest;
use zeroize::Zeroizing;

use super::users::Users;

/// Threads. More would take processors away from connections: a client that sends wrong passwords could have all of them.
const THREADS: usize = 2;
/// Passwords that wait, at most. Behind more of them the last one would wait for longer than a client does.
const MAX_WAITING_PASSWORDS: usize = 64;
/// Time for which a right password is remembered.
const PASSWORD_LIFETIME: Duration = Duration::from_secs(300);
/// Passwords that are remembered in each place.
const MAX_REMEMBERED_PASSWORDS: usize = 4096;
/// Less than that of workers (setpriority(2)).
const NICE: i32 = 10;

/// Passwords that were right lately.
#[derive(Debug, Default)]
pub(crate) struct Remembered(HashMap<Digest, Moment>);

impl Remembered {
    pub(crate) fn has(&self, digest: &Digest, now: Moment) -> bool {
        self.0.get(digest).is_some_and(|until| now < *until)
    }

    /// From now on, for a while. In a full table all is forgotten that is too old, and if nothing is, all.
    pub(crate) fn add(&mut self, digest: Digest, now: Moment) {
        if self.0.len() >= MAX_REMEMBERED_PASSWORDS {
            self.0.retain(|_, until| now < *until);
        }
        if self.0.len() >= MAX_REMEMBERED_PASSWORDS {
            self.0.clear();
        }
        self.0.insert(digest, now + PASSWORD_LIFETIME);
    }
}

/// A password to verify.
struct Job {
    users: Arc<Users>,
    name: Box<str>,
    password: Zeroizing<Vec<u8>>,
    digest: Digest,
    slot: Arc<Slot>,
}

/// Place of the outcome, and the task to wake.
struct Slot {
    outcome: AtomicU8,
    task: Waker,
}

const WAITS: u8 = 0;
const WRONG: u8 = 1;
const RIGHT: u8 = 2;

/// A password that is being verified. Dropping it takes it back if it was not begun.
pub(crate) struct Pending(Arc<Slot>);

impl Pending {
    /// Returns whether the password is right; `None` while it is being verified.
    pub(crate) fn outcome(&self) -> Option<bool> {
        match self.0.outcome.load(Ordering::Acquire) {
            WAITS => None,
            outcome => Some(outcome == RIGHT),
        }
    }
}

/// The threads and their queue. They live as long as the process.
#[derive(Debug, Default)]
pub(crate) struct Verifier {
    state: Mutex<State>,
    filled: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Job>,
    remembered: Remembered,
    threads: usize,
}

impl std::fmt::Debug for State {
    /// Without the passwords.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("waiting", &self.queue.len()).field("threads", &self.threads).finish()
    }
}

/// A panic leaves nothing half done under this lock.
fn locked<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Verifier {
    /// Starts the threads `passwords-N`, unless they run.
    ///
    /// **Errors**: thread creation (pthread_create(3)), when there is none at all.
    pub(crate) fn start(self: &Arc<Self>) -> std::io::Result<()> {
        let mut state = locked(&self.state);
        while state.threads < THREADS {
            let own = Arc::clone(self);
            let name = format!("passwords-{}", state.threads);
            match std::thread::Builder::new().name(name).spawn(move || own.run()) {
                Ok(_) => state.threads += 1,
                Err(error) if state.threads == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(())
    }

    /// Hands over a password; `task` is woken when it is verified. `None`: too many wait.
    pub(crate) fn give(
        &self,
        users: &Arc<Users>,
        (name, password): (&str, &[u8]),
        digest: Digest,
        task: Waker,
    ) -> Option<Pending> {
        let mut state = locked(&self.state);
        if state.queue.len() >= MAX_WAITING_PASSWORDS {
            // Those whose clients have left make room.
            state.queue.retain(|job| Arc::strong_count(&job.slot) > 1);
        }
        if state.queue.len() >= MAX_WAITING_PASSWORDS {
            return None;
        }
        let slot = Arc::new(Slot { outcome: AtomicU8::new(WAITS), task });
        let password = Zeroizing::new(password.to_vec());
        let job =
            Job { users: Arc::clone(users), name: name.into(), password, digest, slot: Arc::clone(&slot) };
        state.queue.push_back(job);
        drop(state);
        self.filled.notify_one();
        Some(Pending(slot))
    }

    fn run(&self) {
        let _ = rustix::process::setpriority_process(None, NICE);
        sandbox::confine_this_thread();
        loop {
            self.work();
        }
    }

    /// Waits for the next password, and verifies it.
    fn work(&self) {
        let idle = |state: &mut State| state.queue.is_empty();
        let mut state =
            self.filled.wait_while(locked(&self.state), idle).unwrap_or_else(PoisonError::into_inner);
        let Some(job) = state.queue.pop_front() else { return };
        let is_known = state.remembered.has(&job.digest, Moment::now());
        drop(state);
        // Its client has left.
        if Arc::strong_count(&job.slot) == 1 {
            return;
        }
        let verify = || job.users.verify(&job.name, &job.password);
        // A fault in it must not end the thread: then it is not the password.
        let is_right =
            is_known || std::panic::catch_unwind(std::panic::AssertUnwindSafe(verify)).unwrap_or(false);
        if is_right && !is_known {
            locked(&self.state).remembered.add(job.digest, Moment::now());
        }
        job.slot.outcome.store(if is_right { RIGHT } else { WRONG }, Ordering::Release);
        job.slot.task.wake_by_ref();
    }
}

#[cfg(test)]
mod tests {
    use handfast_tls::keyed_hash::HashKey;

    use super::*;

    /// `htpasswd -nbB -C 4 alice wonderland`
    const ALICE: &str = "alice:$2y$04$.QqgIUhog8c.srso2zmNGOjywx7AvnfefKghJnaD7BxJB7nDUMDvy";

    fn users() -> Arc<Users> {
        let users = Users::parse(ALICE, HashKey::random().expect("random numbers"));
        Arc::new(users.expect("one user"))
    }

    fn give(verifier: &Verifier, users: &Arc<Users>, name: &str, password: &str) -> Option<Pending> {
        let digest = users.digest(name, password.as_bytes());
        verifier.give(users, (name, password.as_bytes()), digest, Waker::noop().clone())
    }

    #[test]
    fn right_passwords_are_remembered_and_wrong_ones_are_not() {
        let (verifier, users) = (Verifier::default(), users());
        for (password, is_right) in [("wonderland", true), ("looking-glass", false)] {
            let pending = give(&verifier, &users, "alice", password).expect("there is room");
            assert_eq!(pending.outcome(), None);
            verifier.work();
            assert_eq!(pending.outcome(), Some(is_right));
            let remembered = &locked(&verifier.state).remembered;
            assert_eq!(remembered.has(&users.digest("alice", password.as_bytes()), Moment::now()), is_right);
        }
    }

    #[test]
    fn the_queue_is_bounded_and_forgets_clients_that_left() {
        let (verifier, users) = (Verifier::default(), users());
        let waiting: Vec<_> = (0..MAX_WAITING_PASSWORDS)
            .map(|_| give(&verifier, &users, "alice", "x").expect("room"))
            .collect();
        assert!(give(&verifier, &users, "alice", "x").is_none());
        drop(waiting);
        assert!(give(&verifier, &users, "alice", "x").is_some());
        assert_eq!(locked(&verifier.state).queue.len(), 1);
    }

    #[test]
    fn what_is_remembered_ends_and_has_a_bound() {
        let (mut remembered, now) = (Remembered::default(), Moment::now());
        let digest = |number: usize| {
            let mut digest = [0; 32];
            digest[..8].copy_from_slice(&number.to_be_bytes());
            digest
        };
        for number in 0..MAX_REMEMBERED_PASSWORDS {
            remembered.add(digest(number), now);
        }
        assert!(remembered.has(&digest(0), now) && !remembered.has(&digest(0), now + PASSWORD_LIFETIME));
        remembered.add(digest(MAX_REMEMBERED_PASSWORDS), now + PASSWORD_LIFETIME);
        assert_eq!(remembered.0.len(), 1);
    }
}
