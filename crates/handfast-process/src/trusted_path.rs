//! Checks that only root can change the target of a path, where root executes, creates, renames, removes or gives away files by
//! name.
//!
//! In: a path. Out: the same file without links, or the folder in which another user can replace it. No file is
//! opened and nothing is changed. A path of the second kind can lead to another file a moment later, so root does not
//! act on it: the program becomes the service user first (`privileges.rs`) or refuses.

use std::ffi::OsString;
use std::fmt;
use std::fs::{Metadata, symlink_metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// Links that are followed for one path: the kernel's number (path_resolution(7)).
const MAX_LINKS: usize = 40;
/// Permission bits that let users other than the owner change a folder. With an access control list the group's bits are its mask, so
/// that they cover its entries too (acl(5)).
const WRITABLE_BY_OTHERS: u32 = 0o022;
/// In a folder with this bit only its owner removes or renames a file (inode(7)).
const STICKY: u32 = 0o1000;

/// Reason why a path cannot be trusted.
#[derive(Debug)]
pub enum Untrusted {
    /// A user other than root can replace the file, by changing this folder.
    Folder(PathBuf),
    /// A user other than root can write to this file, or owns it.
    File(PathBuf),
    /// This part of the path could not be read.
    Unreadable(PathBuf, io::Error),
}

impl fmt::Display for Untrusted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => {
                write!(f, "other users than root can change the folder {}", folder.display())
            }
            Self::File(file) => write!(f, "other users than root can change the file {}", file.display()),
            Self::Unreadable(place, error) => write!(f, "{}: {error}", place.display()),
        }
    }
}

impl std::error::Error for Untrusted {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreadable(_, error) => Some(error),
            Self::Folder(_) | Self::File(_) => None,
        }
    }
}

/// Resolves the links of a path, if only root and the present user can change where it leads. The last component need not exist.
///
/// **Errors**: the first folder on the way that another user can change; a part of the path that cannot be read.
/// **Cost**: a stat for each component and link.
pub fn resolve(path: &Path) -> Result<PathBuf, Untrusted> {
    let unreadable = |error| Untrusted::Unreadable(path.to_path_buf(), error);
    let absolute = std::path::absolute(path).map_err(unreadable)?;
    let (mut folder, mut links) = (PathBuf::from("/"), 0);
    let mut ahead = reversed(&absolute);
    while let Some(name) = ahead.pop() {
        if name == ".." {
            folder.pop();
            continue;
        }
        let next = folder.join(&name);
        let entry = match symlink_metadata(&next) {
            Ok(entry) => Some(entry),
            Err(error) if error.kind() == io::ErrorKind::NotFound && ahead.is_empty() => None,
            Err(error) => return Err(Untrusted::Unreadable(next, error)),
        };
        let here = symlink_metadata(&folder).map_err(|error| Untrusted::Unreadable(folder.clone(), error))?;
        if !is_trusted(&here, entry.as_ref()) {
            return Err(Untrusted::Folder(folder));
        }
        if !entry.is_some_and(|entry| entry.is_symlink()) {
            folder = next;
            continue;
        }
        links += 1;
        if links > MAX_LINKS {
            return Err(Untrusted::Unreadable(next, io::ErrorKind::InvalidInput.into()));
        }
        let target = std::fs::read_link(&next).map_err(|error| Untrusted::Unreadable(next, error))?;
        if target.is_absolute() {
            folder = PathBuf::from("/");
        }
        ahead.extend(reversed(&target));
    }
    Ok(folder)
}

/// The folder of a file; `.` for a bare name.
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The path of a program without links, if only root and the present user can change where it leads and what it does.
///
/// **Errors**: as [`resolve`]; a file that another user owns or can write to. **Cost**: as [`resolve`].
pub fn program(path: &Path) -> Result<PathBuf, Untrusted> {
    let real = resolve(path)?;
    match symlink_metadata(&real) {
        Ok(file) if is_ours(&file) && file.mode() & WRITABLE_BY_OTHERS == 0 => Ok(real),
        Ok(_) => Err(Untrusted::File(real)),
        Err(error) => Err(Untrusted::Unreadable(real, error)),
    }
}

/// The components of a path, the first one last.
fn reversed(path: &Path) -> Vec<OsString> {
    let component = |component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().rev().filter_map(component).collect()
}

/// Returns true if no other user can replace this entry of a folder, or make it.
fn is_trusted(folder: &Metadata, entry: Option<&Metadata>) -> bool {
    // Another user can make a hard link there to a file or link of ours.
    let is_single = |entry: &Metadata| entry.is_dir() || entry.nlink() == 1;
    let is_kept =
        folder.mode() & STICKY != 0 && entry.is_some_and(|entry| is_ours(entry) && is_single(entry));
    is_ours(folder) && (folder.mode() & WRITABLE_BY_OTHERS == 0 || is_kept)
}

fn is_ours(of: &Metadata) -> bool {
    of.uid() == 0 || of.uid() == rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().expect("there is room")
    }

    fn set_mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("it is ours");
    }

    #[test]
    fn links_are_followed_and_a_missing_file_is_trusted_in_a_closed_folder() {
        let folder = folder();
        let real = folder.path().canonicalize().expect("it is there");
        std::fs::create_dir(real.join("a")).expect("it is ours");
        symlink("a/../a", real.join("b")).expect("it is ours");
        symlink(real.join("b/log"), real.join("c")).expect("it is ours");
        assert_eq!(resolve(&folder.path().join("c")).expect("all of it is ours"), real.join("a/log"));
        symlink("loop", real.join("loop")).expect("it is ours");
        assert!(matches!(resolve(&real.join("loop")), Err(Untrusted::Unreadable(..))));
        assert!(matches!(resolve(&real.join("none/log")), Err(Untrusted::Unreadable(..))));
    }

    #[test]
    fn a_folder_that_others_can_write_is_named_wherever_it_is_on_the_way() {
        let folder = folder();
        let real = folder.path().canonicalize().expect("it is there");
        let shared = real.join("shared");
        std::fs::create_dir_all(shared.join("below")).expect("it is ours");
        symlink(shared.join("below"), real.join("link")).expect("it is ours");
        assert!(resolve(&real.join("link/file")).is_ok());
        for mode in [0o770, 0o707] {
            set_mode(&shared, mode);
            for name in ["shared/file", "shared/below/file", "link/file"] {
                let refused = resolve(&real.join(name));
                assert!(matches!(&refused, Err(Untrusted::Folder(named)) if *named == shared), "{refused:?}");
            }
        }
        // As /tmp: our files stay ours, and a file that does not exist yet belongs to the first user that makes it.
        set_mode(&shared, 0o1777);
        assert!(resolve(&shared.join("below/file")).is_ok());
        assert!(resolve(&shared.join("file")).is_err());
        symlink("below/file", shared.join("ours")).expect("it is ours");
        assert!(resolve(&shared.join("ours")).is_ok());
        std::fs::hard_link(shared.join("ours"), shared.join("linked")).expect("it is ours");
        assert!(matches!(resolve(&shared.join("linked")), Err(Untrusted::Folder(_))));
    }

    #[test]
    fn a_program_that_others_can_write_is_not_trusted() {
        let folder = folder();
        let file = folder.path().join("program");
        drop(std::fs::File::create(&file).expect("it is ours"));
        set_mode(&file, 0o755);
        assert!(program(&file).is_ok());
        for mode in [0o775, 0o757] {
            set_mode(&file, mode);
            assert!(matches!(program(&file), Err(Untrusted::File(_))), "{mode:o}");
        }
        assert!(matches!(program(&folder.path().join("none")), Err(Untrusted::Unreadable(..))));
    }

    #[test]
    fn a_folder_of_another_user_is_not_trusted() {
        let folder = folder();
        if std::os::unix::fs::chown(folder.path(), Some(65_534), None).is_err() {
            // Only root can give it to another user; a promise test that runs as root covers this.
            return;
        }
        assert!(matches!(resolve(&folder.path().join("file")), Err(Untrusted::Folder(_))));
    }
}
