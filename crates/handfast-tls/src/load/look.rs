//! Reads files that may hold certificates and keys, here or through the process that holds the keys.
//!
//! In: paths. Out: a [`Looked`] for each, in their order.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::apart::{self, Holder};
use crate::load::looked::Looked;
use crate::sections::Contents;

/// Reads a file here, or has the `holder` of the keys read it.
pub(super) fn look(holder: Option<&Arc<dyn Holder>>, path: &Path) -> Looked {
    let looked = holder.map_or_else(|| Looked::at(path), |holder| apart::look(holder, path));
    Looked { contents: looked.contents.map(Contents::check_signatures), ..looked }
}

/// Reads every path, several at a time, and gives the results in the order of the paths.
pub(super) fn look_at_all(paths: &[PathBuf], holder: Option<&Arc<dyn Holder>>) -> Vec<Looked> {
    // A thread costs about 50 µs, a pair of files about 100.
    let threads =
        thread::available_parallelism().map_or(1, |count| count.get()).min(16).min(paths.len() / 16 + 1);
    let next = AtomicUsize::new(0);
    let work = || {
        let mut looked = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(path) = paths.get(index) else { return looked };
            looked.push((index, look(holder, path)));
        }
    };
    let mut looked = thread::scope(|scope| {
        let helpers: Vec<_> = (1..threads)
            .filter_map(|_| {
                thread::Builder::new().name("certificates".to_owned()).spawn_scoped(scope, work).ok()
            })
            .collect();
        let mut looked = work();
        for helper in helpers {
            match helper.join() {
                Ok(more) => looked.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        looked
    });
    looked.sort_by_key(|(index, _)| *index);
    looked.into_iter().map(|(_, looked)| looked).collect()
}
