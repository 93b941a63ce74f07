//! The probe's own packets, taken from the network while it measures, and the file that they go to.
//!
//! In: a port, and the secrets of our sessions. Out: pcapng that Wireshark opens decrypted, and the packets of one connection as a table. Needs
//! CAP_NET_RAW. Packets wait in the kernel during a connection, and are read between two: nothing runs during the measurement.

use std::io;
use std::net::SocketAddr;

use handfast_net::sys::link::tap::TapSocket;
use handfast_wire::link::RAW;
use handfast_wire::pcapng;

use crate::capture::{ConnectionReport, PacketRow, watched};

/// Size of the kernel's buffer.
const WAITING: usize = 32 << 20;
/// Maximum size of the stored packets, in bytes: more than a thousand connections.
const MAX_STORED_BYTES: usize = 128 << 20;
/// The largest IP packet, also before a card has cut it.
const MAX_PACKET_BYTES: usize = 256 << 10;

/// A capture that is being made.
#[derive(Debug)]
pub struct Tap {
    socket: Option<TapSocket>,
    port: u16,
    blocks: Vec<u8>,
    buffer: Vec<u8>,
    missed: u64,
}

impl Tap {
    /// Prepares to capture. Earlier packets are kept.
    ///
    /// **Errors**: EPERM without CAP_NET_RAW.
    pub fn open(port: u16) -> io::Result<Self> {
        let socket = Some(TapSocket::open(port, WAITING)?);
        Ok(Self { socket, port, blocks: Vec::new(), buffer: vec![0; MAX_PACKET_BYTES], missed: 0 })
    }

    /// Changes to another port.
    ///
    /// **Errors**: as [`Tap::open`].
    pub fn turn_to(&mut self, port: u16) -> io::Result<()> {
        if port != self.port {
            self.drain();
            self.socket = Some(TapSocket::open(port, WAITING)?);
            self.port = port;
        }
        Ok(())
    }

    /// Takes what has passed so far.
    pub fn drain(&mut self) {
        let Some(socket) = &self.socket else { return };
        // An error is that of an interface which went down: nothing is there.
        while let Ok(Some(passed)) = socket.receive(&mut self.buffer) {
            let bytes = &self.buffer[..passed.length.min(self.buffer.len())];
            if self.blocks.len() + bytes.len() > MAX_STORED_BYTES {
                self.missed += 1;
                continue;
            }
            let direction = if passed.outgoing { 2 } else { 1 };
            self.blocks.extend(pcapng::packet(0, passed.at, direction, bytes, None));
        }
        self.missed += socket.missed();
    }

    /// Packets that did not fit the buffer.
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// The packets of the connection with this address of ours, and what they show.
    pub fn connection(&self, local: SocketAddr) -> Option<(Vec<PacketRow>, ConnectionReport)> {
        watched(&[&head()[..], &self.blocks].concat(), local)
    }

    /// The file, with the secrets of our sessions.
    pub fn file(mut self, secrets: &str) -> Vec<u8> {
        self.drain();
        let mut file = head();
        if !secrets.is_empty() {
            file.extend(pcapng::decryption_secrets(secrets.as_bytes()));
        }
        file.append(&mut self.blocks);
        file
    }
}

fn head() -> Vec<u8> {
    let mut head = pcapng::section("handfast probe");
    head.extend(pcapng::interface(RAW, "any", "all interfaces"));
    head
}
