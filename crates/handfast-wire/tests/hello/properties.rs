//! Tests for the guarantees of `peek` for all bytes: it never panics, no split matters, and a verdict stays.

use handfast_wire::peek::SMALLEST_LIMIT;
use handfast_wire::{ClientHello, Peek, peek};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, subsequence};

use crate::build::{Build, alpn, key_shares, list16, message, numbers, records, server_name, vector8};

const LIMIT: usize = 16_384;

/// A well-formed hello, and what must be read from it.
#[derive(Clone, Debug)]
struct Offer {
    build: Build,
    expected: ClientHello,
}

/// Any subset of the known extensions and an unknown one, in any order, with any values.
fn offer() -> impl Strategy<Value = Offer> {
    let host = "[A-Za-z0-9_-]{1,20}(\\.[A-Za-z0-9_-]{1,20}){0,3}\\.[A-Za-z]{2,8}";
    let protocols = vec(vec(any::<u8>(), 1..12), 1..4);
    let shares = vec((any::<u16>(), prop_oneof![Just(32), Just(1_216), 1..80_usize]), 0..4);
    let lists = (vec(any::<u16>(), 1..40), vec(any::<u16>(), 1..8), vec(any::<u16>(), 1..20));
    let session_key = proptest::option::of(vec(any::<u8>(), 0..100));
    let kept = subsequence((0..12).collect::<Vec<usize>>(), 0..=12).prop_shuffle();
    (0..=32_u8, lists, host, protocols, shares, vec(any::<u8>(), 0..300), session_key, kept).prop_map(
        |(id, lists, host, protocols, shares, opaque, session_key, kept)| {
            let mut offer = Offer::of(id, lists.0);
            for number in kept {
                match number {
                    0 => offer.host(&host),
                    1 => offer.protocols(&protocols),
                    2 => offer.shares(&shares),
                    3 => offer.versions(&lists.1),
                    4 => offer.groups(&lists.2),
                    5 => offer.schemes(&lists.2),
                    6 => offer.certificate_schemes(&lists.1),
                    7 => offer.ticket(&opaque),
                    8 => offer.early_data(),
                    9 => offer.fragment_length(id),
                    10 => offer.record_size(lists.1[0]),
                    _ => offer.extension(0xff77, opaque.clone()),
                }
            }
            if let Some(session_key) = session_key {
                offer.expected.has_pre_shared_key = true;
                offer.extension(41, session_key);
            }
            offer.expected.length_on_wire = offer.build.wire().len();
            offer
        },
    )
}

impl Offer {
    fn of(session_id_length: u8, cipher_suites: Vec<u16>) -> Self {
        let expected = ClientHello {
            legacy_version: 0x0303,
            session_id_length,
            cipher_suites: cipher_suites.clone(),
            record_count: 1,
            ..ClientHello::default()
        };
        let session_id = vec![1; usize::from(session_id_length)];
        Self { build: Build { session_id, cipher_suites, ..Build::default() }, expected }
    }

    fn extension(&mut self, extension: u16, data: Vec<u8>) {
        self.expected.extensions.push(extension);
        self.build.extensions.get_or_insert_default().push((extension, data));
    }

    fn host(&mut self, host: &str) {
        self.expected.server_name = Some(host.to_ascii_lowercase().into());
        self.extension(0, server_name(host.as_bytes()));
    }

    fn protocols(&mut self, names: &[Vec<u8>]) {
        self.expected.alpn = names.iter().cloned().map(Into::into).collect();
        self.extension(16, alpn(names));
    }

    fn shares(&mut self, shares: &[(u16, usize)]) {
        self.expected.key_shares = shares.iter().map(|(group, _)| *group).collect();
        self.extension(51, key_shares(shares));
    }

    fn versions(&mut self, versions: &[u16]) {
        self.expected.versions = versions.to_vec();
        self.extension(43, vector8(&numbers(versions)));
    }

    fn groups(&mut self, groups: &[u16]) {
        self.expected.groups = groups.to_vec();
        self.extension(10, list16(groups));
    }

    fn schemes(&mut self, schemes: &[u16]) {
        self.expected.signature_schemes = schemes.to_vec();
        self.extension(13, list16(schemes));
    }

    fn certificate_schemes(&mut self, schemes: &[u16]) {
        self.expected.certificate_signature_schemes = schemes.to_vec();
        self.extension(50, list16(schemes));
    }

    fn ticket(&mut self, ticket: &[u8]) {
        self.expected.has_session_ticket = !ticket.is_empty();
        self.extension(35, ticket.to_vec());
    }

    /// RFC 6066 §4: four values; a server without this extension takes no notice of others.
    fn fragment_length(&mut self, code: u8) {
        if let Some(limit) = [512, 1024, 2048, 4096].get(usize::from(code).wrapping_sub(1)) {
            self.limit(*limit);
        }
        self.extension(1, vec![code]);
    }

    /// RFC 8449 §4: from 64 on; in TLS 1.3 one of them is the content type's.
    fn record_size(&mut self, size: u16) {
        if (64..=16_384).contains(&size) {
            self.limit(size - 1);
        }
        self.extension(28, size.to_be_bytes().to_vec());
    }

    fn limit(&mut self, limit: u16) {
        let before = self.expected.record_limit.unwrap_or(limit);
        self.expected.record_limit = Some(limit.min(before));
    }

    fn early_data(&mut self) {
        self.expected.has_early_data = true;
        self.extension(42, vec![]);
    }
}

/// Every prefix is a beginning until one has a verdict; then the verdict stays. Returns the verdict of the whole.
fn verdict_of_every_prefix(bytes: &[u8], limit: usize) -> Peek {
    let mut verdict = Peek::Incomplete;
    for end in 0..=bytes.len() {
        let next = peek(&bytes[..end], limit);
        match verdict {
            Peek::Incomplete => verdict = next,
            _ => assert_eq!(next, verdict, "the verdict changed at byte {end}"),
        }
        if verdict == Peek::Incomplete {
            assert!(end < limit.max(SMALLEST_LIMIT), "waiting for more than the limit at byte {end}");
        }
    }
    if let Peek::Complete(hello) = &verdict {
        assert!(hello.length_on_wire <= bytes.len().min(limit.max(SMALLEST_LIMIT)));
    }
    verdict
}

/// One change to a hello's bytes.
#[derive(Clone, Debug)]
enum Change {
    Set(Index, u8),
    Remove(Index),
    Insert(Index, u8),
    Cut(Index),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Change::Set(at, byte)),
        1 => any::<Index>().prop_map(Change::Remove),
        1 => (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Change::Insert(at, byte)),
        1 => any::<Index>().prop_map(Change::Cut),
    ]
}

fn apply(bytes: &mut Vec<u8>, change: &Change) {
    if bytes.is_empty() {
        return;
    }
    match change {
        Change::Set(at, byte) => {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
        Change::Remove(at) => drop(bytes.remove(at.index(bytes.len()))),
        Change::Insert(at, byte) => bytes.insert(at.index(bytes.len()), *byte),
        Change::Cut(at) => bytes.truncate(at.index(bytes.len())),
    }
}

proptest! {
    #[test]
    fn what_is_put_in_is_read(offer in offer(), behind in vec(any::<u8>(), 0..50)) {
        let wire = [offer.build.wire(), behind].concat();
        prop_assert_eq!(peek(&wire, LIMIT), Peek::Complete(Box::new(offer.expected)));
    }

    #[test]
    fn every_prefix_of_a_hello_is_incomplete(offer in offer(), sizes in vec(1..400_usize, 1..5)) {
        let wire = records(&message(&offer.build.body()), &sizes);
        for end in 0..wire.len() {
            prop_assert_eq!(peek(&wire[..end], LIMIT), Peek::Incomplete);
        }
        prop_assert!(matches!(peek(&wire, LIMIT), Peek::Complete(_)));
    }

    #[test]
    fn records_do_not_matter(offer in offer(), sizes in vec(1..300_usize, 1..8)) {
        let wire = records(&message(&offer.build.body()), &sizes);
        let Peek::Complete(hello) = peek(&wire, 100_000) else { panic!("{:?}", peek(&wire, 100_000)) };
        prop_assert_eq!(hello.length_on_wire, wire.len());
        let unsplit = ClientHello { length_on_wire: offer.expected.length_on_wire, record_count: 1, ..*hello };
        prop_assert_eq!(unsplit, offer.expected);
    }

    #[test]
    fn any_bytes_have_one_verdict(bytes in vec(any::<u8>(), 0..300), limit in 0..400_usize) {
        verdict_of_every_prefix(&bytes, limit);
    }

    #[test]
    fn any_record_has_one_verdict(payload in vec(any::<u8>(), 0..300), size in 1..300_usize, limit in 0..400_usize) {
        verdict_of_every_prefix(&records(&message(&payload), &[size]), limit);
        verdict_of_every_prefix(&records(&payload, &[size]), limit);
    }

    #[test]
    fn changed_hellos_have_one_verdict(
        offer in offer(),
        sizes in vec(1..400_usize, 1..4),
        changes in vec(change(), 1..6),
        limit in prop_oneof![Just(LIMIT), 0..2_000_usize],
    ) {
        let mut bytes = records(&message(&offer.build.body()), &sizes);
        for change in &changes {
            apply(&mut bytes, change);
        }
        verdict_of_every_prefix(&bytes, limit);
    }

    #[test]
    fn changed_bodies_are_judged_the_same_however_split(
        offer in offer(),
        changes in vec(change(), 1..6),
        sizes in vec(1..300_usize, 1..8),
    ) {
        let mut body = offer.build.body();
        for change in &changes {
            apply(&mut body, change);
        }
        let whole = peek(&records(&message(&body), &[LIMIT]), 100_000);
        let split = peek(&records(&message(&body), &sizes), 100_000);
        match (whole, split) {
            (Peek::Complete(mut whole), Peek::Complete(split)) => {
                (whole.length_on_wire, whole.record_count) = (split.length_on_wire, split.record_count);
                prop_assert_eq!(whole, split);
            }
            (whole, split) => prop_assert_eq!(whole, split),
        }
    }
}
