//! `handfast fleet`: the machines that serve the same names, as one proxy knows them; and the files of a new fleet.
//!
//! In: the configuration of a proxy, or its admin address. Out: a table, and whether sessions of this machine resume on others.

use std::process::ExitCode;
use std::time::SystemTime;

use handfast_observe::metrics::{FleetSnapshot, MachineSnapshot};
use handfast_report::ToolError;
use handfast_text::table::{Column, lines};
use handfast_text::units::long;

use crate::load::refused;
use crate::running::status_of;
use crate::status::Seen;
use crate::talk::{self, print};
use crate::words::fleet::FleetWords;
use crate::words::running::RunningWords;
use crate::words::worker::SetupWords;

/// Columns of the table; it is no wider than this.
const WIDTH: usize = 100;

pub(crate) fn fleet(words: &FleetWords) -> ExitCode {
    match words {
        FleetWords::List(words) => list(words),
        FleetWords::Setup(words) => setup(words),
    }
}

fn setup(words: &SetupWords) -> ExitCode {
    let fleet = words.fleet.as_deref().unwrap_or("default");
    let port = words.port.unwrap_or(handfast_proxy::BUS_PORT);
    match handfast_proxy::set_up_fleet(&words.folder, &words.host, port, fleet) {
        Ok(next) => print(&format!("{}\n", next.trim_end()), true),
        Err(error) if error.is_wrong_use() => refused(&ToolError::wrong_use(error)),
        Err(error) => refused(&ToolError::failed(error)),
    }
}

fn list(words: &RunningWords) -> ExitCode {
    let status = match status_of(words) {
        Ok(status) => status,
        Err(code) => return code,
    };
    let wrong = |what: &str| {
        talk::err(&format!("error: ask the proxy at {} for its fleet: {what}", status.place()));
        ExitCode::FAILURE
    };
    match status.seen() {
        Ok(Seen::Proxy(seen)) => match &seen.measured.fleet {
            Some(fleet) => {
                let is_whole = fleet.problem.is_none() && fleet.keys_shared_at.is_some();
                match print(&text(fleet, seen.measured.process.now), true) {
                    ExitCode::SUCCESS if !is_whole => ExitCode::FAILURE,
                    code => code,
                }
            }
            None => wrong("it belongs to none\n  hint: write [fleet] into its configuration, and reload"),
        },
        Ok(Seen::Run(_)) => wrong("it is a run of `handfast load`, expected a proxy"),
        Err(error) => wrong(&format!("{error}\n  hint: is it running, with this [admin] listen?")),
    }
}

fn text(fleet: &FleetSnapshot, now: SystemTime) -> String {
    let ago = |time| format!("{} ago", long(now.duration_since(time).unwrap_or_default()));
    let mut text = match &fleet.problem {
        None => format!("{} in fleet {}, on {}\n", fleet.machine, fleet.name, fleet.bus),
        Some(problem) => format!("{} in fleet {}, alone: {problem}\n", fleet.machine, fleet.name),
    };
    text.push_str(&match fleet.keys_shared_at {
        Some(at) => format!("ticket keys: another machine reported the one that is used here {}\n", ago(at)),
        None => "ticket keys: no other machine has reported the one that is used here\n".to_owned(),
    });
    if fleet.foreign_messages > 0 {
        text.push_str(&format!("messages with another secret: {}\n", fleet.foreign_messages));
    }
    let row = |machine: &MachineSnapshot| {
        let how = if machine.clock_behind { "behind" } else { "ahead" };
        let clock = format!("{:.1} s {how}", machine.clock_offset_seconds);
        vec![machine.name.clone(), ago(machine.last_seen_at), clock, machine.version.clone()]
    };
    let rows: Vec<_> = fleet.machines.iter().map(row).collect();
    if !rows.is_empty() {
        text.push('\n');
        let columns = ["machine", "last message", "clock", "version"].map(|title| Column::words(title, 8, 0));
        lines(&columns, &rows, WIDTH).iter().for_each(|line| text.push_str(&format!("{line}\n")));
    }
    text
}
