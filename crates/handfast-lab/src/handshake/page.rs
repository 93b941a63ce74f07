//! The page model: ten resources of one server, over one or several connections, one after the other or at once.
//!
//! In: a way to load it. Out: how long it took, and over which connections.

use std::net::SocketAddr;
use std::sync::Arc;

use handfast_leg::blocking::Failed;
use handfast_net::clock::Moment;
use handfast_tls::client::{Client, ClientSettings, Verification};

use super::client::{Connection, MeasurementError, request};
use super::origin::{ACK, DATA, END_HEADERS, END_STREAM, HEADERS, PREFACE, SETTINGS, frame, whole_frame};
use super::servers::NAME;
use crate::error::LabError;
use crate::host::in_a_thread;

/// Resources of a page.
pub(super) const RESOURCES: usize = 10;

/// Way to load a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// A new connection for each resource, one after the other.
    NoKeepAlive,
    /// One connection, one resource after the other.
    KeepAlive,
    /// This number of connections, each of which has its resources one after the other.
    Parallel(usize),
    /// One connection, all resources at once (RFC 9113).
    Http2,
}

/// The versions of TLS and the ways to load a page that are measured.
pub(super) const MODES: [(&str, Mode); 7] = [
    ("1.2", Mode::NoKeepAlive),
    ("1.3", Mode::NoKeepAlive),
    ("1.2", Mode::KeepAlive),
    ("1.3", Mode::KeepAlive),
    ("1.3", Mode::Parallel(2)),
    ("1.3", Mode::Parallel(6)),
    ("1.3", Mode::Http2),
];

impl Mode {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::NoKeepAlive => "a connection for each",
            Self::KeepAlive => "keep-alive",
            Self::Parallel(2) => "2 connections",
            Self::Parallel(_) => "6 connections",
            Self::Http2 => "HTTP/2",
        }
    }
}

/// A loaded page.
pub(super) struct Loaded {
    pub(super) begun: Moment,
    pub(super) ended: Moment,
    /// True if the connections were used one after the other.
    pub(super) in_turn: bool,
    /// Our addresses.
    pub(super) locals: Vec<SocketAddr>,
}

/// Loads a page.
pub(super) fn load(to: SocketAddr, version: &str, mode: Mode) -> Result<Loaded, MeasurementError> {
    let alpn = if mode == Mode::Http2 { "h2" } else { "http/1.1" };
    let settings = ClientSettings {
        versions: vec![version.to_owned()],
        groups: vec!["X25519".to_owned(), "secp256r1".to_owned()],
        server_name: Some(NAME.to_owned()),
        alpn: vec![alpn.to_owned()],
        verification: Verification::Off,
        ..ClientSettings::default()
    };
    let client = Arc::new(Client::new(&settings, NAME).map_err(Failed::session)?);
    let begun = Moment::now();
    let locals = match mode {
        Mode::NoKeepAlive => {
            (0..RESOURCES).map(|_| several(to, &client, 1)).collect::<Result<Vec<_>, _>>()?
        }
        Mode::KeepAlive => vec![several(to, &client, RESOURCES)?],
        Mode::Parallel(connections) => parallel(to, &client, connections)?,
        Mode::Http2 => vec![at_once(to, &client)?],
    };
    Ok(Loaded { begun, ended: Moment::now(), in_turn: mode == Mode::NoKeepAlive, locals })
}

/// Some resources over one connection, one after the other.
fn several(to: SocketAddr, client: &Client, resources: usize) -> Result<SocketAddr, MeasurementError> {
    let mut connection = Connection::open(to, client, false, &request(resources == 1))?;
    connection.response()?;
    for left in (0..resources - 1).rev() {
        connection.send(&request(left == 0))?;
        connection.response()?;
    }
    Ok(connection.times.local)
}

/// Each connection has its share of the resources.
fn parallel(
    to: SocketAddr,
    client: &Arc<Client>,
    connections: usize,
) -> Result<Vec<SocketAddr>, MeasurementError> {
    let share = |number: usize| RESOURCES / connections + usize::from(number < RESOURCES % connections);
    let load = |number: usize| {
        let client = Arc::clone(client);
        in_a_thread("page connection", move || several(to, &client, share(number)))
    };
    let no_thread = |error| MeasurementError::Lab(LabError::command("start a thread")(error));
    std::thread::scope(|scope| {
        let start = |number| std::thread::Builder::new().spawn_scoped(scope, move || load(number));
        let threads: Result<Vec<_>, _> = (0..connections).map(start).collect();
        let ended = threads.map_err(no_thread)?.into_iter().map(|thread| match thread.join() {
            Ok(ended) => ended.map_err(no_thread)?,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        ended.collect()
    })
}

/// All resources over one connection of HTTP/2, asked for at once.
fn at_once(to: SocketAddr, client: &Client) -> Result<SocketAddr, MeasurementError> {
    let mut request = PREFACE.to_vec();
    request.extend(frame(SETTINGS, 0, 0, &[]));
    for number in 0..RESOURCES {
        let stream = u32::try_from(2 * number + 1).unwrap_or(1);
        request.extend(frame(HEADERS, END_HEADERS | END_STREAM, stream, &header_block()));
    }
    let mut connection = Connection::open(to, client, false, &request)?;
    if connection.times.agreed.alpn.as_deref() != Some("h2") {
        return Err(MeasurementError::Answer("the server did not agree on HTTP/2"));
    }
    let mut left = RESOURCES;
    while left > 0 {
        let Some((kind, flags, _, length)) = whole_frame(connection.plaintext().filled()) else {
            let before = connection.plaintext().len();
            connection.read()?;
            if connection.plaintext().len() == before && connection.has_ended() {
                return Err(MeasurementError::Answer(
                    "the server ended the connection before the page was complete",
                ));
            }
            continue;
        };
        connection.plaintext().take(length);
        match kind {
            SETTINGS if flags & ACK == 0 => connection.send(&frame(SETTINGS, ACK, 0, &[]))?,
            DATA | HEADERS if flags & END_STREAM != 0 => left -= 1,
            _ => {}
        }
    }
    Ok(connection.times.local)
}

/// `GET /body` in HPACK (RFC 7541): entries 2 and 7 of the static table, then path and authority as literals.
fn header_block() -> Vec<u8> {
    let mut block = vec![0x82, 0x87];
    for (name, value) in [(0x04, "/body"), (0x01, NAME)] {
        block.push(name);
        block.push(u8::try_from(value.len()).expect("a name of a few letters"));
        block.extend_from_slice(value.as_bytes());
    }
    block
}
