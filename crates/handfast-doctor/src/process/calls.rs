//! Names of the system calls in /proc/PID/task/TID/syscall.
//!
//! In: a line of that file. Out: a number, a name. Calls that block network servers have names, others stay numbers.

macro_rules! names {
    ($($call:ident $name:literal),+ $(,)?) => {
        &[$((libc::$call, $name)),+]
    };
}

/// Calls of every architecture.
const NAMES: &[(libc::c_long, &str)] = names![
    SYS_read "read", SYS_write "write", SYS_readv "readv", SYS_writev "writev", SYS_recvfrom "recvfrom", SYS_sendto "sendto",
    SYS_recvmsg "recvmsg", SYS_sendmsg "sendmsg", SYS_accept "accept", SYS_accept4 "accept4", SYS_connect "connect",
    SYS_shutdown "shutdown", SYS_close "close", SYS_socket "socket", SYS_setsockopt "setsockopt", SYS_getsockopt "getsockopt",
    SYS_epoll_pwait "epoll_pwait", SYS_epoll_ctl "epoll_ctl", SYS_ppoll "ppoll", SYS_pselect6 "pselect6", SYS_futex "futex",
    SYS_nanosleep "nanosleep", SYS_clock_nanosleep "clock_nanosleep", SYS_sched_yield "sched_yield",
    SYS_io_uring_enter "io_uring_enter", SYS_io_getevents "io_getevents", SYS_openat "openat", SYS_fsync "fsync",
    SYS_fdatasync "fdatasync", SYS_flock "flock", SYS_fcntl "fcntl", SYS_sendfile "sendfile", SYS_splice "splice",
    SYS_wait4 "wait4", SYS_waitid "waitid", SYS_restart_syscall "restart_syscall", SYS_rt_sigtimedwait "rt_sigtimedwait",
    SYS_rt_sigsuspend "rt_sigsuspend", SYS_getrandom "getrandom", SYS_mmap "mmap", SYS_munmap "munmap", SYS_madvise "madvise",
    SYS_ioctl "ioctl",
];

/// Calls that newer architectures omit.
#[cfg(target_arch = "x86_64")]
const OLD: &[(libc::c_long, &str)] = names![
    SYS_epoll_wait "epoll_wait", SYS_poll "poll", SYS_select "select", SYS_pause "pause",
];
#[cfg(not(target_arch = "x86_64"))]
const OLD: &[(libc::c_long, &str)] = &[];

/// The call's number; `None` for a thread that runs, or is about to.
pub(super) fn number(text: &str) -> Option<i64> {
    text.split_whitespace().next()?.parse().ok().filter(|number| *number >= 0)
}

/// Its name: `accept4`, or `system call 999`.
pub(super) fn name(number: i64) -> String {
    let known = NAMES.iter().chain(OLD).find(|(call, _)| *call == number);
    known.map_or_else(|| format!("system call {number}"), |(_, name)| (*name).to_owned())
}
