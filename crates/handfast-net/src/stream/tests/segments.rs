//! Tests for bytes that travel together: they wait for the following ones, as seen by the peer's socket.
//!
//! The kernel lets them wait for 0.2 s at most, and a busy machine may take that from the test between two calls. So each
//! looks several times; what does not wait at all is there every time.

use std::net::TcpListener;

use super::*;

const TRIES: usize = 10;

/// Returns true if `attempt`, which must not wait, would block.
fn nothing_yet<T: std::fmt::Debug>(attempt: std::io::Result<T>) -> bool {
    match attempt {
        Err(error) => {
            assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
            true
        }
        Ok(_) => false,
    }
}

#[test]
fn last_bytes_travel_with_the_end() {
    on_engine(|| async {
        let mut waited = 0;
        for _ in 0..TRIES {
            let (mut stream, mut peer) = pair().await;
            peer.set_nonblocking(true).expect("a socket");
            assert_eq!(stream.try_write_last(b"bye"), Ok(Write::Bytes(3)));
            let mut buffer = [0; 10];
            waited += usize::from(nothing_yet(peer.peek(&mut buffer)));
            stream.finish();
            assert_eq!(peer.read(&mut buffer).expect("they came with the end"), 3);
            assert_eq!(peer.read(&mut buffer).expect("in order"), 0);
        }
        assert!(waited > 0, "{TRIES} times the bytes went alone");
    });
}

#[test]
fn last_bytes_do_not_wait_when_more_follow_after_all() {
    on_engine(|| async {
        let (mut stream, mut peer) = pair().await;
        peer.set_nonblocking(true).expect("a socket");
        assert_eq!(stream.try_write_last(b"bye"), Ok(Write::Bytes(3)));
        assert_eq!(stream.try_write(b"-bye"), Ok(Write::Bytes(4)));
        let mut buffer = [0; 10];
        assert_eq!(peer.read(&mut buffer).expect("they go together"), 7);
    });
}

#[test]
fn a_peer_that_sends_first_wakes_with_its_first_bytes() {
    on_engine(|| async {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("a socket");
        let address = Address::Ip(listener.local_addr().expect("it is bound"));
        let mut waited = 0;
        for _ in 0..TRIES {
            let mut dialling = Dialling::start_to_speak(&address).expect("it listens");
            let early = listener.accept();
            let was_notified = early.is_ok();
            waited += usize::from(!was_notified);
            assert_eq!(dialling.advance(b"hello"), Ok(Some(5)));
            let mut peer = if was_notified { early } else { listener.accept() }.expect("it has spoken").0;
            let mut buffer = [0; 10];
            assert_eq!(peer.read(&mut buffer).expect("it came along"), 5);
        }
        assert!(waited > 0, "{TRIES} times a segment went alone");
    });
}
