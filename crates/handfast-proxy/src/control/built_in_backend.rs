//! The built-in backend, for a first try: a small page for an HTTP/1 request, and everything else echoed, on a port of loopback.

use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

use handfast_net::address::Address;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinSet, spawn_local};

const LIMIT: usize = 4096;

/// Starts it on the present tokio thread; it ends with the thread.
pub(crate) async fn start() -> io::Result<Address> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = Address::Ip(listener.local_addr()?);
    spawn_local(serve(listener));
    Ok(address)
}

async fn serve(listener: TcpListener) {
    let mut connections = JoinSet::new();
    loop {
        while connections.len() >= LIMIT {
            connections.join_next().await;
        }
        match listener.accept().await {
            Ok((stream, _)) => drop(connections.spawn_local(answer(stream))),
            // Out of descriptors, as a rule: clients wait in the queue.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
        while connections.try_join_next().is_some() {}
    }
}

/// An error ends the connection; the other side notices.
async fn answer(mut stream: TcpStream) -> io::Result<()> {
    let mut buffer = vec![0; 16 * 1024];
    let mut head = Vec::new();
    loop {
        let count = stream.read(&mut buffer).await?;
        if count == 0 {
            return stream.shutdown().await;
        }
        let bytes = &buffer[..count];
        if head.is_empty() && !resembles_http(bytes) {
            stream.write_all(bytes).await?;
            continue;
        }
        head.extend_from_slice(bytes);
        while let Some(end) = head.windows(4).position(|window| window == b"\r\n\r\n") {
            let request: Vec<u8> = head.drain(..end + 4).collect();
            stream.write_all(&page(&request)).await?;
            if closes(&request) {
                return stream.shutdown().await;
            }
        }
        if head.len() > 64 * 1024 {
            return Ok(());
        }
    }
}

/// A request line begins with a method and a space (RFC 9112 section 3).
fn resembles_http(bytes: &[u8]) -> bool {
    [&b"GET "[..], b"HEAD ", b"POST ", b"PUT ", b"DELETE ", b"OPTIONS "]
        .iter()
        .any(|method| bytes.starts_with(method))
}

fn closes(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request).to_ascii_lowercase();
    text.contains("connection: close") || text.lines().next().is_some_and(|line| line.ends_with("http/1.0"))
}

fn page(request: &[u8]) -> Vec<u8> {
    let body = format!(
        "Handfast works: this is the backend that is built in.\n\nYour request, as it arrived here:\n\n{}",
        String::from_utf8_lossy(request)
    );
    let body = if request.starts_with(b"HEAD ") { "" } else { &body };
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}
