//! `handfast probe --pcap`: the packets of the probe's own connections, in a file that opens decrypted.
//!
//! In: a path, ports, reports. Out: the packets of a report's connection; at the end the file.

use std::io;
use std::path::Path;
use std::sync::Arc;

use handfast_probe::Report;
use handfast_probe::report::WireReport;
use handfast_probe::tap::Tap;
use handfast_report::ToolError;
use handfast_tls::client::KeyLines;

use crate::load::outputs::{Output, OutputError};

/// A capture that is being made.
pub(super) struct Capture {
    output: Output,
    tap: Tap,
    keys: Arc<KeyLines>,
}

impl Capture {
    /// Creates the file, and begins.
    ///
    /// **Errors**: the file cannot be created; this user has no permission to capture.
    pub(super) fn start(path: &Path, port: u16) -> Result<Self, ToolError> {
        let output =
            Output::prepare(path).map_err(|error| ToolError::failed(error.of("--pcap").to_string()))?;
        Ok(Self { output, tap: Tap::open(port).map_err(|error| forbidden(&error))?, keys: Arc::default() })
    }

    /// The store for the sessions' secrets.
    pub(super) fn key_lines(&self) -> Arc<KeyLines> {
        Arc::clone(&self.keys)
    }

    /// Changes to another target's port.
    pub(super) fn turn_to(&mut self, port: u16) -> Result<(), ToolError> {
        self.tap.turn_to(port).map_err(|error| forbidden(&error))
    }

    /// Reads the captured packets.
    pub(super) fn drain(&mut self) {
        self.tap.drain();
    }

    /// The packets of a report's connection.
    pub(super) fn of(&self, report: &Report) -> Option<WireReport> {
        let (packets, connection) = self.tap.connection(report.local?)?;
        Some(WireReport { missed: self.tap.missed(), connection, packets })
    }

    /// Writes the file.
    pub(super) fn finish(self) -> Result<(), OutputError> {
        self.output.write_bytes(&self.tap.file(&self.keys.text()))
    }
}

fn forbidden(error: &io::Error) -> ToolError {
    let refusal = ToolError::failed(format!("--pcap: open a socket for packets: {error}"));
    match error.kind() {
        io::ErrorKind::PermissionDenied => refusal.hint(
            "run it as root, or give the program CAP_NET_RAW (setcap cap_net_raw+ep); or capture with tcpdump, and read that file with --from-pcap",
        ),
        _ => refusal,
    }
}
