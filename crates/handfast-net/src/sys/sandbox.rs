//! A thread gives up what it will not need: files (Landlock), system calls (seccomp), new privileges. For good, and for every
//! thread and program that it starts from then on; others are not concerned.
//!
//! In: the permitted paths and calls. Out: a thread that is refused everything else, with EACCES; and a report of
//! refused calls.
//!
//! `calls.rs` has the tables of system calls and the filter, `refused.rs` how refusals are reported.

mod calls;
mod refused;

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, fstat};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};

pub use calls::{Duty, confine_calls};
pub use refused::{Refused, receive_refusals, take_refused};

/// Remaining part of the file system: this file, or everything below this folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Below {
    /// Path of the file or folder. Its present target counts, even if another one replaces it later.
    pub path: PathBuf,
    /// True if files may be made, changed and removed there, and unix sockets; otherwise only read.
    pub write: bool,
}

/// Argument of `landlock_create_ruleset`, as far as it is used here.
#[repr(C)]
struct Ruleset {
    files: u64,
    net: u64,
    scopes: u64,
}

/// One folder and what is allowed below it.
#[repr(C, packed)]
struct Rule {
    allowed: u64,
    parent: i32,
}

const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_FOLDER: u64 = 1 << 3;
const REMOVE_FILE: u64 = 1 << 5;
const MAKE_FILE: u64 = 1 << 8;
const MAKE_SOCKET: u64 = 1 << 9;
const TRUNCATE: u64 = 1 << 14;
/// Access rights that apply to a path that is not a folder.
const FILE_RIGHTS: u64 = WRITE_FILE | READ_FILE | TRUNCATE;
const ABSTRACT_SOCKETS: u64 = 1 << 0;
const SIGNALS: u64 = 1 << 1;
/// `LANDLOCK_CREATE_RULESET_VERSION`, `LANDLOCK_RULE_PATH_BENEATH`.
const VERSION: usize = 1;
const BENEATH: usize = 1;

/// From now on this thread gets no rights by executing a program, and no other process can read its memory: neither to a
/// debugger (but root's) nor in a core dump.
///
/// **Errors**: prctl(2).
pub fn give_up_privileges() -> io::Result<()> {
    rustix::thread::set_no_new_privs(true)?;
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Leaves this thread only these parts of the file system to open files in, and only the processes that it starts to send signals to;
/// where `abstract_too`, no abstract unix sockets of others either. Open files stay open. A path that does not exist is left out.
///
/// Connections, unix sockets with a path too, are not concerned.
///
/// **Errors**: ENOSYS or EOPNOTSUPP from kernels without Landlock; EPERM before [`give_up_privileges`].
///
/// **Source**: landlock(7); rights by version as in the kernel's Documentation/userspace-api/landlock.rst.
pub fn confine_files(reachable: &[Below], abstract_too: bool) -> io::Result<()> {
    let version = call(libc::SYS_landlock_create_ruleset, [0, 0, VERSION, 0])?;
    let known = match version {
        1 => 13,
        2 => 14,
        3 | 4 => 15,
        _ => 16,
    };
    let files = (1 << known) - 1;
    let scopes = if abstract_too { SIGNALS | ABSTRACT_SOCKETS } else { SIGNALS };
    let ruleset = Ruleset { files, net: 0, scopes: if version < 6 { 0 } else { scopes } };
    // Older kernels know less of it, and refuse what is longer and not zero.
    let length = [8, 16, 24][usize::from(version >= 4) + usize::from(version >= 6)];
    let ruleset = call(libc::SYS_landlock_create_ruleset, [(&raw const ruleset).addr(), length, 0, 0])?;
    // SAFETY: the kernel has just made the descriptor for this call, so it has no other owner.
    let ruleset = unsafe { OwnedFd::from_raw_fd(ruleset) };
    for Below { path, write } in reachable {
        let Ok(parent) = open_path(path) else { continue };
        let mut allowed = READ_FILE | READ_FOLDER;
        if *write {
            allowed |= WRITE_FILE | TRUNCATE | MAKE_FILE | MAKE_SOCKET | REMOVE_FILE;
        }
        let is_folder = fstat(&parent).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_dir());
        let allowed = files & if is_folder { allowed } else { allowed & FILE_RIGHTS };
        let rule = Rule { allowed, parent: parent.as_raw_fd() };
        let arguments = [ruleset.as_raw_fd() as usize, BENEATH, (&raw const rule).addr(), 0];
        // A file that has no place in the file system, such as a pipe behind /dev/stdout, is never refused.
        match call(libc::SYS_landlock_add_rule, arguments) {
            Err(error) if error.raw_os_error() != Some(libc::EBADFD) => return Err(error),
            _ => {}
        }
    }
    call(libc::SYS_landlock_restrict_self, [ruleset.as_raw_fd() as usize, 0, 0, 0]).map(drop)
}

fn open_path(path: &Path) -> io::Result<OwnedFd> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the path ends with its zero and outlives the call.
    let descriptor = unsafe { libc::open(path.as_ptr(), libc::O_PATH | libc::O_CLOEXEC) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made the descriptor for this call, so it has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// A system call that the C library has no function for.
fn call(number: libc::c_long, [a, b, c, d]: [usize; 4]) -> io::Result<i32> {
    // SAFETY: only called in this module: with numbers, and addresses of values that have the length and layout that the kernel
    // expects for them and outlive the call; the kernel copies them.
    let outcome = unsafe { libc::syscall(number, a, b, c, d) };
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(outcome as i32) }
}

#[cfg(test)]
mod tests;
