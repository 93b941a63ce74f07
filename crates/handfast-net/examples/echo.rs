//! The backend of the benchmark: gives back what it gets, on one thread and with as little work as the engine allows,
//! so that what is measured is the proxy in front of it.
//!
//! In: addresses to listen on, such as `127.0.0.1:0`; more than one, so that each proxy has separate source ports.
//! Out: a line on standard output for each of them, in their order, with the port that the kernel chose; then echoes,
//! until it is killed.
//!
//! Standard transaction: accept, receive, send, receive (the end), close: five system calls and the waits for them.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for a terminal")]

use std::cell::RefCell;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use handfast_net::address::Address;
use handfast_net::clock::Moment;
use handfast_net::engine::{self, Priority, Woken};
use handfast_net::fault::Fault;
use handfast_net::limits;
use handfast_net::listen::{Listener, ListeningSocket, Sharing, listen};
use handfast_net::stream::{Read, SocketTimeouts, Stream, Write};

/// Bytes taken at once: four records' worth, as the proxies in front take a record or more.
const READ: usize = 65_536;
/// A connection without traffic for this time is closed.
const IDLE: Duration = Duration::from_secs(600);
/// Pause after a failed accept, such as one without free file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

thread_local! {
    /// One buffer for all: nothing stays in it across a wait.
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; READ]);
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.is_empty() {
        eprintln!("echo: usage: echo ADDRESS:PORT…");
        return ExitCode::from(2);
    }
    match serve(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("echo: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn serve(words: &[String]) -> Result<(), String> {
    // A lower limit shows itself when it is reached: accepting fails, and is reported.
    let _ = limits::raise_file_limit();
    let timeouts = SocketTimeouts { unacknowledged: Duration::ZERO, keepalive: Duration::ZERO };
    let mut sockets = Vec::new();
    for word in words {
        let address = word.parse().map_err(|error| format!("read address {word:?}: {error}"))?;
        let (local, mut of_address) = listen(&Address::Ip(address), 0, 1, timeouts, Sharing::Alone)
            .map_err(|error| format!("listen on {word}: {error}"))?;
        println!("{local}");
        sockets.append(&mut of_address);
    }
    std::io::stdout().flush().map_err(|error| format!("write the addresses: {error}"))?;
    engine::run((), move || {
        for socket in sockets {
            engine::spawn(Priority::Flow, accept(socket));
        }
    })
    .map_err(|error| format!("run the engine: {error}"))
}

async fn accept(socket: ListeningSocket) {
    let mut listener = socket.open();
    loop {
        if let Err(fault) = accept_all(&mut listener) {
            eprintln!("echo: {fault}; trying again in {} ms", PAUSE.as_millis());
            listener.pause();
            engine::sleep(PAUSE).await;
        }
        if let Err(error) = listener.ready(Moment::NEVER).await {
            eprintln!("echo: wait for connections on {}: {error}", listener.address());
            return;
        }
    }
}

fn accept_all(listener: &mut Listener) -> Result<(), Fault> {
    while let Some((stream, _)) = listener.try_accept()? {
        engine::spawn(Priority::Flow, echo(stream));
    }
    Ok(())
}

/// Echoes one connection. One that breaks is dropped, which resets it: the proxy must find the side at fault.
async fn echo(mut stream: Stream) {
    // Bytes that the kernel has not taken yet. Empty in most connections, so an idle one keeps no memory for it.
    let mut pending = Vec::new();
    loop {
        let step = BUFFER.with_borrow_mut(|buffer| carry(&mut stream, &mut pending, buffer));
        match step {
            Ok(Step::Ended) => return stream.finish(),
            Ok(Step::Again) => engine::yield_now().await,
            Ok(Step::Blocked) => {
                if engine::wait(engine::now().deadline(IDLE)).await == Woken::Deadline {
                    return;
                }
            }
            Err(_) => return,
        }
    }
}

enum Step {
    /// There may be more to do at once, after the others had their turn.
    Again,
    Blocked,
    Ended,
}

fn carry(stream: &mut Stream, pending: &mut Vec<u8>, buffer: &mut [u8]) -> Result<Step, Fault> {
    // Nothing is read while anything is left to write: a client that does not read is not buffered for.
    while !pending.is_empty() {
        match stream.try_write(pending)? {
            Write::Bytes(count) => drop(pending.drain(..count)),
            Write::Blocked => return Ok(Step::Blocked),
        }
    }
    match stream.try_read(buffer)? {
        Read::End => Ok(Step::Ended),
        Read::Blocked => Ok(Step::Blocked),
        Read::Bytes(count) => {
            let mut rest = &buffer[..count];
            while !rest.is_empty() {
                match stream.try_write(rest)? {
                    Write::Bytes(written) => rest = &rest[written..],
                    Write::Blocked => {
                        pending.extend_from_slice(rest);
                        return Ok(Step::Blocked);
                    }
                }
            }
            Ok(Step::Again)
        }
    }
}
