//! The rest of a request behind its response is read away up to a bound, and then its stream is reset with NO_ERROR.

use std::cell::RefCell;

use handfast_http::http2::frame::{FrameHead, PREFACE, flag, kind, write_settings};
use handfast_leg::memory::Memory;
use handfast_leg::memory::tasks::{self, InMemory};
use handfast_leg::{Side as LegSide, Socket};
use handfast_net::stream::{Read, Write};

use super::*;
use crate::requests::testing::Fixture;
use crate::testing::on_engine;

/// Bytes in a socket.
const ROOM: usize = 100_000;
const REQUEST: [(&str, &str); 4] =
    [(":method", "POST"), (":scheme", "http"), (":authority", "a.example"), (":path", "/a")];

/// The state of its stream.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    status_413: bool,
    /// Its code and the seconds until then.
    reset: Option<(ErrorCode, u64)>,
}

/// A client that writes frames by hand.
struct Peer {
    socket: Memory,
    input: Vec<u8>,
    out: Vec<u8>,
    /// Windows of the connection and of the stream.
    windows: [i64; 2],
    seen: Seen,
    responded: Moment,
}

impl Peer {
    fn frame(&mut self, of_kind: u8, flags: u8, payload: &[u8]) {
        FrameHead { length: payload.len() as u32, kind: of_kind, flags, stream: 1 }.write(&mut self.out);
        self.out.extend_from_slice(payload);
    }

    /// Writes and reads what it can.
    fn exchange(&mut self) {
        while !self.out.is_empty() {
            match self.socket.try_write(&self.out) {
                Ok(Write::Bytes(count)) => drop(self.out.drain(..count)),
                Ok(Write::Blocked) => break,
                Err(_) => self.out.clear(),
            }
        }
        let mut buffer = [0; 4_096];
        while let Ok(Read::Bytes(count)) = self.socket.try_read(&mut buffer) {
            self.input.extend_from_slice(&buffer[..count]);
        }
        while let Some((head, rest)) = self.input.split_first_chunk() {
            let head = FrameHead::parse(head);
            let Some(payload) = rest.get(..head.length as usize) else { break };
            let number = payload.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
            match head.kind {
                kind::WINDOW_UPDATE => self.windows[head.stream as usize] += i64::from(number),
                // Its first field is a literal `:status`, or one of the static table.
                kind::HEADERS => {
                    self.seen.status_413 = payload.windows(3).any(|bytes| bytes == b"413");
                    self.responded = InMemory::now();
                }
                kind::RST_STREAM => {
                    let after = InMemory::now().since(self.responded).as_secs_f64().round() as u64;
                    self.seen.reset.get_or_insert((ErrorCode(number), after));
                }
                _ => {}
            }
            self.input.drain(..FrameHead::SIZE + head.length as usize);
        }
    }

    /// Sends content as far as windows permit, until this number of bytes was sent or the stream was reset.
    async fn upload(&mut self, bytes: u64, ends: bool) {
        let mut left = bytes;
        let end = InMemory::now() + Duration::from_secs(20);
        while InMemory::now() < end && self.seen.reset.is_none() {
            self.exchange();
            let most = self.windows[0].min(self.windows[1]).clamp(0, 16_384) as u64;
            let count = most.min(left);
            if count > 0 && self.out.is_empty() && self.responded != Moment::NEVER {
                left -= count;
                self.windows = self.windows.map(|window| window - count as i64);
                let is_last = left == 0 && ends;
                self.frame(kind::DATA, if is_last { flag::END_STREAM } else { 0 }, &vec![0; count as usize]);
                continue;
            }
            InMemory::wait(InMemory::now() + Duration::from_millis(100)).await;
        }
    }
}

/// Uploads to a route whose limit is 10 bytes.
fn play(announced: u64, bytes: u64, ends: bool) -> Seen {
    let fixture = Fixture::new("http = { max-body = \"10B\" }");
    let seen = Rc::new(RefCell::new(None));
    let result = Rc::clone(&seen);
    tasks::run(1, || {
        let (near, far) = tasks::pair(ROOM);
        let connection = fixture.connection.clone();
        tasks::spawn(async move {
            drop(serve::<InMemory>(&connection, Leg::plain(LegSide::Client, far), &[]).await);
        });
        tasks::spawn(async move {
            let windows = [65_535, i64::from(STREAM_WINDOW)];
            let (responded, seen) = (Moment::NEVER, Seen::default());
            let mut peer =
                Peer { socket: near, input: Vec::new(), out: PREFACE.to_vec(), windows, seen, responded };
            write_settings(&mut peer.out, &[]);
            let mut block = Vec::new();
            let length = announced.to_string();
            for (name, value) in REQUEST.into_iter().chain([("content-length", &*length)]) {
                block.push(0);
                for text in [name, value] {
                    block.push(text.len() as u8);
                    block.extend_from_slice(text.as_bytes());
                }
            }
            peer.frame(kind::HEADERS, flag::END_HEADERS, &block);
            peer.upload(bytes, ends).await;
            result.replace(Some(peer.seen));
        });
    });
    let seen = seen.take();
    seen.expect("the client has ended")
}

/// RFC 9113 §8.1: NO_ERROR, behind a whole response. Some clients take it for a failure as long as they send.
#[test]
fn a_client_may_send_its_request_for_a_while_after_the_response() {
    on_engine(|| async {
        let no_error = |after| Some((ErrorCode::NO_ERROR, after));
        for (bytes, ends, reset) in [
            (100, true, None),
            (100_000, true, None),
            (DRAIN_BYTES - 1, true, None),
            // Then it is read no further.
            (DRAIN_BYTES + 500_000, true, no_error(0)),
            (8 * DRAIN_BYTES, true, no_error(0)),
            (0, false, no_error(DRAIN.as_secs())),
            (100_000, false, no_error(DRAIN.as_secs())),
        ] {
            let announced = if ends { bytes } else { bytes + 1 };
            let seen = play(announced.max(11), bytes, ends);
            assert_eq!(seen, Seen { status_413: true, reset }, "{bytes} bytes, which end: {ends}");
        }
    });
}
