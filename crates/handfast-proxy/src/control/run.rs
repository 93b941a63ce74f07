//! Prepare → bind → serve → drain: the program's life, on the control thread.
//!
//! In: where the configuration comes from. Out: an exit code. Each stage is a type that consumes the one before it
//! (`start.rs`, `serving.rs`, `draining.rs`), so what belongs to an earlier stage
//! cannot be done in a later one.

use std::path::Path;
use std::time::Duration;

use tokio::task::LocalSet;

use crate::control::error::{Error, Outcome};
use crate::control::serving::Serving;
use crate::control::start::Prepared;
use crate::control::upgrade::Taking;
use handfast_config::source::ConfigSource;
use handfast_process::log_lines::without_severity;
use handfast_process::sandbox;
use handfast_process::service_manager::ServiceManager;

/// Runs the proxy until a signal or a request stops it. Problems are logged through `tracing`; `color` is for those of the
/// configuration; `manager` is what a service manager passed, `take_over` where a running process is asked for its sockets.
pub fn run(source: &ConfigSource, color: bool, manager: ServiceManager, take_over: Option<&Path>) -> Outcome {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!("start the control thread: {error}");
            return Outcome::Failed;
        }
    };
    let local = LocalSet::new();
    let outcome = local.block_on(&runtime, async {
        match start(source, color, manager, take_over).await {
            Ok(serving) => serving.serve().await,
            Err(error) => {
                tracing::error!("{}", without_severity(error.to_string().trim(), "error"));
                sandbox::log_remaining_refusals();
                error.outcome()
            }
        }
    });
    // A file that hangs must not keep the program from ending.
    runtime.shutdown_timeout(Duration::from_millis(100));
    outcome
}

async fn start(
    source: &ConfigSource,
    color: bool,
    manager: ServiceManager,
    take_over: Option<&Path>,
) -> Result<Serving, Error> {
    let taking = take_over.map(Taking::begin).transpose()?;
    let giver = taking.as_ref().map(Taking::connection).transpose()?;
    let stages = async { Prepared::new(source, color, manager, taking).await?.bind()?.serve().await };
    let outcome = stages.await;
    if let (Err(error), Some(giver)) = (&outcome, &giver) {
        giver.fails(error);
    }
    outcome
}
