//! The network between the proxy and its peers, once a connection is established: it goes dark, answers by ICMP, is
//! taken away.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use handfast_lab::run::pause;
use handfast_lab::sockets::{Place, Rule};
use handfast_testkit::deadline::DEADLINE;
use handfast_testkit::ending::SocketEnd;

use crate::addresses::SERVICE;
use crate::case::{Case, case};
use crate::error::{CaseError, MustEnd, broken};
use crate::judge::connections;
use crate::program::{Program, reason};
use crate::setup::limits;
use crate::stage::{Stage, undisturbed};
use crate::subject::Subject;

const SOON: &str = "tcp-user-timeout = \"1s\"\ntcp-keepalive = \"1s\"";
const TOLD: &str = "both sides see an abort, and the log names the cause";

pub(super) const CASES: &[Case] = &[
    case(
        "backend-goes-dark",
        "relay",
        ("packets to the backend are dropped while data is in flight", TOLD),
        |stage| dark(stage, true, Rule::Drop, &["relay/backend/unacknowledged"]),
    )
    .with(limits(SOON)),
    case(
        "backend-goes-dark-idle",
        "relay",
        ("packets to the backend are dropped while neither side sends", TOLD),
        |stage| dark(stage, false, Rule::Drop, &["relay/backend/keepalive-unanswered"]),
    )
    .with(limits(SOON)),
    case(
        "icmp-in-tunnel",
        "relay",
        ("a router reports an unreachable host for an open connection", TOLD),
        |stage| dark(stage, true, Rule::Unreachable(1), &["relay/backend/host-unreachable"]),
    )
    .with(limits(SOON)),
    case(
        "icmp-passes-by",
        "relay",
        ("one ICMP host unreachable comes, and the path works again", "the connection goes on"),
        passes_by,
    ),
    case("reset-by-path", "relay", ("a firewall resets an open connection", TOLD), |stage| {
        dark(stage, true, Rule::Reset, &["relay/backend/reset"])
    }),
    case(
        "client-goes-dark",
        "relay",
        ("packets from and to the client are dropped while data is in flight", TOLD),
        client_dark,
    )
    .with(limits(SOON)),
    case(
        "socket-destroyed",
        "relay",
        ("an administrator destroys the socket to the backend (ss --kill)", TOLD),
        destroyed,
    ),
    case(
        "interface-down",
        "relay",
        (
            "the network interface goes down, and comes back",
            "its connections are aborted, the listener serves again",
        ),
        interface_down,
    )
    .with(limits(SOON)),
];

/// Waits until everything that was sent has been acknowledged: what comes then is another case.
fn settled(stage: &Stage) -> Result<(), CaseError> {
    stage.place.settle()?;
    // A delayed acknowledgement takes 40 ms at the most (Documentation/networking/ip-sysctl, TCP_DELACK_MIN).
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(100) {
        pause();
    }
    Ok(stage.place.settle()?)
}

fn dark(stage: &mut Stage, sends: bool, rule: Rule, reasons: &[&'static str]) -> Result<(), CaseError> {
    let (mut client, backend) = stage.pair()?;
    settled(stage)?;
    stage.place.path().forget();
    stage.place.path().rule(rule);
    if sends {
        client.try_send(b"into the dark")?;
    }
    let ending = client.ends();
    let ruled = stage.place.path().seen().ruled;
    stage.record_of(reasons)?;
    stage.place.path().rule(Rule::Pass);
    drop(backend);
    if ruled == 0 {
        return Err(CaseError::Lab("no packet reached the fault".to_owned()));
    }
    stage.happened(format!("{ruled} packets; the client received {}", ending));
    stage.expect(reasons);
    ending.must_abort("the client")
}

fn passes_by(stage: &mut Stage) -> Result<(), CaseError> {
    let (mut client, mut backend) = stage.pair()?;
    settled(stage)?;
    stage.place.path().forget();
    stage.place.path().rule(Rule::Unreachable(1));
    client.try_send(b"once more")?;
    let begun = Instant::now();
    while stage.place.path().seen().ruled == 0 {
        if begun.elapsed() > DEADLINE {
            return Err(CaseError::Lab("no packet reached the fault".to_owned()));
        }
        pause();
    }
    stage.place.path().rule(Rule::Pass);
    backend.expect(b"once more")?;
    backend.try_send(b"heard")?;
    client.expect(b"heard")?;
    stage.happened("one packet was answered by ICMP, and sent again");
    stage.finish(client, backend)
}

fn client_dark(stage: &mut Stage) -> Result<(), CaseError> {
    let (client, mut backend) = stage.pair()?;
    settled(stage)?;
    stage.place.path().watch(stage.client_at);
    stage.place.path().rule(Rule::Drop);
    backend.try_send(b"into the dark")?;
    let ending = backend.ends();
    let ruled = stage.place.path().seen().ruled;
    stage.record_of(&["relay/client/unacknowledged"])?;
    stage.place.path().watch(*stage.backend_at.ip());
    drop(client);
    if ruled == 0 {
        return Err(CaseError::Lab("no packet reached the fault".to_owned()));
    }
    stage.happened(format!("{ruled} packets; the backend received {}", ending));
    stage.expect(&["relay/client/unacknowledged"]);
    ending.must_abort("the backend")
}

fn destroyed(stage: &mut Stage) -> Result<(), CaseError> {
    let (mut client, backend) = stage.pair()?;
    let (Ok(SocketAddr::V4(from)), to) = (backend.stream.peer_addr(), stage.backend_at) else {
        return Err(CaseError::Lab("the backend's connection has no address".to_owned()));
    };
    stage.place.destroy(from, to)?;
    let ending = client.ends();
    stage.happened(format!("the kernel destroyed the socket {from} to {to}"));
    stage.expect(&["relay/local/destroyed"]);
    ending.must_abort("the client")
}

fn interface_down(stage: &mut Stage) -> Result<(), CaseError> {
    const EITHER: [&str; 6] = [
        "relay/backend/keepalive-unanswered",
        "relay/client/keepalive-unanswered",
        "relay/backend/unacknowledged",
        "relay/client/unacknowledged",
        "relay/backend/network-unreachable",
        "relay/client/network-unreachable",
    ];
    let (mut client, mut backend) = stage.pair()?;
    settled(stage)?;
    {
        let _fault = stage.place.without_interface()?;
        let _ = client.try_send(b"unread");
        undisturbed(&mut stage.bystander)?;
        // Its end reaches no peer while the interface is down: the log has it first.
        let begun = Instant::now();
        while !ended(stage.subject, &mut stage.program, &stage.place, &EITHER)? {
            if begun.elapsed() > DEADLINE {
                return broken("the interface is down, and no connection ended");
            }
            pause();
        }
    }
    stage.happened(format!("{SERVICE} had no interface, and got it back"));
    stage.expect(&EITHER);
    // The notification was lost with the interface: a peer that sends gets another one.
    let _ = (client.try_send(b"still there?"), backend.try_send(b"still there?"));
    let endings = (client.ends(), backend.ends());
    if endings.0.socket == SocketEnd::Fin || endings.1.socket == SocketEnd::Fin {
        return broken(format!("the client received {}, the backend {}", endings.0, endings.1));
    }
    Ok(())
}

/// Returns true if a connection has ended by now for one of these reasons; of other programs than Handfast, if it has
/// ended at all.
fn ended(
    subject: &Subject,
    program: &mut Option<Program>,
    place: &Place,
    reasons: &[&str],
) -> Result<bool, CaseError> {
    if !subject.is_logged {
        return Ok(connections(place)? == 0);
    }
    let mut records = program.iter_mut().flat_map(|program| program.records().iter());
    Ok(records.any(|record| reasons.contains(&reason(record).as_str())))
}
