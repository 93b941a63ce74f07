//! The signals that the program handles.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The action that a signal requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalRequest {
    /// HUP: read the configuration again.
    Reload,
    /// TERM or INT: shut down; the second time at once.
    Stop,
    /// USR1: open the access log again.
    Reopen,
}

/// Receives signals from the moment of its creation on.
#[derive(Debug)]
pub struct Signals {
    hangup: Signal,
    terminate: Signal,
    interrupt: Signal,
    user: Signal,
    /// XFSZ would end the program when a log reaches a limit on file sizes. While it is handled, the write fails instead, which
    /// the log counts.
    _file_size: Signal,
}

impl Signals {
    /// Handles these signals from now on.
    ///
    /// **Errors**: sigaction(2).
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            hangup: signal(SignalKind::hangup())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            user: signal(SignalKind::user_defined1())?,
            _file_size: signal(SignalKind::from_raw(nix::libc::SIGXFSZ))?,
        })
    }

    /// Waits for the next request. **Cancel**: loses nothing.
    pub async fn next(&mut self) -> SignalRequest {
        tokio::select! {
            _ = self.hangup.recv() => SignalRequest::Reload,
            _ = self.terminate.recv() => SignalRequest::Stop,
            _ = self.interrupt.recv() => SignalRequest::Stop,
            _ = self.user.recv() => SignalRequest::Reopen,
        }
    }
}
