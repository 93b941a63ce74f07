//! The command line, as it is typed.

pub(crate) mod acme;
pub(crate) mod cache;
pub(crate) mod fleet;
pub(crate) mod fmt;
pub(crate) mod hash_password;
pub(crate) mod choices;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod import;
pub(crate) mod in_place;
pub(crate) mod doctor;
pub(crate) mod lab;
pub(crate) mod load;
pub(crate) mod log;
pub(crate) mod maintenance;
pub(crate) mod package;
pub(crate) mod probe;
pub(crate) mod proxy_header;
pub(crate) mod running;
pub(crate) mod reference;
#[cfg(test)]
mod schemas;
pub(crate) mod speed;
pub(crate) mod top;
pub(crate) mod weak_keys;
pub(crate) mod worker;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, Command, CommandFactory, FromArgMatches, Parser, Subcommand};
use handfast_config::ExplainTarget;

/// TLS proxy and TLS performance tools
#[derive(Debug, Parser)]
#[command(name = "handfast", version, max_term_width = 100, disable_help_subcommand = true)]
pub(crate) struct Words {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

impl Words {
    /// Parses the arguments.
    ///
    /// **Errors**: those of clap, which include the texts of help and version.
    pub(crate) fn read(typed: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let mut command = Self::command();
        let matches =
            command.try_get_matches_from_mut(typed).map_err(|error| naming_config(error, &command))?;
        let mut words = Self::from_arg_matches(&matches)?;
        if let (Verb::Load(load), Some((name, matches))) = (&mut words.verb, matches.subcommand()) {
            let command = command.find_subcommand(name);
            load.against_replay =
                command.map(|command| load::against_replay(command, matches)).unwrap_or_default();
        }
        Ok(words)
    }
}

/// Adds the option's name to the error about a configuration file that was typed without it.
fn naming_config(mut error: clap::Error, command: &Command) -> clap::Error {
    let has_config =
        |command: &Command| command.get_arguments().any(|argument| argument.get_long() == Some("config"));
    let usage = error.get(ContextKind::Usage).map(ToString::to_string).unwrap_or_default();
    let is_for = |command: &&Command| usage.contains(&format!("handfast {} ", command.get_name()));
    let file = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(file)) if !file.starts_with('-') => file.clone(),
        _ => return error,
    };
    if error.kind() == ErrorKind::UnknownArgument
        && command.get_subcommands().find(is_for).is_some_and(has_config)
    {
        let tip = format!("a configuration is named by `-c {file}`");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Serve TLS in front of any TCP service
    ///
    /// With a configuration file (-c), with flags for one service, or with neither: then it listens on 127.0.0.1:8443
    /// and [::1]:8443 with a throwaway certificate and a built-in backend, to try it out.
    ///
    /// Signals: HUP reloads configuration and certificates, USR1 reopens the access log, TERM or INT drains and
    /// stops, a second one stops at once.
    Proxy(ProxyWords),
    /// Check a configuration: report all mistakes, and explain its effect
    Check(CheckWords),
    /// Format configuration files: spaces, indentation and blank lines, with comments and the order of everything kept
    ///
    /// A file is replaced at once, with its mode, and only if it is another text with the same meaning.
    Fmt(fmt::FmtWords),
    /// Print a line for the file of `basic-auth`: a name, and the hash of a password (Argon2id)
    ///
    /// The password is asked for twice on a terminal, which does not show it, or read from standard input.
    #[command(after_help = hash_password::AFTER_HELP)]
    HashPassword(hash_password::HashPasswordWords),
    /// Read the access log: failures with their reasons, slow connections, counts and percentiles
    ///
    /// From files (gzip too), standard input, or the file that the configuration names. Each connection is a line; --summary counts
    /// instead. Times are in UTC.
    #[command(after_help = log::AFTER_HELP)]
    Log(log::LogWords),
    /// Convert a stunnel, hitch, ghostunnel, nginx, HAProxy or Caddy configuration
    ///
    /// Reports each change of meaning as a line on standard error. It connects to nothing, and does not modify the old
    /// configuration. `handfast proxy --stunnel FILE` and `--hitch FILE` convert at each start and reload.
    #[command(after_help = import::AFTER_HELP)]
    Import(import::ImportWords),
    /// Show a running proxy live in the terminal
    ///
    /// Rates, where the time of handshakes goes, failures by cause, services, backends, certificates and threads, from the admin
    /// address of the proxy. It follows restarts and upgrades of the proxy.
    #[command(after_help = top::AFTER_HELP)]
    Top(top::TopWords),
    /// List, renew and revoke the certificates that a proxy orders (ACME)
    #[command(subcommand, after_help = acme::AFTER_HELP)]
    Acme(acme::AcmeWords),
    /// List the machines of a fleet that share ticket keys and certificates, or set up a new one
    #[command(subcommand, after_help = fleet::AFTER_HELP)]
    Fleet(fleet::FleetWords),
    /// List and purge objects in the caches of a running proxy, and show what became of requests
    #[command(subcommand, after_help = cache::AFTER_HELP)]
    Cache(cache::CacheWords),
    /// Answer the requests of a service with 503 while its backends are being worked on, and show which services are in maintenance
    #[command(subcommand, after_help = maintenance::AFTER_HELP)]
    Maintenance(maintenance::MaintenanceWords),
    /// List the open requests of a running proxy, and its clients with most bytes
    ///
    /// Requests are listed with their age and the step that they wait in, the oldest first: what hangs now is at the top. Paths have no
    /// query. `handfast top` shows the same, live.
    Open(running::RunningWords),
    /// Reload the configuration and certificates of a running proxy, and report the result
    ///
    /// Exit code 0 if all of it took effect, otherwise 1, with the problems; then the proxy serves as before.
    Reload(running::RunningWords),
    /// Reopen the access log of a running proxy, after a rotation
    Reopen(running::RunningWords),
    /// Drain a running proxy, and return at once: it accepts no more connections, and ends after the last one or process.drain
    Drain(running::RunningWords),
    /// Stop a running proxy: drain it, and wait until it has ended
    Stop(running::RunningWords),
    /// Replace a running proxy by a new process, without losing connections
    ///
    /// The running process starts its program again, as it is on disk now, or another one. The new process reads the
    /// configuration, takes over the listening sockets, ticket keys and the state of backends, and serves. Only then the old
    /// process stops accepting, and serves its connections to their end. If a step before fails, the old process
    /// continues to serve, and this command reports the reason. A process that gave up root (`process.user`) cannot start the new one as
    /// root: then this command, run as root, starts its own program with the configuration.
    Upgrade(UpgradeWords),
    /// Put load on a TLS server, and judge whether the figures are reliable
    ///
    /// The standard transaction: connect, handshake, send 4 KiB, receive 4 KiB back, close. For 10 seconds, with 32
    /// connections open at the same time, unless options say otherwise. The report begins with a verdict.
    #[command(after_help = load::AFTER_HELP)]
    Load(Box<load::LoadWords>),
    /// Generate load for a `handfast load --workers` on another machine
    ///
    /// Connects to a NATS server and waits for work until it is stopped. `handfast worker setup` writes the configuration of a
    /// NATS server.
    Worker(worker::WorkerWords),
    /// Show two runs side by side, or test whether two groups of runs differ by more than chance
    ///
    /// The test needs at least three runs of each side, made in turn: they show how much runs of the same server
    /// differ. Otherwise the figures are shown side by side.
    #[command(after_help = compare::AFTER_HELP)]
    Compare(compare::CompareWords),
    /// Show where the time of a TLS connection goes, and how to shorten it
    ///
    /// Makes some full and resumed connections, in turn, and counts round trips, flights and bytes. Separates the time of the network, of
    /// the server and of this program, and lists what to change, by gain. Needs neither root nor options.
    #[command(after_help = probe::AFTER_HELP)]
    Probe(Box<probe::ProbeWords>),
    /// Explain a topic that `handfast probe` names
    Explain(probe::ExplainWords),
    /// Explain a PROXY header, or report exactly what is wrong with it
    #[command(after_help = proxy_header::AFTER_HELP)]
    ProxyHeader(proxy_header::ProxyHeaderWords),
    /// Measure the TLS speed of this CPU, and predict handshakes and bytes from it
    ///
    /// Signatures, key exchanges, ciphers and handshakes in memory, on one core and on all, in about twelve seconds; then
    /// predictions for a server, with their arithmetic. Needs no options.
    Speed(speed::SpeedWords),
    /// List what limits or endangers TLS service on this machine, worst first, with the commands to change it
    ///
    /// Source ports and TIME_WAIT, open files, accept queues, SYN cookies, conntrack, memory of TCP, the CPU's instructions, the
    /// clock, the random number generators; each with its number, the arithmetic and the consequence. Needs no options.
    #[command(after_help = doctor::AFTER_HELP)]
    Doctor(Box<doctor::DoctorWords>),
    /// Run a command on an emulated network: with a delay, with losses, at a rate
    ///
    /// Makes hosts and a link between them on this machine, for this command alone. Needs no root where user namespaces are
    /// allowed, does not change the machine's network, and leaves nothing behind.
    #[command(after_help = lab::AFTER_HELP)]
    Lab(Box<lab::LabWords>),
    /// Print the completions of this command line for a shell
    ///
    /// bash: handfast completions bash > /etc/bash_completion.d/handfast; zsh: as _handfast in a folder of fpath; fish: as
    /// ~/.config/fish/completions/handfast.fish. Packages have them already.
    Completions(completions::CompletionsWords),
    /// Prepare lists of compromised keys for the proxy (`[process] weak-keys`)
    #[command(subcommand)]
    WeakKeys(weak_keys::WeakKeysWords),
    /// Hold private keys for a proxy, which starts this itself (`process.private-keys`)
    #[command(hide = true)]
    KeyProcess(KeyProcessWords),
    /// Start programs for a proxy, which starts this itself (`program` of a backend)
    #[command(hide = true)]
    StartPrograms(StartProgramsWords),
    /// Print the reference of the configuration file, or of a command, as Markdown
    #[command(hide = true)]
    Reference(reference::ReferenceWords),
}

#[derive(Args, Debug)]
pub(crate) struct ProxyWords {
    #[command(flatten)]
    pub(crate) from: From,
    #[command(flatten)]
    pub(crate) foreign: Foreign,
    /// File for the certificate of the throwaway CA (only without -c and flags)
    #[arg(long, value_name = "FILE", default_value = "handfast-throwaway-ca.pem")]
    pub(crate) ca_file: PathBuf,
    /// Take over from the running process at this socket (`process.upgrade-socket`); `handfast upgrade` does this
    #[arg(long, value_name = "SOCKET")]
    pub(crate) take_over: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct KeyProcessWords {
    /// The number of channels that it inherits
    pub(crate) channels: usize,
    /// Start the process that holds the keys, and restart it when it ends
    #[arg(long)]
    pub(crate) supervise: bool,
    /// The configuration's file, which it reads for a proxy that has no permission
    #[arg(long, value_name = "FILE")]
    pub(crate) configuration: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct StartProgramsWords {
    /// Number of programs that it receives
    pub(crate) count: usize,
    /// Start the process that starts the programs, and restart it when it ends
    #[arg(long)]
    pub(crate) supervise: bool,
}

#[derive(Args, Debug)]
pub(crate) struct UpgradeWords {
    /// The running process's configuration, which names its socket (`process.upgrade-socket`)
    #[arg(short, long, value_name = "FILE", default_value = running::CONFIGURATION)]
    pub(crate) config: PathBuf,
    /// Its socket, instead of the one in the configuration
    #[arg(long, value_name = "SOCKET", conflicts_with = "config")]
    pub(crate) socket: Option<PathBuf>,
    /// Program to start; by default that of the running process, as it is on disk now. If this command starts it, the file must be
    /// writable by root only
    #[arg(long, value_name = "FILE")]
    pub(crate) program: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct CheckWords {
    #[command(flatten)]
    pub(crate) from: From,
    #[command(flatten)]
    pub(crate) foreign: Foreign,
    /// Explain in sentences what it listens on, which certificate serves which names, and where connections go; with HOST, how it
    /// serves a client that requests this name (SNI): by which rule, with which certificate, to which backends; with a URL, such as
    /// https://www.example.org/path or "POST https://www.example.org/path", also which route its request takes, with the conditions, limits
    /// and cache of the route, and which fields backends receive
    #[arg(long, value_name = "HOST", num_args = 0..=1)]
    #[expect(clippy::option_option, reason = "an option whose value may be left away")]
    pub(crate) explain: Option<Option<ExplainTarget>>,
    /// Fail if there is a warning: exit code 2
    #[arg(long)]
    pub(crate) strict: bool,
    /// Check instead whether the proxy that runs with this configuration is ready for clients: request /ready at its admin address.
    /// Exit code 0 if it is ready, 1 if it is not or does not answer
    #[arg(long, conflicts_with = "explain")]
    pub(crate) ready: bool,
}

/// The configuration of another program.
#[derive(Args, Clone, Debug)]
pub(crate) struct Foreign {
    /// A stunnel configuration, which is converted at each start and reload; see `handfast import`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["hitch", "config", "listen", "backend", "certificate", "key", "admin", "access_log"])]
    pub(crate) stunnel: Option<PathBuf>,
    /// A hitch configuration, which is converted at each start and reload; see `handfast import`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["config", "listen", "backend", "certificate", "key", "admin", "access_log"])]
    pub(crate) hitch: Option<PathBuf>,
    /// An option of hitch's command line, which follows those of the file
    #[arg(long, value_name = "NAME=VALUE", requires = "hitch", value_parser = in_place::option, hide = true)]
    pub(crate) hitch_option: Vec<(String, String)>,
}

/// The source of the configuration.
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
    /// Address of metrics and status: 127.0.0.1:7643 by default, unix:/run/x.sock, off
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) admin: Option<String>,
    /// Destination of the access log: stdout, off, or a file
    #[arg(long, value_name = "WHERE")]
    pub(crate) access_log: Option<String>,
}
