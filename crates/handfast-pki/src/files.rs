//! Opens files that another user may have replaced, and small files that an operator names, without waiting for them.
//!
//! In: a path. Out: an open regular file, or the content of a small one. A FIFO, a socket, a folder or a device in its place is an error,
//! not a start that hangs. Certificates and keys are read by [`crate::load`], which does the same.
//!
//! | file | links | read by |
//! |---|---|---|
//! | of the program itself: locks, stores, records | refused: the user that serves could lead root anywhere | [`open_own`], [`replace_own`] |
//! | named by the configuration: passwords, secrets | followed: Kubernetes mounts secrets as links | [`read`], [`read_text`] |
//! | named on the command line, also a pipe (`<(…)`) | followed | [`read_input`] |

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use zeroize::Zeroizing;

use crate::read::{self, Failure, not_a_file};

/// Timeout for the program that fills a pipe.
const PIPE_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of one read.
const READ: usize = 64 << 10;

/// Opens a file of the program itself with `options`, which may create it. Do not set `truncate`: call `set_len` afterwards, when the file is
/// known to be a regular one.
///
/// **Errors**: open(2); a link; anything but a regular file. **Cost**: two system calls, none of which waits.
pub fn open_own(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY;
    let file = options.custom_flags(flags.bits().cast_signed()).open(path);
    let file = file.map_err(|error| match error.raw_os_error() {
        Some(libc::ELOOP) => io::Error::other("is a link, expected a file"),
        // A FIFO without a reader, or a socket.
        Some(libc::ENXIO) => io::Error::other("is a FIFO or a socket, expected a file"),
        _ => error,
    })?;
    match not_a_file(&file.metadata()?) {
        Some(kind) => Err(io::Error::other(format!("is {kind}, expected a file"))),
        None => Ok(file),
    }
}

/// Replaces a file of the program itself, or makes it. The content is written aside and synced first, so that the file is whole at any time, also
/// after a crash of the machine.
///
/// **Errors**: as [`open_own`]; write(2), rename(2), fsync(2). Then the file is as it was.
pub fn replace_own(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let aside = path.with_file_name(format!(".{name}.new"));
    let write = || {
        let mut file =
            open_own(&aside, OpenOptions::new().write(true).create(true).truncate(false).mode(mode))?;
        file.set_len(0)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&aside, path)?;
        // Without it a crash of the machine could bring the old file back.
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    };
    write().inspect_err(|_| {
        // It might not have been made.
        let _ = fs::remove_file(&aside);
    })
}

/// Reads a regular file of at most `limit` bytes; links are followed.
///
/// **Errors**: it cannot be read, is no regular file, is too large, or changes repeatedly.
pub fn read(path: &Path, limit: u64) -> io::Result<Zeroizing<Vec<u8>>> {
    read::whole_up_to(path, limit).map(|content| content.bytes).map_err(Failure::into)
}

/// The same for text.
///
/// **Errors**: as [`read`]; it is not UTF-8.
pub fn read_text(path: &Path, limit: u64) -> io::Result<Zeroizing<String>> {
    let bytes = read(path, limit)?;
    let text = str::from_utf8(&bytes).map_err(|_| io::Error::other("is not UTF-8 text"))?;
    Ok(Zeroizing::new(text.to_owned()))
}

/// Reads a file of at most `limit` bytes that is named on the command line: a pipe or a terminal is read until its end, which must come
/// within ten seconds.
///
/// **Errors**: it cannot be read, is a folder, is too large, or does not end in time.
pub fn read_input(path: &Path, limit: u64) -> io::Result<Zeroizing<Vec<u8>>> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let mut file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_file() {
        // Files of /proc have no length.
        return if metadata.len() > 0 { read(path, limit) } else { until_end(&mut file, limit) };
    }
    if metadata.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    until_end(&mut file, limit)
}

fn until_end(file: &mut File, limit: u64) -> io::Result<Zeroizing<Vec<u8>>> {
    let deadline = Instant::now() + PIPE_TIMEOUT;
    let mut bytes = Zeroizing::new(Vec::new());
    let mut part = Zeroizing::new(vec![0; READ]);
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
        let ready = poll(&mut [PollFd::new(&*file, PollFlags::IN)], Some(&timeout))?;
        if ready == 0 || left.is_zero() {
            let seconds = PIPE_TIMEOUT.as_secs();
            return Err(io::Error::new(io::ErrorKind::TimedOut, format!("did not end within {seconds} s")));
        }
        match file.read(&mut part) {
            Ok(0) => return Ok(bytes),
            Ok(count) => bytes.extend_from_slice(&part[..count]),
            Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => {}
            Err(error) => return Err(error),
        }
        if bytes.len() as u64 > limit {
            return Err(io::Error::other(format!("has more than {limit} bytes")));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    use std::path::PathBuf;

    use super::*;

    /// Returns files that are not regular, with their kind.
    fn others(folder: &Path) -> Vec<(&'static str, PathBuf)> {
        let path = |name: &str| folder.join(name);
        rustix::fs::mkfifoat(rustix::fs::CWD, path("fifo"), rustix::fs::Mode::RWXU).unwrap();
        std::fs::create_dir(path("folder")).unwrap();
        drop(UnixListener::bind(path("socket")).unwrap());
        let device = PathBuf::from("/dev/zero");
        vec![
            ("fifo", path("fifo")),
            ("folder", path("folder")),
            ("socket", path("socket")),
            ("device", device),
        ]
    }

    #[test]
    fn only_a_regular_file_is_opened_and_nothing_waits() {
        let folder = tempfile::tempdir().unwrap();
        let started = Instant::now();
        let mut all = others(folder.path());
        for (name, target) in all.clone() {
            let link = folder.path().join(format!("link-to-{name}"));
            symlink(target, &link).unwrap();
            all.push(("link", link));
        }
        for (name, path) in &all {
            for options in [
                OpenOptions::new().read(true),
                OpenOptions::new().write(true),
                OpenOptions::new().read(true).write(true).create(true),
            ] {
                let error = open_own(path, options).expect_err(name).to_string();
                assert!(error.contains("expected a file") || *name == "folder", "{name}: {error}");
            }
            assert!(read(path, 100).is_err(), "{name}");
            assert!(read_text(path, 100).is_err(), "{name}");
        }
        let file = folder.path().join("file");
        open_own(&file, OpenOptions::new().write(true).create(true)).unwrap().write_all(b"text").unwrap();
        let link = folder.path().join("link");
        symlink(&file, &link).unwrap();
        assert!(open_own(&link, OpenOptions::new().read(true)).is_err());
        assert_eq!(**read_text(&link, 4).unwrap(), *"text");
        assert!(read(&link, 3).is_err());
        assert!(started.elapsed() < PIPE_TIMEOUT);
    }

    #[test]
    fn what_is_named_on_the_command_line_may_be_a_pipe_that_ends() {
        let folder = tempfile::tempdir().unwrap();
        for (name, path) in others(folder.path()) {
            if name != "fifo" {
                assert!(read_input(&path, 100_000).is_err(), "{name}");
            }
        }
        let (reader, mut writer) = io::pipe().unwrap();
        let path = PathBuf::from(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&reader)));
        writer.write_all(b"text").unwrap();
        drop(writer);
        assert_eq!(**read_input(&path, 100).unwrap(), *b"text");
        assert_eq!(**read_input(Path::new("/dev/null"), 100).unwrap(), *b"");
        assert!(!read_input(Path::new("/proc/self/status"), 100_000).unwrap().is_empty());
    }
}
