//! From a fill to an object on the disk, step by step; and a head in the place of another.
//!
//! In: fills that have something new, heads after a 304. Out: complete objects in the index. The order makes it safe: content and its sync,
//! head under another name and its sync, rename, index. Files that a crash leaves behind before the rename are no object.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::file::File;
use super::fill::{Fill, Next, StoredHead};
use super::folder::{FileId, Part};
use super::head_file::HeadFile;
use super::index::{Files, Object};
use super::lock::{Lock, locked};
use super::pool::Work;
use super::shared::{OBJECT, Shared, on_disk};

/// Content has a checksum for each block of this size.
pub(crate) const BLOCK: usize = 65_536;

/// The file of a fill, and the checksums of what is in it.
#[derive(Default)]
struct Output {
    file: Option<Arc<File>>,
    checksums: Vec<u32>,
    block: crc32fast::Hasher,
    in_block: usize,
}

/// Writes what fills have, on the disk's threads: one piece of work for each fill at a time.
pub(crate) struct Writer {
    shared: Arc<Shared>,
    fill: Arc<Fill>,
    output: Lock<Output>,
}

impl Writer {
    pub(crate) fn new(shared: Arc<Shared>, fill: Arc<Fill>) -> Arc<Self> {
        Arc::new(Self { shared, fill, output: Lock::default() })
    }

    /// The fill has something new.
    pub(crate) fn schedule(self: &Arc<Self>) {
        let writer = Arc::clone(self);
        self.shared.pool.submit(Work::Write, move || writer.run());
    }

    fn run(&self) {
        if self.shared.writing(|| self.write()).is_none() {
            self.fill.give_up();
        }
    }

    fn write(&self) {
        let mut output = locked(&self.output);
        loop {
            let done = match self.fill.next() {
                Next::Nothing => return,
                Next::Write(offset, pieces) => self.write_pieces(&mut output, offset, &pieces),
                Next::Commit(known) => return self.finish(&mut output, &known),
                Next::Discard => return self.discard(&output),
            };
            if let Err(error) = done {
                self.shared.failed("write to the cache folder", &error);
                self.give_up();
                return self.discard(&output);
            }
        }
    }

    fn write_pieces(&self, output: &mut Output, offset: u64, pieces: &[Arc<[u8]>]) -> io::Result<()> {
        let file = self.file(output)?;
        let mut at = offset;
        for piece in pieces {
            self.shared.folder.write_at(file.fd(), piece, at)?;
            at += piece.len() as u64;
            output.add(piece);
        }
        self.shared.counters.bytes_written.add(at - offset);
        self.fill.set_written(pieces.len());
        Ok(())
    }

    fn file(&self, output: &mut Output) -> io::Result<Arc<File>> {
        if let Some(file) = &output.file {
            return Ok(Arc::clone(file));
        }
        let fd = self.shared.folder.create(self.fill.id, Part::Content)?;
        let file = Arc::new(File::new(fd, Arc::clone(&self.shared.pool)));
        self.fill.set_file(&file);
        Ok(Arc::clone(output.file.insert(file)))
    }

    /// All content is written.
    fn finish(&self, output: &mut Output, known: &StoredHead) {
        match self.commit(output, known) {
            Ok(true) => {
                self.shared.counters.stored.add(1);
            }
            Ok(false) => self.give_up(),
            Err(error) => {
                self.shared.failed("store an object in the cache folder", &error);
                self.give_up();
            }
        }
        self.shared.index.remove_fill(&self.fill);
    }

    fn commit(&self, output: &mut Output, known: &StoredHead) -> io::Result<bool> {
        let shared = &*self.shared;
        let file = self.file(output)?;
        output.end_block();
        let checksums = std::mem::take(&mut output.checksums);
        let head = head_file(&self.fill, known, &file, checksums)?;
        let text = head.encode();
        let memory = memory(&head);
        let disk_bytes = on_disk(head.size) + on_disk(text.len() as u64);
        if self.fill.is_purged() || !shared.reserve(disk_bytes, memory) {
            self.discard(output);
            return Ok(false);
        }
        let synced = shared.folder.sync(file.fd()).and_then(|()| write_head(shared, self.fill.id, &text));
        if let Err(error) = synced {
            self.discard(output);
            shared.unreserve(disk_bytes, memory);
            return Err(error);
        }
        // Before what it replaces is deleted, which may fail.
        shared.worked();
        let object = object(head, self.fill.id, disk_bytes, memory);
        shared.add(Arc::clone(&object));
        // A purge marks fills first and looks through the index then: one of both finds it.
        if self.fill.is_purged() && shared.index.remove(&object.key, &object.files) {
            self.shared.delete_later(vec![object]);
        }
        Ok(true)
    }

    fn give_up(&self) {
        if self.fill.give_up() {
            self.shared.counters.given_up.add(1);
        }
        self.shared.index.remove_fill(&self.fill);
    }

    /// Deletes what was written. Readers have it open.
    fn discard(&self, output: &Output) {
        if output.file.is_some() {
            self.shared.discard(self.fill.id, OBJECT);
        }
    }
}

impl Output {
    fn add(&mut self, mut piece: &[u8]) {
        while !piece.is_empty() {
            let (now, rest) = piece.split_at(piece.len().min(BLOCK - self.in_block));
            self.block.update(now);
            self.in_block += now.len();
            piece = rest;
            if self.in_block == BLOCK {
                self.end_block();
            }
        }
    }

    fn end_block(&mut self) {
        if self.in_block > 0 {
            self.in_block = 0;
            self.checksums.push(std::mem::take(&mut self.block).finalize());
        }
    }
}

fn head_file(fill: &Fill, known: &StoredHead, file: &File, checksums: Vec<u32>) -> io::Result<HeadFile> {
    let size = super::folder::size(file.fd())?;
    let stored = (*known.stored).clone();
    Ok(HeadFile { key: fill.key.clone(), stored, size, checksums })
}

/// Writes a head aside, and gives it the name of the one before.
fn write_head(shared: &Shared, id: FileId, text: &[u8]) -> io::Result<()> {
    let new = shared.new_id();
    let written = shared.folder.create(new, Part::NewHead).and_then(|file| {
        shared.folder.write_at(&file, text, 0)?;
        shared.folder.sync(&file)?;
        shared.folder.rename_head(new, id)
    });
    if written.is_err() {
        shared.discard(new, &[Part::NewHead]);
    }
    written
}

/// Writes the head of an object that was updated in the index.
pub(crate) fn rewrite_head(shared: &Arc<Shared>, object: Arc<Object>) {
    let shared = Arc::clone(shared);
    shared.clone().pool.submit(Work::Write, move || {
        let write = || -> io::Result<()> {
            if object.files.is_removed.load(Ordering::Relaxed) {
                return Ok(());
            }
            let id = object.files.id;
            let Some(mut head) = HeadFile::decode(&shared.folder.read_head(id)?) else {
                shared.drop_broken(&object);
                return Ok(());
            };
            head.stored = (*object.stored).clone();
            write_head(&shared, id, &head.encode())?;
            // It was removed meanwhile: the new head must not bring it back.
            if object.files.is_removed.load(Ordering::Relaxed) {
                shared.discard(id, &[Part::Head]);
            }
            Ok(())
        };
        if let Some(Err(error)) = shared.writing(write)
            && error.kind() != io::ErrorKind::NotFound
        {
            shared.failed("update an object in the cache folder", &error);
        }
    });
}

/// Returns the estimated memory of an object, in bytes.
pub(crate) fn memory(head: &HeadFile) -> u64 {
    let selection = &head.stored.selection.fields;
    let values: usize =
        selection.iter().map(|(name, value)| name.len() + value.as_ref().map_or(0, Vec::len) + 48).sum();
    let tags: usize = head.stored.tags.iter().map(|tag| tag.len() + 24).sum();
    (600 + head.stored.head.len() + head.key.text().len() + values + tags) as u64
}

/// An object whose files are complete.
pub(crate) fn object(head: HeadFile, id: FileId, disk_bytes: u64, memory: u64) -> Arc<Object> {
    let used_ms = head.stored.received_ms;
    let files = Files {
        id,
        size: head.size,
        disk_bytes,
        memory,
        used_ms: AtomicU64::new(used_ms),
        queued_ms: AtomicU64::new(used_ms),
        hits: AtomicU64::new(0),
        is_removed: AtomicBool::new(false),
    };
    Arc::new(Object { key: head.key, stored: Arc::new(head.stored), files: Arc::new(files) })
}
