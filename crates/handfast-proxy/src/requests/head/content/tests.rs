//! Content over a leg in memory, by each framing and in pieces of any size.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use handfast_http::http1::Rule;
use handfast_leg::memory::toy::{Toy, kind, record};
use handfast_leg::memory::{Link, Memory, dice};
use handfast_leg::{READ, Side as LegSide};

use super::*;

/// A leg whose peer the test controls, and the buffers of a thread.
struct Bench {
    link: Rc<RefCell<Link>>,
    leg: Leg<Memory>,
    scratch: Scratch,
    buffers: HttpBuffers,
}

impl Bench {
    fn new(side: LegSide) -> Self {
        let link = Rc::new(RefCell::new(Link { room: 100_000, ..Link::default() }));
        let socket = Memory::new(Rc::clone(&link), dice(0), Rc::new(Cell::new(false)));
        Self {
            leg: Leg::plain(side, socket),
            link,
            scratch: Scratch::new(READ),
            buffers: HttpBuffers::default(),
        }
    }

    fn comes(&self, bytes: &[u8]) {
        self.link.borrow_mut().to_leg.extend(bytes);
    }

    /// Returns the bytes that the leg has written so far.
    fn written(&self) -> String {
        let bytes: Vec<u8> = self.link.borrow_mut().to_peer.drain(..).collect();
        String::from_utf8(bytes).expect("the tests send text")
    }

    fn split(&mut self) -> (&mut Leg<Memory>, Io<'_>) {
        let Self { leg, scratch, buffers, .. } = self;
        (leg, Io { scratch, buffers })
    }

    /// Pumps until nothing moves, or the message has ended: what follows is none of it.
    fn pump(&mut self, incoming: &mut Incoming, to: &mut CollectingSink) -> Result<(), Fault> {
        let (leg, mut io) = self.split();
        while !incoming.has_ended() && incoming.pump(leg, to, &mut io)? {}
        Ok(())
    }
}

/// A sink that keeps what it gets.
#[derive(Debug, Default, PartialEq, Eq)]
struct CollectingSink {
    data: Vec<u8>,
    /// The trailer section, once the message has ended.
    end: Option<String>,
    /// Bytes of content that were sent on.
    sent: usize,
}

impl Sink for CollectingSink {
    fn accepts(&mut self, _: &mut Io<'_>) -> Result<bool, Fault> {
        Ok(true)
    }

    fn room(&self) -> usize {
        READ
    }

    fn put(&mut self, data: &[u8], _: &mut Output<'_>) -> Result<(), Fault> {
        assert_eq!(self.end, None, "content behind the end");
        self.data.extend_from_slice(data);
        Ok(())
    }

    fn put_end(&mut self, text: &[u8], trailers: &[Field], _: &mut Output<'_>) -> Result<(), Fault> {
        let line = |field: &Field| [field.name(text), b"=", field.value(text)].concat();
        let lines = trailers.iter().map(line).collect::<Vec<_>>().join(&b' ');
        let before = self.end.replace(String::from_utf8(lines).expect("text"));
        assert_eq!(before, None, "it ended twice");
        Ok(())
    }

    fn flush(&mut self, _: &mut Output<'_>) -> Result<(), Fault> {
        self.sent = self.data.len();
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.end.is_some()
    }
}

fn begin(framing: Framing, is_response: bool) -> Incoming {
    let mut incoming = Incoming::new(b"head".to_vec());
    incoming.begin(4, framing, &HeadLimits::default(), is_response);
    incoming
}

#[test]
fn a_message_ends_by_its_framing_and_what_follows_is_left() {
    let chunks = "2;a=b\r\nab\r\n1\r\nc\r\n0\r\nX-Sum: 1\r\nx-b: 2\r\n\r\n";
    for (framing, sent, trailers) in
        [(Framing::Length(3), "abc", ""), (Framing::Chunked, chunks, "X-Sum=1 x-b=2")]
    {
        for behind in ["", "GET /next"] {
            let bytes = format!("{sent}{behind}").into_bytes();
            for size in 1..=bytes.len() {
                let mut bench = Bench::new(LegSide::Client);
                let (mut incoming, mut taken) = (begin(framing, false), CollectingSink::default());
                for piece in bytes.chunks(size) {
                    assert!(incoming.input.len() < bytes.len(), "content is not kept");
                    bench.comes(piece);
                    if !incoming.has_ended() {
                        bench.pump(&mut incoming, &mut taken).expect("it is right");
                    }
                }
                assert_eq!(
                    taken,
                    CollectingSink { data: b"abc".into(), end: Some(trailers.into()), sent: 3 },
                    "{size}"
                );
                assert!(incoming.has_ended());
                assert_eq!(incoming.bytes, 3);
                let unread: Vec<u8> = bench.link.borrow().to_leg.iter().copied().collect();
                assert_eq!([incoming.input, unread].concat(), behind.as_bytes(), "pieces of {size}");
            }
        }
    }
}

#[test]
fn content_that_came_with_the_head_needs_no_read() {
    let mut bench = Bench::new(LegSide::Client);
    let mut incoming = Incoming::new(b"headabcGET /next".to_vec());
    incoming.begin(4, Framing::Length(3), &HeadLimits::default(), false);
    let mut taken = CollectingSink::default();
    let (leg, mut io) = bench.split();
    assert!(incoming.pump(leg, &mut taken, &mut io).expect("it is right"));
    assert_eq!((taken.data, &incoming.input[..]), (b"abc".to_vec(), &b"GET /next"[..]));
    // The next request is there, and its socket reports nothing.
    assert!(incoming.read_head(leg, READ, &mut io).expect("it is there"));
    assert!(!incoming.read_head(leg, READ, &mut io).expect("nothing is wrong"), "nothing more came");
    incoming.mark_unparsed();
    assert!(incoming.read_head(leg, READ, &mut io).expect("it is there"));
}

#[test]
fn a_message_without_content_has_ended_with_its_head() {
    for (framing, has_ended) in [
        (Framing::None, true),
        (Framing::Length(0), true),
        (Framing::Length(1), false),
        (Framing::Chunked, false),
        (Framing::UntilClose, false),
    ] {
        assert_eq!(begin(framing, true).has_ended(), has_ended, "{framing:?}");
    }
}

#[test]
fn the_end_of_the_connection_is_the_end_of_a_message_only_where_nothing_else_is() {
    for side in [LegSide::Client, LegSide::Backend] {
        for (framing, sent) in [
            (Framing::Length(3), "ab"),
            (Framing::Length(3), ""),
            (Framing::Chunked, "2\r\nab\r\n"),
            (Framing::Chunked, "2\r\nab\r\n0\r\n"),
        ] {
            let mut bench = Bench::new(side);
            bench.comes(sent.as_bytes());
            bench.link.borrow_mut().peer_ended = true;
            let mut taken = CollectingSink::default();
            let incoming = &mut begin(framing, side == LegSide::Backend);
            let fault = bench.pump(incoming, &mut taken).expect_err("it was cut off");
            assert_eq!((fault.reason.side, fault.reason.cause), (side.into(), Cause::CLOSED_EARLY), "{sent}");
            assert_eq!(fault.status, (side == LegSide::Backend).then_some(502));
            assert_eq!(taken.end, None, "{framing:?} {sent}");
        }
    }
    let mut bench = Bench::new(LegSide::Backend);
    bench.comes(b"ab");
    bench.link.borrow_mut().peer_ended = true;
    let (mut incoming, mut taken) = (begin(Framing::UntilClose, true), CollectingSink::default());
    bench.pump(&mut incoming, &mut taken).expect("it is whole");
    assert_eq!(taken, CollectingSink { data: b"ab".into(), end: Some(String::new()), sent: 2 });
}

#[test]
fn a_reset_is_never_the_end_of_a_message() {
    let mut bench = Bench::new(LegSide::Backend);
    bench.comes(b"ab");
    bench.link.borrow_mut().peer_reset = true;
    let mut taken = CollectingSink::default();
    let fault = bench.pump(&mut begin(Framing::UntilClose, true), &mut taken).expect_err("it was cut off");
    assert_eq!((fault.reason.side, taken.end), (Side::Backend, None));
}

/// With TLS, content and the end that cuts it off can come in one read.
#[test]
fn what_came_before_a_cut_is_sent() {
    for cut in [kind::CLOSE, kind::ALERT] {
        let Bench { link, mut scratch, mut buffers, .. } = Bench::new(LegSide::Backend);
        let socket = Memory::new(Rc::clone(&link), dice(0), Rc::new(Cell::new(false)));
        let mut leg: Leg<Memory, Toy> = Leg::plain(LegSide::Backend, socket);
        leg.secure(Toy::new(1));
        link.borrow_mut().to_leg.extend([record(kind::DATA, 1, b"ab"), record(cut, 1, b"")].concat());
        let mut io = Io { scratch: &mut scratch, buffers: &mut buffers };
        let mut taken = CollectingSink::default();
        begin(Framing::Length(3), true).pump(&mut leg, &mut taken, &mut io).expect_err("it was cut off");
        assert_eq!((taken.sent, taken.end), (2, None), "{cut}");
    }
}

#[test]
fn no_more_content_is_taken_than_allowed() {
    for (framing, sent) in
        [(Framing::Length(4), "abcd"), (Framing::Chunked, "3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n")]
    {
        for (limit, status) in [(None, None), (Some(4), None), (Some(3), Some(413))] {
            let mut bench = Bench::new(LegSide::Client);
            bench.comes(sent.as_bytes());
            let mut incoming = begin(framing, false);
            incoming.limit(limit);
            let fault = bench.pump(&mut incoming, &mut CollectingSink::default()).err();
            let found = fault.map(|fault| (fault.status, fault.reason.cause));
            assert_eq!(found, status.map(|status| (Some(status), Cause::BodyTooLarge)), "{limit:?} {sent}");
        }
    }
}

#[test]
fn a_limit_is_for_one_message() {
    let mut bench = Bench::new(LegSide::Client);
    let mut incoming = begin(Framing::Length(3), false);
    incoming.limit(Some(3));
    bench.comes(b"abcheaddefg");
    bench.pump(&mut incoming, &mut CollectingSink::default()).expect("it is right");
    incoming.begin(4, Framing::Length(4), &HeadLimits::default(), false);
    bench.pump(&mut incoming, &mut CollectingSink::default()).expect("it is right");
    assert_eq!(incoming.bytes, 4);
}

#[test]
fn chunks_that_break_a_rule_are_refused_with_the_side_that_sent_them() {
    for (side, status) in [(LegSide::Client, 400), (LegSide::Backend, 502)] {
        let mut bench = Bench::new(side);
        bench.comes(b"1\r\na\r\n 2\r\nbc\r\n");
        let mut taken = CollectingSink::default();
        let mut incoming = begin(Framing::Chunked, side == LegSide::Backend);
        let fault = bench.pump(&mut incoming, &mut taken).expect_err("a blank before a size");
        assert_eq!((fault.rule, fault.status), (Some(Rule::ChunkSize), Some(status)));
        assert_eq!((fault.reason.side, taken.end), (side.into(), None));
    }
}

#[test]
fn a_connection_without_a_request_owns_no_buffer() {
    let mut bench = Bench::new(LegSide::Client);
    for _ in 0..2 {
        bench.comes(b"head");
        let (mut incoming, (leg, mut io)) = (Incoming::new(Vec::new()), bench.split());
        assert!(incoming.read_head(leg, READ, &mut io).expect("it came"));
        incoming.begin(4, Framing::None, &HeadLimits::default(), false);
        assert!(!incoming.read_head(leg, READ, &mut io).expect("nothing is wrong"));
        assert_eq!(incoming.input.capacity(), 0);
    }
    assert_eq!(bench.buffers.spare.len(), 1, "the second one took that of the first one");
    for (capacity, kept) in [(MAX_SPARE_BYTES + 1, 1), (MAX_SPARE_BYTES, 2)] {
        let mut incoming = Incoming::new(Vec::with_capacity(capacity));
        incoming.give_back(&mut bench.buffers);
        assert_eq!(bench.buffers.spare.len(), kept, "{capacity}");
    }
    for _ in 0..2 * MAX_SPARE_BUFFERS {
        Incoming::new(Vec::with_capacity(1)).give_back(&mut bench.buffers);
    }
    assert_eq!(bench.buffers.spare.len(), MAX_SPARE_BUFFERS);
}

/// Writes pieces and the end of a message; returns the bytes that the peer receives.
fn send(framing: Framing, pieces: &[&str]) -> Result<String, Fault> {
    let mut bench = Bench::new(LegSide::Backend);
    let mut outgoing = Outgoing::new(framing);
    let (trailers, text) = trailers();
    let (leg, mut io) = bench.split();
    io.buffers.out.extend_from_slice(b"head ");
    for piece in pieces {
        outgoing.put(leg, piece.as_bytes(), &mut io.output())?;
    }
    outgoing.put_end(Side::Backend, text, &trailers, &mut io.output())?;
    flush(leg, &mut io.output())?;
    assert!(outgoing.has_ended());
    assert!(io.buffers.out.is_empty());
    assert_eq!(outgoing.bytes, pieces.iter().map(|piece| piece.len() as u64).sum::<u64>());
    Ok(bench.written())
}

fn trailers() -> (Vec<Field>, &'static [u8]) {
    let (text, mut fields) = (b"0\r\nX-Sum: 1\r\n\r\n", Vec::new());
    let mut reader = BodyReader::new(Framing::Chunked, &HeadLimits::default(), false);
    let Ok(Piece::End { trailers, .. }) = reader.next(text, &mut fields) else { panic!("it is an end") };
    (fields, &text[trailers])
}

#[test]
fn content_is_written_by_its_framing_and_behind_its_head() {
    let large = "x".repeat(MIN_DIRECT_BYTES);
    for (framing, pieces, expected) in [
        (Framing::None, &["ab"][..], String::new()),
        (Framing::Length(3), &["ab", "c"], "abc".into()),
        (Framing::Length(0), &[], String::new()),
        (Framing::Length(MIN_DIRECT_BYTES as u64), &[&large], large.clone()),
        (Framing::UntilClose, &["ab", &large, "c"], format!("ab{large}c")),
        (Framing::Chunked, &["ab", "c"], "2\r\nab\r\n1\r\nc\r\n0\r\nX-Sum: 1\r\n\r\n".into()),
        (Framing::Chunked, &[&large], format!("1000\r\n{large}\r\n0\r\nX-Sum: 1\r\n\r\n")),
    ] {
        let found = send(framing, pieces).expect("it is right");
        assert_eq!(found, format!("head {expected}"), "{framing:?}");
    }
}

#[test]
fn content_of_another_length_than_announced_is_never_a_whole_message() {
    for pieces in [&["ab"][..], &["ab", "cd"], &["abcd"], &[]] {
        let fault = send(Framing::Length(3), pieces).expect_err("it has another length");
        assert_eq!((fault.status, fault.reason.side), (Some(400), Side::Client), "{pieces:?}");
    }
    let mut bench = Bench::new(LegSide::Client);
    let (leg, mut io) = bench.split();
    let mut outgoing = Outgoing::new(Framing::Length(3));
    let fault = outgoing.put(leg, b"abcd", &mut io.output()).expect_err("it is too long");
    assert_eq!((fault.status, fault.reason.side), (Some(502), Side::Backend));
    assert!(!outgoing.has_ended());
}

#[test]
fn nothing_is_put_while_the_peer_does_not_read() {
    let mut bench = Bench::new(LegSide::Backend);
    bench.link.borrow_mut().room = 2;
    let (leg, mut io) = bench.split();
    assert!(Outgoing::accepts(leg).expect("it is open"));
    Outgoing::new(Framing::UntilClose).put(leg, b"abcd", &mut io.output()).expect("it is open");
    flush(leg, &mut io.output()).expect("it is open");
    assert!(!Outgoing::accepts(leg).expect("it is open"), "two bytes wait");
    bench.link.borrow_mut().to_peer.clear();
    assert!(Outgoing::accepts(&mut bench.leg).expect("it is open"));
    assert_eq!(bench.written(), "cd");
}
