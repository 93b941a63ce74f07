//! Listening sockets, notification socket and watchdog that a service manager has given this process.
//!
//! In: the environment of a process that has just begun (`LISTEN_FDS` and its companions, `NOTIFY_SOCKET`, `WATCHDOG_USEC`).
//! Out: sockets and values, each taken once; what was taken is gone from the environment, so that no child inherits it.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The first descriptor that is passed (sd_listen_fds(3), `SD_LISTEN_FDS_START`).
const FIRST: RawFd = 3;
/// The most that are accepted: no service manager writes a larger number.
const MAX_DESCRIPTORS: RawFd = 1024;

/// All variables of the protocol.
const NAMES: [&str; 6] =
    ["LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PID", "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"];

/// Sockets and settings from a service manager.
#[derive(Debug, Default)]
pub struct FromServiceManager {
    /// Descriptors with their names; `None` where they were given none. Not looked at yet: they may be anything.
    pub descriptors: Vec<(Option<String>, OwnedFd)>,
    /// The socket for reports about this process: a path, or an abstract name that begins with `@`.
    pub notify: Option<OsString>,
    /// It considers the process hung after this time without a ping.
    pub watchdog: Option<Duration>,
    /// Problems with values that could not be parsed, as sentences.
    pub problems: Vec<String>,
}

/// Takes the descriptors and settings that a service manager has given to this process in its environment. Call it
/// first of all, before any other thread is started; with other threads it takes nothing. A second call finds nothing.
///
/// **Source**: sd_listen_fds(3), sd_notify(3), sd_watchdog_enabled(3).
pub fn from_service_manager() -> FromServiceManager {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    if TAKEN.swap(true, Ordering::AcqRel) || !is_alone() {
        return FromServiceManager::default();
    }
    let environment = NAMES.map(|name| (name, env::var_os(name)));
    let value = |name: &str| {
        environment.iter().find(|(known, _)| *known == name).and_then(|(_, value)| value.clone())
    };
    let process = std::process::id();
    let mut given = FromServiceManager::default();
    let (count, problem) = count(&value, process);
    given.problems.extend(problem);
    for (place, name) in names(count, value("LISTEN_FDNAMES")).into_iter().enumerate() {
        let number = FIRST + place as RawFd;
        // SAFETY: F_GETFD and F_SETFD take a number, and fail when no descriptor has it.
        let is_open = unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } == 0;
        if !is_open {
            given.problems.push(format!("LISTEN_FDS counts descriptor {number}, which is not open"));
            continue;
        }
        // SAFETY: it is open, and by the protocol it was opened for this process, which has just begun: no code in it has
        // taken it, and `TAKEN` prevents a second use.
        given.descriptors.push((name, unsafe { OwnedFd::from_raw_fd(number) }));
    }
    given.notify = value("NOTIFY_SOCKET").filter(|path| !path.is_empty());
    given.watchdog = watchdog(&value, process);
    for (name, _) in environment.iter().filter(|(_, value)| value.is_some()) {
        // SAFETY: no other thread reads the environment: there is none.
        #[expect(clippy::disallowed_methods, reason = "there is no other thread")]
        unsafe {
            env::remove_var(name);
        }
    }
    given
}

/// Returns true if this is the only thread of the process.
fn is_alone() -> bool {
    std::fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1)
}

fn number(value: Option<OsString>) -> Option<u64> {
    value?.to_str()?.parse().ok()
}

/// Returns the number of descriptors for `process`, and a problem with it.
fn count(value: &impl Fn(&str) -> Option<OsString>, process: u32) -> (RawFd, Option<String>) {
    let Some(count) = value("LISTEN_FDS") else { return (0, None) };
    // Meant for a process that started this one, or for one that has it from there.
    if number(value("LISTEN_PID")) != Some(process.into()) {
        return (0, None);
    }
    match count
        .to_str()
        .and_then(|count| count.parse().ok())
        .filter(|count| (0..=MAX_DESCRIPTORS).contains(count))
    {
        Some(count) => (count, None),
        None => (0, Some(format!("LISTEN_FDS is {count:?}, expected a number up to {MAX_DESCRIPTORS}"))),
    }
}

/// The names of `count` descriptors: a colon between two.
fn names(count: RawFd, names: Option<OsString>) -> Vec<Option<String>> {
    let names = names.unwrap_or_default();
    let mut names = names.to_str().unwrap_or_default().split(':');
    let mut next = || names.next().filter(|name| !name.is_empty()).map(str::to_owned);
    (0..count).map(|_| next()).collect()
}

fn watchdog(value: &impl Fn(&str) -> Option<OsString>, process: u32) -> Option<Duration> {
    let for_us = value("WATCHDOG_PID").is_none_or(|number| number == OsStr::new(&process.to_string()));
    let interval = number(value("WATCHDOG_USEC")).filter(|interval| for_us && *interval > 0)?;
    Some(Duration::from_micros(interval))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment<'a>(pairs: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<OsString> + 'a {
        |name| pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).into())
    }

    #[test]
    fn descriptors_are_for_the_process_that_is_named() {
        assert_eq!(count(&environment(&[]), 7), (0, None));
        assert_eq!(count(&environment(&[("LISTEN_FDS", "2"), ("LISTEN_PID", "7")]), 7), (2, None));
        assert_eq!(count(&environment(&[("LISTEN_FDS", "2"), ("LISTEN_PID", "8")]), 7), (0, None));
        assert_eq!(count(&environment(&[("LISTEN_FDS", "2")]), 7), (0, None));
        for odd in ["-1", "two", "1025", ""] {
            let (count, problem) = count(&environment(&[("LISTEN_FDS", odd), ("LISTEN_PID", "7")]), 7);
            assert_eq!(count, 0);
            assert!(problem.expect("it is odd").contains(odd));
        }
    }

    #[test]
    fn names_may_be_fewer_than_descriptors() {
        let named = |name: &str| Some(name.to_owned());
        assert_eq!(names(3, Some("web::mail".into())), [named("web"), None, named("mail")]);
        assert_eq!(names(2, Some("web".into())), [named("web"), None]);
        assert_eq!(names(1, Some("web:mail".into())), [named("web")]);
        assert_eq!(names(1, None), [None]);
    }

    #[test]
    fn a_watchdog_is_for_the_process_that_is_named() {
        let of = |pairs: &[(&str, &str)]| watchdog(&environment(pairs), 7);
        assert_eq!(of(&[("WATCHDOG_USEC", "2000000")]), Some(Duration::from_secs(2)));
        assert_eq!(of(&[("WATCHDOG_USEC", "5"), ("WATCHDOG_PID", "7")]), Some(Duration::from_micros(5)));
        assert_eq!(of(&[("WATCHDOG_USEC", "5"), ("WATCHDOG_PID", "8")]), None);
        assert_eq!(of(&[("WATCHDOG_USEC", "0")]), None);
        assert_eq!(of(&[("WATCHDOG_USEC", "soon")]), None);
        assert_eq!(of(&[]), None);
    }
}
