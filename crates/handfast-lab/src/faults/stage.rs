//! The scene of one experiment: a proxy on a separate host, clients and a backend on another, a path between them that can
//! fail, and a bystander whose connection must not notice any of it.
//!
//! In: a case and a mode. Out: connections with both ends under control, faults on demand, and at the end what became of it:
//! nothing lost, nothing hung, nothing left behind, one record that tells the truth.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use handfast_tls::client::Client;
use nix::sys::signal::Signal;
use rustix::net::{AddressFamily, SocketType};

use serde_json::Value;

use super::backend::{Backend, Serve};
use super::case::{Case, Setup};
use super::certificates::Certificates;
use super::http;
use super::mode::{Mode, header};
use super::peer::{DEADLINE, Peer, with_deadline};
use super::program::{Program, put, reason};
use super::report::Figures;
use super::resolver::Resolver;
use super::trouble::{Trouble, broken, lab};
use crate::namespace::Inside;
use crate::run::pause;
use crate::sockets::addresses::HERE;
use crate::sockets::place::Place;

/// Where the service under test listens.
pub(super) const SERVICE: SocketAddrV4 = SocketAddrV4::new(HERE, 8443);
/// Where the bystander's service listens.
pub(super) const BYSTANDER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 8444);
/// Ports of the backends.
const BACKEND: u16 = 9000;
const ECHO: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 9001);
/// The metric of connections that have ended.
const CLOSED: &str = "handfast_connections_closed_total";
/// Memory that may be kept after a fault, in KiB: allocators give back late.
const KEPT: u64 = 8 << 10;

/// What all experiments of a run share.
#[derive(Debug)]
pub(super) struct Common {
    pub(super) inside: Inside,
    pub(super) program: PathBuf,
    pub(super) folder: PathBuf,
    pub(super) certificates: Arc<Certificates>,
    /// Whether there is time.
    pub(super) at_length: bool,
}

/// The scene.
pub(super) struct Stage {
    pub(super) mode: Mode,
    // Before the place: its process ends before its network.
    pub(super) program: Option<Program>,
    pub(super) backend: Option<Backend>,
    pub(super) place: Place,
    pub(super) certificates: Arc<Certificates>,
    pub(super) folder: PathBuf,
    pub(super) file: PathBuf,
    /// The client's and the backend's addresses.
    pub(super) client_at: Ipv4Addr,
    pub(super) backend_at: SocketAddrV4,
    pub(super) figures: Figures,
    setup: Setup,
    client: Client,
    pub(super) bystander: Option<Peer>,
    _echo: Backend,
    /// The DNS server, where there is one.
    pub(super) names: Option<Resolver>,
    /// Whether there is time for a fault as long or as often as it really is.
    pub(super) at_length: bool,
    /// Each: reasons, one of which so many records must have.
    expected: Vec<(usize, Vec<&'static str>)>,
    /// Whether every connection has a record that can be read here.
    logged: bool,
}

impl Stage {
    /// Makes it, proves that it works, and notes how much it takes.
    pub(super) fn open(common: &Common, mode: Mode, case: &Case) -> Result<Self, Trouble> {
        let mut place = Place::open(common.inside, None)?;
        let client_at = place.add_peer()?;
        let backend_at = SocketAddrV4::new(place.next_peer()?, BACKEND);
        let folder = common.folder.join(format!("{}-{}", case.name, mode.name()));
        fs::create_dir_all(&folder).map_err(lab("make a folder of the experiment"))?;
        let certificates = Arc::clone(&common.certificates);
        let server = certificates.server()?;
        let listener = place.here(|| TcpListener::bind(ECHO))??;
        let echo = Backend::start(listener, mode, server, Serve::Echo)?;
        let client = certificates.client(None)?;
        let file = common.program.clone();
        let mut stage = Self {
            mode,
            program: None,
            backend: None,
            place,
            certificates,
            folder,
            file,
            client_at,
            backend_at,
            figures: Figures::default(),
            setup: case.setup,
            client,
            bystander: None,
            _echo: echo,
            names: None,
            at_length: common.at_length && mode.is_a_path_of_its_own(),
            expected: Vec::new(),
            logged: case.setup.log == "stdout",
        };
        put(&stage.folder.join("ca.pem"), &stage.certificates.ca)?;
        put(&stage.folder.join("web.pem"), &stage.certificates.web)?;
        put(&stage.folder.join("handfast.toml"), stage.configuration())?;
        stage.open_backend()?;
        Ok(stage)
    }

    /// Starts the program, proves that it serves, and notes what it has open.
    pub(super) fn start(&mut self, output: Option<Stdio>) -> Result<(), Trouble> {
        self.logged &= output.is_none();
        self.program = Some(Program::start(&self.place, &self.file, &self.folder, output)?);
        self.begins()
    }

    /// It runs: proves that it serves, and notes what it has open.
    pub(super) fn begins(&mut self) -> Result<(), Trouble> {
        // The first client and the first look at the admin page open what is opened once.
        self.serve()?;
        self.quiet(0)?;
        let program = self.program()?;
        let (descriptors, memory) = (program.fewest_descriptors(), program.memory());
        self.figures.descriptors_before = descriptors;
        self.figures.memory_before_kib = memory;
        self.bystander = Some(self.bystander_client()?);
        self.echoes()
    }

    /// The text of the configuration.
    pub(super) fn configuration(&self) -> String {
        let Setup { process, globals, service, limits, tables, backend, log } = self.setup;
        let folder = self.folder.display().to_string();
        let (lines, more) = self.mode.service(&folder, self.client_at);
        let backend = if backend.is_empty() {
            format!("\"{}\"", self.backend_at)
        } else {
            backend.replace("BACKEND", &self.backend_at.to_string())
        };
        let fill =
            |text: &str| text.replace("FOLDER", &folder).replace("CLIENT", &self.client_at.to_string());
        let (service, tables, globals) = (fill(service), fill(tables), fill(globals));
        let log = fill(log);
        format!(
            "[process]\nthreads = 2\nwatch-interval = \"1h\"\n{process}\n[access-log]\nto = \"{log}\"\n\
             [admin]\nlisten = \"127.0.0.1:9901\"\n{globals}\n\
             [[service]]\nname = \"case\"\nlisten = \"{SERVICE}\"\nbackend = {backend}\n{lines}{service}\n{more}{tables}\n\
             [service.limits]\n{limits}\n\
             [[service]]\nname = \"bystander\"\nlisten = \"{BYSTANDER}\"\nbackend = \"{ECHO}\"\n{lines}\n{more}\n"
        )
    }

    /// The program; it runs, or this says that it does not.
    pub(super) fn program(&mut self) -> Result<&mut Program, Trouble> {
        self.program.as_mut().ok_or_else(|| Trouble::Lab("the proxy does not run".to_owned()))
    }

    /// The program and the place, for what needs both.
    pub(super) fn both(&mut self) -> Result<(&mut Program, &Place), Trouble> {
        let program =
            self.program.as_mut().ok_or_else(|| Trouble::Lab("the proxy does not run".to_owned()))?;
        Ok((program, &self.place))
    }

    /// The backend.
    pub(super) fn backend(&self) -> Result<&Backend, Trouble> {
        self.backend.as_ref().ok_or_else(|| Trouble::Lab("the backend is closed".to_owned()))
    }

    /// Opens the backend's port.
    pub(super) fn open_backend(&mut self) -> Result<(), Trouble> {
        let address = self.backend_at;
        let listener = self.place.there(|| TcpListener::bind(address))??;
        let server = self.certificates.server()?;
        self.backend = Some(Backend::start(listener, self.mode, server, Serve::Hand)?);
        Ok(())
    }

    /// Writes down that the fault really happened, and how that is known.
    pub(super) fn happened(&mut self, what: impl Into<String>) {
        self.figures.happened = what.into();
    }

    /// A record must have this reason, or one of these: the whole of it, or its end.
    pub(super) fn expect(&mut self, reasons: &[&'static str]) {
        self.expect_of(1, reasons);
    }

    /// So many records, at least, must have one of these.
    pub(super) fn expect_of(&mut self, count: usize, reasons: &[&'static str]) {
        self.expected.push((count, reasons.to_vec()));
    }

    /// A connected socket of the client's.
    pub(super) fn dial(&self) -> Result<TcpStream, Trouble> {
        let from = SocketAddrV4::new(self.client_at, 0);
        let stream = self.place.there(|| dial_from(from, SERVICE))?;
        stream.map_err(|error| Trouble::Broken(format!("client connects: {error}")))
    }

    /// A socket of the client's, about to begin TLS or to say its first byte.
    pub(super) fn ready(&self) -> Result<TcpStream, Trouble> {
        let mut stream = self.dial()?;
        before_tls(self.mode, &mut stream, SERVICE)?;
        Ok(stream)
    }

    /// A client that may send.
    pub(super) fn client(&self) -> Result<Peer, Trouble> {
        self.secured(self.ready()?, false)
    }

    /// A client that may send requests.
    pub(super) fn requester(&self) -> Result<Peer, Trouble> {
        Peer::connect(self.ready()?, &self.client, false)
    }

    /// TLS on a socket, where clients speak it, and what comes before bytes.
    pub(super) fn secured(&self, stream: TcpStream, resume: bool) -> Result<Peer, Trouble> {
        let mut peer = if self.mode.client_tls() {
            Peer::connect(stream, &self.client, resume)?
        } else {
            Peer::plain("client", stream)
        };
        http::upgrade(self.mode, &mut peer)?;
        Ok(peer)
    }

    /// A client about to say hello, and the hello.
    pub(super) fn hello(&self) -> Result<(Peer, Vec<u8>), Trouble> {
        Peer::hello(self.ready()?, &self.client, false)
    }

    /// A client and the backend's end of its connection, after a word each way.
    pub(super) fn pair(&self) -> Result<(Peer, Peer), Trouble> {
        let client = self.client()?;
        self.joined(client)
    }

    /// The backend's end of a client's connection, after a word each way.
    pub(super) fn joined(&self, mut client: Peer) -> Result<(Peer, Peer), Trouble> {
        static ASKED: AtomicUsize = AtomicUsize::new(0);
        let question = format!("question {:08}", ASKED.fetch_add(1, Ordering::Relaxed));
        client.send(question.as_bytes())?;
        let mut backend = loop {
            let mut backend = self.backend()?.next()?;
            // The connection of a client that was given up may have come late.
            let asked = backend.read_exactly(question.len())?;
            if asked == question.as_bytes() {
                break backend;
            }
            if !asked.starts_with(b"question ") {
                return broken("the backend got other bytes than were sent");
            }
        };
        backend.send(b"answer")?;
        client.expect(b"answer")?;
        Ok((client, backend))
    }

    /// A client of the bystander's service.
    pub(super) fn bystander_client(&self) -> Result<Peer, Trouble> {
        let mode = self.mode;
        let client = &self.client;
        let stream = self.place.here(|| TcpStream::connect_timeout(&SocketAddr::V4(BYSTANDER), DEADLINE))?;
        let stream = stream.map_err(|error| Trouble::Broken(format!("bystander connects: {error}")))?;
        bystander(stream, mode, client)
    }

    /// Clients of the bystander's service that have connected and sent nothing yet: they need not be accepted yet.
    pub(super) fn waiting(&self, count: usize) -> Result<Vec<TcpStream>, Trouble> {
        let dial = || TcpStream::connect_timeout(&SocketAddr::V4(BYSTANDER), DEADLINE);
        let streams: Result<Vec<_>, _> = self.place.here(|| (0..count).map(|_| dial()).collect())?;
        streams.map_err(|error| Trouble::Broken(format!("client connects: {error}")))
    }

    /// One of these is served to its end.
    pub(super) fn serve_waiting(&self, stream: TcpStream) -> Result<(), Trouble> {
        let mut peer = bystander(stream, self.mode, &self.client)?;
        peer.send(b"after a while")?;
        peer.expect(b"after a while")?;
        peer.finish();
        peer.hear(DEADLINE).must_be_clean("a client")
    }

    /// The bystander's connection still works.
    pub(super) fn echoes(&mut self) -> Result<(), Trouble> {
        undisturbed(&mut self.bystander)
    }

    /// A new client is served: a word each way, and a clean close on both sides.
    pub(super) fn serve(&self) -> Result<(), Trouble> {
        self.backend()?.forget();
        let (client, backend) = self.pair()?;
        in_order(client, backend)
    }

    /// Ends a connection in order, which both sides and the log have to say.
    pub(super) fn finish(&mut self, client: Peer, backend: Peer) -> Result<(), Trouble> {
        self.expect(&["finished"]);
        in_order(client, backend)
    }

    /// Waits until a fresh client is served; how long that took.
    pub(super) fn recover(&mut self) -> Result<Duration, Trouble> {
        let begun = Instant::now();
        loop {
            match self.serve() {
                Ok(()) => return Ok(begun.elapsed()),
                Err(Trouble::Broken(what)) if begun.elapsed() > DEADLINE => {
                    return broken(format!("no fresh client is served: {what}"));
                }
                Err(Trouble::Broken(_)) => pause(),
                Err(other) => return Err(other),
            }
        }
    }

    /// Waits until so many connections stand and no more.
    pub(super) fn quiet(&mut self, standing: usize) -> Result<(), Trouble> {
        let begun = Instant::now();
        loop {
            if let Some(backend) = self.backend.as_ref().filter(|_| standing == 0) {
                // A connection that no experiment has taken: its client was given up.
                backend.forget();
            }
            let (program, place) = self.both()?;
            let open = program.metric(place, "handfast_connections", "service=")?;
            if open <= standing as f64 + 0.5 {
                return Ok(());
            }
            if begun.elapsed() > DEADLINE {
                return broken(format!("{open} connections stand, expected {standing}"));
            }
            pause();
        }
    }

    /// Waits for a record with one of these reasons.
    pub(super) fn record_of(&mut self, reasons: &[&str]) -> Result<String, Trouble> {
        self.records_of(1, reasons)
    }

    /// Waits for so many; the reason of the first.
    fn records_of(&mut self, count: usize, reasons: &[&str]) -> Result<String, Trouble> {
        let fits = |found: &str| {
            reasons.iter().any(|wanted| {
                found == *wanted || (!wanted.contains('/') && found.ends_with(&format!("/{wanted}")))
            })
        };
        let begun = Instant::now();
        loop {
            let mut found = self.program()?.reasoned().map(reason).filter(|reason| fits(reason));
            let (first, more) = (found.next(), found.count());
            match first {
                Some(first) if more + 1 >= count => return Ok(first),
                _ if begun.elapsed() > DEADLINE => {
                    let (number, wanted) = (more + usize::from(first.is_some()), reasons.join(" or "));
                    return broken(format!("{number} records of {count} say {wanted}"));
                }
                _ => {}
            }
            pause();
        }
    }

    /// Waits until so many connections have a record.
    pub(super) fn recorded(&mut self, count: usize) -> Result<(), Trouble> {
        let begun = Instant::now();
        loop {
            let seen = self.program()?.records().len();
            if seen >= count {
                return Ok(());
            }
            if begun.elapsed() > DEADLINE {
                return broken(format!("{count} connections have {seen} records"));
            }
            pause();
        }
    }

    /// Waits until so many connections have ended for a cause, also those that have no record.
    pub(super) fn closed(&mut self, count: usize, cause: &str) -> Result<(), Trouble> {
        let label = format!("cause=\"{cause}\"");
        let begun = Instant::now();
        loop {
            let (program, place) = self.both()?;
            let closed = program.metric(place, CLOSED, &label)?;
            if closed > count as f64 - 0.5 {
                return Ok(());
            }
            if begun.elapsed() > DEADLINE {
                return broken(format!("{closed} connections of {count} have ended for {cause}"));
            }
            pause();
        }
    }

    /// The reasons of all records, and how many have each.
    pub(super) fn reasons(&mut self) -> String {
        let mut counted: BTreeMap<String, usize> = BTreeMap::new();
        for record in self.program.iter_mut().flat_map(Program::reasoned) {
            *counted.entry(reason(record)).or_default() += 1;
        }
        let words: Vec<_> = counted.iter().map(|(reason, count)| format!("{count} × {reason}")).collect();
        if words.is_empty() { "nothing".to_owned() } else { words.join(", ") }
    }

    /// What every experiment ends with, whatever its fault was.
    pub(super) fn judge(&mut self) -> Result<(), Trouble> {
        if self.program.is_none() {
            return Ok(());
        }
        if let Some(status) = self.program()?.ended() {
            return broken(format!("the proxy has ended with {status}: {}", self.program()?.last_words()));
        }
        self.echoes().inspect_err(|_| self.figures.lost += 1)?;
        let took = self.recover()?;
        self.figures.recovered_ms = Some(took.as_secs_f64() * 1e3);
        self.leave()?;
        self.quiet(0)?;
        self.nothing_is_left()?;
        self.records_are_true()?;
        self.stops()
    }

    /// The bystander goes, in order: what comes now ends the program.
    pub(super) fn leave(&mut self) -> Result<(), Trouble> {
        let Some(mut bystander) = self.bystander.take() else { return Ok(()) };
        bystander.finish();
        let heard = bystander.hear(DEADLINE);
        if heard.is_clean() {
            return Ok(());
        }
        self.figures.lost += 1;
        broken(format!("a bystander closed cleanly, and received {}", heard.says()))
    }

    /// Descriptors and memory are what they were.
    fn nothing_is_left(&mut self) -> Result<(), Trouble> {
        let begun = Instant::now();
        let before = self.figures.descriptors_before;
        loop {
            let now = self.program()?.descriptors();
            self.figures.descriptors_after = now;
            if now <= before {
                break;
            }
            if begun.elapsed() > DEADLINE {
                return broken(format!("{now} descriptors are open, {before} were before"));
            }
            pause();
        }
        let (before, after) = (self.figures.memory_before_kib, self.program()?.memory());
        self.figures.memory_after_kib = after;
        if after > before + KEPT {
            return broken(format!("{after} KiB of memory are in use, {before} KiB were before"));
        }
        Ok(())
    }

    /// Each connection has one record, each fault its true reason, and none a reason that says nothing.
    fn records_are_true(&mut self) -> Result<(), Trouble> {
        if !self.logged {
            return Ok(());
        }
        let mut found = Vec::new();
        for (count, reasons) in std::mem::take(&mut self.expected) {
            found.push(self.records_of(count, &reasons)?);
        }
        self.figures.reasons = found;
        let is_http = self.mode.is_http();
        let (program, place) = self.both()?;
        let begun = Instant::now();
        loop {
            // Each request has a line too, and then a connection that ended cleanly behind its requests has none.
            let failed = |record: &&Value| record["reason"]["failed"] == true;
            let label = if is_http { "failed=\"true\"" } else { "cause=" };
            let closed = program.metric(place, CLOSED, label)?;
            let logged = program.records().iter().filter(|record| !is_http || failed(record)).count();
            let ended = program.metric(place, "handfast_requests_total", "service=")?;
            let requests = program.requests().len();
            if (logged as f64 - closed).abs() < 0.5 && (requests as f64 - ended).abs() < 0.5 {
                break;
            }
            if begun.elapsed() > DEADLINE {
                return broken(format!(
                    "{closed} connections have ended, and {logged} have a record; {ended} requests, and {requests}"
                ));
            }
            pause();
        }
        let empty = program
            .reasoned()
            .map(reason)
            .find(|reason| reason.contains("errno") || reason.ends_with("/internal") || reason.contains('?'));
        match empty {
            Some(reason) => broken(format!("a record has the reason {reason}, which names no cause")),
            None => Ok(()),
        }
    }

    /// It shuts down cleanly on request, and never panicked.
    fn stops(&mut self) -> Result<(), Trouble> {
        self.program()?.signal(Signal::SIGTERM)?;
        let status = self.program()?.wait()?;
        self.never_panicked()?;
        if status.code() != Some(0) {
            return broken(format!("it was stopped, and ended with {status}"));
        }
        Ok(())
    }

    /// Nothing that a peer, a file or a clock does may panic.
    pub(super) fn never_panicked(&mut self) -> Result<(), Trouble> {
        let said = self.program.iter_mut().flat_map(|program| program.said().iter());
        match said.into_iter().find(|line| line.contains("panicked at")) {
            Some(line) => broken(format!("the proxy panicked: {line}")),
            None => Ok(()),
        }
    }
}

/// Closes cleanly, the client first.
pub(super) fn in_order(mut client: Peer, mut backend: Peer) -> Result<(), Trouble> {
    client.finish();
    backend.half()?;
    backend.finish();
    client.hear(DEADLINE).must_be_clean("the client")
}

/// The bystander's connection still works.
pub(super) fn undisturbed(bystander: &mut Option<Peer>) -> Result<(), Trouble> {
    let Some(peer) = bystander else { return Ok(()) };
    let outcome = peer.send(b"undisturbed").and_then(|()| peer.expect(b"undisturbed"));
    outcome.map_err(|trouble| match trouble {
        Trouble::Broken(what) => Trouble::Broken(format!("a bystander's connection was disturbed: {what}")),
        other => other,
    })
}

/// What a client says before TLS, or before its first byte.
pub(super) fn before_tls(mode: Mode, stream: &mut TcpStream, to: SocketAddrV4) -> Result<(), Trouble> {
    let failed = |error: std::io::Error| Trouble::Broken(format!("client, before TLS: {error}"));
    match mode {
        Mode::ProxyIn => stream.write_all(header(to).as_bytes()).map_err(failed),
        Mode::StarttlsIn => {
            line(stream, "220 mail.example")?;
            stream.write_all(b"STARTTLS\r\n").map_err(failed)?;
            line(stream, "220 ")
        }
        _ => Ok(()),
    }
}

/// A client of the bystander's service, on a socket that is connected.
pub(super) fn bystander(mut stream: TcpStream, mode: Mode, client: &Client) -> Result<Peer, Trouble> {
    with_deadline(&stream)?;
    before_tls(mode, &mut stream, BYSTANDER)?;
    let mut peer = if mode.client_tls() {
        Peer::connect(stream, client, false)?
    } else {
        Peer::plain("bystander", stream)
    };
    http::upgrade(mode, &mut peer)?;
    Ok(peer)
}

/// Reads a line, byte by byte, so that nothing behind it is taken.
pub(super) fn line(stream: &mut TcpStream, start: &str) -> Result<(), Trouble> {
    let mut line = Vec::new();
    while !line.ends_with(b"\n") {
        let mut byte = [0];
        match stream.read(&mut byte) {
            Ok(1) => line.push(byte[0]),
            Ok(_) => return broken(format!("it ended while {start:?} was expected")),
            Err(error) => return broken(format!("{start:?} was expected: {error}")),
        }
    }
    let line = String::from_utf8_lossy(&line).into_owned();
    if line.starts_with(start) { Ok(()) } else { broken(format!("expected {start:?}, got {line:?}")) }
}

/// Connects from an address, with deadlines.
pub(super) fn dial_from(from: SocketAddrV4, to: SocketAddrV4) -> std::io::Result<TcpStream> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
    rustix::net::bind(&socket, &SocketAddr::V4(from))?;
    // connect(2) heeds the socket's deadline for sending.
    rustix::net::sockopt::set_socket_timeout(&socket, rustix::net::sockopt::Timeout::Send, Some(DEADLINE))?;
    rustix::net::connect(&socket, &SocketAddr::V4(to))?;
    let stream = TcpStream::from(socket);
    with_deadline(&stream)?;
    Ok(stream)
}
