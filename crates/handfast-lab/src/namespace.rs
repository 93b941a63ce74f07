//! A place of our own: user, mount, process and network namespaces that no other process sees and that end with this one.
//!
//! In: this program, started by any user. Out: the same program with the same words a second time, as process 1 of new
//! namespaces ([`Place::Inside`]), while the first waits, hands signals on and takes over its exit code ([`Place::Outside`]).
//!
//! **Nothing is left behind**, also after kill -9. The second process is killed when the first ends (`PR_SET_PDEATHSIG`); it is
//! process 1 of its namespace, so the kernel kills everything in there with it; and a network without processes is
//! taken down by the kernel. There is no file, no interface and no rule outside.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::process::{getgid, getpid, getuid, set_parent_process_death_signal};

use crate::error::LabError;

pub mod alone;

/// Says to the second process that it is one: the networks outside and inside, and the first process.
const TOKEN: &str = "HANDFAST_LAB_INSIDE";

/// Place of this process: outside or inside of the lab's namespaces.
#[derive(Debug)]
pub enum Place {
    /// Outside; the second process has ended with this exit code, 128 and the signal's number if a signal ended it.
    Outside(u8),
    /// Inside, as process 1: play.
    Inside(Inside),
}

/// Proof that this process is in namespaces of the lab: code that changes a network passes it.
#[derive(Clone, Copy, Debug)]
pub struct Inside {
    around: Option<&'static File>,
}

impl Inside {
    /// For [`crate::testing`] alone, which has made a network for its thread.
    #[cfg(test)]
    pub(crate) fn of_a_test() -> Self {
        Self { around: None }
    }

    /// The network that this lab was started in, if that is one of another lab; never the machine's own.
    pub(crate) fn around(self) -> Option<&'static File> {
        self.around
    }
}

/// Enters namespaces of our own. To be called before there is a second thread: the kernel makes no user namespace for
/// one of several.
///
/// Privileged callers keep their own user namespace, so that programs that change their user still can; others become
/// root of a new one, which is root over nothing else.
///
/// **Errors**: [`LabError::Refused`] where this machine allows no namespaces, or where the place that a token claims is not one.
pub fn enter() -> Result<Place, LabError> {
    match std::env::var(TOKEN) {
        // A token of another process does not make a first process.
        Ok(token) if getpid().as_raw_nonzero().get() == 1 => begin_inside(&token).map(Place::Inside),
        _ => stay_outside().map(Place::Outside),
    }
}

/// Takes what only the second process needs from the environment of a command.
pub fn plain(command: &mut Command) -> &mut Command {
    command.env_remove(TOKEN)
}

/// Exit code of a process as shells count it.
pub fn code(status: ExitStatus) -> u8 {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    u8::try_from(code & 0xff).unwrap_or(1)
}

/// The signals that a user means for the command, and that of an ended child.
pub(crate) fn signals() -> io::Result<SignalFd> {
    let meant = [
        Signal::SIGCHLD,
        Signal::SIGHUP,
        Signal::SIGINT,
        Signal::SIGQUIT,
        Signal::SIGTERM,
        Signal::SIGUSR1,
        Signal::SIGUSR2,
    ];
    let set: SigSet = meant.into_iter().collect();
    set.thread_block()?;
    Ok(SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?)
}

/// Reads a [`signals`] descriptor and returns the signals that were sent to this process alone. A signal from a terminal went to every
/// process in front of it, the command included, which must not get it twice.
pub(crate) fn sent_to_us(signals: &SignalFd) -> io::Result<Vec<Signal>> {
    /// `SI_KERNEL` in sigaction(2).
    const KERNEL: i32 = 0x80;
    let mut sent = Vec::new();
    while let Some(info) = signals.read_signal()? {
        let signal = i32::try_from(info.ssi_signo).ok().and_then(|number| Signal::try_from(number).ok());
        match signal {
            Some(Signal::SIGCHLD) | None => {}
            Some(_) if info.ssi_code == KERNEL => {}
            Some(signal) => sent.push(signal),
        }
    }
    Ok(sent)
}

fn stay_outside() -> Result<u8, LabError> {
    let outside = network("self").map_err(refused("read /proc/self/ns/net"))?;
    // Stays open as long as this process, which the second one takes it from.
    let around = if in_a_lab() { File::open("/proc/self/ns/net").ok() } else { None };
    let around = around.as_ref().map_or("none".to_owned(), |around| around.as_raw_fd().to_string());
    leave()?;
    let inside = network("self").map_err(refused("read /proc/self/ns/net"))?;
    let signals = signals().map_err(refused("take signals"))?;
    let mut words = std::env::args_os();
    let mut again = Command::new("/proc/self/exe");
    if let Some(name) = words.next() {
        again.arg0(name);
    }
    again.args(words);
    again.env(TOKEN, format!("{outside} {inside} {} {around}", getpid().as_raw_nonzero()));
    let mut child = again.spawn().map_err(refused("start the lab's first process"))?;
    wait(&mut child, &signals).map(code).map_err(refused("wait for the lab's first process"))
}

/// Waits until the child ends, and sends it what was sent to us.
fn wait(child: &mut Child, signals: &SignalFd) -> io::Result<ExitStatus> {
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).map_err(io::Error::other)?);
    loop {
        let mut watched = [rustix::event::PollFd::new(signals, rustix::event::PollFlags::IN)];
        match rustix::event::poll(&mut watched, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for signal in sent_to_us(signals)? {
            // It may have ended in this moment.
            let _ = nix::sys::signal::kill(pid, signal);
        }
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
    }
}

/// Leaves the namespaces of the parent, for what is started next (processes) and at once (all others).
fn leave() -> Result<(), LabError> {
    let ours = CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWPID;
    let (user, group) = (getuid().as_raw(), getgid().as_raw());
    if unshare(ours).is_ok() {
        return Ok(());
    }
    unshare(ours | CloneFlags::CLONE_NEWUSER).map_err(refused("make namespaces"))?;
    put("/proc/self/setgroups", "deny").map_err(refused("become root of a user namespace"))?;
    put("/proc/self/uid_map", &format!("0 {user} 1")).map_err(refused("become root of a user namespace"))?;
    put("/proc/self/gid_map", &format!("0 {group} 1")).map_err(refused("become root of a user namespace"))
}

fn begin_inside(token: &str) -> Result<Inside, LabError> {
    set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .map_err(refused("ask to end with the parent"))?;
    let around = verify(token)?;
    // Mounts from here on are invisible to other processes.
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(None::<&str>, "/", None::<&str>, private, None::<&str>).map_err(refused("make mounts private"))?;
    // In some containers /proc is covered in part, and then cannot be mounted again; ps(1) shows other processes there,
    // and everything else works as well.
    let safe = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    let _ = mount(Some("proc"), "/proc", Some("proc"), safe, None::<&str>);
    // Once in the life of a process, and needed to its end.
    let inside = Inside { around: around.map(|around| &*Box::leak(Box::new(around))) };
    let mut netlink = crate::netlink::Netlink::open(inside)?;
    let loopback = netlink.index("lo")?;
    netlink.up(loopback)?;
    Ok(inside)
}

/// Checks that this really is the place that was made: another network than outside and than that of
/// process 1 out there, the one that the parent made, and the parent still waits. /proc still is the
/// one outside. Returns the network of the lab around this one, if there is one.
fn verify(token: &str) -> Result<Option<File>, LabError> {
    let act = "verify that this is the lab's own network";
    let not = |what: &str| refused(act)(io::Error::other(what.to_owned()));
    let mut parts = token.split(' ').fuse();
    let parts = (parts.next(), parts.next(), parts.next(), parts.next());
    let (Some(outside), Some(inside), Some(parent), Some(around)) = parts else {
        return Err(not("the token in the environment is not one"));
    };
    let ours = network("thread-self").map_err(refused(act))?;
    if ours != inside || ours == outside || network("1").is_ok_and(|first| first == ours) {
        return Err(not("it is the network of another process"));
    }
    if !network(parent).is_ok_and(|theirs| theirs == inside) {
        return Err(not("the process that made it has ended"));
    }
    Ok(File::open(format!("/proc/{parent}/fd/{around}")).ok())
}

/// Returns true if this process was started in a lab: the first process here is one of ours, which its environment shows. The first
/// process of a machine or of a container is not.
fn in_a_lab() -> bool {
    let variables = fs::read("/proc/1/environ").unwrap_or_default();
    variables.split(|byte| *byte == 0).any(|variable| variable.starts_with(TOKEN.as_bytes()))
}

/// The network namespace of a process, as the kernel names it: `net:[4026531840]`.
fn network(process: &str) -> io::Result<String> {
    let link = fs::read_link(format!("/proc/{process}/ns/net"))?;
    Ok(link.to_string_lossy().into_owned())
}

/// The file of a parameter such as `net.ipv4.ip_forward`, for the network of the thread that opens it.
pub(crate) fn parameter(name: &str) -> String {
    format!("/proc/sys/{}", name.replace('.', "/"))
}

/// Writes a file of the kernel's in one call.
pub fn put(path: impl AsRef<Path>, text: &str) -> io::Result<()> {
    OpenOptions::new().write(true).open(path)?.write_all(text.as_bytes())
}

/// A refusal, with what is known of its reason.
fn refused<E: Into<io::Error>>(act: &'static str) -> impl FnOnce(E) -> LabError {
    move |error| {
        let read = |path: &str| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
        LabError::Refused { act, error: error.into(), hint: hint(read) }
    }
}

/// Finds the reason why namespaces are refused here, in the kernel's own settings.
fn hint(read: impl Fn(&str) -> Option<String>) -> String {
    let off = |path: &str, value: &str| read(path).is_some_and(|text| text == value);
    let cure = if off("/proc/sys/kernel/unprivileged_userns_clone", "0") {
        "an administrator can allow it with sysctl kernel.unprivileged_userns_clone=1"
    } else if off("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1") {
        "AppArmor restricts user namespaces here; an administrator can allow it with sysctl \
         kernel.apparmor_restrict_unprivileged_userns=0"
    } else if off("/proc/sys/user/max_user_namespaces", "0") {
        "an administrator can allow it with sysctl user.max_user_namespaces=10000"
    } else if off("/proc/sys/user/max_net_namespaces", "0") {
        "an administrator can allow it with sysctl user.max_net_namespaces=10000"
    } else {
        "in a container, its runtime may forbid it (docker run --security-opt seccomp=unconfined --cap-add SYS_ADMIN)"
    };
    format!("the lab needs user or root namespaces; run it as root, or {cure}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_setting_that_is_in_the_way() {
        let with = |path: &'static str, value: &'static str| {
            hint(move |requested| (requested == path).then(|| value.to_owned()))
        };
        assert!(with("/proc/sys/kernel/unprivileged_userns_clone", "0").contains("userns_clone=1"));
        let apparmor = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns";
        assert!(with(apparmor, "1").contains("AppArmor"));
        assert!(with("/proc/sys/user/max_user_namespaces", "0").contains("max_user_namespaces="));
        assert!(with("/proc/sys/user/max_user_namespaces", "96365").contains("container"));
    }

    #[test]
    fn a_token_of_somebody_else_is_refused() {
        let ours = network("self").expect("a process has a network");
        for token in [
            "",
            "a b",
            &format!("{ours} {ours} 1 none"),
            "net:[1] net:[2] 1 none",
            &format!("net:[1] {ours} 0 none"),
        ] {
            let refused = verify(token).expect_err("it is no token of ours").to_string();
            assert!(refused.contains("verify that this is the lab's own network"), "{refused}");
        }
    }
}
