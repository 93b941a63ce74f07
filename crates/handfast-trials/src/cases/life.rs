//! The proxy's own life: reloads, bad ones above all, kills, stops, and starts that cannot be.

use std::fs;
use std::net::SocketAddrV4;
use std::time::{Duration, Instant};

use handfast_lab::run::pause;
use handfast_testkit::deadline::DEADLINE;
use handfast_testkit::ending::SocketEnd;
use rustix::process::Signal;

use crate::addresses::{ECHO, SERVICE};
use crate::case::{Case, case};
use crate::error::{CaseError, broken, lab};
use crate::load::Load;
use crate::mode::Mode;
use crate::program::{Program, put};
use crate::setup::{Setup, USUAL};
use crate::stage::Stage;

const NO_CERTIFICATE: &str = "the proxy has no certificate";

pub(super) const CASES: &[Case] = &[
    case(
        "reload-bad-configuration",
        "reload",
        (
            "the configuration is cut off, has an unknown key, or is gone, and is reloaded",
            "the old one stays in use, and the log names the file and the mistake",
        ),
        bad_configuration,
    ),
    case(
        "reload-bad-certificate",
        "reload",
        (
            "the certificate is missing, empty, cut off, without its key, with another key, or random; each is reloaded",
            "the old one is served, and the log names the file",
        ),
        bad_certificate,
    )
    .only(Mode::terminates, NO_CERTIFICATE),
    case(
        "certificate-blocks",
        "reload",
        ("the certificate's file is a pipe without a writer, and is reloaded", "clients are served meanwhile"),
        certificate_blocks,
    )
    .only(Mode::terminates, NO_CERTIFICATE),
    case(
        "certificate-rewritten",
        "reload",
        (
            "the certificate is written in place, in halves, with reloads between",
            "every client gets a complete certificate",
        ),
        certificate_rewritten,
    )
    .only(Mode::terminates, NO_CERTIFICATE),
    case(
        "reloads-under-load",
        "reload",
        ("40 reloads (1,000 in a long run), one after the other, while clients come and go", "no client is affected"),
        reloads_under_load,
    )
    .except(&[
        ("hitch", "has one backend for all frontends, so there is no second service for clients to use"),
        ("ghostunnel", "has one listener, so there is no second service for clients to use"),
    ]),
    case(
        "kill-and-restart",
        "any",
        (
            "the proxy is killed (kill -9) with a connection open, and started again",
            "no TLS stream looks finished, and new clients are served",
        ),
        killed,
    ),
    case(
        "restart-beside",
        "any",
        (
            "a second process is started beside the first, which is then stopped, while clients come and go, stand, and wait to be \
             accepted",
            "no client is affected",
        ),
        beside,
    )
    .handfast_only("other programs take over from each other by their own commands"),
    case(
        "stop-drains",
        "close",
        ("it is stopped while a connection is busy", "the connection finishes, no new one is accepted, exit code 0"),
        stop_drains,
    ),
    case(
        "stop-cuts",
        "close",
        ("it is stopped, and a connection is still open after `drain`", "the connection is aborted, exit code 0"),
        stop_cuts,
    )
    .with(Setup { process: "drain = \"1s\"", ..USUAL }),
    case(
        "stop-twice",
        "close",
        ("it is stopped a second time", "it ends at once"),
        stop_twice,
    )
    .with(Setup { process: "drain = \"1h\"", ..USUAL }),
    case(
        "start-impossible",
        "any",
        (
            "it is started with an unknown key, a negative time, a missing certificate, an address in use",
            "it does not start, and names the mistake",
        ),
        start_impossible,
    ),
];

fn serves_old(stage: &mut Stage, what: &str) -> Result<(), CaseError> {
    stage.echoes()?;
    stage.serve().map_err(|error| match error {
        CaseError::Broken(why) => CaseError::Broken(format!("after {what}: {why}")),
        other => other,
    })
}

/// Reloads something that is wrong: it must be refused, and the message must name this file or place. Of other programs only the first
/// can be seen: they go on serving.
fn refused(stage: &mut Stage, what: &str, names: &str) -> Result<(), CaseError> {
    let lines = stage.program()?.output().len();
    match stage.reload()? {
        Some(true) => return broken(format!("{what} was taken as good")),
        Some(false) => {}
        None => return serves_old(stage, what),
    }
    let begun = Instant::now();
    while !stage.program()?.output()[lines..].iter().any(|line| line.contains(names)) {
        if begun.elapsed() > DEADLINE {
            return broken(format!("of {what} it did not say {names:?}: {}", stage.program()?.last_words()));
        }
        pause();
    }
    serves_old(stage, what)
}

fn mended(stage: &mut Stage) -> Result<(), CaseError> {
    if stage.reload()? == Some(false) {
        return broken(format!("what was mended is refused: {}", stage.program()?.last_words()));
    }
    Ok(())
}

/// A configuration with a line that no version of the program knows, in its first section.
fn with_unknown_line(stage: &Stage, good: &str) -> String {
    let (first, rest) = good.split_once('\n').unwrap_or((good, ""));
    format!("{first}\n{}\n{rest}", stage.subject.unknown_line)
}

fn bad_configuration(stage: &mut Stage) -> Result<(), CaseError> {
    let file = stage.configuration_file();
    let name = stage.subject.file;
    let good = stage.configuration();
    let cut = good[..good.len() / 2].to_owned();
    let unknown = with_unknown_line(stage, &good);
    for (what, text, names) in [("half a file", cut + "[[", name), ("an unknown key", unknown, "bakend")] {
        put(&file, text)?;
        refused(stage, what, names)?;
    }
    fs::remove_file(&file).map_err(lab("remove the configuration"))?;
    refused(stage, "a file that is gone", name)?;
    put(&file, good)?;
    stage.happened("three reloads were refused");
    mended(stage)
}

fn bad_certificate(stage: &mut Stage) -> Result<(), CaseError> {
    let file = stage.folder.join("web.pem");
    let ours = stage.certificates.clone();
    let broken_ones: [(&str, Vec<u8>); 5] = [
        ("an empty certificate", Vec::new()),
        ("a certificate cut in half", ours.web.as_bytes()[..ours.web.len() / 2].to_vec()),
        ("a certificate without its key", ours.web_alone.clone().into_bytes()),
        (
            "a certificate with another's key",
            format!("{}{}", ours.web_alone, ours.other.key_pem).into_bytes(),
        ),
        ("noise", [0xff, 0, 0xfe].repeat(1_000)),
    ];
    for (what, bytes) in broken_ones {
        put(&file, bytes)?;
        refused(stage, what, "web.pem")?;
    }
    fs::remove_file(&file).map_err(lab("remove the certificate"))?;
    refused(stage, "a certificate that is gone", "web.pem")?;
    put(&file, ours.other.combined())?;
    stage.happened("six reloads were refused, the last certificate was good again");
    mended(stage)
}

fn certificate_blocks(stage: &mut Stage) -> Result<(), CaseError> {
    let file = stage.folder.join("web.pem");
    fs::remove_file(&file).map_err(lab("remove the certificate"))?;
    let (here, mode) = (rustix::fs::CWD, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR);
    rustix::fs::mknodat(here, &file, rustix::fs::FileType::Fifo, mode, 0)
        .map_err(lab("make a named pipe"))?;
    let reload = stage.subject.reload;
    stage.program()?.signal(reload)?;
    for _ in 0..5 {
        serves_old(stage, "a certificate that blocks")?;
    }
    stage.happened("a named pipe without a writer stood in the certificate's place");
    // It may wait for the pipe: this opens it, so that the waiting thread goes on.
    let unblock = rustix::fs::open(
        &file,
        rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NONBLOCK,
        rustix::fs::Mode::empty(),
    );
    drop(unblock);
    put(&file, &stage.certificates.web)?;
    let begun = Instant::now();
    while mended(stage).is_err() {
        if begun.elapsed() > DEADLINE {
            return broken("no reload works after a certificate that blocked");
        }
    }
    Ok(())
}

fn certificate_rewritten(stage: &mut Stage) -> Result<(), CaseError> {
    const TIMES: usize = 10;
    let file = stage.folder.join("web.pem");
    for number in 0..TIMES {
        let text = if number % 2 == 0 {
            stage.certificates.other.combined()
        } else {
            stage.certificates.web.clone()
        };
        // In place, as an editor does it that knows no better: half of it, a reload, the rest, a reload.
        for length in [text.len() / 2, text.len()] {
            let mut open = fs::File::create(&file).map_err(lab("write the certificate"))?;
            std::io::Write::write_all(&mut open, &text.as_bytes()[..length])
                .map_err(lab("write the certificate"))?;
            let taken = stage.reload()?;
            if taken.is_some_and(|taken| taken != (length == text.len())) {
                return broken(format!(
                    "{length} of {} bytes of a certificate: taken is {taken:?}",
                    text.len()
                ));
            }
            // The handshake verifies whatever is shown.
            serves_old(stage, "a certificate written in place")?;
        }
    }
    stage.happened(format!("{TIMES} certificates were written in halves"));
    Ok(())
}

fn reloads_under_load(stage: &mut Stage) -> Result<(), CaseError> {
    let times = if stage.at_length { 1_000 } else { 40 };
    let load = Load::start(stage)?;
    load.more(10)?;
    let mut refused = 0;
    for _ in 0..times {
        refused += usize::from(stage.reload()? == Some(false));
    }
    load.more(10)?;
    let served = load.served();
    let wrong = load.stop();
    stage.figures.lost += wrong.len();
    stage.happened(format!("{times} reloads, {served} clients served meanwhile"));
    match wrong.first() {
        Some(first) => broken(format!("{} clients noticed reloads: {first}", wrong.len())),
        None if refused > 0 => broken(format!("{refused} of {times} reloads were refused")),
        None => Ok(()),
    }
}

fn killed(stage: &mut Stage) -> Result<(), CaseError> {
    let (mut client, backend) = stage.pair()?;
    stage.program()?.signal_all(Signal::KILL);
    stage.program()?.wait()?;
    let ending = client.ends();
    drop(backend);
    // In plain text, the kernel's FIN for a dead process cannot be distinguished from an intended one.
    if ending.socket == SocketEnd::Open || (stage.mode.client_tls() && ending.is_clean()) {
        return broken(format!("the client of a killed proxy received {}", ending));
    }
    let begun = Instant::now();
    stage.start(None)?;
    stage.happened(format!("killed and started again, serving after {} ms", begun.elapsed().as_millis()));
    Ok(())
}

fn beside(stage: &mut Stage) -> Result<(), CaseError> {
    /// So many that the first process has some of them in its queues: the kernel gives each process its share.
    const WAITING: usize = 16;
    let (mut client, mut backend) = stage.pair()?;
    let load = Load::start(stage)?;
    load.more(10)?;
    let second = Program::spawn(&stage.place, &stage.launched_in(&stage.folder), None)?;
    let mut first = stage.program.replace(second).ok_or_else(|| CaseError::Lab("no proxy".to_owned()))?;
    stage.program()?.wait_for_line("listening on")?;
    load.more(10)?;
    stage.leave()?;
    first.freeze()?;
    let waiting = stage.waiting(WAITING)?;
    first.signal(Signal::TERM)?;
    first.signal(Signal::CONT)?;
    for stream in waiting {
        stage.serve_waiting(stream).inspect_err(|_| stage.figures.lost += 1)?;
    }
    let is_open = client.try_send(b"from before").and_then(|()| backend.expect(b"from before"));
    let is_open = is_open.map_err(CaseError::from).and_then(|()| stage.in_order(client, backend));
    is_open.inspect_err(|_| stage.figures.lost += 1)?;
    let status = first.wait()?;
    stage.program()?.wait_for_line(": ready")?;
    load.more(10)?;
    let served = load.served();
    let wrong = load.stop();
    stage.figures.lost += wrong.len();
    stage.happened(format!("one process took over from another, {served} clients served meanwhile"));
    if status.code() != Some(0) {
        return broken(format!("the first process ended with {status}"));
    }
    match wrong.first() {
        Some(first) => broken(format!("{} clients noticed: {first}", wrong.len())),
        None => Ok(()),
    }
}

/// Waits until no new client is accepted.
pub(super) fn shut(stage: &Stage) -> Result<(), CaseError> {
    let begun = Instant::now();
    while stage.dial().is_ok() {
        if begun.elapsed() > DEADLINE {
            return broken("it still listens after it was stopped");
        }
        pause();
    }
    Ok(())
}

/// It has stopped: nothing else can be asked of it.
pub(super) fn has_stopped(stage: &mut Stage) -> Result<(), CaseError> {
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = stage.program()?.ended() {
            break status;
        }
        if begun.elapsed() > DEADLINE {
            return broken("the proxy did not end");
        }
        // Clients that were accepted at the last moment, and have no peer.
        stage.backend()?.forget();
        pause();
    };
    stage.never_panicked()?;
    let is_judged = stage.subject.is_logged;
    stage.program = None;
    if !is_judged || status.code() == Some(0) { Ok(()) } else { broken(format!("it stopped with {status}")) }
}

fn stop_drains(stage: &mut Stage) -> Result<(), CaseError> {
    let (mut client, mut backend) = stage.pair()?;
    stage.leave()?;
    stage.drain()?;
    shut(stage)?;
    // Those that were let in while that was tried.
    stage.backend()?.forget();
    for _ in 0..10 {
        client.try_send(b"what was begun")?;
        backend.expect(b"what was begun")?;
        backend.try_send(b"goes on")?;
        client.expect(b"goes on")?;
    }
    stage.in_order(client, backend)?;
    stage.happened("a connection was busy when it was stopped");
    stage.record_of(&["finished"])?;
    has_stopped(stage)
}

fn stop_cuts(stage: &mut Stage) -> Result<(), CaseError> {
    let (mut client, mut backend) = stage.pair()?;
    stage.leave()?;
    let begun = Instant::now();
    stage.drain()?;
    let endings = (client.ends(), backend.ends());
    stage.happened(format!("cut after {} ms, with a second allowed", begun.elapsed().as_millis()));
    if !endings.0.is_abort() || !endings.1.is_abort() {
        return broken(format!("the client received {}, the backend {}", endings.0, endings.1));
    }
    stage.record_of(&["stopped"])?;
    has_stopped(stage)
}

fn stop_twice(stage: &mut Stage) -> Result<(), CaseError> {
    let (client, backend) = stage.pair()?;
    stage.leave()?;
    stage.drain()?;
    shut(stage)?;
    let begun = Instant::now();
    stage.program()?.signal(Signal::TERM)?;
    let status = stage.program()?.wait()?;
    let took = begun.elapsed();
    stage.happened(format!("it ended {} ms after the second time, with {status}", took.as_millis()));
    drop((client, backend));
    stage.never_panicked()?;
    stage.program = None;
    if took > Duration::from_secs(5) { broken(format!("it ended after {took:?}")) } else { Ok(()) }
}

/// Configurations with which it must not start: each with a word that its message must have.
fn impossible(stage: &Stage) -> Vec<(String, &'static str)> {
    let good = stage.configuration();
    let mut wrong = vec![(with_unknown_line(stage, &good), "bakend")];
    if stage.mode.terminates() {
        wrong.push((good.replace("web.pem", "none.pem"), "none.pem"));
    }
    // The port of the bystander's backend. HAProxy and stunnel name the address, hitch and nginx the call that failed.
    let service = SERVICE.to_string();
    let taken = if good.contains(&service) {
        good.replace(&service, &ECHO.to_string())
    } else {
        let listen =
            |address: SocketAddrV4| format!("host = \"{}\"\n port = \"{}\"", address.ip(), address.port());
        good.replace(&listen(SERVICE), &listen(ECHO))
    };
    wrong.push((taken, if stage.subject.is_logged { "9001" } else { "" }));
    if stage.subject.is_logged {
        wrong.push((good.replacen("[service.limits]", "[service.limits]\nidle = \"-1s\"", 1), "idle"));
    }
    wrong
}

fn start_impossible(stage: &mut Stage) -> Result<(), CaseError> {
    let folder = stage.folder.join("impossible");
    fs::create_dir_all(&folder).map_err(lab("make a folder"))?;
    let wrong = impossible(stage);
    let count = wrong.len();
    for (text, names) in wrong {
        put(&folder.join(stage.subject.file), text)?;
        let mut started = Program::spawn(&stage.place, &stage.launched_in(&folder), None)?;
        let status = started.wait()?;
        let begun = Instant::now();
        while !started.output().iter().any(|line| line.contains(names))
            && begun.elapsed() < Duration::from_secs(2)
        {
            pause();
        }
        if status.success() || !started.output().iter().any(|line| line.contains(names)) {
            return broken(format!(
                "with a wrong {names:?} it ended with {status}: {}",
                started.last_words()
            ));
        }
    }
    stage.happened(format!("{count} starts were refused"));
    Ok(())
}
