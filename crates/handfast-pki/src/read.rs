//! Reads a small file completely, or returns why not, and a stamp to detect later changes.
//!
//! In: a path. Out: its bytes, complete as of one moment, and a [`FileStamp`]. Nothing here blocks: a FIFO
//! or device in place of a file is refused before it is opened, a file that changes under the reader is read again.

use std::collections::BTreeSet;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use zeroize::Zeroizing;

use crate::finding::{Finding, Reason};
use crate::unix_time::unix_seconds;

/// Bytes that one file may have. The largest chain seen in the wild is below 30 KiB, a bundle of all public CAs is
/// 220 KiB; a gibibyte here is a mistake, and must not become memory.
pub(crate) const SIZE_LIMIT: u64 = 1 << 20;

/// Number of attempts at a read that a change or a stale handle spoils.
const ATTEMPTS: usize = 5;

/// File metadata that changes with the state of a file or folder, taken without reading it; the default is "not there".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileStamp(Option<Stat>);

/// The change time is in here because it cannot be set: a file replaced by one of the same size and date
/// (`cp -p`, configuration management) still differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// A file system that keeps no fractions of a second may keep every other second only (FAT).
const COARSEST_SECONDS: i64 = 2;

impl FileStamp {
    /// Differs from whatever can be at a path: what has this stamp is read again at the next look.
    pub(crate) const UNREAD: Self = Self(Some(Stat {
        device: u64::MAX,
        inode: u64::MAX,
        size: u64::MAX,
        modified: (0, 0),
        changed: (0, 0),
    }));

    /// The same, if a later write to the file would change it. With times in whole seconds, a file that is written twice within one
    /// second has the same stamp both times: then it must be read again. `read_at`: a time before it was read.
    pub fn settled(self, read_at: SystemTime) -> Self {
        let Some(stat) = self.0 else { return self };
        let is_coarse = stat.modified.1 == 0 && stat.changed.1 == 0;
        let age = unix_seconds(read_at) - stat.modified.0.max(stat.changed.0);
        if is_coarse && (0..=COARSEST_SECONDS).contains(&age) { Self::UNREAD } else { self }
    }

    /// The stamp of what is at `path` now, links followed; the default one when nothing can be seen there.
    pub fn of(path: &Path) -> Self {
        retry_stale(|| fs::metadata(path)).map_or(Self(None), |metadata| Self::from(&metadata))
    }

    /// Returns true if something was visible at the path.
    pub fn is_there(&self) -> bool {
        self.0.is_some()
    }
}

impl FileStamp {
    /// Its numbers, for another process.
    pub(crate) fn numbers(self) -> Option<[u64; 7]> {
        let Stat { device, inode, size, modified, changed } = self.0?;
        let [one, two, three, four] = [modified.0, modified.1, changed.0, changed.1].map(i64::cast_unsigned);
        Some([device, inode, size, one, two, three, four])
    }

    /// The stamp that has these numbers.
    pub(crate) fn of_numbers(numbers: Option<[u64; 7]>) -> Self {
        Self(numbers.map(|[device, inode, size, times @ ..]| {
            let [one, two, three, four] = times.map(u64::cast_signed);
            Stat { device, inode, size, modified: (one, two), changed: (three, four) }
        }))
    }
}

impl From<&Metadata> for FileStamp {
    fn from(metadata: &Metadata) -> Self {
        Self(Some(Stat {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }))
    }
}

/// A file's content, as of one moment.
pub struct Content {
    /// Erased from memory when dropped: it may hold a key.
    pub bytes: Zeroizing<Vec<u8>>,
    /// Stamp of the file at that moment.
    pub stamp: FileStamp,
    /// Mode bits, without the file type.
    pub mode: u32,
}

/// Reason why a file was not read.
#[derive(Debug)]
pub enum Failure {
    /// It is not there.
    Missing,
    /// The system refused.
    Refused(io::Error),
    /// It is of this other kind.
    NotAFile(&'static str),
    /// It has this number of bytes.
    TooLarge(u64),
    /// It changed during each attempt.
    Changing,
}

impl From<Failure> for io::Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Missing => Self::from_raw_os_error(libc::ENOENT),
            Failure::Refused(error) => error,
            Failure::NotAFile(kind) => Self::other(format!("is {kind}, expected a file")),
            Failure::TooLarge(size) => Self::other(format!("has {size} bytes, which is too large")),
            Failure::Changing => Self::other("changed each time while it was read"),
        }
    }
}

/// Returns the finding for a file that could not be read.
pub fn failed(path: &Path, failure: &Failure) -> Finding {
    match failure {
        Failure::Missing => Finding::error(Reason::Missing, path, "is not there"),
        Failure::Refused(error) => {
            let finding = Finding::error(Reason::Unreadable, path, format!("cannot be read: {error}"));
            match error.kind() {
                io::ErrorKind::PermissionDenied => finding.hint(
                    "let the user this program runs as read it: see ls -l of it and of each folder above",
                ),
                _ => finding,
            }
        }
        Failure::NotAFile(kind) => {
            let finding = Finding::error(Reason::NotAFile, path, format!("is {kind}, expected a file"));
            match *kind {
                "a folder" => finding.hint("name it as a folder of certificates"),
                _ => finding,
            }
        }
        Failure::TooLarge(size) => Finding::error(
            Reason::TooLarge,
            path,
            format!("has {size} bytes, expected at most {}: it is no certificate", SIZE_LIMIT),
        ),
        Failure::Changing => Finding::error(Reason::Changing, path, "changed each time while it was read"),
    }
}

/// The folder in which `path` would be seen to change, and the one that its link leads to.
pub(crate) fn watch(path: &Path, folders: &mut BTreeSet<PathBuf>) {
    let parent = |path: &Path| match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Some(PathBuf::from(".")),
        parent => parent.map(Path::to_path_buf),
    };
    folders.extend(parent(path));
    folders.extend(fs::canonicalize(path).ok().and_then(|real| parent(&real)));
}

/// Opens a file of at most `limit` bytes that is too large to be read at once. The caller compares the stamp again after reading.
pub(crate) fn open(path: &Path, limit: u64) -> Result<(File, FileStamp), Failure> {
    let opened = retry_stale(|| {
        Ok(match open_file(path)? {
            Ok((_, metadata)) if metadata.size() > limit => Err(Failure::TooLarge(metadata.size())),
            Ok((file, metadata)) => Ok((file, FileStamp::from(&metadata))),
            Err(failure) => Err(failure),
        })
    });
    match opened {
        Ok(opened) => opened,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Failure::Missing),
        Err(error) => Err(Failure::Refused(error)),
    }
}

/// Reads the file at `path`, of at most [`SIZE_LIMIT`] bytes.
pub fn whole(path: &Path) -> Result<Content, Failure> {
    whole_with(path, SIZE_LIMIT, &mut || {})
}

/// As [`whole`], of at most `limit` bytes; of a file that cannot be read also the stamp by which to notice that it has changed.
pub(crate) fn whole_or_stamp(path: &Path, limit: u64) -> Result<Content, (Failure, FileStamp)> {
    if let Ok(content) = whole_up_to(path, limit) {
        return Ok(content);
    }
    // Before another attempt: a change after that makes the stamp differ.
    let stamp = FileStamp::of(path);
    whole_up_to(path, limit).map_err(|failure| {
        let may_pass = match &failure {
            Failure::Refused(error) => may_pass(error),
            Failure::Changing => true,
            Failure::Missing | Failure::NotAFile(_) | Failure::TooLarge(_) => false,
        };
        (failure, if may_pass { FileStamp::UNREAD } else { stamp })
    })
}

/// Returns true if an error may be temporary although the file stays as it is: a network or disk that failed, no descriptor
/// left.
fn may_pass(error: &io::Error) -> bool {
    let stays = [libc::ENOENT, libc::EACCES, libc::EPERM, libc::ELOOP, libc::ENOTDIR, libc::ENAMETOOLONG];
    error.raw_os_error().is_none_or(|number| !stays.contains(&number))
}

/// Reads the file at `path`, of at most `limit` bytes.
pub(crate) fn whole_up_to(path: &Path, limit: u64) -> Result<Content, Failure> {
    whole_with(path, limit, &mut || {})
}

/// `meanwhile` runs between reading and looking again, for the tests.
fn whole_with(path: &Path, limit: u64, meanwhile: &mut dyn FnMut()) -> Result<Content, Failure> {
    for _ in 0..ATTEMPTS {
        match retry_stale(|| attempt(path, limit, meanwhile)) {
            Ok(Ok(content)) => return Ok(content),
            Ok(Err(Failure::Changing)) => {}
            Ok(Err(failure)) => return Err(failure),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(Failure::Missing),
            Err(error) => return Err(Failure::Refused(error)),
        }
    }
    Err(Failure::Changing)
}

fn attempt(path: &Path, limit: u64, meanwhile: &mut dyn FnMut()) -> io::Result<Result<Content, Failure>> {
    let (mut file, before) = match open_file(path)? {
        Ok(opened) => opened,
        Err(failure) => return Ok(Err(failure)),
    };
    if before.size() > limit {
        return Ok(Err(Failure::TooLarge(before.size())));
    }
    let bytes = read_limited(&mut file, before.size().min(limit))?;
    meanwhile();
    let after = file.metadata()?;
    let stamp = FileStamp::from(&before);
    if FileStamp::from(&after) != stamp || after.size() != bytes.len() as u64 {
        return Ok(Err(Failure::Changing));
    }
    Ok(Ok(Content { bytes, stamp, mode: after.mode() & 0o7777 }))
}

fn open_file(path: &Path) -> io::Result<Result<(File, Metadata), Failure>> {
    // Looked at before it is opened: opening alone can have effects on a device.
    if let Some(kind) = not_a_file(&fs::metadata(path)?) {
        return Ok(Err(Failure::NotAFile(kind)));
    }
    // O_NONBLOCK for the case that a FIFO has taken the file's place since.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    let metadata = file.metadata()?;
    match not_a_file(&metadata) {
        Some(kind) => Ok(Err(Failure::NotAFile(kind))),
        None => Ok(Ok((file, metadata))),
    }
}

/// Reads into a buffer that never has to grow, because growing would leave copies of a key behind.
fn read_limited(file: &mut File, size: u64) -> io::Result<Zeroizing<Vec<u8>>> {
    let capacity = usize::try_from(size).unwrap_or(0) + 1;
    let mut bytes = Zeroizing::new(vec![0; capacity]);
    let mut filled = 0;
    while filled < capacity {
        match file.read(&mut bytes[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

/// Returns the kind of file, if it is not a regular one.
pub(crate) fn not_a_file(metadata: &Metadata) -> Option<&'static str> {
    let kind = metadata.file_type();
    if kind.is_file() {
        return None;
    }
    let [folder, fifo, socket, device, other] = NOT_FILES;
    Some(if kind.is_dir() {
        folder
    } else if kind.is_fifo() {
        fifo
    } else if kind.is_socket() {
        socket
    } else if kind.is_block_device() || kind.is_char_device() {
        device
    } else {
        other
    })
}

/// Kinds of file that can be in a file's place.
pub(crate) const NOT_FILES: [&str; 5] = ["a folder", "a FIFO", "a socket", "a device", "not a regular file"];

/// The entries of the folder at `path`; adds it to `files_read`, so that a change of it is noticed.
pub(crate) fn entries(
    path: &Path,
    files_read: &mut Vec<(PathBuf, FileStamp)>,
) -> io::Result<Vec<fs::DirEntry>> {
    // Before the listing: a file added after it then makes the stamp differ.
    files_read.push((path.to_path_buf(), FileStamp::of(path)));
    let entries = retry_stale(|| fs::read_dir(path)?.collect::<Result<Vec<_>, _>>());
    if entries.as_ref().is_err_and(may_pass) {
        files_read.push((path.to_path_buf(), FileStamp::UNREAD));
    }
    entries
}

/// Tries again when a network file system lost the file under us: ESTALE means that the name must be looked up again,
/// which the next attempt does.
fn retry_stale<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for _ in 1..ATTEMPTS {
        match attempt() {
            Err(error) if matches!(error.raw_os_error(), Some(libc::ESTALE | libc::EINTR)) => {}
            result => return result,
        }
    }
    attempt()
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "no other process reads these files")]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::process::Command;

    use super::*;

    #[test]
    fn bytes_mode_and_stamp_are_those_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, b"hello").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let content = whole(&path).unwrap();
        assert_eq!(*content.bytes, b"hello");
        assert_eq!(content.mode, 0o640);
        assert_eq!(content.stamp, FileStamp::of(&path));
        let link = folder.path().join("b");
        symlink(&path, &link).unwrap();
        assert_eq!(whole(&link).unwrap().stamp, content.stamp);
    }

    #[test]
    fn a_replaced_file_has_another_stamp_even_with_size_and_date_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, b"hello").unwrap();
        let before = FileStamp::of(&path);
        let date = fs::metadata(&path).unwrap().modified().unwrap();
        let other = folder.path().join("b");
        fs::write(&other, b"jello").unwrap();
        File::options().write(true).open(&other).unwrap().set_modified(date).unwrap();
        fs::rename(&other, &path).unwrap();
        assert_ne!(FileStamp::of(&path), before);
        fs::remove_file(&path).unwrap();
        assert_eq!(FileStamp::of(&path), FileStamp::default());
    }

    #[test]
    fn what_may_pass_is_read_again_and_what_stays_is_noticed_when_it_changes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let (failure, stamp) = whole_or_stamp(&path, SIZE_LIMIT).err().unwrap();
        assert!(matches!(failure, Failure::Missing) && stamp == FileStamp::of(&path));
        fs::write(&path, b"12").unwrap();
        let (failure, stamp) = whole_or_stamp(&path, 1).err().unwrap();
        assert!(matches!(failure, Failure::TooLarge(2)) && stamp == FileStamp::of(&path));
        // A file of /proc that cannot be read for another reason than rights: EIO.
        let odd = Path::new("/proc/self/mem");
        let (failure, stamp) = whole_or_stamp(odd, SIZE_LIMIT).err().unwrap();
        assert!(
            matches!(&failure, Failure::Refused(error) if error.raw_os_error() == Some(libc::EIO)),
            "{failure:?}"
        );
        assert_ne!(stamp, FileStamp::of(odd));
        assert_eq!(stamp, FileStamp::UNREAD);
    }

    #[test]
    fn a_stamp_of_whole_seconds_settles_when_they_are_over() {
        let at = |seconds| SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
        let stamp = |fraction| {
            let stat = Stat { device: 1, inode: 2, size: 3, modified: (100, 0), changed: (100, fraction) };
            FileStamp(Some(stat))
        };
        for young in 100..=102 {
            assert_eq!(stamp(0).settled(at(young)), FileStamp::UNREAD);
            assert_eq!(stamp(4_000_000).settled(at(young)), stamp(4_000_000));
        }
        // Old, or of a machine whose clock is ahead.
        assert_eq!(stamp(0).settled(at(103)), stamp(0));
        assert_eq!(stamp(0).settled(at(99)), stamp(0));
        assert_eq!(FileStamp::default().settled(at(100)), FileStamp::default());
    }

    #[test]
    fn what_is_no_file_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        assert!(matches!(whole(&fifo), Err(Failure::NotAFile("a FIFO"))));
        assert!(matches!(whole(Path::new("/dev/zero")), Err(Failure::NotAFile("a device"))));
        assert!(matches!(whole(folder.path()), Err(Failure::NotAFile("a folder"))));
        assert!(matches!(whole(&folder.path().join("none")), Err(Failure::Missing)));
    }

    #[test]
    fn the_size_limit_is_a_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, vec![b'x'; SIZE_LIMIT as usize]).unwrap();
        assert_eq!(whole(&path).unwrap().bytes.len() as u64, SIZE_LIMIT);
        fs::write(&path, vec![b'x'; SIZE_LIMIT as usize + 1]).unwrap();
        assert!(matches!(whole(&path), Err(Failure::TooLarge(size)) if size == SIZE_LIMIT + 1));
    }

    #[test]
    fn a_stale_handle_is_tried_again_and_not_for_ever() {
        let stale = || io::Error::from_raw_os_error(libc::ESTALE);
        let mut left = 3;
        let result = retry_stale(|| {
            left -= 1;
            if left == 0 { Ok("read") } else { Err(stale()) }
        });
        assert_eq!(result.unwrap(), "read");
        let mut tries = 0;
        let result: io::Result<()> = retry_stale(|| {
            tries += 1;
            Err(stale())
        });
        assert_eq!(result.unwrap_err().raw_os_error(), Some(libc::ESTALE));
        assert_eq!(tries, ATTEMPTS);
    }

    #[test]
    fn a_file_that_changes_while_it_is_read_is_read_again_and_not_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, b"hal").unwrap();
        let append = |text: &[u8]| {
            io::Write::write_all(&mut File::options().append(true).open(&path).unwrap(), text).unwrap();
        };
        let mut rest = Some(b"f");
        let content =
            whole_with(&path, SIZE_LIMIT, &mut || rest.take().into_iter().for_each(|rest| append(rest)))
                .unwrap();
        assert_eq!(*content.bytes, b"half");
        let mut times = 0;
        let result = whole_with(&path, SIZE_LIMIT, &mut || {
            times += 1;
            append(b"!");
        });
        assert!(matches!(result, Err(Failure::Changing)));
        assert_eq!(times, ATTEMPTS);
        // Replaced by rename, the old file loses its name, which is a change too.
        let next = folder.path().join("b");
        fs::write(&next, b"next").unwrap();
        fs::write(&path, b"last").unwrap();
        let content = whole_with(&path, SIZE_LIMIT, &mut || drop(fs::rename(&next, &path))).unwrap();
        assert_eq!(*content.bytes, b"next");
        assert_eq!(content.stamp, FileStamp::of(&path));
    }
}
