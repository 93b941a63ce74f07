//! Names of hosts: lines put in front of /etc/hosts, as only the lab's own processes see it.
//!
//! In: lines. Out: a file in memory, mounted over the machine's. Nothing is written to the machine's own, and it goes with
//! the mount namespace.

use std::fs::{File, read_to_string};
use std::io::{self, Write};

use nix::mount::{MntFlags, MsFlags, mount, umount2};

use crate::error::LabError;

/// Folder in which files in memory are made, invisible to other processes: machines have it for that,
/// and no user keeps the reports that the lab writes in it.
pub const FOLDER: &str = "/dev/shm";

/// Puts lines in front of /etc/hosts; who reads it takes the first that fits. A machine without that file reads no names from it.
pub(crate) fn add(lines: &str) -> Result<(), LabError> {
    let Ok(before) = read_to_string("/etc/hosts") else { return Ok(()) };
    cover("/etc/hosts", &format!("{lines}{before}")).map_err(LabError::file("mount names over /etc/hosts"))
}

/// Replaces /etc/resolv.conf by this. A machine without that file asks no server.
pub fn resolver(text: &str) -> Result<(), LabError> {
    cover("/etc/resolv.conf", text).map_err(LabError::file("mount a resolver over /etc/resolv.conf"))
}

fn cover(path: &str, text: &str) -> io::Result<()> {
    let none = None::<&str>;
    mount(Some("lab"), FOLDER, Some("tmpfs"), MsFlags::empty(), Some("size=1m,mode=755"))?;
    let file = format!("{FOLDER}/covers");
    let covered = File::create(&file)
        .and_then(|mut made| made.write_all(text.as_bytes()))
        .and_then(|()| Ok(mount(Some(file.as_str()), path, none, MsFlags::MS_BIND, none)?));
    umount2(FOLDER, MntFlags::MNT_DETACH)?;
    covered
}

/// Makes [`FOLDER`] a folder of the lab's own, in memory, as long as the lab is there.
pub fn own_folder() -> Result<(), LabError> {
    let size = Some("size=64m,mode=1777");
    mount(Some("lab"), FOLDER, Some("tmpfs"), MsFlags::empty(), size)
        .map_err(|errno| LabError::file("mount a folder in memory")(io::Error::from(errno)))
}
