//! Requests to end: Ctrl-C, TERM, and the terminal that is closed.

use handfast_load::outcome::Refusal;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that ask for an end, from when it was made on.
pub(crate) struct Signals([Signal; 3]);

impl Signals {
    /// Begins to listen; none of them ends the process by itself any more. Needs a tokio runtime around it.
    ///
    /// **Errors**: the kernel refusing, which it does not.
    pub(crate) fn listen() -> Result<Self, Refusal> {
        let listen =
            |kind| signal(kind).map_err(|error| Refusal::failed(format!("listen for signals: {error}")));
        Ok(Self([
            listen(SignalKind::interrupt())?,
            listen(SignalKind::terminate())?,
            listen(SignalKind::hangup())?,
        ]))
    }

    /// Waits for the next one; answers with the exit code that a shell gives to what this signal ended: 128 and its number.
    ///
    /// **Cancel**: loses none.
    pub(crate) async fn next(&mut self) -> u8 {
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => 130,
            _ = terminate.recv() => 143,
            _ = hangup.recv() => 129,
        }
    }
}
