//! The command line of `handfast lab`, as it is typed.

pub(crate) mod sockets;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// Text at the end of `--help`.
pub(crate) const AFTER_HELP: &str = "\
COMMAND runs on the host `client`. --server starts another command on the host `server`, at the other end of the link, waits
until it listens, and ends it when COMMAND has ended. Both names can be used as addresses (IPv4; client6 and server6 are those
of IPv6). COMMAND has the standard input and
output; the server's output, and the report, go to standard error.

Within a lab, a lab without --server adds its link in front of the existing ones:
  handfast lab --rtt 40ms --server 'nginx -c /tmp/n.conf' -- handfast lab --loss 1% -- curl https://server:8443/

A file for --topology:
  client = \"laptop\"                  # where COMMAND runs [default: the first host]
  [[link]]
  between = [\"laptop\", \"router\"]    # links define the hosts
  rtt = \"20ms\"                       # also jitter, loss, rate, reorder, queue, mtu
  rate = \"50mbit\"
  back = { rate = \"5mbit\" }          # the way back, where it differs: delay, jitter, loss, rate, reorder, queue
  [[link]]
  between = [\"router\", \"web\"]
  rtt = \"100ms\"
  [[server]]
  host = \"web\"
  run = \"nginx -c /tmp/nginx.conf\"
  port = 8443

`handfast lab sockets` measures the errors of sockets when connections break; see its --help.

Exit codes: that of COMMAND; 125 the lab failed, 126 COMMAND cannot be run, 127 COMMAND was not found, 2 wrong use.

Examples:
  handfast lab --rtt 114ms --server 'openssl s_server -accept 8443 -cert c.pem -key k.pem -www' -- \\
    curl --cacert c.pem https://server:8443/
  handfast lab --rtt 40ms --jitter 5ms --loss 1% --rate 20mbit -- ping -c 5 server
  handfast lab --topology net.toml --capture run.pcapng --json run.json -- ./test.sh";

/// `handfast lab`.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct LabWords {
    #[command(subcommand)]
    pub(crate) experiment: Option<Experiment>,
    /// Round-trip time between client and server: 114ms [default: no delay]
    #[arg(long, value_name = "TIME")]
    pub(crate) rtt: Option<String>,
    /// Variation of the delay in each direction, uniformly in both senses; packets keep their order
    #[arg(long, value_name = "TIME")]
    pub(crate) jitter: Option<String>,
    /// Share of packets lost in each direction: 1% or 0.01
    #[arg(long, value_name = "SHARE")]
    pub(crate) loss: Option<String>,
    /// Bits a second in each direction, counted from the IP header on: 20mbit, 512kbit, 1gbit [default: no limit]
    #[arg(long, value_name = "RATE")]
    pub(crate) rate: Option<String>,
    /// Share of packets held back in each direction, by a quarter of its delay and at least 1 ms, so that others overtake them
    #[arg(long, value_name = "SHARE")]
    pub(crate) reorder: Option<String>,
    /// Largest packet, in bytes [default: 1500]
    #[arg(long, value_name = "BYTES")]
    pub(crate) mtu: Option<String>,
    /// Size of the queue with --rate: packets such as 100, or bytes such as 64KiB; further packets are dropped
    /// [default: 100]
    #[arg(long, value_name = "SIZE")]
    pub(crate) queue: Option<String>,
    /// Any network, from a file in TOML (see below)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["rtt", "jitter", "loss", "rate", "reorder", "mtu", "queue", "server"])]
    pub(crate) topology: Option<PathBuf>,
    /// Seed of everything random, to repeat a run [default: random, and in the report]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Command on the other side, in quotation marks; a shell runs it
    #[arg(long, value_name = "COMMAND")]
    pub(crate) server: Option<String>,
    /// TCP port of --server to wait for [default: the first port that it listens on]
    #[arg(long, value_name = "PORT", requires = "server")]
    pub(crate) server_port: Option<u16>,
    /// Timeout until a server listens
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub(crate) server_timeout: String,
    /// Technique to carry packets: veth or tun [default: the first that works here, veth before tun]
    #[arg(long, value_name = "ENGINE")]
    pub(crate) engine: Option<EngineWord>,
    /// Capture every packet at both ends in a file for Wireshark, with the TLS secrets of programs that support
    /// SSLKEYLOGFILE
    #[arg(long, value_name = "FILE")]
    pub(crate) capture: Option<PathBuf>,
    /// Write what the network did as JSON; - for standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Do not print the report
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Command on the client, and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// The lab's own experiments, instead of a command.
#[derive(Debug, Subcommand)]
pub(crate) enum Experiment {
    /// Measure the errors of sockets on this kernel when connections break
    ///
    /// Some sixty events (the peer closes, resets, vanishes, does not read; ICMP errors; an interface, a route or a socket
    /// is removed; backlog, files and ports run out) during connect, accept, read, write, shutdown, close and poll: the result of each
    /// call, SO_ERROR, poll bits, the state by TCP_INFO, the error queue, the time until it is detected, and the cause that Handfast
    /// reports. Takes some ten seconds.
    #[command(after_help = sockets::AFTER_HELP)]
    Sockets(sockets::SocketsWords),
    /// Measure the cost of each kind of handshake on a long path, with every installed server
    ///
    /// TCP alone, TLS 1.2 and 1.3 full and resumed, 0-RTT, hello retry, a post-quantum hello, a chain that does not fit the first
    /// flight; and ten resources over one or several connections. Round trips are counted from packets.
    #[command(after_help = HANDSHAKE_AFTER_HELP)]
    Handshake(HandshakeWords),
}

/// Text at the end of `handfast lab handshake --help`.
const HANDSHAKE_AFTER_HELP: &str = "\
Servers: handfast (this program), nginx, haproxy, stunnel4, openssl.

Exit codes: 0 measured, 125 the lab failed or a handshake did, 2 wrong use.

Examples:
  handfast lab handshake
  handfast lab handshake --rtt 20ms --server handfast --server nginx --html handshake.html";

/// `handfast lab handshake`.
#[derive(Args, Debug)]
pub(crate) struct HandshakeWords {
    /// Round-trip time to the server
    #[arg(long, value_name = "TIME", default_value = "114ms")]
    pub(crate) rtt: String,
    /// Repetitions of each handshake; the median is shown
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(crate) runs: usize,
    /// Measure with this server (may be repeated) [default: all that are installed]
    #[arg(long, value_name = "NAME")]
    pub(crate) server: Vec<String>,
    /// Write everything as JSON; - for standard output, and the text then goes to standard error
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write one page with waterfalls that needs no network
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

/// Words of [`handfast_lab::port::Engine`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EngineWord {
    /// A cable, and a packet socket at its end
    Veth,
    /// An interface behind /dev/net/tun
    Tun,
}

#[cfg(test)]
mod tests {
    use crate::words::{Verb, Words};

    fn read(typed: &[&str]) -> Option<(Option<String>, Vec<String>, Option<String>)> {
        let words = Words::read(typed.iter().map(Into::into)).ok()?;
        let Verb::Lab(lab) = words.verb else { return None };
        let command = lab.command.iter().map(|word| word.to_string_lossy().into_owned());
        Some((lab.server.clone(), command.collect(), lab.rtt))
    }

    #[test]
    fn both_commands_keep_their_own_options() {
        let client = ["curl", "-q", "--rtt", "x", "--", "y"].map(str::to_owned).to_vec();
        let server = "openssl s_server -www";
        let lab = ["handfast", "lab", "--server", server, "--rtt", "5ms", "--"];
        let typed = [&lab[..], &["curl", "-q", "--rtt", "x", "--", "y"]].concat();
        assert_eq!(read(&typed), Some((Some(server.to_owned()), client, Some("5ms".to_owned()))));
        // A server in several words has no defined end.
        assert_eq!(read(&["handfast", "lab", "--server", "nginx", "-c", "x", "--", "curl"]), None);
        assert_eq!(read(&["handfast", "lab", "--rtt", "5ms"]), None);
    }
}
