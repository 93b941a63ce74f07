//! The command line of `handfast load`, as it is typed.
//!
//! In: the arguments. Out: [`LoadWords`], in which values are still text: `load/requested_load.rs` parses them all and reports
//! all mistakes together, while clap would stop at the first.

use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command};

use super::choices;

/// The end of `handfast load --help`.
pub(crate) const AFTER_HELP: &str = "\
Exit codes:
  0  the run is valid (TARGET-LIMITED too: that is a finding about the target, not a fault of the run)
  1  it failed: the target does not answer, a file cannot be written
  2  wrong use
  3  the run is not valid: GENERATOR-LIMITED, PORT-LIMITED or ERRORS
  4  a limit (--max, --min, --find-max) was missed, or one was given and the run is TARGET-LIMITED
  5  a worker was lost (also with --on-worker-lost continue)
  130  it was ended by Ctrl-C or INT; 143 by TERM, 129 by HUP (128 and the signal's number, as shells count)
When several apply: 129 to 143 before 5 before 3 before 4.

Ctrl-C ends a run early, with a full report; a second one ends it immediately, without a report.

Examples:
  handfast load localhost:8443                          the standard transaction, repeatedly on 32 connections
  handfast load localhost:8443 --rate 500 -d 30s        500 new connections a second, independent of the target
  handfast load localhost:8443 --rate 0..500@30s,500@2m,500..2000@10s,100@30s
  handfast load localhost:8443 --find-max total.p99=50ms
  handfast load https://localhost:8443/ -c 64 --http 2 --streams 8
  handfast load https://localhost:8443/ --url '9 GET /' --url '1 POST /login' --body @login.json
  handfast load localhost:8443 --mix 'share=80% profile=browser resume=70%' --mix 'share=20% tls=1.2'
  handfast load localhost:8443 --max handshake.p99=20ms --json report.json && echo fast enough
  handfast load 10.0.0.7:8443 --workers nats://10.0.0.1:4222 --machines 4";

/// The options that --replay allows, by the names of the fields.
const WITH_REPLAY: [&str; 20] = [
    "replay",
    "status",
    // Only to restore values that a report omits.
    "header",
    "live_json",
    "metrics",
    "json",
    "csv",
    "csv_latencies",
    "openmetrics",
    "hlog",
    "html",
    "quiet",
    "verbose",
    "workers",
    "machines",
    "fleet",
    "bus_ca",
    "bus_credentials",
    "bus_tls_first",
    "on_worker_lost",
];

/// The given options that --replay reads from its file, as they are typed.
pub(crate) fn against_replay(command: &Command, matches: &ArgMatches) -> Vec<String> {
    let typed = |argument: &&Arg| {
        let id = argument.get_id().as_str();
        // Help and version are not parsed.
        let known = matches.try_contains_id(id).is_ok();
        known && matches.value_source(id) == Some(ValueSource::CommandLine) && !WITH_REPLAY.contains(&id)
    };
    let name = |argument: &Arg| argument.get_long().map_or("target".to_owned(), |long| format!("--{long}"));
    command.get_arguments().filter(typed).map(name).collect()
}

/// `handfast load`.
#[derive(Args, Debug, Default)]
pub(crate) struct LoadWords {
    /// HOST:PORT for TLS alone, https://HOST[:PORT]/PATH for HTTP requests, or http://HOST[:PORT]/PATH for HTTP without TLS
    ///
    /// `doctor` instead of a target checks the bus given with --workers, and reports what is wrong with it.
    #[arg(value_name = "TARGET", required_unless_present = "replay")]
    pub(crate) target: Option<String>,
    /// Another server with the same names, HOST:PORT: connections go to each in turn, and resume sessions of one at any
    /// other (may be repeated)
    #[arg(long, value_name = "TARGET")]
    pub(crate) also: Vec<String>,
    #[command(flatten)]
    pub(crate) work: WorkWords,
    #[command(flatten)]
    pub(crate) model: ModelWords,
    #[command(flatten)]
    pub(crate) tls: TlsWords,
    #[command(flatten)]
    pub(crate) close: CloseWords,
    #[command(flatten)]
    pub(crate) machines: MachineWords,
    #[command(flatten)]
    pub(crate) limits: LimitWords,
    #[command(flatten)]
    pub(crate) output: OutputWords,
    /// The given options that --replay does not allow.
    #[arg(skip)]
    pub(crate) against_replay: Vec<String>,
}

/// Options for the work of a transaction.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Work")]
pub(crate) struct WorkWords {
    /// Bytes to send in each exchange: 4096, 4KiB, 1MiB (k and m mean KiB and MiB) [default: 4KiB]
    #[arg(long, value_name = "SIZE")]
    pub(crate) send: Option<String>,
    /// Bytes to expect back in each exchange [default: as --send]
    #[arg(long, value_name = "SIZE")]
    pub(crate) receive: Option<String>,
    /// Content of the answer: the sent bytes (echo), or any bytes of that length (any) [default: echo when --send and --receive are equal]
    #[arg(long, value_name = "KIND", value_parser = choices::REPLIES, hide_possible_values = true)]
    pub(crate) reply: Option<String>,
    /// Exchanges on one connection before it is closed: a number, or unlimited [default: 1; HTTP: unlimited]
    #[arg(short = 'n', long, value_name = "N")]
    pub(crate) exchanges: Option<String>,
    /// Connect, handshake, close: no application data
    #[arg(long)]
    pub(crate) handshake_only: bool,
    /// Transfer bytes without a pause until the run ends: send, receive or both
    #[arg(long, value_name = "WAY", value_parser = choices::DIRECTIONS, hide_possible_values = true)]
    pub(crate) bulk: Option<String>,
    /// Open --connections, then keep them open without traffic until the run ends
    #[arg(long)]
    pub(crate) idle: bool,
    /// HTTP version of a target that is a URL: 1.1 or 2 [default: 1.1]
    #[arg(long, value_name = "VERSION", value_parser = choices::HTTP_VERSIONS, hide_possible_values = true)]
    pub(crate) http: Option<String>,
    /// HTTP/2: requests in flight on one connection [default: 1]
    #[arg(long, value_name = "N")]
    pub(crate) streams: Option<String>,
    /// Method of HTTP requests [default: GET; with --body: POST]
    #[arg(short = 'X', long, value_name = "METHOD")]
    pub(crate) method: Option<String>,
    /// Header of HTTP requests, `Name: value`, or @FILE with one on each line (may be repeated). Values that may be secret
    /// (authorization, cookie, token and the like in the name) are never in a report
    #[arg(short = 'H', long, value_name = "HEADER")]
    pub(crate) header: Vec<String>,
    /// Body of HTTP requests: a text, or @FILE. It is sent with Content-Length, and without Content-Type unless --header gives
    /// one
    #[arg(long, value_name = "BODY")]
    pub(crate) body: Option<String>,
    /// One of several requests, in turn by their weights: `[WEIGHT] [METHOD] PATH`, or @FILE with one on each line, each
    /// followed by its own headers and its body as @FILE, if any (may be repeated). The target then is https://HOST:PORT/
    #[arg(long, value_name = "REQUEST")]
    pub(crate) url: Vec<String>,
    /// Send the requests of --url in their order on each connection, instead of by weights
    #[arg(long)]
    pub(crate) in_order: bool,
    /// Take a value from the answers of request N of --url (the first, unless given), and put it where later requests have
    /// {NAME} in path, headers or body: NAME=header:X-Token, N:NAME=json:/path/to/value. With --in-order (may be repeated)
    #[arg(long, value_name = "VALUE")]
    pub(crate) take: Vec<String>,
    /// HTTP statuses that are no failure, classes and codes with commas: 2xx,404,429 [default: 2xx,3xx]
    #[arg(long, value_name = "STATUSES")]
    pub(crate) expect: Option<String>,
}

/// Options for the model of the load.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Model")]
pub(crate) struct ModelWords {
    /// Connections open at the same time; each starts its next transaction when the last one has ended. With --rate: the
    /// most in flight [default: 32; with --rate or --find-max: 1024]
    #[arg(short, long, value_name = "N")]
    pub(crate) connections: Option<String>,
    /// Start this many transactions a second, independent of the target; time counts from the intended start. 200..2000
    /// rises evenly over the run. Stages have their lengths, and make the duration together: 0..500@30s,500@2m,2000@10s
    #[arg(short, long, value_name = "RATE")]
    pub(crate) rate: Option<String>,
    /// Spacing of starts at a --rate: poisson (independent, like real clients) or fixed (even)
    /// [default: poisson]
    #[arg(long, value_name = "KIND", value_parser = choices::ARRIVALS, hide_possible_values = true)]
    pub(crate) arrivals: Option<String>,
    /// Pause between the end of a transaction and the next start on its connection, without --rate: 200ms, or 100ms..500ms
    /// for random pauses between the two [default: none]
    #[arg(long, value_name = "TIME")]
    pub(crate) think: Option<String>,
    /// Length of the measured part: 10s, 500ms, 1m30s [default: 10s]
    #[arg(short, long, value_name = "TIME")]
    pub(crate) duration: Option<String>,
    /// Longest time that one connect, handshake or exchange may take before it fails [default: 10s]
    #[arg(long, value_name = "TIME")]
    pub(crate) timeout: Option<String>,
    /// Generator threads on each machine [default: one for each core]
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<String>,
    /// Search for the highest rate at which a bound holds, such as total.p99=50ms or errors=0.5%
    #[arg(long, value_name = "BOUND")]
    pub(crate) find_max: Option<String>,
    /// First rate that --find-max tries [default: 100]
    #[arg(long, value_name = "RATE")]
    pub(crate) find_start: Option<String>,
    /// Length of each step of --find-max [default: 5s]
    #[arg(long, value_name = "TIME")]
    pub(crate) step: Option<String>,
    /// Number of times that --find-max tries each rate; the majority decides [default: 3]
    #[arg(long, value_name = "N")]
    pub(crate) repeats: Option<String>,
    /// Seed of everything random, to repeat a run [default: random, and in the report]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<String>,
}

/// The TLS offer and its checks.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "TLS")]
pub(crate) struct TlsWords {
    /// Versions offered, with commas [default: 1.3,1.2]
    #[arg(long, value_name = "VERSIONS")]
    pub(crate) tls: Option<String>,
    /// Cipher suites offered, by their IANA names, best first [default: all that are supported]
    #[arg(long, value_name = "NAMES")]
    pub(crate) suites: Option<String>,
    /// Groups of the key exchange, best first; the first one's key share is sent
    /// [default: X25519,secp256r1,secp384r1]
    #[arg(long, value_name = "NAMES")]
    pub(crate) groups: Option<String>,
    /// Name in SNI; off sends none; @FILE uses its names in turn, `NAME` or `WEIGHT NAME` on each line. A verified
    /// certificate must have the name that was sent, and the target's when none was
    /// [default: the target's name; none for an address]
    #[arg(long, value_name = "NAME")]
    pub(crate) sni: Option<String>,
    /// Application protocols offered (ALPN), with commas [default: none; HTTP: http/1.1 or h2]
    #[arg(long, value_name = "NAMES")]
    pub(crate) alpn: Option<String>,
    /// Client certificate chain to send, PEM
    #[arg(long, value_name = "FILE")]
    pub(crate) client_certificate: Option<PathBuf>,
    /// Key of --client-certificate, PEM [default: it is in the same file]
    #[arg(long, value_name = "FILE")]
    pub(crate) client_key: Option<PathBuf>,
    /// Verify the target's certificate against the system's authorities [default: not verified]
    #[arg(long)]
    pub(crate) verify: bool,
    /// Verify the target's certificate against the authorities in this file, PEM
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// Share of handshakes that resume an earlier session: 0.7 or 70% [default: 0, all are full]
    #[arg(long, value_name = "SHARE")]
    pub(crate) resume: Option<String>,
    /// Send the request as 0-RTT data where a resumed handshake allows it
    #[arg(long)]
    pub(crate) early_data: bool,
    /// Offer the TLS parameters of such clients, unless other options set them: browser (hybrid post-quantum key share), classic
    /// (X25519), small (one group, one suite), tls12. Versions, groups and size are imitated, the fingerprint is not
    #[arg(long, value_name = "NAME", value_parser = choices::PROFILES, hide_possible_values = true)]
    pub(crate) profile: Option<String>,
    /// One kind of client of several, with its share of the connections: 'share=30 name=old tls=1.2 resume=0', or @FILE
    /// with one on each line (may be repeated). Also profile, suites, groups, sni, alpn, client-certificate, client-key;
    /// missing settings are those of the options
    #[arg(long, value_name = "CLIENT")]
    pub(crate) mix: Vec<String>,
}

/// Options for the end of a connection, and its source address.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Close")]
pub(crate) struct CloseWords {
    /// Side that ends a connection: notify (the generator, with close_notify and FIN), fin (the generator, with FIN only), reset (the generator, with a reset: no TIME_WAIT), server (the target) [default: notify; with http://: fin]
    #[arg(long, value_name = "HOW", value_parser = choices::CLOSES, hide_possible_values = true)]
    pub(crate) close: Option<String>,
    /// Address to connect from; 127.1.0.0/24 means each of its addresses in turn, each with its own ports (may be
    /// repeated) [default: the kernel chooses]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) source: Vec<String>,
}

/// The load generators, and the processes whose CPU time is counted.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Machines")]
pub(crate) struct MachineWords {
    /// NATS server of the workers (start them with `handfast worker`): nats://HOST:PORT or tls://HOST:PORT
    #[arg(long, value_name = "URL")]
    pub(crate) workers: Option<String>,
    /// Number of workers to use [default: 1]
    #[arg(long, value_name = "N")]
    pub(crate) machines: Option<String>,
    #[command(flatten)]
    pub(crate) bus: BusWords,
    /// Reaction to a lost worker: fail (end the run) or continue (with the others, and report the loss) [default: fail]
    #[arg(long, value_name = "WHAT", value_parser = choices::ON_WORKER_LOST, hide_possible_values = true)]
    pub(crate) on_worker_lost: Option<String>,
    /// Count the CPU time of this process of the server and its children (same machine)
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Option<String>,
    /// Count the CPU time of this control group of the server (same machine)
    #[arg(long, value_name = "PATH")]
    pub(crate) cgroup: Option<PathBuf>,
    /// The target is a Handfast proxy with this admin address: compare its counters with the measurements here, and show where
    /// the time was spent. http://HOST:PORT/ or unix:/PATH
    #[arg(long, value_name = "URL")]
    pub(crate) status: Option<String>,
}

/// The connection to the bus; the same for `load` and `worker`.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct BusWords {
    /// Fleet that the workers belong to: several can share one NATS server [default: default]
    #[arg(long, value_name = "NAME")]
    pub(crate) fleet: Option<String>,
    /// Authority of the NATS server's certificate, PEM [default: the system's authorities]
    #[arg(long, value_name = "FILE")]
    pub(crate) bus_ca: Option<PathBuf>,
    /// File with one line, user:password, used to log in at the NATS server [default: those in the URL, if any]
    #[arg(long, value_name = "FILE")]
    pub(crate) bus_credentials: Option<PathBuf>,
    /// Start TLS before the NATS server's greeting: for a server with `handshake_first: true`
    #[arg(long)]
    pub(crate) bus_tls_first: bool,
}

/// The limits.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Limits")]
pub(crate) struct LimitWords {
    /// Exit with 4 when a figure is above this: total.p99=50ms, handshake.mean=5ms, errors=0.1% (may be repeated)
    #[arg(long, value_name = "BOUND")]
    pub(crate) max: Vec<String>,
    /// Exit with 4 when a figure is below this: rate=1000 (may be repeated)
    #[arg(long, value_name = "BOUND")]
    pub(crate) min: Vec<String>,
}

/// The outputs. The report as text goes to standard output.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputWords {
    /// Complete report as JSON, for programs, `handfast compare` and --replay (in all of these options, - is standard output)
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// One line for each second, for spreadsheets
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// One line for each step and percentile, for spreadsheets
    #[arg(long, value_name = "FILE")]
    pub(crate) csv_latencies: Option<PathBuf>,
    /// Metrics as OpenMetrics text, which node_exporter's text-file collector reads too
    #[arg(long, value_name = "FILE")]
    pub(crate) openmetrics: Option<PathBuf>,
    /// HdrHistogram log, for its tools
    #[arg(long, value_name = "FILE")]
    pub(crate) hlog: Option<PathBuf>,
    /// One HTML page with plots, without network access
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// During the run, a line of JSON for each second
    #[arg(long, value_name = "FILE")]
    pub(crate) live_json: Option<PathBuf>,
    /// During the run, serve figures in the OpenMetrics format at http://ADDRESS/metrics, and for `handfast top ADDRESS`:
    /// PORT (on 127.0.0.1) or ADDRESS:PORT
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) metrics: Option<String>,
    /// Print nothing but errors and warnings, on standard error: no progress, no report
    #[arg(short, long, action = ArgAction::SetTrue)]
    pub(crate) quiet: bool,
    /// Print the whole report instead of one screen: what was done, every step, error and count, the generator's own health,
    /// notes, and the command that repeats the run
    #[arg(short, long, action = ArgAction::SetTrue, conflicts_with = "quiet")]
    pub(crate) verbose: bool,
    /// Repeat the run of a JSON report; only options about outputs and workers are allowed with it
    #[arg(long, value_name = "FILE")]
    pub(crate) replay: Option<PathBuf>,
}
