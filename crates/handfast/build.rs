//! Asks the linker for a smaller program: addresses that the loader has to adjust are packed, and functions with the same
//! machine code are kept once.
//!
//! The first only where the C library of this machine knows the format (glibc 2.36, Debian 12), and not for another machine's
//! program: an older loader would refuse it. The second only in a release, and where the compiler brings LLVM's linker: others do
//! not know the option.

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
    if is_for_glibc && is_release() && links_with_lld() {
        println!("cargo:rustc-link-arg-bins=-Wl,--icf=all");
    }
}

fn is_release() -> bool {
    env::var("PROFILE").is_ok_and(|profile| profile == "release")
}

/// Whether the linker is the one that the compiler brings for this target since Rust 1.90, and nobody has asked for another.
fn links_with_lld() -> bool {
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let is_own = !flags.contains("link") && env::var_os("RUSTC_LINKER").is_none();
    is_own && env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch == "x86_64")
}

/// The version of the C library here; nothing when it does not say.
fn glibc() -> Option<(u32, u32)> {
    let asked = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let said = String::from_utf8(asked.stdout).ok()?;
    let (major, minor) = said.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
}
