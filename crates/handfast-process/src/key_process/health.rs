//! Health of the key process: one value for all threads that use it, and the two tasks that keep it.
//!
//! In: answers, timeouts, pongs, and messages of the supervisor. Out: how long it makes sense to wait now, and lines in the log.
//!
//! Threads that sign only notice that the key process is unresponsive; the heartbeat notices that it answers again. If those threads tried
//! that, each try would occupy a worker; and behind a load balancer that sends no clients to a process that is not ready, no thread
//! would try. It checks at fixed intervals, so no notification can be lost.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::net::RecvFlags;

use super::channel::{Channel, OTHER_TIMEOUT, Pong, RequestError};
use super::child::{ControlMessage, SWAPPABLE, receive_message};
use crate::own_program::waited_for;

/// Health of the key process, and its number of restarts. Shared by everything that depends on it.
#[derive(Debug)]
pub struct KeyProcessHealth {
    /// The moment ([`Self::now`]) of the first timeout since its last answer; 0: it answers.
    silent_since: AtomicU64,
    restarts: AtomicU64,
    started: Instant,
}

impl KeyProcessHealth {
    /// Of a key process that has received no request yet.
    pub(super) fn new() -> Self {
        Self { silent_since: AtomicU64::new(0), restarts: AtomicU64::new(0), started: Instant::now() }
    }

    /// The number of times that the key process ended and was started again.
    pub fn restarts(&self) -> u64 {
        self.restarts.load(Ordering::Relaxed)
    }

    /// Returns true if it does not answer at the moment: a thread that carries connections should not wait for it.
    ///
    /// **Cost**: one relaxed load.
    pub fn is_unresponsive(&self) -> bool {
        self.silent_since.load(Ordering::Relaxed) != 0
    }

    /// Returns the time for which it has not answered, from [`OTHER_TIMEOUT`] on, when no thread waits for a signature any more. Shorter
    /// silences are restarts, or a machine under load.
    pub fn outage(&self) -> Option<Duration> {
        self.silence().filter(|silence| *silence >= OTHER_TIMEOUT)
    }

    fn silence(&self) -> Option<Duration> {
        let since = self.silent_since.load(Ordering::Relaxed);
        (since != 0).then(|| Duration::from_millis(self.now().saturating_sub(since)))
    }

    /// Milliseconds since this value was made, and one, so that no moment is 0.
    pub(super) fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX).saturating_add(1)
    }

    /// The timeout of a request now, for a thread with this usual timeout; `None`: it must send no request, the heartbeat notices when
    /// the key process answers again.
    ///
    /// A key process that is restarted answers within [`OTHER_TIMEOUT`], so requests wait for that long.
    pub(super) fn timeout(&self, usual: Duration) -> Option<Duration> {
        let Some(silence) = self.silence() else { return Some(usual) };
        let left = OTHER_TIMEOUT.saturating_sub(silence);
        (!left.is_zero()).then(|| usual.min(left))
    }

    /// It has answered a ping that was sent at this moment ([`Self::now`]). One from before the silence proves nothing.
    pub(super) fn ping_answered(&self, sent_at: u64) {
        if self.silent_since.load(Ordering::Relaxed) <= sent_at {
            self.answered();
        }
    }

    pub(super) fn answered(&self) {
        if self.is_unresponsive() {
            self.silent_since.store(0, Ordering::Relaxed);
        }
    }

    pub(super) fn timed_out(&self) {
        // The first timeout counts.
        let _ = self.silent_since.compare_exchange(0, self.now(), Ordering::Relaxed, Ordering::Relaxed);
    }

    pub(super) fn was_restarted(&self) {
        self.restarts.fetch_add(1, Ordering::Relaxed);
    }
}

/// The interval of checks while the key process answers.
const INTERVAL: Duration = Duration::from_millis(500);
/// The interval of checks while it does not: the delay until its answer is noticed.
const OUTAGE_INTERVAL: Duration = Duration::from_millis(20);

struct Ping {
    sent: Instant,
    /// The same moment as [`KeyProcessHealth::now`] counts.
    sent_at: u64,
}

/// Sends pings for as long as there is a supervisor.
pub(super) async fn send_heartbeats(mut channel: Channel, health: Arc<KeyProcessHealth>) {
    let mut heartbeat = Heartbeat { health: Arc::clone(&health), ping: None, logged_outage: None };
    loop {
        let is_unresponsive = health.is_unresponsive();
        tokio::time::sleep(if is_unresponsive { OUTAGE_INTERVAL } else { INTERVAL }).await;
        if heartbeat.check(&mut channel).is_err() {
            // The task that reads the supervisor's messages logs that it is gone.
            health.timed_out();
            return;
        }
        heartbeat.log(health.outage());
    }
}

struct Heartbeat {
    health: Arc<KeyProcessHealth>,
    ping: Option<Ping>,
    /// Start of the outage that the log has reported.
    logged_outage: Option<Instant>,
}

impl Heartbeat {
    fn check(&mut self, channel: &mut Channel) -> Result<(), RequestError> {
        // Before the deadline: this thread may have been stopped longer than the key process.
        if let Some(pong) = channel.pong()?
            && let Some(ping) = self.ping.take()
            && pong == Pong::Answered
        {
            self.health.ping_answered(ping.sent_at);
        }
        if self.ping.as_ref().is_some_and(|ping| ping.sent.elapsed() >= OTHER_TIMEOUT) {
            self.health.timed_out();
            self.ping = None;
        }
        if self.ping.is_none() && channel.ping()? {
            self.ping = Some(Ping { sent: Instant::now(), sent_at: self.health.now() });
        }
        Ok(())
    }

    fn log(&mut self, outage: Option<Duration>) {
        match (outage, self.logged_outage) {
            (Some(outage), None) => {
                let now = Instant::now();
                self.logged_outage = Some(now.checked_sub(outage).unwrap_or(now));
                tracing::error!(
                    "the key process has not answered for {} ms: handshakes that need a signature fail until it does, open \
                     connections go on; not ready\n  hint: it is stopped or gets no processor: ps -o pid,stat,wchan,comm -C key-process",
                    outage.as_millis()
                );
            }
            (None, Some(since)) => {
                self.logged_outage = None;
                tracing::info!("the key process answers again, after {} ms", since.elapsed().as_millis());
            }
            _ => {}
        }
    }
}

/// Logs state changes until the supervisor ends.
pub(super) async fn log_state_changes(control: OwnedFd, health: Arc<KeyProcessHealth>) {
    let Ok(control) = waited_for(control) else { return };
    let mut log = StateLog { health, ended_at: None, is_swap_logged: false };
    loop {
        let Ok(mut ready) = control.readable().await else { return };
        match receive_message(control.get_ref(), RecvFlags::DONTWAIT) {
            Ok(Some((ControlMessage::Ended, status))) => log.ended(&status),
            Ok(Some((ControlMessage::Ready, content))) => log.serves(&content),
            Ok(Some(_)) => {}
            Ok(None) => return log.supervisor_ended(),
            Err(_) => ready.clear_ready(),
        }
    }
}

struct StateLog {
    health: Arc<KeyProcessHealth>,
    /// Time when the last key process ended, until the next one signs.
    ended_at: Option<Instant>,
    /// The warning about swap is logged once, not for each key process.
    is_swap_logged: bool,
}

impl StateLog {
    fn ended(&mut self, status: &[u8]) {
        self.health.timed_out();
        self.health.was_restarted();
        self.ended_at = Some(Instant::now());
        tracing::error!(
            "the key process ended ({}) and is started again: handshakes wait for it, open connections go on",
            String::from_utf8_lossy(status)
        );
    }

    fn serves(&mut self, content: &[u8]) {
        self.health.answered();
        if content == SWAPPABLE && !std::mem::replace(&mut self.is_swap_logged, true) {
            tracing::info!(
                "the key process is not allowed to lock its memory, so private keys may be written to swap, if there is any\n  \
                 hint: LimitMEMLOCK=infinity with systemd, `ulimit -l unlimited` elsewhere"
            );
        }
        if let Some(ended_at) = self.ended_at.take() {
            tracing::info!("the key process signs again, after {} ms", ended_at.elapsed().as_millis());
        }
    }

    fn supervisor_ended(&self) {
        self.health.timed_out();
        tracing::error!(
            "the key process and its supervisor have ended: no handshake can be signed any more, open connections go on\n  \
             hint: restart, or `handfast upgrade`, which loses no connection"
        );
    }
}
