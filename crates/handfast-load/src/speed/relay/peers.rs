//! The relay's peers: backends that echo or flood, and clients that do one piece of work after the other.
//!
//! In: the kind of traffic, and the relay's address. Out: an error, if there is one; only the relay is measured.

use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;

use handfast_net::address::Address;
use handfast_net::clock::Moment;
use handfast_net::dial::Dialling;
use handfast_net::engine::{Priority, spawn, yield_now};
use handfast_net::listen::ListeningSocket;
use handfast_net::stream::{Read, Stream};

use super::failure::{EXCHANGE, RelayFailure};
use super::{ADDRESSES, READ, Run, TURNS, Work, pause, write};

/// Bytes that clients send in an exchange.
const DATA: [u8; EXCHANGE] = [b'x'; EXCHANGE];

/// Starts the backends, and as many clients as the work has.
pub(super) fn peers(run: &Rc<Run>, work: Work, relay: &Address, sockets: Vec<ListeningSocket>) {
    for socket in sockets {
        let run = Rc::clone(run);
        spawn(Priority::Flow, backend(run, work, socket));
    }
    for number in 0..work.connections() {
        spawn(Priority::Flow, client(Rc::clone(run), work, relay.clone(), number));
    }
}

async fn backend(run: Rc<Run>, work: Work, socket: ListeningSocket) {
    let mut listener = socket.open();
    loop {
        while let Ok(Some((stream, _))) = listener.try_accept() {
            let run = Rc::clone(&run);
            spawn(Priority::Flow, async move {
                let done = match work {
                    Work::Transactions | Work::Exchanges => echo(&run, stream).await,
                    Work::Bulk => flood(&run, stream).await,
                };
                if let Err(what) = done {
                    run.record_error(format!("its backend: {what}"));
                }
            });
        }
        if let Err(error) = listener.ready(Moment::NEVER).await {
            return run.record_error(format!("its backend: wait for connections: {error}"));
        }
    }
}

/// Sends back what comes, and ends when the client has.
async fn echo(run: &Run, mut stream: Stream) -> Result<(), RelayFailure> {
    let mut way: Vec<u8> = Vec::new();
    loop {
        if !way.is_empty() {
            let written = write(&mut stream, &way)?;
            way.drain(..written);
        }
        let read = if way.is_empty() {
            let scratch = &mut *run.scratch.borrow_mut();
            let read = stream.try_read(&mut scratch.received).map_err(RelayFailure::socket("read"))?;
            if let Read::Bytes(bytes) = read {
                way.extend_from_slice(&scratch.received[..bytes]);
            }
            read
        } else {
            Read::Blocked
        };
        match read {
            Read::Bytes(_) => {}
            Read::End => {
                stream.finish();
                return Ok(());
            }
            Read::Blocked => pause(run.over.deadline).await?,
        }
    }
}

/// Sends and reads as much as it can, until all is over.
async fn flood(run: &Run, mut stream: Stream) -> Result<(), RelayFailure> {
    let data = vec![b'x'; READ];
    while !run.over.is_over() {
        let mut turns = 0;
        let mut moved = true;
        while moved && turns < TURNS {
            moved = write(&mut stream, &data)? > 0;
            let scratch = &mut *run.scratch.borrow_mut();
            match stream.try_read(&mut scratch.received).map_err(RelayFailure::socket("read"))? {
                Read::Bytes(_) => moved = true,
                Read::End => return Err(RelayFailure::Ended("the relay ended a connection")),
                Read::Blocked => {}
            }
            turns += 1;
        }
        if moved { yield_now().await } else { pause(run.over.deadline).await? }
    }
    Ok(())
}

/// One transaction after the other, or one long connection.
async fn client(run: Rc<Run>, work: Work, relay: Address, number: usize) {
    let mut turn = number;
    while !run.over.is_over() {
        turn = turn.wrapping_add(1);
        let last = u8::try_from(turn % usize::from(ADDRESSES)).unwrap_or(0) + 1;
        let source = IpAddr::V4(Ipv4Addr::new(127, 0, 1, last));
        let done = match work {
            Work::Transactions => transaction(&run, &relay, source).await,
            Work::Exchanges => exchanges(&run, &relay, source).await,
            Work::Bulk => match connect(&run, &relay, source, &DATA).await {
                Ok((stream, _)) => flood(&run, stream).await,
                Err(what) => Err(what),
            },
        };
        if let Err(what) = done {
            return run.record_error(format!("its client: {what}"));
        }
    }
}

async fn connect(
    run: &Run,
    relay: &Address,
    source: IpAddr,
    first: &[u8],
) -> Result<(Stream, usize), RelayFailure> {
    let mut dialling = Dialling::start_from(relay, Some(source)).map_err(RelayFailure::socket("connect"))?;
    loop {
        match dialling.advance(first).map_err(RelayFailure::socket("connect"))? {
            Some(sent) => return Ok((dialling.into_stream(), sent)),
            None => pause(run.over.deadline).await?,
        }
    }
}

/// The standard transaction without TLS: connect, send, receive as much, end, see the other end, close.
async fn transaction(run: &Run, relay: &Address, source: IpAddr) -> Result<(), RelayFailure> {
    let (mut stream, sent) = connect(run, relay, source, &DATA).await?;
    stream.expect_later().map_err(RelayFailure::socket("wait"))?;
    exchange(run, &mut stream, sent).await?;
    stream.end_writing();
    loop {
        match read(run, &mut stream)? {
            Read::Bytes(_) => return Err(RelayFailure::TooMany),
            Read::End => {
                stream.finish();
                return Ok(());
            }
            Read::Blocked => pause(run.over.deadline).await?,
        }
    }
}

/// One exchange after the other, until all is over.
async fn exchanges(run: &Run, relay: &Address, source: IpAddr) -> Result<(), RelayFailure> {
    let (mut stream, mut sent) = connect(run, relay, source, &DATA).await?;
    stream.no_delay();
    stream.expect_later().map_err(RelayFailure::socket("wait"))?;
    while !run.over.is_over() {
        exchange(run, &mut stream, sent).await?;
        sent = 0;
    }
    Ok(())
}

/// Sends what is left of an exchange's bytes, of which so many have been sent, and waits until as many have come back.
async fn exchange(run: &Run, stream: &mut Stream, mut sent: usize) -> Result<(), RelayFailure> {
    let mut received = 0;
    while received != EXCHANGE {
        if sent < EXCHANGE {
            sent += write(stream, &DATA[sent..])?;
        }
        match read(run, stream)? {
            Read::Bytes(bytes) => received += bytes,
            Read::End => return Err(RelayFailure::TooFew(received)),
            Read::Blocked => pause(run.over.deadline).await?,
        }
    }
    Ok(())
}

/// Reads into the thread's buffer, and ignores the content.
fn read(run: &Run, stream: &mut Stream) -> Result<Read, RelayFailure> {
    stream.try_read(&mut run.scratch.borrow_mut().received).map_err(RelayFailure::socket("read"))
}
