//! The random number generators: whether they are seeded, and whether they return a number twice.
//!
//! In: the kernel's generator (getrandom(2), /dev/urandom), the one that this program makes keys with. Out: findings.
//!
//! In 2008, 100,000 numbers of 40 bytes from Debian's OpenSSL contained a number up to four times: its generator had 32,768
//! states. This test is the same. Of 100,000 draws from so few states, all but 32,768 are repetitions. From a generator with `n`
//! states the expected number of pairs is about 100,000² / 2n, so the test detects up to some 5·10⁹ states.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};

use handfast_text::units::count;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::machine::Machine;
use crate::report::{Finding, Report};

const TOPIC: &str = "random-numbers";
/// Number of values that are drawn, and their bytes.
const DRAWS: u64 = 100_000;
const BYTES: usize = 40;
/// Threads of this program that draw, since a generator per thread could start in the same state.
const THREADS: u64 = 4;

pub(super) fn examine(machine: &Machine, report: &mut Report) {
    let path = "/dev/urandom";
    let mut tested = Vec::new();
    match File::open(machine.path(path)) {
        Ok(mut file) => judge(path, draw(DRAWS, &mut |number| file.read_exact(number)), &mut tested, report),
        Err(error) => report.not_seen(format!("the duplicate test of {path}"), error.to_string()),
    }
    if machine.is_real() {
        ready(report);
        let kernel = draw(DRAWS, &mut |number| {
            getrandom(number, GetRandomFlags::empty()).map(drop).map_err(io::Error::from)
        });
        judge("getrandom(2)", kernel, &mut tested, report);
        judge("the generator of this program (aws-lc), in 4 threads", ours(), &mut tested, report);
    }
    if !tested.is_empty() {
        let sentence = format!(
            "no number twice in {} of {BYTES} bytes each from {}",
            count(DRAWS),
            tested.join(", from ")
        );
        report.fact("random numbers", sentence);
    }
}

/// Checks that the kernel's generator is seeded.
fn ready(report: &mut Report) {
    let mut byte = [0; 1];
    if let Err(rustix::io::Errno::AGAIN) = getrandom(&mut byte, GetRandomFlags::NONBLOCK) {
        let consequence = "keys wait until it is; programs that do not wait make keys that others can guess";
        report.find(
            Finding::critical(TOPIC, "the kernel's generator is not seeded yet", consequence).change(
                "give a virtual machine virtio-rng, or wait: cat /proc/sys/kernel/random/entropy_avail",
            ),
        );
    }
}

/// The count of each number that came more than once.
type Seen = Result<HashMap<[u8; BYTES], u64>, io::Error>;

fn draw(times: u64, fill: &mut dyn FnMut(&mut [u8]) -> io::Result<()>) -> Seen {
    let mut seen = HashMap::with_capacity(usize::try_from(times).unwrap_or(0));
    let mut number = [0; BYTES];
    for _ in 0..times {
        fill(&mut number)?;
        *seen.entry(number).or_insert(0) += 1;
    }
    Ok(seen)
}

fn ours() -> Seen {
    let one = || {
        draw(DRAWS / THREADS, &mut |number| {
            handfast_tls::random_bytes(number).map_err(|_| io::Error::other("it failed"))
        })
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .filter_map(|_| {
                std::thread::Builder::new().name("random".to_owned()).spawn_scoped(scope, one).ok()
            })
            .collect();
        let mut all: HashMap<[u8; BYTES], u64> = HashMap::new();
        for thread in threads {
            match thread.join() {
                Ok(seen) => {
                    seen?.into_iter().for_each(|(number, times)| *all.entry(number).or_insert(0) += times)
                }
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(all)
    })
}

fn judge(name: &str, seen: Seen, tested: &mut Vec<String>, report: &mut Report) {
    let seen = match seen {
        Ok(seen) => seen,
        Err(error) => return report.not_seen(format!("the duplicate test of {name}"), error.to_string()),
    };
    let drawn: u64 = seen.values().sum();
    let repeated = drawn - seen.len() as u64;
    if repeated == 0 {
        return tested.push(name.to_owned());
    }
    let most = seen.values().max().copied().unwrap_or(0);
    let title = format!(
        "{name} repeats numbers: {} of {} were repetitions, one number came {most} times",
        count(repeated),
        count(drawn)
    );
    let arithmetic = format!(
        "{} draws of {BYTES} bytes gave {} different numbers; of a good generator all differ (the chance of a single pair is below 10⁻⁸⁶)",
        count(drawn),
        count(seen.len() as u64)
    );
    let consequence = "keys made here can be computed by others, as those of Debian's OpenSSL of 2006 to 2008 were; every key and \
                       certificate made with it has to be replaced";
    report.find(
        Finding::critical(TOPIC, title, consequence)
            .because(arithmetic)
            .change("make keys on another machine until the cause is known; look for a replaced /dev/urandom or a cloned snapshot"),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generator_with_as_many_states_as_debians_is_found() {
        // A number depends only on the state, of which there are 32,768.
        let mut state = 0_u64;
        let mut weak = |number: &mut [u8]| {
            state = (state * 25_173 + 13_849) % 32_768;
            number.fill(0);
            number[..8].copy_from_slice(&state.to_le_bytes());
            Ok(())
        };
        let (mut report, mut tested) = (Report::new("", String::new(), String::new()), Vec::new());
        judge("weak", draw(DRAWS, &mut weak), &mut tested, &mut report);
        assert!(tested.is_empty());
        let title = &report.findings[0].title;
        assert!(
            title.starts_with(
                "weak repeats numbers: 67,232 of 100,000 were repetitions, one number came 4 times"
            ),
            "{title}"
        );
    }

    #[test]
    fn the_generators_here_are_good_and_one_that_fails_is_not_seen() {
        let mut report = Report::new("", String::new(), String::new());
        examine(&Machine::here(), &mut report);
        assert_eq!(report.findings, []);
        assert!(report.facts[0].value.contains("aws-lc"), "{:?}", report.facts);
        judge("none", Err(io::Error::other("away")), &mut Vec::new(), &mut report);
        assert_eq!(report.unseen.len(), 1);
    }
}
