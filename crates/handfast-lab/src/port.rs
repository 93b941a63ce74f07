//! One end of a link, as the lab holds it: packets that a host sent are read here, and what is written here reaches the host.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use handfast_net::sys::link::{PacketSocket, Received};

/// Engine that carries packets between a host and the lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// A cable (veth) whose other end the lab listens to with a packet socket. Needs no device, and the kernel notes
    /// when it had each packet.
    Veth,
    /// An interface whose packets are a file (TUN). Needs /dev/net/tun, and no other part of the kernel.
    Tun,
}

impl Engine {
    /// Its word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Veth => "veth",
            Self::Tun => "tun",
        }
    }
}

/// An end of a link.
#[derive(Debug)]
pub enum Port {
    /// Of [`Engine::Veth`].
    Packets(PacketSocket),
    /// Of [`Engine::Tun`].
    Tun(File),
}

impl Port {
    /// Takes the next packet that the host sent; `None` when there is none now.
    ///
    /// **Errors**: ENETDOWN, EIO: the interface is down.
    pub fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        match self {
            Self::Packets(socket) => socket.receive(buffer),
            Self::Tun(file) => match file.read(buffer) {
                Ok(length) => Ok(Some(Received { length, age: Duration::ZERO })),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
                Err(error) => Err(error),
            },
        }
    }

    /// Gives the host a packet.
    ///
    /// **Errors**: of sendto(2) and write(2): too large, no room, interface down.
    pub fn send(&mut self, packet: &[u8]) -> io::Result<()> {
        match self {
            Self::Packets(socket) => socket.send(packet),
            Self::Tun(file) => file.write_all(packet),
        }
    }

    /// Number of packets that the kernel could not keep for us since the last call; a TUN interface counts them as its own.
    pub fn missed(&self) -> u64 {
        match self {
            Self::Packets(socket) => socket.missed(),
            Self::Tun(_) => 0,
        }
    }
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Packets(socket) => socket.as_fd(),
            Self::Tun(file) => file.as_fd(),
        }
    }
}
