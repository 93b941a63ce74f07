//! Bytes before an abort are delivered: every byte that the proxy took from a client that breaks off reaches a slow backend, and every
//! byte of a backend that breaks off reaches a slow client; then comes an abort, and never a clean end.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use super::support::pattern::{Checker, piece};
use super::support::*;

const MEBIBYTE: u64 = 1 << 20;
const CHUNK: usize = 65_536;
/// Bytes that a slow reader takes at once; its pauses make a mebibyte last a third of a second.
const SIP: usize = 8_192;
const REST: Duration = Duration::from_millis(2);
/// Times that each is tried, since what is in which buffer when the end comes is chance.
const TIMES: usize = 5;

/// Sends a mebibyte in order.
fn send_all(mut send: impl FnMut(&[u8])) {
    for offset in (0..MEBIBYTE).step_by(CHUNK) {
        send(piece(offset, CHUNK));
    }
}

/// Reads to the end; how much was right, and the end.
fn sip(mut source: impl Read) -> (u64, io::Result<()>) {
    let mut checker = Checker::default();
    let mut buffer = [0; SIP];
    loop {
        match source.read(&mut buffer) {
            Ok(0) => return (checker.arrived, Ok(())),
            Ok(count) => checker.take(&buffer[..count]),
            Err(error) => return (checker.arrived, Err(error)),
        }
        pause(REST);
    }
}

/// A backend that reads slowly and hands on what it saw.
fn slow_backend() -> (Backend, Receiver<(u64, io::Result<()>)>) {
    let (sender, seen) = sync_channel(TIMES);
    let backend = Backend::start(move |peer| {
        small_buffer(&peer.stream);
        // The client then knows that the tunnel is open, and breaks off in nothing but that.
        peer.send(b"!");
        let _ = sender.send(sip(&peer.stream));
    });
    (backend, seen)
}

/// Much smaller than what comes, so that most of it waits at the proxy and in front of it.
fn small_buffer(stream: &TcpStream) {
    rustix::net::sockopt::set_socket_recv_buffer_size(stream, 32_768)
        .expect("an open socket takes the option");
}

#[test]
fn a_client_that_ends_without_close_notify() {
    let (backend, seen) = slow_backend();
    let stage = Stage::with(backend, |config, _| config);
    for version in Version::BOTH {
        let config = Trust::version(version).config();
        for time in 0..TIMES {
            let mut client = stage.client(&config);
            client.read_exactly(1);
            send_all(|bytes| client.send(bytes));
            client.fin();
            let (arrived, end) = seen.recv_timeout(DEADLINE).expect("the backend's connection ends");
            assert_eq!(arrived, MEBIBYTE, "{version:?}, time {time}: all of it was sent before the end");
            let error = end.expect_err("a cut-off stream has no clean end");
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        }
    }
    let records = wait_until("all records", || {
        let records = stage.proxy.records();
        (records.len() == 2 * TIMES).then_some(records)
    });
    for record in records {
        assert_eq!(record.reason(), "relay/client/truncated", "{record:?}");
        assert_eq!(record.number("bytes_to_backend"), MEBIBYTE, "{record:?}");
    }
    stage.is_quiet();
}

#[test]
fn a_client_that_resets() {
    let (backend, seen) = slow_backend();
    let stage = Stage::with(backend, |config, _| config);
    let config = Trust::version(Version::Tls13).config();
    for time in 1..=TIMES {
        let mut client = stage.client(&config);
        client.read_exactly(1);
        send_all(|bytes| client.send(bytes));
        client.reset();
        let (arrived, end) = seen.recv_timeout(DEADLINE).expect("the backend's connection ends");
        // A reset throws away what the proxy had not read yet: how much that is, it says itself.
        let record = wait_until("the record", || stage.proxy.records().get(time - 1).cloned());
        let error = end.err().unwrap_or_else(|| panic!("a clean end after {arrived} bytes: {record:?}"));
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        assert_eq!(record.reason(), "relay/client/reset", "{record:?}");
        assert_eq!(record.number("bytes_to_backend"), arrived, "{record:?}");
        assert!(arrived > 0);
    }
    stage.is_quiet();
}

/// As a message broker does: it drops a connection on which it cannot send the answer to the first message.
fn broker(seen: SyncSender<usize>) -> Backend {
    Backend::start(move |peer| {
        let mut stream = &peer.stream;
        let mut messages = 0;
        let mut message = [0; 4];
        while stream.read_exact(&mut message).is_ok() {
            messages += 1;
            pause(REST);
            if &message == b"BYE!" || stream.write_all(b"ack!").is_err() {
                break;
            }
        }
        let _ = seen.send(messages);
    })
}

/// It sends all of its messages and closes, without close_notify, and without waiting for an answer, which its kernel refuses by a reset.
#[test]
fn a_client_that_leaves_before_its_first_answer() {
    const MESSAGES: usize = 20;
    let (sender, seen) = sync_channel(TIMES);
    let stage = Stage::with(broker(sender), |config, _| config);
    for version in Version::BOTH {
        let config = Trust::version(version).config();
        for time in 0..TIMES {
            let mut client = stage.client(&config);
            for _ in 1..MESSAGES {
                client.send(b"msg!");
            }
            client.send(b"BYE!");
            drop(client.into_stream());
            let arrived = seen.recv_timeout(DEADLINE).expect("the backend's connection ends");
            assert_eq!(arrived, MESSAGES, "{version:?}, time {time}: all of them were sent before the end");
        }
    }
    stage.is_quiet();
}

#[test]
fn a_backend_that_resets() {
    let stage = Stage::new(|peer| {
        send_all(|bytes| peer.send(bytes));
        peer.reset();
    });
    backend_breaks_off(&stage, |arrived, record| {
        assert_eq!(record.reason(), "relay/backend/reset", "{record:?}");
        // As above, in the other direction.
        assert_eq!(record.number("bytes_to_client"), arrived, "{record:?}");
    });
}

fn backend_breaks_off(stage: &Stage, judge: impl Fn(u64, &record::Record)) {
    let mut number = 0;
    for version in Version::BOTH {
        let config = Trust::version(version).config();
        for _ in 0..TIMES {
            let mut client = stage.client(&config);
            small_buffer(&client.stream);
            let (arrived, end) = sip(&mut client);
            let error = end.expect_err("a cut-off stream has no clean end");
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset, "{error}");
            let record = wait_until("the record", || stage.proxy.records().get(number).cloned());
            judge(arrived, &record);
            assert!(arrived > 0);
            number += 1;
        }
    }
    stage.is_quiet();
}
