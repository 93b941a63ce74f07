//! Tests for the findings about files and folders of lists, and for the lists in force.

use super::*;

/// Severity, reason and name of each file with a finding.
fn findings_by_file(loaded: &LoadedAuthorities) -> Vec<(Severity, Reason, String)> {
    let name = |file: &std::path::Path| file.file_name().unwrap().to_string_lossy().into_owned();
    let all = loaded.findings.iter().map(|finding| (finding.severity, finding.reason, name(&finding.file)));
    all.collect()
}

fn pem(der: &[u8]) -> String {
    format!("-----BEGIN X509 CRL-----\n{}\n-----END X509 CRL-----\n", base64(der))
}

#[test]
fn of_several_lists_the_newest_counts_whatever_their_files_are_called() {
    let ca = Maker::authority("ca").self_signed();
    let (one, two) = (client(&ca), client(&ca));
    for (old, new) in [("lists/1", "lists/2"), ("lists/2", "lists/1")] {
        let mut set = Set::new(&[&ca]);
        set.put(old, Draft { from: NOW - 9 * DAY, ..draft(&ca, &[&one]) }.der());
        set.put(new, draft(&ca, &[&two]).der());
        let source = [set.folder.at("lists")];
        let loaded = set.load(&source, NOW);
        check_client(&loaded, &[&one], NOW).unwrap();
        check_client(&loaded, &[&two], NOW).unwrap_err();
        assert_eq!(findings_by_file(&loaded), [(Severity::Note, Reason::Shadowed, old[6..].to_owned())]);
    }
}

#[test]
fn a_folder_may_hold_other_things_and_each_is_named() {
    let (ca, stranger) = (Maker::authority("ca").self_signed(), Maker::authority("stranger").self_signed());
    let bad = client(&ca);
    let mut set = Set::new(&[&ca]);
    let source = [set.folder.at("lists")];
    let loaded = set.load(&source, NOW);
    let empty = (Severity::Warning, Reason::NoRevocationList, "lists".to_owned());
    assert_eq!(findings_by_file(&loaded)[0], empty, "and without lists no client is accepted");
    set.put("lists/.hidden", "half a fi");
    std::fs::create_dir(set.folder.at("lists/below")).unwrap();
    set.put("lists/both", ca.pem() + &pem(&draft(&ca, &[&bad]).der()));
    set.put("lists/notes", "nothing\n");
    set.put("lists/stranger", draft(&stranger, &[]).der());
    let loaded = set.load(&source, NOW);
    let note = |reason, file: &str| (Severity::Note, reason, file.to_owned());
    let expected = [
        note(Reason::UnusedSection, "both"),
        note(Reason::NoRevocationList, "notes"),
        (Severity::Warning, Reason::BadRevocationList, "stranger".to_owned()),
    ];
    assert_eq!(findings_by_file(&loaded), expected);
    check_client(&loaded, &[&bad], NOW).unwrap_err();
    // A list that its own CA signed and that cannot be used is an error there too.
    set.put("lists/broken", Draft { serials: vec![vec![1; 22]], ..draft(&ca, &[]) }.der());
    let loaded = set.load(&source, NOW);
    assert!(loaded.rule.is_none());
    assert!(findings_by_file(&loaded).contains(&(
        Severity::Error,
        Reason::BadRevocationList,
        "broken".to_owned()
    )));
}

#[test]
fn what_is_too_large_is_not_read() {
    let ca = Maker::authority("ca").self_signed();
    let mut set = Set::new(&[&ca]);
    let file = set.put("list", "");
    std::fs::File::options().write(true).open(&file).unwrap().set_len((256 << 20) + 1).unwrap();
    let loaded = set.load(&[file], NOW);
    assert!(words(&loaded).contains("has 268435457 bytes, expected at most 268435456"), "{}", words(&loaded));
    // Ten thousand files are a folder of lists; more are a mistake.
    let lists = set.folder.at("lists");
    set.put("lists/0", "nothing\n");
    (1..10_000)
        .for_each(|number| std::fs::hard_link(lists.join("0"), lists.join(number.to_string())).unwrap());
    let loaded = set.load(std::slice::from_ref(&lists), NOW);
    assert!(!findings(&loaded).iter().any(|finding| finding.1 == Reason::TooLarge), "each is looked at");
    std::fs::hard_link(lists.join("0"), lists.join("one more")).unwrap();
    let loaded = set.load(&[lists], NOW);
    assert_eq!(findings_by_file(&loaded), [(Severity::Error, Reason::TooLarge, "lists".to_owned())]);
    assert!(words(&loaded).contains("has 10001 files"), "{}", words(&loaded));
}

/// A list that is cut short may be half written, and is looked at again at once.
#[test]
fn what_is_half_written_is_distinguished_from_what_is_broken() {
    let ca = Maker::authority("ca").self_signed();
    let mut set = Set::new(&[&ca]);
    for (content, reason) in [
        ("-----BEGIN X509 CRL-----\nAAEC\n", Reason::Truncated),
        ("-----BEGIN X509 CRL-----\n!!!!\n-----END X509 CRL-----\n", Reason::BadPem),
    ] {
        let source = [set.put("list", content)];
        assert_eq!(findings(&set.load(&source, NOW))[0], (Severity::Error, reason));
    }
}

#[test]
fn half_a_file_does_not_take_the_place_of_a_whole_one() {
    let ca = Maker::authority("ca").self_signed();
    let (one, two) = (client(&ca), client(&ca));
    let mut set = Set::new(&[&ca]);
    let source = [set.put("list", draft(&ca, &[&one]).der())];
    set.load(&source, NOW);
    let newer = Draft { from: NOW, ..draft(&ca, &[&two]) }.der();
    set.put("list", pem(&newer) + "-----BEGIN X509 CRL-----\n!!!!\n-----END X509 CRL-----\n");
    let loaded = set.load(&source, NOW);
    assert_eq!((findings(&loaded), loaded.left_out.len()), (vec![], 1));
    check_client(&loaded, &[&one], NOW).unwrap_err();
    check_client(&loaded, &[&two], NOW).unwrap();
}

#[test]
fn an_older_list_does_not_take_the_place_of_a_newer_one() {
    let ca = Maker::authority("ca").self_signed();
    let bad = client(&ca);
    let older = Draft { from: NOW - 9 * DAY, ..draft(&ca, &[]) }.der();
    let newer = draft(&ca, &[&bad]).der();
    let mut set = Set::new(&[&ca]);
    // In its own place, and under another name.
    for (first, then) in [("lists/a", "lists/a"), ("lists/a", "lists/b")] {
        let source = [set.folder.at("lists")];
        set.put(first, &newer);
        set.load(&source, NOW);
        std::fs::remove_file(set.folder.at(first)).unwrap();
        set.put(then, &older);
        for _ in 0..3 {
            let loaded = set.load(&source, NOW);
            assert_eq!(loaded.left_out.len(), 1, "{:?}", loaded.left_out);
            let message = &loaded.left_out[0].message;
            assert!(first != then || message.contains("older than the one in use, of "), "{message}");
            check_client(&loaded, &[&bad], NOW).unwrap_err();
        }
        // One of the same time, or a newer one, does.
        set.put(then, &newer);
        assert_eq!(set.load(&source, NOW).left_out, []);
        std::fs::remove_file(set.folder.at(then)).unwrap();
        set.put(first, Draft { from: NOW, ..draft(&ca, &[]) }.der());
        let loaded = set.load(&source, NOW);
        assert_eq!(loaded.left_out, []);
        check_client(&loaded, &[&bad], NOW).unwrap();
        set = Set::new(&[&ca]);
    }
}

#[test]
fn a_list_that_is_kept_is_reported_once_and_goes_with_its_ca() {
    let ca = Maker::authority("ca").self_signed();
    let mut set = Set::new(&[&ca]);
    let (source, file) = ([set.folder.at("lists")], "lists/ca.crl");
    // Several versions have been read.
    for from in [NOW - 3 * DAY, NOW - 2 * DAY] {
        set.put(file, Draft { from, ..draft(&ca, &[]) }.der());
        set.load(&source, NOW);
    }
    std::fs::remove_file(set.folder.at(file)).unwrap();
    let loaded = set.load(&source, NOW);
    assert_eq!(loaded.left_out.len(), 1, "{:?}", loaded.left_out);
    let facts = loaded.rule.unwrap().list_facts();
    assert_eq!(facts.iter().map(|fact| fact.this_update).collect::<Vec<_>>(), [NOW - 2 * DAY]);
    // The CA renews its key under the same name: the list of the old one is not used.
    let renewed = Maker::authority("ca").self_signed();
    set.put("ca.pem", renewed.pem());
    let loaded = set.load(&source, NOW);
    assert_eq!((loaded.left_out.len(), loaded.rule.unwrap().list_facts().len()), (0, 0));
}

#[test]
fn what_is_odd_about_dates_is_reported_to_the_second() {
    let ca = Maker::authority("ca").self_signed();
    let (good, to) = (client(&ca), NOW + 8 * DAY);
    let report_at = |from, to, now| {
        let mut set = Set::new(&[&ca]);
        let source = [set.put("list", Draft { from, to, ..draft(&ca, &[]) }.der())];
        let loaded = set.load(&source, now);
        check_client(&loaded, &[&good], now).expect("it is used");
        (words(&loaded), loaded.rule.unwrap().attention_at())
    };
    let (words, _) = report_at(NOW + 1, Some(to), NOW);
    assert!(words.contains("is of 2026-11-01 12:00:01 UTC, which is to come"), "{words}");
    let (words, attention) = report_at(NOW, None, NOW);
    assert!(words.contains("does not say when the next one is due"), "{words}");
    assert_eq!(attention, None);
    // Late from a quarter of its time before the end on, and at the end it is still good.
    let late = NOW + 6 * DAY;
    assert_eq!(report_at(NOW, Some(to), late), (String::new(), Some(late + 1)));
    let (words, attention) = report_at(NOW, Some(to), to);
    assert!(words.contains("expires on 2026-11-09 12:00:00 UTC, and the next one is not there"), "{words}");
    assert_eq!(attention, Some(to + 1));
    // A week is enough for any.
    assert_eq!(report_at(NOW, Some(NOW + 100 * DAY), NOW).1, Some(NOW + 93 * DAY + 1));
}

/// The time of the next report is the first of all lists'.
#[test]
fn the_list_that_is_late_first_is_waited_for() {
    let (one, two) = (Maker::authority("one").self_signed(), Maker::authority("two").self_signed());
    let mut set = Set::new(&[&one, &two]);
    let until = |ca, to| Draft { from: NOW, to: Some(to), ..draft(ca, &[]) }.der();
    let sources = [set.put("1", until(&one, NOW + 8 * DAY)), set.put("2", until(&two, NOW + 4 * DAY))];
    let rule = set.load(&sources, NOW).rule.unwrap();
    assert_eq!(rule.attention_at(), Some(NOW + 3 * DAY + 1));
    let late: Vec<_> = rule.list_facts().iter().map(|fact| fact.late_at).collect();
    assert_eq!(late, [Some(NOW + 6 * DAY), Some(NOW + 3 * DAY)]);
}

/// A CA that divides its certificates among several lists names the list in each certificate.
#[test]
fn a_list_of_one_place_is_about_certificates_that_name_this_place() {
    let ca = Maker::authority("ca").self_signed();
    let uri = |name: &str| tlv(0x86, format!("http://example.org/{name}").as_bytes());
    let point = |names: &[Vec<u8>]| tlv(0xa0, &tlv(0xa0, &names.concat()));
    let naming = |points: &[Vec<u8>]| {
        let content: Vec<u8> = points.iter().flat_map(|point| tlv(0x30, point)).collect();
        let mut params = rcgen::CertificateParams::new(vec!["client.example.org".to_owned()]).unwrap();
        let own = rcgen::CustomExtension::from_oid_content(&[2, 5, 29, 31], tlv(0x30, &content));
        params.custom_extensions.push(own);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &rcgen::Issuer::from_params(&ca.params, &ca.key)).unwrap();
        Made { params, key, certificate }
    };
    let mut set = Set::new(&[&ca]);
    let scope = extension(28, true, &tlv(0x30, &point(&[uri("1"), uri("one")])));
    let source = [set.put("list", Draft { extensions: vec![scope], ..draft(&ca, &[]) }.der())];
    for (what, points, is_about) in [
        ("the same", vec![point(&[uri("1"), uri("one")])], true),
        ("one name in common", vec![point(&[uri("x"), uri("one")])], true),
        ("in the second place", vec![point(&[uri("2")]), point(&[uri("1")])], true),
        ("another", vec![point(&[uri("2")])], false),
        ("others", vec![point(&[uri("2"), uri("two")]), point(&[uri("3")])], false),
        ("none", vec![], false),
        ("a place without a name", vec![tlv(0x81, &[0])], false),
    ] {
        let loaded = set.load(&source, NOW);
        let answer = check_client(&loaded, &[&naming(&points)], NOW);
        assert_eq!(answer.is_ok(), is_about, "{what}: {answer:?}");
    }
}

/// Usual extensions from CAs change nothing: numbers, reasons, further locations, also when they are marked as critical.
#[test]
fn usual_extensions_of_lists_and_entries_are_known() {
    let ca = Maker::authority("ca").self_signed();
    let bad = client(&ca);
    let mut set = Set::new(&[&ca]);
    let usual = [35, 20, 46, 18].map(|number| extension(number, true, &[5, 0])).to_vec();
    let of_entry = [21, 24].map(|number| extension(number, true, &[5, 0])).to_vec();
    let other = extension(99, false, &[5, 0]);
    let list = Draft {
        extensions: [usual, vec![other.clone()]].concat(),
        entry_extensions: [of_entry, vec![other]].concat(),
        ..draft(&ca, &[&bad])
    };
    let source = [set.put("list", list.der())];
    let loaded = set.load(&source, NOW);
    assert_eq!(findings(&loaded), []);
    check_client(&loaded, &[&bad], NOW).unwrap_err();
}

/// One list of users' certificates and one of all: each decides about its own, and one that is current is enough.
#[test]
fn an_expired_list_harms_nobody_whom_another_one_covers() {
    let ca = Maker::authority("ca").self_signed();
    let own = client(&ca);
    let users = extension(28, true, &tlv(0x30, &tlv(0x81, &[0xff])));
    let mut set = Set::new(&[&ca]);
    let current = draft(&ca, &[]);
    let expired = Draft { to: Some(NOW - 60), extensions: vec![users], ..draft(&ca, &[]) };
    for (first, second) in [(&current, &expired), (&expired, &current)] {
        let sources = [set.put("1", first.der()), set.put("2", second.der())];
        let loaded = set.load(&sources, NOW);
        check_client(&loaded, &[&own], NOW).unwrap();
        assert_eq!(loaded.rule.unwrap().list_facts().len(), 2);
    }
    let source = [set.put("alone", expired.der())];
    let refusal = check_client(&set.load(&source, NOW), &[&own], NOW).unwrap_err();
    assert!(matches!(refusal, Refusal::ListExpired { .. }), "{refusal}");
}

#[test]
fn a_list_about_users_does_not_describe_cas() {
    let root = Maker::authority("root").self_signed();
    let middle = Maker::authority("middle").signed_by(&root);
    let own = client(&middle);
    let mut set = Set::new(&[&root]);
    set.lenience.accept_missing = true;
    for (tag, is_in) in [(0x81, true), (0x82, false)] {
        let scope = extension(28, true, &tlv(0x30, &tlv(tag, &[0xff])));
        let expired = Draft { to: Some(NOW - 60), extensions: vec![scope], ..draft(&root, &[]) };
        let source = [set.put("list", expired.der())];
        let answer = check_client(&set.load(&source, NOW), &[&own, &middle], NOW);
        assert_eq!(answer.is_ok(), is_in, "{tag:x}: {answer:?}");
    }
}

#[test]
fn fields_that_say_no_change_nothing_and_cures_are_reported() {
    let ca = Maker::authority("ca").self_signed();
    let stranger = Maker::authority("stranger").self_signed();
    let point = |tag: u8, value: u8| Draft {
        extensions: vec![extension(28, true, &tlv(0x30, &tlv(tag, &[value])))],
        ..draft(&ca, &[])
    };
    let mut set = Set::new(&[&ca]);
    for tag in [0x84, 0x85] {
        let source = [set.put("list", point(tag, 0).der())];
        assert_eq!(findings(&set.load(&source, NOW)), [], "{tag:x}");
    }
    for (list, hint) in [
        (point(0x84, 0xff).der(), "let the CA publish complete lists"),
        (point(0x85, 0xff).der(), "let the CA publish complete lists"),
        (draft(&stranger, &[]).der(), "if it is the list of an intermediate CA"),
        (many(&stranger).der(), "add the certificate of this CA"),
        (draft(&ca, &[]).der()[..50].to_vec(), "fetch it again"),
        ([draft(&ca, &[]).der(), b"more".to_vec()].concat(), "fetch it again"),
    ] {
        let mut set = Set::new(&[&ca]);
        let source = [set.put("list", list)];
        let loaded = set.load(&source, NOW);
        let hint_text = loaded.findings[0].hint.as_deref().unwrap_or_default();
        assert!(hint_text.starts_with(hint), "{hint}: {:?}", loaded.findings);
    }
}
