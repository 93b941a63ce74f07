//! Step 5, connect: a backend that answers, or the reason why none does.
//!
//! In: a client that is served from here on. Out: a leg to a backend, secured where the service says so, and whatever belongs
//! to it. A backend that refuses is counted, and the next one is tried; each at most once for a connection.

mod cancel;
mod converse;
mod greeting;
mod secure;

pub(crate) use cancel::cancel;
pub(crate) use greeting::{of_problem, read};
pub(crate) use secure::later as secure_later;

use std::borrow::Cow;
use std::rc::Rc;
use std::time::Duration;

use handfast_leg::{Leg, Side as LegSide, Socket};
use handfast_net::clock::Moment;
use handfast_net::engine::Woken;
use handfast_net::fault::{Cause as SocketCause, Fault};
use handfast_wire::starttls::Protocol;

use self::greeting::Expected;
use crate::backends::endpoint::{Endpoint, InUse, Pick};
use crate::backends::opening::Opening;
use crate::backends::standing::{FailurePolicy, State};
use crate::backends::tls::Dialler;
use crate::path::connection::Connection;
use crate::path::proxy_header_out;
use crate::worker::services::Choice;
use crate::worker::services::ThreadService;
use handfast_leg::runtime::{Dialling, Runtime};
use handfast_observe::cause::Cause;
use handfast_observe::reason::{CloseReason, Side, Step};

/// A backend that answered.
#[derive(Debug)]
pub(crate) struct Connected<S: Socket> {
    /// A plain one has been given the client's first bytes; a secured one waits for them.
    pub(crate) leg: Leg<S>,
    /// So many of these it has been given, or keeps.
    pub(crate) given: usize,
    /// What it has said already that is the client's, together with the end of its handshake or as its greeting.
    pub(crate) spoken: Vec<u8>,
    /// Counts the connection at its endpoint.
    pub(crate) in_use: InUse,
    /// What it is to get before TLS begins there (MySQL's request for TLS, which the client has made already).
    pub(crate) request: Vec<u8>,
}

/// How far a backend is brought before it counts as one that answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// The client's bytes can pass: TLS stands where it is wanted.
    Ready,
    /// The same, and it has greeted, which its client does not expect any more.
    Greeted(Protocol),
    /// It has greeted: TLS begins later, behind what it says to the client.
    MySqlGreeting,
}

/// What every attempt of a connection has to work with.
struct Wanted<'a> {
    service: Rc<ThreadService>,
    /// TLS towards the backends, where it is asked for.
    dialler: Option<Rc<Dialler>>,
    /// The PROXY header that the backend hears before everything else; empty where none is sent.
    header: Vec<u8>,
    /// The client's first bytes.
    first: &'a [u8],
    /// How far it is brought …
    until: Until,
    /// … and whether TLS is to follow behind that.
    tls_follows: bool,
}

impl Wanted<'_> {
    /// What is said before TLS, or before the client's bytes.
    fn opening(&self, endpoint: &Endpoint) -> Opening {
        let way = (self.service.through.as_deref(), endpoint.behind.as_ref());
        let tls = self.dialler.as_ref().map(|dialler| &dialler.settings().model);
        Opening::towards(way, self.header.clone(), tls, || endpoint.host())
    }
}

/// What a socket is given first: what was to be said before, if anything, and this.
fn behind<'a>(said: &[u8], bytes: &'a [u8]) -> Cow<'a, [u8]> {
    if said.is_empty() { bytes.into() } else { [said, bytes].concat().into() }
}

/// A backend that has not answered for so long fails, even when it is the client that does not wait any longer: the
/// kernel has repeated its SYN by then (RFC 6298 §2.1). Else a backend that is down would not be found out by clients
/// that are less patient than `limits.connect`.
const UNANSWERED: Duration = Duration::from_secs(1);

/// How often a connection looks for the outcome of another one's trial: soon at first, as most fail or succeed at once.
const LOOK: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(100));

/// Dials backends until one answers.
pub(crate) async fn dial<R: Runtime>(
    connection: &mut Connection<R>,
    choice: Choice,
    first: &[u8],
    until: Until,
) -> Result<Connected<R::Socket>, CloseReason> {
    let begun = R::now();
    let service = Rc::clone(&connection.account.service);
    let is_early = until == Until::MySqlGreeting;
    let dialler = service.dialler(choice).filter(|_| !is_early).cloned();
    let tls_follows = is_early && service.dialler(choice).is_some();
    let header = proxy_header_out::header(connection);
    let wanted = Wanted { service: Rc::clone(&service), dialler, header, first, until, tls_follows };
    let group = service.group(choice);
    let client = connection.account.record.client.map(|client| client.ip());
    let mut tried: Vec<Rc<Endpoint>> = Vec::new();
    let mut last = None;
    let outcome = loop {
        let endpoint = match group.pick(R::now(), &tried, client) {
            Pick::Nothing => break Err(last.unwrap_or_else(|| service.no_backend(choice))),
            Pick::Wait(endpoint) => {
                connection.account.record.backend = Some(Rc::clone(&endpoint.name));
                match others_outcome(connection, &endpoint).await {
                    Ok(None) => continue,
                    Ok(Some(reason)) => last = Some(reason),
                    Err(reason) => break Err(reason),
                }
                endpoint
            }
            Pick::Dial(attempt) => {
                let endpoint = Rc::clone(&attempt.endpoint);
                // Named before it has answered: a connection that ends while it waits, waited for this one.
                connection.account.record.backend = Some(Rc::clone(&endpoint.name));
                match begin(connection, &endpoint, &wanted).await {
                    Ok((leg, spoken)) => {
                        let in_use = attempt.connected(R::now().since(begun), !tls_follows);
                        let given = if leg.is_secured() { 0 } else { first.len() };
                        break Ok(Connected { leg, given, spoken, in_use, request: Vec::new() });
                    }
                    Err(Ended::Connection(reason, failure)) => {
                        if let Some(failure) = failure {
                            attempt.failed(&failure, note_failure(connection, &endpoint, &failure));
                        }
                        break Err(reason);
                    }
                    Err(Ended::Attempt(reason)) => {
                        attempt.failed(&reason, note_failure(connection, &endpoint, &reason));
                        last = Some(reason);
                    }
                }
                endpoint
            }
        };
        tried.push(endpoint);
    };
    connection.account.record.seconds.connect = R::now().since(begun);
    outcome
}

/// Notes that a backend failed this connection; how many failures it may have.
fn note_failure<R: Runtime>(
    connection: &mut Connection<R>,
    endpoint: &Endpoint,
    reason: &CloseReason,
) -> FailurePolicy {
    connection.account.record.backend_failed(&endpoint.name, reason.cause);
    let limits = &connection.account.service.limits;
    FailurePolicy { failures: limits.backend_failures, pause: limits.backend_retry }
}

/// Waits while another connection tries out a backend. `None`: it is to be looked at again; else why it failed.
async fn others_outcome<R: Runtime>(
    connection: &mut Connection<R>,
    endpoint: &Endpoint,
) -> Result<Option<CloseReason>, CloseReason> {
    let standing = &endpoint.standing;
    let failures = standing.failures();
    let mut look = LOOK.0;
    // Between two looks one trial may have failed and another begun.
    while standing.state() == State::OnTrial && standing.failures() == failures {
        let again = connection.deadline.min(R::now() + look);
        look = (look * 2).min(LOOK.1);
        let woken = connection.wait(Step::Connect, again).await?;
        check_client(connection)?;
        if woken == Woken::Deadline && again == connection.deadline {
            return Err(CloseReason::new(Step::Connect, Side::Backend, Cause::HandshakeDeadline));
        }
    }
    if standing.state() == State::Up || standing.failures() == failures {
        return Ok(None);
    }
    let cause = standing.cause().unwrap_or(Cause::NoBackend);
    connection.account.record.backend_failed(&endpoint.name, cause);
    let reason = CloseReason::new(Step::Connect, Side::Backend, cause);
    Ok(Some(reason.because("another connection that tried it at this time found that out")))
}

/// What an attempt that failed ended.
enum Ended {
    /// Itself; another backend may be tried.
    Attempt(CloseReason),
    /// The whole connection; and what the backend did, if it was given time enough to answer.
    Connection(CloseReason, Option<CloseReason>),
}

impl Ended {
    /// The backend's socket failed, or could not be made.
    #[expect(clippy::needless_pass_by_value, reason = "for map_err")]
    fn socket(fault: Fault) -> Self {
        Self::Attempt(of_socket(&fault))
    }
}

fn of_socket(fault: &Fault) -> CloseReason {
    CloseReason::fault(Step::Connect, Side::Backend, fault)
}

/// One attempt: a leg that can be used, and what the backend has said already that is the client's.
async fn begin<R: Runtime>(
    connection: &mut Connection<R>,
    endpoint: &Endpoint,
    wanted: &Wanted<'_>,
) -> Result<(Leg<R::Socket>, Vec<u8>), Ended> {
    let attempt = Waiting::begin(connection);
    let (mut leg, spoken) = reach(connection, endpoint, wanted, &attempt).await?;
    let Some(expected) = Expected::new(wanted.until, wanted.tls_follows) else { return Ok((leg, spoken)) };
    let spoken = Box::pin(greeting::receive(connection, &mut leg, expected, spoken, &attempt)).await?;
    Ok((leg, spoken))
}

/// A leg that stands, secured where that is wanted.
async fn reach<R: Runtime>(
    connection: &mut Connection<R>,
    endpoint: &Endpoint,
    wanted: &Wanted<'_>,
    attempt: &Waiting,
) -> Result<(Leg<R::Socket>, Vec<u8>), Ended> {
    let mut opening = wanted.opening(endpoint);
    let said = opening.begin();
    let has_bytes = opening.is_over() && (wanted.dialler.is_some() || !wanted.first.is_empty());
    let speaks = has_bytes || !said.is_empty();
    let client = connection.account.record.client;
    let source = connection.account.service.source(client);
    let dialling = R::dial(&endpoint.address, source, speaks).map_err(Ended::socket)?;
    if !opening.is_over() {
        let (socket, sent) = stand(connection, dialling, &said, attempt).await?;
        let mut leg: Leg<R::Socket> = Leg::plain(LegSide::Backend, socket).dialled(0);
        leg.keep(&said[sent..]);
        return Box::pin(converse::begin(connection, endpoint, wanted, leg, opening, attempt)).await;
    }
    let Some(dialler) = &wanted.dialler else {
        let opening = behind(&said, wanted.first);
        let (socket, sent) = stand(connection, dialling, &opening, attempt).await?;
        let mut leg = Leg::plain(LegSide::Backend, socket).dialled(sent).preceded_by(said.len());
        // What the backend has taken is not kept, nor its room.
        leg.keep(&opening[sent..]);
        return Ok((leg, Vec::new()));
    };
    // The key share is computed while the SYN is on its way.
    let (session, hello) = secure::begin(connection, dialler, endpoint)?;
    // In the clear, before TLS: the backend reads it before its own TLS begins.
    let opening = behind(&said, &hello);
    let (socket, sent) = stand(connection, dialling, &opening, attempt).await?;
    let mut leg: Leg<R::Socket> = Leg::plain(LegSide::Backend, socket).dialled(0);
    secure::with(&mut leg, session, dialler);
    leg.keep(&opening[sent..]);
    let spoken = secure::finish(connection, &mut leg, dialler, attempt).await?;
    Ok((leg, spoken))
}

/// How long an attempt has gone on, and may.
struct Waiting {
    begun: Moment,
    deadline: Moment,
}

impl Waiting {
    /// An attempt that begins now.
    fn begin<R: Runtime>(connection: &Connection<R>) -> Self {
        let begun = R::now();
        let limit = connection.account.service.limits.connect;
        Self { begun, deadline: connection.deadline.min(begun.deadline(limit)) }
    }

    /// The attempt has no time left: it was its own, or the whole connection's. `failure`: what the backend did until now, which
    /// is held against it if it was given time to speak of.
    fn over<R: Runtime>(&self, connection: &Connection<R>, failure: CloseReason) -> Ended {
        if self.deadline != connection.deadline {
            return Ended::Attempt(failure);
        }
        let reason = CloseReason::new(Step::Connect, Side::Backend, Cause::HandshakeDeadline);
        let reason = CloseReason { detail: failure.detail.clone(), ..reason };
        Ended::Connection(reason, self.was_long::<R>().then_some(failure))
    }

    /// Whether the backend was given time to speak of.
    fn was_long<R: Runtime>(&self) -> bool {
        R::now().since(self.begun) >= UNANSWERED
    }
}

/// Waits until the socket stands; how much of `opening` it has taken.
async fn stand<R: Runtime>(
    connection: &mut Connection<R>,
    mut dialling: R::Dialling,
    opening: &[u8],
    attempt: &Waiting,
) -> Result<(R::Socket, usize), Ended> {
    let mut over = false;
    loop {
        // Also when it is over: the answer may have come while this thread was busy with others.
        if let Some(sent) = dialling.advance(opening).map_err(Ended::socket)? {
            return Ok((dialling.into_socket(), sent));
        }
        if over {
            return Err(attempt.over(connection, of_socket(&dialling.give_up())));
        }
        let woken = connection.wait(Step::Connect, attempt.deadline).await;
        let woken = woken.map_err(|reason| Ended::Connection(reason, None))?;
        if let Err(reason) = check_client(connection) {
            return Err(Ended::Connection(reason, unanswered::<R>(dialling, attempt)));
        }
        over = woken == Woken::Deadline;
    }
}

/// Whether the client is still there.
fn check_client<R: Runtime>(connection: &mut Connection<R>) -> Result<(), CloseReason> {
    let socket = connection.client().socket_mut();
    // One that has ended its own direction alone still waits for an answer.
    if !socket.is_broken() {
        return Ok(());
    }
    Err(match socket.check() {
        Err(fault) => CloseReason::fault(Step::Connect, Side::Client, &fault),
        Ok(()) => CloseReason::new(Step::Connect, Side::Client, Cause::CLOSED_EARLY),
    })
}

/// What a backend did that was given up before its own time was over; `None` when it was given no time to speak of.
fn unanswered<R: Runtime>(mut dialling: R::Dialling, attempt: &Waiting) -> Option<CloseReason> {
    if !attempt.was_long::<R>() {
        return None;
    }
    match dialling.advance(&[]) {
        Ok(Some(_)) => None,
        Ok(None) => Some(of_socket(&dialling.give_up())),
        Err(fault) => Some(of_socket(&fault)),
    }
}
