//! Tests for a stream whose peer ends, resets, or stalls; against plain sockets of the standard library.

mod segments;

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};

use rustix::net::sockopt::set_socket_linger;

use super::*;
use crate::address::Address;
use crate::clock::Moment;
use crate::dial::Dialling;
use crate::engine::tests::on_engine;
use crate::engine::{sleep, wait};
use crate::fault::Cause;

/// A stream of ours, and the peer's end of it.
async fn pair() -> (Stream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound");
    let stream = dial(address).await.expect("it listens");
    (stream, listener.accept().expect("it was dialled").0)
}

async fn dial(address: SocketAddr) -> Result<Stream, Fault> {
    let mut dialling = Dialling::start(&Address::Ip(address))?;
    while dialling.advance(b"")?.is_none() {
        wait(Moment::NEVER).await;
    }
    Ok(dialling.into_stream())
}

/// Reads as the relay does: what is there, and waits when nothing is.
async fn read(stream: &mut Stream) -> Result<Read, Fault> {
    let mut buffer = [0; 1000];
    loop {
        match stream.try_read(&mut buffer) {
            Ok(Read::Blocked) => wait(Moment::NEVER).await,
            other => return other,
        };
    }
}

fn reset(peer: TcpStream) {
    set_socket_linger(&peer, Some(Duration::ZERO)).expect("a socket");
    drop(peer);
}

/// Lets the kernel deliver what a peer on this machine did.
async fn a_moment() {
    sleep(Duration::from_millis(20)).await;
}

#[test]
fn an_end_in_order_is_an_end() {
    on_engine(|| async {
        let (mut stream, mut peer) = pair().await;
        peer.write_all(b"five!").expect("it is connected");
        drop(peer);
        assert_eq!(read(&mut stream).await, Ok(Read::Bytes(5)));
        assert_eq!(read(&mut stream).await, Ok(Read::End));
        assert_eq!(stream.fault(), None);
    });
}

#[test]
fn what_came_before_a_reset_is_read_first_and_the_reset_stays() {
    on_engine(|| async {
        let (mut stream, mut peer) = pair().await;
        peer.write_all(b"five!").expect("it is connected");
        reset(peer);
        a_moment().await;
        assert_eq!(read(&mut stream).await, Ok(Read::Bytes(5)));
        for _ in 0..3 {
            // The kernel reports it once; a stream reports it forever.
            assert_eq!(read(&mut stream).await.expect_err("it was reset").cause, Cause::Reset);
        }
        assert_eq!(stream.try_write(b"x").expect_err("it was reset").cause, Cause::Reset);
    });
}

#[test]
fn a_reset_that_a_write_met_is_not_an_end_for_the_reader() {
    on_engine(|| async {
        let (mut stream, mut peer) = pair().await;
        peer.write_all(b"five!").expect("it is connected");
        reset(peer);
        a_moment().await;
        assert_eq!(stream.try_write(b"x").expect_err("it was reset").cause, Cause::Reset);
        assert_eq!(read(&mut stream).await, Ok(Read::Bytes(5)));
        assert_eq!(read(&mut stream).await.expect_err("no clean end").cause, Cause::Reset);
    });
}

#[test]
fn a_reset_that_was_fetched_is_not_an_end_either() {
    on_engine(|| async {
        let (mut stream, peer) = pair().await;
        assert_eq!(stream.try_read(&mut [0; 10]), Ok(Read::Blocked));
        reset(peer);
        wait(Moment::NEVER).await;
        assert!(stream.is_broken() && stream.peer_ended());
        assert_eq!(stream.check().expect_err("it was announced").cause, Cause::Reset);
        assert_eq!(read(&mut stream).await.expect_err("no clean end").cause, Cause::Reset);
    });
}

#[test]
fn a_peer_that_closed_both_ways_is_distinguished_from_one_that_reset() {
    on_engine(|| async {
        let (mut stream, peer) = pair().await;
        drop(peer);
        assert_eq!(read(&mut stream).await, Ok(Read::End));
        assert_eq!(stream.try_write(b"to nobody"), Ok(Write::Bytes(9)));
        a_moment().await;
        assert_eq!(stream.try_write(b"x").expect_err("it answered with a reset").cause, Cause::ClosedEarly);
    });
}

#[test]
fn a_half_closed_peer_can_still_be_written_to() {
    on_engine(|| async {
        let (mut stream, mut peer) = pair().await;
        peer.shutdown(Shutdown::Write).expect("it is connected");
        assert_eq!(read(&mut stream).await, Ok(Read::End));
        assert_eq!(stream.try_write(b"late"), Ok(Write::Bytes(4)));
        stream.end_writing();
        let mut got = Vec::new();
        peer.read_to_end(&mut got).expect("a clean end");
        assert_eq!(got, b"late");
        stream.finish();
    });
}

#[test]
fn dropping_resets_and_finishing_does_not() {
    on_engine(|| async {
        for finished in [false, true] {
            let (stream, mut peer) = pair().await;
            if finished {
                stream.finish();
            } else {
                drop(stream);
            }
            let outcome = peer.read(&mut [0; 10]);
            assert_eq!(outcome.is_ok(), finished, "{outcome:?}");
        }
    });
}

#[test]
fn a_full_peer_blocks_and_wakes_when_it_has_read() {
    on_engine(|| async {
        let (mut stream, mut peer) = pair().await;
        let block = vec![7; 1 << 16];
        let mut sent = 0;
        while let Write::Bytes(bytes) = stream.try_write(&block).expect("it is connected") {
            sent += bytes;
        }
        assert!(stream.unsent() > 0);
        let mut got = 0;
        let mut buffer = vec![0; 1 << 20];
        while got < sent {
            got += peer.read(&mut buffer).expect("it is connected");
        }
        // Writability was requested when it blocked, so this wait ends.
        loop {
            if let Write::Bytes(_) = stream.try_write(b"more").expect("it is connected") {
                break;
            }
            wait(Moment::NEVER).await;
        }
    });
}

/// The peer goes on sending for a while after our end: all of that is read, and then its end.
#[test]
fn after_our_end_the_peer_is_still_read_to_its_own() {
    on_engine(|| async {
        let (mut stream, mut peer) = pair().await;
        assert_eq!(stream.try_write(b"question"), Ok(Write::Bytes(8)));
        stream.end_writing();
        let answer = vec![7; 1 << 20];
        let sending = std::thread::Builder::new().name("peer".into()).spawn(move || {
            let mut question = Vec::new();
            peer.read_to_end(&mut question).expect("our end");
            peer.write_all(&vec![7; 1 << 20]).expect("we still read");
            question
        });
        let mut got = 0;
        loop {
            match read(&mut stream).await.expect("no fault") {
                Read::Bytes(bytes) => got += bytes,
                Read::End => break,
                Read::Blocked => unreachable!("read waits"),
            }
        }
        assert_eq!(got, answer.len());
        assert_eq!(sending.expect("a thread").join().expect("the peer"), b"question");
        assert_eq!(stream.fault(), None);
        stream.finish();
    });
}

#[test]
fn the_source_address_is_the_one_asked_for() {
    on_engine(|| async {
        for (target, source) in [("127.0.0.1:0", "127.7.0.9"), ("[::1]:0", "::1")] {
            let Ok(listener) = TcpListener::bind(target) else {
                eprintln!("skipped: no IPv6 here");
                continue;
            };
            let address = listener.local_addr().expect("it is bound");
            let source: std::net::IpAddr = source.parse().expect("an address");
            let mut dialling = Dialling::start_from(&Address::Ip(address), Some(source)).expect("a socket");
            while dialling.advance(b"").expect("it listens").is_none() {
                wait(Moment::NEVER).await;
            }
            let (_, seen) = listener.accept().expect("it was dialled");
            assert_eq!(seen.ip(), source);
        }
    });
}

#[test]
fn a_source_that_is_not_ours_is_distinguished_from_a_lack_of_ports() {
    on_engine(|| async {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = Address::Ip(listener.local_addr().expect("it is bound"));
        let from = |source: &str| {
            let source = source.parse().expect("an address");
            Dialling::start_from(&address, Some(source)).expect_err("it is not ours")
        };
        // Of a network for documentation (RFC 5737).
        let fault = from("192.0.2.1");
        assert_eq!(fault.cause, Cause::ForeignAddress);
        assert_eq!(fault.to_string(), "bind: foreign-address (source address 192.0.2.1)");
        assert_eq!(from("::1").cause, Cause::NetworkUnreachable, "the other family");
    });
}

#[test]
fn nobody_listening_is_refused_and_a_missing_path_is_missing() {
    on_engine(|| async {
        // Tcpmux, which no program serves; a port that was free a moment ago may be another test's now.
        assert_eq!(
            dial(([127, 0, 0, 1], 1).into()).await.expect_err("no process listens").cause,
            Cause::Refused
        );
        let nowhere = Address::Unix("/nonexistent/handfast.sock".into());
        assert_eq!(Dialling::start(&nowhere).expect_err("no such path").cause, Cause::PathMissing);
    });
}

#[test]
fn a_peer_that_resets_at_once_was_connected() {
    on_engine(|| async {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let mut dialling = Dialling::start(&Address::Ip(address)).expect("a socket");
        let mut peer = listener.accept().expect("it was dialled").0;
        peer.write_all(b"goodbye").expect("it is connected");
        reset(peer);
        a_moment().await;
        assert_eq!(dialling.advance(b"hello"), Ok(Some(0)), "connected, though nothing could be sent");
        let mut stream = dialling.into_stream();
        assert_eq!(read(&mut stream).await, Ok(Read::Bytes(7)));
        assert_eq!(read(&mut stream).await.expect_err("no clean end").cause, Cause::Reset);
    });
}

#[test]
fn a_connection_that_is_given_up_before_it_is_used_is_reset() {
    on_engine(|| async {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let dialling = Dialling::start(&Address::Ip(address)).expect("a socket");
        let mut peer = listener.accept().expect("it was dialled").0;
        drop(dialling);
        let outcome = peer.read(&mut [0; 10]);
        assert!(outcome.is_err(), "no clean end: {outcome:?}");
    });
}
