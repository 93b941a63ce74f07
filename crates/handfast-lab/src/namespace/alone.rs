//! A network with nothing in it but loopback, for one program that is run in it: there it may drop, refuse and destroy as it likes.
//!
//! In: a command. Out: what it wrote, and how it ended; for the command itself, proof that it is there. Unlike [`super::enter`],
//! this works for a process that has several threads already, such as a test's.

use std::ffi::OsString;
use std::io;
use std::process::{Command, Output};

use nix::sched::{CloneFlags, unshare};

use super::{Inside, network, refused};
use crate::error::LabError;
use crate::host::in_a_thread;
use crate::netlink::Netlink;

/// Says to the command which network it was started from.
const MARK: &str = "HANDFAST_LAB_ALONE";
/// Makes a user namespace in which every process is root, for users that could not make networks otherwise. It has to be another
/// program's work: the kernel makes none for a process of several threads.
const WITH_USERS: [&str; 2] = ["unshare", "-rn"];

/// The network that this process was put into by [`run`], with loopback up; `None`: it was not.
///
/// **Errors**: the network is the one that it was started from, or loopback cannot be switched on.
pub fn inside() -> Result<Option<Inside>, LabError> {
    let act = "verify that this is a network of our own";
    let Ok(outside) = std::env::var(MARK) else { return Ok(None) };
    if network("thread-self").map_err(refused(act))? == outside {
        return Err(refused(act)(io::Error::other("it is the network of the parent process")));
    }
    let inside = Inside { around: None };
    let mut netlink = Netlink::open(inside)?;
    let loopback = netlink.index("lo")?;
    netlink.up(loopback)?;
    Ok(Some(inside))
}

/// Runs a command, given as its words, in a separate network, to its end.
///
/// **Errors**: there can be no such network here; the command cannot be run.
pub fn run(words: &[OsString]) -> Result<Output, LabError> {
    let act = "make a separate network";
    let outside = network("thread-self").map_err(refused(act))?;
    let command = |words: &[OsString]| {
        let (program, rest) = words.split_first()?;
        let mut command = Command::new(program);
        command.args(rest).env(MARK, &outside);
        Some(command)
    };
    let run = |words: &[OsString]| match command(words) {
        Some(mut command) => {
            command.output().map_err(LabError::command("run a command in a separate network"))
        }
        None => Err(LabError::Wrong(vec!["no command for a separate network".to_owned()])),
    };
    // This thread alone goes there, and ends.
    let direct = in_a_thread("alone", || unshare(CloneFlags::CLONE_NEWNET).map(|()| run(words)));
    match direct.map_err(refused(act))? {
        Ok(ran) => ran,
        Err(_) => {
            let allowed = run(&[WITH_USERS.map(OsString::from).as_slice(), &["true".into()]].concat())?;
            if !allowed.status.success() {
                let output = String::from_utf8_lossy(&allowed.stderr).trim().to_owned();
                return Err(refused(act)(io::Error::other(output)));
            }
            run(&[WITH_USERS.map(OsString::from).as_slice(), words].concat())
        }
    }
}

/// Sets a parameter of the kernel in this network.
///
/// **Errors**: of open(2) and write(2): not there, or not to be set in a namespace.
pub fn set_parameter(_inside: Inside, name: &str, value: &str) -> Result<(), LabError> {
    super::put(super::parameter(name), value).map_err(LabError::network(format!("set {name}")))
}
