//! Tools that the benchmark needs beside the program itself: many certificates, a TLS echo without a proxy, and a yardstick.
//!
//! ```text
//! benchmark certificates FOLDER 10000        # 00000.pem …, each a chain of one and its key, ECDSA P-256
//! benchmark tls-echo 127.0.0.1:0 leaf.pem    # prints where it listens; a thread for each connection
//! benchmark yardstick                        # for each line like "ecdsa 100": what it takes in memory, in ns, over 100 ms
//! ```
//!
//! In: those words. Out: files; or echoes until it is killed. The echo is the zero line for latencies: the same library,
//! the same work at this end of the connection, and no second hop. The yardstick tells how fast the machine is just now: the
//! server's side in memory, as `handfast speed --limit` measures it, of a transaction (`ecdsa`, `rsa`, `resumed`) or of a byte
//! (`exchange`, `bulk`).
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for a terminal")]
#![expect(clippy::disallowed_methods, reason = "a plain server, to compare the proxy with")]

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use handfast_load::speed::operations::handshake::{BATCH, Flow, Kind, Pair, Side};
use handfast_load::speed::operations::{Group, Keys, Signature};
use handfast_tls::session::Failure;
use rustix::time::{ClockId, clock_gettime};
use rustls::crypto::aws_lc_rs;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

/// The idle timeout of a connection.
const IDLE: Duration = Duration::from_secs(120);

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["certificates", folder, count] => certificates(Path::new(folder), count),
        ["tls-echo", address, pem] => tls_echo(address, pem),
        ["yardstick"] => yardstick(),
        _ => Err(io::Error::other("usage: see the head of this file")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("benchmark: {error}");
            ExitCode::FAILURE
        }
    }
}

/// One file for each name `host-00000.example.org`; the folder is new.
fn certificates(folder: &Path, count: &str) -> io::Result<()> {
    let count: u32 = count.parse().map_err(io::Error::other)?;
    std::fs::create_dir(folder)?;
    for number in 0..count {
        let names = vec![format!("host-{number:05}.example.org")];
        let made = rcgen::generate_simple_self_signed(names).map_err(io::Error::other)?;
        let pem = format!("{}{}", made.cert.pem(), made.signing_key.serialize_pem());
        // Readable by their owner alone, as keys are: the proxy warns of each that is not.
        let path = folder.join(format!("{number:05}.pem"));
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(pem.as_bytes())?;
    }
    Ok(())
}

fn yardstick() -> io::Result<()> {
    let keys = Keys::generate().map_err(failed)?;
    for line in io::stdin().lines() {
        let line = line?;
        let (kind, milliseconds) =
            line.trim().split_once(' ').ok_or_else(|| io::Error::other("KIND MILLISECONDS"))?;
        let time = Duration::from_millis(milliseconds.parse().map_err(io::Error::other)?);
        let ns = match kind {
            "ecdsa" => handshakes(&keys, Signature::EcdsaP256, false, time)?,
            "resumed" => handshakes(&keys, Signature::EcdsaP256, true, time)?,
            "rsa" => handshakes(&keys, Signature::Rsa2048, false, time)?,
            "exchange" => bytes(&keys, 4096, time)?,
            "bulk" => bytes(&keys, 65_536, time)?,
            _ => return Err(io::Error::other(format!("{kind}: ecdsa, resumed, rsa, exchange, bulk"))),
        };
        println!("{ns}");
        io::stdout().flush()?;
    }
    Ok(())
}

fn failed(failure: Failure) -> io::Error {
    io::Error::other(failure.to_string())
}

/// The server's nanoseconds for a connection with 4 KiB each way.
fn handshakes(keys: &Keys, signature: Signature, resumed: bool, time: Duration) -> io::Result<f64> {
    let kind = Kind { signature, group: Group::X25519, resumed, exchange: 4096 };
    let mut pair = Pair::new(kind, keys, SystemTime::now()).map_err(failed)?;
    server_side(time, BATCH, |lap| pair.batch(lap))
}

/// The server's nanoseconds for a byte, in pieces of `size` each way.
fn bytes(keys: &Keys, size: usize, time: Duration) -> io::Result<f64> {
    let mut flow = Flow::new(keys, SystemTime::now(), size).map_err(failed)?;
    server_side(time, 2 * size, |lap| flow.carry(lap))
}

/// Repeats it for so long; the server's CPU time for one of the `units` that each time makes.
fn server_side(
    time: Duration,
    units: usize,
    mut once: impl FnMut(&mut dyn FnMut(Side)) -> Result<(), Failure>,
) -> io::Result<f64> {
    let (begun, mut last) = (cpu(), cpu());
    let (mut server, mut times) = (Duration::ZERO, 0_u32);
    while times == 0 || last.saturating_sub(begun) < time {
        let mut lap = |side| {
            let now = cpu();
            if side == Side::Server {
                server += now.saturating_sub(last);
            }
            last = now;
        };
        once(&mut lap).map_err(failed)?;
        times += 1;
    }
    Ok(server.as_secs_f64() * 1e9 / (f64::from(times) * units as f64))
}

/// CPU time of this thread.
fn cpu() -> Duration {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(used.tv_sec.unsigned_abs(), used.tv_nsec.unsigned_abs().try_into().unwrap_or(0))
}

fn tls_echo(address: &str, pem: &str) -> io::Result<()> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_file_iter(pem).map_err(io::Error::other)?.collect();
    let key = PrivateKeyDer::from_pem_file(pem).map_err(io::Error::other)?;
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_single_cert(chain.map_err(io::Error::other)?, key)
        .map_err(io::Error::other)?;
    let config = Arc::new(config);
    let listener = TcpListener::bind(address)?;
    println!("{}", listener.local_addr()?);
    io::stdout().flush()?;
    for socket in listener.incoming() {
        let socket = socket?;
        let session = ServerConnection::new(Arc::clone(&config)).map_err(io::Error::other)?;
        let thread = std::thread::Builder::new().name("tls-echo".into()).stack_size(256 * 1024);
        thread.spawn(move || {
            // A client that breaks off is the client's matter, and shows in its report.
            let _ = echo(StreamOwned::new(session, socket));
        })?;
    }
    Ok(())
}

fn echo(mut stream: StreamOwned<ServerConnection, TcpStream>) -> io::Result<()> {
    stream.sock.set_nodelay(true)?;
    stream.sock.set_read_timeout(Some(IDLE))?;
    let mut buffer = [0; 16 * 1024];
    loop {
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            count => stream.write_all(&buffer[..count])?,
        }
    }
}
