//! What comes between accept and hello where clients ask for TLS in the middle of another protocol (`starttls`).
//!
//! In: an accepted client. Out: one that begins TLS with its next byte, having been answered in its own protocol by
//! `handfast_wire::starttls`; nothing that it said before has an effect or is kept. And behind connect, who has been greeted is made
//! the same on both sides: a backend whose greeting the client does not expect any more is heard by us, and a client whose backend
//! has greeted us alone, before its TLS (`backend-tls.starttls`), is greeted by us.
//!
//! MySQL is apart: there the server speaks first with what its client needs to log in. So its backend is heard before the client
//! has said anything, TLS with it begins when the client's part of the login is known, and where only one side has TLS the login
//! is renumbered by one packet, the request for it.

use std::rc::Rc;

use handfast_leg::{Broken, Leg, Socket, Why};
use handfast_net::clock::Moment;
use handfast_net::engine::Woken;
use handfast_tls::buffer::Scratch;
use handfast_wire::starttls::mysql::{self, Login, TlsSide};
use handfast_wire::starttls::{Problem, Progress, Protocol, Server, second_greeting};

use crate::backends::connector::read;
use crate::backends::opening::of_problem;
use crate::path::connect::{self, Connected, Until};
use crate::path::connection::Connection;
use crate::worker::services::Choice;
use handfast_leg::runtime::Runtime;
use handfast_net::host_name::host_name;
use handfast_observe::cause::Cause;
use handfast_observe::reason::{CloseReason, Side, Step};

/// A client that is about to begin TLS.
#[derive(Debug)]
pub(crate) struct Asked<S: Socket> {
    /// The beginning of its hello, where it came without being asked for.
    pub(crate) received: Vec<u8>,
    /// The backend, where it had to speak first.
    pub(crate) backend: Option<Box<Connected<S>>>,
}

/// Speaks with a client until TLS begins; at once done where it begins with TLS. `came` is what it sent behind a PROXY header.
pub(crate) async fn ask<R: Runtime>(
    connection: &mut Connection<R>,
    came: Vec<u8>,
) -> Result<Asked<R::Socket>, CloseReason> {
    let service = Rc::clone(&connection.account.service);
    let Some(starttls) = &service.starttls else {
        return Ok(Asked { received: came, backend: None });
    };
    let outcome = match starttls.protocol {
        // Its client says nothing before it was greeted.
        Protocol::MySql if !came.is_empty() => {
            let reason = CloseReason::new(Step::Hello, Side::Client, Cause::Starttls);
            Err(reason.because("it spoke before it was greeted"))
        }
        Protocol::MySql => Box::pin(ask_mysql(connection)).await,
        protocol => Box::pin(converse(connection, Server::new(protocol, &starttls.name), came)).await,
    };
    connection.account.record.seconds.hello = R::now().since(connection.accepted);
    outcome
}

/// What a backend is given as soon as it stands, nothing if it is to greet first; and how far it is brought.
pub(crate) fn first_words<'a, R: Runtime>(
    connection: &Connection<R>,
    choice: Choice,
    first: &'a [u8],
) -> (&'a [u8], Until) {
    let service = &connection.account.service;
    let before_its_tls = service.dialler(choice).and_then(|dialler| dialler.starttls());
    if before_its_tls == Some(Protocol::MySql) {
        return (&[], Until::MySqlGreeting);
    }
    match service.starttls_protocol().filter(|protocol| protocol.server_speaks_first()) {
        None => (first, Until::Ready),
        // One that is asked for TLS greets before it, and not again.
        Some(_) if before_its_tls.is_some() => (&[], Until::Ready),
        Some(protocol) => (&[], Until::Greeted(protocol)),
    }
}

/// Makes who has been greeted the same on both sides, or carries a login; `first` is afterwards what the backend is to be given next.
pub(crate) async fn join<R: Runtime>(
    connection: &mut Connection<R>,
    choice: Choice,
    first: &mut Vec<u8>,
    mut connected: Connected<R::Socket>,
) -> Result<Connected<R::Socket>, CloseReason> {
    let service = Rc::clone(&connection.account.service);
    let of_backend = service.dialler(choice).and_then(|dialler| dialler.starttls());
    let begun = R::now();
    match (service.starttls_protocol(), of_backend) {
        (None, None) => return Ok(connected),
        // Both have asked for it: packets have the same numbers on both sides.
        (Some(Protocol::MySql), Some(_)) => {
            connected = Box::pin(connect::secure_later(connection, choice, connected)).await?;
        }
        (Some(Protocol::MySql), None) => {
            let login = Login::new(TlsSide::Client);
            Box::pin(log_in(connection, login, first, &mut connected)).await?;
        }
        (None, Some(Protocol::MySql)) => {
            connected = Box::pin(log_in_by_tls(connection, choice, first, connected)).await?;
        }
        (None, Some(protocol)) => greet_again(connection, protocol)?,
        // Connect has received its greeting, where it has one.
        (Some(_), _) => {}
    }
    connection.account.record.seconds.connect += R::now().since(begun);
    Ok(connected)
}

// ── the client, before TLS ──

async fn converse<R: Runtime>(
    connection: &mut Connection<R>,
    mut server: Server,
    mut came: Vec<u8>,
) -> Result<Asked<R::Socket>, CloseReason> {
    let mut answer = Vec::new();
    server.begin(&mut answer);
    loop {
        let progress = if came.is_empty() {
            let heard = hear_client(connection, answer).await?;
            answer = Vec::new();
            let thread = Rc::clone(&connection.account.thread);
            server.take(&thread.scratch.borrow().received[..heard], &mut answer)
        } else {
            server.take(&std::mem::take(&mut came), &mut answer)
        };
        match progress {
            Ok(Progress::More) => {}
            Ok(Progress::Ready) => {
                say(connection, &answer).await?;
                connection.account.record.starttls = connection.account.service.starttls_protocol();
                return Ok(Asked { received: Vec::new(), backend: None });
            }
            Ok(Progress::Cancel) => {
                connection.account.record.starttls = connection.account.service.starttls_protocol();
                return Err(connect::cancel(connection, &server.into_received()).await);
            }
            Ok(Progress::Direct) => return Ok(Asked { received: server.into_received(), backend: None }),
            Err(problem) => return Err(end(connection, &answer, &problem)),
        }
    }
}

/// Says the last words; the close sends them.
fn end<R: Runtime>(connection: &mut Connection<R>, answer: &[u8], problem: &Problem) -> CloseReason {
    connection.client().keep(answer);
    let cause = match problem {
        Problem::Injected { .. } => Cause::PlaintextInjected,
        Problem::Left { .. } => Cause::CLOSED_EARLY,
        _ => Cause::Starttls,
    };
    CloseReason::new(Step::Hello, Side::Client, cause).because(problem.to_string())
}

/// Says `answer`, and waits for what the client says then; so many bytes, in the thread's buffer.
async fn hear_client<R: Runtime>(
    connection: &mut Connection<R>,
    answer: Vec<u8>,
) -> Result<usize, CloseReason> {
    connection.client().keep(&answer);
    loop {
        let thread = Rc::clone(&connection.account.thread);
        let heard = connection.client().read_flight(&mut thread.scratch.borrow_mut()).map_err(of_client)?;
        if let Some(bytes) = heard {
            return Ok(bytes);
        }
        wait_for_peer(connection, Side::Client, Step::Hello, "it did not ask for TLS").await?;
    }
}

/// Says something and waits until the kernel has it.
async fn say<R: Runtime>(connection: &mut Connection<R>, answer: &[u8]) -> Result<(), CloseReason> {
    connection.client().keep(answer);
    loop {
        connection.client().send_flight().map_err(of_client)?;
        if connection.client().unsent() == 0 {
            return Ok(());
        }
        wait_for_peer(connection, Side::Client, Step::Hello, "it did not take the answer").await?;
    }
}

/// Waits for either side, and no longer than until the one deadline, which no dialogue moves.
async fn wait_for_peer<R: Runtime>(
    connection: &mut Connection<R>,
    side: Side,
    step: Step,
    what: &str,
) -> Result<(), CloseReason> {
    let is_over = R::now() >= connection.deadline
        || connection.wait(step, connection.deadline).await? == Woken::Deadline;
    let reason = || CloseReason::new(step, side, Cause::HandshakeDeadline).because(what);
    if is_over { Err(reason()) } else { Ok(()) }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn of_client(broken: Broken) -> CloseReason {
    match broken.why {
        Why::Truncated => CloseReason::new(Step::Hello, Side::Client, Cause::CLOSED_EARLY)
            .because("before it asked for TLS"),
        _ => CloseReason::broken(Step::Hello, &broken),
    }
}

// ── the backend, behind the handshake ──

/// Greets a client that waits for a greeting, when the backend's own came before its TLS.
fn greet_again<R: Runtime>(connection: &mut Connection<R>, protocol: Protocol) -> Result<(), CloseReason> {
    let words = second_greeting(protocol, &host_name());
    if words.is_empty() {
        return Ok(());
    }
    let thread = Rc::clone(&connection.account.thread);
    let scratch = &mut *thread.scratch.borrow_mut();
    write::<R>(connection.client(), &words, scratch)
}

/// Says something to a client behind its handshake. Tickets may still wait to be sent: their records were made first, and go first.
fn write<R: Runtime>(
    client: &mut Leg<R::Socket>,
    words: &[u8],
    scratch: &mut Scratch,
) -> Result<(), CloseReason> {
    client.hold(R::now());
    client.write(words, &mut scratch.records).map_err(|broken| CloseReason::broken(Step::Connect, &broken))
}

// ── MySQL ──

/// Hands a client its server's greeting, and reads its request for TLS.
async fn ask_mysql<R: Runtime>(connection: &mut Connection<R>) -> Result<Asked<R::Socket>, CloseReason> {
    let mut connected = connect::dial(connection, Choice::SERVICE, &[], Until::MySqlGreeting).await?;
    let secured = connection.account.service.dialler(Choice::SERVICE).is_some();
    let greeting = match greeting_of(&mut connected)? {
        // A server's refusal is meant for its client, who can read it.
        Err((problem, words)) => {
            say(connection, &words).await?;
            return Err(of_problem(&problem));
        }
        Ok(greeting) => greeting,
    };
    let mut said = greeting.packet(true);
    let mut received = Vec::new();
    loop {
        let heard = hear_client(connection, said).await?;
        said = Vec::new();
        let thread = Rc::clone(&connection.account.thread);
        received.extend_from_slice(&thread.scratch.borrow().received[..heard]);
        match mysql::Greeting::request(&received, &mut said) {
            Ok(None) => {}
            Ok(Some(request)) => {
                connection.account.record.starttls = Some(Protocol::MySql);
                if secured {
                    connected.request = request.packet;
                }
                return Ok(Asked { received: request.received, backend: Some(Box::new(connected)) });
            }
            Err(problem) => return Err(end(connection, &said, &problem)),
        }
    }
}

/// A server's greeting; or what its refusal means, and its words.
type MySqlGreeting = Result<mysql::Greeting, (Problem, Vec<u8>)>;

/// The greeting that connect has waited for.
fn greeting_of<S: Socket>(connected: &mut Connected<S>) -> Result<MySqlGreeting, CloseReason> {
    let received = std::mem::take(&mut connected.spoken);
    match mysql::greeting(&received) {
        Ok(Some(greeting)) => Ok(Ok(greeting)),
        Ok(None) => Err(CloseReason::new(Step::Connect, Side::Local, Cause::Internal)),
        Err(problem @ Problem::Refused { .. }) => Ok(Err((problem, received))),
        Err(problem) => Err(of_problem(&problem)),
    }
}

/// Carries the login of a client that was not asked for TLS here (it has none, or had it from the first byte) to a server that is:
/// the server's greeting, the client's login, and only then TLS with the server, whose request says what the login says.
async fn log_in_by_tls<R: Runtime>(
    connection: &mut Connection<R>,
    choice: Choice,
    first: &mut Vec<u8>,
    mut connected: Connected<R::Socket>,
) -> Result<Connected<R::Socket>, CloseReason> {
    let (words, refused) = match greeting_of(&mut connected)? {
        Ok(greeting) => (greeting.packet(false), None),
        Err((problem, words)) => (words, Some(problem)),
    };
    {
        let thread = Rc::clone(&connection.account.thread);
        write::<R>(connection.client(), &words, &mut thread.scratch.borrow_mut())?;
    }
    if let Some(problem) = refused {
        return Err(of_problem(&problem));
    }
    let mut login = Login::new(TlsSide::Backend);
    login.hear_client(first).map_err(|problem| of_login(Side::Client, &problem))?;
    first.clear();
    connected.request = loop {
        if let Some(request) = login.request() {
            break request;
        }
        match hear_login(connection)? {
            Some(words) => login.hear_client(&words).map_err(|problem| of_login(Side::Client, &problem))?,
            None => wait_for_peer(connection, Side::Client, Step::Connect, "it did not log in").await?,
        }
    };
    connected = connect::secure_later(connection, choice, connected).await?;
    log_in(connection, login, first, &mut connected).await?;
    Ok(connected)
}

/// Reads once from a client that logs in, after sending what waits; what it said, if anything.
fn hear_login<R: Runtime>(connection: &mut Connection<R>) -> Result<Option<Vec<u8>>, CloseReason> {
    let thread = Rc::clone(&connection.account.thread);
    let scratch = &mut *thread.scratch.borrow_mut();
    let client = connection.client();
    let broken = |broken: Broken| CloseReason::broken(Step::Connect, &broken);
    while client.flush().map_err(broken)? {}
    if client.unsent() > 0 {
        return Ok(None);
    }
    let got = client.read(scratch, false).map_err(broken)?;
    client.answer(scratch, got.failed.is_some()).map_err(broken)?;
    if let Some(failed) = got.failed {
        return Err(broken(failed));
    }
    if client.has_ended() {
        return Err(CloseReason::new(Step::Connect, Side::Client, Cause::CLOSED_EARLY));
    }
    let words = client.plaintext(&scratch.received, &scratch.plaintext, got.length).to_vec();
    Ok(got.moved.then_some(words))
}

/// Carries a login between a side with TLS and one without, until the server has let the client in or not.
async fn log_in<R: Runtime>(
    connection: &mut Connection<R>,
    mut login: Login,
    first: &mut Vec<u8>,
    connected: &mut Connected<R::Socket>,
) -> Result<(), CloseReason> {
    let mut carried = Vec::new();
    login.carry_client(first, &mut carried).map_err(|problem| of_login(Side::Client, &problem))?;
    while !login.is_decided() {
        if !step(connection, &mut login, &mut carried, &mut connected.leg)? {
            let has_spoken = connected.leg.sent() > 0;
            let side = if has_spoken { Side::Backend } else { Side::Client };
            wait_for_peer(connection, side, Step::Connect, "the login was not over").await?;
        }
    }
    // What the relay takes over.
    carried.extend_from_slice(&login.into_rest());
    *first = carried;
    Ok(())
}

/// One look at both sides; whether anything moved.
fn step<R: Runtime>(
    connection: &mut Connection<R>,
    login: &mut Login,
    carried: &mut Vec<u8>,
    backend: &mut Leg<R::Socket>,
) -> Result<bool, CloseReason> {
    let mut moved = false;
    if let Some(words) = hear_login(connection)? {
        moved = true;
        login.carry_client(&words, carried).map_err(|problem| of_login(Side::Client, &problem))?;
    }
    let thread = Rc::clone(&connection.account.thread);
    let scratch = &mut *thread.scratch.borrow_mut();
    let broken = |broken: Broken| CloseReason::broken(Step::Connect, &broken);
    let client = connection.client();
    // Behind what the backend has not taken yet nothing is written, or it would overtake that.
    let is_free = backend.unsent() == 0 || backend.held_until() != Moment::NEVER;
    if !carried.is_empty() && is_free {
        moved = true;
        backend.write(&std::mem::take(carried), &mut scratch.records).map_err(broken)?;
    }
    if let Some(heard) = read(backend, scratch)? {
        let mut words = Vec::new();
        login.carry_backend(&heard, &mut words).map_err(|problem| of_login(Side::Backend, &problem))?;
        if !words.is_empty() {
            write::<R>(client, &words, scratch)?;
        }
        moved = true;
    }
    Ok(moved)
}

fn of_login(side: Side, problem: &Problem) -> CloseReason {
    CloseReason::new(Step::Connect, side, Cause::Starttls).because(problem.to_string())
}
