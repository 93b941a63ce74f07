//! Tests that every operation can be done, and is the one that its name states.

use std::time::SystemTime;

use super::handshake::{Flow, Kind, Pair, Side};
use super::*;

fn all() -> Vec<Act> {
    let signatures = Signature::ALL.into_iter().flat_map(|kind| [Act::Sign(kind), Act::Verify(kind)]);
    let groups =
        Group::ALL.into_iter().flat_map(|group| [Act::Share(group), Act::Agree(group), Act::Answer(group)]);
    let ciphers =
        Cipher::ALL.into_iter().flat_map(|cipher| [Act::Seal(cipher, 1024), Act::Open(cipher, 16_384)]);
    signatures.chain(groups).chain(ciphers).chain([Act::Hash(1024)]).collect()
}

#[test]
fn groups_and_ciphers_have_names() {
    assert_eq!(Group::ALL.map(Group::name), ["X25519", "P-256", "P-384", "X25519MLKEM768"]);
    assert_eq!(Cipher::ALL.map(Cipher::name), ["AES-128-GCM", "AES-256-GCM", "ChaCha20-Poly1305"]);
}

#[test]
fn every_operation_can_be_done_again_and_again() {
    let keys = Keys::generate().unwrap();
    for act in all() {
        let mut operation = act.ready(&keys).unwrap();
        operation.prepare(3).unwrap();
        for time in 0..3 {
            operation.run().unwrap_or_else(|failure| panic!("{act:?}, time {time}: {failure}"));
        }
    }
    let mut agree = Act::Agree(Group::X25519).ready(&keys).unwrap();
    agree.prepare(1).unwrap();
    agree.run().unwrap();
    assert_eq!(&*agree.run().unwrap_err().detail, "key exchange: not prepared");
}

#[test]
fn a_verification_that_does_not_hold_is_no_measurement() {
    let keys = Keys::generate().unwrap();
    for kind in Signature::ALL {
        let mut verify = Verify::new(keys.of(kind)).unwrap();
        *verify.signature.last_mut().unwrap() ^= 1;
        assert!(verify.run().is_err(), "{kind:?}");
    }
    let mut open = Open::new(Cipher::Aes128Gcm, 1024).unwrap();
    open.record[7] ^= 1;
    assert!(open.run().is_err());
}

#[test]
fn connections_in_memory_are_of_the_kind_asked_for() {
    let keys = Keys::generate().unwrap();
    let kinds = [
        (Signature::EcdsaP256, Group::X25519, false, 0),
        (Signature::Rsa2048, Group::X25519Mlkem768, false, 4096),
        (Signature::Ed25519, Group::P256, true, 0),
        (Signature::EcdsaP384, Group::P384, true, 4096),
    ];
    for (signature, group, resumed, exchange) in kinds {
        let kind = Kind { signature, group, resumed, exchange };
        let mut pair = Pair::new(kind, &keys, SystemTime::now()).unwrap();
        for _ in 0..3 {
            let mut laps = Vec::new();
            pair.batch(&mut |side| laps.push(side)).unwrap_or_else(|failure| panic!("{kind:?}: {failure}"));
            assert_eq!(laps.iter().filter(|side| **side == Side::Server).count(), 3, "{laps:?}");
        }
    }
    // Without a ticket it would be a full handshake, which was not requested.
    let kind = Kind { signature: Signature::EcdsaP256, group: Group::X25519, resumed: false, exchange: 0 };
    let mut pair = Pair::new(kind, &keys, SystemTime::now()).unwrap();
    pair.kind.resumed = true;
    assert!(pair.batch(&mut |_| {}).unwrap_err().detail.contains("not of the kind"));
}

#[test]
fn bytes_are_carried_both_ways() {
    let keys = Keys::generate().unwrap();
    let mut flow = Flow::new(&keys, SystemTime::now(), 100_000).unwrap();
    for _ in 0..3 {
        let mut laps = Vec::new();
        flow.carry(&mut |side| laps.push(side)).unwrap();
        use Side::{Client, Neither, Server};
        assert_eq!(laps, [Neither, Client, Neither, Server, Server, Neither, Client]);
    }
}

#[test]
fn names_are_those_of_certificates() {
    let kinds = [2048, 3072, 4096, 8192].map(KeyKind::Rsa).into_iter();
    let kinds = kinds.chain([KeyKind::EcdsaP256, KeyKind::EcdsaP384, KeyKind::EcdsaP521, KeyKind::Ed25519]);
    let measured: Vec<Signature> = kinds.clone().filter_map(Signature::of).collect();
    assert_eq!(measured, Signature::ALL);
    for kind in kinds {
        assert!(Signature::of(kind).is_none_or(|signature| signature.name() == kind.name()), "{kind:?}");
    }
}
