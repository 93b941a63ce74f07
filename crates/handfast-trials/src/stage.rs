//! The scene of one experiment: a proxy on a separate host, clients and a backend on another, a path between them that can
//! fail, and a bystander whose connection must not notice any of it.
//!
//! In: a case and a mode. Out: connections with both ends under control, faults on demand, and at the end the outcome:
//! nothing lost, nothing hung, nothing left behind, one true record.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use handfast_lab::namespace::Inside;
use handfast_lab::sockets::Place;
use handfast_testkit::client::dial_from;
use handfast_testkit::client::with_deadline;
use handfast_testkit::connection::Connection;
use handfast_testkit::deadline::DEADLINE;
use rustls::ClientConfig;

use crate::addresses::{BACKEND_PORT, BYSTANDER, ECHO, SERVICE};
use crate::backend::{Backend, Serve};
use crate::case::Case;
use crate::certificates::{Certificates, NAME};
use crate::error::{CaseError, MustEnd, broken, lab};
use crate::http;
use crate::mode::{Mode, header};
use crate::program::{Launch, Program, put};
use crate::report::Figures;
use crate::resolver::Resolver;
use crate::setup::{Setup, USUAL};
use crate::subject::{Scene, Subject};

/// State that all experiments of a run share.
pub(crate) struct Common {
    pub(crate) inside: Inside,
    pub(crate) folder: PathBuf,
    pub(crate) certificates: Arc<Certificates>,
    /// True if there is time for long faults.
    pub(crate) at_length: bool,
}

/// A program and its adapter.
#[derive(Clone, Debug)]
pub(crate) struct Tested {
    pub(crate) subject: &'static Subject,
    pub(crate) program: PathBuf,
}

/// The scene.
pub(crate) struct Stage {
    pub(crate) mode: Mode,
    pub(crate) subject: &'static Subject,
    // Before the place: its process ends before its network.
    pub(crate) program: Option<Program>,
    pub(crate) backend: Option<Backend>,
    pub(crate) place: Place,
    pub(crate) certificates: Arc<Certificates>,
    pub(crate) folder: PathBuf,
    pub(crate) file: PathBuf,
    /// The client's and the backend's addresses.
    pub(crate) client_at: Ipv4Addr,
    pub(crate) backend_at: SocketAddrV4,
    pub(crate) figures: Figures,
    setup: Setup,
    client: Arc<ClientConfig>,
    /// One that resumes its sessions.
    resuming: Arc<ClientConfig>,
    pub(crate) bystander: Option<Connection>,
    _echo: Backend,
    /// The DNS server, where there is one.
    pub(crate) names: Option<Resolver>,
    /// True if there is time for a fault as long or as often as it really is.
    pub(crate) at_length: bool,
    /// Each: reasons, one of which this number of records must have.
    pub(crate) expected: Vec<(usize, Vec<&'static str>)>,
    /// True if every connection has a record that can be read here.
    pub(crate) logged: bool,
}

impl Stage {
    /// Makes it, proves that it works, and notes how much it takes.
    pub(crate) fn open(common: &Common, tested: &Tested, mode: Mode, case: &Case) -> Result<Self, CaseError> {
        let mut place = Place::open(common.inside, None)?;
        let client_at = place.add_peer()?;
        let backend_at = SocketAddrV4::new(place.next_peer()?, BACKEND_PORT);
        let folder = common.folder.join(format!("{}-{}-{}", tested.subject.name, case.name, mode.name()));
        fs::create_dir_all(&folder).map_err(lab("make a folder of the experiment"))?;
        let certificates = Arc::clone(&common.certificates);
        let server = certificates.server();
        let listener = place.here(|| TcpListener::bind(ECHO))??;
        let echo = Backend::start(listener, mode, server, Serve::Echo)?;
        let (client, resuming) = (certificates.client(), certificates.resuming());
        let file = tested.program.clone();
        let mut stage = Self {
            mode,
            subject: tested.subject,
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
            resuming,
            bystander: None,
            _echo: echo,
            names: None,
            at_length: common.at_length && mode.is_a_path_of_its_own(),
            expected: Vec::new(),
            logged: tested.subject.is_logged && case.setup.log == USUAL.log,
        };
        put(&stage.folder.join("ca.pem"), &stage.certificates.ca)?;
        put(&stage.folder.join("web.pem"), &stage.certificates.web)?;
        put(&stage.configuration_file(), stage.configuration())?;
        stage.check()?;
        stage.open_backend()?;
        Ok(stage)
    }

    /// A program that refuses the configuration of its adapter has broken no promise: the adapter is wrong.
    fn check(&self) -> Result<(), CaseError> {
        let Some(words) = self.subject.check.filter(|_| !self.subject.is_logged) else { return Ok(()) };
        let mut command = Command::new(&self.file);
        command.args(words(&self.configuration_file().display().to_string())).current_dir(&self.folder);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let checked = self.place.spawn_here(&mut command)?.wait_with_output()?;
        let printed = String::from_utf8_lossy(&checked.stderr);
        let printed = printed.trim();
        if checked.status.success() {
            return Ok(());
        }
        Err(CaseError::Lab(format!("{} refuses the configuration: {printed}", self.subject.title)))
    }

    /// Starts the program, proves that it serves, and notes what it has open.
    pub(crate) fn start(&mut self, output: Option<Stdio>) -> Result<(), CaseError> {
        self.logged &= output.is_none();
        self.launch(output)?;
        self.begins()
    }

    /// Starts the program.
    pub(crate) fn launch(&mut self, output: Option<Stdio>) -> Result<(), CaseError> {
        let program = Program::start(&self.place, &self.launched_in(&self.folder), output)?;
        self.program = Some(program);
        Ok(())
    }

    /// The program with the configuration of a folder.
    pub(crate) fn launched_in<'a>(&'a self, folder: &'a Path) -> Launch<'a> {
        Launch { subject: self.subject, program: &self.file, folder }
    }

    /// It runs: proves that it serves, and notes what it has open.
    pub(crate) fn begins(&mut self) -> Result<(), CaseError> {
        // The first client and the first look at the admin page open what is opened once.
        self.serve()?;
        self.quiet(0)?;
        let is_logged = self.subject.is_logged;
        let program = self.program()?;
        let descriptors =
            if is_logged { program.fewest_descriptors() } else { program.settled_descriptors() };
        let memory = program.memory();
        self.figures.descriptors_before = descriptors;
        self.figures.memory_before_kib = memory;
        if self.subject.has_bystander {
            self.bystander = Some(self.bystander_client()?);
        }
        self.echoes()
    }

    /// The text of the configuration.
    pub(crate) fn configuration(&self) -> String {
        (self.subject.configuration)(&Scene {
            mode: self.mode,
            folder: &self.folder.display().to_string(),
            client: self.client_at,
            backend: self.backend_at,
            setup: &self.setup,
        })
    }

    /// The file of the configuration.
    pub(crate) fn configuration_file(&self) -> PathBuf {
        self.folder.join(self.subject.file)
    }

    /// Reloads; whether it took effect, where the program reports that.
    pub(crate) fn reload(&mut self) -> Result<Option<bool>, CaseError> {
        let is_logged = self.subject.is_logged;
        let (program, place) = self.both()?;
        if is_logged { program.reload(place).map(Some) } else { program.reload_unwatched().map(|()| None) }
    }

    /// Asks the program to stop as soon as its connections have ended.
    pub(crate) fn drain(&mut self) -> Result<(), CaseError> {
        let Some(signal) = self.subject.drain else {
            return Err(CaseError::NotPossible(
                "has no signal for a stop that waits for connections".to_owned(),
            ));
        };
        self.program()?.signal(signal)
    }

    /// The program; the error reports that it does not run.
    pub(crate) fn program(&mut self) -> Result<&mut Program, CaseError> {
        self.program.as_mut().ok_or_else(|| CaseError::Lab("the proxy does not run".to_owned()))
    }

    /// The program and the place, for what needs both.
    pub(crate) fn both(&mut self) -> Result<(&mut Program, &Place), CaseError> {
        let program =
            self.program.as_mut().ok_or_else(|| CaseError::Lab("the proxy does not run".to_owned()))?;
        Ok((program, &self.place))
    }

    /// The backend.
    pub(crate) fn backend(&self) -> Result<&Backend, CaseError> {
        self.backend.as_ref().ok_or_else(|| CaseError::Lab("the backend is closed".to_owned()))
    }

    /// Opens the backend's port.
    pub(crate) fn open_backend(&mut self) -> Result<(), CaseError> {
        let address = self.backend_at;
        let listener = self.place.there(|| TcpListener::bind(address))??;
        let server = self.certificates.server();
        self.backend = Some(Backend::start(listener, self.mode, server, Serve::Hand)?);
        Ok(())
    }

    /// Writes down that the fault really happened, and how that is known.
    pub(crate) fn happened(&mut self, what: impl Into<String>) {
        self.figures.happened = what.into();
    }

    /// A record must have this reason, or one of these: the whole of it, or its end.
    pub(crate) fn expect(&mut self, reasons: &[&'static str]) {
        self.expect_of(1, reasons);
    }

    /// This number of records, at least, must have one of these reasons.
    pub(crate) fn expect_of(&mut self, count: usize, reasons: &[&'static str]) {
        self.expected.push((count, reasons.to_vec()));
    }

    /// A connected socket of the client's.
    pub(crate) fn dial(&self) -> Result<TcpStream, CaseError> {
        let from = self.client_at.into();
        let stream = self.place.there(|| dial_from(from, SERVICE.into()))?;
        stream.map_err(|error| CaseError::Broken(format!("client connects: {error}")))
    }

    /// A socket of the client's, about to begin TLS or to send its first byte.
    pub(crate) fn ready(&self) -> Result<TcpStream, CaseError> {
        let mut stream = self.dial()?;
        before_tls(self.mode, &mut stream, SERVICE)?;
        Ok(stream)
    }

    /// A client that may send.
    pub(crate) fn client(&self) -> Result<Connection, CaseError> {
        self.secured(self.ready()?, false)
    }

    /// A client that may send requests.
    pub(crate) fn requester(&self) -> Result<Connection, CaseError> {
        Ok(Connection::connect(self.ready()?, &self.client, NAME)?)
    }

    /// TLS on a socket, where clients speak it, and what comes before bytes.
    pub(crate) fn secured(&self, stream: TcpStream, resume: bool) -> Result<Connection, CaseError> {
        let mut peer = if self.mode.client_tls() {
            Connection::connect(stream, if resume { &self.resuming } else { &self.client }, NAME)?
        } else {
            Connection::plain("client", stream)
        };
        http::upgrade(self.mode, &mut peer)?;
        Ok(peer)
    }

    /// A client about to send its hello, and the hello.
    pub(crate) fn hello(&self) -> Result<(Connection, Vec<u8>), CaseError> {
        Ok(Connection::hello(self.ready()?, &self.client, NAME))
    }

    /// A client and the backend's end of its connection, after a word each way.
    pub(crate) fn pair(&self) -> Result<(Connection, Connection), CaseError> {
        let client = self.client()?;
        self.joined(client)
    }

    /// The backend's end of a client's connection, after a word each way.
    pub(crate) fn joined(&self, mut client: Connection) -> Result<(Connection, Connection), CaseError> {
        static ASKED: AtomicUsize = AtomicUsize::new(0);
        let question = format!("question {:08}", ASKED.fetch_add(1, Ordering::Relaxed));
        client.try_send(question.as_bytes())?;
        let mut backend = loop {
            let mut backend = self.backend()?.next()?;
            // The connection of a client that was given up may have come late.
            let received = backend.try_read_exactly(question.len())?;
            if received == question.as_bytes() {
                break backend;
            }
            if !received.starts_with(b"question ") {
                return broken("the backend got other bytes than were sent");
            }
        };
        backend.try_send(b"answer")?;
        client.expect(b"answer")?;
        Ok((client, backend))
    }

    /// A client of the bystander's service.
    pub(crate) fn bystander_client(&self) -> Result<Connection, CaseError> {
        let mode = self.mode;
        let client = &self.client;
        let stream = self.place.here(|| TcpStream::connect_timeout(&SocketAddr::V4(BYSTANDER), DEADLINE))?;
        let stream = stream.map_err(|error| CaseError::Broken(format!("bystander connects: {error}")))?;
        bystander(stream, mode, client)
    }

    /// Clients of the bystander's service that have connected and sent nothing yet: they need not be accepted yet.
    pub(crate) fn waiting(&self, count: usize) -> Result<Vec<TcpStream>, CaseError> {
        let dial = || TcpStream::connect_timeout(&SocketAddr::V4(BYSTANDER), DEADLINE);
        let streams: Result<Vec<_>, _> = self.place.here(|| (0..count).map(|_| dial()).collect())?;
        streams.map_err(|error| CaseError::Broken(format!("client connects: {error}")))
    }

    /// One of these is served to its end.
    pub(crate) fn serve_waiting(&self, stream: TcpStream) -> Result<(), CaseError> {
        let mut peer = bystander(stream, self.mode, &self.client)?;
        peer.try_send(b"after a while")?;
        peer.expect(b"after a while")?;
        peer.close();
        peer.ends().must_be_clean("a client")
    }

    /// The bystander's connection still works.
    pub(crate) fn echoes(&mut self) -> Result<(), CaseError> {
        undisturbed(&mut self.bystander)
    }

    /// A new client is served: a word each way, and a clean close on both sides.
    pub(crate) fn serve(&self) -> Result<(), CaseError> {
        self.backend()?.forget();
        let (client, backend) = self.pair()?;
        self.in_order(client, backend)
    }

    /// Ends a connection cleanly, which both sides and the log must report.
    pub(crate) fn finish(&mut self, client: Connection, backend: Connection) -> Result<(), CaseError> {
        self.expect(&["finished"]);
        self.in_order(client, backend)
    }

    /// Closes cleanly, the client first.
    pub(crate) fn in_order(&self, mut client: Connection, mut backend: Connection) -> Result<(), CaseError> {
        client.tolerates_fin = !self.subject.sends_close_notify;
        backend.tolerates_fin = client.tolerates_fin;
        client.close();
        backend.read_to_close_notify()?;
        backend.close();
        client.ends().must_be_clean("the client")
    }
}

/// The bystander's connection still works.
pub(crate) fn undisturbed(bystander: &mut Option<Connection>) -> Result<(), CaseError> {
    let Some(peer) = bystander else { return Ok(()) };
    let outcome = peer.try_send(b"undisturbed").and_then(|()| peer.expect(b"undisturbed"));
    outcome.map_err(|what| CaseError::Broken(format!("a bystander's connection was disturbed: {what}")))
}

/// Runs the client's dialogue before TLS, or before its first byte.
pub(crate) fn before_tls(mode: Mode, stream: &mut TcpStream, to: SocketAddrV4) -> Result<(), CaseError> {
    let failed = |error: std::io::Error| CaseError::Broken(format!("client, before TLS: {error}"));
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
pub(crate) fn bystander(
    mut stream: TcpStream,
    mode: Mode,
    client: &Arc<ClientConfig>,
) -> Result<Connection, CaseError> {
    with_deadline(&stream)?;
    before_tls(mode, &mut stream, BYSTANDER)?;
    let mut peer = if mode.client_tls() {
        Connection::connect(stream, client, NAME)?
    } else {
        Connection::plain("bystander", stream)
    };
    http::upgrade(mode, &mut peer)?;
    Ok(peer)
}

/// Reads a line, byte by byte, so that nothing behind it is taken.
pub(crate) fn line(stream: &mut TcpStream, start: &str) -> Result<(), CaseError> {
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
