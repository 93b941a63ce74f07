//! Shortages of the machine: room for ticket keys, memory. And its clock jumps.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use handfast_lab::run::pause;
use handfast_testkit::deadline::DEADLINE;

use super::machine::{empty, fill, small_disk, visit};
use crate::case::{Case, case};
use crate::error::{CaseError, broken, lab};
use crate::memory_group::MemoryGroup;
use crate::mode::Mode;
use crate::program::put;
use crate::setup::{Setup, USUAL};
use crate::stage::Stage;

pub(super) const CASES: &[Case] = &[
    case(
        "ticket-disk-fills",
        "handshake",
        (
            "the disk of the ticket keys' file is full when the next key is due",
            "sessions are resumed with the old keys, and the log reports it; in a long run, the next key comes when there is room",
        ),
        ticket_disk_fills,
    )
    .only(Mode::terminates, "the proxy gives no tickets")
    .with(Setup {
        globals: "[tickets]\nkey-file = \"FOLDER/small/tickets.key\"\nrotate = \"2s\"\nlifetime = \"10m\"",
        ..USUAL
    })
    .unstarted()
    .handfast_only("it is about Handfast's file of ticket keys"),
    case(
        "memory-limited",
        "relay",
        (
            "the proxy's memory may grow by 8 MiB (where the lab can make a control group, with the kernel's memory for it), \
             and 150 clients are connected at once",
            "all of them are served",
        ),
        memory_limited,
    )
    .handfast_only("the room is what Handfast needs: a measurement, not a promise of others"),
    case(
        "clock-jumps",
        "any",
        (
            "the wall clock jumps by a day ahead, by 400 days ahead, and back again",
            "no open connection ends by it, and new clients are served",
        ),
        clock_jumps,
    )
    // libfaketime reads a file at each look at the clock, all signals blocked: a thread in its sandbox must not, and the kernel
    // then ends the process.
    .with(Setup { process: "sandbox = \"off\"", ..USUAL })
    .unstarted()
    .handfast_only("its log shows that the clock has jumped"),
];

fn ticket_disk_fills(stage: &mut Stage) -> Result<(), CaseError> {
    let disk = small_disk(stage)?;
    stage.start(None)?;
    visit(stage)?;
    let filled = fill(&disk)?;
    stage.program()?.wait_for_line("ticket keys: ")?;
    if !visit(stage)? {
        return broken("a session was not resumed while the next key could not be written");
    }
    let keys = || fs::read(disk.join("tickets.key")).unwrap_or_default();
    let before = keys();
    if before.is_empty() {
        return broken("the keys' file is gone, or cut");
    }
    stage.happened(format!("{filled} KiB filled the disk, and the next key found no room"));
    empty(&disk)?;
    let begun = Instant::now();
    // It is tried again once a minute.
    while stage.at_length && keys() == before {
        if begun.elapsed() > 2 * DEADLINE {
            return broken("no key was written when there was room again");
        }
        pause();
    }
    stage.serve()
}

fn memory_limited(stage: &mut Stage) -> Result<(), CaseError> {
    const ROOM_KIB: u64 = 8 << 10;
    const CROWD: usize = 150;
    let before = stage.program()?.data();
    stage.program()?.limit_data(Some((before + ROOM_KIB) << 10))?;
    // Its present memory stays counted in the original group: this group counts from here on.
    let group = MemoryGroup::around(stage.program()?.number(), ROOM_KIB << 10);
    let mut crowd = Vec::new();
    for _ in 0..CROWD {
        crowd.push(stage.pair()?);
    }
    let grew = stage.program()?.data().saturating_sub(before);
    let counted = match &group {
        Ok(group) => format!("control group: {} KiB", group.used()? >> 10),
        Err(why) => format!("no control group: {why}"),
    };
    stage.happened(format!("{CROWD} clients took {grew} of {ROOM_KIB} KiB (RLIMIT_DATA; {counted})"));
    for (mut client, mut backend) in crowd {
        client.try_send(b"all of them")?;
        backend.expect(b"all of them")?;
        stage.in_order(client, backend)?;
    }
    stage.program()?.limit_data(None)?;
    group.map_or(Ok(()), MemoryGroup::lift)
}

/// Paths of the library in Debian's package libfaketime.
const LIBRARY: [&str; 2] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
];

fn clock_jumps(stage: &mut Stage) -> Result<(), CaseError> {
    let Some(library) = LIBRARY.into_iter().find(|path| Path::new(path).exists()) else {
        return Err(CaseError::Skipped(
            "libfaketime is not installed, and no namespace has a separate wall clock".into(),
        ));
    };
    let (clock, with_clock) = (stage.folder.join("clock"), stage.folder.join("with-clock"));
    put(&clock, "+0")?;
    // The name that the laboratory itself was started as is another program's in there.
    let program = fs::canonicalize(&stage.file).map_err(lab("find the program"))?;
    let script = format!(
        "#!/bin/sh\nexport LD_PRELOAD={library} FAKETIME_TIMESTAMP_FILE={} FAKETIME_NO_CACHE=1\n\
         export FAKETIME_DONT_FAKE_MONOTONIC=1 DONT_FAKE_MONOTONIC=1\nexec {} \"$@\"\n",
        clock.display(),
        program.display()
    );
    put(&with_clock, script)?;
    fs::set_permissions(&with_clock, fs::Permissions::from_mode(0o700)).map_err(lab("make a script"))?;
    stage.file = with_clock;
    stage.start(None)?;
    let (mut client, mut backend) = stage.pair()?;
    let mut days = Vec::new();
    for jump in ["+1d", "+400d", "+0"] {
        put(&clock, jump)?;
        let begun = Instant::now();
        // Work that depends on the wall clock would have been done by then: it is checked every second.
        while begun.elapsed() < Duration::from_millis(1_500) {
            stage.echoes()?;
            pause();
        }
        client.try_send(b"still here")?;
        backend.expect(b"still here")?;
        let records = stage.program()?.records().len();
        stage.serve()?;
        stage.recorded(records + 1)?;
        let newest = stage.program()?.records().last().and_then(|record| record["time"].as_str());
        days.push(newest.and_then(|time| time.get(..10)).unwrap_or_default().to_owned());
    }
    days.dedup();
    if days.len() != 3 {
        return Err(CaseError::Lab(format!("the clock did not jump: {}", days.join(", "))));
    }
    stage.happened(format!("the log's clock showed {}", days.join(", then ")));
    stage.finish(client, backend)
}
