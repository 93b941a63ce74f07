//! Prepare → bind → serve → drain: the program's life, on the control thread.
//!
//! In: where the configuration comes from. Out: an exit code. Each stage is a type that consumes the one before it
//! (`start/prepared.rs`, `start/bound.rs`, `serving.rs`, `draining.rs`), so what belongs to an earlier stage
//! cannot be done in a later one.

use std::time::Duration;

use tokio::task::LocalSet;

use crate::error::{Error, Outcome};
use crate::say::unmarked;
use crate::service_manager::ServiceManager;
use crate::serving::Serving;
use crate::source::ConfigSource;
use crate::start::Prepared;

/// Runs the proxy until it is told to stop. Problems are logged through `tracing`; `color` is for those of the
/// configuration; `manager` is what a service manager passed.
pub fn run(source: &ConfigSource, color: bool, manager: ServiceManager) -> Outcome {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!("start the control thread: {error}");
            return Outcome::Failed;
        }
    };
    let local = LocalSet::new();
    let outcome = local.block_on(&runtime, async {
        match start(source, color, manager).await {
            Ok(serving) => serving.serve().await,
            Err(error) => {
                tracing::error!("{}", unmarked(error.to_string().trim(), "error"));
                error.outcome()
            }
        }
    });
    // A file that hangs must not keep the program from ending.
    runtime.shutdown_timeout(Duration::from_millis(100));
    outcome
}

async fn start(source: &ConfigSource, color: bool, manager: ServiceManager) -> Result<Serving, Error> {
    Prepared::new(source, color, manager).await?.bind()?.serve().await
}
