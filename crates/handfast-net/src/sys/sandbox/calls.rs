//! System calls that a thread may make, and the seccomp filter that enforces them.
//!
//! In: the task of the thread. Out: a program of BPF that checks if a call is on the list. A call that is not there is refused with
//! EACCES and named ([`super::refused`]); a call that is newer than these tables is answered as by a kernel without it.

use std::io;
use std::mem::offset_of;

use libc::{
    BPF_ABS, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_RET, BPF_W,
    SECCOMP_FILTER_FLAG_SPEC_ALLOW, SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO, SECCOMP_RET_TRAP,
    SECCOMP_SET_MODE_FILTER, c_long, seccomp_data, sock_filter, sock_fprog,
};

use super::call;

/// Task of a thread, which determines its system calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duty {
    /// It talks with peers: sockets, memory, time. No file can be opened and no thread started.
    Serves,
    /// It tends what serves: files can be opened too, and threads started; no processes, and no program can be executed.
    Tends,
    /// It holds private keys: files can be read and threads started, and no socket can be made.
    HoldsKeys,
}

/// A system call by its name.
type Call = (&'static str, c_long);

/// Calls by their names as the C library's headers have them.
macro_rules! calls {
    ($($name:ident)*) => { &[$((stringify!($name), libc::$name)),*] };
}

/// For every thread. The most frequent ones come first; recent kernels look none of them up.
const FOR_ALL: &[Call] = calls![
    SYS_read SYS_write SYS_epoll_pwait SYS_recvfrom SYS_sendto SYS_close SYS_epoll_ctl SYS_accept4 SYS_connect
    SYS_setsockopt SYS_getsockopt SYS_shutdown SYS_writev SYS_readv SYS_recvmsg SYS_sendmsg SYS_futex SYS_ioctl SYS_pread64
    SYS_preadv2
    SYS_getsockname SYS_getpeername SYS_bind SYS_listen SYS_accept SYS_recvmmsg SYS_sendmmsg
    SYS_epoll_create1 SYS_epoll_pwait2 SYS_ppoll SYS_eventfd2 SYS_timerfd_create SYS_timerfd_settime SYS_timerfd_gettime
    SYS_fcntl SYS_dup SYS_dup3 SYS_munmap SYS_brk SYS_madvise SYS_mremap SYS_getrandom SYS_membarrier SYS_rseq
    SYS_clock_gettime SYS_clock_getres SYS_gettimeofday SYS_nanosleep SYS_clock_nanosleep SYS_sched_yield
    SYS_sched_getaffinity SYS_getcpu SYS_getrusage SYS_restart_syscall SYS_set_robust_list SYS_get_robust_list
    SYS_rt_sigaction SYS_rt_sigprocmask SYS_rt_sigreturn SYS_sigaltstack SYS_tgkill SYS_gettid SYS_getpid SYS_getuid
    SYS_uname SYS_geteuid SYS_getgid SYS_getegid SYS_exit SYS_exit_group
];

/// The same on machines that have older calls too.
#[cfg(target_arch = "x86_64")]
const FOR_ALL_HERE: &[Call] = calls![SYS_epoll_wait SYS_poll SYS_time SYS_arch_prctl];
#[cfg(not(target_arch = "x86_64"))]
const FOR_ALL_HERE: &[Call] = &[];

/// Also for threads that tend: files, threads, and the filter of a thread that they start.
const TO_TEND: &[Call] = calls![
    SYS_openat SYS_openat2 SYS_newfstatat SYS_fstat SYS_statx SYS_lseek SYS_pwrite64 SYS_getdents64 SYS_readlinkat
    SYS_unlinkat SYS_renameat SYS_renameat2 SYS_fchmod SYS_fchmodat SYS_fchown SYS_fchownat SYS_flock SYS_fsync
    SYS_fdatasync SYS_ftruncate SYS_inotify_init1 SYS_inotify_add_watch SYS_inotify_rm_watch SYS_getcwd SYS_faccessat
    SYS_faccessat2 SYS_umask SYS_pipe2 SYS_socketpair SYS_prlimit64 SYS_sched_getparam
    SYS_sched_getscheduler SYS_sysinfo SYS_close_range SYS_copy_file_range SYS_statfs SYS_fstatfs SYS_wait4
    SYS_waitid SYS_seccomp SYS_setpriority SYS_sched_setscheduler
];
#[cfg(target_arch = "x86_64")]
const TO_TEND_HERE: &[Call] = calls![
    SYS_open SYS_stat SYS_lstat SYS_access SYS_readlink SYS_unlink SYS_rename SYS_chmod SYS_chown SYS_getdents SYS_pipe
    SYS_getrlimit
];
#[cfg(not(target_arch = "x86_64"))]
const TO_TEND_HERE: &[Call] = &[];

/// Refused to all, and worth a name when it happens.
const FOR_NOBODY: &[Call] = calls![
    SYS_execve SYS_execveat SYS_ptrace SYS_process_vm_readv SYS_process_vm_writev SYS_kill SYS_tkill SYS_socket SYS_mmap
    SYS_mprotect SYS_prctl SYS_mount SYS_unshare SYS_setns SYS_chroot SYS_bpf SYS_keyctl SYS_io_uring_setup
    SYS_perf_event_open SYS_userfaultfd SYS_memfd_create SYS_open_by_handle_at SYS_mkdirat SYS_linkat
    SYS_symlinkat SYS_setuid SYS_setresuid SYS_capset SYS_init_module SYS_pidfd_open SYS_pidfd_getfd
];

/// The last call that was known when these tables were written (Linux 6.18): newer ones do not exist for the thread.
const LAST_KNOWN: u32 = 470;

const NET_FAMILIES: &[u32] = &[libc::AF_UNIX as u32, libc::AF_INET as u32, libc::AF_INET6 as u32];
/// `PR_GET_AUXV`, by which a library finds the clock that needs no system call.
const AUXILIARY: u32 = 0x4155_5856;
/// Operations of prctl(2) on the thread itself: its name, names of its memory, giving up privileges.
const PRCTL_OPERATIONS: &[u32] = &[
    libc::PR_SET_NAME as u32,
    libc::PR_GET_NAME as u32,
    libc::PR_SET_VMA as u32,
    libc::PR_SET_NO_NEW_PRIVS as u32,
    libc::PR_SET_SECCOMP as u32,
    AUXILIARY,
];

#[cfg(target_arch = "x86_64")]
const MACHINE: Option<u32> = Some(0xc000_003e);
#[cfg(target_arch = "aarch64")]
const MACHINE: Option<u32> = Some(0xc000_00b7);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const MACHINE: Option<u32> = None;

/// Numbers from here on are those of x32, another way to call the same kernel.
const X32: u32 = 0x4000_0000;
/// Call number that a tracer sets when it answers itself.
const NO_CALL: u32 = u32::MAX;

/// Leaves this thread the system calls that its duty takes. To be called after [`super::receive_refusals`], or what is refused ends the
/// process.
///
/// **Errors**: EINVAL or ENOSYS from kernels without seccomp filters, and on machines that the tables do not have; EACCES before
/// [`super::give_up_privileges`].
///
/// **Source**: seccomp(2).
pub fn confine_calls(duty: Duty) -> io::Result<()> {
    let machine = MACHINE.ok_or(io::ErrorKind::Unsupported)?;
    let mut filter = filter(machine, duty);
    let program = sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    let install = |flags: u64| {
        let arguments = [SECCOMP_SET_MODE_FILTER as usize, flags as usize, (&raw const program).addr(), 0];
        call(libc::SYS_seccomp, arguments)
    };
    // Without it kernels before 5.16 would slow the processor down for such threads.
    match install(SECCOMP_FILTER_FLAG_SPEC_ALLOW) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => install(0).map(drop),
        outcome => outcome.map(drop),
    }
}

/// The name of a system call, where the tables have it.
pub(super) fn name_of(number: u32) -> Option<&'static str> {
    let tables = [FOR_ALL, FOR_ALL_HERE, TO_TEND, TO_TEND_HERE, FOR_NOBODY];
    let found = tables.into_iter().flatten().find(|(_, known)| *known == c_long::from(number))?;
    found.0.strip_prefix("SYS_")
}

fn filter(machine: u32, duty: Duty) -> Vec<sock_filter> {
    let mut filter = vec![
        load(offset_of!(seccomp_data, arch)),
        jump(BPF_JEQ, machine, 1, 0),
        end(REFUSE),
        load(offset_of!(seccomp_data, nr)),
    ];
    allow(&mut filter, NO_CALL);
    filter.extend([jump(BPF_JGE, X32, 0, 1), end(REFUSE)]);
    let mut lists = vec![FOR_ALL, FOR_ALL_HERE];
    if duty != Duty::Serves {
        lists.extend([TO_TEND, TO_TEND_HERE]);
    }
    for (_, number) in lists.into_iter().flatten() {
        allow(&mut filter, *number as u32);
    }
    let families = if duty == Duty::HoldsKeys { &[] } else { NET_FAMILIES };
    one_of(&mut filter, libc::SYS_socket, families);
    one_of(&mut filter, libc::SYS_prctl, PRCTL_OPERATIONS);
    // Memory that is written and executed is what an attacker needs.
    for number in [libc::SYS_mmap, libc::SYS_mprotect] {
        by_bit(&mut filter, number, 2, libc::PROT_EXEC, [REFUSE, SECCOMP_RET_ALLOW]);
    }
    // The C library starts threads with all signals blocked, where REFUSE would end the process; and without this call by the
    // older one, whose flags a filter can see: threads of this process, and no other processes.
    filter.extend([jump(BPF_JEQ, libc::SYS_clone3 as u32, 0, 1), end(UNKNOWN)]);
    let threads = if duty != Duty::Serves { SECCOMP_RET_ALLOW } else { REFUSE_SILENTLY };
    by_bit(&mut filter, libc::SYS_clone, 0, libc::CLONE_THREAD, [threads, REFUSE_SILENTLY]);
    filter.extend([jump(BPF_JGE, LAST_KNOWN, 0, 1), end(UNKNOWN), end(REFUSE)]);
    filter
}

/// The thread is sent a signal, whose handler answers the call.
const REFUSE: u32 = SECCOMP_RET_TRAP;
/// The same answer by the kernel alone, which is not reported.
const REFUSE_SILENTLY: u32 = SECCOMP_RET_ERRNO | libc::EACCES as u32;
/// As by a kernel that does not have the call.
const UNKNOWN: u32 = SECCOMP_RET_ERRNO | libc::ENOSYS as u32;

fn allow(filter: &mut Vec<sock_filter>, number: u32) {
    filter.extend([jump(BPF_JEQ, number, 0, 1), end(SECCOMP_RET_ALLOW)]);
}

/// A call whose first argument has to be one of a few.
fn one_of(filter: &mut Vec<sock_filter>, number: c_long, values: &[u32]) {
    filter.push(jump(BPF_JEQ, number as u32, 0, (2 * values.len() + 2) as u8));
    filter.push(load(argument(0)));
    for value in values {
        allow(filter, *value);
    }
    filter.push(end(REFUSE));
}

/// A call that is answered in one of two ways, by a bit of an argument that is set or not.
fn by_bit(filter: &mut Vec<sock_filter>, number: c_long, place: usize, bit: i32, [set, unset]: [u32; 2]) {
    let test = [load(argument(place)), jump(BPF_JSET, bit as u32, 0, 1), end(set), end(unset)];
    filter.push(jump(BPF_JEQ, number as u32, 0, test.len() as u8));
    filter.extend(test);
}

/// The lower half of an argument: these machines have it first.
const fn argument(number: usize) -> usize {
    offset_of!(seccomp_data, args) + 8 * number
}

fn load(offset: usize) -> sock_filter {
    instruction(BPF_LD | BPF_W | BPF_ABS, offset as u32, 0, 0)
}

fn jump(test: u32, value: u32, if_so: u8, if_not: u8) -> sock_filter {
    instruction(BPF_JMP | test | BPF_K, value, if_so, if_not)
}

fn end(answer: u32) -> sock_filter {
    instruction(BPF_RET | BPF_K, answer, 0, 0)
}

fn instruction(code: u32, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code: code as u16, jt, jf, k }
}
