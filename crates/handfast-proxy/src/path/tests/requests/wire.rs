//! HTTP/1 as a peer of the proxy writes and reads it, without the proxy's own parser.

use std::time::Duration;

use handfast_leg::Socket;
use handfast_leg::memory::Memory;
use handfast_leg::memory::tasks::InMemory;
use handfast_leg::runtime::Runtime;
use handfast_net::engine::Woken;
use handfast_net::stream::{Read, Write};

use super::plan::TRAILER;

/// Longer than every timeout of the proxy.
const PEER_TIMEOUT: Duration = Duration::from_secs(100_000);

/// Reason why nothing more comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadError {
    End,
    Broken,
    Late,
}

/// Framing of content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Body {
    Length(usize),
    Chunked,
    UntilClose,
}

/// One end of a connection.
pub(super) struct Peer {
    socket: Memory,
    pub(super) input: Vec<u8>,
    /// To be written.
    pub(super) out: Vec<u8>,
    /// The value of the trailer behind the last content in chunks.
    pub(super) trailer: Option<String>,
}

impl Peer {
    pub(super) fn new(socket: Memory) -> Self {
        Self { socket, input: Vec::new(), out: Vec::new(), trailer: None }
    }

    /// Writes what there is room for. A broken connection takes everything.
    fn push(&mut self) {
        while !self.out.is_empty() {
            match self.socket.try_write(&self.out) {
                Ok(Write::Bytes(count)) => drop(self.out.drain(..count)),
                Ok(Write::Blocked) => return,
                Err(_) => self.out.clear(),
            }
        }
    }

    /// Reads once, and writes meanwhile.
    pub(super) async fn fill(&mut self, timeout: Duration) -> Result<(), ReadError> {
        let deadline = InMemory::now() + timeout;
        let mut buffer = [0; 4096];
        loop {
            self.push();
            match self.socket.try_read(&mut buffer) {
                Ok(Read::Bytes(count)) => {
                    self.input.extend_from_slice(&buffer[..count]);
                    return Ok(());
                }
                Ok(Read::End) => return Err(ReadError::End),
                Err(_) => return Err(ReadError::Broken),
                Ok(Read::Blocked) => {}
            }
            if InMemory::wait(deadline).await == Woken::Deadline {
                return Err(ReadError::Late);
            }
        }
    }

    pub(super) async fn flush(&mut self) {
        loop {
            self.push();
            if self.out.is_empty() {
                return;
            }
            InMemory::wait(InMemory::now() + PEER_TIMEOUT).await;
        }
    }

    /// A head without its end.
    pub(super) async fn head(&mut self, timeout: Duration) -> Result<String, ReadError> {
        loop {
            if let Some(end) = self.input.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                let head = String::from_utf8(self.input[..end].to_vec()).expect("ASCII");
                self.input.drain(..end + 4);
                return Ok(head);
            }
            self.fill(timeout).await?;
        }
    }

    /// Content, piece by piece; its length, also where it is lost.
    pub(super) async fn body(
        &mut self,
        body: Body,
        mut take: impl FnMut(usize, &[u8]),
    ) -> (usize, Result<(), ReadError>) {
        let mut total = 0;
        self.trailer = None;
        loop {
            let left = match body {
                Body::Length(length) => length - total,
                Body::Chunked => match self.chunk().await {
                    Ok(size) => size,
                    Err(lost) => return (total, Err(lost)),
                },
                Body::UntilClose => usize::MAX,
            };
            let mut done = 0;
            while done < left {
                if self.input.is_empty()
                    && let Err(lost) = self.fill(PEER_TIMEOUT).await
                {
                    let is_whole = body == Body::UntilClose && lost == ReadError::End;
                    return (total, if is_whole { Ok(()) } else { Err(lost) });
                }
                let count = self.input.len().min(left - done);
                take(total, &self.input[..count]);
                self.input.drain(..count);
                (done, total) = (done + count, total + count);
            }
            match body {
                Body::Chunked if left == 0 => {
                    let trailers = self.trailers().await;
                    return (total, trailers);
                }
                Body::Chunked => {
                    if let Err(lost) = self.line().await {
                        return (total, Err(lost));
                    }
                }
                _ => return (total, Ok(())),
            }
        }
    }

    async fn line(&mut self) -> Result<String, ReadError> {
        loop {
            if let Some(end) = self.input.windows(2).position(|bytes| bytes == b"\r\n") {
                let line = String::from_utf8_lossy(&self.input[..end]).into_owned();
                self.input.drain(..end + 2);
                return Ok(line);
            }
            self.fill(PEER_TIMEOUT).await?;
        }
    }

    async fn chunk(&mut self) -> Result<usize, ReadError> {
        let line = self.line().await?;
        Ok(usize::from_str_radix(&line, 16).expect("the size of a chunk"))
    }

    async fn trailers(&mut self) -> Result<(), ReadError> {
        loop {
            let line = self.line().await?;
            if line.is_empty() {
                return Ok(());
            }
            let (name, value) = line.split_once(": ").expect("a field");
            assert!(name == TRAILER && self.trailer.is_none(), "a trailer that was not sent: {line}");
            self.trailer = Some(value.to_owned());
        }
    }

    pub(super) fn end_writing(&mut self) {
        self.socket.end_writing();
    }

    /// Closes it by a FIN, if everything was read; dropping it resets.
    pub(super) fn finish(mut self) {
        self.socket.finish_at_drop();
    }
}

/// A field of a head.
pub(super) fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut fields = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    fields.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

/// The framing of a message that is not known to have no content.
pub(super) fn framing(head: &str) -> Option<Body> {
    if field(head, "transfer-encoding").is_some() {
        return Some(Body::Chunked);
    }
    field(head, "content-length").map(|length| Body::Length(length.parse().expect("a length")))
}

/// Content in chunks of growing size.
pub(super) fn chunked(content: &[u8], trailer: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let (mut at, mut size) = (0, 1);
    while at < content.len() {
        let end = content.len().min(at + size);
        out.extend_from_slice(format!("{:x}\r\n", end - at).as_bytes());
        out.extend_from_slice(&content[at..end]);
        out.extend_from_slice(b"\r\n");
        (at, size) = (end, size * 3);
    }
    out.extend_from_slice(format!("0\r\n{trailer}\r\n").as_bytes());
    out
}
