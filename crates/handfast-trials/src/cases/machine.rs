//! The machine: no descriptors, no room for the log, a process that is stopped.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use handfast_lab::run::pause;
use handfast_testkit::deadline::DEADLINE;
use handfast_testkit::ending::SocketEnd;
use nix::mount::{MsFlags, mount};
use rustix::process::Signal;

use crate::case::{Case, case};
use crate::error::{CaseError, broken, lab};
use crate::mode::Mode;
use crate::program::Program;
use crate::setup::{Setup, USUAL, limits};
use crate::stage::Stage;

const OWN_LOG: &str = "it is about Handfast's access log";
/// Clients that are served while the log has no reader.
const CLIENTS: usize = 20;

pub(super) const CASES: &[Case] = &[
    case(
        "no-descriptors",
        "accept",
        (
            "the limit on open files falls below what is needed, and 60 clients come",
            "open connections continue, no loop is busy, and new clients are served as soon as descriptors are free",
        ),
        no_descriptors,
    ),
    case(
        "log-full",
        "close",
        (
            "the access log's disk is full (/dev/full)",
            "clients are served, and a message reports the lost lines",
        ),
        |stage| {
            unlogged(stage, "/dev/full refuses every line")?;
            stage.program()?.wait_for_line("lines are lost")
        },
    )
    .with(Setup { log: "/dev/full", ..USUAL })
    .handfast_only(OWN_LOG),
    case(
        "log-disk-fills",
        "close",
        (
            "the access log's disk becomes full while it serves",
            "clients are served, and the log reports later how many lines are missing",
        ),
        disk_fills,
    )
    .with(Setup { log: "FOLDER/small/access.log", ..USUAL })
    .unstarted()
    .handfast_only(OWN_LOG),
    case(
        "log-unread",
        "close",
        (
            "the pipe of the access log is not read; in a long run, until the queue of lines is full",
            "clients are served",
        ),
        unread,
    )
    .unstarted()
    .handfast_only(OWN_LOG),
    case(
        "log-closed",
        "close",
        ("the reader of the access log has ended (a closed pipe)", "clients are served"),
        log_closed,
    )
    .unstarted()
    .handfast_only(OWN_LOG),
    case(
        "process-stopped",
        "hello",
        (
            "the proxy's process is stopped for 1.5 s, longer than the handshake deadline",
            "clients that came meanwhile are served, and open connections continue",
        ),
        stopped,
    )
    .with(limits("handshake = \"1s\""))
    .except(&[("haproxy", "has one setting for handshakes and for silence")]),
    case(
        "descriptors-inherited",
        "accept",
        ("a program that the proxy starts could inherit its descriptors", "it inherits the first three only"),
        inherited,
    )
    .handfast_only("other programs do not promise it, and start no programs from the process that serves"),
    case(
        "admin-abused",
        "any",
        (
            "the admin page gets random bytes, half requests, a huge header and 50 silent connections",
            "clients are served, and so is the admin page",
        ),
        admin_abused,
    )
    .handfast_only("the admin page is Handfast's"),
    case(
        "resumption-after-policy",
        "reload",
        (
            "client certificates become required while a client holds a ticket",
            "the ticket is no longer accepted",
        ),
        ticket_after_policy,
    )
    .only(Mode::terminates, "the proxy gives no tickets")
    .handfast_only("the changed rule is in Handfast's own words"),
];

/// Numbers of descriptors that the proxy has free below the limit.
const ROOM: u64 = 12;

fn no_descriptors(stage: &mut Stage) -> Result<(), CaseError> {
    const CROWD: usize = 60;
    stage.program()?.limit_descriptors(Some(ROOM))?;
    // Some may be reset at once, where a second descriptor is needed for the backend.
    let crowd: Vec<_> = (0..CROWD).filter_map(|_| stage.dial().ok()).collect();
    runs_out(stage)?;
    let (cpu, line_count) = (stage.program()?.cpu(), stage.program()?.output().len());
    wait(Duration::from_secs(2));
    let (cpu, line_count) =
        (stage.program()?.cpu().saturating_sub(cpu), stage.program()?.output().len() - line_count);
    stage.happened(format!(
        "it had no descriptor left, used {} ms of CPU and wrote {line_count} lines in 2 s",
        cpu.as_millis()
    ));
    stage.echoes()?;
    // Two per cent are the figure; a tenth is spinning, on however slow a machine.
    if cpu > Duration::from_millis(200) || (stage.subject.is_logged && line_count > 5) {
        return broken(format!("it used {cpu:?} of CPU and wrote {line_count} lines in 2 s of waiting"));
    }
    drop(crowd);
    stage.program()?.limit_descriptors(None)
}

/// Waits until it has no descriptor left.
fn runs_out(stage: &mut Stage) -> Result<(), CaseError> {
    if stage.subject.is_logged {
        return stage.program()?.wait_for_line("out-of-files");
    }
    let begun = Instant::now();
    while !stage.program()?.is_out_of_descriptors() {
        if begun.elapsed() > Duration::from_secs(5) {
            return Err(CaseError::Lab("the program did not come to its limit on open files".to_owned()));
        }
        pause();
    }
    Ok(())
}

pub(super) fn wait(time: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < time {
        pause();
    }
}

/// Clients are served while their records go nowhere.
fn unlogged(stage: &mut Stage, how: &str) -> Result<(), CaseError> {
    for _ in 0..CLIENTS {
        stage.serve()?;
    }
    stage.happened(format!("{how}; {CLIENTS} clients were served"));
    stage.echoes()
}

/// A disk of 64 KiB in the experiment's folder.
pub(super) fn small_disk(stage: &Stage) -> Result<PathBuf, CaseError> {
    let small = stage.folder.join("small");
    fs::create_dir_all(&small).map_err(lab("make a folder"))?;
    let size = Some("size=64k,mode=700");
    mount(Some("lab"), &small, Some("tmpfs"), MsFlags::empty(), size)
        .map_err(|errno| CaseError::Skipped(format!("no small disk can be mounted here: {errno}")))?;
    Ok(small)
}

/// Fills a disk to its last byte; with how many KiB.
pub(super) fn fill(disk: &Path) -> Result<usize, CaseError> {
    let mut file = File::create(disk.join("fill")).map_err(lab("fill the disk"))?;
    let mut written = 0;
    while let Ok(count) = file.write(&[0; 1_024]) {
        written += count;
    }
    Ok(written >> 10)
}

/// Makes room again.
pub(super) fn empty(disk: &Path) -> Result<(), CaseError> {
    fs::remove_file(disk.join("fill")).map_err(lab("empty the disk"))
}

fn disk_fills(stage: &mut Stage) -> Result<(), CaseError> {
    let disk = small_disk(stage)?;
    stage.start(None)?;
    let filled = fill(&disk)?;
    unlogged(stage, &format!("{filled} KiB filled the log's disk"))?;
    stage.program()?.wait_for_line("lines are lost")?;
    // Room again: it continues to log, and reports the number of missing lines.
    empty(&disk)?;
    let begun = Instant::now();
    loop {
        stage.serve()?;
        let log = fs::read_to_string(disk.join("access.log")).unwrap_or_default();
        if log.contains("dropped_lines") {
            return Ok(());
        }
        if begun.elapsed() > DEADLINE {
            return broken("the log does not say that lines are missing, although there is room again");
        }
    }
}

fn pipe() -> Result<(OwnedFd, OwnedFd), CaseError> {
    let (reader, writer) = std::io::pipe().map_err(lab("make a pipe"))?;
    Ok((reader.into(), writer.into()))
}

fn unread(stage: &mut Stage) -> Result<(), CaseError> {
    let (reader, writer) = pipe()?;
    // Full from the beginning.
    rustix::io::ioctl_fionbio(&writer, true).map_err(lab("fill a pipe"))?;
    let mut filled = 0;
    while let Ok(count) = rustix::io::write(&writer, &[b' '; 4_096]) {
        filled += count;
    }
    rustix::io::ioctl_fionbio(&writer, false).map_err(lab("fill a pipe"))?;
    stage.start(Some(Stdio::from(writer)))?;
    unlogged(stage, &format!("{} KiB wait in the log's pipe", filled >> 10))?;
    // Lines without a reader are kept for a while, and then counted as lost.
    let begun = Instant::now();
    while stage.at_length {
        let (program, place) = stage.both()?;
        if program.metric(place, "handfast_access_log_lines_total", "dropped")? > 0.5 {
            break;
        }
        if begun.elapsed() > DEADLINE {
            return broken("no line was lost in a minute without a reader of the log");
        }
        stage.serve()?;
    }
    // Waiting bytes are taken now, so that it can stop cleanly.
    let drain = move || {
        let mut reader = File::from(reader);
        let _ = std::io::copy(&mut reader, &mut std::io::sink());
    };
    std::thread::Builder::new().name("lab-drain".into()).spawn(drain).map(drop).map_err(lab("start a thread"))
}

fn log_closed(stage: &mut Stage) -> Result<(), CaseError> {
    let (reader, writer) = pipe()?;
    stage.start(Some(Stdio::from(writer)))?;
    drop(reader);
    unlogged(stage, "the pipe's reader is closed")
}

fn stopped(stage: &mut Stage) -> Result<(), CaseError> {
    let (mut client, mut backend) = stage.pair()?;
    stage.program()?.freeze()?;
    // The kernel accepts it; no thread has seen it when its deadline would be over.
    let stream = stage.dial()?;
    wait(Duration::from_millis(1_500));
    stage.program()?.signal_all(Signal::CONT);
    let mut stream = stream;
    crate::stage::before_tls(stage.mode, &mut stream, crate::addresses::SERVICE)?;
    let late = stage.secured(stream, false)?;
    let (late, its) = stage.joined(late)?;
    stage.happened("stopped for 1.5 s; a client that came meanwhile was served");
    client.try_send(b"still there")?;
    backend.expect(b"still there")?;
    stage.finish(client, backend)?;
    stage.finish(late, its)
}

fn inherited(stage: &mut Stage) -> Result<(), CaseError> {
    let (client, backend) = stage.pair()?;
    let open = stage.program()?.inherited();
    let all = stage.program()?.descriptors();
    stage.happened(format!("{all} descriptors were looked at, with a connection open"));
    drop((client, backend));
    if open.is_empty() {
        Ok(())
    } else {
        broken(format!("descriptors {} would be inherited", open.join(", ")))
    }
}

fn admin_abused(stage: &mut Stage) -> Result<(), CaseError> {
    let silent: Vec<_> = (0..50).map(|_| Program::admin(&stage.place)).collect::<Result<_, _>>()?;
    let abuse: [Vec<u8>; 4] = [
        vec![0xff; 4_096],
        b"GET /metrics HTTP/1.1\r\nHost:".to_vec(),
        [b"GET /metrics HTTP/1.1\r\nX: ".as_slice(), &vec![b'x'; 1 << 20]].concat(),
        b"POST /reload HTTP/1.1\r\nHost: evil.example\r\nOrigin: http://evil.example\r\nContent-Length: 0\r\n\r\n".to_vec(),
    ];
    let mut answers = 0;
    for bytes in &abuse {
        let mut stream = Program::admin(&stage.place)?;
        let _ = stream.set_read_timeout(Some(Duration::from_millis(300)));
        let _ = stream.write_all(bytes);
        answers += usize::from(stream.read(&mut [0; 64]).is_ok_and(|count| count > 0));
        stage.echoes()?;
    }
    stage.serve()?;
    let (program, place) = stage.both()?;
    let (status, _) = program.query_admin(place, "GET", "/live")?;
    drop(silent);
    stage.happened(format!("50 silent connections and four bad requests, {answers} of them answered"));
    if status == 200 { Ok(()) } else { broken(format!("the admin page answers {status}")) }
}

/// A client that is served, and would resume its session; whether it did.
pub(super) fn visit(stage: &Stage) -> Result<bool, CaseError> {
    let client = stage.secured(stage.ready()?, true)?;
    let resumed = client.resumed();
    let (client, backend) = stage.joined(client)?;
    stage.in_order(client, backend)?;
    Ok(resumed)
}

fn ticket_after_policy(stage: &mut Stage) -> Result<(), CaseError> {
    // A ticket, and proof that it is good.
    visit(stage)?;
    if !visit(stage)? {
        return Err(CaseError::Lab("the ticket was not good from the beginning".to_owned()));
    }
    let file = stage.folder.join("handfast.toml");
    let before = stage.configuration();
    let (first, rest) = before.split_once("[service.limits]").unwrap_or((&before, ""));
    let required = format!(
        "{first}[service.client-certificates]\nmode = \"require\"\nca = \"{}/ca.pem\"\n[service.limits]{rest}",
        stage.folder.display()
    );
    crate::program::put(&file, required)?;
    let (program, place) = stage.both()?;
    if !program.reload(place)? {
        return Err(CaseError::Lab(format!("the new configuration is refused: {}", program.last_words())));
    }
    let refused = match stage.ready().and_then(|stream| stage.secured(stream, true)) {
        Err(CaseError::Broken(_)) => true,
        Ok(mut client) => {
            let ending = client.ends();
            ending.socket != SocketEnd::Open && !ending.is_clean()
        }
        Err(other) => return Err(other),
    };
    stage.happened("a ticket from before, and a rule that its client does not meet");
    stage.expect(&["handshake/client/client-certificate"]);
    crate::program::put(&file, before)?;
    let (program, place) = stage.both()?;
    if !program.reload(place)? {
        return Err(CaseError::Lab(format!("the old configuration is refused: {}", program.last_words())));
    }
    if refused { Ok(()) } else { broken("a client without a certificate was served by its ticket") }
}
