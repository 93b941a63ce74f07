//! The signals that the program answers to.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// HUP: read the configuration again.
    Reload,
    /// TERM or INT: end. The second time: at once.
    Stop,
    /// USR1: open the access log again.
    Reopen,
}

/// Listens for signals, from its making on.
#[derive(Debug)]
pub struct Signals {
    hangup: Signal,
    terminate: Signal,
    interrupt: Signal,
    user: Signal,
    /// XFSZ would end the program when a log reaches a limit on file sizes; caught, the write fails instead, which the
    /// log counts.
    _file_size: Signal,
}

impl Signals {
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

    /// The next one. **Cancel**: loses nothing.
    pub async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.hangup.recv() => Asked::Reload,
            _ = self.terminate.recv() => Asked::Stop,
            _ = self.interrupt.recv() => Asked::Stop,
            _ = self.user.recv() => Asked::Reopen,
        }
    }
}
