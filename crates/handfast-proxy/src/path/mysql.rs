//! MySQL with TLS: the server speaks first, with what its client needs to log in.
//!
//! In: an accepted client that is to ask for TLS, or one behind its own handshake whose backend is to be asked for TLS. Out: both sides
//! logged in, or a backend that is secured for the login. The backend is connected before the client has sent anything, TLS with it begins
//! when the client's part of the login is known, and where only one side has TLS the login is renumbered by one packet, the request for
//! it.

use std::rc::Rc;

use handfast_leg::runtime::Runtime;
use handfast_leg::{Broken, Leg, Socket};
use handfast_net::clock::Moment;
use handfast_wire::starttls::mysql::{self, Login, TlsSide};
use handfast_wire::starttls::{Greeting, Problem, Protocol};

use crate::backends::connector::{read, read_once};
use crate::backends::opening::of_problem;
use crate::path::connect::{self, Approach, ConnectedBackend};
use crate::path::connection::Connection;
use crate::path::prelude::{exchange, refuse, send, wait_for_peer, write};
use crate::path::relay::Relay;
use crate::worker::services::Chosen;
use handfast_observe::cause::Cause;
use handfast_observe::reason::{CloseReason, Side, Step};

/// The steps of a client that asks for TLS: connect comes before hello here, and the login behind the handshake.
pub(super) async fn open<R: Runtime>(
    connection: &mut Connection<R>,
    received: Vec<u8>,
) -> Result<Relay, CloseReason> {
    let outcome = upgrade(connection, &received).await;
    connection.account.record.seconds.hello = R::now().since(connection.accepted);
    let (mut backend, request) = outcome?;
    let (chosen, mut first) = super::secure_client(connection, request.received).await?;
    let begun = R::now();
    let service = Rc::clone(&connection.account.service);
    if let Some(dialler) = service.dialler(chosen) {
        // Both have asked for TLS: packets have the same numbers on both sides.
        backend = connect::secure(connection, dialler, backend, &request.packet).await?;
    } else {
        log_in(connection, Login::new(TlsSide::Client), &mut first, &mut backend).await?;
    }
    connection.account.record.seconds.connect += R::now().since(begun);
    Relay::begin(connection, &first, backend)
}

/// Reaches a backend that is asked for TLS, for a client that was not asked for it here (it has none, or had it from the first byte): the
/// server's greeting, the client's login, and only then TLS with the server, whose request repeats the login. `first` is afterwards what
/// the backend is to be given next.
pub(super) async fn connect<R: Runtime>(
    connection: &mut Connection<R>,
    chosen: Chosen,
    first: &mut Vec<u8>,
) -> Result<ConnectedBackend<R::Socket>, CloseReason> {
    let mut backend = dial(connection, chosen).await?;
    let begun = R::now();
    let (words, refused) = match greeting_of(&mut backend)? {
        Ok(greeting) => (greeting.packet(false), None),
        Err((problem, words)) => (words, Some(problem)),
    };
    {
        let (client, mut scratch) = connection.client_and_buffers();
        write::<R>(client, &words, &mut scratch)?;
    }
    if let Some(problem) = refused {
        return Err(of_problem(&problem));
    }
    let mut login = Login::new(TlsSide::Backend);
    login.receive_client(first).map_err(of_login(Side::Client))?;
    first.clear();
    let request = loop {
        if let Some(request) = login.request() {
            break request;
        }
        match receive_login(connection)? {
            Some(words) => login.receive_client(&words).map_err(of_login(Side::Client))?,
            None => wait_for_peer(connection, Side::Client, Step::Connect, "it did not log in").await?,
        }
    };
    let service = Rc::clone(&connection.account.service);
    if let Some(dialler) = service.dialler(chosen) {
        backend = connect::secure(connection, dialler, backend, &request).await?;
    }
    log_in(connection, login, first, &mut backend).await?;
    connection.account.record.seconds.connect += R::now().since(begun);
    Ok(backend)
}

/// Reaches a backend up to its greeting; TLS begins later.
async fn dial<R: Runtime>(
    connection: &mut Connection<R>,
    chosen: Chosen,
) -> Result<ConnectedBackend<R::Socket>, CloseReason> {
    let has_tls = connection.account.service.dialler(chosen).is_some();
    let greeting = Some(Greeting::of_mysql(has_tls));
    connect::dial(connection, chosen, Approach { first: &[], greeting, is_tls_later: true }).await
}

/// Passes a server's greeting on to the client, and reads the client's request for TLS. `early` is what it sent behind a PROXY header.
async fn upgrade<R: Runtime>(
    connection: &mut Connection<R>,
    early: &[u8],
) -> Result<(ConnectedBackend<R::Socket>, mysql::Request), CloseReason> {
    // Its client sends nothing before it was greeted.
    if !early.is_empty() {
        let reason = CloseReason::new(Step::Hello, Side::Client, Cause::Starttls);
        return Err(reason.because("it sent data before the greeting"));
    }
    let mut backend = dial(connection, Chosen::SERVICE).await?;
    let greeting = match greeting_of(&mut backend)? {
        // A server's refusal is meant for its client, which can read it.
        Err((problem, words)) => {
            send(connection, &words).await?;
            return Err(of_problem(&problem));
        }
        Ok(greeting) => greeting,
    };
    let mut answer = greeting.packet(true);
    let mut received = Vec::new();
    loop {
        let bytes = exchange(connection, answer).await?;
        answer = Vec::new();
        received.extend_from_slice(&connection.account.thread.scratch.borrow().received[..bytes]);
        match mysql::Greeting::request(&received, &mut answer) {
            Ok(None) => {}
            Ok(Some(request)) => {
                connection.account.record.starttls = Some(Protocol::MySql);
                return Ok((backend, request));
            }
            Err(problem) => return Err(refuse(connection.client(), &answer, &problem)),
        }
    }
}

/// A server's greeting; or what its refusal means, and its words.
type MySqlGreeting = Result<mysql::Greeting, (Problem, Vec<u8>)>;

/// The greeting that connect has waited for.
fn greeting_of<S: Socket>(backend: &mut ConnectedBackend<S>) -> Result<MySqlGreeting, CloseReason> {
    let received = std::mem::take(&mut backend.connected.spoken);
    match mysql::greeting(&received) {
        Ok(Some(greeting)) => Ok(Ok(greeting)),
        Ok(None) => Err(CloseReason::new(Step::Connect, Side::Local, Cause::Internal)),
        Err(problem @ Problem::Refused { .. }) => Ok(Err((problem, received))),
        Err(problem) => Err(of_problem(&problem)),
    }
}

/// Reads once from a client that logs in, after sending waiting bytes; returns the bytes that it sent.
fn receive_login<R: Runtime>(connection: &mut Connection<R>) -> Result<Option<Vec<u8>>, CloseReason> {
    let (client, mut scratch) = connection.client_and_buffers();
    let broken = |broken: Broken| CloseReason::broken(Step::Connect, &broken);
    while client.flush().map_err(broken)? {}
    if client.unsent() > 0 {
        return Ok(None);
    }
    let words = read_once(client, &mut scratch)?;
    if client.has_ended() {
        return Err(CloseReason::new(Step::Connect, Side::Client, Cause::CLOSED_EARLY));
    }
    Ok(words)
}

/// Relays a login between a side with TLS and one without, until the server has let the client in or not.
async fn log_in<R: Runtime>(
    connection: &mut Connection<R>,
    mut login: Login,
    first: &mut Vec<u8>,
    backend: &mut ConnectedBackend<R::Socket>,
) -> Result<(), CloseReason> {
    let mut carried = Vec::new();
    login.carry_client(first, &mut carried).map_err(of_login(Side::Client))?;
    while !login.is_decided() {
        if !step(connection, &mut login, &mut carried, &mut backend.connected.leg)? {
            let has_spoken = backend.connected.leg.sent() > 0;
            let side = if has_spoken { Side::Backend } else { Side::Client };
            wait_for_peer(connection, side, Step::Connect, "before the login was complete").await?;
        }
    }
    // The relay takes over the unread bytes.
    carried.extend_from_slice(&login.into_rest());
    *first = carried;
    Ok(())
}

/// Looks at both sides once; returns true if anything moved.
fn step<R: Runtime>(
    connection: &mut Connection<R>,
    login: &mut Login,
    carried: &mut Vec<u8>,
    backend: &mut Leg<R::Socket>,
) -> Result<bool, CloseReason> {
    let mut moved = false;
    if let Some(words) = receive_login(connection)? {
        moved = true;
        login.carry_client(&words, carried).map_err(of_login(Side::Client))?;
    }
    let (client, mut scratch) = connection.client_and_buffers();
    let broken = |broken: Broken| CloseReason::broken(Step::Connect, &broken);
    // Behind what the backend has not taken yet nothing is written, or it would overtake that.
    let is_free = backend.unsent() == 0 || backend.held_until() != Moment::NEVER;
    if !carried.is_empty() && is_free {
        moved = true;
        backend.write(&std::mem::take(carried), &mut scratch.records).map_err(broken)?;
    }
    if let Some(received) = read(backend, &mut scratch)? {
        let mut words = Vec::new();
        login.carry_backend(&received, &mut words).map_err(of_login(Side::Backend))?;
        if !words.is_empty() {
            write::<R>(client, &words, &mut scratch)?;
        }
        moved = true;
    }
    Ok(moved)
}

fn of_login(side: Side) -> impl Fn(Problem) -> CloseReason {
    move |problem| CloseReason::new(Step::Connect, side, Cause::Starttls).because(problem.to_string())
}
