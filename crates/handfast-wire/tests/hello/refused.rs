//! Every way to be wrong, each found by its own name; and what looks wrong but is not.

use handfast_wire::peek::{MESSAGE_LIMIT, RECORD_COUNT_LIMIT};
use handfast_wire::record::ContentType;
use handfast_wire::{Foreign, Invalid, NameProblem, Peek, peek};

use crate::build::{Build, list16, message, record, server_name, vector8, vector16};

const LIMIT: usize = 16_384;

fn invalid(wire: &[u8]) -> Invalid {
    match peek(wire, LIMIT) {
        Peek::Invalid(invalid) => invalid,
        other => panic!("{other:?}"),
    }
}

/// The refusal of a hello with this one extension.
fn extension(extension: u16, data: &[u8]) -> Invalid {
    invalid(&Build::default().with(extension, data.to_vec()).wire())
}

fn complete(wire: &[u8]) -> handfast_wire::ClientHello {
    match peek(wire, LIMIT) {
        Peek::Complete(hello) => *hello,
        other => panic!("{other:?}"),
    }
}

#[test]
fn records() {
    let alert = ContentType::ALERT;
    assert_eq!(invalid(&[21, 3, 1, 0, 2]), Invalid::RecordType { content_type: alert });
    assert_eq!(invalid(&[22, 3, 1, 0, 0]), Invalid::RecordEmpty);
    assert_eq!(invalid(&[22, 3, 1, 0x40, 1]), Invalid::RecordTooLong { length: 16_385 });
    let half = record(22, 0x0301, &message(&Build::default().body())[..20]);
    let then = |next: &[u8]| invalid(&[&half, next].concat());
    assert_eq!(then(&[21, 3, 3, 0, 2]), Invalid::RecordType { content_type: alert });
    assert_eq!(then(&[22, 3, 3, 0, 0]), Invalid::RecordEmpty);
    assert_eq!(then(&[22, 2, 0, 0, 9]), Invalid::RecordVersion { version: 0x0200 });
}

#[test]
fn an_oversized_record_is_refused_by_its_header_even_under_a_high_limit() {
    let largest = Peek::Invalid(Invalid::RecordTooLong { length: 16_385 });
    assert_eq!(peek(&[22, 3, 1, 0x40, 1], 100_000), largest);
    assert_eq!(peek(&[22, 3, 1, 0x40, 0], 100_000), Peek::Incomplete);
}

#[test]
fn too_many_records() {
    let padded = Build::default().with(21, vec![0; RECORD_COUNT_LIMIT]);
    let wire = crate::build::records(&message(&padded.body()), &[1]);
    assert_eq!(peek(&wire, 1_000_000), Peek::Invalid(Invalid::TooManyRecords));
    // Said at once: no byte after the last record that may be could help.
    let last = &wire[..RECORD_COUNT_LIMIT * 6];
    assert_eq!(peek(last, 1_000_000), Peek::Invalid(Invalid::TooManyRecords));
    assert_eq!(peek(&last[..last.len() - 1], 1_000_000), Peek::Incomplete);
    // The same in records of two bytes is within the limit.
    let wire = crate::build::records(&message(&padded.body()), &[2]);
    assert!(matches!(peek(&wire, 1_000_000), Peek::Complete(_)));
}

#[test]
fn messages() {
    assert_eq!(invalid(&[22, 3, 1, 0, 4, 2]), Invalid::MessageType { message_type: 2 });
    let mut wire = record(22, 0x0301, &[&message(&Build::default().body())[..], &[1, 0, 0]].concat());
    assert_eq!(invalid(&wire), Invalid::BytesAfterHello { count: 3 });
    wire.truncate(12);
    assert_eq!(invalid(&wire), Invalid::BytesAfterHello { count: 3 }, "known from the lengths alone");
}

#[test]
fn a_whole_record_after_the_hello_is_left_alone() {
    let hello = Build::default().wire();
    let early = record(23, 0x0303, b"early data");
    assert_eq!(complete(&[&hello[..], &early].concat()).length_on_wire, hello.len());
}

#[test]
fn fields() {
    let with = |change: fn(&mut Build)| {
        let mut build = Build::default();
        change(&mut build);
        invalid(&build.wire())
    };
    assert_eq!(with(|build| build.legacy_version = 0x0200), Invalid::LegacyVersion { version: 0x0200 });
    assert_eq!(with(|build| build.session_id = vec![0; 33]), Invalid::SessionIdTooLong { length: 33 });
    assert_eq!(with(|build| build.cipher_suites.clear()), Invalid::Empty { field: "cipher_suites" });
    assert_eq!(with(|build| build.compression_methods = vec![1]), Invalid::NoNullCompression);
    assert_eq!(
        with(|build| build.compression_methods.clear()),
        Invalid::Empty { field: "legacy_compression_methods" }
    );
}

#[test]
fn lengths() {
    let body = |bytes: &[u8]| invalid(&crate::build::records(&message(bytes), &[LIMIT]));
    let good = Build::default().body();
    assert_eq!(body(&[]), Invalid::Short { field: "client_hello", needed: 2, left: 0 });
    assert_eq!(body(&good[..30]), Invalid::Short { field: "client_hello", needed: 32, left: 28 });
    assert_eq!(body(&good[..40]), Invalid::Short { field: "legacy_session_id", needed: 32, left: 5 });
    assert_eq!(body(&good[..70]), Invalid::Short { field: "cipher_suites", needed: 4, left: 1 });
    assert_eq!(body(&good[..good.len() - 1]), Invalid::Short { field: "extensions", needed: 2, left: 1 });
    let more = [&good[..], &[0]].concat();
    assert_eq!(body(&more), Invalid::Trailing { field: "client_hello", count: 1 });
    let mut odd = good;
    odd[68] = 3; // low byte of the cipher suites' length
    assert_eq!(body(&odd), Invalid::OddLength { field: "cipher_suites", length: 3 });
}

#[test]
fn extensions() {
    let twice = Build::default().with(23, vec![]).with(0x7777, vec![]).with(23, vec![]);
    assert_eq!(invalid(&twice.wire()), Invalid::DuplicateExtension { extension: 23 });
    let names = Build::default().with(0, server_name(b"a.example")).with(0, server_name(b"b.example"));
    assert_eq!(invalid(&names.wire()), Invalid::DuplicateExtension { extension: 0 });
    let behind = Build::default().with(41, vec![]).with(23, vec![]);
    assert_eq!(invalid(&behind.wire()), Invalid::PreSharedKeyNotLast);
    assert_eq!(extension(42, &[0]), Invalid::Trailing { field: "early_data", count: 1 });
    assert_eq!(extension(10, &[0, 1, 29]), Invalid::OddLength { field: "named_group_list", length: 1 });
    assert_eq!(extension(10, &[0, 4, 29]), Invalid::Short { field: "named_group_list", needed: 4, left: 1 });
    assert_eq!(extension(13, &[0, 0]), Invalid::Empty { field: "supported_signature_algorithms" });
    assert_eq!(extension(43, &[0]), Invalid::Empty { field: "supported_versions" });
    assert_eq!(extension(43, &[2, 3, 4, 9]), Invalid::Trailing { field: "supported_versions", count: 1 });
    assert_eq!(extension(16, &[0, 0]), Invalid::Empty { field: "protocol_name_list" });
    assert_eq!(extension(16, &[0, 1, 0]), Invalid::Empty { field: "protocol_name" });
    assert_eq!(extension(51, &[0, 4, 0, 29, 0, 0]), Invalid::Empty { field: "key_exchange" });
}

#[test]
fn names() {
    let two = vector16(&[&[0][..], &vector16(b"a.example"), &[0], &vector16(b"b.example")].concat());
    assert_eq!(extension(0, &two), Invalid::SeveralHostNames);
    assert_eq!(extension(0, &[]), Invalid::Short { field: "server_name_list", needed: 2, left: 0 });
    assert_eq!(extension(0, &[0, 0]), Invalid::Empty { field: "server_name_list" });
    let other = vector16(&[&[9][..], &vector16(b"\xff\xfe"), &[0], &vector16(b"a.example")].concat());
    assert_eq!(complete(&Build::default().with(0, other).wire()).server_name.as_deref(), Some("a.example"));
}

#[test]
fn a_client_for_raw_public_keys_alone_is_known() {
    for (types, raw_only) in [(&[2][..], true), (&[2, 0], false), (&[0], false)] {
        let list = [&[u8::try_from(types.len()).expect("a short list")], types].concat();
        let hello = complete(&Build::default().with(20, list).wire());
        assert_eq!(hello.accepts_raw_keys_only(), raw_only, "{types:?}");
    }
    assert!(!complete(&Build::default().wire()).accepts_raw_keys_only());
    assert_eq!(
        extension(20, &[2, 2]),
        Invalid::Short { field: "server_certificate_types", needed: 2, left: 1 }
    );
}

#[test]
fn a_bad_name_is_a_fact_and_no_refusal() {
    for (name, problem) in [
        (&b"192.0.2.1"[..], NameProblem::Address),
        (b"", NameProblem::Empty),
        (b"a.example..", NameProblem::LabelEmpty),
        (b"a b.example", NameProblem::Character { byte: b' ' }),
    ] {
        let hello = complete(&Build::default().with(0, server_name(name)).wire());
        assert_eq!((hello.server_name, hello.server_name_problem), (None, Some(problem)));
    }
}

#[test]
fn what_old_clients_do_is_no_fault() {
    let old = Build { legacy_version: 0x0301, extensions: None, ..Build::default() };
    assert!(complete(&old.wire()).offers_version(0x0301));
    let oldest = Build { legacy_version: 0x0300, ..Build::default() };
    assert_eq!(complete(&oldest.wire()).legacy_version, 0x0300, "SSL 3.0 is the policy's to refuse");
    let future = Build { legacy_version: 0x0399, compression_methods: vec![1, 0], ..Build::default() };
    assert!(!complete(&future.wire()).offers_version(0x0304), "TLS 1.3 is offered by the list alone");
    let listed = Build::default().with(43, vector8(&[3, 4]));
    assert!(!complete(&listed.wire()).offers_version(0x0303), "the list counts where there is one");
    let shares = Build::default().with(51, list16(&[]));
    assert!(complete(&shares.wire()).key_shares.is_empty(), "an empty list asks for another round");
}

#[test]
fn too_large_is_reported_as_soon_as_it_is_announced() {
    assert_eq!(peek(&[22, 3, 1, 0x20, 0], 4_096), Peek::TooLarge { announced: 8_197 });
    // Four bytes of the message suffice, in however small a record.
    assert_eq!(peek(&[22, 3, 1, 0, 4, 1, 0, 0x20, 0], 4_096), Peek::TooLarge { announced: 8_206 });
    let beyond = u8::try_from((MESSAGE_LIMIT + 1) >> 16).expect("the limit is two bytes of ones");
    let wire = [22, 3, 1, 0, 4, 1, beyond, 0, 0];
    // Four bytes of message header, 0x10000 of body, and two record headers: the one that came and one more at least.
    assert_eq!(peek(&wire, usize::MAX), Peek::TooLarge { announced: 4 + MESSAGE_LIMIT + 1 + 2 * 5 });
    let longest = [22, 3, 1, 0, 4, 1, 0, 0xff, 0xff];
    assert_eq!(peek(&longest, usize::MAX), Peek::Incomplete, "the longest message there may be");
}

#[test]
fn the_limit_is_met_exactly() {
    let wire = Build::default().with(21, vec![0; 500]).wire();
    assert!(matches!(peek(&wire, wire.len()), Peek::Complete(_)));
    assert_eq!(peek(&wire, wire.len() - 1), Peek::TooLarge { announced: wire.len() });
    let split = crate::build::records(&wire[5..], &[100]);
    assert!(matches!(peek(&split, split.len()), Peek::Complete(_)));
    assert!(matches!(peek(&split, split.len() - 1), Peek::TooLarge { .. }));
}

#[test]
fn a_limit_below_the_smallest_counts_as_that() {
    let shortest =
        Build { session_id: vec![], cipher_suites: vec![0x002f], extensions: None, ..Build::default() };
    assert_eq!(shortest.wire().len(), 50, "the shortest hello there is");
    assert!(matches!(peek(&shortest.wire(), 0), Peek::Complete(_)));
    assert_eq!(peek(&[22, 3, 1, 0, 59], 0), Peek::Incomplete);
    assert_eq!(peek(&[22, 3, 1, 0, 60], 0), Peek::TooLarge { announced: 65 });
}

#[test]
fn a_message_over_several_full_records() {
    let large = Build::default().with(21, vec![0; 50_000]);
    let wire = large.wire();
    let Peek::Complete(hello) = peek(&wire, 65_536) else { panic!("{:?}", peek(&wire, 65_536)) };
    assert_eq!((hello.record_count, hello.length_on_wire), (4, wire.len()));
}

#[test]
fn other_protocols_are_named() {
    assert_eq!(peek(b"GET / HTTP/1.1\r\n", LIMIT), Peek::NotTls(Foreign::Http));
    assert_eq!(peek(b"GE", LIMIT), Peek::Incomplete);
    assert_eq!(peek(b"SSH-2.0-OpenSSH_9.2\r\n", LIMIT), Peek::NotTls(Foreign::Ssh));
    assert_eq!(peek(&[], LIMIT), Peek::Incomplete);
}

#[test]
fn sixteen_thousand_extensions_are_read() {
    let list: Vec<_> = (0..15_000_u16).map(|number| (20_000 + number, vec![])).collect();
    let build = Build { extensions: Some(list), ..Build::default() };
    assert!(matches!(peek(&build.wire(), 65_536), Peek::Complete(hello) if hello.extensions.len() == 15_000));
}

#[test]
fn alerts_that_answer() {
    for (invalid, alert) in [
        (Invalid::RecordTooLong { length: 17_001 }, "record_overflow"),
        (Invalid::RecordEmpty, "unexpected_message"),
        (Invalid::Short { field: "extensions", needed: 2, left: 0 }, "decode_error"),
        (Invalid::DuplicateExtension { extension: 0 }, "illegal_parameter"),
        (Invalid::LegacyVersion { version: 0x0200 }, "protocol_version"),
    ] {
        assert_eq!(invalid.alert().to_string(), alert);
    }
}
