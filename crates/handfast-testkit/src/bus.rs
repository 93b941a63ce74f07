//! The bus between machines: a separate nats-server for each test, and a client that speaks its protocol by hand, to receive
//! messages without permission and to send invalid ones. In: subjects and bytes. Out: messages, complaints.
//!
//! The protocol is lines of text: docs.nats.io, "NATS Client Protocol".

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use rustls_pki_types::{CertificateDer, ServerName};

use crate::client::dial;
use crate::folder::Folder;
use crate::tools::Tool;

/// The program.
pub const SERVER: &str = "nats-server";

/// A running server; it is killed when this is dropped.
pub struct Bus {
    /// Address that it listens at.
    pub address: SocketAddr,
    server: Option<Tool>,
}

impl Bus {
    /// A server on loopback without authentication.
    pub fn start() -> Self {
        Self::with(&["-a", "127.0.0.1", "-p", "-1"])
    }

    /// A server with these arguments.
    pub fn with(arguments: &[&str]) -> Self {
        let server = Tool::start(SERVER, arguments);
        let listening = |line: &str| line.split_once("client connections on ")?.1.trim().parse().ok();
        let (_, address) = server.talk.find(0, "the address of nats-server", listening);
        server.talk.containing("Server is ready");
        Self { address, server: Some(server) }
    }

    /// Its URL, as on a command line.
    pub fn url(&self) -> String {
        format!("nats://{}", self.address)
    }

    /// Kills it, and waits until it is gone.
    pub fn kill(&mut self) {
        drop(self.server.take());
    }

    /// Starts it again at its address; no client is notified.
    pub fn back(&mut self) {
        let (host, port) = (self.address.ip().to_string(), self.address.port().to_string());
        let address = self.address;
        *self = Self::with(&["-a", &host, "-p", &port]);
        assert_eq!(self.address, address, "the port is the same");
    }
}

trait Stream: Read + Write + Send {}
impl<S: Read + Write + Send> Stream for S {}

/// One message.
#[derive(Clone, Debug)]
pub struct Message {
    /// Subject to which it was published.
    pub subject: String,
    /// Content of the message.
    pub payload: Vec<u8>,
}

impl Message {
    /// Content of the message, as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.payload)
            .unwrap_or_else(|error| panic!("{}: {error}: {}", self.subject, self.payload.escape_ascii()))
    }
}

/// Frames from the server.
enum Frame {
    Message(Message),
    Complaint(String),
    Pong,
}

/// A connection to a server. Every wait has the deadline of its socket.
pub struct Wire {
    stream: BufReader<Box<dyn Stream>>,
    subscriptions: u32,
}

impl Wire {
    /// Without TLS and without a name.
    pub fn to(bus: &Bus) -> Self {
        let mut stream = reach(bus.address);
        greeting(&mut stream);
        Self::log_in(Box::new(stream), r#"{"verbose":false,"pedantic":false}"#)
    }

    /// Over TLS, with the user and the authority that `handfast worker setup` wrote to a folder.
    pub fn as_user(bus: &Bus, folder: &Folder, role: &str) -> Self {
        let read = |name: &str| {
            std::fs::read_to_string(folder.file(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
        };
        let (secret, authority) = (read(&format!("{role}.secret")), read("ca.pem"));
        let (user, password) = secret.trim().split_once(':').expect("one line, user:password");
        let mut stream = reach(bus.address);
        greeting(&mut stream);
        let name = ServerName::from(bus.address.ip());
        let session = ClientConnection::new(trusting(&authority), name).expect("an address is a name");
        let log_in = format!(r#"{{"verbose":false,"pedantic":false,"user":"{user}","pass":"{password}"}}"#);
        Self::log_in(Box::new(StreamOwned::new(session, stream)), &log_in)
    }

    fn log_in(stream: Box<dyn Stream>, how: &str) -> Self {
        let mut wire = Self { stream: BufReader::new(stream), subscriptions: 0 };
        wire.write(format!("CONNECT {how}\r\n").as_bytes());
        assert_eq!(wire.settle().1, [""; 0], "the server takes us");
        wire
    }

    /// Receives everything that is published to subjects like this from here on.
    pub fn subscribe(&mut self, pattern: &str) {
        self.subscriptions += 1;
        self.write(format!("SUB {pattern} {}\r\n", self.subscriptions).as_bytes());
    }

    /// Says something.
    pub fn publish(&mut self, subject: &str, payload: &[u8]) {
        self.send(subject, "", payload);
    }

    /// Says something and waits for the answer.
    pub fn request(&mut self, subject: &str, payload: &[u8]) -> Message {
        let inbox = format!("answers.{}", self.subscriptions);
        self.subscribe(&inbox);
        self.send(subject, &inbox, payload);
        self.message("an answer", |message| (message.subject == inbox).then(|| message.clone()))
    }

    fn send(&mut self, subject: &str, reply: &str, payload: &[u8]) {
        let head = format!("PUB {subject} {reply} {}\r\n", payload.len());
        self.write(&[head.as_bytes(), payload, b"\r\n"].concat());
    }

    /// Waits for a message that `find` makes something of.
    pub fn message<T>(&mut self, what: &str, mut find: impl FnMut(&Message) -> Option<T>) -> T {
        loop {
            if let Frame::Message(message) = self.next(what)
                && let Some(found) = find(&message)
            {
                return found;
            }
        }
    }

    /// Waits until the server has seen to everything that was sent here: messages that came meanwhile, and complaints.
    pub fn settle(&mut self) -> (Vec<Message>, Vec<String>) {
        self.write(b"PING\r\n");
        let (mut messages, mut complaints) = (Vec::new(), Vec::new());
        loop {
            match self.next("an answer to PING") {
                Frame::Message(message) => messages.push(message),
                Frame::Complaint(complaint) => complaints.push(complaint),
                Frame::Pong => return (messages, complaints),
            }
        }
    }

    fn next(&mut self, what: &str) -> Frame {
        loop {
            let mut line = String::new();
            let read = self.stream.read_line(&mut line);
            let length = read.unwrap_or_else(|error| panic!("waited for {what} from nats-server: {error}"));
            assert!(length > 0, "nats-server ended the connection before {what}");
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                ["PING"] => self.write(b"PONG\r\n"),
                ["PONG"] => return Frame::Pong,
                ["-ERR", ..] => return Frame::Complaint(line.trim().to_owned()),
                ["MSG", subject, .., length] => {
                    let length: usize = length.parse().expect("a message says its length");
                    let mut payload = vec![0; length + 2];
                    self.stream.read_exact(&mut payload).expect("a message has its length");
                    payload.truncate(length);
                    return Frame::Message(Message { subject: (*subject).to_owned(), payload });
                }
                _ => {}
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        let stream = self.stream.get_mut();
        let written = stream.write_all(bytes).and_then(|()| stream.flush());
        written.unwrap_or_else(|error| panic!("write to nats-server: {error}"));
    }
}

fn reach(address: SocketAddr) -> TcpStream {
    dial(address).unwrap_or_else(|error| panic!("reach nats-server at {address}: {error}"))
}

/// The first line, read byte by byte: what follows may be TLS.
fn greeting(stream: &mut TcpStream) {
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("nats-server greets");
        line.push(byte[0]);
    }
    assert!(line.starts_with(b"INFO "), "{}", line.escape_ascii());
}

#[expect(
    clippy::disallowed_methods,
    reason = "this client is the tests' own, and shares no policy with the program"
)]
fn trusting(authority: &str) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(authority.as_bytes()).expect("a certificate in PEM");
    roots.add(authority).expect("the authority is well-formed");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder =
        builder.with_safe_default_protocol_versions().expect("the provider has suites for both versions");
    Arc::new(builder.with_root_certificates(roots).with_no_client_auth())
}
