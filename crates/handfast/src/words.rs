//! The command line, as it is typed.

pub(crate) mod compare;
pub(crate) mod import;
pub(crate) mod doctor;
pub(crate) mod lab;
pub(crate) mod load;
pub(crate) mod log;
#[cfg(test)]
mod pages;
pub(crate) mod probe;
pub(crate) mod proxy_header;
pub(crate) mod running;
pub(crate) mod reference;
pub(crate) mod speed;
pub(crate) mod top;
pub(crate) mod weak_keys;
pub(crate) mod worker;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};

/// TLS proxy and TLS performance tools
#[derive(Debug, Parser)]
#[command(name = "handfast", version, max_term_width = 100, disable_help_subcommand = true)]
pub(crate) struct Words {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

impl Words {
    /// Reads what was typed.
    ///
    /// **Errors**: what clap finds wrong with it; help and version come this way too.
    pub(crate) fn read(typed: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let mut command = Self::command();
        let matches = command.try_get_matches_from_mut(typed)?;
        let mut words = Self::from_arg_matches(&matches)?;
        if let (Verb::Load(load), Some((name, matches))) = (&mut words.verb, matches.subcommand()) {
            let command = command.find_subcommand(name);
            load.against_replay =
                command.map(|command| load::against_replay(command, matches)).unwrap_or_default();
        }
        Ok(words)
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Serve TLS in front of any TCP service
    ///
    /// With a configuration file (-c), with flags for one service, or with neither: then it listens on 127.0.0.1:8443
    /// and [::1]:8443 with a throwaway certificate and a built-in backend, to try things with.
    ///
    /// Signals: HUP reads configuration and certificates again, USR1 reopens the access log, TERM or INT drains and
    /// stops, a second one stops at once.
    Proxy(ProxyWords),
    /// Check a configuration: everything that is wrong with it, and what it would do
    Check(CheckWords),
    /// Read the access log: failures with their reasons, slow connections, counts and percentiles
    ///
    /// From files (gzip too), standard input, or the file that the configuration names. Each connection is a line; --summary counts
    /// instead. Times are in UTC.
    #[command(after_help = log::AFTER_HELP)]
    Log(log::LogWords),
    /// Write a configuration anew that stunnel, hitch or ghostunnel was run with
    ///
    /// Says on standard error, line by line, what does not mean quite the same any more. Nothing is dialled, and the old
    /// configuration stays as it is. `handfast proxy --stunnel FILE` and `--hitch FILE` do the same at each start and reload.
    #[command(after_help = import::AFTER_HELP)]
    Import(import::ImportWords),
    /// Show a running proxy live in the terminal
    ///
    /// Rates, where the time of handshakes goes, failures by cause, services, backends, certificates and threads, from the admin
    /// address of the proxy. It follows restarts and upgrades of the proxy.
    #[command(after_help = top::AFTER_HELP)]
    Top(top::TopWords),
    /// Have a running proxy read its configuration and certificates again, and report what came of it
    ///
    /// Exit code 0 when all of it took effect, 1 when not, with the problems; then the proxy serves as before.
    Reload(running::RunningWords),
    /// Have a running proxy open its access log again, after a rotation
    Reopen(running::RunningWords),
    /// Have a running proxy accept no more, and return at once; it ends when its connections have, or after process.drain
    Drain(running::RunningWords),
    /// Stop a running proxy: as drain, and wait until it has ended
    Stop(running::RunningWords),
    /// Replace a running proxy by a new process, without a lost connection
    ///
    /// The running process starts its own program again, as it is on disk now, or another one. The new process reads the
    /// configuration, takes over the listening sockets, ticket keys and what is known of backends, and serves; only then the old
    /// one stops to accept, and serves the connections that it has to their end. If anything fails before, the old one
    /// serves on, and this says why. A process that gave up root (`process.user`) cannot start the new one as root: then this command,
    /// called as root, starts its own program with the configuration.
    Upgrade(UpgradeWords),
    /// Put load on a TLS server, and say what the figures are worth
    ///
    /// The standard transaction: connect, handshake, send 4 KiB, receive 4 KiB back, close. For 10 seconds, with 32
    /// connections open at the same time, unless options say otherwise. The report begins with a verdict.
    #[command(after_help = load::AFTER_HELP)]
    Load(Box<load::LoadWords>),
    /// Make load for a `handfast load --workers` on another machine
    ///
    /// Connects to a NATS server and waits for work until it is stopped. `handfast worker setup` writes what a NATS
    /// server needs.
    Worker(worker::WorkerWords),
    /// Show two runs side by side, or say whether two groups of runs differ by more than chance
    ///
    /// A claim takes at least three runs of each side that were made in turn, so that what differs between runs of the same
    /// thing is known. Else the figures are shown side by side.
    #[command(after_help = compare::AFTER_HELP)]
    Compare(compare::CompareWords),
    /// Say where the time of a TLS connection goes, and what would make it shorter
    ///
    /// Makes some full and resumed connections, in turn, and counts round trips, flights and bytes; tells the network's time from the
    /// server's and from its own; says what to change, by gain. Needs no root, and no options.
    #[command(after_help = probe::AFTER_HELP)]
    Probe(Box<probe::ProbeWords>),
    /// Explain a topic that `handfast probe` names
    Explain(probe::ExplainWords),
    /// Say what a PROXY header says, or exactly what is wrong with it
    #[command(after_help = proxy_header::AFTER_HELP)]
    ProxyHeader(proxy_header::ProxyHeaderWords),
    /// Measure what this CPU can do for TLS, and predict handshakes and bytes from it
    ///
    /// Signatures, key exchanges, ciphers and handshakes in memory, on one core and on all, in about twelve seconds; then
    /// what follows from them for a server, with its arithmetic. Needs no options.
    Speed(speed::SpeedWords),
    /// Say what on this machine limits or endangers TLS service, worst first, and the command that changes it
    ///
    /// Source ports and TIME_WAIT, open files, accept queues, SYN cookies, conntrack, memory of TCP, the CPU's instructions, the
    /// clock, the generators of random numbers; each with its number, the arithmetic and what follows. Needs no options.
    #[command(after_help = doctor::AFTER_HELP)]
    Doctor(Box<doctor::DoctorWords>),
    /// Run a command on a network of its own: with a delay, with losses, at a rate
    ///
    /// Makes hosts and a link between them on this machine, for this command alone. Needs no root where user namespaces are
    /// allowed, touches nothing of the machine's own network, and leaves nothing behind.
    #[command(after_help = lab::AFTER_HELP)]
    Lab(Box<lab::LabWords>),
    /// Make lists of keys that are known to others ready for the proxy (`[process] weak-keys`)
    #[command(subcommand)]
    WeakKeys(weak_keys::WeakKeysWords),
    /// Hold private keys for a proxy, which starts this itself (`process.private-keys`)
    #[command(hide = true)]
    KeyProcess(KeyProcessWords),
    /// Print the reference of the configuration file, or of a command, as Markdown
    #[command(hide = true)]
    Reference(reference::ReferenceWords),
}

#[derive(Args, Debug)]
pub(crate) struct ProxyWords {
    #[command(flatten)]
    pub(crate) from: From,
    /// A configuration of stunnel, which is read anew at each reload; see `handfast import`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["hitch", "config", "listen", "backend", "certificate", "key", "admin", "access_log"])]
    pub(crate) stunnel: Option<PathBuf>,
    /// A configuration of hitch, which is read anew at each reload; see `handfast import`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["config", "listen", "backend", "certificate", "key", "admin", "access_log"])]
    pub(crate) hitch: Option<PathBuf>,
    /// Where the certificate of the throwaway CA is written (only without -c and flags)
    #[arg(long, value_name = "FILE", default_value = "handfast-throwaway-ca.pem")]
    pub(crate) ca_file: PathBuf,
    /// Take over from the running process that can be asked at this socket (`process.upgrade-socket`); `handfast upgrade` does this
    #[arg(long, value_name = "SOCKET")]
    pub(crate) take_over: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct KeyProcessWords {
    /// How many channels come with it
    pub(crate) channels: usize,
    /// Start the process that holds the keys, and again when it ends
    #[arg(long)]
    pub(crate) supervise: bool,
}

#[derive(Args, Debug)]
pub(crate) struct UpgradeWords {
    /// The running process's configuration, which says where to ask it (`process.upgrade-socket`)
    #[arg(short, long, value_name = "FILE", default_value = running::CONFIGURATION)]
    pub(crate) config: PathBuf,
    /// Where to ask it, in place of what the configuration says
    #[arg(long, value_name = "SOCKET", conflicts_with = "config")]
    pub(crate) socket: Option<PathBuf>,
    /// Program to replace it by; the running one's own by default, as it is on disk now. Where this command starts it, only root may be
    /// able to change the file
    #[arg(long, value_name = "FILE")]
    pub(crate) program: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct CheckWords {
    #[command(flatten)]
    pub(crate) from: From,
    /// Explain in sentences what it listens on, which certificate serves which names, and where connections go; with HOST, what
    /// becomes of a client that asks for this name (SNI): by which rule, with which certificate, to which backends
    #[arg(long, value_name = "HOST", num_args = 0..=1, value_parser = host_name)]
    #[expect(clippy::option_option, reason = "an option whose value may be left away")]
    pub(crate) explain: Option<Option<String>>,
    /// Check instead whether the proxy that runs with this configuration is ready for clients: ask for /ready at its admin address.
    /// Exit code 0 when it is, 1 when it is not or does not answer
    #[arg(long, conflicts_with = "explain")]
    pub(crate) ready: bool,
}

/// A name as a client would ask for it.
fn host_name(text: &str) -> Result<String, String> {
    let expected =
        || "expected a host name, such as www.example.org, without https:// and without a port".to_owned();
    handfast_config::asked_name(text).ok_or_else(expected)
}

/// Where the configuration comes from.
#[derive(Args, Clone, Debug)]
pub(crate) struct From {
    /// Configuration file
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["listen", "backend", "certificate", "key", "admin", "access_log"])]
    pub(crate) config: Option<PathBuf>,
    /// Address to listen on: 0.0.0.0:8443, [::1]:8443, *:8443, unix:/run/x.sock (may be repeated)
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Vec<String>,
    /// Backend: 127.0.0.1:8080, app.example.org:8080, unix:/run/app.sock (may be repeated)
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) backend: Vec<String>,
    /// Certificate chain in PEM, with or without its key, or a folder of them (may be repeated)
    #[arg(long, value_name = "PATH")]
    pub(crate) certificate: Vec<String>,
    /// Key in PEM, when it is not in the certificate's file
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<String>,
    /// Where metrics and status are served: 127.0.0.1:9901 by default, unix:/run/x.sock, off
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) admin: Option<String>,
    /// Where the access log goes: stdout, off, or a file
    #[arg(long, value_name = "WHERE")]
    pub(crate) access_log: Option<String>,
}
