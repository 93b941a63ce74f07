//! Signal mask at the start of a command.

use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Has a command begin with no signal blocked, whatever is blocked in the thread that starts it, which stays so.
///
/// A thread that unblocks its own signals for the time of a start loses those that come in this time.
///
/// **Source**: sigprocmask(2): a mask is inherited through fork(2) and execve(2).
pub fn unblocked(command: &mut Command) -> &mut Command {
    let unblock = || {
        let mut none = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: sigemptyset(3) fills the set, which sigprocmask(2) reads; the old mask is not requested. Both may be called between fork
        // and exec (signal-safety(7)).
        let outcome = unsafe {
            libc::sigemptyset(none.as_mut_ptr());
            libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut())
        };
        if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    // SAFETY: what runs between fork and exec allocates nothing and takes no lock.
    unsafe { command.pre_exec(unblock) }
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    fn blocked(status: &str) -> &str {
        status.lines().find_map(|line| line.strip_prefix("SigBlk:\t")).expect("proc(5) has it")
    }

    #[test]
    fn only_the_command_has_no_signal_blocked() {
        const ONE: &str = "0000000000000200";
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: sigemptyset(3) fills the set; the mask is that of this thread, which ends with the test.
        let outcome = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            libc::sigaddset(set.as_mut_ptr(), libc::SIGUSR1);
            libc::pthread_sigmask(libc::SIG_SETMASK, set.as_ptr(), std::ptr::null_mut())
        };
        assert_eq!(outcome, 0);
        let started = |make: fn(&mut Command) -> &mut Command| {
            let mut command = Command::new("cat");
            command.arg("/proc/self/status").stdout(Stdio::piped());
            let output = make(&mut command).output().expect("cat is there").stdout;
            blocked(&String::from_utf8_lossy(&output)).to_owned()
        };
        assert_eq!((started(|command| command), started(unblocked)), (ONE.into(), "0".repeat(16)));
        let here = std::fs::read_to_string("/proc/thread-self/status").expect("proc(5) has it");
        assert_eq!(blocked(&here), ONE);
    }
}
