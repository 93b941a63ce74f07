//! The heartbeat: checks all the time whether the key process answers, also when no client needs a signature.
//!
//! In: a separate channel. Out: its health (`health.rs`), and a line in the log when an outage begins and ends. Threads that
//! sign only notice that the key process is unresponsive; this task notices that it answers again. If those threads tried that, each
//! try would occupy a worker; and behind a load balancer that sends no clients to a process that is not ready, no thread would try.
//!
//! It checks at fixed intervals and waits for no notification, so none can be lost: after an outage of any kind, the next check
//! receives an answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::channel::{Channel, Pong, RequestError};
use super::health::{KeyProcessHealth, OTHER_TIMEOUT};

/// The interval of checks while the key process answers.
const INTERVAL: Duration = Duration::from_millis(500);
/// The interval of checks while it does not: the delay until its answer is noticed.
const OUTAGE_INTERVAL: Duration = Duration::from_millis(20);

/// A ping without an answer yet.
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
    /// When the outage began that the log has reported.
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
