//! The supervisor: starts the starter, and again when it ends. It starts no program, only waits, and ends with the proxy.

use std::io;
use std::time::Instant;

use tokio::time::sleep;

use super::start_process;
use super::starter::{Kind, StartInstructions};
use crate::own_program::{RESTART_DELAY, SHORT_LIFETIME, waited_for};
use crate::signals::Signals;

/// Supervises a starter for the proxy at the other end of standard input, until the proxy ends.
///
/// **Errors**: it was started by hand; a process cannot be started.
pub fn supervise(count: usize) -> io::Result<()> {
    rustix::thread::set_name(c"supervisor")?;
    let StartInstructions { control, descriptors, mut jobs } = StartInstructions::receive(count)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        // The proxy handles a stop. These are handled, and not ignored, so that programs do not inherit it.
        let _signals = Signals::new()?;
        let control = waited_for(control)?;
        loop {
            let started = Instant::now();
            let (mut child, link) = start_process(&jobs, &descriptors, &[])?;
            let link = waited_for(link)?;
            // Neither sends anything: that one can be read means that it has ended.
            tokio::select! {
                _ = control.readable() => return Ok(()),
                _ = link.readable() => {}
            }
            let how = child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
            tracing::error!("the process that starts programs has ended ({how}) and is started again");
            jobs.iter_mut().for_each(|job| resume(job));
            if started.elapsed() < SHORT_LIFETIME {
                sleep(RESTART_DELAY).await;
            }
        }
    })
}

/// A client that is restarted after each end continues with the next starter. The others were started once.
fn resume(job: &mut [u8]) {
    if let Some(kind) = job.first_mut().filter(|kind| **kind == Kind::ClientAgain as u8) {
        *kind = Kind::ClientNow as u8;
    }
}
