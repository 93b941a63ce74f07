//! Every byte arrives, once and in order: a gibibyte each way under back-pressure, both ways at once, through tiny reads, and
//! in single-byte writes.

use std::io::{Read, Write};
use std::time::Duration;

use super::support::pattern::{Checker, piece};
use super::support::*;

const GIBIBYTE: u64 = 1 << 30;
const CHUNK: usize = 65_536;

/// Reads the whole stream, pausing now and then so that everything before it fills up and has to wait.
fn check_all(mut source: impl Read, pauses: usize) -> u64 {
    let mut checker = Checker::default();
    let mut buffer = vec![0; CHUNK];
    let mut paused = 0;
    loop {
        match source.read(&mut buffer) {
            Ok(0) => return checker.arrived,
            Ok(count) => checker.take(&buffer[..count]),
            Err(error) => panic!("after {} bytes: {error}", checker.arrived),
        }
        if paused < pauses && checker.arrived > (paused as u64 + 1) * 20_000_000 {
            paused += 1;
            pause(Duration::from_millis(100));
        }
    }
}

fn send_all(total: u64, mut send: impl FnMut(&[u8])) {
    let mut sent = 0;
    while sent < total {
        let left = usize::try_from(total - sent).unwrap_or(CHUNK).min(CHUNK);
        send(piece(sent, left));
        sent += left as u64;
    }
}

#[test]
fn a_gibibyte_to_the_backend() {
    let stage = Stage::new(|peer| {
        let arrived = check_all(&peer.stream, 20);
        peer.send(&arrived.to_be_bytes());
    });
    let mut client = stage.any_client();
    send_all(GIBIBYTE, |bytes| client.send(bytes));
    client.close_notify();
    assert_eq!(client.read_exactly(8), GIBIBYTE.to_be_bytes());
    client.finish();
    let record = stage.proxy.record("the connection", |_| true);
    assert_eq!(record.number("bytes_to_backend"), GIBIBYTE, "{record:?}");
    stage.is_quiet();
}

#[test]
fn a_gibibyte_to_the_client() {
    let stage = Stage::new(|peer| send_all(GIBIBYTE, |bytes| peer.send(bytes)));
    let mut client = stage.any_client();
    assert_eq!(check_all(&mut client, 20), GIBIBYTE);
    client.finish();
    let record = stage.proxy.record("the connection", |_| true);
    assert_eq!(record.number("bytes_to_client"), GIBIBYTE, "{record:?}");
    stage.is_quiet();
}

#[test]
fn both_ways_at_once_through_small_socket_buffers() {
    const TOTAL: u64 = 32 << 20;
    let stage = Stage::new(|peer| {
        small_buffers(&peer.stream);
        let mut sink = peer.stream.try_clone().expect("the process may have more descriptors");
        let sending = deadline::thread("backend sends", move || {
            send_all(TOTAL, |bytes| sink.write_all(bytes).expect("the proxy keeps reading"));
        });
        let mut checker = Checker::default();
        let mut buffer = vec![0; CHUNK];
        while checker.arrived < TOTAL {
            let count = peer.stream.read(&mut buffer).expect("the proxy keeps writing");
            checker.take(&buffer[..count]);
        }
        sending.join().expect("the sender has not panicked");
    });
    let mut client = stage.client(&Trust::version(Version::Tls12).config());
    small_buffers(&client.stream);
    // One thread for both ways: what can be written is written, what has come is read.
    client.stream.set_nonblocking(true).expect("an open socket takes the option");
    let (mut sent, mut checker) = (0, Checker::default());
    let mut buffer = vec![0; CHUNK];
    deadline::spin_until("both ways to be done", || {
        if sent < TOTAL {
            let left = usize::try_from(TOTAL - sent).unwrap_or(CHUNK).min(CHUNK);
            match client.try_send_some(piece(sent, left)) {
                Ok(count) => sent += count as u64,
                Err(error) => panic!("client sends: {error}"),
            }
        } else {
            client.try_flush();
        }
        match client.read(&mut buffer) {
            Ok(count) => checker.take(&buffer[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => panic!("client reads: {error}"),
        }
        (sent == TOTAL && checker.arrived == TOTAL && !client.tls().wants_write()).then_some(())
    });
    client.stream.set_nonblocking(false).expect("an open socket takes the option");
    client.finish();
    stage.is_quiet();
}

/// A quarter of the usual, so that every buffer on the way fills. Much smaller ones make loopback, whose segments have
/// 64 KiB, wait for its timers instead.
fn small_buffers(stream: &std::net::TcpStream) {
    rustix::net::sockopt::set_socket_recv_buffer_size(stream, 32_768)
        .expect("an open socket takes the option");
    rustix::net::sockopt::set_socket_send_buffer_size(stream, 32_768)
        .expect("an open socket takes the option");
}

#[test]
fn through_tiny_reads() {
    const TOTAL: u64 = 2 << 20;
    let tiny = |source: &mut dyn Read| {
        let mut checker = Checker::default();
        let mut size = 0;
        loop {
            size = size % 7 + 1;
            let mut buffer = [0; 7];
            match source.read(&mut buffer[..size]) {
                Ok(0) => return checker.arrived,
                Ok(count) => checker.take(&buffer[..count]),
                Err(error) => panic!("after {} bytes: {error}", checker.arrived),
            }
        }
    };
    let stage = Stage::new(move |peer| {
        small_buffers(&peer.stream);
        let arrived = tiny(&mut &peer.stream);
        assert_eq!(arrived, TOTAL);
        send_all(TOTAL, |bytes| peer.send(bytes));
    });
    let mut client = stage.any_client();
    small_buffers(&client.stream);
    send_all(TOTAL, |bytes| client.send(bytes));
    client.close_notify();
    assert_eq!(tiny(&mut client), TOTAL);
    client.finish();
    stage.is_quiet();
}

#[test]
fn in_single_byte_records() {
    let stage = Stage::echo();
    let mut client = stage.any_client();
    let mut checker = Checker::default();
    const TOTAL: u64 = 20_000;
    for offset in 0..TOTAL {
        // Each of them becomes a separate record, and nothing gathers them: Nagle is off.
        client.send(piece(offset, 1));
    }
    checker.take(&client.read_exactly(usize::try_from(TOTAL).expect("a small number")));
    client.finish();
    stage.is_quiet();
}
