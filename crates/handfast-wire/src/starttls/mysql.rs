//! MySQL and MariaDB: the server greets with what the client needs to authenticate, then TLS begins, and packets are numbered
//! through both.
//!
//! So a proxy cannot greet a client for a server whose greeting it has not received: the real greeting is passed on ([`Greeting`]), the
//! client's request for TLS is read ([`Greeting::request`]) or sent in its place. If only one side uses TLS, one packet is on one side and
//! not on the other. Every number after it differs by one until the server has accepted or refused the login: [`Login`] relays that part.
//! From then on each command begins at zero, and bytes are bytes.
//!
//! **Source**: MySQL documentation, "Connection Phase" (Protocol::HandshakeV10, SSLRequest, HandshakeResponse41); MariaDB documentation,
//! "Connecting".

use super::inbox::Inbox;
use super::problem::{Problem, quote};
use super::{Progress, UNIT_LIMIT};
use crate::record::ContentType;

/// CLIENT_SSL, CLIENT_PROTOCOL_41 and CLIENT_SECURE_CONNECTION among the capabilities.
const SSL: u32 = 0x0800;
const PROTOCOL_41: u32 = 0x0200;
const SECURE_CONNECTION: u32 = 0x8000;

/// The first byte of TLS.
const HANDSHAKE: u8 = ContentType::HANDSHAKE.0;

/// Bytes before a packet's payload: its length in three, little-endian, and its number.
const HEADER: usize = 4;
/// Payload of a request for TLS.
const REQUEST: usize = 32;

/// Most bytes of a packet while a client logs in: its attributes may take 64 KiB.
pub const LOGIN_LIMIT: usize = 0x1_2000;

/// Bytes of the packet at the front, header included.
fn length(unread: &[u8]) -> Option<usize> {
    let header = unread.first_chunk::<HEADER>()?;
    Some(HEADER + u32::from_le_bytes([header[0], header[1], header[2], 0]) as usize)
}

fn measure(unread: &[u8]) -> Result<Option<usize>, Problem> {
    Ok(length(unread))
}

/// The greeting of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Greeting {
    packet: Vec<u8>,
    /// Position of the lower half of its capabilities.
    capabilities: usize,
}

/// Reads a server's greeting; `None`: it is not whole. Nothing may come behind it: it is the client's turn.
///
/// **Errors**: [`Problem::Refused`] where the server does not serve, [`Problem::Unexpected`] for what is no greeting of version 10.
pub fn greeting(received: &[u8]) -> Result<Option<Greeting>, Problem> {
    let mut inbox = Inbox::default();
    inbox.push(received);
    let greeting = read_greeting(&mut inbox)?;
    if greeting.is_some() {
        inbox.silent()?;
    }
    Ok(greeting)
}

fn read_greeting(inbox: &mut Inbox) -> Result<Option<Greeting>, Problem> {
    let Some(packet) = inbox.packet(measure)? else { return Ok(None) };
    let unexpected = || Problem::unexpected("a MySQL greeting of version 10", &packet);
    let (number, payload) = (packet[3], &packet[HEADER..]);
    if let [0xff, _, _, message @ ..] = payload {
        return Err(Problem::Refused { message: quote(message) });
    }
    let (Some(10), 0) = (payload.first(), number) else { return Err(unexpected()) };
    let version = payload[1..].iter().position(|byte| *byte == 0).ok_or_else(unexpected)?;
    // Version, its end, thread id, eight bytes of the challenge, a filler; two bytes of capabilities must be there.
    let capabilities = HEADER + 1 + version + 1 + 4 + 8 + 1;
    if packet.len() < capabilities + 2 {
        return Err(unexpected());
    }
    Ok(Some(Greeting { packet, capabilities }))
}

/// A client's request for TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The packet.
    pub packet: Vec<u8>,
    /// The beginning of TLS, where it came together with the request: no answer follows, so no client has to wait.
    pub received: Vec<u8>,
}

impl Greeting {
    /// Returns true if the server offers TLS.
    pub fn offers_tls(&self) -> bool {
        self.lower() & SSL as u16 != 0
    }

    fn lower(&self) -> u16 {
        u16::from_le_bytes([self.packet[self.capabilities], self.packet[self.capabilities + 1]])
    }

    /// The packet for a client that is to begin TLS, or is not to.
    pub fn packet(&self, tls: bool) -> Vec<u8> {
        let lower = if tls { self.lower() | SSL as u16 } else { self.lower() & !(SSL as u16) };
        let mut packet = self.packet.clone();
        packet[self.capabilities..self.capabilities + 2].copy_from_slice(&lower.to_le_bytes());
        packet
    }

    /// Reads a client's request for TLS; `None`: it is not whole. A client that logs in without TLS gets the reason in `answer`.
    ///
    /// **Errors**: another message, or bytes behind the request that are not the beginning of TLS.
    pub fn request(received: &[u8], answer: &mut Vec<u8>) -> Result<Option<Request>, Problem> {
        // A handshake record of TLS; a login of 66,326 bytes would begin the same way, and does not exist in practice.
        if matches!(received, [0x16, 3, 1..=4, ..]) {
            return Err(Problem::TlsAtOnce);
        }
        let Some(length) = length(received) else { return Ok(None) };
        let is_login = length > HEADER + REQUEST;
        if length > LOGIN_LIMIT {
            return Err(Problem::UnitTooLong);
        }
        let Some(packet) = received.get(..length.min(UNIT_LIMIT)) else { return Ok(None) };
        let capabilities = packet[HEADER..].first_chunk::<4>().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        if packet[3] != 1 || length < HEADER + REQUEST || capabilities & PROTOCOL_41 == 0 {
            return Err(Problem::unexpected("a request for TLS", packet));
        }
        if is_login || capabilities & SSL == 0 {
            refuse(answer);
            return Err(Problem::Insisted { on: "a login without TLS".into() });
        }
        match &received[length..] {
            rest @ ([] | [HANDSHAKE, ..]) => {
                Ok(Some(Request { packet: packet.to_vec(), received: rest.to_vec() }))
            }
            rest => Err(Problem::Injected { count: rest.len() }),
        }
    }
}

/// ERR of number 2: ER_SECURE_TRANSPORT_REQUIRED.
fn refuse(answer: &mut Vec<u8>) {
    let message = b"#HY000Connections using insecure transport are prohibited: use TLS";
    answer.extend_from_slice(&[(message.len() + 3) as u8, 0, 0, 2, 0xff]);
    answer.extend_from_slice(&3159_u16.to_le_bytes());
    answer.extend_from_slice(message);
}

/// Requests TLS from a server without a login, to see its certificate only.
pub(super) fn request_tls(inbox: &mut Inbox, words: &mut Vec<u8>) -> Result<Progress, Problem> {
    let Some(greeting) = read_greeting(inbox)? else { return Ok(Progress::More) };
    if !greeting.offers_tls() {
        return Err(Problem::NotOffered);
    }
    words.extend_from_slice(&request_for(SSL | PROTOCOL_41 | SECURE_CONNECTION, &[]));
    Ok(Progress::Ready)
}

/// A request for TLS with these capabilities, and what else of a login's first 32 bytes is known.
fn request_for(capabilities: u32, login: &[u8]) -> Vec<u8> {
    let mut packet = vec![REQUEST as u8, 0, 0, 1];
    packet.extend_from_slice(&(capabilities | SSL).to_le_bytes());
    match login.get(4..REQUEST) {
        Some(rest) => packet.extend_from_slice(rest),
        None => {
            // Packets of 16 MiB, UTF-8 (utf8mb4_general_ci).
            packet.extend_from_slice(&0x0100_0000_u32.to_le_bytes());
            packet.push(45);
            packet.extend_from_slice(&[0; 23]);
        }
    }
    packet
}

/// Side of the proxy that uses TLS while a client logs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsSide {
    /// The client's alone: it has sent a request for TLS that the backend must not see.
    Client,
    /// The backend's alone: it is sent one that the client did not send.
    Backend,
}

/// Carries a login between a side with TLS and one without, until the server has decided.
#[derive(Debug)]
pub struct Login {
    tls: TlsSide,
    from_client: Vec<u8>,
    from_backend: Vec<u8>,
    packets: usize,
    begun: bool,
    decided: bool,
}

/// Packets of a login that are carried: a plugin's questions and answers take a few.
const LOGIN_PACKETS: usize = 64;

impl Login {
    /// A login that has not begun.
    pub fn new(tls: TlsSide) -> Self {
        Self {
            tls,
            from_client: Vec::new(),
            from_backend: Vec::new(),
            packets: 0,
            begun: false,
            decided: false,
        }
    }

    /// Returns true if the server has decided: everything after it passes unchanged.
    pub fn is_decided(&self) -> bool {
        self.decided
    }

    /// The request for TLS that a backend is to get for a client that logs in without, once its login has come.
    pub fn request(&self) -> Option<Vec<u8>> {
        let whole = length(&self.from_client).is_some_and(|length| self.from_client.len() >= length);
        let login = self.from_client.get(HEADER..).filter(|login| whole && login.len() >= REQUEST)?;
        let capabilities = login.first_chunk::<4>().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        Some(request_for(capabilities, login))
    }

    /// Takes in bytes of the client without carrying them yet.
    ///
    /// **Errors**: a packet over [`LOGIN_LIMIT`].
    pub fn receive_client(&mut self, bytes: &[u8]) -> Result<(), Problem> {
        self.from_client.extend_from_slice(bytes);
        bound(&self.from_client)
    }

    /// Appends the client's whole packets to `to_backend`.
    ///
    /// **Errors**: what is no packet of a login.
    pub fn carry_client(&mut self, bytes: &[u8], to_backend: &mut Vec<u8>) -> Result<(), Problem> {
        self.receive_client(bytes)?;
        while let Some(mut packet) = self.next(true)? {
            if !self.begun {
                self.begun = true;
                self.mark(&mut packet)?;
            }
            packet[3] = match self.tls {
                TlsSide::Client => packet[3].wrapping_sub(1),
                TlsSide::Backend => packet[3].wrapping_add(1),
            };
            to_backend.extend_from_slice(&packet);
        }
        Ok(())
    }

    /// Appends the server's whole packets to `to_client`; after its decision everything.
    ///
    /// **Errors**: what is no packet of a login.
    pub fn carry_backend(&mut self, bytes: &[u8], to_client: &mut Vec<u8>) -> Result<(), Problem> {
        self.from_backend.extend_from_slice(bytes);
        bound(&self.from_backend)?;
        while !self.decided
            && let Some(mut packet) = self.next(false)?
        {
            packet[3] = match self.tls {
                TlsSide::Client => packet[3].wrapping_add(1),
                TlsSide::Backend => packet[3].wrapping_sub(1),
            };
            // OK or ERR; anything else asks the client for more.
            self.decided = matches!(packet.get(HEADER), Some(0 | 0xff));
            to_client.extend_from_slice(&packet);
        }
        if self.decided {
            to_client.append(&mut self.from_backend);
        }
        Ok(())
    }

    /// Returns the client's bytes after its login: none, unless it does not wait for the decision.
    pub fn into_rest(self) -> Vec<u8> {
        self.from_client
    }

    fn next(&mut self, from_client: bool) -> Result<Option<Vec<u8>>, Problem> {
        let queue = if from_client { &mut self.from_client } else { &mut self.from_backend };
        let Some(length) = length(queue).filter(|length| queue.len() >= *length) else { return Ok(None) };
        self.packets += 1;
        if self.packets > LOGIN_PACKETS {
            return Err(Problem::TooMuch);
        }
        let rest = queue.split_off(length);
        Ok(Some(std::mem::replace(queue, rest)))
    }

    /// Sets or clears the mark of TLS in the client's login, whose capabilities come first.
    fn mark(&self, packet: &mut [u8]) -> Result<(), Problem> {
        let got = quote(packet);
        let Some(capabilities) = packet[HEADER..].first_chunk_mut::<4>() else {
            return Err(Problem::Unexpected { expected: "a login", got });
        };
        let value = u32::from_le_bytes(*capabilities);
        *capabilities = match self.tls {
            TlsSide::Client => value & !SSL,
            TlsSide::Backend => value | SSL,
        }
        .to_le_bytes();
        Ok(())
    }
}

fn bound(queue: &[u8]) -> Result<(), Problem> {
    match length(queue) {
        Some(length) if length > LOGIN_LIMIT => Err(Problem::UnitTooLong),
        _ => Ok(()),
    }
}
