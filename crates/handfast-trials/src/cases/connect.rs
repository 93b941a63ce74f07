//! Backends that cannot be reached, or that are not what they should be.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use handfast_lab::netlink::Way;
use handfast_lab::sockets::HERE;
use handfast_lab::sockets::Rule;
use handfast_testkit::client::dial_from;
use handfast_testkit::connection::Connection;
use handfast_testkit::deadline::DEADLINE;
use handfast_testkit::ending::SocketEnd;

use crate::backend::Manner;
use crate::case::{Case, case};
use crate::error::{CaseError, MustEnd, broken};
use crate::http;
use crate::mode::Mode;
use crate::setup::limits;
use crate::stage::Stage;

const QUICK: &str = "connect = \"1s\"";
const NO_TLS: &str = "the proxy begins no TLS with backends";
const TOLD: &str = "the client sees a failure and no clean end, and the log names the cause";

pub(super) const CASES: &[Case] = &[
    case("backend-refuses", "connect", ("no process listens at the backend's address", TOLD), refuses),
    case("connect-dropped", "connect", ("every packet to the backend is dropped", TOLD), |stage| {
        ruled(stage, Rule::Drop, &["connect/backend/connect-timeout"])
    })
    .with(limits(QUICK)),
    case("connect-reset", "connect", ("a firewall answers with a reset", TOLD), |stage| {
        ruled(stage, Rule::Reset, &["connect/backend/refused"])
    }),
    case("icmp-network", "connect", ("a router reports an unreachable network", TOLD), |stage| {
        ruled(stage, Rule::Unreachable(0), &["connect/backend/network-unreachable"])
    }),
    case("icmp-host", "connect", ("a router reports an unreachable host", TOLD), |stage| {
        ruled(stage, Rule::Unreachable(1), &["connect/backend/host-unreachable"])
    }),
    case("icmp-port", "connect", ("the host reports an unreachable port", TOLD), |stage| {
        ruled(stage, Rule::Unreachable(3), &["connect/backend/refused"])
    }),
    case("icmp-prohibited", "connect", ("a firewall reports that it is prohibited", TOLD), |stage| {
        ruled(stage, Rule::Unreachable(13), &["connect/backend/prohibited"])
    }),
    case(
        "route-unreachable",
        "connect",
        ("this machine's route is of the kind unreachable", TOLD),
        |stage| routed(stage, Way::Unreachable, &["connect/backend/host-unreachable"]),
    ),
    case("route-prohibited", "connect", ("this machine's route is of the kind prohibited", TOLD), |stage| {
        routed(stage, Way::Prohibited, &["connect/backend/prohibited"])
    }),
    case("route-blackhole", "connect", ("this machine's route is of the kind blackhole", TOLD), |stage| {
        routed(stage, Way::Blackhole, &["connect/backend/network-unreachable"])
    }),
    case("backlog-full", "connect", ("the backend's queue of new connections is full", TOLD), backlog_full)
        .with(limits(QUICK)),
    case("ports-exhausted", "connect", ("this machine has no source port left", TOLD), ports),
    case("backend-resets-at-once", "connect", ("the backend accepts and resets", TOLD), |stage| {
        behaves(stage, Manner::Resets, &["connect/backend/reset", "relay/backend/reset"])
    }),
    case("backend-closes-at-once", "connect", ("the backend accepts and closes", TOLD), |stage| {
        // In plain HTTP it fails where a response is due.
        let relay = ["relay/backend/closed-early", "relay/backend/reset"];
        let connect = ["connect/backend/closed-early", "connect/backend/reset"];
        behaves(stage, Manner::Closes, if stage.mode == Mode::HttpUpgrade { &relay } else { &connect })
    })
    .only(
        |mode| mode.originates() || mode.is_http() || mode.name() == "starttls-in",
        "an end without data is a complete answer",
    ),
    case(
        "backend-silent",
        "connect",
        ("the backend accepts, and sends nothing before or in TLS", TOLD),
        |stage| {
            let late = ["connect/backend/connect-timeout", "connect/backend/handshake-timeout"];
            behaves(stage, Manner::Silent, &late)
        },
    )
    .only(|mode| mode.originates() || mode.name() == "starttls-in", "a silent backend is no fault there")
    .with(limits("connect = \"1s\"\nhandshake = \"2s\"")),
    case("backend-not-tls", "connect", ("the backend answers a ClientHello with HTTP", TOLD), |stage| {
        // Asked for TLS in a protocol, it answers in none.
        let cause = ["connect/backend/not-tls", "connect/backend/starttls"];
        let named = &cause[usize::from(stage.mode == Mode::StarttlsOut)..][..1];
        behaves(stage, Manner::Babbles, named)
    })
    .only(Mode::originates, NO_TLS),
    case("backend-refuses-tls", "connect", ("the backend refuses the request for TLS", TOLD), |stage| {
        behaves(stage, Manner::SaysNo, &["connect/backend/starttls-refused"])
    })
    .only(|mode| matches!(mode, Mode::StarttlsOut), "the backend is not asked for TLS"),
    case("backend-injects", "connect", ("plain text follows the backend's yes to TLS", TOLD), |stage| {
        behaves(stage, Manner::Injects, &["connect/backend/plaintext-injected"])
    })
    .only(|mode| matches!(mode, Mode::StarttlsOut), "the backend is not asked for TLS"),
    case(
        "backend-frozen",
        "connect",
        (
            "the backend accepts no connection for a second (its process is stopped), then continues",
            "clients that came meanwhile are served then",
        ),
        frozen,
    ),
    case(
        "another-backend",
        "connect",
        ("the first of two backends refuses", "every client is served by the other one"),
        another,
    )
    .with(crate::setup::Setup { backend: "[\"127.0.0.1:1\", \"BACKEND\"]", ..crate::setup::USUAL }),
];

/// A client that cannot be served: it may see its handshake end or not, but never a clean end after it.
pub(super) fn in_vain(stage: &Stage) -> Result<String, CaseError> {
    if stage.mode.is_http() {
        return answered(stage.client()?);
    }
    let outcome = stage.client();
    let ending = match outcome {
        Ok(mut client) => {
            // Unread data would turn any end into a reset: a client that begins without TLS sends nothing, and so sees the real end.
            if stage.mode.client_tls() {
                // It may have ended by now.
                let _ = client.try_send(b"question");
            }
            client.ends()
        }
        Err(CaseError::Broken(why)) => return Ok(why),
        Err(other) => return Err(other),
    };
    if ending.socket == SocketEnd::Open {
        return broken("the client was not notified");
    }
    if ending.is_clean() && ending.bytes.is_empty() {
        return broken(format!("the client received {}: a clean end", ending));
    }
    Ok(ending.to_string())
}

/// The same for a request: its failure is a response, and the client's connection ends as the client requests.
pub(super) fn answered(mut client: Connection) -> Result<String, CaseError> {
    // All of the response is of interest, and no tunnel begins.
    client.keep_switch();
    let response = http::response(&mut client)?;
    if !(502..=504).contains(&response.status) {
        return broken(format!("the client received {:?}", response.head));
    }
    client.close();
    client.ends().must_be_clean("the client")?;
    Ok(format!("status {}", response.status))
}

fn refuses(stage: &mut Stage) -> Result<(), CaseError> {
    drop(stage.backend.take());
    let ending = in_vain(stage)?;
    stage.happened(format!("the port was closed; the client received: {ending}"));
    stage.expect(&["connect/backend/refused"]);
    stage.record_of(&["connect/backend/refused"])?;
    stage.open_backend()
}

/// Tests a rule of the path for packets to the backend.
fn ruled(stage: &mut Stage, rule: Rule, reasons: &[&'static str]) -> Result<(), CaseError> {
    stage.place.path().forget();
    stage.place.path().rule(rule);
    let ending = in_vain(stage)?;
    let ruled = stage.place.path().seen().ruled;
    if ruled == 0 {
        return Err(CaseError::Lab("no packet reached the fault".to_owned()));
    }
    stage.record_of(reasons)?;
    stage.happened(format!("{ruled} packets; the client received: {ending}"));
    stage.expect(reasons);
    stage.place.path().rule(Rule::Pass);
    Ok(())
}

/// A route of this machine that leads to no backend.
fn routed(stage: &mut Stage, way: Way, reasons: &[&'static str]) -> Result<(), CaseError> {
    let to = stage.backend_at;
    {
        let _fault = stage.place.with_route((*to.ip()).into(), way)?;
        let tried = stage.place.here(|| TcpStream::connect_timeout(&SocketAddr::V4(to), DEADLINE).err())?;
        if tried.is_none() {
            return Err(CaseError::Lab("the route does not block the connection".to_owned()));
        }
        in_vain(stage)?;
    }
    stage.happened("another program could not connect either");
    stage.expect(reasons);
    stage.record_of(reasons).map(drop)
}

fn backlog_full(stage: &mut Stage) -> Result<(), CaseError> {
    const WAITING: usize = 4;
    let to = stage.backend_at;
    let backend = stage.backend()?;
    backend.hold(true);
    backend.backlog(0)?;
    let fill = || {
        let soon = Duration::from_millis(300);
        (0..WAITING).map(|_| TcpStream::connect_timeout(&SocketAddr::V4(to), soon)).collect::<Vec<_>>()
    };
    let filling = stage.place.there(fill)?;
    let full = filling.iter().filter(|tried| tried.is_err()).count();
    if full == 0 {
        return Err(CaseError::Lab("the queue did not fill".to_owned()));
    }
    in_vain(stage)?;
    stage.happened(format!("{full} of {WAITING} others could not connect either"));
    stage.record_of(&["connect/backend/connect-timeout"])?;
    stage.expect(&["connect/backend/connect-timeout"]);
    drop(filling);
    let backend = stage.backend()?;
    backend.backlog(128)?;
    backend.hold(false);
    Ok(())
}

fn ports(stage: &mut Stage) -> Result<(), CaseError> {
    let to = stage.backend_at;
    {
        let _fault = stage.place.with_ports(40_000, 40_001)?;
        let dial =
            || (0..3).map(|_| TcpStream::connect_timeout(&SocketAddr::V4(to), DEADLINE)).collect::<Vec<_>>();
        let held = stage.place.here(dial)?;
        if held[2].is_ok() {
            return Err(CaseError::Lab("there are more ports than there should be".to_owned()));
        }
        in_vain(stage)?;
    }
    stage.happened("two connections took the only two ports");
    stage.expect(&["connect/local/out-of-ports"]);
    stage.record_of(&["connect/local/out-of-ports"]).map(drop)
}

fn behaves(stage: &mut Stage, manner: Manner, reasons: &[&'static str]) -> Result<(), CaseError> {
    let accepted = stage.backend()?.accepted();
    stage.backend()?.behave(manner);
    let ending = in_vain(stage)?;
    let reached = stage.backend()?.accepted() - accepted;
    stage.backend()?.behave(Manner::Good);
    if reached == 0 {
        return Err(CaseError::Lab("no connection reached the backend".to_owned()));
    }
    stage.happened(format!("{reached} connections reached it; the client received: {ending}"));
    stage.expect(reasons);
    stage.record_of(reasons).map(drop)
}

fn frozen(stage: &mut Stage) -> Result<(), CaseError> {
    const FROZEN: Duration = Duration::from_secs(1);
    stage.backend()?.hold(true);
    let stream = stage.ready()?;
    stage.echoes()?;
    let (client, backend) = std::thread::scope(|scope| {
        // The handshake may have to wait for the backend.
        let thaw = std::thread::Builder::new().spawn_scoped(scope, || {
            let mut nothing: [rustix::event::PollFd<'_>; 0] = [];
            let _ = rustix::event::poll(&mut nothing, rustix::time::Timespec::try_from(FROZEN).ok().as_ref());
        });
        let thaw = thaw.map_err(crate::error::lab("start a thread"))?;
        if stage.mode.backend_tls() || stage.mode == Mode::StarttlsIn {
            let _ = thaw.join();
            stage.backend()?.hold(false);
            stage.joined(stage.secured(stream, false)?)
        } else {
            let mut client = stage.secured(stream, false)?;
            client.try_send(b"early")?;
            let _ = thaw.join();
            stage.backend()?.hold(false);
            let mut backend = stage.backend()?.next()?;
            backend.expect(b"early")?;
            Ok((client, backend))
        }
    })?;
    stage.happened("a second without accept(2)");
    stage.finish(client, backend)
}

fn another(stage: &mut Stage) -> Result<(), CaseError> {
    const TIMES: usize = 5;
    let nobody = std::net::SocketAddr::from((std::net::Ipv4Addr::LOCALHOST, 1));
    let refused = stage.place.here(|| dial_from(HERE.into(), nobody).is_err())?;
    if !refused {
        return Err(CaseError::Lab("a process listens on port 1".to_owned()));
    }
    for _ in 0..TIMES {
        stage.serve()?;
    }
    stage.happened(format!("{TIMES} clients, one backend that refuses"));
    stage.expect(&["finished"]);
    Ok(())
}
