//! Threads that go into the sandbox, and try what is forbidden.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use handfast_testkit::{skip, skipped};

use super::*;

/// Does something on a thread of this name.
fn on_a_thread<T: Send>(name: &str, act: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread =
            std::thread::Builder::new().name(name.into()).spawn_scoped(scope, act).expect("a thread");
        thread.join().expect("it does not panic")
    })
}

/// Does something in the sandbox of a duty; `None` where the kernel has no such filters.
fn in_the_sandbox<T: Send>(name: &str, duty: Duty, act: impl FnOnce() -> T + Send) -> Option<T> {
    on_a_thread(name, || {
        receive_refusals().expect("two sockets and a handler");
        give_up_privileges().expect("no thread is forbidden to");
        match confine_calls(duty) {
            Ok(()) => Some(act()),
            Err(error) => {
                skip::report(name, &format!("no filters of system calls here: {error}"));
                None
            }
        }
    })
}

/// Returns true if Landlock is too old to restrict abstract sockets and signals.
fn lacks_scopes() -> bool {
    call(libc::SYS_landlock_create_ruleset, [0, 0, VERSION, 0]).is_ok_and(|version| version < 6)
}

fn is_refused<T>(outcome: io::Result<T>) -> bool {
    outcome.is_err_and(|error| error.raw_os_error() == Some(libc::EACCES))
}

/// Returns the calls refused on threads of this name; other tests have threads of other names.
#[expect(clippy::disallowed_types, reason = "tests share what they took from one place")]
fn refused_on(name: &str) -> Vec<String> {
    static TAKEN: std::sync::OnceLock<std::sync::Mutex<Vec<Refused>>> = std::sync::OnceLock::new();
    let mut taken = TAKEN.get_or_init(Default::default).lock().expect("no thread panics with it");
    taken.extend(take_refused());
    taken.iter().filter(|refused| refused.thread == name).map(ToString::to_string).collect()
}

#[test]
fn a_thread_that_serves_has_its_sockets_and_nothing_else() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("it is bound");
    let outcome = in_the_sandbox("serves", Duty::Serves, || {
        let connected = TcpStream::connect_timeout(&address, Duration::from_secs(10)).is_ok();
        let memory = vec![1_u8; 64 << 20].len();
        let opened = is_refused(File::open("/etc/hostname"));
        let executed = is_refused(Err::<(), _>(Command::new("/bin/false").exec()));
        let threaded = is_refused(std::thread::Builder::new().spawn(|| ()));
        let families = [libc::AF_NETLINK, libc::AF_PACKET].map(|family| {
            // SAFETY: takes numbers alone.
            is_refused(match unsafe { libc::socket(family, libc::SOCK_RAW, 0) } {
                ..0 => Err(io::Error::last_os_error()),
                _ => Ok(()),
            })
        });
        (connected, memory, opened, executed, threaded, families)
    });
    let Some(outcome) = outcome else { return };
    assert_eq!(outcome, (true, 64 << 20, true, true, true, [true, true]));
    let refused = refused_on("serves");
    for call in ["openat", "execve", "socket"] {
        let begins = format!("the system call {call}");
        assert!(refused.iter().any(|message| message.starts_with(&begins)), "{call}: {refused:?}");
    }
    assert!(refused.iter().all(|message| message.ends_with(" on the thread serves")), "{refused:?}");
}

/// Fails only in a run on its own: one thread of the process that gave memory back before is enough for all.
#[test]
fn a_thread_that_gives_memory_back_is_refused_nothing() {
    let outcome = in_the_sandbox("gives back", Duty::Serves, || {
        let pieces: Vec<Vec<u8>> = (0..500).map(|_| Vec::with_capacity(100_000)).collect();
        std::hint::black_box(pieces).len()
    });
    let Some(500) = outcome else { return };
    assert_eq!(refused_on("gives back"), Vec::<String>::new());
}

#[test]
fn a_thread_that_tends_has_files_and_threads_and_executes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, other) = (folder.path().join("file"), folder.path().join("other"));
    let outcome = in_the_sandbox("tends", Duty::Tends, || {
        let written = File::create(&file).and_then(|_| std::fs::rename(&file, &other)).is_ok();
        let threaded = on_a_thread("child", || is_refused(Err::<(), _>(Command::new("/bin/false").exec())));
        let executed = is_refused(Err::<(), _>(Command::new("/bin/false").exec()))
            && is_refused(Command::new("/bin/true").status());
        // A worker is started by the control thread, and gives up more.
        let narrower = on_a_thread("narrower", || {
            confine_calls(Duty::Serves).map(|()| is_refused(File::open("/etc/hostname")))
        });
        (written, threaded, executed, narrower.ok())
    });
    let Some(outcome) = outcome else { return };
    assert_eq!(outcome, (true, true, true, Some(true)));
    assert_eq!(refused_on("child"), ["the system call execve on the thread child"]);
    assert_eq!(refused_on("narrower"), ["the system call openat on the thread narrower"]);
}

#[test]
fn memory_is_shown_to_nobody() {
    give_up_privileges().expect("no thread is forbidden to");
    let shown = rustix::process::dumpable_behavior().expect("it is known");
    assert_eq!(shown, DumpableBehavior::NotDumpable);
}

#[test]
fn memory_is_never_made_executable() {
    let map = |protection| {
        // SAFETY: a new mapping at no given address concerns no other memory; it is left mapped.
        let address = unsafe {
            libc::mmap(std::ptr::null_mut(), 4096, protection, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
        };
        address != libc::MAP_FAILED
    };
    let (plain, executable) = (libc::PROT_READ | libc::PROT_WRITE, libc::PROT_READ | libc::PROT_EXEC);
    assert!(map(executable), "outside it can be");
    let outcome = in_the_sandbox("maps", Duty::Tends, || (map(plain), map(executable)));
    assert!(matches!(outcome, None | Some((true, false))), "{outcome:?}");
}

#[test]
fn files_are_reached_below_what_is_left_and_nowhere_else() {
    let (folder, other) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("another"));
    let (read, write) = (folder.path().join("read"), folder.path().join("write"));
    for made in [&read, &write] {
        std::fs::create_dir(made).expect("it is ours");
        drop(File::create(made.join("file")).expect("it is ours"));
    }
    drop(File::create(other.path().join("file")).expect("it is ours"));
    let outside = other.path().join("file");
    let name = SocketAddr::from_abstract_name(outside.as_os_str().as_bytes()).expect("a short name");
    let _listener = UnixListener::bind_addr(&name).expect("no process has it");
    let mut child = Command::new("sleep").arg("60").spawn().expect("it is everywhere");
    let process = rustix::process::Pid::from_child(&child);
    let outcome = on_a_thread("confined", || {
        give_up_privileges()?;
        let below = |path: &PathBuf, write| Below { path: path.clone(), write };
        let missing = below(&PathBuf::from("/none/such"), true);
        confine_files(&[below(&read, false), below(&write, true), missing], true)?;
        let bound = UnixListener::bind(write.join("socket")).is_ok();
        let renamed = std::fs::rename(write.join("socket"), write.join("moved")).is_ok();
        io::Result::Ok((
            [File::open(read.join("file")).is_ok(), File::create(write.join("new")).is_ok(), bound, renamed],
            [
                is_refused(File::open(&outside)),
                is_refused(File::create(read.join("new"))),
                is_refused(std::fs::remove_file(read.join("file"))),
                is_refused(std::fs::read_dir(other.path())),
                is_refused(Command::new("/bin/true").status()),
            ],
            UnixStream::connect_addr(&name).err().map(|error| error.kind()),
            rustix::process::kill_process(process, rustix::process::Signal::TERM)
                .err()
                .map(|error| error.kind()),
        ))
    });
    child.kill().expect("it is ours");
    child.wait().expect("it is ours");
    match outcome {
        Ok((can, cannot, connected, killed)) => {
            assert_eq!((can, cannot), ([true; 4], [true; 5]));
            // Kernels before 6.12 confine neither.
            let denied = Some(io::ErrorKind::PermissionDenied);
            assert!(
                [(None, None), (denied, denied)].contains(&(connected, killed)),
                "{connected:?} {killed:?}"
            );
            assert_eq!(connected.is_none(), lacks_scopes(), "{connected:?}");
        }
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EOPNOTSUPP)) => {
            skipped!("no Landlock here: {error}");
        }
        Err(error) => panic!("{error}"),
    }
    assert!(File::open(&outside).is_ok(), "other threads are not concerned");
}
