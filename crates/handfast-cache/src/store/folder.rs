//! The folder of a cache: the only place that is written, always relative to its descriptor.
//!
//! In: numbers of files. Out: descriptors, or the system's error. No name comes from a request: a file is called by its number, and `c` for
//! content, `h` for a head, `t` for a head that is being written. Links are not followed.

use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{self, AtFlags, FlockOperation, Mode, OFlags};

/// The number of an object's files. It starts with a random number of the process that wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct FileId(pub(crate) u64);

/// Part of a stored object, with a separate file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Part {
    Content,
    Head,
    /// A head that is not complete.
    NewHead,
}

impl Part {
    const fn letter(self) -> char {
        match self {
            Self::Content => 'c',
            Self::Head => 'h',
            Self::NewHead => 't',
        }
    }
}

/// Reason why a folder cannot be used.
#[derive(Debug)]
pub enum OpenError {
    /// Another process uses it.
    InUse(String),
    /// It cannot be opened or created.
    Folder(String, io::Error),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse(path) => write!(
                f,
                "lock the cache folder {path}: another process uses it; hint: give each process a separate folder, or wait until the \
                 process before this one has released it"
            ),
            Self::Folder(path, error) => write!(
                f,
                "open the cache folder {path}: {error}; hint: it must be a directory of this user that no other one can write, and not a link"
            ),
        }
    }
}

impl std::error::Error for OpenError {}

/// An open folder.
#[derive(Debug)]
pub(crate) struct Folder {
    fd: OwnedFd,
    /// See [`Settings::descriptors_below`](super::settings::Settings::descriptors_below).
    descriptors_below: u32,
    #[cfg(test)]
    pub(crate) faults: std::sync::Arc<super::tests::faults::Faults>,
}

impl Folder {
    /// Opens the folder and locks it; the lock is the second value and ends with it.
    pub(crate) fn open(path: &Path, descriptors_below: u32) -> Result<(Self, OwnedFd), OpenError> {
        let name = path.display().to_string();
        let failed = |error: rustix::io::Errno| OpenError::Folder(name.clone(), error.into());
        let fd = open_folder(path)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let lock = fs::openat(&fd, "lock", flags, Mode::RUSR | Mode::WUSR).map_err(failed)?;
        regular(&lock).map_err(|error| OpenError::Folder(name.clone(), error))?;
        match fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(OpenError::InUse(name)),
            Err(error) => return Err(failed(error)),
        }
        let folder = Self {
            fd,
            descriptors_below,
            #[cfg(test)]
            faults: std::sync::Arc::default(),
        };
        Ok((folder, lock))
    }

    /// Creates a file that did not exist. **Errors**: [`is_out_of_files`] too.
    pub(crate) fn create(&self, id: FileId, part: Part) -> io::Result<OwnedFd> {
        self.step("create")?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let created = admit(
            fs::openat(&self.fd, name(id, part), flags, Mode::RUSR | Mode::WUSR)?,
            self.descriptors_below,
        );
        if created.is_err() {
            let _ = fs::unlinkat(&self.fd, name(id, part), AtFlags::empty());
        }
        created
    }

    /// Opens a file for reading.
    pub(crate) fn open_file(&self, id: FileId, part: Part) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = fs::openat(&self.fd, name(id, part), flags, Mode::empty())?;
        regular(&file)?;
        admit(file, self.descriptors_below)
    }

    /// Reads a head.
    pub(crate) fn read_head(&self, id: FileId) -> io::Result<Vec<u8>> {
        // A head is at most 1 MiB, and the checksums of 1 TiB take 64 MiB.
        const MAX_BYTES: u64 = 1 << 27;
        let fd = self.open_file(id, Part::Head)?;
        let size = size(&fd)?;
        if size > MAX_BYTES {
            return Err(io::Error::other("the head of a cached object is too large"));
        }
        let mut text = vec![0; usize::try_from(size).unwrap_or(0)];
        read_exact_at(&fd, &mut text, 0)?;
        Ok(text)
    }

    /// Writes all of it.
    pub(crate) fn write_at(&self, fd: &OwnedFd, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
        #[cfg(test)]
        self.faults.step_with("write", || {
            let _part = rustix::io::pwrite(fd, &bytes[..bytes.len() / 2], offset);
        })?;
        while !bytes.is_empty() {
            let written = match rustix::io::pwrite(fd, bytes, offset) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => written,
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            bytes = &bytes[written..];
            offset += written as u64;
        }
        Ok(())
    }

    /// Waits until the file's bytes are on the disk.
    pub(crate) fn sync(&self, fd: &OwnedFd) -> io::Result<()> {
        self.step("sync")?;
        Ok(fs::fdatasync(fd)?)
    }

    /// Gives a head its name, in place of the one before.
    pub(crate) fn rename_head(&self, from: FileId, to: FileId) -> io::Result<()> {
        self.step("rename")?;
        Ok(fs::renameat(&self.fd, name(from, Part::NewHead), &self.fd, name(to, Part::Head))?)
    }

    /// Removes a file; one that is not there is no error.
    pub(crate) fn remove(&self, id: FileId, part: Part) -> io::Result<()> {
        self.step("remove")?;
        match fs::unlinkat(&self.fd, name(id, part), AtFlags::empty()) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes several files of one number, all that can be removed.
    ///
    /// **Errors**: the last one.
    pub(crate) fn remove_all(&self, id: FileId, parts: &[Part]) -> io::Result<()> {
        let mut outcome = Ok(());
        for part in parts {
            outcome = self.remove(id, *part).and(outcome);
        }
        outcome
    }

    /// The size of a file; 0 if it is not there.
    pub(crate) fn size_of(&self, id: FileId, part: Part) -> u64 {
        let found = fs::statat(&self.fd, name(id, part), AtFlags::SYMLINK_NOFOLLOW);
        found.map_or(0, |found| u64::try_from(found.st_size).unwrap_or(0))
    }

    /// All files that have the name of an object's.
    pub(crate) fn list(&self) -> io::Result<Vec<(FileId, Part)>> {
        let mut files = Vec::new();
        for entry in fs::Dir::read_from(&self.fd)? {
            files.extend(parse_name(entry?.file_name().to_bytes()));
        }
        Ok(files)
    }

    #[cfg(test)]
    fn step(&self, what: &'static str) -> io::Result<()> {
        self.faults.step(what)
    }

    #[cfg(not(test))]
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "tests let a step fail here")]
    const fn step(&self, _what: &'static str) -> io::Result<()> {
        Ok(())
    }
}

/// Opens a folder, and makes it if it is not there: in a sandbox none can be made.
fn open_folder(path: &Path) -> Result<OwnedFd, OpenError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = || fs::open(path, flags, Mode::empty());
    let opened = match open() {
        Err(rustix::io::Errno::NOENT) => fs::mkdir(path, Mode::RWXU).and_then(|()| open()),
        opened => opened,
    };
    let checked = opened.map_err(io::Error::from).and_then(|fd| check_owner(&fd).map(|()| fd));
    checked.map_err(|error| OpenError::Folder(path.display().to_string(), error))
}

/// Checks that a folder can be that of a cache, as far as possible before it is opened. It is made if it does not
/// exist.
///
/// **Errors**: it is a link, another user's, or others can write into it.
pub fn check_folder(path: &Path) -> Result<(), OpenError> {
    open_folder(path).map(drop)
}

/// Refuses a folder that other users can write to, because they would choose the responses of clients. `/tmp`, named by
/// mistake, stays as it is.
fn check_owner(folder: &OwnedFd) -> io::Result<()> {
    let found = fs::fstat(folder)?;
    let (owner, mode) = (found.st_uid, found.st_mode & 0o7777);
    if owner != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other(format!("it belongs to user {owner}")));
    }
    if mode & 0o022 != 0 {
        return Err(io::Error::other(format!("others can write into it (mode {mode:o})")));
    }
    Ok(())
}

/// Refuses a descriptor with this number or a higher one. The kernel gives out the lowest free number (open(2)), so it is the least number of
/// descriptors that the process has.
pub(crate) fn admit(file: OwnedFd, descriptors_below: u32) -> io::Result<OwnedFd> {
    let is_low = u32::try_from(file.as_raw_fd()).is_ok_and(|number| number < descriptors_below);
    if is_low { Ok(file) } else { Err(rustix::io::Errno::MFILE.into()) }
}

/// Returns true if there was no descriptor for a file: the disk may be intact.
pub(crate) fn is_out_of_files(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::MFILE.raw_os_error())
}

/// **Errors**: it is a FIFO, a device or another file that is not regular, whose reader would wait or never end.
fn regular(fd: &OwnedFd) -> io::Result<()> {
    match fs::FileType::from_raw_mode(fs::fstat(fd)?.st_mode) {
        fs::FileType::RegularFile => Ok(()),
        _ => Err(io::Error::other("the lock or an object in it is not a regular file")),
    }
}

/// The size of a file.
pub(crate) fn size(fd: &OwnedFd) -> io::Result<u64> {
    Ok(u64::try_from(fs::fstat(fd)?.st_size).unwrap_or(0))
}

/// Reads until the buffer is full; a file that ends before is an error.
pub(crate) fn read_exact_at(fd: &OwnedFd, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    let mut filled = 0;
    while filled < buffer.len() {
        match rustix::io::pread(fd, &mut buffer[filled..], offset + filled as u64) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => filled += read,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Reads what is in memory already, without waiting for the disk: the number of bytes, 0 if there are none.
pub(crate) fn read_cached_at(fd: &OwnedFd, buffer: &mut [u8], offset: u64) -> usize {
    let mut parts = [io::IoSliceMut::new(buffer)];
    // Also where the file system has no such reading: then all of it is read by the disk's threads.
    rustix::io::preadv2(fd, &mut parts, offset, rustix::io::ReadWriteFlags::NOWAIT).unwrap_or(0)
}

fn name(id: FileId, part: Part) -> String {
    format!("{:016x}.{}", id.0, part.letter())
}

fn parse_name(name: &[u8]) -> Option<(FileId, Part)> {
    let (number, letter) = str::from_utf8(name).ok()?.split_once('.')?;
    let part = [Part::Content, Part::Head, Part::NewHead].into_iter().find(|part| {
        let mut letters = letter.chars();
        letters.next() == Some(part.letter()) && letters.next().is_none()
    })?;
    let id = u64::from_str_radix(number, 16).ok().filter(|_| number.len() == 16)?;
    Some((FileId(id), part))
}
