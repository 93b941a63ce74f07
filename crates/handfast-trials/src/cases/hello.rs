//! Before the tunnel is established: clients that are silent, slow, broken or hostile.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use handfast_testkit::connection::Connection;
use handfast_testkit::deadline::DEADLINE;
use handfast_testkit::ending::SocketEnd;
use handfast_testkit::ending::reset;

use crate::addresses::SERVICE;
use crate::backend::SIGNATURE;
use crate::case::{Case, case};
use crate::certificates::NAME;
use crate::error::{CaseError, broken};
use crate::http;
use crate::mode::Mode;
use crate::setup::limits;
use crate::stage::Stage;

/// The deadline that these cases set.
pub(super) const LIMIT: Duration = Duration::from_secs(1);
/// Time by which the end of a deadline may be noticed early: clocks of two processes.
pub(super) const EARLY: Duration = Duration::from_millis(50);
const NO_HANDSHAKE: &str = "the proxy takes part in no handshake with clients";
const NO_HELLO: &str = "the proxy reads no ClientHello";

pub(super) const CASES: &[Case] = &[
    case(
        "silent-client",
        "hello",
        ("a client connects and sends nothing", "its connection ends at the handshake deadline"),
        silent,
    )
    .only(reads_hello, NO_HELLO)
    .with(limits("handshake = \"1s\"")),
    case(
        "dripping-hello",
        "hello",
        ("a ClientHello comes one byte at a time, for ever", "no byte extends the deadline"),
        dripping,
    )
    .only(reads_hello, NO_HELLO)
    .with(limits("handshake = \"1s\"")),
    case(
        "silent-after-hello",
        "handshake",
        ("a client sends its ClientHello and nothing more", "its connection ends at the handshake deadline"),
        silent_after_hello,
    )
    .only(Mode::terminates, NO_HANDSHAKE)
    .with(limits("handshake = \"1s\"")),
    case(
        "split-hello",
        "hello",
        ("a ClientHello comes in segments of one byte", "the handshake succeeds"),
        split,
    )
    .only(reads_hello, NO_HELLO),
    case(
        "hello-in-many-records",
        "hello",
        ("a ClientHello comes in TLS records of one byte", "the handshake succeeds"),
        many_records,
    )
    .only(reads_hello, NO_HELLO),
    case(
        "empty-records",
        "hello",
        ("2,000 empty TLS records come before a ClientHello", "an alert, an end, and little CPU time"),
        empty_records,
    )
    .only(reads_hello, NO_HELLO),
    case(
        "close-notify-in-handshake",
        "handshake",
        ("close_notify comes instead of the client's last flight", "the end, at once, and no busy loop"),
        close_notify_in_handshake,
    )
    .only(Mode::terminates, NO_HANDSHAKE),
    case(
        "not-tls",
        "hello",
        (
            "HTTP, SSH, SMTP and noise come instead of TLS",
            "each is named, and no byte of it reaches the backend",
        ),
        not_tls,
    )
    .only(Mode::hello_first, "another protocol comes before TLS"),
    case(
        "broken-records",
        "hello",
        (
            "records too long, of a wrong type, or with random content, and 64 KiB behind each",
            "the alert arrives despite the data behind the record",
        ),
        broken_records,
    )
    .only(Mode::hello_first, "another protocol comes before TLS"),
    case(
        "large-hello",
        "hello",
        ("a ClientHello of 16 MiB is announced, and sent", "it is refused by its length, and not kept"),
        large_hello,
    )
    .only(reads_hello, NO_HELLO),
    case(
        "odd-names",
        "hello",
        (
            "clients request names with NUL, comma, slash and 300 letters",
            "an end or a handshake, and the log never has such a name unescaped",
        ),
        odd_names,
    )
    .only(Mode::terminates, NO_HANDSHAKE),
    case(
        "hello-flood",
        "handshake",
        ("200 clients send a ClientHello and leave", "another client is not affected"),
        hello_flood,
    )
    .only(reads_hello, NO_HELLO),
    case(
        "reset-flood",
        "accept",
        ("300 clients connect and reset at once", "another client is not affected"),
        reset_flood,
    ),
    case(
        "alert-in-handshake",
        "handshake",
        (
            "a fatal alert comes instead of the client's last flight",
            "the end, and the alert's number in the log",
        ),
        alert_in_handshake,
    )
    .only(Mode::terminates, NO_HANDSHAKE),
    case(
        "reset-in-handshake",
        "handshake",
        ("a client resets after its hello", "the end, with its cause"),
        reset_in_handshake,
    )
    .only(Mode::terminates, NO_HANDSHAKE),
    case(
        "absurd-chain",
        "handshake",
        ("a client sends 101 certificates", "it is refused at little cost, and the cause is logged"),
        absurd_chain,
    )
    .only(Mode::terminates, NO_HANDSHAKE)
    .except(&[("ghostunnel", "requires certificates of all clients, or asks none for one")])
    .with(crate::setup::Setup { asks_for_certificates: true, ..crate::setup::USUAL }),
    case(
        "plaintext-injected",
        "hello",
        ("plain text comes in one segment with the request for TLS", "the end: an attacker may have sent it"),
        injected,
    )
    .only(|mode| matches!(mode, Mode::StarttlsIn), "no protocol before TLS"),
    case(
        "header-missing",
        "hello",
        ("a listed sender sends no PROXY header", "the end, and none of its data is used"),
        header_missing,
    )
    .only(|mode| matches!(mode, Mode::ProxyIn), "no PROXY header is expected"),
    case(
        "header-broken",
        "hello",
        (
            "PROXY headers that are cut off, of a wrong length, or random",
            "the end, and none of their data is used",
        ),
        header_broken,
    )
    .only(|mode| matches!(mode, Mode::ProxyIn), "no PROXY header is expected"),
    case(
        "header-dripped",
        "hello",
        ("a PROXY header comes one byte at a time", "it does not extend the handshake deadline"),
        header_dripped,
    )
    .only(|mode| matches!(mode, Mode::ProxyIn), "no PROXY header is expected")
    .with(limits("handshake = \"1s\"")),
    case(
        "header-unexpected",
        "hello",
        ("a PROXY header comes from an address that is not listed", "the end, and it is not used"),
        header_unexpected,
    )
    .only(
        |mode| mode.hello_first() && mode != Mode::PassThrough,
        "a header is accepted there, or the proxy does not read it",
    ),
];

/// Returns true if the proxy reads a ClientHello of its clients.
fn reads_hello(mode: Mode) -> bool {
    mode.client_tls()
}

/// Plays a client until the proxy ends the connection; when that was.
fn cut_after(stream: &mut TcpStream, play: impl FnOnce(&mut TcpStream)) -> Result<Duration, CaseError> {
    let begun = Instant::now();
    play(stream);
    // An alert may come first; the end may be a reset, for there is unread input.
    let _ = stream.read_to_end(&mut Vec::new());
    let took = begun.elapsed();
    if took < LIMIT - EARLY {
        return broken(format!("it was ended after {took:?}, before the deadline of {LIMIT:?}"));
    }
    if took >= DEADLINE {
        return broken(format!("it still stood after {took:?}, with a deadline of {LIMIT:?}"));
    }
    Ok(took)
}

/// Sends byte after byte, round and round, until the proxy hangs up; how many it took.
fn drip(stream: &mut TcpStream, bytes: &[u8]) -> usize {
    const PACE: Duration = Duration::from_millis(40);
    let _ = stream.set_read_timeout(Some(PACE));
    let begun = Instant::now();
    let mut sent = 0;
    for byte in bytes.chunks(1).take_while(|_| begun.elapsed() < DEADLINE) {
        if stream.write_all(byte).is_err() {
            break;
        }
        sent += 1;
        match stream.read(&mut [0; 64]) {
            Ok(0) => break,
            Err(error) if error.kind() != std::io::ErrorKind::WouldBlock => break,
            _ => {}
        }
    }
    let _ = stream.set_read_timeout(Some(DEADLINE));
    sent
}

/// Sends byte after byte, for many times the deadline: it has to pass all the same; how many bytes were taken.
fn dripped(stream: &mut TcpStream, bytes: &[u8]) -> Result<usize, CaseError> {
    let mut sent = 0;
    let took = cut_after(stream, |stream| sent = drip(stream, bytes))?;
    match sent {
        0..5 => Err(CaseError::Lab(format!("only {sent} bytes were dripped"))),
        _ if sent == bytes.len() => {
            broken(format!("all {sent} bytes were taken, and the end came after {took:?}"))
        }
        _ => Ok(sent),
    }
}

fn silent(stage: &mut Stage) -> Result<(), CaseError> {
    let mut stream = stage.dial()?;
    let took = cut_after(&mut stream, |_| {})?;
    stage.happened(format!("silent for {} ms, until it was ended", took.as_millis()));
    stage.expect(&["hello/client/handshake-timeout"]);
    Ok(())
}

fn dripping(stage: &mut Stage) -> Result<(), CaseError> {
    let (mut peer, hello) = stage.hello()?;
    let sent = dripped(&mut peer.stream, &hello[..hello.len().min(1_000) - 1])?;
    stage.happened(format!("{sent} bytes were dripped"));
    stage.expect(&["hello/client/handshake-timeout"]);
    Ok(())
}

fn silent_after_hello(stage: &mut Stage) -> Result<(), CaseError> {
    let (mut peer, hello) = stage.hello()?;
    peer.write(&hello)?;
    let took = cut_after(&mut peer.stream, |_| {})?;
    stage.happened(format!("the handshake stood still for {} ms, until it was ended", took.as_millis()));
    stage.expect(&["handshake/client/handshake-timeout"]);
    Ok(())
}

/// Goes on from a hello that was sent in an odd way, and proves that the connection works.
fn goes_on(stage: &mut Stage, mut peer: Connection) -> Result<(), CaseError> {
    peer.handshake()?;
    http::upgrade(stage.mode, &mut peer)?;
    let (client, backend) = stage.joined(peer)?;
    stage.finish(client, backend)
}

fn split(stage: &mut Stage) -> Result<(), CaseError> {
    let (mut peer, hello) = stage.hello()?;
    for byte in hello.chunks(1) {
        // Without delay, so each is a segment.
        peer.write(byte)?;
    }
    stage.happened(format!("{} segments", hello.len()));
    goes_on(stage, peer)
}

/// A handshake message in records of `size` bytes.
fn in_records(hello: &[u8], size: usize) -> Vec<u8> {
    let (header, message) = hello.split_at(5);
    let framed = message.chunks(size).flat_map(|chunk| {
        let length = u16::try_from(chunk.len()).unwrap_or(u16::MAX);
        [&header[..3], &length.to_be_bytes(), chunk].concat()
    });
    framed.collect()
}

fn many_records(stage: &mut Stage) -> Result<(), CaseError> {
    let (mut peer, hello) = stage.hello()?;
    peer.write(&in_records(&hello, 1))?;
    stage.happened(format!("{} records", hello.len() - 5));
    goes_on(stage, peer)
}

fn empty_records(stage: &mut Stage) -> Result<(), CaseError> {
    const TIMES: usize = 2_000;
    let before = stage.program()?.cpu();
    let (mut peer, hello) = stage.hello()?;
    let empty = [hello[0], hello[1], hello[2], 0, 0].repeat(TIMES);
    // The proxy may close the connection before all of them are sent.
    let _ = peer.write(&empty);
    let _ = peer.write(&hello);
    let ended = peer.ends();
    let spent = stage.program()?.cpu().saturating_sub(before);
    stage.happened(format!("{TIMES} empty records, answered with {}", ended));
    if ended.socket == SocketEnd::Open || spent > Duration::from_secs(2) {
        return broken(format!("{} after {spent:?} of CPU", ended));
    }
    stage.expect(&["hello/client/tls", "hello/client/not-tls", "hello/client/closed-early"]);
    Ok(())
}

/// Waits for the beginning of the server's flight, and does not answer it.
pub(super) fn first_flight(peer: &mut Connection) -> Result<(), CaseError> {
    match peer.stream.read(&mut [0; 1]) {
        Ok(1) => Ok(()),
        outcome => broken(format!("a good hello was answered with {outcome:?}")),
    }
}

fn close_notify_in_handshake(stage: &mut Stage) -> Result<(), CaseError> {
    let before = stage.program()?.cpu();
    let (mut peer, hello) = stage.hello()?;
    peer.write(&hello)?;
    first_flight(&mut peer)?;
    peer.stream.write_all(&[0x15, 3, 3, 0, 2, 1, 0])?;
    let ended = peer.ends();
    let spent = stage.program()?.cpu().saturating_sub(before);
    stage.happened(format!("close_notify in the clear, answered with {}", ended));
    if ended.socket == SocketEnd::Open || spent > Duration::from_secs(1) {
        return broken(format!("{} after {spent:?} of CPU", ended));
    }
    stage.expect(&["handshake/client/closed-early", "handshake/client/alert"]);
    Ok(())
}

fn not_tls(stage: &mut Stage) -> Result<(), CaseError> {
    const FOREIGN: [&[u8]; 4] = [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2p1\r\n",
        b"EHLO localhost\r\n",
        &[0xff; 64],
    ];
    let accepted = stage.backend()?.accepted();
    for bytes in FOREIGN {
        let mut stream = stage.dial()?;
        stream.write_all(bytes)?;
        let ending = Connection::plain("client", stream).ends();
        if ending.socket == SocketEnd::Open {
            return broken(format!("{} bytes of another protocol were waited over", bytes.len()));
        }
    }
    if stage.backend()?.accepted() != accepted {
        return broken("something that is not TLS reached the backend");
    }
    stage.happened("four protocols");
    stage.expect_of(FOREIGN.len(), &["hello/client/not-tls"]);
    Ok(())
}

fn broken_records(stage: &mut Stage) -> Result<(), CaseError> {
    const BROKEN: [&[u8]; 4] = [
        // Longer than any may be (RFC 9846 §5.1).
        &[0x16, 3, 1, 0xff, 0xff, 1],
        // Application data before any handshake.
        &[0x17, 3, 3, 0, 1, 0],
        // No ClientHello.
        &[0x16, 3, 1, 0, 4, 14, 0, 0, 0],
        // A ClientHello with nothing in it.
        &[0x16, 3, 1, 0, 4, 1, 0, 0, 0],
    ];
    if stage.mode == Mode::PassThrough && !stage.subject.is_logged {
        return Err(CaseError::NotPossible("speaks no TLS in this mode, so it sends no alert".to_owned()));
    }
    for start in BROKEN {
        let mut stream = stage.dial()?;
        let _ = stream.write_all(&[start, &[0; 65_536]].concat());
        let mut answer = Vec::new();
        // Behind a reset some systems would not give their reader the alert.
        if let Err(error) = stream.read_to_end(&mut answer) {
            return broken(format!(
                "{start:?} and 64 KiB behind it: {error} behind {answer:?}, not a clean end"
            ));
        }
        // A fatal alert: type 21, version, length 2, level 2.
        if answer.len() != 7 || answer[0] != 21 || answer[3..6] != [0, 2, 2] {
            return broken(format!(
                "{start:?} and 64 KiB behind it were answered with {answer:?}, not an alert"
            ));
        }
    }
    stage.happened("four broken records, four alerts");
    stage.expect_of(BROKEN.len(), &["hello/client/tls", "hello/client/not-tls"]);
    Ok(())
}

fn large_hello(stage: &mut Stage) -> Result<(), CaseError> {
    let before = stage.program()?.memory();
    let mut stream = stage.ready()?;
    // Type 1, a length of 16 MiB less one byte, in full records.
    let mut sent = 0;
    let mut record = vec![0x16, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff];
    record.resize(5 + 0x4000, 0);
    for _ in 0..1_024 {
        if stream.write_all(&record).is_err() {
            break;
        }
        sent += record.len();
        record[5..9].fill(0);
    }
    // Its memory is given back when the connection ends.
    let held = stage.program()?.memory();
    let _ = stream.read_to_end(&mut Vec::new());
    let grew = held.max(stage.program()?.memory()).saturating_sub(before);
    stage.happened(format!("16 MiB were announced, {} KiB sent, and memory grew by {grew} KiB", sent >> 10));
    if grew > 4 << 10 {
        return broken(format!("memory grew by {grew} KiB"));
    }
    stage.expect(&["hello/client/hello-too-large", "hello/client/tls"]);
    Ok(())
}

/// A ClientHello for TLS 1.3 that asks for a name without any change to it, without a key share.
fn asking_for(name: &[u8]) -> Vec<u8> {
    let list = |bytes: &[u8]| [&(bytes.len() as u16).to_be_bytes()[..], bytes].concat();
    let extension = |number: u16, body: &[u8]| [&number.to_be_bytes()[..], &list(body)].concat();
    let extensions = [
        extension(0, &list(&[&[0][..], &list(name)].concat())),
        extension(10, &list(&[0, 29])),
        extension(13, &list(&[4, 3])),
        extension(43, &[2, 3, 4]),
        extension(51, &list(&[])),
    ]
    .concat();
    let body = [&[3, 3][..], &[7; 32], &[0], &list(&[0x13, 1]), &[1, 0], &list(&extensions)].concat();
    let length = body.len() as u32;
    let message = [&[1][..], &length.to_be_bytes()[1..], &body].concat();
    [&[0x16, 3, 1][..], &list(&message)].concat()
}

fn odd_names(stage: &mut Stage) -> Result<(), CaseError> {
    let long = [b'a'; 300];
    let names: [&[u8]; 7] =
        [b"local\0host", b"a,b", b"../../etc", &long, b"LOCALHOST.", b"\"><script>", b"127.0.0.1"];
    for name in names {
        let mut stream = stage.ready()?;
        stream.write_all(&asking_for(name))?;
        // An alert, or a request for a key share.
        let mut answer = [0; 5];
        if let Err(error) = stream.read_exact(&mut answer) {
            // Handfast answers always; an end without an alert is an answer too.
            if !stage.subject.is_logged && error.kind() != std::io::ErrorKind::WouldBlock {
                continue;
            }
            return broken(format!("{:?} got no answer at all", String::from_utf8_lossy(name)));
        }
        reset(stream);
    }
    if !stage.subject.is_logged {
        stage.happened("seven names, each answered");
        return Ok(());
    }
    // And the client with which it began.
    stage.recorded(names.len() + 1)?;
    let names: Vec<_> = stage.program()?.records().iter().map(|record| record["sni"].clone()).collect();
    // Proof that names are looked for where they are: one of them is a good one.
    if !names.iter().any(|name| name.as_str().is_some_and(|name| name.starts_with("localhost"))) {
        return broken("the log has no name at all");
    }
    for name in names.iter().filter_map(|name| name.as_str()) {
        if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
            || name.len() > 253
        {
            return broken(format!("the log has the name {name:?}"));
        }
    }
    stage.happened("seven names, each answered");
    Ok(())
}

fn hello_flood(stage: &mut Stage) -> Result<(), CaseError> {
    const TIMES: usize = 200;
    for number in 0..TIMES {
        let (mut peer, hello) = stage.hello()?;
        peer.write(&hello)?;
        drop(peer);
        if number % 20 == 0 {
            stage.echoes()?;
        }
    }
    stage.happened(format!("{TIMES} hellos"));
    stage.recorded(TIMES)
}

fn reset_flood(stage: &mut Stage) -> Result<(), CaseError> {
    const TIMES: usize = 300;
    for number in 0..TIMES {
        reset(stage.dial()?);
        if number % 30 == 0 {
            stage.echoes()?;
        }
    }
    stage.happened(format!("{TIMES} resets"));
    stage.expect_of(TIMES, &["reset"]);
    stage.recorded(TIMES)
}

fn alert_in_handshake(stage: &mut Stage) -> Result<(), CaseError> {
    let (mut peer, hello) = stage.hello()?;
    peer.write(&hello)?;
    first_flight(&mut peer)?;
    // Fatal, 42: bad_certificate (RFC 9846 §6).
    peer.stream.write_all(&[0x15, 3, 3, 0, 2, 2, 42])?;
    let ended = peer.ends();
    if ended.socket == SocketEnd::Open {
        return broken("the proxy went on after a fatal alert");
    }
    stage.happened("alert 42 instead of the last flight");
    stage.expect(&["handshake/client/alert"]);
    Ok(())
}

fn reset_in_handshake(stage: &mut Stage) -> Result<(), CaseError> {
    let (mut peer, hello) = stage.hello()?;
    peer.write(&hello)?;
    first_flight(&mut peer)?;
    peer.reset();
    stage.happened("a reset instead of the last flight");
    stage.expect(&["handshake/client/reset"]);
    Ok(())
}

fn absurd_chain(stage: &mut Stage) -> Result<(), CaseError> {
    let before = stage.program()?.cpu();
    let client = stage.certificates.long_client();
    // In TLS 1.3 the client is done before the server has judged it.
    let ended = match Connection::connect(stage.ready()?, &client, NAME) {
        Ok(mut peer) => peer.ends().to_string(),
        Err(failed) => failed.to_string(),
    };
    let spent = stage.program()?.cpu().saturating_sub(before);
    stage.happened(format!("101 certificates, {} ms of CPU: {ended}", spent.as_millis()));
    if spent > Duration::from_secs(1) {
        return broken(format!("one client's certificates took {spent:?} of CPU"));
    }
    stage.expect(&["handshake/client/client-certificate"]);
    Ok(())
}

fn injected(stage: &mut Stage) -> Result<(), CaseError> {
    let mut stream = stage.dial()?;
    crate::stage::line(&mut stream, "220 ")?;
    stream.write_all(b"STARTTLS\r\nMAIL FROM:<x@example>\r\n")?;
    let ending = Connection::plain("client", stream).ends();
    if ending.socket == SocketEnd::Open {
        return broken("plain text behind STARTTLS was waited over");
    }
    stage.happened("a command behind STARTTLS, in one segment");
    stage.expect(&["hello/client/plaintext-injected"]);
    Ok(())
}

fn header_missing(stage: &mut Stage) -> Result<(), CaseError> {
    let accepted = stage.backend()?.accepted();
    let stream = stage.dial()?;
    let outcome = stage.secured(stream, false);
    if outcome.is_ok() || stage.backend()?.accepted() != accepted {
        return broken("a client without a header was served");
    }
    stage.happened("a hello without a header");
    stage.expect(&["hello/client/proxy-header-missing"]);
    Ok(())
}

fn header_broken(stage: &mut Stage) -> Result<(), CaseError> {
    let beyond = [SIGNATURE, &[0x21, 0x11, 0, 15], &[1; 12], &[4, 0xff, 0xff]].concat();
    let headers: [&[u8]; 5] = [
        b"PROXY TCP4 203.0.113.7\r\n",
        b"PROXY TCP4 1.2.3.4 5.6.7.8 99999 1\r\n",
        &[b'P'; 1],
        // Addresses that do not fit into the length.
        &[SIGNATURE, &[0x21, 0x11, 0, 4, 1, 2, 3, 4]].concat(),
        // A value whose length exceeds the header.
        &beyond,
    ];
    let accepted = stage.backend()?.accepted();
    for header in headers {
        let mut stream = stage.dial()?;
        stream.write_all(header)?;
        // The proxy may have closed the connection by now.
        let _ = stream.write_all(&[b'x'; 200]);
        let ending = Connection::plain("client", stream).ends();
        if ending.socket == SocketEnd::Open {
            return broken(format!("{header:?} was waited over"));
        }
    }
    if stage.backend()?.accepted() != accepted {
        return broken("a client with a broken header reached the backend");
    }
    stage.happened("five broken headers");
    stage.expect(&["hello/client/proxy-header-invalid"]);
    stage.expect_of(
        headers.len(),
        &["hello/client/proxy-header-invalid", "hello/client/proxy-header-missing"],
    );
    Ok(())
}

fn header_dripped(stage: &mut Stage) -> Result<(), CaseError> {
    // Of version 2, with 500 bytes to come.
    let header = [SIGNATURE, &[0x21, 0x11, 1, 244], &[0; 499]].concat();
    let mut stream = stage.dial()?;
    if !stage.subject.is_logged {
        // A header may also be refused because it is not in the first segment (the specification, section 2).
        let begun = Instant::now();
        let sent = drip(&mut stream, &header);
        stage.happened(format!("{sent} bytes of a header were dripped, for {:?}", begun.elapsed()));
        return if sent < header.len() { Ok(()) } else { broken("all bytes were taken") };
    }
    let sent = dripped(&mut stream, &header)?;
    stage.happened(format!("{sent} bytes of a header were dripped"));
    stage.expect(&["hello/client/handshake-timeout"]);
    Ok(())
}

fn header_unexpected(stage: &mut Stage) -> Result<(), CaseError> {
    let accepted = stage.backend()?.accepted();
    let mut stream = stage.dial()?;
    stream.write_all(crate::mode::header(SERVICE).as_bytes())?;
    let outcome = stage.secured(stream, false);
    if outcome.is_ok() || stage.backend()?.accepted() != accepted {
        return broken("a header was accepted from a sender that is not listed");
    }
    stage.happened("a header from an address that is not listed");
    stage.expect(&["hello/client/proxy-header-unexpected"]);
    Ok(())
}
