//! A folder whose files are served, and the file for a path.
//!
//! Everything is opened from the folder's descriptor, and never outside of it (openat2(2)): the kernel checks each link on the way.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use handfast_http::content_coding::ContentCoding;
use rustix::fs::{self, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::disk_threads::DiskThreads;
use super::file_path::FilePath;
use super::found_file::OpenFile;
use crate::store::folder::{admit, is_out_of_files};

/// Repetitions after a rename that met the kernel's search for a file (`EAGAIN`, openat2(2)).
const MAX_REPETITIONS: u32 = 16;

/// The end of the names of files with a content coding.
const fn extension(coding: ContentCoding) -> &'static str {
    match coding {
        ContentCoding::Zstd => ".zst",
        ContentCoding::Brotli => ".br",
        ContentCoding::Gzip => ".gz",
    }
}

/// Search for the file of a path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileRules {
    /// Names of index files, the preferred one first.
    pub index: Vec<Box<str>>,
    /// Extension that is added to a path that leads to no file, with its dot.
    pub extension: Option<Box<str>>,
    /// File for paths that lead to none, below the folder.
    pub fallback: Option<Box<str>>,
    /// Codings of precompressed files.
    pub precompressed: Vec<ContentCoding>,
}

/// A folder that is open.
#[derive(Debug)]
pub struct Folder {
    root: OwnedFd,
    pub(super) rules: FileRules,
    pub(super) threads: Arc<DiskThreads>,
    descriptors_below: u32,
}

/// Target of a path.
#[derive(Debug)]
pub(super) enum Found {
    /// A file, and its name.
    File(OpenFile, Vec<u8>),
    /// A folder with an index file, and no slash behind its name.
    Folder,
}

/// Reason why a path leads to no file that can be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FindError {
    /// There is none.
    NotFound(NotFound),
    /// The user of this process must not read it.
    Denied,
    /// There is no descriptor for another file.
    OutOfFiles,
    /// Too many requests wait for the disk.
    Busy,
    /// The disk failed.
    Disk(String),
}

/// Reason why a path leads to no file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotFound {
    /// No file has the name.
    Name,
    /// It is a folder, and has no index file.
    Index,
    /// It is a FIFO, a socket or a device.
    Special,
    /// A link leads out of the folder.
    Outside,
}

impl NotFound {
    /// Returns it as the rest of a sentence.
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Name => "no file has its name",
            Self::Index => "its folder has no index file",
            Self::Special => "it is a FIFO, a socket or a device",
            Self::Outside => "a link leads out of the folder",
        }
    }
}

/// One thing below a folder.
enum Opened {
    File(OpenFile),
    Folder,
}

impl Folder {
    /// Opens a folder. No file is opened whose descriptor has the number `descriptors_below` or a higher one.
    ///
    /// **Errors**: it is missing, or no folder; this user must not search it; `ENOSYS` from kernels without openat2(2).
    pub fn open(
        path: &Path,
        rules: FileRules,
        threads: impl FnOnce(u64) -> Arc<DiskThreads>,
        descriptors_below: u32,
    ) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = fs::open(path, flags, Mode::empty())?;
        // Fails where files in it could not be opened either.
        drop(fs::openat2(&root, ".", flags, Mode::empty(), BELOW)?);
        let device = fs::fstat(&root)?.st_dev;
        Ok(Self { root, rules, threads: threads(device), descriptors_below })
    }

    /// Starts the threads that open and read its files, once.
    ///
    /// **Errors**: no thread can be started.
    pub fn start(&self) -> io::Result<()> {
        self.threads.start()
    }

    /// Finds the file for a path. `codings`: those that the client accepts, the best one first.
    ///
    /// **Cost**: waits for the disk.
    pub(super) fn find(&self, path: &FilePath, codings: &[ContentCoding]) -> Result<Found, FindError> {
        let missing = match self.find_named(path, codings) {
            Err(FindError::NotFound(reason)) => reason,
            outcome => return outcome,
        };
        let Some(fallback) = &self.rules.fallback else { return Err(FindError::NotFound(missing)) };
        self.file(fallback.as_bytes().to_vec(), codings)
    }

    fn find_named(&self, path: &FilePath, codings: &[ContentCoding]) -> Result<Found, FindError> {
        if path.is_folder() {
            return self.index(&path.relative, codings);
        }
        match self.open_below(&path.relative) {
            Ok(Opened::File(file)) => self.best(file, path.relative.clone(), codings),
            Ok(Opened::Folder) => {
                let folder = [&path.relative[..], b"/"].concat();
                self.index(&folder, &[]).map(|_| Found::Folder)
            }
            Err(FindError::NotFound(NotFound::Name)) if self.rules.extension.is_some() => {
                let extension = self.rules.extension.as_deref().unwrap_or_default();
                self.file([&path.relative[..], extension.as_bytes()].concat(), codings)
            }
            Err(error) => Err(error),
        }
    }

    /// The index file of a folder, whose path ends with a slash.
    fn index(&self, folder: &[u8], codings: &[ContentCoding]) -> Result<Found, FindError> {
        for index in &self.rules.index {
            match self.file([folder, index.as_bytes()].concat(), codings) {
                Err(FindError::NotFound(NotFound::Name)) => {}
                outcome => return outcome,
            }
        }
        Err(FindError::NotFound(NotFound::Index))
    }

    fn file(&self, name: Vec<u8>, codings: &[ContentCoding]) -> Result<Found, FindError> {
        match self.open_below(&name)? {
            Opened::File(file) => self.best(file, name, codings),
            Opened::Folder => Err(FindError::NotFound(NotFound::Name)),
        }
    }

    /// The file, or its precompressed neighbour that the client likes best.
    fn best(&self, file: OpenFile, name: Vec<u8>, codings: &[ContentCoding]) -> Result<Found, FindError> {
        for coding in codings {
            match self.open_below(&[&name[..], extension(*coding).as_bytes()].concat()) {
                Ok(Opened::File(neighbour)) => {
                    return Ok(Found::File(OpenFile { coding: Some(coding.name()), ..neighbour }, name));
                }
                Err(FindError::OutOfFiles) => return Err(FindError::OutOfFiles),
                // The file itself is served.
                Ok(Opened::Folder) | Err(_) => {}
            }
        }
        Ok(Found::File(file, name))
    }

    /// Opens a file for reading, or finds that it is a folder.
    fn open_below(&self, path: &[u8]) -> Result<Opened, FindError> {
        // A FIFO or a device must not hold the thread.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let mut repetitions = 0;
        let opened = loop {
            match fs::openat2(&self.root, path, flags, Mode::empty(), BELOW) {
                Err(Errno::AGAIN | Errno::INTR) if repetitions < MAX_REPETITIONS => repetitions += 1,
                outcome => break outcome,
            }
        };
        let file = opened.map_err(|error| not_opened(error.into()))?;
        let file = admit(file, self.descriptors_below).map_err(not_opened)?;
        let status = fs::fstat(&file).map_err(|error| not_opened(error.into()))?;
        match fs::FileType::from_raw_mode(status.st_mode) {
            fs::FileType::RegularFile => Ok(Opened::File(OpenFile::new(file, &status, &self.threads))),
            fs::FileType::Directory => Ok(Opened::Folder),
            _ => Err(FindError::NotFound(NotFound::Special)),
        }
    }
}

/// Nothing outside of the folder, and none of the links that the kernel makes for open files (`/proc/self/fd`).
const BELOW: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS);

fn not_opened(error: io::Error) -> FindError {
    let is = |errno: Errno| error.raw_os_error() == Some(errno.raw_os_error());
    if is_out_of_files(&error) || is(Errno::NFILE) {
        return FindError::OutOfFiles;
    }
    if [Errno::NOENT, Errno::NOTDIR, Errno::NAMETOOLONG, Errno::LOOP, Errno::ILSEQ, Errno::INVAL]
        .into_iter()
        .any(is)
    {
        return FindError::NotFound(NotFound::Name);
    }
    match () {
        () if is(Errno::XDEV) => FindError::NotFound(NotFound::Outside),
        // A socket, and a device without a driver.
        () if is(Errno::NXIO) || is(Errno::NODEV) => FindError::NotFound(NotFound::Special),
        () if is(Errno::ACCESS) || is(Errno::PERM) => FindError::Denied,
        () => FindError::Disk(error.to_string()),
    }
}
