//! The program: command line in, report and exit code out. Each command is implemented in the crate of its name.
//!
//! Exit codes: 0 success, 1 failed while running or a finding, 2 wrong use or configuration; of `load` also 3 the run
//! is not valid, 4 a limit was missed (of `probe` too), 5 a worker was lost; of `lab` that of the command, 125 to 127 if it did not run.
#![forbid(unsafe_code)]

mod acme;
mod cache;
mod fleet;
mod fmt;
mod hash_password;
mod compare;
mod completions;
mod import;
mod doctor;
mod lab;
mod load;
mod log;
mod maintenance;
mod probe;
mod proxy_header;
mod reference;
mod running;
mod screen;
mod speed;
mod status;
mod talk;
mod top;
mod verbs;
mod words;
mod worker;

use std::ffi::OsString;
use std::process::ExitCode;

use words::in_place::{self, Translation};

/// musl's own allocator has one lock for all threads.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Not required: without it, a signal that is meant for a proxy ends this process too.
    let _ = handfast_net::sys::survive_signals_for_a_service();
    let typed = match in_place::translate(std::env::args_os().collect()) {
        Translation::Own(typed) => typed,
        Translation::OfAnother(typed) => {
            let code = run(typed);
            // The other programs have one code for every failure.
            return if code == ExitCode::SUCCESS { code } else { ExitCode::FAILURE };
        }
        Translation::Printed(text) => return text.print(),
    };
    run(typed)
}

fn run(typed: Vec<OsString>) -> ExitCode {
    let words = match words::Words::read(typed) {
        Ok(words) => words,
        // Ends the process: with 0 after help, with 2 after a mistake.
        Err(error) => error.exit(),
    };
    match words.verb {
        words::Verb::Proxy(given) => verbs::proxy(given),
        words::Verb::Check(given) => verbs::check(&given),
        words::Verb::Acme(given) => acme::acme(&given),
        words::Verb::Fleet(given) => fleet::fleet(&given),
        words::Verb::Cache(given) => cache::cache(&given),
        words::Verb::Maintenance(given) => maintenance::maintenance(&given),
        words::Verb::Fmt(given) => fmt::fmt(&given),
        words::Verb::HashPassword(given) => hash_password::hash_password(&given),
        words::Verb::Completions(given) => completions::completions(&given),
        words::Verb::Log(given) => log::log(&given),
        words::Verb::Import(given) => import::import(&given),
        words::Verb::Doctor(given) => doctor::doctor(&given),
        words::Verb::Open(given) => top::open(&given),
        words::Verb::Reload(given) => running::run_request("/reload", &given),
        words::Verb::Reopen(given) => running::run_request("/reopen", &given),
        words::Verb::Drain(given) => running::run_request("/drain", &given),
        words::Verb::Stop(given) => running::stop(&given),
        words::Verb::Upgrade(given) => verbs::upgrade(given),
        words::Verb::Lab(given) => lab::lab(&given),
        words::Verb::Load(given) => load::load(&given),
        words::Verb::Worker(given) => worker::worker(given),
        words::Verb::Compare(given) => compare::compare(&given),
        words::Verb::Probe(given) => probe::probe(&given),
        words::Verb::Explain(given) => probe::explain(&given),
        words::Verb::ProxyHeader(given) => proxy_header::proxy_header(&given),
        words::Verb::Speed(given) => speed::speed(&given),
        words::Verb::Top(given) => top::top(&given),
        words::Verb::WeakKeys(given) => verbs::weak_keys(&given),
        words::Verb::KeyProcess(given) => verbs::key_process(&given),
        words::Verb::StartPrograms(given) => verbs::start_programs(&given),
        words::Verb::Reference(given) => verbs::reference(&given),
    }
}
