//! Copies of the TCP packets from and to one port, whatever interface they pass.
//!
//! In: a port. Out: packets from their IP header on, with the kernel's time. Needs CAP_NET_RAW; changes nothing that passes.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, OwnedFd};

/// A packet that passed, in the caller's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    /// Its bytes; more than the buffer holds when it was cut.
    pub length: usize,
    /// Time when the kernel had it, in nanoseconds since 1970.
    pub at: u64,
    /// It was sent by this machine.
    pub outgoing: bool,
}

/// A socket that sees them.
#[derive(Debug)]
pub struct TapSocket(OwnedFd);

impl TapSocket {
    /// Opens one that does not block. `buffer`: how many bytes may wait in the kernel.
    ///
    /// **Errors**: EPERM without CAP_NET_RAW. **Source**: packet(7).
    pub fn open(port: u16, buffer: usize) -> io::Result<Self> {
        let socket = super::open(buffer)?;
        // Before it is bound, so that nothing else ever comes.
        attach(&socket, port)?;
        super::bind(&socket, 0)?;
        Ok(Self(socket))
    }

    /// Takes the next packet; `None` when there is none. A packet over loopback is returned once, as it comes in.
    ///
    /// **Errors**: recvmsg(2).
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<Passed>> {
        loop {
            // SAFETY: sockaddr_ll is a C struct of integers, for which zeroes are valid.
            let mut from: libc::sockaddr_ll = unsafe { zeroed() };
            let Some((length, at)) = super::receive(&self.0, buffer, &mut from)? else { return Ok(None) };
            let outgoing = from.sll_pkttype == libc::PACKET_OUTGOING;
            if outgoing && from.sll_hatype == libc::ARPHRD_LOOPBACK {
                continue;
            }
            let at = at.and_then(|at| u64::try_from(at).ok()).unwrap_or(0);
            return Ok(Some(Passed { length, at, outgoing }));
        }
    }

    /// Returns the number of packets that the kernel dropped for lack of space since the last call.
    pub fn missed(&self) -> u64 {
        super::missed(&self.0)
    }
}

/// Lets TCP from and to a port through, over IPv4 and IPv6, and nothing else.
///
/// **Source**: `SO_ATTACH_FILTER` in socket(7); the kernel's Documentation/networking/filter.rst. The packet begins with its IP header.
fn attach(socket: &OwnedFd, port: u16) -> io::Result<()> {
    const BYTE: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_ABS;
    const IS: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
    let (tcp, port) = (6, u32::from(port));
    let row = |code: u32, k: u32, jt: u8, jf: u8| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut program = [
        row(BYTE, 0, 0, 0),
        row(libc::BPF_ALU | libc::BPF_RSH | libc::BPF_K, 4, 0, 0),
        row(IS, 4, 0, 7),
        // IPv4: the protocol, and the ports behind a header of any length.
        row(BYTE, 9, 0, 0),
        row(IS, tcp, 0, 13),
        row(libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH, 0, 0, 0),
        row(libc::BPF_LD | libc::BPF_H | libc::BPF_IND, 0, 0, 0),
        row(IS, port, 9, 0),
        row(libc::BPF_LD | libc::BPF_H | libc::BPF_IND, 2, 0, 0),
        row(IS, port, 7, 8),
        // IPv6 without extension headers, which TCP of hosts does not have.
        row(IS, 6, 0, 7),
        row(BYTE, 6, 0, 0),
        row(IS, tcp, 0, 5),
        row(libc::BPF_LD | libc::BPF_H | libc::BPF_ABS, 40, 0, 0),
        row(IS, port, 2, 0),
        row(libc::BPF_LD | libc::BPF_H | libc::BPF_ABS, 42, 0, 0),
        row(IS, port, 0, 1),
        row(RETURN, u32::MAX, 0, 0),
        row(RETURN, 0, 0, 0),
    ];
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the kernel copies the instructions, of which there are `len`, from `filter` before the call returns.
    let outcome = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const program).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
