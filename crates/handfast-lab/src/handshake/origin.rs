//! The backend of servers that have one: answers every request in HTTP/1.1; and the frames of HTTP/2 that this lab's clients need.
//!
//! In: connections to a port of loopback. Out: the same body for each request. It reads only its own clients, which are this
//! lab's, and knows as much of the protocol as these need.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use super::servers::{BODY, ORIGIN};

/// Connection preface of a client that supports HTTP/2 (RFC 9113 §3.4).
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Frame types (RFC 9113 §6).
pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const SETTINGS: u8 = 4;
/// Flags: of SETTINGS, and of the others.
pub(super) const ACK: u8 = 1;
pub(super) const END_STREAM: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;

/// Listens, and answers in separate threads as long as the lab is there.
pub(super) fn start() -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, ORIGIN))?;
    let accept = move || {
        for stream in listener.incoming().flatten() {
            // Without a thread, this client alone has no answer.
            let answer = move || {
                let _ = answer(stream);
            };
            let _ = std::thread::Builder::new().name("origin connection".into()).spawn(answer);
        }
    };
    std::thread::Builder::new().name("origin".into()).spawn(accept).map(drop)
}

fn answer(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut received = Vec::new();
    loop {
        if let Some(end) = received.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&received[..end]).to_ascii_lowercase();
            received.drain(..end + 4);
            let last = head.contains("connection: close");
            let close = if last { "Connection: close\r\n" } else { "" };
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {BODY}\r\n{close}\r\n");
            stream.write_all(&[head.as_bytes(), &[b'x'; BODY]].concat())?;
            if last {
                return Ok(());
            }
            continue;
        }
        if read(&mut stream, &mut received)? == 0 {
            return Ok(());
        }
    }
}

fn read(stream: &mut TcpStream, received: &mut Vec<u8>) -> io::Result<usize> {
    let mut buffer = [0; 16 << 10];
    let length = stream.read(&mut buffer)?;
    received.extend_from_slice(&buffer[..length]);
    Ok(length)
}

/// A frame of HTTP/2 (RFC 9113 §4.1).
pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a frame of ours has some kilobytes");
    let mut frame = length.to_be_bytes()[1..].to_vec();
    frame.extend_from_slice(&[kind, flags]);
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// Type, flags, stream and whole length of the frame at the front, when all of it is there.
pub(super) fn whole_frame(bytes: &[u8]) -> Option<(u8, u8, u32, usize)> {
    let head: [u8; 9] = bytes.get(..9)?.try_into().ok()?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize + 9;
    let stream = u32::from_be_bytes([head[5] & 0x7f, head[6], head[7], head[8]]);
    (bytes.len() >= length).then_some((head[3], head[4], stream, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_read_when_all_of_it_is_there() {
        let bytes = frame(HEADERS, END_HEADERS, 7, b"abc");
        assert_eq!(whole_frame(&bytes), Some((HEADERS, END_HEADERS, 7, 12)));
        for length in 0..bytes.len() {
            assert_eq!(whole_frame(&bytes[..length]), None, "{length}");
        }
    }
}
