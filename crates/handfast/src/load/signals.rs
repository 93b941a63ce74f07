//! Requests to end: Ctrl-C, TERM, and a closed terminal. A HUP from another program is meant for a proxy.

use std::fs::File;

use handfast_report::ToolError;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Receives the signals that request an end, from its creation on.
pub(crate) struct Signals {
    signals: [Signal; 3],
    has_terminal: bool,
}

impl Signals {
    /// Registers handlers, so that these signals no longer end the process. Needs a tokio runtime.
    ///
    /// **Errors**: the kernel refuses, which does not happen.
    pub(crate) fn listen() -> Result<Self, ToolError> {
        let listen =
            |kind| signal(kind).map_err(|error| ToolError::failed(format!("listen for signals: {error}")));
        let signals = [
            listen(SignalKind::interrupt())?,
            listen(SignalKind::terminate())?,
            listen(SignalKind::hangup())?,
        ];
        Ok(Self { signals, has_terminal: has_terminal() })
    }

    /// Waits for the next one; returns the exit code that shells use for this signal: 128 plus its number.
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

/// Returns true if this process has an open terminal (tty(4)).
fn has_terminal() -> bool {
    File::open("/dev/tty").is_ok()
}
