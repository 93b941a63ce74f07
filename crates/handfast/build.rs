//! Asks the linker to pack the addresses that the loader has to adjust: half a MiB less of the program's 13.
//!
//! Only where the C library of this machine knows the format (glibc 2.36, Debian 12), and not for another machine's program: an
//! older loader would refuse it.

use std::env;
use std::process::Command;

/// The first glibc that reads DT_RELR.
const FIRST: (u32, u32) = (2, 36);

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let is_for_glibc = env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux")
        && env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|env| env == "gnu");
    let is_for_here = env::var("HOST").ok() == env::var("TARGET").ok();
    if is_for_glibc && is_for_here && glibc().is_some_and(|version| version >= FIRST) {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// The version of the C library here; nothing when it does not say.
fn glibc() -> Option<(u32, u32)> {
    let asked = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let said = String::from_utf8(asked.stdout).ok()?;
    let (major, minor) = said.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
}
