//! Bytes of a peer before TLS, to every machine from both ends: how they are split changes nothing, and none is ready with a byte unread.
//!
//! Input: which protocol, where to split, and the words.
#![no_main]

use handfast_wire::starttls::{Client, Problem, Progress, Protocol, Server};
use libfuzzer_sys::fuzz_target;

type Outcome = (Result<Progress, Problem>, Vec<u8>);

fuzz_target!(|input: (u8, u8, &[u8])| {
    let (which, at, said) = input;
    let protocol = Protocol::ALL[usize::from(which) % Protocol::ALL.len()];
    // Bounds are counted over a whole dialogue, and what is refused for its size may have been ready in a smaller part.
    let said = &said[..said.len().min(2_048)];
    let at = usize::from(at).min(said.len());
    let serve = |parts: &[&[u8]]| {
        let mut server = Server::new(protocol, "a.example");
        talk(parts, |part, words| server.take(part, words))
    };
    let ask = |parts: &[&[u8]]| {
        let mut client = Client::new(protocol, "a.example");
        talk(parts, |part, words| client.take(part, words))
    };
    judge(&serve(&[said]), &serve(&[&said[..at], &said[at..]]));
    judge(&ask(&[said]), &ask(&[&said[..at], &said[at..]]));
});

fn talk(parts: &[&[u8]], mut take: impl FnMut(&[u8], &mut Vec<u8>) -> Result<Progress, Problem>) -> Outcome {
    let mut words = Vec::new();
    let mut outcome = Ok(Progress::More);
    for part in parts.iter().filter(|part| !part.is_empty()) {
        outcome = take(part, &mut words);
        if outcome != Ok(Progress::More) {
            break;
        }
    }
    (outcome, words)
}

/// Split or not: both wait for more, or both do not.
fn judge(whole: &Outcome, split: &Outcome) {
    if whole.0 == Ok(Progress::More) {
        assert_eq!(whole, split);
    }
    if let Err(problem) = &whole.0 {
        assert!(!problem.to_string().is_empty());
    }
}
