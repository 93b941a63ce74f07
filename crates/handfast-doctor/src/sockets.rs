//! Lists every TCP socket of the network namespace: its state, its addresses, its queues, its remaining time in TIME_WAIT.
//!
//! In: the kernel's sock_diag; or /proc/net/tcp if that is refused, or the machine is a folder of files. Out: [`Socket`]s.
//!
//! **Source**: sock_diag(7), linux/inet_diag.h; net/ipv4/tcp_ipv4.c `tcp4_seq_show` for the text.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::net::{bind, recv, sendto, socket_with};

use crate::machine::Machine;

/// States of TCP as the kernel numbers them (`enum` in include/net/tcp_states.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Data can flow.
    Established,
    /// A SYN was sent.
    SynSent,
    /// A SYN was received.
    SynReceived,
    /// We ended first, and wait for the acknowledgement.
    FinWait1,
    /// We ended first, and wait for the other end.
    FinWait2,
    /// Ended on both sides, by this side first.
    TimeWait,
    /// Nothing.
    Closed,
    /// The other side has ended, and our program has not.
    CloseWait,
    /// The other side ended first, and our end is not acknowledged.
    LastAck,
    /// It waits for connections.
    Listen,
    /// Both ended at once.
    Closing,
}

impl State {
    const ALL: [Self; 11] = [
        Self::Established,
        Self::SynSent,
        Self::SynReceived,
        Self::FinWait1,
        Self::FinWait2,
        Self::TimeWait,
        Self::Closed,
        Self::CloseWait,
        Self::LastAck,
        Self::Listen,
        Self::Closing,
    ];

    /// By the kernel's number.
    fn of(number: u8) -> Self {
        match number {
            1..=11 => Self::ALL[usize::from(number - 1)],
            // TCP_NEW_SYN_RECV.
            12 => Self::SynReceived,
            _ => Self::Closed,
        }
    }

    /// As ss(8) and netstat(8) call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Established => "ESTABLISHED",
            Self::SynSent => "SYN_SENT",
            Self::SynReceived => "SYN_RECV",
            Self::FinWait1 => "FIN_WAIT1",
            Self::FinWait2 => "FIN_WAIT2",
            Self::TimeWait => "TIME_WAIT",
            Self::Closed => "CLOSE",
            Self::CloseWait => "CLOSE_WAIT",
            Self::LastAck => "LAST_ACK",
            Self::Listen => "LISTEN",
            Self::Closing => "CLOSING",
        }
    }
}

/// One TCP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Socket {
    /// Its state.
    pub state: State,
    /// This end.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
    /// For a listener: connections that wait to be accepted. Else bytes that wait to be read.
    pub receive_queue: u32,
    /// For a listener: its backlog (0 if the source does not contain it). Else bytes that wait to be acknowledged.
    pub send_queue: u32,
    /// In TIME_WAIT: the remaining time.
    pub rests: Duration,
    /// The inode, which identifies a process's descriptor; 0 if it belongs to no process.
    pub inode: u64,
}

/// All of them.
///
/// **Errors**: neither sock_diag nor /proc/net/tcp can be read.
///
/// **Cost**: about 1 µs and 100 bytes for each socket by sock_diag, some ten times as much by /proc.
pub fn all(machine: &Machine) -> io::Result<Vec<Socket>> {
    if machine.is_real()
        && let Ok(sockets) = query_sockets()
    {
        return Ok(sockets);
    }
    let mut sockets = from_text(&machine.read("/proc/net/tcp")?);
    // A kernel without IPv6 has no such file.
    sockets.extend(from_text(&machine.read("/proc/net/tcp6").unwrap_or_default()));
    Ok(sockets)
}

/// Those of the network namespace that a process is in.
///
/// **Errors**: its /proc/PID/net/tcp cannot be read.
pub fn of_process(machine: &Machine, pid: u32) -> io::Result<Vec<Socket>> {
    let mut sockets = from_text(&machine.read(&format!("/proc/{pid}/net/tcp"))?);
    sockets.extend(from_text(&machine.read(&format!("/proc/{pid}/net/tcp6")).unwrap_or_default()));
    Ok(sockets)
}

const DUMP: u16 = 0x300;
const REQUEST: u16 = 0x1;
const BY_FAMILY: u16 = 20;
const DONE: u16 = 3;
const ERROR: u16 = 2;
/// Bytes of `nlmsghdr`, `inet_diag_req_v2`, `inet_diag_msg`.
const HEADER: usize = 16;
const ASKED: usize = 56;
const ANSWERED: usize = 72;
/// The kernel's largest answer of a dump.
const ANSWER: usize = 64 << 10;

fn query_sockets() -> io::Result<Vec<Socket>> {
    let mut sockets = Vec::new();
    for family in [AddressFamily::INET, AddressFamily::INET6] {
        dump(family, &mut sockets)?;
    }
    Ok(sockets)
}

fn dump(family: AddressFamily, sockets: &mut Vec<Socket>) -> io::Result<()> {
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(SOCK_DIAG))?;
    bind(&socket, &SocketAddrNetlink::new(0, 0))?;
    let mut request = vec![0_u8; HEADER + ASKED];
    request[0..4].copy_from_slice(&((HEADER + ASKED) as u32).to_ne_bytes());
    request[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
    request[6..8].copy_from_slice(&(REQUEST | DUMP).to_ne_bytes());
    request[HEADER] = u8::try_from(family.as_raw()).unwrap_or(0);
    // IPPROTO_TCP; then the states that are wanted, all of them.
    request[HEADER + 1] = 6;
    request[HEADER + 4..HEADER + 8].copy_from_slice(&u32::MAX.to_ne_bytes());
    sendto(&socket, &request, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let mut answer = vec![0_u8; ANSWER];
    loop {
        let (length, _) = recv(&socket, &mut answer[..], RecvFlags::empty())?;
        if !take(answer.get(..length).unwrap_or_default(), sockets)? {
            return Ok(());
        }
    }
}

/// Takes the sockets out of one answer; false when there will be no more.
fn take(mut answer: &[u8], sockets: &mut Vec<Socket>) -> io::Result<bool> {
    if answer.is_empty() {
        return Err(io::Error::other("the kernel's answer is empty"));
    }
    while answer.len() >= HEADER {
        let length = usize::try_from(word(answer, 0)).unwrap_or(0);
        let message = answer
            .get(..length)
            .filter(|_| length >= HEADER)
            .ok_or_else(|| io::Error::other("the kernel's answer is cut short"))?;
        match u16::from_ne_bytes([message[4], message[5]]) {
            DONE => return Ok(false),
            ERROR => {
                let error = if length >= HEADER + 4 { word(message, HEADER).cast_signed() } else { 0 };
                return Err(io::Error::from_raw_os_error(error.saturating_neg()));
            }
            BY_FAMILY => sockets.extend(one(&message[HEADER..])),
            _ => {}
        }
        answer = answer.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(true)
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |word| u32::from_ne_bytes([word[0], word[1], word[2], word[3]]))
}

/// `struct inet_diag_msg`.
fn one(message: &[u8]) -> Option<Socket> {
    let message = message.get(..ANSWERED)?;
    let v6 = i32::from(message[0]) == libc::AF_INET6;
    let port = |at: usize| u16::from_be_bytes([message[at], message[at + 1]]);
    let address = |at: usize| {
        let octets: [u8; 16] = message[at..at + 16].try_into().ok()?;
        Some(if v6 {
            // An IPv4 connection of a dual-stack socket counts as IPv4.
            Ipv6Addr::from(octets).to_canonical()
        } else {
            IpAddr::V4(Ipv4Addr::new(octets[0], octets[1], octets[2], octets[3]))
        })
    };
    Some(Socket {
        state: State::of(message[1]),
        local: SocketAddr::new(address(8)?, port(4)),
        remote: SocketAddr::new(address(24)?, port(6)),
        rests: Duration::from_millis(word(message, 52).into()),
        receive_queue: word(message, 56),
        send_queue: word(message, 60),
        inode: word(message, 68).into(),
    })
}

fn from_text(text: &str) -> Vec<Socket> {
    text.lines().skip(1).filter_map(line).collect()
}

/// `sl local remote st tx:rx tr:when retrnsmt uid timeout inode …`, all in hexadecimal but for the last three.
fn line(line: &str) -> Option<Socket> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let number = |text: &str| u32::from_str_radix(text, 16).ok();
    let (sent, received) = words.get(4)?.split_once(':')?;
    let (_, when) = words.get(5)?.split_once(':')?;
    let state = State::of(u8::from_str_radix(words.get(3)?, 16).ok()?);
    let is_listener = state == State::Listen;
    Some(Socket {
        state,
        local: end(words.get(1)?)?,
        remote: end(words.get(2)?)?,
        receive_queue: number(received)?,
        // Of a listener it is always 0 here.
        send_queue: if is_listener { 0 } else { number(sent)? },
        // In hundredths of a second, whatever the kernel's own tick is (USER_HZ).
        rests: Duration::from_millis(u64::from(number(when)?) * 10),
        inode: words.get(9).and_then(|inode| inode.parse().ok()).unwrap_or(0),
    })
}

/// `0100007F:1F90`: words in the machine's order, the port in the usual one.
fn end(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let mut octets = Vec::with_capacity(16);
    for at in (0..address.len()).step_by(8) {
        octets.extend(u32::from_str_radix(address.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    }
    let address = match (<[u8; 4]>::try_from(octets.as_slice()), <[u8; 16]>::try_from(octets.as_slice())) {
        (Ok(four), _) => IpAddr::from(four),
        (_, Ok(sixteen)) => Ipv6Addr::from(sixteen).to_canonical(),
        _ => return None,
    };
    Some(SocketAddr::new(address, port))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    #[test]
    fn a_line_of_proc_is_a_socket() {
        let text = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
             0: 0100007F:1F90 00000000:0000 0A 00000000:00000003 00:00000000 00000000     0        0 1234 1 0 100\n   \
             1: 0100007F:8000 0200007F:01BB 06 00000000:00000000 03:00000BB8 00000000     0        0 0 3 0\n   \
             2: 0000000000000000FFFF00000100007F:1F90 0000000000000000FFFF00000100007F:8001 01 00000005:00000006 00:0 0 0 0 77 1\n\
             rubbish\n";
        if cfg!(target_endian = "big") {
            return;
        }
        let sockets = from_text(text);
        assert_eq!(sockets.len(), 3, "{sockets:?}");
        let [listener, resting, open] = sockets[..] else { unreachable!() };
        assert_eq!((listener.state, listener.receive_queue, listener.inode), (State::Listen, 3, 1234));
        assert_eq!(listener.local.to_string(), "127.0.0.1:8080");
        assert_eq!((resting.state, resting.rests), (State::TimeWait, Duration::from_secs(30)));
        assert_eq!(resting.remote.to_string(), "127.0.0.2:443");
        assert_eq!(
            (open.local.to_string(), open.send_queue, open.receive_queue),
            ("127.0.0.1:8080".into(), 5, 6)
        );
    }

    #[test]
    fn the_kernel_and_proc_tell_the_same() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let one = TcpStream::connect_timeout(&address, Duration::from_secs(10)).unwrap();
        let near = one.local_addr().unwrap();
        let mut waits = [PollFd::new(&listener, PollFlags::IN)];
        poll(&mut waits, Some(&Timespec { tv_sec: 10, tv_nsec: 0 })).unwrap();
        // Connections of other programs with the same port stay in TIME_WAIT for a minute; they are not ours.
        let is_ours = |socket: &Socket| match (socket.local, socket.remote) {
            (local, _) if socket.state == State::Listen => local == address,
            ends => ends == (address, near) || ends == (near, address),
        };
        let ours = |sockets: Vec<Socket>| {
            let mut ours: Vec<_> = sockets
                .into_iter()
                .filter(is_ours)
                .map(|socket| (socket.state, socket.local, socket.remote, socket.receive_queue))
                .collect();
            ours.sort();
            ours
        };
        let queried = query_sockets().unwrap();
        let backlog = queried.iter().find(|socket| socket.local == address && socket.state == State::Listen);
        assert!(backlog.is_some_and(|socket| socket.send_queue > 0), "{backlog:?}");
        let (queried, read) =
            (ours(queried), ours(from_text(&Machine::here().read("/proc/net/tcp").unwrap())));
        assert_eq!(queried, read);
        // The listener with one that waits, and both ends of it: the end here, and the one that is not accepted yet.
        assert!(queried.iter().any(|socket| socket.0 == State::Listen && socket.3 == 1), "{queried:?}");
        assert_eq!(queried.len(), 3, "{queried:?}");
    }

    #[test]
    fn an_answer_that_is_cut_short_is_no_panic() {
        let mut message = vec![0_u8; HEADER + ANSWERED];
        message[0..4].copy_from_slice(&((HEADER + ANSWERED) as u32).to_ne_bytes());
        message[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
        let mut sockets = Vec::new();
        assert!(take(&message, &mut sockets).unwrap());
        assert_eq!(sockets.len(), 1);
        for length in 1..message.len() {
            let _ = take(&message[..length], &mut sockets);
        }
        assert!(take(&[], &mut sockets).is_err());
        message[0..4].copy_from_slice(&3_u32.to_ne_bytes());
        assert!(take(&message, &mut sockets).is_err());
        assert!(line("1: 2:3 4:5 6 7").is_none() && end("12:1").is_none() && end("é000000:1").is_none());
    }
}
