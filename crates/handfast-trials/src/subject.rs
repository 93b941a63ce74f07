//! Adapters: the way in which a program under test is configured for a mode, started, reloaded and stopped, and its settings.
//!
//! In: a [`Scene`]. Out: the text of a configuration, command lines, signals. An adapter is data; `program` runs it, `subjects` has all.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use handfast_lab::namespace::plain;
use rustix::process::Signal;

use crate::mode::Mode;
use crate::setup::Setup;

/// A program under test.
#[derive(Debug)]
pub struct Subject {
    /// The word for it on the command line.
    pub name: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// The names of its program, the first that is installed counts.
    pub(crate) files: &'static [&'static str],
    /// The argument that makes it print its version.
    pub(crate) version: &'static str,
    /// The name of its configuration in the folder of an experiment.
    pub(crate) file: &'static str,
    /// Modes that it has between a client and a backend.
    pub(crate) modes: &'static [Mode],
    /// The limits that it has settings for, by the names that Handfast has for them.
    pub(crate) settings: &'static [&'static str],
    /// The text of its configuration.
    pub(crate) configuration: fn(&Scene<'_>) -> String,
    /// A line that its configuration must not have.
    pub(crate) unknown_line: &'static str,
    /// Its arguments, given the path of the configuration.
    pub(crate) words: fn(&str) -> Vec<String>,
    /// The arguments that make it only check the configuration, if it can.
    pub(crate) check: Option<fn(&str) -> Vec<String>>,
    /// Signal that makes it read its configuration again.
    pub(crate) reload: Signal,
    /// Signal that makes it stop as soon as its connections have ended, if there is one.
    pub(crate) drain: Option<Signal>,
    /// True if its log is judged: each connection's record and its cause, counters, messages.
    pub(crate) is_logged: bool,
    /// True if it ends its direction of TLS with close_notify. Where it does not, its clean end is that of a cut connection; this is judged
    /// in the cases about ends, and tolerated where a case is about something else.
    pub(crate) sends_close_notify: bool,
    /// True if one process can serve two services with a backend each, so that a bystander can be beside the case.
    pub(crate) has_bystander: bool,
}

/// Input for a configuration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scene<'a> {
    pub(crate) mode: Mode,
    /// The folder with `web.pem` and `ca.pem`.
    pub(crate) folder: &'a str,
    /// The address of clients.
    pub(crate) client: Ipv4Addr,
    /// The backend of the service under test.
    pub(crate) backend: SocketAddrV4,
    pub(crate) setup: &'a Setup,
}

impl Scene<'_> {
    /// A limit of the case.
    pub(crate) fn limit(&self, name: &str) -> Option<Duration> {
        self.setup.limit(name)
    }

    /// A limit in whole seconds, or another one.
    pub(crate) fn seconds(&self, name: &str, usual: u64) -> u64 {
        self.limit(name).map_or(usual, |limit| limit.as_secs().max(1))
    }

    /// The addresses of the case's backends.
    pub(crate) fn backends(&self) -> Vec<String> {
        let backend = self.backend.to_string();
        if self.setup.backend.is_empty() {
            return vec![backend];
        }
        let quoted = self.setup.backend.split('"').skip(1).step_by(2);
        quoted.map(|address| address.replace("BACKEND", &backend)).collect()
    }
}

impl Subject {
    /// The path of its program. Administrators' programs are not on the PATH of every user.
    pub fn installed(&self) -> Option<PathBuf> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let also = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
        let folders: Vec<PathBuf> = std::env::split_paths(&path).chain(also).collect();
        let files = self.files.iter().flat_map(|file| folders.iter().map(move |folder| folder.join(file)));
        files.into_iter().find(|file| file.is_file())
    }

    /// Its version, as it prints it, in a line.
    pub(crate) fn version(&self, program: &Path) -> String {
        let mut command = Command::new(program);
        let output = plain(command.arg(self.version).stdin(Stdio::null())).output();
        let printed = output.map(|output| [output.stdout, output.stderr].concat()).unwrap_or_default();
        let printed = String::from_utf8_lossy(&printed).into_owned();
        let with_digits = |line: &&str| line.contains(|letter: char| letter.is_ascii_digit());
        let line = printed.lines().find(with_digits).unwrap_or_default();
        handfast_text::units::plain(line.split(" - http").next().unwrap_or_default().trim())
    }
}

/// A limit in milliseconds, with the unit as haproxy and nginx write it.
pub(crate) fn milliseconds(limit: Duration) -> String {
    format!("{}ms", limit.as_millis())
}
