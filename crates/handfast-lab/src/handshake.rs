//! The cost of a handshake on a long path: each kind of it, with several servers, its round trips counted from packets.
//!
//! In: how long the path is, and which servers. Out: a [`Report`](report::Report). The client is the load tester's; servers are
//! this program's proxy, and others where they are installed, each with the same certificates, on the other side of an emulated link.
//!
//! `count.rs` explains how round trips are counted.

use std::sync::mpsc::{Receiver, sync_channel};

use handfast_net::clock::Moment;
use handfast_tls::client::{Client, ClientSettings, Verification};

use crate::error::LabError;
use crate::forwarder::{Forwarder, Sighting, Watch};
use crate::namespace::Inside;
use crate::network::{Make, Network};
use crate::plan::{LinkWords, Plan};

mod certificates;
mod client;
mod count;
mod html;
mod origin;
mod page;
pub mod report;
mod servers;
mod settings;

use client::{MeasurementError, Times};
use count::Packets;
use report::{PageRow, Report, Row, ServerReport};
use servers::{Running, Variant};
pub use settings::HandshakeSettings;

/// Segments that a connection has in flight at its start where the initial window is enlarged.
const WIDE: u32 = 30;
/// The kernel's parameter for who decides how much is in flight.
const CONGESTION_CONTROL: &str = "net.ipv4.tcp_congestion_control";
/// Those that send what the window allows at once. BBR spreads it over a part of a round trip, which the table would show as if
/// a side had computed for this duration.
const UNPACED: [&str; 2] = ["cubic", "reno"];
/// Packets of one transaction that may wait to be counted.
const SIGHTINGS: usize = 65_536;

/// Names that [`HandshakeSettings::servers`] may have.
pub fn known_servers() -> impl Iterator<Item = &'static str> {
    servers::ALL.iter().map(|server| server.name)
}

/// The kinds of handshake, in the order of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Tcp,
    Tls12,
    Tls12Resumed,
    Tls13,
    Tls13Resumed,
    EarlyData,
    HelloRetry,
    PostQuantum,
    LongChain,
    LongChainWide,
}

impl Kind {
    const ALL: [Self; 10] = [
        Self::Tcp,
        Self::Tls12,
        Self::Tls12Resumed,
        Self::Tls13,
        Self::Tls13Resumed,
        Self::EarlyData,
        Self::HelloRetry,
        Self::PostQuantum,
        Self::LongChain,
        Self::LongChainWide,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "TCP alone",
            Self::Tls12 => "TLS 1.2, full",
            Self::Tls12Resumed => "TLS 1.2, resumed",
            Self::Tls13 => "TLS 1.3, full",
            Self::Tls13Resumed => "TLS 1.3, resumed",
            Self::EarlyData => "TLS 1.3, resumed, 0-RTT",
            Self::HelloRetry => "TLS 1.3, hello retry",
            Self::PostQuantum => "TLS 1.3, post-quantum hello",
            Self::LongChain => "TLS 1.3, long chain",
            Self::LongChainWide => "TLS 1.3, long chain, initial window 30",
        }
    }

    const fn resumes(self) -> bool {
        matches!(self, Self::Tls12Resumed | Self::Tls13Resumed | Self::EarlyData)
    }

    const fn variant(self) -> Variant {
        match self {
            Self::HelloRetry => Variant::OneGroup,
            Self::LongChain | Self::LongChainWide => Variant::LongChain,
            _ => Variant::Plain,
        }
    }

    fn settings(self) -> ClientSettings {
        let version = if matches!(self, Self::Tls12 | Self::Tls12Resumed) { "1.2" } else { "1.3" };
        let groups: &[&str] = match self {
            // The first one's share is sent, and the server does not take it.
            Self::HelloRetry => &["secp384r1", "X25519"],
            Self::PostQuantum => &["X25519MLKEM768", "X25519"],
            // In TLS 1.2 the curve of the certificate's key has to be among them (RFC 8422 §5.1).
            _ => &["X25519", "secp256r1"],
        };
        ClientSettings {
            versions: vec![version.to_owned()],
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
            server_name: Some(servers::NAME.to_owned()),
            alpn: vec!["http/1.1".to_owned()],
            verification: Verification::Off,
            early_data: self == Self::EarlyData,
            ..ClientSettings::default()
        }
    }
}

/// Makes and measures everything. `progress` receives what is measured next.
///
/// **Errors**: no lab here; a server that does not start; a handshake that fails, with its reason.
pub fn run(
    inside: Inside,
    settings: &HandshakeSettings,
    progress: &mut dyn FnMut(&str),
) -> Result<Report, LabError> {
    let chosen = servers::chosen(&settings.servers)?;
    let words =
        LinkWords { rtt: Some(handfast_text::duration::written(settings.rtt)), ..LinkWords::default() };
    let plan = Plan::of_one_link(&words, None, Some(1))?;
    let mut network = Network::make(inside, &plan, Make::default())?;
    for host in &network.hosts {
        // Metrics that one connection saves about the path would change the next one.
        host.set_parameter("net.ipv4.tcp_no_metrics_save", "1")?;
        // Other networks than the machine's first may have only those that every user is allowed, which is not always cubic.
        let _ = UNPACED.iter().any(|name| host.set_parameter(CONGESTION_CONTROL, name).is_ok());
    }
    let congestion_control = network.hosts[1].parameter(CONGESTION_CONTROL)?;
    crate::names::add(&network.names())?;
    crate::names::own_folder()?;
    certificates::write()?;
    servers::write_body()?;
    network.hosts[1].run(origin::start)?.map_err(LabError::network("start the origin behind the servers"))?;
    let (sightings, seen) = sync_channel(SIGHTINGS);
    let wires = std::mem::take(&mut network.wires);
    let forwarder = Forwarder::start(wires, 1, Some(Watch { sightings }))?;
    let measuring = Measuring { network: &network, seen, settings };
    let mut reports = Vec::new();
    for server in chosen {
        progress(server.name);
        reports.push(measuring.server(server)?);
    }
    let ended = forwarder.stop();
    let late = ended.map(|ended| ended.tallies.iter().flatten().map(|tally| tally.late_packets).sum());
    Ok(Report::new(settings, (network.engine, congestion_control), late.unwrap_or(0), reports))
}

struct Measuring<'a> {
    network: &'a Network,
    seen: Receiver<Sighting>,
    settings: &'a HandshakeSettings,
}

impl Measuring<'_> {
    fn server(&self, server: &'static servers::Server) -> Result<ServerReport, LabError> {
        let running = Running::start(&self.network.hosts[1], server)?;
        let mut rows = Vec::new();
        for kind in Kind::ALL {
            rows.push(self.row(server, kind)?);
        }
        let mut pages = Vec::new();
        if server.keeps_connections {
            for (version, mode) in page::MODES {
                if mode != page::Mode::Http2 || server.http2 {
                    pages.push(self.page(version, mode)?);
                }
            }
        }
        drop(running);
        Ok(ServerReport { name: server.title.to_owned(), version: servers::version(server), rows, pages })
    }

    fn row(&self, server: &'static servers::Server, kind: Kind) -> Result<Row, LabError> {
        if kind == Kind::LongChainWide {
            self.network.widen(1, Some(WIDE))?;
        }
        let row = self.runs(server, kind);
        if kind == Kind::LongChainWide {
            self.network.widen(1, None)?;
        }
        row
    }

    fn runs(&self, server: &servers::Server, kind: Kind) -> Result<Row, LabError> {
        let act = || format!("{} with {}", kind.name(), server.title);
        let client = Client::new(&kind.settings(), servers::NAME).map_err(|failure| LabError::Late {
            what: format!("{}: {failure:?}", act()),
            hint: "this is a fault of the lab".to_owned(),
        })?;
        let to = self.network.address(1, kind.variant().port());
        if kind.resumes() {
            // For its ticket.
            self.one(to, &client, kind, false).map_err(|error| error.into_error(&act()))?;
        }
        let mut rows = Vec::new();
        for _ in 0..self.settings.runs.max(1) {
            let (times, packets) =
                self.one(to, &client, kind, kind.resumes()).map_err(|error| error.into_error(&act()))?;
            rows.push(Row::of(kind.name(), self.settings.rtt, &times, &packets, kind == Kind::EarlyData));
        }
        rows.sort_by(|one, other| one.last_ms().total_cmp(&other.last_ms()));
        Ok(rows.swap_remove(rows.len() / 2))
    }

    fn one(
        &self,
        to: std::net::SocketAddr,
        client: &Client,
        kind: Kind,
        resume: bool,
    ) -> Result<(Times, Packets), MeasurementError> {
        self.forget();
        let (times, line) =
            self.network.hosts[0]
                .run(|| {
                    if kind == Kind::Tcp { client::connect(to) } else { client::transact(to, client, resume) }
                })
                .map_err(MeasurementError::Lab)??;
        // Packets sent at once in response count too; packets of the close do not.
        self.let_pass();
        let packets = Packets::of(self.seen.try_iter(), times.begun, &[times.local], self.settings.rtt);
        drop(line);
        Ok((times, packets))
    }

    fn page(&self, version: &'static str, mode: page::Mode) -> Result<PageRow, LabError> {
        self.forget();
        let to = self.network.address(1, Variant::Plain.port());
        let loaded = self.network.hosts[0].run(|| page::load(to, version, mode))?;
        let loaded = loaded.map_err(|error| error.into_error(&format!("a page with {}", mode.name())))?;
        self.let_pass();
        let packets = Packets::of(self.seen.try_iter(), loaded.begun, &loaded.locals, self.settings.rtt);
        Ok(PageRow::of(version, mode.name(), &loaded, &packets, self.settings.rtt))
    }

    /// Lets a quarter of a round trip pass, up to which packets are counted.
    fn let_pass(&self) {
        let end = Moment::now() + self.settings.rtt / 4;
        let mut left = self.settings.rtt / 4;
        while !left.is_zero() {
            let mut nothing: [rustix::event::PollFd<'_>; 0] = [];
            let _ = rustix::event::poll(&mut nothing, rustix::time::Timespec::try_from(left).ok().as_ref());
            left = end.since(Moment::now());
        }
    }

    /// Drops the sightings of earlier connections.
    fn forget(&self) {
        while self.seen.try_recv().is_ok() {}
    }
}
