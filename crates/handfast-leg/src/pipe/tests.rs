//! Tests for the reaction of a pipe to each event of its leg.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;

use handfast_net::fault::Cause;

use super::*;
use crate::broken::Side;
use crate::testing::{Done, Marks, Script, Tested, at, plain, secured};

type Piped = Pipe<Script, Marks>;

fn pipe(leg: Tested) -> Piped {
    Pipe::new(leg, Rc::new(RefCell::new(Scratch::new(READ))), b"")
}

/// One whose socket gives these reads.
fn reading(leg: Tested, reads: &[&str]) -> Piped {
    let mut pipe = pipe(leg);
    reads.iter().for_each(|read| pipe.leg.socket_mut().comes(read));
    pipe
}

fn read(pipe: &mut Piped, most: usize) -> Poll<Result<String, Why>> {
    let mut text = String::new();
    let put = |bytes: &[u8]| text = String::from_utf8_lossy(bytes).into_owned();
    let (read, _) = with_context(|context| pipe.poll_read(context, most, put));
    read.map(|read| match read {
        Ok(count) => {
            assert_eq!(count, text.len());
            Ok(text)
        }
        Err(broken) => Err(broken.why),
    })
}

fn text(text: &str) -> Poll<Result<String, Why>> {
    Poll::Ready(Ok(text.into()))
}

fn wrote(bytes: &str) -> Done {
    Done::Wrote(bytes.as_bytes().to_vec())
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Makes one call, and the number of wakes in it.
fn with_context<T>(call: impl FnOnce(&mut Context<'_>) -> T) -> (T, usize) {
    let wakes = Arc::<Wakes>::default();
    let outcome = call(&mut Context::from_waker(&Arc::clone(&wakes).into()));
    (outcome, wakes.0.load(Ordering::Relaxed))
}

fn write(pipe: &mut Piped, text: &str) -> Poll<Result<usize, Why>> {
    with_context(|context| pipe.poll_write(context, text.as_bytes())).0.map_err(|broken| broken.why)
}

fn flush(pipe: &mut Piped) -> Poll<Result<(), Why>> {
    with_context(|context| pipe.poll_flush(context)).0.map_err(|broken| broken.why)
}

fn shutdown(pipe: &mut Piped) -> Poll<Result<(), Why>> {
    with_context(|context| pipe.poll_shutdown(context)).0.map_err(|broken| broken.why)
}

fn is_reset<T>(outcome: Poll<Result<T, Why>>) -> bool {
    matches!(outcome, Poll::Ready(Err(Why::Socket(fault))) if fault.cause == Cause::Reset)
}

#[test]
fn what_its_reader_has_no_room_for_comes_next_and_an_idle_pipe_owns_no_buffer() {
    for leg in [plain(Side::Client), secured(Side::Client)] {
        let mut pipe = reading(leg, &["hello", "again"]);
        assert_eq!(read(&mut pipe, 2), text("he"));
        assert_eq!(pipe.unread(), b"llo");
        assert_eq!(read(&mut pipe, 2), text("ll"));
        assert_eq!((read(&mut pipe, 2), read(&mut pipe, 9)), (text("o"), text("again")));
        assert_eq!(read(&mut pipe, 9), Poll::Pending);
        assert_eq!(pipe.unread.room(0).len(), 0, "it owns no buffer");
    }
    let leg = plain(Side::Client);
    let mut early = Pipe::new(leg, Rc::new(RefCell::new(Scratch::new(READ))), b"early");
    early.leg.socket_mut().comes("late");
    assert_eq!((read(&mut early, 9), read(&mut early, 9)), (text("early"), text("late")));
}

#[test]
fn a_clean_end_is_one_and_a_truncated_stream_is_not() {
    let mut plain = reading(plain(Side::Client), &["all"]);
    plain.leg.socket_mut().ends = true;
    let mut tls = reading(secured(Side::Client), &["all."]);
    for pipe in [&mut plain, &mut tls] {
        assert_eq!((read(pipe, 2), read(pipe, 2)), (text("al"), text("l")));
        assert_eq!((read(pipe, 2), read(pipe, 2)), (text(""), text("")));
        assert_eq!(pipe.broken(), None);
    }
    let mut cut = reading(secured(Side::Client), &["some"]);
    cut.leg.socket_mut().ends = true;
    assert_eq!((read(&mut cut, 2), read(&mut cut, 2)), (text("so"), text("me")));
    for _ in 0..2 {
        assert_eq!(read(&mut cut, 2), Poll::Ready(Err(Why::Truncated)));
    }
    assert_eq!(write(&mut cut, "x"), Poll::Ready(Err(Why::Truncated)));
    assert_eq!(cut.broken().map(|broken| &broken.why), Some(&Why::Truncated));
}

#[test]
fn what_comes_before_a_failure_is_read_and_our_alert_waits_for_the_end() {
    let mut pipe = reading(secured(Side::Client), &["ok?"]);
    assert_eq!(read(&mut pipe, 9), text("ok"));
    assert!(matches!(read(&mut pipe, 9), Poll::Ready(Err(Why::Session(_)))));
    assert!(matches!(flush(&mut pipe), Poll::Ready(Err(Why::Session(_)))));
    assert_eq!((pipe.leg().unsent(), pipe.leg.socket_mut().done()), (1, vec![]));
    // The session's automatic answers need no reader's help.
    let mut reader = reading(secured(Side::Client), &["#", "x"]);
    assert_eq!(read(&mut reader, 9), text("x"));
    assert_eq!(reader.leg.socket_mut().done(), [wrote("r")]);
}

#[test]
fn what_the_socket_does_not_take_goes_before_anything_else() {
    let mut pipe = pipe(secured(Side::Client));
    assert_eq!((write(&mut pipe, ""), flush(&mut pipe)), (Poll::Ready(Ok(0)), Poll::Ready(Ok(()))));
    pipe.leg.socket_mut().room = 2;
    assert_eq!(write(&mut pipe, "hello"), Poll::Ready(Ok(5)));
    assert!(pipe.scratch.borrow().records.is_empty(), "it would be sent on another connection");
    assert_eq!((write(&mut pipe, "more"), flush(&mut pipe)), (Poll::Pending, Poll::Pending));
    assert_eq!(shutdown(&mut pipe), Poll::Pending);
    pipe.leg.socket_mut().room = 99;
    assert_eq!((flush(&mut pipe), write(&mut pipe, "more")), (Poll::Ready(Ok(())), Poll::Ready(Ok(4))));
    assert_eq!((shutdown(&mut pipe), shutdown(&mut pipe)), (Poll::Ready(Ok(())), Poll::Ready(Ok(()))));
    assert_eq!(pipe.leg.socket_mut().done(), [wrote("<h"), wrote("ello>"), wrote("<more>"), wrote(".")]);
    assert!(pipe.scratch.borrow().records.is_empty());
    let long = "x".repeat(READ + 1);
    assert_eq!(write(&mut self::pipe(plain(Side::Client)), &long), Poll::Ready(Ok(READ)));
    let mut ended = self::pipe(plain(Side::Client));
    assert_eq!(shutdown(&mut ended), Poll::Ready(Ok(())));
    assert_eq!(ended.leg.socket_mut().done(), [Done::EndedWriting]);
}

#[test]
fn parts_are_one_write_and_take_along_what_is_held() {
    let mut leg = secured(Side::Client);
    leg.keep(b"t");
    leg.hold(at(5));
    let mut pipe = pipe(leg);
    assert_eq!(flush(&mut pipe), Poll::Ready(Ok(())));
    assert_eq!(pipe.leg.socket_mut().done(), [], "it is held");
    let mut parts = |parts: &[&[u8]]| with_context(|context| pipe.poll_write_parts(context, parts)).0;
    assert_eq!(parts(&[b"", b"he", b"", b"llo"]), Poll::Ready(Ok(5)));
    assert_eq!(parts(&[b"", b""]), Poll::Ready(Ok(0)));
    assert_eq!(parts(&[b"x", &[b'y'; READ]]), Poll::Ready(Ok(READ)));
    let done = pipe.leg.socket_mut().done();
    assert_eq!((&done[0], done.len()), (&wrote("t<hello>"), 2));
}

#[test]
fn a_client_that_breaks_off_may_have_sent_its_reason() {
    for (sent, is_alert) in [("x!", true), ("x", false), ("x?", false)] {
        let mut pipe = reading(secured(Side::Client), &[sent]);
        let socket = pipe.leg.socket_mut();
        (socket.write_fault, socket.read_fault) = (Some(Cause::Reset), Some(Cause::Reset));
        let outcome = write(&mut pipe, "y");
        assert_eq!(matches!(outcome, Poll::Ready(Err(Why::Session(_)))), is_alert, "{sent}: {outcome:?}");
        assert!(is_alert || is_reset(outcome));
        assert!(matches!(read(&mut pipe, 9), Poll::Ready(Err(_))));
    }
}

/// A server that refuses an upload answers and closes: its answer is read, and no socket wakes the reader.
#[test]
fn a_backend_that_takes_no_more_is_still_read() {
    for is_flushed in [false, true] {
        let refusing = |reads: &[&str]| {
            let mut pipe = reading(secured(Side::Backend), reads);
            pipe.leg.socket_mut().room = 1;
            if is_flushed {
                assert_eq!(write(&mut pipe, "first"), Poll::Ready(Ok(5)));
            }
            let socket = pipe.leg.socket_mut();
            (socket.write_fault, socket.read_fault) = (Some(Cause::Reset), Some(Cause::Unacknowledged));
            let call = |context: &mut Context<'_>| match is_flushed {
                true => pipe.poll_flush(context),
                false => pipe.poll_write(context, b"more").map_ok(drop),
            };
            let outcome = with_context(call);
            (pipe, outcome)
        };
        let (mut reset, outcome) = refusing(&["sorry"]);
        assert_eq!(outcome, (Poll::Ready(Ok(())), 1), "the reader is woken");
        assert_eq!(with_context(|context| reset.poll_write(context, b"x")), (Poll::Ready(Ok(1)), 0));
        assert_eq!((shutdown(&mut reset), read(&mut reset, 9)), (Poll::Ready(Ok(())), text("sorry")));
        assert!(is_reset(read(&mut reset, 9)) && is_reset(write(&mut reset, "x")));
        let (mut ended, _) = refusing(&["sorry."]);
        assert_eq!((read(&mut ended, 9), read(&mut ended, 9)), (text("sorry"), text("")));
        assert!(is_reset(write(&mut ended, "x")) && is_reset(flush(&mut ended)));
        assert!(is_reset(shutdown(&mut ended)));
        let (mut mute, outcome) = refusing(&[]);
        assert!(is_reset(outcome.0.map_err(|broken| broken.why)), "there is nothing to wait for");
        assert!(is_reset(read(&mut mute, 9)));
        let (_, outcome) = refusing(&["x!"]);
        assert_eq!(outcome.0, Poll::Ready(Ok(())), "what came before the alert is read first");
        let (_, outcome) = refusing(&["!"]);
        assert!(matches!(outcome.0, Poll::Ready(Err(Broken { why: Why::Session(_), .. }))));
    }
}

/// A peer can send such records faster than they are read.
#[test]
fn records_without_plaintext_do_not_occupy_the_thread() {
    let mut pipe = reading(secured(Side::Client), &["#"; 40]);
    pipe.leg.socket_mut().comes("data");
    let mut rounds = 0;
    let length = loop {
        let before = pipe.leg.socket_mut().requested.len();
        let (outcome, wakes) = with_context(|context| pipe.poll_read(context, 9, |_| {}));
        assert!(pipe.leg.socket_mut().requested.len() - before <= EMPTY_READS);
        match outcome {
            Poll::Pending => assert_eq!(wakes, 1, "no event comes for what is there already"),
            Poll::Ready(read) => break read.expect("it is data"),
        }
        rounds += 1;
    };
    assert_eq!((length, rounds), (4, 2));
    let mut noisy = reading(secured(Side::Client), &["x"; 40]);
    noisy.leg.socket_mut().write_fault = Some(Cause::Reset);
    assert!(is_reset(write(&mut noisy, "more")));
    assert_eq!(noisy.leg.socket_mut().requested.len(), EMPTY_READS, "an alert is not looked for without end");
}

/// A peer can send faster than its reader reads, and its reader may read until nothing is there.
#[test]
fn a_reader_that_reads_on_gives_way() {
    let mut pipe = reading(plain(Side::Client), &["x"; 80]);
    let mut counts = Vec::new();
    let mut count = 0;
    while counts.iter().sum::<usize>() + count < 80 {
        let (outcome, wakes) = with_context(|context| pipe.poll_read(context, 9, |_| {}));
        match outcome {
            Poll::Ready(read) => count += read.expect("it is data"),
            Poll::Pending => {
                assert_eq!(wakes, 1, "no event comes for what is there already");
                counts.push(std::mem::take(&mut count));
            }
        }
    }
    assert_eq!((counts, count), (vec![32, 32], 16));
}
