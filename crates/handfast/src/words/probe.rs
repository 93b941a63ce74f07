//! The command line of `handfast probe` and `handfast explain`, as it is typed.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// The end of `handfast probe --help`.
pub(crate) const AFTER_HELP: &str = "\
For a URL, each connection requests its path by HTTP/1.1; for HOST:PORT there is only TLS. Several targets have a report each; with
--file, a line each.

Bounds for --max: [resumed.]FIGURE[.STATISTIC]=TIME. Figures: namelookup, connect, appconnect, pretransfer, starttransfer, total (as
curl has them), handshake, server, rtt. Statistics: min, p50 (the default), p95, max.

Exit codes: 0 measured; 1 a target could not be measured, or its certificate is not trusted (--insecure: not verified); 2 wrong use;
4 a bound of --max is missed.

Examples:
  handfast probe www.example.org
  handfast probe https://www.example.org/ --runs 20 --html report.html --max appconnect=60ms
  handfast probe --starttls smtp mail.example.org:587
  handfast probe 10.0.0.7:8443 --sni app.example.org --ca company-ca.pem
  tcpdump -c 500 -w - tcp port 443 | handfast probe --from-pcap -
  handfast lab --rtt 114ms --server 'nginx -c /tmp/n.conf' -- handfast probe --insecure server:8443";

/// `handfast probe`.
#[derive(Args, Debug)]
pub(crate) struct ProbeWords {
    /// HOST, HOST:PORT or https://HOST[:PORT]/PATH (several are measured one after the other)
    #[arg(value_name = "TARGET", required_unless_present_any = ["file", "from_pcap"])]
    pub(crate) targets: Vec<String>,
    /// Analyse a capture instead of measuring (pcap or pcapng; - is standard input). No key is needed
    #[arg(long, value_name = "FILE", conflicts_with_all = ["targets", "file", "html", "max", "page", "pcap", "keep_alive"])]
    pub(crate) from_pcap: Option<PathBuf>,
    /// Also read targets from a file, one on each line; # begins a comment. The result is a line for each
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Connections of each kind: full, resumed
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) runs: u16,
    /// Protocol before TLS: smtp, lmtp, imap, pop3, nntp, ldap, postgresql, mysql, xmpp, xmpp-server
    #[arg(long, value_name = "PROTOCOL")]
    pub(crate) starttls: Option<String>,
    /// Use IPv4 addresses only
    #[arg(short = '4', long, conflicts_with = "v6")]
    pub(crate) v4: bool,
    /// Use IPv6 addresses only
    #[arg(short = '6', long)]
    pub(crate) v6: bool,
    /// Longest time that one step of a connection may take
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub(crate) timeout: String,
    /// Requests on one connection, to test that it is kept (with https://)
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) requests: u32,
    /// Also try early data (0-RTT), with https://. An attacker can replay the request: use it only if a repetition does no harm
    #[arg(long)]
    pub(crate) early_data: bool,
    /// Measure for how long, and for how many requests (1,001 at most), the server keeps a connection, with https://;
    /// each test takes at most this time: 60s
    #[arg(long, value_name = "TIME")]
    pub(crate) keep_alive: Option<String>,
    /// Measure all targets repeatedly, until Ctrl-C, with this pause between two rounds (--watch=SECONDS) [default: 5].
    /// Each round makes three connections to each target, and shows the time of a full handshake
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "5", conflicts_with_all = ["from_pcap", "html", "pcap", "page", "keep_alive", "early_data", "status"])]
    pub(crate) watch: Option<f64>,
    /// Compute the time of a page: 10x40KiB
    #[arg(long, value_name = "RESOURCESxSIZE")]
    pub(crate) page: Option<String>,
    /// The target is a Handfast proxy with this admin address: compare its counters with the measurements here, and show where the time
    /// was spent. http://HOST:PORT/ or unix:/PATH
    #[arg(long, value_name = "URL")]
    pub(crate) status: Option<String>,
    /// Print the whole report instead of one screen: every step and flight, bytes, addresses, all findings and notes
    #[arg(short, long)]
    pub(crate) verbose: bool,
    #[command(flatten)]
    pub(crate) tls: ProbeTlsWords,
    #[command(flatten)]
    pub(crate) output: ProbeOutputWords,
}

/// The TLS offer and its checks.
#[derive(Args, Debug)]
#[command(next_help_heading = "TLS")]
pub(crate) struct ProbeTlsWords {
    /// Versions offered, with commas [default: 1.3,1.2]
    #[arg(long, value_name = "VERSIONS", value_delimiter = ',')]
    pub(crate) tls: Vec<String>,
    /// Cipher suites offered, by their IANA names, best first [default: all that are supported]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) suites: Vec<String>,
    /// Groups of the key exchange, best first; the first one's key share is sent
    /// [default: X25519MLKEM768,X25519,secp256r1,secp384r1]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) groups: Vec<String>,
    /// Name in SNI, which the certificate must have; off sends none [default: the target's name; none for an address]
    #[arg(long, value_name = "NAME")]
    pub(crate) sni: Option<String>,
    /// Application protocols offered (ALPN), with commas [default: h2,http/1.1 on port 443; none elsewhere; https://: http/1.1]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) alpn: Option<Vec<String>>,
    /// Verify the certificate against the authorities in this file, PEM [default: the system's]
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    pub(crate) ca: Option<PathBuf>,
    /// Do not verify the certificate
    #[arg(short = 'k', long)]
    pub(crate) insecure: bool,
    /// Client certificate chain to send, PEM
    #[arg(long, value_name = "FILE")]
    pub(crate) client_certificate: Option<PathBuf>,
    /// Key of --client-certificate, PEM [default: it is in the same file]
    #[arg(long, value_name = "FILE", requires = "client_certificate")]
    pub(crate) client_key: Option<PathBuf>,
}

/// The outputs.
#[derive(Args, Debug)]
#[command(next_help_heading = "Results")]
pub(crate) struct ProbeOutputWords {
    /// Exit with 4 when a figure is above this: appconnect=60ms, resumed.handshake.p95=30ms (may be repeated)
    #[arg(long, value_name = "BOUND")]
    pub(crate) max: Vec<String>,
    /// Format of standard output: text, or curl (the timers, as `curl -w` prints them)
    #[arg(long, value_name = "FORM", default_value = "text")]
    pub(crate) format: Form,
    /// Complete report as JSON, for programs: one object for each target, one on each line for several targets; with --watch a shorter
    /// one for each round; - is standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Capture the packets, with the keys of these sessions, so that Wireshark can decrypt them (pcapng; needs root or
    /// CAP_NET_RAW)
    #[arg(long, value_name = "FILE")]
    pub(crate) pcap: Option<PathBuf>,
    /// A page with a waterfall, for a browser
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

/// Forms of the result on standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// For people.
    Text,
    /// As curl's.
    Curl,
}

/// `handfast explain`.
#[derive(Args, Debug)]
pub(crate) struct ExplainWords {
    /// A topic at the end of an advice, such as rsa, initial-window; without it, all topics
    #[arg(value_name = "TOPIC")]
    pub(crate) topic: Option<String>,
}
