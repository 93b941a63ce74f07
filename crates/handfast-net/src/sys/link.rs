//! Whole IP packets that pass one interface; and a thread that is on time.
//!
//! In: an interface of a network that the caller may change. Out: packets as they were on the wire, with the time at which the
//! kernel had them, and back.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::{ControlMessage, control_messages, named, set};

pub mod tap;

/// A packet that was received into the caller's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Its bytes; more than the buffer holds when it was cut.
    pub length: usize,
    /// Time that the kernel held it before this process read it.
    pub age: Duration,
}

/// A socket for the IP packets of one Ethernet interface: what comes in there, and what goes out to the one neighbour.
#[derive(Debug)]
pub struct PacketSocket {
    socket: OwnedFd,
    address: libc::sockaddr_ll,
}

impl PacketSocket {
    /// Opens one that does not block, on an interface of the network that the thread is in. `buffer` is how many bytes may
    /// wait in the kernel, which gives as much of it as `net.core.rmem_max` allows.
    ///
    /// **Errors**: EPERM without CAP_NET_RAW, ENODEV. **Source**: packet(7).
    pub fn open(index: u32, neighbour: [u8; 6], buffer: usize) -> io::Result<Self> {
        let index = i32::try_from(index).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        let socket = open(buffer)?;
        set(&socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)?;
        let mut address = bind(&socket, index)?;
        address.sll_halen = 6;
        address.sll_addr[..6].copy_from_slice(&neighbour);
        Ok(Self { socket, address })
    }

    /// Takes the next packet; `None` when there is none.
    ///
    /// **Errors**: ENETDOWN once after the interface went down.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        let mut from = self.address;
        let received = receive(&self.socket, buffer, &mut from)?;
        Ok(received.map(|(length, at)| Received { length, age: at.map_or(Duration::ZERO, age) }))
    }

    /// Sends an IP packet to the neighbour.
    ///
    /// **Errors**: EMSGSIZE above the interface's MTU, ENOBUFS, ENETDOWN.
    pub fn send(&self, packet: &[u8]) -> io::Result<()> {
        let mut address = self.address;
        let protocol = if packet.first().is_some_and(|first| first >> 4 == 6) {
            libc::ETH_P_IPV6
        } else {
            libc::ETH_P_IP
        };
        address.sll_protocol = (protocol as u16).to_be();
        // SAFETY: the kernel reads `packet` and an address, both with their lengths, and keeps no pointer.
        let sent = unsafe {
            libc::sendto(
                self.socket.as_raw_fd(),
                packet.as_ptr().cast(),
                packet.len(),
                libc::MSG_DONTWAIT,
                (&raw const address).cast(),
                size_of::<libc::sockaddr_ll>() as libc::socklen_t,
            )
        };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Returns the number of packets that the kernel dropped for lack of space since the last call.
    pub fn missed(&self) -> u64 {
        missed(&self.socket)
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A packet socket that receives nothing until it is bound.
fn open(buffer: usize) -> io::Result<OwnedFd> {
    // SAFETY: takes no pointer. Protocol 0 receives nothing until the socket is bound.
    let socket = unsafe {
        libc::socket(libc::AF_PACKET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0)
    };
    if socket < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just made and has no other owner.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    let buffer = libc::c_int::try_from(buffer).unwrap_or(libc::c_int::MAX);
    if set(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, buffer).is_err() {
        set(&socket, libc::SOL_SOCKET, libc::SO_RCVBUF, buffer)?;
    }
    set(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
    Ok(socket)
}

/// Has it receive what passes an interface, or with 0 all of them.
fn bind(socket: &OwnedFd, index: libc::c_int) -> io::Result<libc::sockaddr_ll> {
    // SAFETY: sockaddr_ll is a C struct of integers, for which zeroes are valid.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = index;
    // SAFETY: the kernel reads a sockaddr_ll of the length that it is given, and keeps no pointer.
    let outcome = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    };
    if outcome == 0 { Ok(address) } else { Err(io::Error::last_os_error()) }
}

/// Takes the next packet: its length, which is more than the buffer's when it was cut, and its stamp; where it came from goes to
/// `address`. `None` when there is none.
fn receive(
    socket: &OwnedFd,
    buffer: &mut [u8],
    address: &mut libc::sockaddr_ll,
) -> io::Result<Option<(usize, Option<i128>)>> {
    #[repr(C, align(8))]
    struct Control([u8; 128]);
    let mut control = Control([0; 128]);
    let mut vector = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: msghdr is a C struct of integers and pointers, for which zeroes are valid.
    let mut message: libc::msghdr = unsafe { zeroed() };
    message.msg_name = (&raw mut *address).cast();
    message.msg_namelen = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    message.msg_iov = &mut vector;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len() as _;
    // SAFETY: the message points to `address`, `buffer` and `control` with their lengths, all of which outlive the call; of a
    // sockaddr_ll any bytes are valid.
    let length =
        unsafe { libc::recvmsg(socket.as_raw_fd(), &mut message, libc::MSG_TRUNC | libc::MSG_DONTWAIT) };
    let Ok(length) = usize::try_from(length) else {
        let error = io::Error::last_os_error();
        return if error.kind() == io::ErrorKind::WouldBlock { Ok(None) } else { Err(error) };
    };
    let filled = (message.msg_controllen as usize).min(control.0.len());
    Ok(Some((length, stamp(&control.0[..filled]))))
}

/// Returns the number of packets that the kernel dropped for lack of space since the last call.
fn missed(socket: &OwnedFd) -> u64 {
    let mut counts = [0_u32; 2];
    let mut length = size_of::<[u32; 2]>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, a struct tpacket_stats of two integers, which `counts` has.
    let outcome = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            counts.as_mut_ptr().cast(),
            &mut length,
        )
    };
    if outcome == 0 { u64::from(counts[1]) } else { 0 }
}

/// The `timespec` among control messages (`SCM_TIMESTAMPNS`), in nanoseconds since 1970.
fn stamp(control: &[u8]) -> Option<i128> {
    let is_stamp =
        |(level, kind, _): &ControlMessage<'_>| (*level, *kind) == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS);
    let (.., body) = control_messages(control).find(is_stamp)?;
    let part = |at: usize| Some(i64::from_ne_bytes(body.get(at..at + 8)?.try_into().ok()?));
    Some(i128::from(part(0)?) * 1_000_000_000 + i128::from(part(8)?))
}

/// Returns the age of a time of the day's clock. If the clock is set just then, one packet seems young or old: the age
/// is at most a tenth of a second, which a packet never waited.
fn age(stamp: i128) -> Duration {
    let now = clock_gettime(ClockId::Realtime);
    let now = i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec);
    u64::try_from(now - stamp)
        .map_or(Duration::ZERO, |age| Duration::from_nanos(age).min(Duration::from_millis(100)))
}

/// Makes an interface hand over packets as they would be on a wire: each with its checksums, none larger than the MTU.
///
/// **Errors**: EPERM, ENODEV. **Source**: `ETHTOOL_STXCSUM`, `ETHTOOL_STSO`, `ETHTOOL_SGSO`, `ETHTOOL_SGRO` of linux/ethtool.h.
pub fn switch_offloads_off(name: &str) -> io::Result<()> {
    #[repr(C)]
    struct Value {
        command: u32,
        data: u32,
    }
    // SAFETY: takes no pointer.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if socket < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just made and has no other owner.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    for command in [0x17, 0x1f, 0x24, 0x2c] {
        let mut value = Value { command, data: 0 };
        let mut request = named(name)?;
        request.ifr_ifru.ifru_data = (&raw mut value).cast();
        // SAFETY: SIOCETHTOOL with these commands reads an ethtool_value, to which the request points and which outlives
        // the call.
        let outcome =
            unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as libc::Ioctl, &mut request) };
        if outcome != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Lets the calling thread run before every ordinary one as soon as it is due.
///
/// **Errors**: EPERM without permission (CAP_SYS_NICE, `RLIMIT_RTPRIO`). **Source**: `SCHED_FIFO` in sched(7).
pub fn run_in_real_time() -> io::Result<()> {
    // SAFETY: sched_param is a C struct of integers, for which zeroes are valid.
    let mut parameter: libc::sched_param = unsafe { zeroed() };
    parameter.sched_priority = 1;
    // SAFETY: the kernel reads the parameter; 0 is the calling thread.
    let outcome =
        unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &parameter) };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_found_among_control_messages_and_nothing_is_read_past_them() {
        let mut control = Vec::new();
        let mut add = |level: i32, kind: i32, body: &[u8]| {
            control.extend_from_slice(&(16 + body.len()).to_ne_bytes());
            control.extend_from_slice(&level.to_ne_bytes());
            control.extend_from_slice(&kind.to_ne_bytes());
            control.extend_from_slice(body);
            control.resize(control.len().next_multiple_of(8), 0);
        };
        add(1, 1, &[7; 4]);
        let moment = [3_i64.to_ne_bytes(), 5_i64.to_ne_bytes()].concat();
        add(libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS, &moment);
        assert_eq!(stamp(&control), Some(3_000_000_005));
        for length in 0..control.len() {
            assert_eq!(stamp(&control[..length]), None, "{length}");
        }
        control[0] = 0xff;
        assert_eq!(stamp(&control), None);
        control[0] = 0;
        assert_eq!(stamp(&control), None);
    }

    #[test]
    fn names_of_interfaces_have_an_end() {
        assert!(named("fifteen-letters").is_ok());
        assert!(named("sixteen--letters").is_err());
    }
}
