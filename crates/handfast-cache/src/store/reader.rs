//! Reading content: from memory if it is there, else by the disk's threads.
//!
//! In: an object or a fill, and which bytes. Out: bytes, or a wait that ends with a call of the waker. Each block of a stored object is checked
//! before any of it is handed out; what a fill has just written is not.

use std::cell::Cell;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Poll, Waker};
use std::time::Instant;

use super::disk_work::{DiskWork, Lost};
use super::file::File;
use super::fill::{self, Fill};
use super::folder::{Part, is_out_of_files, read_cached_at, read_exact_at, size};
use super::head_file::HeadFile;
use super::index::Object;
use super::lock::locked;
use super::shared::{OpenFile, Shared};
use super::writer::BLOCK;

/// Reason why content cannot be read. The response must be aborted if its head was sent: it must not look complete.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadError {
    /// The file is damaged, or it is gone. The object is not served again.
    Broken,
    /// The fill broke off.
    Aborted,
    /// The disk failed.
    Disk(String),
    /// There is no descriptor for another file.
    OutOfFiles,
}

/// Source of content.
#[derive(Clone)]
pub(crate) enum Source {
    Object(Arc<Object>),
    Fill(Arc<Fill>),
}

/// Result that the disk's threads return to a reader.
enum Fetched {
    File(Arc<OpenFile>),
    Block(u64, Vec<u8>),
}

/// Location of the next bytes of a fill.
enum Filled {
    /// In memory, from this position of the piece on.
    Piece(Arc<[u8]>, usize),
    /// In the reader's block.
    Block,
    /// Nowhere: it was read to its end.
    End,
}

thread_local! {
    /// The room of a block that was used up, so that the next one needs no zeros.
    static ROOM: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Room for that many bytes, with any content.
pub(crate) fn taken(length: usize) -> Vec<u8> {
    let mut room = ROOM.take();
    room.resize(length, 0);
    room
}

/// The largest one is kept. A reader may be dropped when its thread ends, and the thread's values with it.
pub(crate) fn give_back(block: Vec<u8>) {
    let _ = ROOM.try_with(|room| {
        let known = room.take();
        room.set(if block.capacity() > known.capacity() { block } else { known });
    });
}

/// Reads a part of an object or of a running fill, once, from start to end.
pub struct Reader {
    shared: Arc<Shared>,
    source: Source,
    /// Of a fill, among its readers.
    number: u64,
    at: u64,
    end: u64,
    file: Option<Arc<OpenFile>>,
    /// Checked content, and where it starts.
    block: Vec<u8>,
    block_at: u64,
    work: DiskWork<Result<Fetched, ReadError>>,
}

impl Reader {
    pub(crate) fn new(shared: Arc<Shared>, source: Source, content: Range<u64>) -> Self {
        let Range { start: at, end } = content;
        let number = if let Source::Fill(fill) = &source { fill.join(at) } else { 0 };
        Self {
            shared,
            source,
            number,
            at,
            end,
            file: None,
            block: Vec::new(),
            block_at: 0,
            work: DiskWork::default(),
        }
    }

    /// Waits until the first bytes can be read: to be done before a head is sent, because on an error the request can still be forwarded.
    pub fn poll_ready(&mut self, waker: &Waker) -> Poll<Result<(), ReadError>> {
        if self.at >= self.end {
            return Poll::Ready(Ok(()));
        }
        match self.source.clone() {
            Source::Object(object) => self.poll_block(&object, waker),
            Source::Fill(_) => Poll::Ready(Ok(())),
        }
    }

    /// Hands the next bytes to `take`, at most `most`: what that returns, `None` at the end. A wait ends with a call of `waker`.
    ///
    /// **Errors**: the answer is broken off; no later call succeeds.
    /// **Cost**: at most 64 KiB from the page cache, with their checksum; never a wait for the disk.
    pub fn poll_piece<T>(
        &mut self,
        most: usize,
        waker: &Waker,
        take: impl FnOnce(&[u8]) -> T,
    ) -> Poll<Result<Option<T>, ReadError>> {
        let most = usize::try_from(self.end - self.at).unwrap_or(usize::MAX).min(most);
        if most == 0 {
            return Poll::Ready(Ok(None));
        }
        let piece = match self.source.clone() {
            Source::Object(object) => {
                std::task::ready!(self.poll_block(&object, waker))?;
                None
            }
            Source::Fill(fill) => match std::task::ready!(self.poll_fill(&fill, most, waker))? {
                Filled::Piece(piece, start) => Some((piece, start)),
                Filled::Block => None,
                Filled::End => {
                    self.end = self.at;
                    return Poll::Ready(Ok(None));
                }
            },
        };
        let (from, start) = match &piece {
            Some((piece, start)) => (&piece[..], *start),
            None => (&self.block[..], usize::try_from(self.at - self.block_at).unwrap_or(usize::MAX)),
        };
        // The file had the length in its head when it was opened. An empty read would be repeated for ever.
        let Some(bytes) = from.get(start..).filter(|rest| !rest.is_empty()) else {
            return Poll::Ready(Err(ReadError::Broken));
        };
        let bytes = &bytes[..bytes.len().min(most)];
        let (taken, length) = (take(bytes), bytes.len() as u64);
        self.advance(length);
        Poll::Ready(Ok(Some(taken)))
    }

    /// A block that is used up is given back: a slow client does not keep memory that it does not need.
    fn advance(&mut self, length: u64) {
        self.at += length;
        self.shared.counters.bytes_read.add(length);
        if let Source::Fill(fill) = &self.source {
            fill.moved(self.number, Some(self.at));
        }
        if !self.has_block() || self.at >= self.end {
            give_back(std::mem::take(&mut self.block));
        }
    }

    /// Opens the file if necessary, and fetches the block at the position.
    fn poll_block(&mut self, object: &Arc<Object>, waker: &Waker) -> Poll<Result<(), ReadError>> {
        std::task::ready!(self.poll_answer(waker))?;
        let Some(file) = self.file.clone().or_else(|| self.known_file(object)) else {
            return self.start_read(waker, {
                let (shared, object) = (Arc::clone(&self.shared), Arc::clone(object));
                move || open(&shared, &object).map(Fetched::File)
            });
        };
        self.file = Some(Arc::clone(&file));
        if self.at >= file.size || self.has_block() {
            return Poll::Ready(Ok(()));
        }
        let number = self.at / BLOCK as u64;
        let length = block_length(&file, number);
        let mut block = taken(length);
        if read_cached_at(file.file.fd(), &mut block, number * BLOCK as u64) == length {
            if !is_intact(&file, number, &block) {
                self.shared.drop_broken(object);
                return Poll::Ready(Err(ReadError::Broken));
            }
            (self.block, self.block_at) = (block, number * BLOCK as u64);
            return Poll::Ready(Ok(()));
        }
        self.start_read(waker, {
            let (shared, object) = (Arc::clone(&self.shared), Arc::clone(object));
            move || read_block(&shared, &object, &file, number, block)
        })
    }

    fn has_block(&self) -> bool {
        (self.block_at..self.block_at + self.block.len() as u64).contains(&self.at)
    }

    fn known_file(&self, object: &Object) -> Option<Arc<OpenFile>> {
        locked(&self.shared.open_files).get(&object.files.id).cloned()
    }

    fn poll_fill(&mut self, fill: &Arc<Fill>, most: usize, waker: &Waker) -> Poll<Result<Filled, ReadError>> {
        std::task::ready!(self.poll_answer(waker))?;
        if self.has_block() {
            return Poll::Ready(Ok(Filled::Block));
        }
        match fill.read(self.at, waker) {
            fill::Read::Piece(piece, start) => Poll::Ready(Ok(Filled::Piece(piece, start))),
            fill::Read::End => Poll::Ready(Ok(Filled::End)),
            fill::Read::Aborted => Poll::Ready(Err(ReadError::Aborted)),
            fill::Read::Wait => Poll::Pending,
            fill::Read::File(file, available) => {
                let mut block = taken(usize::try_from(available).unwrap_or(usize::MAX).min(most).min(BLOCK));
                let length = read_cached_at(file.fd(), &mut block, self.at);
                if length > 0 {
                    block.truncate(length);
                    (self.block, self.block_at) = (block, self.at);
                    return Poll::Ready(Ok(Filled::Block));
                }
                let at = self.at;
                self.start_read(waker, move || read_raw(&file, at, block)).map_ok(|()| Filled::Block)
            }
        }
    }

    /// Takes what the disk's threads have read, if they were asked.
    fn poll_answer(&mut self, waker: &Waker) -> Poll<Result<(), ReadError>> {
        let answer = match std::task::ready!(self.work.poll(waker)) {
            None => return Poll::Ready(Ok(())),
            // The work was dropped with the cache, or it panicked.
            Some(Err(Lost)) => Err(ReadError::Aborted),
            Some(Ok(answer)) => answer,
        };
        match answer? {
            Fetched::File(file) => self.file = Some(file),
            Fetched::Block(at, block) => (self.block, self.block_at) = (block, at),
        }
        Poll::Ready(Ok(()))
    }

    fn start_read(
        &mut self,
        waker: &Waker,
        work: impl FnOnce() -> Result<Fetched, ReadError> + Send + 'static,
    ) -> Poll<Result<(), ReadError>> {
        let shared = Arc::clone(&self.shared);
        self.work.start(&self.shared.pool, waker, move || {
            let started = Instant::now();
            let answer = work();
            shared.counters.reads.add(started.elapsed());
            if let Err(ReadError::Disk(error)) = &answer {
                shared.failed("read from the cache folder", &io::Error::other(error.clone()));
            }
            answer
        });
        Poll::Pending
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        give_back(std::mem::take(&mut self.block));
        if let Source::Fill(fill) = &self.source {
            fill.moved(self.number, None);
        }
    }
}

/// Opens an object's file: its head must be intact and fit to it, its length the one in the head.
fn open(shared: &Arc<Shared>, object: &Arc<Object>) -> Result<Arc<OpenFile>, ReadError> {
    let id = object.files.id;
    let opened = shared.folder.open_file(id, Part::Content).and_then(|fd| {
        let length = size(&fd)?;
        Ok((fd, length, shared.folder.read_head(id)?))
    });
    let (fd, length, head) = match opened {
        Ok(opened) => opened,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof) => {
            shared.drop_broken(object);
            return Err(ReadError::Broken);
        }
        Err(error) if is_out_of_files(&error) => {
            shared.close_idle_files();
            return Err(ReadError::OutOfFiles);
        }
        Err(error) => return Err(ReadError::Disk(error.to_string())),
    };
    let head = HeadFile::decode(&head).filter(|head| {
        let blocks = head.size.div_ceil(BLOCK as u64);
        head.key == object.key
            && head.size == length
            && object.files.size == length
            && head.checksums.len() as u64 == blocks
    });
    let Some(head) = head else {
        shared.drop_broken(object);
        return Err(ReadError::Broken);
    };
    let file = File::new(fd, Arc::clone(&shared.pool));
    let file = Arc::new(OpenFile { file, size: length, checksums: head.checksums });
    // A file of an object that was removed meanwhile would keep its space until others push it out.
    if !object.files.is_removed.load(Ordering::Relaxed) {
        locked(&shared.open_files).put(id, Arc::clone(&file));
    }
    Ok(file)
}

fn read_block(
    shared: &Arc<Shared>,
    object: &Arc<Object>,
    file: &OpenFile,
    number: u64,
    mut block: Vec<u8>,
) -> Result<Fetched, ReadError> {
    let at = number * BLOCK as u64;
    match read_exact_at(file.file.fd(), &mut block, at) {
        Ok(()) if is_intact(file, number, &block) => Ok(Fetched::Block(at, block)),
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => Err(ReadError::Disk(error.to_string())),
        _ => {
            shared.drop_broken(object);
            Err(ReadError::Broken)
        }
    }
}

fn read_raw(file: &File, at: u64, mut block: Vec<u8>) -> Result<Fetched, ReadError> {
    match read_exact_at(file.fd(), &mut block, at) {
        Ok(()) => Ok(Fetched::Block(at, block)),
        Err(error) => Err(ReadError::Disk(error.to_string())),
    }
}

fn block_length(file: &OpenFile, number: u64) -> usize {
    let rest = file.size.saturating_sub(number * BLOCK as u64);
    usize::try_from(rest).unwrap_or(usize::MAX).min(BLOCK)
}

fn is_intact(file: &OpenFile, number: u64, block: &[u8]) -> bool {
    let expected = usize::try_from(number).ok().and_then(|number| file.checksums.get(number));
    expected == Some(&crc32fast::hash(block))
}
