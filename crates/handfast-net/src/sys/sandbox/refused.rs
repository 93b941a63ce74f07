//! Reports refused system calls: the kernel sends the thread SIGSYS instead of the call; the handler returns EACCES and records
//! the call and the thread.
//!
//! In: signals. Out: [`Refused`], by a pair of sockets, whose other end one thread of the process reads.

use std::fmt;
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixDatagram;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};

use super::calls::name_of;

/// The kernel's `TASK_COMM_LEN`.
const NAME: usize = 16;
/// Size of the handler's record: the call's number, and the thread's name.
const RECORD: usize = size_of::<u32>() + NAME;

/// Descriptor that the handler writes to; -1 before there is one.
static SENDER: AtomicI32 = AtomicI32::new(-1);
/// Both ends, for as long as the process lives.
static PAIR: OnceLock<(UnixDatagram, UnixDatagram)> = OnceLock::new();

/// A system call that a thread was refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Refused {
    /// The call's number on this machine.
    pub number: u32,
    /// The thread's name.
    pub thread: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match name_of(self.number) {
            Some(name) => write!(f, "the system call {name} on the thread {}", self.thread),
            None => write!(f, "system call {} on the thread {}", self.number, self.thread),
        }
    }
}

/// Information that the kernel passes with SIGSYS (`siginfo_t` in sigaction(2)), on machines of 64 bits.
#[repr(C)]
struct Information {
    signal: i32,
    errno: i32,
    code: i32,
    padding: i32,
    address: usize,
    call: u32,
    machine: u32,
}

/// `SYS_SECCOMP`: the signal comes from a filter.
const FROM_A_FILTER: i32 = 1;

/// Has refused calls answered and noted, in the whole process; what can be read when there are any.
///
/// **Errors**: socketpair(2), sigaction(2).
pub fn receive_refusals() -> io::Result<BorrowedFd<'static>> {
    if PAIR.get().is_none() {
        let_the_allocator_ask();
        let (receiver, sender) = UnixDatagram::pair()?;
        receiver.set_nonblocking(true)?;
        sender.set_nonblocking(true)?;
        // Another thread that was faster has made the same.
        let _ = PAIR.set((receiver, sender));
    }
    let Some((receiver, sender)) = PAIR.get() else { return Err(io::ErrorKind::NotFound.into()) };
    SENDER.store(sender.as_raw_fd(), Ordering::Release);
    // SAFETY: sigaction is a C struct of integers and pointers, for which zeroes are valid.
    let mut action: libc::sigaction = unsafe { zeroed() };
    action.sa_sigaction = (answer as extern "C" fn(_, _, _)) as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
    // SAFETY: the handler has the form that SA_SIGINFO requires, and calls nothing but what signal-safety(7) allows; the old
    // action is not requested.
    let outcome = unsafe { libc::sigaction(libc::SIGSYS, &raw const action, std::ptr::null_mut()) };
    if outcome == 0 { Ok(receiver.as_fd()) } else { Err(io::Error::last_os_error()) }
}

/// glibc's allocator reads `/proc/sys/vm/overcommit_memory` when a thread gives memory back for the first time in a process
/// (`shrink_heap` in malloc/arena.c), and keeps the answer. Done here, no worker is reported for a refused file because of that.
fn let_the_allocator_ask() {
    // Below the size that is mapped apart, and more in all than any bound below which memory is kept: a heap is 64 MiB.
    const PIECES: usize = 500;
    const PIECE: usize = 100_000;
    let give_back = || {
        drop(std::hint::black_box((0..PIECES).map(|_| Vec::<u8>::with_capacity(PIECE)).collect::<Vec<_>>()))
    };
    // Without it a worker is reported once as refused, which does no harm.
    if let Ok(thread) = std::thread::Builder::new().name("allocator".into()).spawn(give_back) {
        // Nothing in it panics.
        let _ = thread.join();
    }
}

/// Returns the calls refused since the last call, as far as there was room to record them.
pub fn take_refused() -> Vec<Refused> {
    let mut taken = Vec::new();
    let Some((receiver, _)) = PAIR.get() else { return taken };
    let mut record = [0; RECORD];
    while matches!(receiver.recv(&mut record), Ok(RECORD)) {
        let (number, name) = record.split_at(size_of::<u32>());
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        taken.push(Refused {
            number: u32::from_ne_bytes(number.try_into().unwrap_or_default()),
            thread: String::from_utf8_lossy(name).into_owned(),
        });
    }
    taken
}

/// Answers a refused call, in the thread that made it.
extern "C" fn answer(_: libc::c_int, information: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: with SA_SIGINFO the kernel gives the address of a siginfo_t, whose first 32 bytes are these fields for SIGSYS.
    let Information { code, call, .. } = unsafe { information.cast::<Information>().read() };
    if code != FROM_A_FILTER {
        return;
    }
    // SAFETY: with SA_SIGINFO the kernel gives the address of the thread's ucontext_t, which is this handler's alone until it returns.
    answer_with(unsafe { &mut *context.cast::<libc::ucontext_t>() }, -libc::EACCES);
    let mut record = [0; RECORD];
    let (number, name) = record.split_at_mut(size_of::<u32>());
    number.copy_from_slice(&call.to_ne_bytes());
    // SAFETY: the kernel writes at most 16 bytes, which is what is left of the record.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    // SAFETY: the record is whole and outlives the call; the descriptor is never closed. Without room it is lost.
    unsafe { libc::write(SENDER.load(Ordering::Acquire), record.as_ptr().cast(), RECORD) };
}

/// Makes this the outcome of the call that the signal interrupted.
fn answer_with(context: &mut libc::ucontext_t, outcome: i32) {
    #[cfg(target_arch = "x86_64")]
    {
        context.uc_mcontext.gregs[libc::REG_RAX as usize] = outcome.into();
    }
    #[cfg(target_arch = "aarch64")]
    {
        context.uc_mcontext.regs[0] = i64::from(outcome).cast_unsigned();
    }
    // No filter is made on other machines.
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = (context, outcome);
}
