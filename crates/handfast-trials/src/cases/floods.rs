//! Floods of what a peer may send once or twice: changes of keys, requests to renegotiate, warnings. On either leg, in the handshake and
//! in the tunnel.

use std::time::Duration;

use handfast_testkit::connection::Connection;
use handfast_testkit::ending::Ending;
use handfast_testkit::ending::SocketEnd;
use handfast_testkit::pattern::piece;

use super::connect::answered;
use super::hello::first_flight;
use crate::backend::Manner;
use crate::case::{Case, case};
use crate::error::{CaseError, MustEnd, broken};
use crate::forge::{Kind, Version};
use crate::forger::Forger;
use crate::http::{before_backend, before_client};
use crate::mode::Mode;
use crate::stage::Stage;

/// The number of each.
const FLOOD_COUNT: usize = 10_000;
/// CPU that a flood may take, on however slow a machine.
const CALM: Duration = Duration::from_secs(2);
const NOT_OURS: &str = "the proxy does not speak TLS there";
const ENDED: &str = "the end, named; an abort for the other side, and the CPU stays calm";

/// user_canceled, the one warning that TLS 1.3 knows (RFC 9846 §6).
const WARNING: [u8; 2] = [1, 90];
const WARNING_IN_THE_CLEAR: [u8; 7] = [0x15, 3, 3, 0, 2, 1, 90];
/// `change_cipher_spec`, which TLS 1.3 ignores, once (RFC 9846 §5).
const CHANGE_CIPHER_SPEC: [u8; 6] = [0x14, 3, 3, 0, 1, 1];
/// HelloRequest (RFC 5246 §7.4.1.1).
const HELLO_REQUEST: [u8; 4] = [0; 4];
const HELLO_REQUEST_IN_THE_CLEAR: [u8; 9] = [0x16, 3, 3, 0, 4, 0, 0, 0, 0];

pub(super) const CASES: &[Case] = &[
    case(
        "key-updates-with-data",
        "relay",
        ("the client changes its keys before each of 100 bytes", "every byte arrives, in order"),
        updates_with_data,
    )
    .only(Mode::terminates, NOT_OURS),
    case(
        "key-update-flood-by-client",
        "relay",
        ("the client changes its keys 10,000 times", ENDED),
        |stage| by_client(stage, Version::Tls13, key_update),
    )
    .only(Mode::terminates, NOT_OURS),
    case(
        "key-update-flood-by-backend",
        "relay",
        ("the backend changes its keys 10,000 times", ENDED),
        |stage| by_backend(stage, Version::Tls13, key_update),
    )
    .only(Mode::originates, NOT_OURS),
    case(
        "renegotiation-by-client",
        "relay",
        ("a client of TLS 1.2 requests 10,000 new handshakes (renegotiation)", ENDED),
        |stage| by_client(stage, Version::Tls12, hello_again),
    )
    .only(Mode::terminates, NOT_OURS),
    case(
        "renegotiation-by-backend",
        "relay",
        ("a backend of TLS 1.2 requests 10,000 new handshakes (HelloRequest)", ENDED),
        |stage| by_backend(stage, Version::Tls12, hello_request),
    )
    .only(Mode::originates, NOT_OURS),
    case("alert-flood-by-client", "relay", ("the client sends 10,000 warnings", ENDED), |stage| {
        by_client(stage, Version::Tls13, warning)
    })
    .only(Mode::terminates, NOT_OURS),
    case("alert-flood-by-backend", "relay", ("the backend sends 10,000 warnings", ENDED), |stage| {
        by_backend(stage, Version::Tls13, warning)
    })
    .only(Mode::originates, NOT_OURS),
    case(
        "packed-behind-key-update",
        "relay",
        ("another message follows the client's KeyUpdate in the same record, with the old keys", ENDED),
        |stage| by_client(stage, Version::Tls13, packed),
    )
    .only(Mode::terminates, NOT_OURS),
    case(
        "packed-behind-key-update-by-backend",
        "relay",
        ("another message follows the backend's KeyUpdate in the same record, with the old keys", ENDED),
        |stage| by_backend(stage, Version::Tls13, packed),
    )
    .only(Mode::originates, NOT_OURS),
    case(
        "alert-flood-in-handshake",
        "handshake",
        ("10,000 warnings come instead of the client's last flight", ENDED),
        |stage| in_handshake(stage, &WARNING_IN_THE_CLEAR),
    )
    .only(Mode::terminates, NOT_OURS),
    case(
        "ccs-flood-in-handshake",
        "handshake",
        ("10,000 change_cipher_spec come instead of the client's last flight", ENDED),
        |stage| in_handshake(stage, &CHANGE_CIPHER_SPEC),
    )
    .only(Mode::terminates, NOT_OURS),
    case(
        "alert-flood-by-backend-in-handshake",
        "connect",
        ("the backend answers a hello with 10,000 warnings", ENDED),
        |stage| backend_in_handshake(stage, &WARNING_IN_THE_CLEAR),
    )
    .only(Mode::originates, NOT_OURS),
    case(
        "hello-request-flood-by-backend",
        "connect",
        ("the backend answers a hello with 10,000 requests for another one", ENDED),
        |stage| backend_in_handshake(stage, &HELLO_REQUEST_IN_THE_CLEAR),
    )
    .only(Mode::originates, NOT_OURS),
];

/// One record of a flood; a client's hello is there for a flood that repeats it.
type Flood = fn(&mut Forger, &[u8]) -> Result<Vec<u8>, CaseError>;

fn key_update(forger: &mut Forger, _: &[u8]) -> Result<Vec<u8>, CaseError> {
    forger.key_update()
}

/// RFC 9846 §5.1: a record ends with a message that changes keys.
fn packed(forger: &mut Forger, _: &[u8]) -> Result<Vec<u8>, CaseError> {
    forger.record(Kind::Handshake, &[24, 0, 0, 1, 0, 24, 0, 0, 1, 0])
}

fn warning(forger: &mut Forger, _: &[u8]) -> Result<Vec<u8>, CaseError> {
    forger.record(Kind::Alert, &WARNING)
}

fn hello_again(forger: &mut Forger, hello: &[u8]) -> Result<Vec<u8>, CaseError> {
    // Without the header of the record that it is in.
    forger.record(Kind::Handshake, &hello[5..])
}

fn hello_request(forger: &mut Forger, _: &[u8]) -> Result<Vec<u8>, CaseError> {
    forger.record(Kind::Handshake, &HELLO_REQUEST)
}

/// A client whose keys are known, its backend after a word, and what the client's hello looks like.
fn forged_client(stage: &Stage, version: Version) -> Result<(Forger, Connection, Vec<u8>), CaseError> {
    let (peer, hello) = stage.hello()?;
    let mut forger = Forger::client(peer.stream, version, &stage.certificates)?;
    let question = forger.record(Kind::Data, &[before_client(stage.mode), b"question"].concat())?;
    forger.write(&question);
    let mut backend = stage.backend()?.next()?;
    backend.expect(b"question")?;
    Ok((forger, backend, hello))
}

/// A client, and its backend before it has sent anything of TLS.
fn bare_backend(stage: &Stage) -> Result<(Connection, Connection), CaseError> {
    stage.backend()?.behave(Manner::Bare);
    let mut client = stage.client()?;
    // In HTTP mode it has sent a request.
    if stage.mode.client_tls() && !stage.mode.is_http() {
        client.try_send(b"question")?;
    }
    let bare = stage.backend()?.next()?;
    stage.backend()?.behave(Manner::Good);
    Ok((client, bare))
}

fn by_client(stage: &mut Stage, version: Version, flood: Flood) -> Result<(), CaseError> {
    let (forger, backend, hello) = forged_client(stage, version)?;
    flooded(stage, (forger, &hello), flood, ("the backend", backend), &["relay/client/tls"])
}

fn by_backend(stage: &mut Stage, version: Version, flood: Flood) -> Result<(), CaseError> {
    let (mut client, bare) = bare_backend(stage)?;
    let mut forger = Forger::server(bare.stream, version, &stage.certificates)?;
    let answer = forger.record(Kind::Data, &[before_backend(stage.mode), b"answer"].concat())?;
    forger.write(&answer);
    client.expect(b"answer")?;
    flooded(stage, (forger, &[]), flood, ("the client", client), &["relay/backend/tls"])
}

/// Floods, and reads how both sides are notified.
fn flooded(
    stage: &mut Stage,
    (mut forger, hello): (Forger, &[u8]),
    flood: Flood,
    (peer, mut other): (&str, Connection),
    reasons: &[&'static str],
) -> Result<(), CaseError> {
    let records: Result<Vec<_>, _> = (0..FLOOD_COUNT).map(|_| flood(&mut forger, hello)).collect();
    let records = records?.concat();
    let before = stage.program()?.cpu();
    // The proxy may close the connection before all of them are sent.
    forger.write(&records);
    let (forger_ending, other_ending) = (forger.into_peer().ends(), other.ends());
    calm(stage, before, &forger_ending)?;
    stage.expect(reasons);
    other_ending.must_abort(peer)
}

/// A flood has ended, and has not cost much.
fn calm(stage: &mut Stage, before: Duration, ending: &Ending) -> Result<(), CaseError> {
    let spent = stage.program()?.cpu().saturating_sub(before);
    stage.happened(format!(
        "{FLOOD_COUNT} records, {} ms of CPU; their sender received {}",
        spent.as_millis(),
        ending
    ));
    if ending.socket == SocketEnd::Open || spent > CALM {
        return broken(format!(
            "the sender of {FLOOD_COUNT} records received {}, after {spent:?} of CPU",
            ending
        ));
    }
    stage.echoes()
}

fn updates_with_data(stage: &mut Stage) -> Result<(), CaseError> {
    const TIMES: usize = 100;
    let (mut forger, mut backend, _) = forged_client(stage, Version::Tls13)?;
    let bytes = piece(0, TIMES);
    for byte in bytes.chunks(1) {
        let records = [forger.key_update()?, forger.record(Kind::Data, byte)?].concat();
        forger.write(&records);
    }
    backend.expect(bytes)?;
    stage.happened(format!("{TIMES} changes of keys, a byte behind each"));
    let end = forger.record(Kind::Alert, &[1, 0])?;
    forger.write(&end);
    let mut client = forger.into_peer();
    client.fin();
    backend.read_to_close_notify()?;
    backend.close();
    stage.expect(&["finished"]);
    match client.ends().socket {
        SocketEnd::Fin => Ok(()),
        other => broken(format!("the client's end was answered with {other:?}")),
    }
}

fn in_handshake(stage: &mut Stage, record: &[u8]) -> Result<(), CaseError> {
    let (mut peer, hello) = stage.hello()?;
    peer.write(&hello)?;
    first_flight(&mut peer)?;
    let before = stage.program()?.cpu();
    let _ = peer.write(&record.repeat(FLOOD_COUNT));
    let ending = peer.ends();
    stage.expect(&["handshake/client/tls", "handshake/client/alert"]);
    calm(stage, before, &ending)
}

fn backend_in_handshake(stage: &mut Stage, record: &[u8]) -> Result<(), CaseError> {
    let (mut client, mut bare) = bare_backend(stage)?;
    bare.try_read_exactly(5)?;
    let before = stage.program()?.cpu();
    let _ = bare.write(&record.repeat(FLOOD_COUNT));
    let ending = bare.ends();
    let outcome = if stage.mode.is_http() {
        answered(client).map(drop)
    } else {
        client.ends().must_abort("the client")
    };
    stage.expect(&["connect/backend/tls", "connect/backend/alert"]);
    calm(stage, before, &ending)?;
    outcome
}
