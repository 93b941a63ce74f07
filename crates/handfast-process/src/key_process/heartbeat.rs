//! The heartbeat: checks all the time whether the key process answers, also when no client needs a signature.
//!
//! In: a separate channel. Out: its health (`health.rs`), and a line in the log when an outage begins and ends. Threads that
//! sign only notice that the key process is unresponsive; that it answers again is found out here. If they tried that themselves, each
//! try would occupy a worker; and a load balancer that sends no clients to a process that is not ready would leave no thread that tries.
//!
//! It looks at fixed intervals and waits for no notification, so none can be lost: whatever an outage has broken, the next look after
//! its end finds an answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::channel::{Channel, Pong, Trouble};
use super::{KeyProcessHealth, OTHER_TIMEOUT};

/// Between two looks, while the key process answers and while it does not: so soon is its answer noticed.
const LOOKS: (Duration, Duration) = (Duration::from_millis(500), Duration::from_millis(20));

/// A ping that is not answered yet.
struct Ping {
    sent: Instant,
    /// The same moment as [`KeyProcessHealth::now`] counts.
    sent_at: u64,
}

/// Sends pings for as long as there is a supervisor.
pub(super) async fn check(mut channel: Channel, health: Arc<KeyProcessHealth>) {
    let mut heartbeat = Heartbeat { health: Arc::clone(&health), ping: None, logged: None };
    loop {
        let is_unresponsive = health.is_unresponsive();
        tokio::time::sleep(if is_unresponsive { LOOKS.1 } else { LOOKS.0 }).await;
        if heartbeat.look(&mut channel).is_err() {
            // What reads the supervisor's messages logs that it is gone.
            health.timed_out();
            return;
        }
        heartbeat.log(health.outage());
    }
}

struct Heartbeat {
    health: Arc<KeyProcessHealth>,
    ping: Option<Ping>,
    /// When the outage began that the log reports.
    logged: Option<Instant>,
}

impl Heartbeat {
    fn look(&mut self, channel: &mut Channel) -> Result<(), Trouble> {
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
        match (outage, self.logged) {
            (Some(outage), None) => {
                let now = Instant::now();
                self.logged = Some(now.checked_sub(outage).unwrap_or(now));
                tracing::error!(
                    "the key process has not answered for {} ms: handshakes that need a signature fail until it does, open \
                     connections go on; not ready\n  hint: it is stopped or gets no processor: ps -o pid,stat,wchan,comm -C key-process",
                    outage.as_millis()
                );
            }
            (None, Some(since)) => {
                self.logged = None;
                tracing::info!("the key process answers again, after {} ms", since.elapsed().as_millis());
            }
            _ => {}
        }
    }
}
