//! A small client and backend to look at the proxy with: the standard transaction in a loop, connections held idle, and
//! an echo. Not a load tester: it measures nothing but its own count and wall time.
//!
//! ```text
//! transactions echo 127.0.0.1:9000
//! transactions loop 127.0.0.1:8443 ca.pem --threads 4 --count 20000
//! transactions hold 127.0.0.1:8443 ca.pem --count 9000
//! ```
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for a terminal")]
#![expect(clippy::disallowed_methods, reason = "an independent client, to observe the proxy from outside")]

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::client::Resumption;
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, ClientConnection, RootCertStore, Stream};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};

/// Bytes sent, and echoed, in the standard transaction.
const SIZE: usize = 4096;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["echo", address] => echo(address),
        ["loop", address, ca, options @ ..] => repeat(address, ca, options),
        ["hold", address, ca, options @ ..] => hold(address, ca, options),
        _ => Err(io::Error::other("usage: see the head of this file")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("transactions: {error}");
            ExitCode::FAILURE
        }
    }
}

fn option(options: &[&str], name: &str, default: usize) -> usize {
    let value = options.iter().skip_while(|word| **word != name).nth(1);
    value.and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// Echoes until each client ends; a small thread each.
fn echo(address: &str) -> io::Result<()> {
    let listener = TcpListener::bind(address)?;
    for stream in listener.incoming() {
        let mut stream = stream?;
        let thread = std::thread::Builder::new().name("echo".into()).stack_size(64 * 1024);
        thread.spawn(move || {
            let mut buffer = [0; 16 * 1024];
            while let Ok(count @ 1..) = stream.read(&mut buffer) {
                if stream.write_all(&buffer[..count]).is_err() {
                    return;
                }
            }
        })?;
    }
    Ok(())
}

fn config(ca: &str) -> io::Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(ca).map_err(io::Error::other)? {
        roots.add(certificate.map_err(io::Error::other)?).map_err(io::Error::other)?;
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    // Full handshakes only.
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

fn connect(address: &str, config: &Arc<ClientConfig>) -> io::Result<(ClientConnection, TcpStream)> {
    let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
    let connection = ClientConnection::new(Arc::clone(config), name).map_err(io::Error::other)?;
    let socket = TcpStream::connect(address)?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(Duration::from_secs(10)))?;
    Ok((connection, socket))
}

/// Connect, handshake, send 4 KiB, receive 4 KiB, close.
fn transaction(address: &str, config: &Arc<ClientConfig>) -> io::Result<()> {
    let (mut connection, mut socket) = connect(address, config)?;
    let sent = [b'x'; SIZE];
    let mut received = [0; SIZE];
    let mut stream = Stream::new(&mut connection, &mut socket);
    stream.write_all(&sent)?;
    stream.read_exact(&mut received)?;
    if received != sent {
        return Err(io::Error::other("other bytes came back"));
    }
    connection.send_close_notify();
    connection.write_tls(&mut socket)?;
    Ok(())
}

fn repeat(address: &str, ca: &str, options: &[&str]) -> io::Result<()> {
    let config = config(ca)?;
    let (threads, count) = (option(options, "--threads", 4), option(options, "--count", 1000));
    let begin = Instant::now();
    std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads)
            .map(|_| scope.spawn(|| (0..count / threads).try_for_each(|_| transaction(address, &config))))
            .collect();
        handles.into_iter().try_for_each(|handle| handle.join().map_err(|_| io::Error::other("a panic"))?)
    })?;
    let seconds = begin.elapsed().as_secs_f64();
    let done = count / threads * threads;
    println!("{done} transactions in {seconds:.2} s: {:.0}/s", done as f64 / seconds);
    Ok(())
}

/// Opens connections, exchanges one byte on each, and holds them until standard input ends.
fn hold(address: &str, ca: &str, options: &[&str]) -> io::Result<()> {
    let config = config(ca)?;
    let mut held = Vec::new();
    for _ in 0..option(options, "--count", 1000) {
        let (mut connection, mut socket) = connect(address, &config)?;
        let mut stream = Stream::new(&mut connection, &mut socket);
        stream.write_all(b"x")?;
        stream.read_exact(&mut [0])?;
        held.push((connection, socket));
    }
    println!("{} connections are held until standard input ends", held.len());
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
