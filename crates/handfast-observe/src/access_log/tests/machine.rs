//! The access log into the log of the machine: a socket in the place of its daemon.

use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;

use super::*;

/// A daemon's socket.
struct Daemon {
    folder: tempfile::TempDir,
    socket: UnixDatagram,
}

impl Daemon {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = bound(&folder.path().join("log"));
        Self { folder, socket }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    fn received(&self) -> String {
        let mut buffer = vec![0; 65_536];
        let count = self.socket.recv(&mut buffer).expect("a datagram comes");
        buffer.truncate(count);
        String::from_utf8(buffer).expect("text")
    }
}

fn bound(path: &Path) -> UnixDatagram {
    let socket = UnixDatagram::bind(path).expect("the folder is ours");
    socket.set_read_timeout(Some(TIMEOUT)).expect("a time above zero");
    socket
}

fn syslog_to(path: PathBuf) -> AccessLogHandle {
    start(&model::AccessLog::Syslog(path)).expect("a daemon listens")
}

#[test]
fn syslog_gets_a_datagram_for_each_line() {
    let daemon = Daemon::new();
    let log = syslog_to(daemon.path());
    let mut thread = log.for_thread();
    (0..3).for_each(|_| thread.write(&record(), &reason(None)));
    drop(thread);
    for _ in 0..3 {
        let datagram = daemon.received();
        let head = format!("<30>handfast-access[{}]: {{\"time\"", std::process::id());
        assert!(datagram.starts_with(&head), "{datagram}");
        let (_, line) = datagram.split_once(": ").expect("it begins so");
        assert_eq!(format!("{line}\n"), one_line(&record(), &reason(None)));
    }
    assert_eq!(log.stop(TIMEOUT), Stopped { written: 3, dropped: 0, finished: true });
}

#[test]
fn the_journal_gets_an_entry_for_each_line() {
    let daemon = Daemon::new();
    let log = start(&model::AccessLog::Journald(daemon.path())).expect("a daemon listens");
    let mut thread = log.for_thread();
    (0..2).for_each(|_| thread.write(&record(), &reason(None)));
    drop(thread);
    for _ in 0..2 {
        let entry = daemon.received();
        let line = one_line(&record(), &reason(None));
        let expected =
            format!("PRIORITY=6\nSYSLOG_FACILITY=3\nSYSLOG_IDENTIFIER=handfast-access\nMESSAGE={line}");
        assert_eq!(entry, expected);
    }
    assert_eq!(log.stop(TIMEOUT), Stopped { written: 2, dropped: 0, finished: true });
}

#[test]
fn a_daemon_that_comes_back_receives_the_number_of_lost_lines() {
    let mut daemon = Daemon::new();
    let log = syslog_to(daemon.path());
    let (mut thread, totals) = (log.for_thread(), log.totals());
    let mut write = || {
        thread.write(&record(), &reason(None));
        thread.flush();
    };
    write();
    assert!(daemon.received().contains("\"service\":\"web\""));
    fs::remove_file(daemon.path()).expect("it is ours");
    daemon.socket = UnixDatagram::unbound().expect("a socket");
    write();
    wait_for("the line to be lost", || totals.dropped() == 1);
    daemon.socket = bound(&daemon.path());
    write();
    let notice = daemon.received();
    assert!(notice.contains("\"dropped_lines\":1,\"because\":\"write: "), "{notice}");
    assert!(daemon.received().contains("\"service\":\"web\""));
    assert_eq!(log.stop(TIMEOUT), Stopped { written: 2, dropped: 1, finished: true });
}

#[test]
fn a_daemon_that_reads_nothing_holds_up_neither_workers_nor_the_stop() {
    let daemon = Daemon::new();
    let log = syslog_to(daemon.path());
    let (mut thread, totals) = (log.for_thread(), log.totals());
    let mut written = 0;
    wait_for("the queue to be full", || {
        thread.write(&record(), &reason(None));
        written += 1;
        totals.dropped() > 0
    });
    drop(thread);
    let stopped = log.stop(Duration::from_millis(50));
    assert!(!stopped.finished, "{stopped:?}");
    assert_eq!(stopped.written + stopped.dropped, written, "every line is accounted for");
}

#[test]
fn where_nobody_listens_is_an_error_at_start() {
    let folder = tempfile::tempdir().expect("a folder");
    assert!(start(&model::AccessLog::Syslog(folder.path().join("log"))).is_err());
    assert!(start(&model::AccessLog::Journald(folder.path().join("log"))).is_err());
}
