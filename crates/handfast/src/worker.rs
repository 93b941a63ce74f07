//! `handfast worker`: waits on a bus for orders to make load; `handfast worker setup`: writes the configuration of the bus.

use std::process::ExitCode;

use handfast_load::distributed::{self, BusAddress};
use handfast_report::ToolError;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tracing::Level;

use crate::load::signals::Signals;
use crate::load::{bus, refused};
use crate::talk;
use crate::talk::color;
use crate::talk::print;
use crate::words::worker::{WorkerVerb, WorkerWords};

/// Runs `handfast worker`.
pub(crate) fn worker(words: WorkerWords) -> ExitCode {
    if let Some(WorkerVerb::Setup(setup)) = words.setup {
        let fleet = setup.fleet.unwrap_or_else(|| BusAddress::new("").fleet);
        return match distributed::setup(
            &setup.folder,
            &setup.host,
            setup.port.unwrap_or(distributed::PORT),
            &fleet,
        ) {
            Ok(next) => print(&format!("{}\n", next.trim_end()), true),
            Err(refusal) => refused(&refusal),
        };
    }
    let talk = talk::start(color(), Level::INFO, talk::Stamp::fitting());
    let address = bus(&words.url.unwrap_or_default(), &words.bus);
    let ended = serve(&address, words.name);
    talk.finish();
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(refusal) => refused(&refusal),
    }
}

/// Until a signal requests the end; after a second one, it does not wait for the load to end.
fn serve(address: &BusAddress, name: Option<String>) -> Result<(), ToolError> {
    let runtime = Runtime::new().map_err(|error| ToolError::failed(format!("start the runtime: {error}")))?;
    let ended = runtime.block_on(async {
        let mut signals = Signals::listen()?;
        let (ask, stop) = watch::channel(false);
        let serving = distributed::serve_worker(address, name, stop);
        tokio::pin!(serving);
        tokio::select! {
            ended = &mut serving => return ended,
            _ = signals.next() => tracing::info!("ending; a second signal ends immediately"),
        }
        ask.send_replace(true);
        tokio::select! {
            ended = serving => ended,
            _ = signals.next() => Ok(()),
        }
    });
    runtime.shutdown_background();
    ended
}
