//! The socket calls that `rustix` does not offer: the kernel's own account of a TCP connection, its error queue, the
//! bytes it has not sent yet; and wakers that are numbers. All of this crate's unsafe code is in this module.

#![expect(
    unsafe_code,
    reason = "most of these calls pass pointers to the kernel; each block says why that is sound"
)]

pub mod environment;
pub mod link;
pub mod sandbox;
pub mod spawn;
pub mod stamps;

use std::io;
use std::mem::{MaybeUninit, size_of, zeroed};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::task::{RawWaker, RawWakerVTable, Waker};
use std::time::Duration;

use crate::engine::TaskHandle;

/// Sends new connections past the first `past` listening sockets of an address that several share (SO_REUSEPORT): to one
/// of the next `others`, at random. Without others, nothing changes.
///
/// **Errors**: setsockopt(2).
///
/// **Source**: socket(7), SO_ATTACH_REUSEPORT_CBPF; the kernel numbers the sockets in the order in which they began to
/// listen, and chooses one when the program names none.
pub fn steer_past(socket: impl AsFd, past: u32, others: u32) -> io::Result<()> {
    let random = (libc::SKF_AD_OFF + libc::SKF_AD_RANDOM) as u32;
    let instruction = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let mut program = [
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, random),
        instruction(libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K, others.max(1)),
        instruction(libc::BPF_ALU | libc::BPF_ADD | libc::BPF_K, past),
        instruction(libc::BPF_RET | libc::BPF_A, 0),
    ];
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the descriptor is borrowed for the call; the kernel copies the instructions, of which there are `len`, from
    // `filter` before the call returns.
    let outcome = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_REUSEPORT_CBPF,
            (&raw const program).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Ends what [`steer_past`] began: the kernel chooses among all sockets again.
pub fn steer_no_more(socket: impl AsFd) {
    let nothing: libc::c_int = 0;
    // SAFETY: the descriptor is borrowed for the call; the kernel reads at most the integer that it is given. Before
    // Linux 5.3 it refuses, and the sockets that are left are chosen by the program.
    unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_DETACH_REUSEPORT_BPF,
            (&raw const nothing).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        );
    }
}

/// Functions of a waker that is a number: a wake looks it up; clone and drop do nothing. It has one address in memory, so
/// that wakers of the same task compare as equal.
static WAKER: RawWakerVTable =
    RawWakerVTable::new(|data| RawWaker::new(data, &WAKER), wake_by_number, wake_by_number, |_| {});

fn wake_by_number(data: *const ()) {
    TaskHandle::from_bits(data.addr() as u64).wake();
}

/// A waker of the task that has this handle's bits.
pub(crate) fn waker_of(handle: u64) -> Waker {
    let data = std::ptr::without_provenance(handle as usize);
    // SAFETY: the data is a number and is never used as a pointer, so it owns nothing and nothing can outlive it. The
    // functions are safe ones, may be called with any number from any thread (see `TaskHandle::wake`), and cloning
    // gives the same number with the same functions.
    unsafe { Waker::from_raw(RawWaker::new(data, &WAKER)) }
}

/// State of a connection in TCP, alive or dead.
///
/// **Source**: `struct tcp_info` in linux/tcp.h; fields that every kernel since 2.6 has, but for
/// `not_sent_bytes` (4.6; 0 before).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// State, as numbered in the kernel's `enum tcp_state`: 1 established, 7 closed, 8 close-wait.
    pub state: u8,
    /// Retransmissions of the oldest unacknowledged segment, in a row.
    pub retransmits: u8,
    /// Unanswered zero-window or keep-alive probes.
    pub probes: u8,
    /// Segments sent and not acknowledged.
    pub unacknowledged: u32,
    /// Bytes that were written and never sent, for want of room at the peer or on the path.
    pub not_sent_bytes: u32,
    /// Retransmissions in the whole life of the connection.
    pub total_retransmissions: u32,
    /// Milliseconds since data last arrived.
    pub last_data_received_ms: u32,
    /// Milliseconds since an acknowledgement last arrived.
    pub last_ack_received_ms: u32,
    /// Smoothed round-trip time in microseconds.
    pub round_trip_us: u32,
    /// Most bytes of a segment that is sent.
    pub segment_size: u32,
}

/// Returns all that this kernel reports of a TCP socket; an unknown value is 0.
fn raw_tcp_info(socket: impl AsFd) -> Option<libc::tcp_info> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the descriptor is borrowed for the call; the kernel writes at most `length` bytes into `info`, which
    // has that size.
    let outcome = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &mut length,
        )
    };
    if outcome != 0 {
        return None;
    }
    // SAFETY: every field is an integer, for which zeroes are valid; the kernel overwrote a prefix of them.
    Some(unsafe { info.assume_init() })
}

/// Asks for [`TcpInfo`]; `None` for sockets that are not TCP.
pub fn tcp_info(socket: impl AsFd) -> Option<TcpInfo> {
    let info = raw_tcp_info(socket)?;
    Some(TcpInfo {
        state: info.tcpi_state,
        retransmits: info.tcpi_retransmits,
        probes: info.tcpi_probes,
        unacknowledged: info.tcpi_unacked,
        not_sent_bytes: info.tcpi_notsent_bytes,
        total_retransmissions: info.tcpi_total_retrans,
        last_data_received_ms: info.tcpi_last_data_recv,
        last_ack_received_ms: info.tcpi_last_ack_recv,
        round_trip_us: info.tcpi_rtt,
        segment_size: info.tcpi_snd_mss,
    })
}

/// Returns the kernel's state of the wall clock: true if a process synchronises it, and its maximum error.
///
/// **Errors**: adjtimex(2), which some containers forbid. **Source**: `STA_UNSYNC` and `maxerror` in adjtimex(2).
pub fn wall_clock() -> io::Result<(bool, Duration)> {
    // SAFETY: timex is a C struct of integers, for which zeroes are valid.
    let mut time: libc::timex = unsafe { zeroed() };
    // SAFETY: the kernel reads and writes one timex, which `time` is; with no mode set it changes nothing.
    let outcome = unsafe { libc::adjtimex(&raw mut time) };
    if outcome < 0 {
        return Err(io::Error::last_os_error());
    }
    let error = Duration::from_micros(u64::try_from(time.maxerror).unwrap_or(0));
    Ok((time.status & libc::STA_UNSYNC == 0, error))
}

/// Bytes that were written to the socket and that the peer has not acknowledged (TCP) or read (unix).
///
/// **Source**: `SIOCOUTQ` in tcp(7) and unix(7).
pub fn unsent_bytes(socket: impl AsFd) -> usize {
    let mut bytes: libc::c_int = 0;
    // SAFETY: TIOCOUTQ (= SIOCOUTQ) writes one int, which `bytes` is.
    let outcome = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &mut bytes) };
    if outcome == 0 { usize::try_from(bytes).unwrap_or(0) } else { 0 }
}

/// Leaves the choice of the port, for a socket that is bound to port 0 next, to connect(2), which knows the other end:
/// one port then serves for each of many targets.
///
/// **Errors**: setsockopt(2). **Source**: `IP_BIND_ADDRESS_NO_PORT` in ip(7), which holds for IPv6 sockets too.
pub fn choose_port_at_connect(socket: impl AsFd) -> io::Result<()> {
    switch_on(socket, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT)
}

/// Makes the kernel report every ICMP error about an IPv4 socket at once and keep it in its error queue
/// ([`take_icmp_error`]). TCP alone would first try to recover.
///
/// **Errors**: setsockopt(2). **Source**: `IP_RECVERR` in ip(7) and tcp(7).
pub fn report_icmp_errors(socket: impl AsFd) -> io::Result<()> {
    switch_on(socket, libc::IPPROTO_IP, libc::IP_RECVERR)
}

/// Bounds how often a SYN is sent again before connect(2) has failed.
///
/// **Errors**: setsockopt(2). **Source**: `TCP_SYNCNT` in tcp(7).
pub fn repeat_syn(socket: impl AsFd, times: u8) -> io::Result<()> {
    set(socket, libc::IPPROTO_TCP, libc::TCP_SYNCNT, times.into())
}

/// The user's end of a TUN interface: every packet that the network namespace sends into the interface is read here, one by
/// one and without a header of the device, and what is written here arrives there. The interface goes away with the descriptor.
///
/// **Errors**: open(2) of /dev/net/tun; EPERM without CAP_NET_ADMIN over the calling thread's network namespace.
///
/// **Source**: TUNSETIFF in the kernel's Documentation/networking/tuntap.rst.
pub fn open_tun(name: &str) -> io::Result<OwnedFd> {
    let mut request = named(name)?;
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    let device: OwnedFd = std::fs::File::options().read(true).write(true).open("/dev/net/tun")?.into();
    // SAFETY: the descriptor is open; TUNSETIFF reads and writes one ifreq, which `request` is.
    let outcome = unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
    if outcome == 0 { Ok(device) } else { Err(io::Error::last_os_error()) }
}

/// A request about the interface of this name, with nothing else in it.
///
/// **Errors**: ENAMETOOLONG.
fn named(name: &str) -> io::Result<libc::ifreq> {
    // SAFETY: ifreq is a C struct of integers and pointers, for which zeroes are valid.
    let mut request: libc::ifreq = unsafe { zeroed() };
    // The zero at its end has to fit too.
    if name.len() >= request.ifr_name.len() {
        return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(request)
}

/// Lets a socket be bound to an address that is none of this machine's, and take what is routed here for it.
///
/// **Errors**: setsockopt(2); EPERM without CAP_NET_ADMIN or CAP_NET_RAW. **Source**: `IP_TRANSPARENT` in ip(7).
pub fn allow_foreign_source(socket: impl AsFd, v6: bool) -> io::Result<()> {
    match v6 {
        false => switch_on(socket, libc::IPPROTO_IP, libc::IP_TRANSPARENT),
        true => switch_on(socket, libc::IPPROTO_IPV6, libc::IPV6_TRANSPARENT),
    }
}

fn switch_on(socket: impl AsFd, level: libc::c_int, option: libc::c_int) -> io::Result<()> {
    set(socket, level, option, 1)
}

fn set(socket: impl AsFd, level: libc::c_int, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    // SAFETY: the descriptor is borrowed for the call; the kernel reads one int, which `value` is.
    let outcome = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes the C library give memory back as soon as 128 KiB lie free together, in the arenas of all threads.
///
/// Left to itself it raises this bound to twice the largest block that was ever freed, 64 MiB at most; keeps small blocks
/// apart from the free ones beside them; and [`release_memory`] does not reach the free end of another thread's arena. To be
/// called before the first large block.
///
/// **Source**: M_TRIM_THRESHOLD and M_MXFAST in mallopt(3), `mtrim` and `heap_trim` in glibc's malloc.c.
pub fn release_memory_early() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes no pointer and may be called at any time from any thread.
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, 128 * 1024);
        libc::mallopt(libc::M_MXFAST, 0);
    }
}

/// Ignores SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1 and SIGUSR2: the process ends when the one that started it does. Child
/// processes inherit that.
///
/// **Errors**: sigaction(2).
pub fn ignore_signals() -> io::Result<()> {
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGUSR1, libc::SIGUSR2] {
        // SAFETY: SIG_IGN is no function that could be called, and is valid for these signals.
        if unsafe { libc::signal(signal, libc::SIG_IGN) } == libc::SIG_ERR {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Lets the calling thread run only while no ordinary thread needs its processor; one that wakes up takes it at once.
///
/// **Errors**: sched_setscheduler(2). **Source**: `SCHED_IDLE` in sched(7), below nice 19: a thread that is woken preempts it without waiting for
/// the end of its slice.
pub fn run_when_idle() -> io::Result<()> {
    // SAFETY: sched_param is a C struct of integers, for which zeroes are valid: SCHED_IDLE wants priority 0.
    let parameter: libc::sched_param = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel reads the parameter; 0 is the calling thread.
    let outcome = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameter) };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// SIGUSR1, and SIGHUP from a program, do not end this process: `kill -HUP $(pidof handfast)` is meant for a proxy and reaches every
/// process of the program. A terminal that is closed still ends it. Executed programs have the defaults again. A later handler replaces
/// this.
///
/// **Errors**: sigaction(2).
pub fn survive_signals_for_a_service() -> io::Result<()> {
    extern "C" fn handle_signal(
        signal: libc::c_int,
        information: *const libc::siginfo_t,
        _: *const libc::c_void,
    ) {
        // SAFETY: the kernel passes a valid siginfo_t with SA_SIGINFO; signal(2) and raise(3) may be called here
        // (signal-safety(7)). The signal is blocked until this returns, and then has its default action.
        unsafe {
            if signal == libc::SIGHUP && (*information).si_code == libc::SI_KERNEL {
                libc::signal(signal, libc::SIG_DFL);
                libc::raise(signal);
            }
        }
    }
    for signal in [libc::SIGHUP, libc::SIGUSR1] {
        // SAFETY: sigaction is a C struct of integers and pointers, for which zeroes are valid.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = (handle_signal as extern "C" fn(_, _, _)) as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        let mut before: libc::sigaction = action;
        // SAFETY: both are valid for the call, and the handler has the form that SA_SIGINFO asks for.
        let outcome = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut before) };
        // A process that was started with nohup(1) stays so.
        if outcome == 0 && before.sa_sigaction == libc::SIG_IGN {
            continue;
        }
        // SAFETY: as above; the old action is not requested.
        let outcome = unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
        if outcome != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Gives memory that was freed back to the machine: after a start or a reload, the C library would keep what reading took,
/// and what the old state had.
///
/// **Cost**: milliseconds; not for the path. **Source**: malloc_trim(3).
pub fn release_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes no pointer and may be called at any time from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// An ICMP error that the kernel kept for a socket that was connecting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcmpError {
    /// Errno it was translated to.
    pub errno: i32,
    /// True for ICMPv6.
    pub v6: bool,
    /// ICMP type.
    pub kind: u8,
    /// ICMP code.
    pub code: u8,
    /// Router or host that sent it.
    pub offender: Option<IpAddr>,
}

impl IcmpError {
    /// Returns true if it reports that a rule forbids the connection (RFC 1812 section 5.2.7.1, RFC 4443 section 3.1).
    pub const fn prohibited(&self) -> bool {
        match (self.v6, self.kind) {
            (false, 3) => matches!(self.code, 9 | 10 | 13),
            (true, 1) => matches!(self.code, 1 | 5 | 6),
            _ => false,
        }
    }
}

/// Takes the oldest ICMP error from the socket's error queue, if there is one.
///
/// The kernel keeps one for a socket that is connecting, whether `IP_RECVERR` is set or not.
///
/// **Source**: `MSG_ERRQUEUE` in recv(2), `struct sock_extended_err` in ip(7).
pub fn take_icmp_error(socket: impl AsFd) -> Option<IcmpError> {
    #[repr(C, align(8))]
    struct Control([u8; 256]);
    let mut control = Control([0; 256]);
    let mut data = [0_u8; 64];
    let mut vector = libc::iovec { iov_base: data.as_mut_ptr().cast(), iov_len: data.len() };
    // SAFETY: msghdr is a C struct of integers and pointers, for which zeroes are valid.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &mut vector;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len() as _;
    // SAFETY: the message points to `data` and `control` with their lengths, all of which outlive the call.
    let received = unsafe {
        libc::recvmsg(socket.as_fd().as_raw_fd(), &mut message, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT)
    };
    if received < 0 {
        return None;
    }
    let filled = (message.msg_controllen as usize).min(control.0.len());
    extended_error(&control.0[..filled])
}

/// Level, type and content of a control message.
type ControlMessage<'a> = (i32, i32, &'a [u8]);

/// Control messages as recvmsg(2) left them: each a `cmsghdr` (length, level, type) and its content. Read byte by byte, so nothing
/// depends on alignment; ends at the first one that is not whole.
fn control_messages(control: &[u8]) -> impl Iterator<Item = ControlMessage<'_>> {
    const HEADER: usize = size_of::<libc::cmsghdr>();
    let mut rest = Some(control);
    std::iter::from_fn(move || {
        let left = rest.take().filter(|left| left.len() >= HEADER)?;
        let length = usize::from_ne_bytes(left[..8].try_into().ok()?);
        let level = i32::from_ne_bytes(left[8..12].try_into().ok()?);
        let kind = i32::from_ne_bytes(left[12..16].try_into().ok()?);
        let body = left.get(HEADER..length)?;
        rest = length.checked_next_multiple_of(8).and_then(|end| left.get(end..));
        Some((level, kind, body))
    })
}

/// Finds the extended error among control messages: `sock_extended_err`, then the offender's address.
fn extended_error(control: &[u8]) -> Option<IcmpError> {
    const ERROR: usize = 16;
    control_messages(control).find_map(|(level, kind, body)| {
        let v6 = (level, kind) == (libc::IPPROTO_IPV6, libc::IPV6_RECVERR);
        let v4 = (level, kind) == (libc::IPPROTO_IP, libc::IP_RECVERR);
        let origin = body.get(4).filter(|_| (v4 || v6) && body.len() >= ERROR)?;
        matches!(origin, 2 | 3).then_some(IcmpError {
            errno: i32::from_ne_bytes(body[..4].try_into().ok()?),
            v6: *origin == 3,
            kind: body[5],
            code: body[6],
            offender: offender(&body[ERROR..]),
        })
    })
}

/// The address in a `sockaddr_in` or `sockaddr_in6`.
fn offender(address: &[u8]) -> Option<IpAddr> {
    let family = i32::from(u16::from_ne_bytes(address.get(..2)?.try_into().ok()?));
    match family {
        libc::AF_INET => {
            let octets: [u8; 4] = address.get(4..8)?.try_into().ok()?;
            Some(IpAddr::V4(Ipv4Addr::from(octets)))
        }
        libc::AF_INET6 => {
            let octets: [u8; 16] = address.get(8..24)?.try_into().ok()?;
            Some(IpAddr::V6(Ipv6Addr::from(octets)))
        }
        _ => None,
    }
}
