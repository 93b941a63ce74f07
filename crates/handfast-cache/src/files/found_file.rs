//! The file for a request, opened and read by the disk's threads; what is in memory already is read at once.

use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::{Poll, Waker, ready};

use handfast_http::content_coding::{AcceptedCodings, ContentCoding};
use rustix::fs::Stat;

use super::disk_threads::DiskThreads;
use super::file_path::FilePath;
use super::folder::{FindError, Folder, Found};
use crate::store::disk_work::{DiskWork, Lost};
use crate::store::folder::{read_cached_at, read_exact_at};
use crate::store::pool::Work;
use crate::store::reader::{give_back, taken};

/// Bytes of a file from which its descriptor is closed by the disk's threads: to free the space of a large file that was deleted takes long.
const LARGE: u64 = 1 << 20;

/// A regular file that is open.
#[derive(Debug)]
pub(super) struct OpenFile {
    pub(super) handle: FileHandle,
    pub(super) size: u64,
    /// Time of its last change of content, in seconds since 1970.
    pub(super) modified: u64,
    /// Time of its last change of any kind, in nanoseconds since 1970.
    pub(super) changed_ns: i128,
    pub(super) inode: u64,
    /// Coding of its content.
    pub(super) coding: Option<&'static str>,
}

#[derive(Debug)]
pub(super) struct FileHandle {
    /// There until the end.
    fd: Option<OwnedFd>,
    is_large: bool,
    threads: Arc<DiskThreads>,
}

impl OpenFile {
    pub(super) fn new(fd: OwnedFd, status: &Stat, threads: &Arc<DiskThreads>) -> Self {
        let size = u64::try_from(status.st_size).unwrap_or(0);
        let changed_ns = i128::from(status.st_ctime) * 1_000_000_000 + i128::from(status.st_ctime_nsec);
        Self {
            handle: FileHandle { fd: Some(fd), is_large: size >= LARGE, threads: Arc::clone(threads) },
            size,
            modified: u64::try_from(status.st_mtime).unwrap_or(0),
            changed_ns,
            inode: status.st_ino,
            coding: None,
        }
    }
}

impl FileHandle {
    const fn fd(&self) -> &OwnedFd {
        self.fd.as_ref().expect("the descriptor is taken out by drop alone")
    }
}

impl Drop for FileHandle {
    fn drop(&mut self) {
        let fd = self.fd.take();
        if self.is_large {
            self.threads.pool.submit(Work::Write, move || drop(fd));
        }
    }
}

/// Search for the file of a request, by the disk's threads.
pub struct FileSearch {
    folder: Arc<Folder>,
    /// Until it was begun.
    request: Option<(FilePath, Vec<ContentCoding>)>,
    work: DiskWork<Result<Found, FindError>>,
}

/// Outcome of a search.
#[derive(Debug)]
pub enum FileOutcome {
    /// A file.
    File(FoundFile),
    /// A folder without the slash at the end of its path: the client is to be redirected to the path with one.
    Folder,
}

/// The file for a request.
#[derive(Debug)]
pub struct FoundFile {
    pub(super) file: Arc<OpenFile>,
    /// Its path below the folder; of a precompressed file the path without the end for its coding.
    pub(super) name: Vec<u8>,
    /// Its response depends on `Accept-Encoding`.
    pub(super) varies: bool,
}

impl FileSearch {
    /// Prepares a search. `accepted`: the codings that the client accepts.
    pub fn new(folder: &Arc<Folder>, path: FilePath, accepted: AcceptedCodings) -> Self {
        let offered = &folder.rules.precompressed;
        let codings = accepted.in_order(offered.iter().copied());
        Self { folder: Arc::clone(folder), request: Some((path, codings)), work: DiskWork::default() }
    }

    /// Waits for the outcome.
    ///
    /// **Errors**: there is no file, or it cannot be read. **Cost**: never a wait for the disk.
    pub fn poll(&mut self, waker: &Waker) -> Poll<Result<FileOutcome, FindError>> {
        if let Some((path, codings)) = self.request.take() {
            if self.folder.threads.are_busy() {
                return Poll::Ready(Err(FindError::Busy));
            }
            let folder = Arc::clone(&self.folder);
            self.work.start(&self.folder.threads.pool, waker, move || folder.find(&path, &codings));
        }
        let outcome = ready!(self.work.poll(waker));
        let lost = || Err(FindError::Disk("the search was ended".to_owned()));
        let varies = !self.folder.rules.precompressed.is_empty();
        Poll::Ready(outcome.and_then(Result::ok).unwrap_or_else(lost).map(|found| match found {
            Found::File(file, name) => FileOutcome::File(FoundFile { file: Arc::new(file), name, varies }),
            Found::Folder => FileOutcome::Folder,
        }))
    }
}

/// Reads a part of a file, once, from start to end.
pub struct FileReader {
    file: Arc<OpenFile>,
    at: u64,
    end: u64,
    /// Bytes that the disk's threads have read, and the number of those that were handed out.
    block: Vec<u8>,
    used: usize,
    work: DiskWork<io::Result<Vec<u8>>>,
}

impl FoundFile {
    /// Reads these bytes of its content.
    pub fn reader(&self, Range { start: at, end }: Range<u64>) -> FileReader {
        let file = Arc::clone(&self.file);
        FileReader { file, at, end, block: Vec::new(), used: 0, work: DiskWork::default() }
    }
}

impl FileReader {
    /// Hands the next bytes to `take`, at most `most`: what that returns, `None` at the end. A wait ends with a call of `waker`.
    ///
    /// **Errors**: the disk failed, or the file has become shorter (`UnexpectedEof`); the response must not look complete.
    /// **Cost**: at most `most` bytes from the page cache; never a wait for the disk.
    pub fn poll_piece<T>(
        &mut self,
        most: usize,
        waker: &Waker,
        take: impl FnOnce(&[u8]) -> T,
    ) -> Poll<io::Result<Option<T>>> {
        let most = usize::try_from(self.end - self.at).unwrap_or(usize::MAX).min(most);
        if most == 0 {
            return Poll::Ready(Ok(None));
        }
        match ready!(self.work.poll(waker)) {
            None => {}
            Some(Err(Lost)) => return Poll::Ready(Err(io::Error::other("the read was ended"))),
            Some(Ok(block)) => (self.block, self.used) = (block?, 0),
        }
        if self.block.is_empty() {
            let mut block = taken(most);
            let length = read_cached_at(self.file.handle.fd(), &mut block, self.at);
            if length == 0 {
                let (file, at) = (Arc::clone(&self.file), self.at);
                self.work.start(&self.file.handle.threads.pool, waker, move || {
                    read_exact_at(file.handle.fd(), &mut block, at).map(|()| block)
                });
                return Poll::Pending;
            }
            block.truncate(length);
            (self.block, self.used) = (block, 0);
        }
        let bytes = &self.block[self.used..];
        let bytes = &bytes[..bytes.len().min(most)];
        let (taken, length) = (take(bytes), bytes.len());
        self.used += length;
        self.at += length as u64;
        // A slow client does not keep memory that it does not need.
        if self.used == self.block.len() {
            self.used = 0;
            give_back(std::mem::take(&mut self.block));
        }
        Poll::Ready(Ok(Some(taken)))
    }
}
