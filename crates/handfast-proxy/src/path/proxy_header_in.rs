//! Between accept and hello: the PROXY header of a proxy in front, where one must come.
//!
//! In: a connection from an address that `accept-from` lists. Out: what came behind the header, for the next step; the
//! record then names the client itself, and that one has been let in by its address. Everything happens
//! within the one deadline.

use std::net::SocketAddr;

use handfast_net::engine::Woken;
use handfast_net::fault::Cause as SocketCause;
use handfast_text::units::counted;
use handfast_wire::foreign::{Sorted, sort};
use handfast_wire::proxy_header::{Command, Header, Peek, V2_LIMIT, peek};

use crate::path::connection::Connection;
use crate::path::hello;
use handfast_leg::runtime::Runtime;
use handfast_observe::cause::Cause;
use handfast_observe::metrics::HeaderOutcome;
use handfast_observe::proxied::{Proxied, ProxiedBy};
use handfast_observe::reason::{CloseReason, Side, Step};
use handfast_observe::record::Record;

/// Most bytes of an ALPN value or a unique identifier that are kept; ours and those of the specification are shorter.
const MAX_KEPT_BYTES: usize = 255;

/// Takes the header that this connection must begin with, if it must; gives what came behind it.
pub(crate) async fn read<R: Runtime>(connection: &mut Connection<R>) -> Result<Vec<u8>, CloseReason> {
    let account = &connection.account;
    let expected = account.service.proxy_senders.as_ref();
    if !expected.is_some_and(|senders| senders.has(account.record.client)) {
        return Ok(Vec::new());
    }
    let outcome = wait_for_header(connection).await;
    let account = &mut connection.account;
    // Overwritten by the step that comes next, if one does.
    account.record.seconds.hello = R::now().since(connection.accepted);
    let counted = match &outcome {
        Ok((_, outcome)) => Some(*outcome),
        Err(reason) if reason.cause == Cause::ProxyHeaderMissing => Some(HeaderOutcome::Missing),
        Err(reason) if reason.cause == Cause::ProxyHeaderInvalid => Some(HeaderOutcome::Invalid),
        Err(_) => None,
    };
    counted.into_iter().for_each(|outcome| account.service.metrics.proxy_header(outcome));
    let (rest, _) = outcome?;
    // Accept has left this for here: the socket's address is that of the proxy in front.
    connection.account.admit(R::now())?;
    Ok(rest)
}

/// The same for a connection that began TLS, or needs none. A proxy that checks TLS resets the connection as soon as its own part of the
/// handshake is done, which may be before we have read the last of it. `received`: plaintext of the client.
pub(crate) fn name_end(record: &Record, received: u64, reason: CloseReason) -> CloseReason {
    if reason.step < Step::Handshake {
        return reason;
    }
    name_checks(record, reason, received + record.bytes_to_backend > 0)
}

/// Names the end of a connection by what it was for: a proxy in front that speaks for itself, sends nothing and leaves has checked whether
/// we listen. `has_spoken`: whether it sent anything behind its header.
pub(crate) fn name_checks(record: &Record, reason: CloseReason, has_spoken: bool) -> CloseReason {
    let is_local = record.proxied().is_some_and(|proxied| proxied.is_local);
    let leaves = reason.side == Side::Client
        && matches!(
            reason.cause,
            Cause::Socket(SocketCause::Reset | SocketCause::ClosedEarly)
                | Cause::Truncated
                | Cause::NoCloseNotify
                | Cause::ResetAtEnd
        );
    if is_local && leaves && !has_spoken { CloseReason { cause: Cause::Checked, ..reason } } else { reason }
}

async fn wait_for_header<R: Runtime>(
    connection: &mut Connection<R>,
) -> Result<(Vec<u8>, HeaderOutcome), CloseReason> {
    let mut received = Vec::new();
    loop {
        if let Some((length, outcome)) = take(connection, &mut received)? {
            received.drain(..length);
            return Ok((received, outcome));
        }
        if connection.wait(Step::Hello, connection.deadline).await? == Woken::Deadline {
            let seen = format!("{} of a PROXY header came", counted(received.len() as u64, "byte"));
            return Err(reason(Cause::HandshakeDeadline).because(seen));
        }
    }
}

/// Takes in what is there; `Some` when the header is whole, with its length and what it was.
fn take<R: Runtime>(
    connection: &mut Connection<R>,
    received: &mut Vec<u8>,
) -> Result<Option<(usize, HeaderOutcome)>, CloseReason> {
    loop {
        {
            let (client, mut scratch) = connection.client_and_buffers();
            if !hello::receive(client, &mut scratch, received, "in the middle of a PROXY header")? {
                return Ok(None);
            }
        }
        match peek(received, V2_LIMIT) {
            Peek::Incomplete => {}
            Peek::Complete(header) => {
                let record = &mut connection.account.record;
                let by = record.client.map_or(ProxiedBy::Unix, ProxiedBy::Address);
                record.client = header.tcp().map(|(source, _)| canonical(source)).or(record.client);
                record.details().proxied = Some(proxied(&header, by));
                return Ok(Some((header.length, outcome(&header))));
            }
            Peek::Absent => {
                return Err(reason(Cause::ProxyHeaderMissing).because(describe_received(received)));
            }
            Peek::Invalid(invalid) => {
                return Err(reason(Cause::ProxyHeaderInvalid).because(invalid.to_string()));
            }
        }
    }
}

/// As sockets report it: IPv4 is IPv4.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

fn outcome(header: &Header<'_>) -> HeaderOutcome {
    match header.command {
        Command::Local => HeaderOutcome::Local,
        Command::Proxy if header.tcp().is_none() => HeaderOutcome::Unknown,
        Command::Proxy => HeaderOutcome::Proxied,
    }
}

/// Describes the bytes that came in a header's place.
fn describe_received(received: &[u8]) -> String {
    match sort(received) {
        Sorted::Foreign(foreign) => format!("it sent {foreign}"),
        Sorted::Tls => "it sent TLS".to_owned(),
        Sorted::Undecided => format!("its first byte is 0x{:02x}", received.first().copied().unwrap_or(0)),
    }
}

/// The part of a header that the record keeps.
fn proxied(header: &Header<'_>, by: ProxiedBy) -> Proxied {
    let kept = |value: &[u8]| value[..value.len().min(MAX_KEPT_BYTES)].into();
    Proxied {
        by,
        version: header.version,
        is_local: header.command == Command::Local,
        destination: header.tcp().map(|(_, destination)| canonical(destination)),
        authority: header.authority().map(|name| name[..name.floor_char_boundary(MAX_KEPT_BYTES)].into()),
        alpn: header.alpn().map(kept),
        unique_id: header.unique_id().map(kept),
    }
}

fn reason(cause: Cause) -> CloseReason {
    CloseReason::new(Step::Hello, Side::Client, cause)
}
