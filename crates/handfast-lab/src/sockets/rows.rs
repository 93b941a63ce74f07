//! The rows of the matrix: what happens to a connection, and what Handfast should call it.
//!
//! Data only; how an event is made is in `stage.rs`. Long timeouts of the kernel are shortened by socket options, which each
//! row states, so that the whole matrix takes seconds.

use std::time::Duration;

use handfast_net::fault::Cause;

use super::outcome::Operation;
use super::peer::Family;
use crate::netlink::Way;

/// TCP_USER_TIMEOUT of the rows that set it.
pub(super) const USER_TIMEOUT: Duration = Duration::from_millis(500);
/// Keep-alive: idle time, and time between probes. The kernel counts in seconds.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(1);
/// Time that a row waits if no report is expected.
pub(super) const QUIET: Duration = Duration::from_secs(1);
/// Time that a row waits if it ends automatically; only a machine under heavy load needs this long.
pub(super) const ROW_TIMEOUT: Duration = Duration::from_secs(30);

/// The code of ICMP that asks for smaller packets, in IPv4.
const FRAGMENTATION_NEEDED: u8 = 4;

/// Event of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// There is no listener.
    NobodyListens,
    /// There is no unix socket at the path.
    PathAbsent,
    /// The peer closes.
    PeerCloses,
    /// The peer closes with bytes of ours unread.
    PeerClosesUnread,
    /// The peer ends its direction.
    PeerHalfCloses,
    /// The peer resets.
    PeerResets,
    /// The peer sends bytes, then resets.
    PeerResetsBehindData,
    /// The listener closes with connections in its queue.
    ListenerCloses,
    /// The queue of the listener is full.
    BacklogFull,
    /// The peer reads nothing any more.
    ZeroWindow,
    /// The peer reads nothing any more, then every packet is dropped.
    ZeroWindowVanishes,
    /// Every packet is dropped.
    Vanishes,
    /// Something on the path answers with a reset.
    PathResets,
    /// A router reports it by ICMP: destination unreachable with this code.
    Icmp(u8),
    /// Our interface is switched off.
    InterfaceDown,
    /// Our route is taken away.
    RouteRemoved,
    /// A route refuses.
    Refusing(Way),
    /// An administrator destroys our socket.
    Destroyed,
    /// The process has no descriptor left.
    FileLimit,
    /// There is no source port left.
    PortsExhausted,
}

/// Socket options of a row, and whether this side has sent data that is never acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    /// TCP_USER_TIMEOUT.
    pub(super) user_timeout: bool,
    /// SO_KEEPALIVE and its times.
    pub(super) keep_alive: bool,
    /// IP_RECVERR.
    pub(super) report_icmp: bool,
    /// Bytes of ours are on their way when the event happens.
    pub(super) in_flight: bool,
}

const NONE: Options =
    Options { user_timeout: false, keep_alive: false, report_icmp: false, in_flight: false };
const IN_FLIGHT: Options = Options { in_flight: true, ..NONE };
const USER: Options = Options { user_timeout: true, ..IN_FLIGHT };
const REPORTED: Options = Options { report_icmp: true, ..IN_FLIGHT };

/// One row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    /// Its name: kebab-case, stable.
    pub(super) name: &'static str,
    /// Description of the event, in a sentence.
    pub(super) description: &'static str,
    /// Event that is made.
    pub(super) event: Event,
    /// To a peer of this family.
    pub(super) family: Family,
    /// With these options.
    pub(super) options: Options,
    /// Causes that name what happened: of connect, and of what comes later.
    pub(super) causes: (&'static [Cause], &'static [Cause]),
}

const fn row(
    name: &'static str,
    description: &'static str,
    event: Event,
    options: Options,
    causes: (&'static [Cause], &'static [Cause]),
) -> Row {
    Row { name, description, event, family: Family::V4, options, causes }
}

/// The same of another family.
const fn of(family: Family, row: Row) -> Row {
    Row { family, ..row }
}

/// Every row, in the order of the table.
pub(super) const ROWS: &[Row] = &[
    row(
        "nobody-listens",
        "no process listens on the port: the peer's kernel answers with a reset",
        Event::NobodyListens,
        NONE,
        (&[Cause::Refused], &[]),
    ),
    row(
        "peer-closes",
        "the peer closes and has read everything",
        Event::PeerCloses,
        NONE,
        (&[], &[Cause::ClosedEarly]),
    ),
    row(
        "peer-closes-unread",
        "the peer closes while bytes of ours are unread: its kernel resets",
        Event::PeerClosesUnread,
        NONE,
        (&[], &[Cause::Reset]),
    ),
    row(
        "peer-half-closes",
        "the peer ends its direction by shutdown(2)",
        Event::PeerHalfCloses,
        NONE,
        (&[], &[]),
    ),
    row(
        "peer-resets",
        "the peer resets (SO_LINGER 0, then close)",
        Event::PeerResets,
        NONE,
        (&[Cause::Reset], &[Cause::Reset]),
    ),
    row(
        "peer-resets-behind-data",
        "the peer sends 5 bytes, then resets",
        Event::PeerResetsBehindData,
        NONE,
        (&[Cause::Reset], &[Cause::Reset]),
    ),
    row(
        "listener-closed",
        "the listener closes while the connection waits in its queue",
        Event::ListenerCloses,
        NONE,
        (&[Cause::Reset], &[Cause::Reset]),
    ),
    row(
        "backlog-full",
        "the queue of the listener is full",
        Event::BacklogFull,
        NONE,
        (&[Cause::BacklogFull], &[]),
    ),
    row(
        "zero-window",
        "the peer reads nothing, its buffer and ours are full",
        Event::ZeroWindow,
        NONE,
        (&[], &[]),
    ),
    row(
        "zero-window-user-timeout",
        "the peer reads nothing, its buffer and ours are full, with TCP_USER_TIMEOUT",
        Event::ZeroWindow,
        Options { in_flight: false, ..USER },
        (&[], &[Cause::ZeroWindow]),
    ),
    row(
        "zero-window-vanishes",
        "the peer reads nothing, its buffer and ours are full, then every packet is dropped, with TCP_USER_TIMEOUT",
        Event::ZeroWindowVanishes,
        Options { in_flight: false, ..USER },
        (&[], &[Cause::Unacknowledged]),
    ),
    row(
        "vanishes",
        "every packet is dropped, with bytes of ours on their way",
        Event::Vanishes,
        IN_FLIGHT,
        (&[Cause::ConnectTimedOut], &[Cause::Unacknowledged]),
    ),
    row(
        "user-timeout",
        "every packet is dropped, with bytes of ours on their way and TCP_USER_TIMEOUT",
        Event::Vanishes,
        USER,
        (&[Cause::ConnectTimedOut], &[Cause::Unacknowledged]),
    ),
    row(
        "keep-alive",
        "every packet is dropped on an idle connection with keep-alive",
        Event::Vanishes,
        Options { keep_alive: true, ..NONE },
        (&[], &[Cause::KeepaliveUnanswered]),
    ),
    row(
        "keep-alive-user-timeout",
        "every packet is dropped on an idle connection with keep-alive and TCP_USER_TIMEOUT, as Handfast sets both",
        Event::Vanishes,
        Options { keep_alive: true, user_timeout: true, ..NONE },
        // A side that writes has unacknowledged data before keep-alive notices.
        (&[], &[Cause::KeepaliveUnanswered, Cause::Unacknowledged]),
    ),
    row(
        "keep-alive-in-flight",
        "every packet is dropped with keep-alive, and with bytes of ours on their way",
        Event::Vanishes,
        Options { keep_alive: true, ..IN_FLIGHT },
        (&[], &[Cause::KeepaliveUnanswered]),
    ),
    row(
        "reset-by-path",
        "a firewall answers what we send with a reset",
        Event::PathResets,
        IN_FLIGHT,
        (&[Cause::Refused], &[Cause::Reset]),
    ),
    icmp("icmp-net", "ICMP network unreachable (code 0) answers us", 0, IN_FLIGHT),
    icmp("icmp-host", "ICMP host unreachable (code 1) answers us", 1, IN_FLIGHT),
    icmp("icmp-protocol", "ICMP protocol unreachable (code 2) answers us", 2, IN_FLIGHT),
    icmp("icmp-port", "ICMP port unreachable (code 3) answers us", 3, IN_FLIGHT),
    icmp("icmp-frag-needed", "ICMP fragmentation needed (code 4) answers whatever we send", 4, IN_FLIGHT),
    icmp("icmp-net-prohibited", "ICMP network prohibited (code 9) answers us", 9, IN_FLIGHT),
    icmp("icmp-host-prohibited", "ICMP host prohibited (code 10) answers us", 10, IN_FLIGHT),
    icmp("icmp-admin", "ICMP administratively prohibited (code 13) answers us", 13, IN_FLIGHT),
    icmp("icmp-net-user-timeout", "as icmp-net, with TCP_USER_TIMEOUT", 0, USER),
    icmp("icmp-host-user-timeout", "as icmp-host, with TCP_USER_TIMEOUT", 1, USER),
    icmp("icmp-protocol-user-timeout", "as icmp-protocol, with TCP_USER_TIMEOUT", 2, USER),
    icmp("icmp-port-user-timeout", "as icmp-port, with TCP_USER_TIMEOUT", 3, USER),
    icmp("icmp-frag-needed-user-timeout", "as icmp-frag-needed, with TCP_USER_TIMEOUT", 4, USER),
    icmp("icmp-admin-user-timeout", "as icmp-admin, with TCP_USER_TIMEOUT", 13, USER),
    icmp("icmp-host-reported", "as icmp-host, with IP_RECVERR", 1, REPORTED),
    icmp("icmp-port-reported", "as icmp-port, with IP_RECVERR", 3, REPORTED),
    icmp("icmp-frag-needed-reported", "as icmp-frag-needed, with IP_RECVERR", 4, REPORTED),
    icmp("icmp-admin-reported", "as icmp-admin, with IP_RECVERR", 13, REPORTED),
    row(
        "interface-down",
        "our interface is switched off, with bytes of ours on their way and TCP_USER_TIMEOUT",
        Event::InterfaceDown,
        USER,
        (&[Cause::NetworkUnreachable], &[Cause::NetworkUnreachable]),
    ),
    row(
        "route-removed",
        "our route to the peer is deleted, with bytes of ours on their way and TCP_USER_TIMEOUT",
        Event::RouteRemoved,
        USER,
        (&[Cause::NetworkUnreachable], &[Cause::NetworkUnreachable]),
    ),
    row(
        "route-unreachable",
        "a route of kind `unreachable` leads to the peer",
        Event::Refusing(Way::Unreachable),
        NONE,
        (&[Cause::HostUnreachable], &[]),
    ),
    row(
        "route-prohibit",
        "a route of kind `prohibit` leads to the peer",
        Event::Refusing(Way::Prohibited),
        NONE,
        (&[Cause::Prohibited], &[]),
    ),
    row(
        "route-blackhole",
        "a route of kind `blackhole` leads to the peer",
        Event::Refusing(Way::Blackhole),
        NONE,
        (&[Cause::NetworkUnreachable], &[]),
    ),
    row(
        "destroyed",
        "an administrator destroys our socket (SOCK_DESTROY, `ss --kill`)",
        Event::Destroyed,
        NONE,
        (&[Cause::Destroyed], &[Cause::Destroyed]),
    ),
    row(
        "file-limit",
        "the process has no file descriptor left (RLIMIT_NOFILE)",
        Event::FileLimit,
        NONE,
        (&[Cause::OutOfFiles], &[Cause::OutOfFiles]),
    ),
    row(
        "ports-exhausted",
        "every source port is in use towards the peer",
        Event::PortsExhausted,
        NONE,
        (&[Cause::OutOfPorts], &[]),
    ),
    of(
        Family::V6,
        row(
            "v6-nobody-listens",
            "IPv6: no process listens on the port: the peer's kernel answers with a reset",
            Event::NobodyListens,
            NONE,
            (&[Cause::Refused], &[]),
        ),
    ),
    of(
        Family::V6,
        row(
            "v6-vanishes",
            "IPv6: every packet is dropped, with bytes of ours on their way",
            Event::Vanishes,
            IN_FLIGHT,
            (&[Cause::ConnectTimedOut], &[Cause::Unacknowledged]),
        ),
    ),
    of(
        Family::V6,
        row(
            "v6-user-timeout",
            "IPv6: every packet is dropped, with bytes of ours on their way and TCP_USER_TIMEOUT",
            Event::Vanishes,
            USER,
            (&[Cause::ConnectTimedOut], &[Cause::Unacknowledged]),
        ),
    ),
    of(
        Family::V6,
        row(
            "v6-reset-by-path",
            "IPv6: a firewall answers what we send with a reset",
            Event::PathResets,
            IN_FLIGHT,
            (&[Cause::Refused], &[Cause::Reset]),
        ),
    ),
    icmp_v6("v6-icmp-no-route", "ICMPv6 no route to destination (code 0) answers us", 0, IN_FLIGHT),
    icmp_v6("v6-icmp-admin", "ICMPv6 administratively prohibited (code 1) answers us", 1, IN_FLIGHT),
    icmp_v6("v6-icmp-address", "ICMPv6 address unreachable (code 3) answers us", 3, IN_FLIGHT),
    icmp_v6("v6-icmp-port", "ICMPv6 port unreachable (code 4) answers us", 4, IN_FLIGHT),
    icmp_v6("v6-icmp-policy", "ICMPv6 source address failed policy (code 5) answers us", 5, IN_FLIGHT),
    icmp_v6("v6-icmp-reject-route", "ICMPv6 reject route to destination (code 6) answers us", 6, IN_FLIGHT),
    icmp_v6("v6-icmp-no-route-user-timeout", "as v6-icmp-no-route, with TCP_USER_TIMEOUT", 0, USER),
    icmp_v6("v6-icmp-admin-user-timeout", "as v6-icmp-admin, with TCP_USER_TIMEOUT", 1, USER),
    icmp_v6("v6-icmp-address-user-timeout", "as v6-icmp-address, with TCP_USER_TIMEOUT", 3, USER),
    icmp_v6("v6-icmp-port-user-timeout", "as v6-icmp-port, with TCP_USER_TIMEOUT", 4, USER),
    of(
        Family::V6,
        row(
            "v6-route-unreachable",
            "IPv6: a route of kind `unreachable` leads to the peer",
            Event::Refusing(Way::Unreachable),
            NONE,
            (&[Cause::HostUnreachable], &[]),
        ),
    ),
    of(
        Family::V6,
        row(
            "v6-route-prohibit",
            "IPv6: a route of kind `prohibit` leads to the peer",
            Event::Refusing(Way::Prohibited),
            NONE,
            (&[Cause::Prohibited], &[]),
        ),
    ),
    of(
        Family::V6,
        row(
            "v6-route-blackhole",
            "IPv6: a route of kind `blackhole` leads to the peer",
            Event::Refusing(Way::Blackhole),
            NONE,
            (&[Cause::NetworkUnreachable], &[]),
        ),
    ),
    of(
        Family::Unix,
        row(
            "unix-nobody-listens",
            "unix socket: the path exists, and no process listens",
            Event::NobodyListens,
            NONE,
            (&[Cause::Refused], &[]),
        ),
    ),
    of(
        Family::Unix,
        row(
            "unix-path-absent",
            "unix socket: the path does not exist",
            Event::PathAbsent,
            NONE,
            (&[Cause::PathMissing], &[]),
        ),
    ),
    of(
        Family::Unix,
        row(
            "unix-backlog-full",
            "unix socket: the queue of the listener is full",
            Event::BacklogFull,
            NONE,
            (&[Cause::BacklogFull], &[]),
        ),
    ),
    of(
        Family::Unix,
        row(
            "unix-peer-closes",
            "unix socket: the peer closes and has read everything",
            Event::PeerCloses,
            NONE,
            (&[], &[Cause::ClosedEarly]),
        ),
    ),
    of(
        Family::Unix,
        row(
            "unix-peer-closes-unread",
            "unix socket: the peer closes while bytes of ours are unread",
            Event::PeerClosesUnread,
            NONE,
            (&[], &[Cause::Reset]),
        ),
    ),
    of(
        Family::Unix,
        row(
            "unix-peer-half-closes",
            "unix socket: the peer ends its direction by shutdown(2)",
            Event::PeerHalfCloses,
            NONE,
            (&[], &[]),
        ),
    ),
];

/// A row about one ICMP message.
const fn icmp(name: &'static str, description: &'static str, code: u8, options: Options) -> Row {
    let causes: (&[Cause], &[Cause]) = match code {
        0 => (&[Cause::NetworkUnreachable], &[Cause::NetworkUnreachable]),
        1 => (&[Cause::HostUnreachable], &[Cause::HostUnreachable]),
        3 => (&[Cause::Refused], &[Cause::PortUnreachable]),
        // A router that returns everything as too large is as good as one that drops everything.
        4 => (&[Cause::ConnectTimedOut], &[Cause::Unacknowledged]),
        _ => (&[Cause::Prohibited], &[Cause::Prohibited]),
    };
    row(name, description, Event::Icmp(code), options, causes)
}

/// A row about one ICMPv6 message, destination unreachable. Its codes are in RFC 4443 section 3.1.
const fn icmp_v6(name: &'static str, description: &'static str, code: u8, options: Options) -> Row {
    let causes: (&[Cause], &[Cause]) = match code {
        0 => (&[Cause::NetworkUnreachable], &[Cause::NetworkUnreachable]),
        3 => (&[Cause::HostUnreachable], &[Cause::HostUnreachable]),
        4 => (&[Cause::Refused], &[Cause::PortUnreachable]),
        _ => (&[Cause::Prohibited], &[Cause::Prohibited]),
    };
    of(Family::V6, row(name, description, Event::Icmp(code), options, causes))
}

impl Row {
    /// The row of this name.
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        ROWS.iter().find(|row| row.name == name)
    }

    /// Its socket options, in words.
    pub(super) fn settings(&self) -> String {
        let mut set = Vec::new();
        if self.options.user_timeout {
            set.push(format!("TCP_USER_TIMEOUT {} ms", USER_TIMEOUT.as_millis()));
        }
        if self.options.keep_alive {
            let seconds = KEEP_ALIVE.as_secs();
            set.push(format!(
                "SO_KEEPALIVE, TCP_KEEPIDLE {seconds} s, TCP_KEEPINTVL {seconds} s, TCP_KEEPCNT 1"
            ));
        }
        if self.options.report_icmp {
            set.push("IP_RECVERR".into());
        }
        set.join(", ")
    }

    /// Reason why there is no such case; `None`: there is.
    pub(super) fn does_not_apply(&self, operation: Operation) -> Option<&'static str> {
        match operation {
            Operation::Connect => self.not_at_connect(),
            Operation::Accept => self.not_at_accept(),
            Operation::Read | Operation::Write | Operation::Shutdown | Operation::Close | Operation::Poll => {
                self.not_when_established()
            }
        }
    }

    fn not_at_connect(&self) -> Option<&'static str> {
        match self.event {
            Event::PeerClosesUnread => {
                Some("before connect has returned, we have sent nothing that could be unread")
            }
            Event::ZeroWindow | Event::ZeroWindowVanishes => {
                Some("a window is full only when something was written")
            }
            Event::Vanishes if self.options.keep_alive => {
                Some("keep-alive runs on established connections only")
            }
            _ => None,
        }
    }

    fn not_at_accept(&self) -> Option<&'static str> {
        match self.event {
            Event::NobodyListens | Event::PathAbsent => {
                Some("without a listener there is nothing to accept from")
            }
            Event::PeerClosesUnread => {
                Some("before accept has returned, we have sent nothing that could be unread")
            }
            Event::ZeroWindow | Event::ZeroWindowVanishes => {
                Some("a window is full only when something was written")
            }
            Event::Vanishes if self.options.user_timeout => {
                Some("a connection in the queue has nothing in flight, so its timeout does not run")
            }
            Event::Vanishes if self.options.keep_alive => {
                Some("nothing tells of a connection in the queue before it is accepted")
            }
            Event::Refusing(_) => Some("the connection stood before the route did; see route-removed"),
            Event::PortsExhausted => Some("accept takes no source port"),
            _ => None,
        }
    }

    fn not_when_established(&self) -> Option<&'static str> {
        match self.event {
            Event::NobodyListens | Event::PathAbsent => Some("the connection was never established"),
            Event::BacklogFull => Some("the connection was never established"),
            Event::Refusing(_) => Some("the connection was never established; see route-removed"),
            Event::FileLimit => Some("it takes no descriptor"),
            Event::PortsExhausted => Some("it takes no source port"),
            _ => None,
        }
    }

    /// Returns true if the event is known here as soon as its packets have arrived, so that nothing has to be waited for by the clock.
    pub(super) fn is_prompt(&self) -> bool {
        match self.event {
            Event::Icmp(code) => self.options.report_icmp && code != FRAGMENTATION_NEEDED,
            Event::Vanishes
            | Event::ZeroWindow
            | Event::ZeroWindowVanishes
            | Event::InterfaceDown
            | Event::RouteRemoved => false,
            _ => true,
        }
    }

    /// Returns true if the row's own options end the connection after a while.
    pub(super) fn ends(&self) -> bool {
        self.options.user_timeout || self.options.keep_alive && !self.options.in_flight
    }

    /// Time for which the experiment waits for a notification.
    pub(super) fn timeout(&self) -> Duration {
        if self.options.keep_alive {
            // It takes two of these, or does not run.
            5 * KEEP_ALIVE
        } else if self.ends() || self.is_prompt() {
            ROW_TIMEOUT
        } else {
            QUIET
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_names_of_their_own_and_some_case() {
        let names: std::collections::HashSet<_> = ROWS.iter().map(|row| row.name).collect();
        assert_eq!(names.len(), ROWS.len());
        for row in ROWS {
            let cases = Operation::ALL.iter().filter(|operation| row.does_not_apply(**operation).is_none());
            assert!(cases.count() > 0, "{}", row.name);
            assert_eq!(Row::named(row.name).map(|found| found.name), Some(row.name));
        }
    }
}
