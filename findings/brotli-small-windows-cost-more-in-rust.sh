#!/usr/bin/env bash
# A program that compresses short texts (a certificate, a small response) with Brotli is tempted to choose a small window: less memory, and
# nothing lost, since the text fits into it.
#
# Seen with the Rust crate brotli 9.1.1, quality 5, a text of 1,363 bytes: with a window of 4 MiB (22) one encoder takes about 0.1 ms, with one of
# 16 KiB (14) about twenty times as long, for output that is no smaller. The window chooses the kind of hash table, and that of small windows has
# a large fixed cost for each encoder. (Qualities 3 and 4 do not differ.)
#
# In: nothing; needs cargo and a crate registry. Out: both times; exit code 0, 1 if a small window costs less than three times a large one, 2 if it
# could not run.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
mkdir src
cat >Cargo.toml <<'TOML'
[package]
name = "window"
version = "0.1.0"
edition = "2021"

[dependencies]
brotli = "=9.1.1"

[workspace]
TOML
cat >src/main.rs <<'RUST'
use std::io::Write;
use std::time::{Duration, Instant};

/// The shortest time of many encoders for this text, and the bytes of the result.
fn measure(text: &[u8], window: u32) -> (Duration, usize) {
    let mut shortest = (Duration::MAX, 0);
    for _ in 0..200 {
        let start = Instant::now();
        let mut encoder = brotli::CompressorWriter::new(Vec::new(), 4096, 5, window);
        encoder.write_all(text).unwrap();
        let coded = encoder.into_inner();
        shortest = shortest.min((start.elapsed(), coded.len()));
    }
    shortest
}

fn main() {
    // Half of it looks random, as keys and signatures do.
    let mut state = 1_u64;
    let text: Vec<u8> = (0..1363)
        .map(|at: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            if at / 64 % 2 == 0 { (state >> 33) as u8 } else { b"CN=example.org, O=An Authority "[at % 31] }
        })
        .collect();
    let ((small, small_bytes), (large, large_bytes)) = (measure(&text, 14), measure(&text, 22));
    println!("window 14: {small:?}, {small_bytes} bytes; window 22: {large:?}, {large_bytes} bytes");
    std::process::exit(i32::from(small < large * 3));
}
RUST
cargo build --quiet --release 2>/dev/null || exit 2
target/release/window
