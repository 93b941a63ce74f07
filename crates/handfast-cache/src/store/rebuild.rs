//! The index of a folder that was used before.
//!
//! In: the files of the folder. Out: its complete objects in the index; everything else is deleted. A separate thread does it while the cache is
//! in use already: an object is found when its head was read.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::folder::{FileId, Part};
use super::head_file::HeadFile;
use super::lock::locked;
use super::shared::{Shared, on_disk};
use super::writer::{memory, object};

/// Reads the folder in.
pub(crate) fn rebuild(shared: &Arc<Shared>) {
    if let Err(error) = read_all(shared) {
        shared.failed("read the cache folder", &error);
    }
    shared.is_indexing.store(false, Ordering::SeqCst);
    locked(&shared.early_purges).clear();
}

fn read_all(shared: &Arc<Shared>) -> io::Result<()> {
    let files = shared.folder.list()?;
    // Numbers of this process are not complete yet or in the index already.
    let is_old = |id: FileId| id.0 & !0xffff_ffff != shared.session;
    let contents: HashSet<FileId> =
        files.iter().filter(|(_, part)| *part == Part::Content).map(|(id, _)| *id).collect();
    let mut kept = HashSet::new();
    for (id, _) in files.iter().filter(|(id, part)| *part == Part::Head && is_old(*id)) {
        if shared.is_released.load(Ordering::Relaxed) {
            return Ok(());
        }
        if shared.writing(|| contents.contains(id) && read(shared, *id)).unwrap_or(true) {
            kept.insert(*id);
        } else {
            remove(shared, *id, &[Part::Head]);
        }
    }
    for (id, part) in files.iter().filter(|(id, _)| is_old(*id)) {
        match part {
            Part::NewHead => remove(shared, *id, &[Part::NewHead]),
            Part::Content if !kept.contains(id) => remove(shared, *id, &[Part::Content]),
            Part::Content | Part::Head => {}
        }
    }
    Ok(())
}

fn remove(shared: &Arc<Shared>, id: FileId, parts: &'static [Part]) {
    shared.writing(|| shared.discard(id, parts));
}

/// Reads an object in; `false` if it is none.
fn read(shared: &Arc<Shared>, id: FileId) -> bool {
    let Ok(text) = shared.folder.read_head(id) else { return false };
    let Some(head) = HeadFile::decode(&text) else {
        shared.counters.broken.add(1);
        return false;
    };
    let memory = memory(&head);
    let disk_bytes = on_disk(head.size) + on_disk(text.len() as u64);
    if !shared.reserve(disk_bytes, memory) {
        return false;
    }
    let object = object(head, id, disk_bytes, memory);
    shared.add(Arc::clone(&object));
    let is_purged = locked(&shared.early_purges).iter().any(|purge| purge.means(&object));
    if is_purged && shared.index.remove(&object.key, &object.files) {
        shared.delete_later(vec![object]);
    }
    true
}
