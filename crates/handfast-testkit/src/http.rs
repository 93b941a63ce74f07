//! One GET, as plain as it comes: for the admin page and for the built-in backend.

use std::io::{Read, Write};
use std::net::SocketAddr;

use crate::client::dial;

/// An answer.
#[derive(Debug)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// Everything before the empty line, in lower case.
    pub head: String,
    /// Everything after it.
    pub body: String,
}

/// Sends a request and reads to the end of the answer.
pub fn get(address: SocketAddr, path: &str, accept: &str) -> Response {
    request(address, "GET", path, accept)
}

/// As [`get`], with another method and no body.
pub fn request(address: SocketAddr, method: &str, path: &str, accept: &str) -> Response {
    let mut stream = dial(address).unwrap_or_else(|error| panic!("{method} {path} at {address}: {error}"));
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap_or_else(|error| panic!("{method} {path}: {error}"));
    let mut answer = String::new();
    stream
        .read_to_string(&mut answer)
        .unwrap_or_else(|error| panic!("{method} {path}: {error} after {answer:?}"));
    parse(&answer).unwrap_or_else(|| panic!("{method} {path}: not an answer: {answer:?}"))
}

/// Posts a body.
pub fn post(address: SocketAddr, path: &str, body: &str) -> Response {
    let mut stream = dial(address).unwrap_or_else(|error| panic!("POST {path} at {address}: {error}"));
    let length = body.len();
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).unwrap_or_else(|error| panic!("POST {path}: {error}"));
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap_or_else(|error| panic!("POST {path}: {error}"));
    parse(&answer).unwrap_or_else(|| panic!("POST {path}: not an answer: {answer:?}"))
}

/// Sends this and reads to the end of the connection.
pub fn exchange(address: SocketAddr, request: &str) -> String {
    let mut stream = dial(address).unwrap_or_else(|error| panic!("{address}: {error}"));
    stream.write_all(request.as_bytes()).unwrap_or_else(|error| panic!("{request}: {error}"));
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap_or_else(|error| panic!("{request}: {error} after {answer:?}"));
    answer
}

/// Takes an answer apart.
pub fn parse(answer: &str) -> Option<Response> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let head = head.to_ascii_lowercase();
    let body = if head.contains("transfer-encoding: chunked") { unchunk(body)? } else { body.to_owned() };
    Some(Response { status, head, body })
}

/// Takes chunks apart.
pub fn unchunk(mut rest: &str) -> Option<String> {
    let mut body = String::new();
    loop {
        let (size, after) = rest.split_once("\r\n")?;
        let size = usize::from_str_radix(size.split(';').next()?, 16).ok()?;
        if size == 0 {
            return Some(body);
        }
        body.push_str(after.get(..size)?);
        rest = after.get(size + 2..)?;
    }
}
