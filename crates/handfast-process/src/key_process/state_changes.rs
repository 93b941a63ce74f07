//! Logs the state changes of the key process, and keeps its health.
//!
//! In: messages of the supervisor. Out: lines in the log, and [`KeyProcessHealth`].

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use rustix::net::RecvFlags;
use tokio::io::unix::AsyncFd;

use super::control_messages::{ControlMessage, SWAPPABLE, receive_message};
use super::health::KeyProcessHealth;

/// Logs state changes until the supervisor ends.
pub(super) async fn log_state_changes(control: OwnedFd, health: Arc<KeyProcessHealth>) {
    #[expect(deprecated, reason = "unsound only for types that lend a descriptor that closes; this owns it")]
    let Ok(control) = AsyncFd::new(control) else { return };
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
    /// When the last key process ended, until the next one signs.
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
                "the key process may not lock its memory, so private keys may be written to swap, if there is any\n  \
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
