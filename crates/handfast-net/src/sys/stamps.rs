//! Times when the kernel sent, received and had acknowledged the data of a TCP connection, and the number of segments.
//!
//! In: a connected TCP socket. Out: times and counts. An ordinary user may ask for all of it. The times are the kernel's: that a
//! program was not scheduled when a packet came moves none of them.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use super::{ControlMessage, control_messages, set};

// linux/net_tstamp.h: stamps by software of what is sent, received and acknowledged; without the packet, and with the number of its
// last byte.
const TX_SOFTWARE: libc::c_int = 1 << 1;
const RX_SOFTWARE: libc::c_int = 1 << 3;
const SOFTWARE: libc::c_int = 1 << 4;
const OPT_ID: libc::c_int = 1 << 7;
const TX_ACK: libc::c_int = 1 << 9;
const OPT_TSONLY: libc::c_int = 1 << 11;

/// Makes the kernel record when it sends, receives and sees acknowledged the data of this connection. Bytes are numbered from 0 at
/// this moment, so call it when the connection is established, before any data is sent.
///
/// **Errors**: setsockopt(2). **Source**: the kernel's Documentation/networking/timestamping.rst; OPT_ID is refused before connect.
pub fn stamp_stream(socket: impl AsFd) -> io::Result<()> {
    let all = TX_SOFTWARE | RX_SOFTWARE | SOFTWARE | OPT_ID | TX_ACK | OPT_TSONLY;
    set(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, all)
}

/// Has the kernel stamp whatever the machine receives, as long as this socket is open: the first packets after the switch is
/// thrown for the first time would have no stamp.
///
/// **Errors**: setsockopt(2).
pub fn keep_stamping(socket: impl AsFd) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, RX_SOFTWARE | SOFTWARE)
}

/// Result of one receive call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Bytes; 0 at the end.
    pub bytes: usize,
    /// Arrival of its last segment, since 1970 by the machine's clock; `None` when the kernel did not record it.
    pub at: Option<Duration>,
}

/// Receives what is there, without waiting.
///
/// **Errors**: recvmsg(2); `WouldBlock` when nothing is there, also where only stamps woke the caller.
pub fn receive_stamped(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<Received> {
    let mut control = Control([0; 512]);
    let (bytes, filled) = receive(socket, buffer, &mut control, libc::MSG_DONTWAIT)?;
    Ok(Received { bytes, at: control_messages(&control.0[..filled]).find_map(stamp) })
}

/// Event that the kernel records for sent bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noted {
    /// They were given to the network device.
    Sent,
    /// The peer has acknowledged them.
    Acknowledged,
}

/// One note of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentStamp {
    /// Event of the bytes.
    pub what: Noted,
    /// To the bytes up to this one.
    pub byte: u32,
    /// Time of the event, since 1970 by the machine's clock.
    pub at: Duration,
}

/// Takes the oldest note about what was sent, if there is one.
///
/// **Source**: `MSG_ERRQUEUE` in recv(2); `ee_info` and `ee_data` in timestamping.rst.
pub fn take_sent_stamp(socket: impl AsFd) -> Option<SentStamp> {
    const TIMESTAMPING: u8 = 4;
    let mut control = Control([0; 512]);
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    let (_, filled) = receive(socket, &mut [0; 64], &mut control, flags).ok()?;
    let all = || control_messages(&control.0[..filled]);
    let at = all().find_map(stamp)?;
    all().find_map(|(level, kind, body)| {
        let v4 = (level, kind) == (libc::IPPROTO_IP, libc::IP_RECVERR);
        let v6 = (level, kind) == (libc::IPPROTO_IPV6, libc::IPV6_RECVERR);
        // sock_extended_err: errno, origin, type, code, pad, info, data.
        let ours = (v4 || v6) && body.get(4) == Some(&TIMESTAMPING);
        let number = |from: usize| Some(u32::from_ne_bytes(body.get(from..from + 4)?.try_into().ok()?));
        let what = match number(8).filter(|_| ours)? {
            0 => Noted::Sent,
            2 => Noted::Acknowledged,
            _ => return None,
        };
        Some(SentStamp { what, byte: number(12)?, at })
    })
}

/// The software stamp of a control message: the first of three `timespec`.
fn stamp((level, kind, body): ControlMessage<'_>) -> Option<Duration> {
    if (level, kind) != (libc::SOL_SOCKET, libc::SO_TIMESTAMPING) {
        return None;
    }
    let seconds = i64::from_ne_bytes(body.get(..8)?.try_into().ok()?);
    let nanos = i64::from_ne_bytes(body.get(8..16)?.try_into().ok()?);
    let at = Duration::new(u64::try_from(seconds).ok()?, u32::try_from(nanos).ok()?);
    (!at.is_zero()).then_some(at)
}

#[repr(C, align(8))]
struct Control([u8; 512]);

/// recvmsg(2): how many bytes came, and how much of `control` was filled.
fn receive(
    socket: impl AsFd,
    buffer: &mut [u8],
    control: &mut Control,
    flags: libc::c_int,
) -> io::Result<(usize, usize)> {
    let mut vector = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: msghdr is a C struct of integers and pointers, for which zeroes are valid.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut vector;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len() as _;
    // SAFETY: the message points to `buffer` and `control` with their lengths, both of which outlive the call.
    let received = unsafe { libc::recvmsg(socket.as_fd().as_raw_fd(), &raw mut message, flags) };
    match usize::try_from(received) {
        Ok(bytes) => Ok((bytes, (message.msg_controllen as usize).min(control.0.len()))),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

/// The kernel's counts of a TCP connection.
///
/// **Source**: `struct tcp_info` in linux/tcp.h; fields that the running kernel does not have yet are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Smoothed round-trip time in microseconds; right after connect, that of the SYN.
    pub round_trip_us: u32,
    /// The smallest round trip seen, in microseconds (Linux 4.6).
    pub least_round_trip_us: u32,
    /// The largest segment that came so far, as the kernel estimates it; 536 before anything came.
    pub received_segment_size: u32,
    /// The largest segment that is sent.
    pub sent_segment_size: u32,
    /// Segments with data that came (Linux 4.6).
    pub data_segments_in: u32,
    /// Segments with data that were sent (Linux 4.6).
    pub data_segments_out: u32,
    /// All segments that came (Linux 4.2).
    pub segments_in: u32,
    /// All segments that were sent (Linux 4.2).
    pub segments_out: u32,
    /// Bytes that came (Linux 4.1).
    pub bytes_in: u64,
    /// Segments that were sent again.
    pub retransmissions: u32,
    /// Segments that came before one that was sent earlier: something was lost or changed places (Linux 5.4).
    pub out_of_order: u32,
}

/// Asks for [`Counts`]; `None` for sockets that are not TCP.
pub fn counts(socket: impl AsFd) -> Option<Counts> {
    let info = super::raw_tcp_info(socket)?;
    Some(Counts {
        round_trip_us: info.tcpi_rtt,
        least_round_trip_us: info.tcpi_min_rtt,
        received_segment_size: info.tcpi_rcv_mss,
        sent_segment_size: info.tcpi_snd_mss,
        data_segments_in: info.tcpi_data_segs_in,
        data_segments_out: info.tcpi_data_segs_out,
        segments_in: info.tcpi_segs_in,
        segments_out: info.tcpi_segs_out,
        bytes_in: info.tcpi_bytes_received,
        retransmissions: info.tcpi_total_retrans,
        out_of_order: info.tcpi_rcv_ooopack,
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::time::{Instant, SystemTime, UNIX_EPOCH};

    use super::*;

    /// Repeats a query until it returns something.
    fn wait<T>(mut ask: impl FnMut() -> Option<T>) -> T {
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            if let Some(found) = ask() {
                return found;
            }
            assert!(Instant::now() < end, "nothing came");
            std::thread::yield_now();
        }
    }

    #[test]
    fn what_was_sent_and_received_has_its_times_and_counts() {
        let began = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
        let keeper = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
        keep_stamping(&keeper).expect("stamps");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let near =
            TcpStream::connect_timeout(&listener.local_addr().expect("an address"), Duration::from_secs(20));
        let mut near = near.expect("it listens");
        let (mut far, _) = listener.accept().expect("it called");
        stamp_stream(&near).expect("stamps");
        near.write_all(b"question").expect("written");
        let mut seen = Vec::new();
        while seen.len() < 2 {
            seen.push(wait(|| take_sent_stamp(&near)));
        }
        seen.sort_by_key(|stamp| stamp.at);
        assert_eq!(
            seen.iter().map(|stamp| stamp.what).collect::<Vec<_>>(),
            [Noted::Sent, Noted::Acknowledged]
        );
        assert!(seen.iter().all(|stamp| stamp.byte == 7 && stamp.at > began), "{seen:?}");
        far.write_all(b"an answer").expect("written");
        let mut buffer = [0; 64];
        let received = wait(|| receive_stamped(&near, &mut buffer).ok());
        assert_eq!(&buffer[..received.bytes], b"an answer");
        assert!(received.at.is_none_or(|at| at >= seen[0].at), "{received:?}");
        let counts = counts(&near).expect("it is TCP");
        assert_eq!((counts.data_segments_out, counts.data_segments_in, counts.bytes_in), (1, 1, 9));
        assert_eq!(
            receive_stamped(&near, &mut buffer).map_err(|error| error.kind()),
            Err(io::ErrorKind::WouldBlock)
        );
        drop(far);
        assert_eq!(wait(|| receive_stamped(&near, &mut buffer).ok()).bytes, 0);
    }
}
