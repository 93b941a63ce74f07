//! In the tunnel: ends in every order, aborts, peers that stop reading, records that were tampered with.

use std::io::{ErrorKind, Write};
use std::time::{Duration, Instant};

use handfast_testkit::connection::{Connection, Failed};
use handfast_testkit::deadline::DEADLINE;
use handfast_testkit::pattern::piece;
use rustls::AlertDescription;

use super::machine::wait;
use crate::case::{Case, case};
use crate::error::{CaseError, MustEnd, broken, lab};
use crate::mode::Mode;
use crate::setup::limits;
use crate::stage::Stage;

const HUNDRED: [u8; 100] = [b'h'; 100];
/// Time for which data is sent to a peer that takes nothing.
const PUSHED: Duration = Duration::from_secs(1);
/// Time for which its window stays closed where there is time.
const MINUTE: Duration = Duration::from_secs(60);

pub(super) const CASES: &[Case] = &[
    case(
        "backend-resets",
        "relay",
        ("the backend sends 100 bytes and resets", "the client gets them, then an abort and no clean end"),
        backend_resets,
    ),
    case(
        "client-resets",
        "relay",
        ("the client resets", "the backend sees an abort and no clean end"),
        client_resets,
    ),
    case(
        "client-truncates",
        "relay",
        ("the client's TLS ends without close_notify", "the backend sees an abort and no clean end"),
        client_truncates,
    )
    .only(Mode::terminates, "a FIN is all that the proxy can see of an end"),
    case(
        "backend-truncates",
        "relay",
        ("the backend's TLS ends without close_notify", "the client sees an abort and no clean end"),
        backend_truncates,
    )
    .only(Mode::originates, "a FIN is all that the proxy can see of an end"),
    case(
        "client-half-closes",
        "relay",
        ("the client ends its direction, the backend answers later", "the answer arrives, then a clean end"),
        client_half_closes,
    ),
    case(
        "backend-half-closes",
        "relay",
        ("the backend ends its direction, the client speaks later", "it arrives, then a clean end"),
        backend_half_closes,
    ),
    case(
        "half-closed-for-ever",
        "relay",
        (
            "the client ends its direction, the backend sends nothing",
            "it is aborted at the limit for that",
        ),
        half_closed,
    )
    .with(limits("half-closed = \"1s\"")),
    case("idle-for-ever", "relay", ("neither side sends anything", "it is aborted at the idle limit"), idle)
        .with(limits("idle = \"1s\"")),
    case(
        "backend-stops-reading",
        "relay",
        (
            "the backend reads nothing (zero window) while the client sends: a second, or a minute in a long run",
            "memory stays bounded, another client is not affected, and every byte arrives later",
        ),
        |stage| stuck(stage, Direction::ToBackend),
    )
    .with(limits("tcp-user-timeout = \"10m\"")),
    case(
        "client-stops-reading",
        "relay",
        (
            "the client reads nothing (zero window) while the backend sends: a second, or a minute in a long run",
            "memory stays bounded, another client is not affected, and every byte arrives later",
        ),
        |stage| stuck(stage, Direction::ToClient),
    )
    .with(limits("tcp-user-timeout = \"10m\"")),
    case(
        "backend-never-reads",
        "relay",
        (
            "the backend reads nothing (zero window) for longer than allowed",
            "it is aborted at the limit for that",
        ),
        never_reads,
    )
    .with(limits("tcp-user-timeout = \"4s\"")),
    case(
        "record-tampered-by-client",
        "relay",
        ("one bit of a client's record is flipped", "an alert, and nothing of it reaches the backend"),
        tampered_by_client,
    )
    .only(Mode::terminates, "the proxy relays records without reading them"),
    case(
        "record-tampered-by-backend",
        "relay",
        ("one bit of a backend's record is flipped", "nothing of it reaches the client, and no clean end"),
        tampered_by_backend,
    )
    .only(Mode::originates, "the proxy relays records without reading them"),
    case(
        "alert-in-tunnel",
        "relay",
        ("an unencrypted alert comes in the middle of a session", "an abort for the backend"),
        alert_in_tunnel,
    )
    .only(Mode::terminates, "the proxy relays records without reading them"),
    case(
        "tiny-writes",
        "relay",
        ("2,000 writes of one byte each way", "every byte arrives, in order"),
        tiny_writes,
    ),
    case(
        "both-ways-at-once",
        "relay",
        ("8 MiB go each way at once", "every byte arrives, in order, without a deadlock"),
        both_ways,
    ),
];

fn backend_resets(stage: &mut Stage) -> Result<(), CaseError> {
    let (mut client, mut backend) = stage.pair()?;
    backend.try_send(&HUNDRED)?;
    backend.reset();
    let ending = client.ends();
    stage.happened("100 bytes and a reset");
    if ending.bytes.len() != HUNDRED.len() {
        return broken(format!("the client received {}: not the bytes that came before", ending));
    }
    stage.expect(&["relay/backend/reset"]);
    ending.must_abort("the client")
}

fn client_resets(stage: &mut Stage) -> Result<(), CaseError> {
    let (client, mut backend) = stage.pair()?;
    client.reset();
    let ending = backend.ends();
    stage.happened("a reset");
    stage.expect(&["relay/client/reset"]);
    ending.must_abort("the backend")
}

fn client_truncates(stage: &mut Stage) -> Result<(), CaseError> {
    let (mut client, mut backend) = stage.pair()?;
    client.try_send(&HUNDRED)?;
    client.fin();
    let ending = backend.ends();
    stage.happened("100 bytes and a FIN without close_notify");
    stage.expect(&["relay/client/truncated"]);
    ending.must_abort("the backend")
}

fn backend_truncates(stage: &mut Stage) -> Result<(), CaseError> {
    let (mut client, mut backend) = stage.pair()?;
    backend.try_send(&HUNDRED)?;
    backend.fin();
    let ending = client.ends();
    stage.happened("100 bytes and a FIN without close_notify");
    stage.expect(&["relay/backend/truncated"]);
    ending.must_abort("the client")
}

fn client_half_closes(stage: &mut Stage) -> Result<(), CaseError> {
    let (mut client, mut backend) = stage.pair()?;
    client.close();
    backend.read_to_close_notify()?;
    stage.happened("the backend saw the client's end before it answered");
    backend.try_send(&HUNDRED)?;
    backend.close();
    let ending = client.ends();
    if ending.bytes.len() != HUNDRED.len() {
        return broken(format!("the client received {}: not the answer", ending));
    }
    stage.expect(&["finished"]);
    ending.must_be_clean("the client")
}

fn backend_half_closes(stage: &mut Stage) -> Result<(), CaseError> {
    let (mut client, mut backend) = stage.pair()?;
    backend.close();
    client.read_to_close_notify()?;
    stage.happened("the client saw the backend's end before it sent data");
    client.try_send(&HUNDRED)?;
    client.close();
    let ending = backend.ends();
    if ending.bytes.len() != HUNDRED.len() {
        return broken(format!("the backend received {}: not the client's data", ending));
    }
    stage.expect(&["finished"]);
    ending.must_be_clean("the backend")?;
    client.ends().must_be_clean("the client")
}

fn half_closed(stage: &mut Stage) -> Result<(), CaseError> {
    let (mut client, mut backend) = stage.pair()?;
    client.close();
    backend.read_to_close_notify()?;
    let begun = Instant::now();
    let ending = client.ends();
    stage.happened(format!(
        "half closed and silent for {} ms, until it was ended",
        begun.elapsed().as_millis()
    ));
    stage.expect(&["relay/operator/half-closed-idle"]);
    ending.must_abort("the client")
}

fn idle(stage: &mut Stage) -> Result<(), CaseError> {
    let (mut client, mut backend) = stage.pair()?;
    let begun = Instant::now();
    let endings = (client.ends(), backend.ends());
    stage.happened(format!("silent for {} ms, until it was ended", begun.elapsed().as_millis()));
    stage.expect(&["relay/operator/idle"]);
    endings.0.must_abort("the client")?;
    endings.1.must_abort("the backend")
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    ToBackend,
    ToClient,
}

/// Sends until nothing more was taken for a while; gives how many bytes that were, and what of the last record was not taken.
fn push(peer: &mut Connection) -> Result<(usize, Vec<u8>), CaseError> {
    let chunk = vec![b'p'; 16 << 10];
    let mut sent = 0;
    peer.stream.set_write_timeout(Some(PUSHED))?;
    loop {
        let mut record = peer.encrypted(&chunk);
        sent += chunk.len();
        while !record.is_empty() {
            match peer.stream.write(&record) {
                Ok(count) => drop(record.drain(..count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    peer.stream.set_write_timeout(Some(DEADLINE))?;
                    return Ok((sent, record));
                }
                Err(error) => return broken(format!("a peer that pushes: {error}")),
            }
        }
        if sent > 256 << 20 {
            return broken("256 MiB were taken for a peer that reads nothing");
        }
    }
}

fn stuck(stage: &mut Stage, direction: Direction) -> Result<(), CaseError> {
    let (client, backend) = stage.pair()?;
    let (mut source, mut sink) = match direction {
        Direction::ToBackend => (client, backend),
        Direction::ToClient => (backend, client),
    };
    let (sent, rest) = push(&mut source)?;
    let begun = Instant::now();
    stage.echoes()?;
    while stage.at_length && begun.elapsed() < MINUTE {
        wait(PUSHED);
        stage.echoes()?;
    }
    let grew = stage.program()?.memory().saturating_sub(stage.figures.memory_before_kib);
    stage.happened(format!(
        "{} KiB were pushed until nothing more was taken for {} s; memory grew by {grew} KiB",
        sent >> 10,
        (PUSHED + begun.elapsed()).as_secs()
    ));
    if grew > 1 << 10 {
        return broken(format!("memory grew by {grew} KiB for one connection"));
    }
    // Now it reads. Another case checks the ends.
    source.tolerates_fin = !stage.subject.sends_close_notify;
    sink.tolerates_fin = source.tolerates_fin;
    let arrived = std::thread::scope(|scope| {
        let reading = std::thread::Builder::new().spawn_scoped(scope, || sink.read_to_close_notify());
        let reading = reading.map_err(lab("start a thread"))?;
        source.write(&rest)?;
        source.close();
        joined(reading.join())
    })?;
    if arrived != sent {
        return broken(format!("{sent} bytes were sent, and {arrived} arrived"));
    }
    sink.close();
    source.ends().must_be_clean("who had pushed")?;
    stage.expect(&["finished"]);
    Ok(())
}

fn never_reads(stage: &mut Stage) -> Result<(), CaseError> {
    let (mut client, backend) = stage.pair()?;
    let (sent, _) = push(&mut client)?;
    let ending = client.ends();
    stage.happened(format!("{} KiB were pushed until nothing more was taken", sent >> 10));
    drop(backend);
    stage.expect(&["relay/backend/zero-window", "relay/backend/unacknowledged"]);
    ending.must_abort("the client")
}

fn tampered_by_client(stage: &mut Stage) -> Result<(), CaseError> {
    let (mut client, mut backend) = stage.pair()?;
    let mut record = client.encrypted(&HUNDRED);
    record[20] ^= 1;
    client.write(&record)?;
    let (client_ending, backend_ending) = (client.ends(), backend.ends());
    stage.happened("one bit of a record was flipped");
    // bad_record_mac (RFC 9846 §6).
    if client_ending.alert != Some(AlertDescription::BadRecordMac) {
        return broken(format!("the client received {}: not alert 20", client_ending));
    }
    if !backend_ending.bytes.is_empty() {
        return broken(format!("{} bytes of it reached the backend", backend_ending.bytes.len()));
    }
    stage.expect(&["relay/client/tls"]);
    backend_ending.must_abort("the backend")
}

fn tampered_by_backend(stage: &mut Stage) -> Result<(), CaseError> {
    let (mut client, mut backend) = stage.pair()?;
    let mut record = backend.encrypted(&HUNDRED);
    record[20] ^= 1;
    backend.write(&record)?;
    let (ending, _) = (client.ends(), backend.ends());
    stage.happened("one bit of a record was flipped");
    if !ending.bytes.is_empty() {
        return broken(format!("{} bytes of it reached the client", ending.bytes.len()));
    }
    stage.expect(&["relay/backend/tls"]);
    ending.must_abort("the client")
}

fn alert_in_tunnel(stage: &mut Stage) -> Result<(), CaseError> {
    let (mut client, mut backend) = stage.pair()?;
    // Fatal, 40, and not encrypted.
    client.write(&[0x15, 3, 3, 0, 2, 2, 40])?;
    let ending = backend.ends();
    stage.happened("alert 40 in the clear");
    stage.expect(&["relay/client/tls"]);
    ending.must_abort("the backend")
}

fn tiny_writes(stage: &mut Stage) -> Result<(), CaseError> {
    const TIMES: usize = 2_000;
    let (mut client, mut backend) = stage.pair()?;
    let bytes = piece(0, TIMES);
    for byte in bytes.chunks(1) {
        client.try_send(byte)?;
        backend.try_send(byte)?;
    }
    backend.expect(bytes)?;
    client.expect(bytes)?;
    stage.happened(format!("{TIMES} writes each way"));
    stage.finish(client, backend)
}

/// The outcome of a thread.
fn joined<T>(outcome: std::thread::Result<Result<T, Failed>>) -> Result<T, CaseError> {
    Ok(outcome.map_err(|_| CaseError::Lab("a thread panicked".to_owned()))??)
}

fn both_ways(stage: &mut Stage) -> Result<(), CaseError> {
    const LENGTH: usize = 8 << 20;
    let (mut client, mut backend) = stage.pair()?;
    std::thread::scope(|scope| {
        let other = std::thread::Builder::new().spawn_scoped(scope, || backend.exchange(LENGTH));
        let other = other.map_err(lab("start a thread"))?;
        let outcome = client.exchange(LENGTH);
        let other = joined(other.join());
        outcome?;
        other
    })?;
    stage.happened(format!("{} MiB each way", LENGTH >> 20));
    stage.finish(client, backend)
}
