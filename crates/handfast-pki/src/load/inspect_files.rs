//! Reads files that may hold certificates and keys, here or through the process that holds the keys.
//!
//! In: paths. Out: an [`InspectedFile`] for each, in their order.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::apart::{self, Holder};
use crate::load::inspected_file::InspectedFile;
use crate::sections::Contents;

/// Reads a file here, or has the `holder` of the keys read it.
pub(super) fn inspect_file(holder: Option<&Arc<dyn Holder>>, path: &Path) -> InspectedFile {
    let looked = holder.map_or_else(|| InspectedFile::at(path), |holder| apart::inspect(holder, path));
    InspectedFile { contents: looked.contents.map(Contents::check_signatures), ..looked }
}

/// Reads every path, several at a time, and gives the results in the order of the paths.
pub(super) fn inspect_files(paths: &[PathBuf], holder: Option<&Arc<dyn Holder>>) -> Vec<InspectedFile> {
    // A thread costs about 50 µs, a pair of files about 100.
    let threads =
        thread::available_parallelism().map_or(1, |count| count.get()).min(16).min(paths.len() / 16 + 1);
    let next = AtomicUsize::new(0);
    let work = || {
        let mut looked = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(path) = paths.get(index) else { return looked };
            looked.push((index, inspect_file(holder, path)));
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
