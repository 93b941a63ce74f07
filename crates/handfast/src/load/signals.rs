//! Requests to end: Ctrl-C, TERM, and the terminal that is closed. A HUP that another program sends is meant for a proxy.

use std::fs::File;

use handfast_load::outcome::Refusal;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that ask for an end, from when it was made on.
pub(crate) struct Signals {
    signals: [Signal; 3],
    has_terminal: bool,
}

impl Signals {
    /// Begins to listen; none of them ends the process by itself any more. Needs a tokio runtime around it.
    ///
    /// **Errors**: the kernel refusing, which it does not.
    pub(crate) fn listen() -> Result<Self, Refusal> {
        let listen =
            |kind| signal(kind).map_err(|error| Refusal::failed(format!("listen for signals: {error}")));
        let signals = [
            listen(SignalKind::interrupt())?,
            listen(SignalKind::terminate())?,
            listen(SignalKind::hangup())?,
        ];
        Ok(Self { signals, has_terminal: has_terminal() })
    }

    /// Waits for the next one; answers with the exit code that a shell gives to what this signal ended: 128 and its number.
    ///
    /// **Cancel**: loses none.
    pub(crate) async fn next(&mut self) -> u8 {
        let [interrupt, terminate, hangup] = &mut self.signals;
        loop {
            tokio::select! {
                _ = interrupt.recv() => return 130,
                _ = terminate.recv() => return 143,
                _ = hangup.recv() => if self.has_terminal && !has_terminal() {
                    return 129;
                },
            }
        }
    }
}

/// Whether this process has a terminal that is open (tty(4)).
fn has_terminal() -> bool {
    File::open("/dev/tty").is_ok()
}
