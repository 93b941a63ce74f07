//! Injected errors change nothing: calls that are interrupted, files that go stale for a moment, a machine that is out of
//! descriptors for a while and a backend that cannot be reached are met without a byte or a connection lost.
//!
//! strace makes the proxy's own system calls fail; each test looks whether it has.

use std::time::Duration;

use super::support::pattern::{Checker, piece};
use super::support::tracer::{Tracer, needs_tracing};
use super::support::*;

const MEBIBYTE: usize = 1 << 20;

#[test]
fn interrupted_reads_and_writes() {
    needs_tracing!();
    let stage = Stage::echo();
    let config = Trust::version(Version::Tls13).config();
    stage.client(&config).finish();
    let tracer = Tracer::inject(&stage.proxy, "recvfrom,sendto:error=EINTR:when=3+5", None);
    let mut client = stage.client(&config);
    let mut checker = Checker::default();
    // In pieces that the socket buffers can hold, so that one thread can do both.
    const PIECE: usize = 65_536;
    for offset in (0..MEBIBYTE).step_by(PIECE) {
        client.send(piece(offset as u64, PIECE));
        checker.take(&client.read_exactly(PIECE));
    }
    client.finish();
    let record = stage.proxy.record("the connection", |record| record.number("bytes_to_backend") > 0);
    assert!(record.reason().ends_with("/finished"), "{record:?}");
    assert_eq!(record.number("bytes_to_backend"), MEBIBYTE as u64);
    assert_eq!(record.number("bytes_to_client"), MEBIBYTE as u64);
    let injected = tracer.injected();
    assert!(injected > 20, "{injected} calls were interrupted only");
    stage.serves_and_is_quiet();
}

#[test]
fn interrupted_accepts_and_waits() {
    needs_tracing!();
    for calls in ["accept4", "epoll_wait,epoll_pwait,epoll_pwait2"] {
        let stage = Stage::echo();
        let config = Trust::version(Version::Tls13).config();
        let tracer = Tracer::inject(&stage.proxy, &format!("{calls}:error=EINTR:when=1+2"), None);
        for _ in 0..20 {
            let mut client = stage.client(&config);
            client.echo(b"undisturbed");
            client.finish();
        }
        let injected = tracer.injected();
        assert!(injected >= 10, "{injected} calls of {calls} were interrupted only");
        stage.serves_and_is_quiet();
    }
}

#[test]
fn connections_that_were_given_up_while_they_waited() {
    needs_tracing!();
    let stage = Stage::echo();
    let config = Trust::version(Version::Tls13).config();
    // Of each thread's calls the first, the third, …
    let tracer = Tracer::inject(&stage.proxy, "accept4:error=ECONNABORTED:when=1+2", None);
    for _ in 0..20 {
        let mut client = stage.client(&config);
        client.echo(b"the next one in the queue");
        client.finish();
    }
    let injected = tracer.injected();
    assert!(injected >= 20, "{injected} calls were made to fail only");
    let errors = stage.proxy.metrics().sum("handfast_accept_errors_total", &[]);
    assert!(errors < 0.5, "a client that leaves causes no accept error: {errors}");
    stage.serves_and_is_quiet();
}

#[test]
fn a_machine_out_of_descriptors_for_a_while() {
    needs_tracing!();
    let stage = Stage::echo();
    let config = Trust::version(Version::Tls13).config();
    let mut standing = stage.client(&config);
    standing.echo(b"before");
    let (cpu, lines) = (stage.proxy.process().cpu(), stage.proxy.talk.so_far().len());
    // Five times for each thread, which takes it 50 + 100 + 200 + 400 + 800 ms.
    let tracer = Tracer::inject(&stage.proxy, "accept4:error=EMFILE:when=1..5", None);
    let clients: Vec<_> = (0..10)
        .map(|_| {
            let (address, config) = (stage.proxy.address(), config.clone());
            deadline::thread("a client that waits", move || {
                let mut client = Client::connect(address, &config);
                client.echo(b"served afterwards");
                client.finish();
            })
        })
        .collect();
    standing.echo(b"what stands goes on");
    clients.into_iter().for_each(|client| client.join().expect("each is served in the end"));
    standing.finish();
    let injected = tracer.injected();
    assert!((5..=10).contains(&injected), "{injected} calls were made to fail");
    let spent = stage.proxy.process().cpu() - cpu;
    assert!(spent < Duration::from_millis(200), "{spent:?} of CPU for eleven connections: it spins");
    let output = stage.proxy.talk.so_far()[lines..].to_vec();
    assert!(output.len() <= 4, "once for each thread, and once that it is over: {output:?}");
    let counted =
        stage.proxy.metrics().sum("handfast_accept_errors_total", &[("cause", "out-of-files")]) as usize;
    assert_eq!(counted, injected, "each is counted");
    stage.serves_and_is_quiet();
}

#[test]
fn a_certificate_that_is_stale_for_a_moment() {
    needs_tracing!();
    let stage = Stage::echo();
    let certificate = stage.folder.file("web.pem").display().to_string();
    // As a file server's client does when the file was replaced between its look-up and its opening.
    let tracer = Tracer::inject(&stage.proxy, "openat:error=ESTALE:when=1..2", Some(&certificate));
    assert!(stage.proxy.reload(), "{:?}", stage.proxy.talk.so_far());
    let injected = tracer.injected();
    assert_eq!(injected, 2, "the file was opened again after each");
    stage.serves_and_is_quiet();
}

#[test]
fn a_certificate_that_stays_stale() {
    needs_tracing!();
    let stage = Stage::echo();
    let certificate = stage.folder.file("web.pem").display().to_string();
    let tracer = Tracer::inject(&stage.proxy, "openat:error=ESTALE", Some(&certificate));
    assert!(!stage.proxy.reload(), "what cannot be read cannot be served");
    assert!(tracer.injected() > 2, "it was tried several times");
    stage.proxy.talk.containing(&certificate);
    let mut client = stage.any_client();
    client.echo(b"by what was read before");
    client.finish();
    assert!(stage.proxy.reload(), "{:?}", stage.proxy.talk.so_far());
    stage.serves_and_is_quiet();
}

#[test]
fn a_backend_out_of_reach_for_each_threads_first_try() {
    needs_tracing!();
    let (one, other) = (Backend::echo(), Backend::echo());
    let folder = folder::Folder::new();
    let proxy = Proxy::start(Config::to(&folder, one.address).backend(other.address));
    let config = Trust::version(Version::Tls13).config();
    let tracer = Tracer::inject(&proxy, "connect:error=ENETUNREACH:when=1", None);
    const TIMES: usize = 20;
    for _ in 0..TIMES {
        let mut client = Client::connect(proxy.address(), &config);
        client.echo(b"the other one serves");
        client.finish();
    }
    let records = wait_until("all records", || {
        let records = proxy.records();
        (records.len() == TIMES).then_some(records)
    });
    let injected = tracer.injected();
    assert!((1..=2).contains(&injected), "one for each thread that served: {injected}");
    assert!(records.iter().all(|record| record.reason().ends_with("/finished")), "{records:?}");
    let failed = records.iter().filter(|record| record.number("backends_failed") == 1).count();
    assert_eq!(failed, injected, "each shows in the record of the connection it happened to");
}
