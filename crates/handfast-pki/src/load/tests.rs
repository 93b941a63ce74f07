//! Files and folders as operators leave them.

use std::fs::File;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use super::*;
use crate::apart::tests::Elsewhere;
use crate::finding::{Finding, Reason};
use crate::read::Failure;
use handfast_testkit::maker::{Folder, Made, Maker, NOW};

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(NOW as u64)
}

fn load_file(certificate: &Path, key: Option<&Path>) -> Loaded {
    let source = Source::File { certificate: certificate.into(), key: key.map(Into::into), ocsp: None };
    load_twice(source)
}

fn load_folder(folder: &Folder) -> Loaded {
    load_twice(Source::Folder(folder.path().into()))
}

/// Loads it here, and once more with the keys held elsewhere, where everything has to be the same.
fn load_twice(source: Source) -> Loaded {
    let here = load(std::slice::from_ref(&source), &Lists::default(), now());
    let holder: Arc<dyn Holder> = Arc::<Elsewhere>::default();
    let apart = load_from(&[source], &Lists::default(), now(), Some(&holder));
    assert_eq!(apart.findings, here.findings, "what is found does not depend on where the keys are");
    assert_eq!(apart.files_read, here.files_read);
    let seen = |loaded: &Loaded| {
        let of = |certificate: &Arc<Certificate>| {
            let (files, chain) = (certificate.files().to_vec(), certificate.chain().to_vec());
            (files, chain, certificate.key_id(), certificate.certified().key.algorithm())
        };
        loaded.certificates.iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(seen(&apart), seen(&here));
    here
}

/// Severity, reason and file name of each finding.
fn findings(loaded: &Loaded) -> Vec<(Severity, Reason, String)> {
    let name = |finding: &Finding| finding.file.file_name().unwrap().to_string_lossy().into_owned();
    loaded.findings.iter().map(|finding| (finding.severity, finding.reason, name(finding))).collect()
}

fn error(reason: Reason, file: &str) -> (Severity, Reason, String) {
    (Severity::Error, reason, file.to_owned())
}

fn warning(reason: Reason, file: &str) -> (Severity, Reason, String) {
    (Severity::Warning, reason, file.to_owned())
}

fn note(reason: Reason, file: &str) -> (Severity, Reason, String) {
    (Severity::Note, reason, file.to_owned())
}

fn file_names(loaded: &Loaded) -> Vec<Vec<String>> {
    let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
    loaded.certificates.iter().map(|certificate| certificate.files().iter().map(name).collect()).collect()
}

#[test]
fn one_file_with_chain_and_key_in_any_order() {
    let folder = Folder::new();
    let root = Maker::authority("root").self_signed();
    let middle = Maker::authority("middle").signed_by(&root);
    let leaf = Maker::new(&["a.example.org", "*.B.example.org"]).signed_by(&middle);
    for content in [
        leaf.pem() + &middle.pem() + &leaf.key_pem(),
        leaf.key_pem() + &leaf.pem() + &middle.pem(),
        leaf.pem() + &leaf.key_pem() + &middle.pem(),
    ] {
        let loaded = load_file(&folder.put("all.pem", content), None);
        assert_eq!(findings(&loaded), []);
        let certificate = &loaded.certificates[0];
        assert_eq!(certificate.chain(), [leaf.certificate.der().clone(), middle.certificate.der().clone()]);
        assert_eq!(certificate.dns_names(), ["a.example.org".into(), "*.b.example.org".into()]);
        assert_eq!(certificate.kind(), "ECDSA-P256");
        assert!(certificate.is_valid_at(NOW));
        assert_eq!((certificate.not_before(), certificate.not_after()), (1_767_225_600, 1_798_761_600));
    }
}

#[test]
fn every_form_of_key_that_openssl_writes_is_read() {
    let folder = Folder::new();
    folder.openssl("genrsa -out rsa8.key 2048");
    folder.openssl("rsa -in rsa8.key -traditional -out rsa1.key");
    folder.openssl("ecparam -name prime256v1 -genkey -out p256.key"); // SEC 1, with EC PARAMETERS in front
    folder.openssl("genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-384 -out p384.key"); // PKCS#8
    folder.openssl("ecparam -name secp521r1 -genkey -noout -out p521.key");
    folder.openssl("genpkey -algorithm ed25519 -out ed25519.key");
    let expected = [
        ("rsa8", "RSA-2048"),
        ("rsa1", "RSA-2048"),
        ("p256", "ECDSA-P256"),
        ("p384", "ECDSA-P384"),
        ("p521", "ECDSA-P521"),
        ("ed25519", "Ed25519"),
    ];
    for (name, kind) in expected {
        folder.openssl(&format!(
            "req -x509 -key {name}.key -subj /CN={name} -addext subjectAltName=DNS:{name}.example.org,IP:::1 -days 36500 \
             -out {name}.crt"
        ));
        let loaded = load_file(&folder.at(&format!("{name}.crt")), Some(&folder.at(&format!("{name}.key"))));
        let errors: Vec<_> =
            loaded.findings.iter().filter(|finding| finding.severity == Severity::Error).collect();
        assert!(errors.is_empty(), "{name}: {errors:?}");
        assert_eq!(loaded.certificates[0].kind(), kind, "{name}");
        assert_eq!(loaded.certificates[0].ip_names(), ["::1".parse::<std::net::IpAddr>().unwrap()]);
    }
}

#[test]
fn encrypted_keys_are_named_as_such() {
    let folder = Folder::new();
    let made = Maker::new(&["a.example.org"]).self_signed();
    let certificate = folder.put("a.crt", made.pem());
    folder.put("plain.key", made.key_pem());
    folder.openssl("pkcs8 -topk8 -in plain.key -passout pass:x -out pkcs8.key");
    folder.openssl("ec -in plain.key -aes128 -passout pass:x -out sec1.key");
    for name in ["pkcs8.key", "sec1.key"] {
        let loaded = load_file(&certificate, Some(&folder.at(name)));
        assert_eq!(findings(&loaded), [error(Reason::EncryptedKey, name)]);
        assert!(loaded.findings[0].hint.as_ref().unwrap().contains("openssl pkey -in"));
        assert!(!loaded.may_be_half_written());
    }
}

#[test]
fn weak_and_unusable_keys_are_refused_with_the_reason() {
    let folder = Folder::new();
    folder.openssl("req -x509 -newkey rsa:1024 -nodes -keyout weak.key -subj /CN=weak -addext subjectAltName=DNS:weak.example.org -out weak.crt");
    folder.openssl("ecparam -name secp256k1 -genkey -noout -out odd.key");
    folder.openssl("req -x509 -key odd.key -subj /CN=odd.example.org -out odd.crt");
    let loaded = load_file(&folder.at("weak.crt"), Some(&folder.at("weak.key")));
    assert_eq!(findings(&loaded), [error(Reason::WeakKey, "weak.key")]);
    let loaded = load_file(&folder.at("odd.crt"), Some(&folder.at("odd.key")));
    assert_eq!(findings(&loaded), [error(Reason::BadKey, "odd.key")]);
    let loaded = load_folder(&folder);
    assert!(findings(&loaded).contains(&error(Reason::WeakKey, "weak.crt")), "{:?}", findings(&loaded));
    assert!(findings(&loaded).contains(&error(Reason::BadKey, "odd.crt")));
    assert!(loaded.findings.iter().any(|finding| finding.message.contains("1024 bits")));
}

#[test]
fn a_key_that_does_not_fit_is_an_error_that_waiting_may_cure() {
    let folder = Folder::new();
    let made = Maker::new(&["a.example.org"]).self_signed();
    let other = Maker::new(&["a.example.org"]).self_signed();
    let certificate = folder.put("a.crt", made.pem());
    let key = folder.put("a.key", other.key_pem());
    let loaded = load_file(&certificate, Some(&key));
    assert_eq!(findings(&loaded), [error(Reason::KeyDoesNotFit, "a.key")]);
    assert!(loaded.may_be_half_written());
    assert!(loaded.findings[0].message.contains("a.crt"));
    let loaded = load_folder(&folder);
    assert_eq!(findings(&loaded), [error(Reason::KeyDoesNotFit, "a.key")]);
    let loaded = load_file(&folder.put("b.pem", made.pem() + &other.key_pem()), None);
    assert_eq!(findings(&loaded), [error(Reason::KeyDoesNotFit, "b.pem")]);
}

#[test]
fn broken_files_are_named_with_what_is_broken() {
    let folder = Folder::new();
    let made = Maker::new(&["a.example.org"]).self_signed();
    let whole = made.both();
    let key = folder.put("good.key", made.key_pem());
    let certificate = folder.put("good.crt", made.pem());
    let fifo = folder.at("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let no_base64 = made.pem().replace('M', "?");
    let no_certificate = "-----BEGIN CERTIFICATE-----\nAAEC\n-----END CERTIFICATE-----\n";
    let key_pem = made.key_pem();
    let cases: &[(&str, &[u8], Reason)] = &[
        ("empty", b"", Reason::Empty),
        ("cut", &whole.as_bytes()[..200], Reason::Truncated),
        ("text", b"hello\n", Reason::NotPem),
        ("der", made.certificate.der(), Reason::NotPem),
        ("no-base64", no_base64.as_bytes(), Reason::BadPem),
        ("no-certificate", no_certificate.as_bytes(), Reason::BadCertificate),
        ("large", &vec![b'x'; 2_000_000], Reason::TooLarge),
        ("key", key_pem.as_bytes(), Reason::NoCertificate),
    ];
    for (name, content, reason) in cases {
        let loaded = load_file(&folder.put(name, content), Some(&key));
        assert_eq!(findings(&loaded), [error(*reason, name)]);
    }
    assert_eq!(findings(&load_file(&certificate, None)), [error(Reason::NoKey, "good.crt")]);
    assert_eq!(findings(&load_file(&certificate, Some(&certificate))), [error(Reason::NoKey, "good.crt")]);
    assert_eq!(findings(&load_file(&folder.at("none"), Some(&key))), [error(Reason::Missing, "none")]);
    assert_eq!(findings(&load_file(&fifo, Some(&key))), [error(Reason::NotAFile, "fifo")]);
    let joined = made.pem().trim_end().to_owned() + &made.key_pem();
    let loaded = load_file(&folder.put("joined", joined), None);
    assert_eq!(findings(&loaded), [error(Reason::BadPem, "joined")]);
    assert!(loaded.findings[0].hint.as_ref().unwrap().contains("line break"));
}

/// All the cuts of a combined file: never a certificate without an error unless the pair is whole.
/// Root may read everything, so that some failures do not come by themselves where tests run.
#[test]
fn every_failure_to_read_has_its_words_and_its_cure() {
    use std::io::{Error, ErrorKind};
    let refused = |kind| Failure::Refused(Error::from(kind));
    let table = [
        (Failure::Missing, Reason::Missing, "is not there", None),
        (
            refused(ErrorKind::PermissionDenied),
            Reason::Unreadable,
            "cannot be read: permission denied",
            Some("let the user this program runs as read it"),
        ),
        (refused(ErrorKind::TimedOut), Reason::Unreadable, "cannot be read: timed out", None),
        (Failure::NotAFile("a FIFO"), Reason::NotAFile, "is a FIFO, expected a file", None),
        (
            Failure::NotAFile("a folder"),
            Reason::NotAFile,
            "is a folder, expected a file",
            Some("name it as a folder of certificates"),
        ),
        (Failure::TooLarge(1 << 30), Reason::TooLarge, "has 1073741824 bytes, expected at most", None),
        (Failure::Changing, Reason::Changing, "changed each time while it was read", None),
    ];
    for (failure, reason, words, hint) in table {
        let finding = failed(Path::new("a.pem"), &failure);
        assert_eq!((finding.severity, finding.reason), (Severity::Error, reason));
        assert!(finding.message.starts_with(words), "{finding}");
        assert_eq!(finding.hint.is_some(), hint.is_some(), "{finding}");
        assert!(finding.hint.unwrap_or_default().starts_with(hint.unwrap_or_default()));
    }
}

#[test]
fn no_part_of_a_pair_is_taken_for_the_whole() {
    let folder = Folder::new();
    let made = Maker::new(&["a.example.org"]).self_signed();
    let whole = made.both();
    for end in (0..whole.trim_end().len()).step_by(7) {
        let loaded = load_file(&folder.put("a.pem", &whole.as_bytes()[..end]), None);
        assert!(loaded.certificates.is_empty(), "cut at {end}");
        assert!(loaded.has_errors() && loaded.may_be_half_written(), "cut at {end}: {:?}", findings(&loaded));
    }
}

#[test]
fn dates_are_warnings_and_still_served() {
    let folder = Folder::new();
    let old = Maker::new(&["a.example.org"]).valid((2020, 1, 1), (2026, 10, 1)).self_signed();
    let new = Maker::new(&["a.example.org"]).valid((2026, 12, 1), (2027, 1, 1)).self_signed();
    let loaded = load_file(&folder.put("old.pem", old.both()), None);
    assert_eq!(findings(&loaded), [warning(Reason::Expired, "old.pem")]);
    assert!(
        loaded.findings[0].message.contains("31 days ago, on 2026-10-01"),
        "{}",
        loaded.findings[0].message
    );
    assert_eq!(loaded.certificates.len(), 1);
    let loaded = load_file(&folder.put("new.pem", new.both()), None);
    assert_eq!(findings(&loaded), [warning(Reason::NotYetValid, "new.pem")]);
    let root = Maker::authority("root").self_signed();
    let middle = Maker::authority("middle").valid((2020, 1, 1), (2026, 10, 1)).signed_by(&root);
    let leaf = Maker::new(&["a.example.org"]).signed_by(&middle);
    let loaded = load_file(&folder.put("chain.pem", leaf.both() + &middle.pem()), None);
    assert_eq!(findings(&loaded), [warning(Reason::Expired, "chain.pem")]);
    assert!(loaded.findings[0].message.contains("intermediate"));
}

#[test]
fn chains_are_put_in_order_and_strangers_left_out() {
    let folder = Folder::new();
    let root = Maker::authority("root").self_signed();
    let middle = Maker::authority("middle").signed_by(&root);
    let leaf = Maker::new(&["a.example.org"]).signed_by(&middle);
    let stranger = Maker::authority("stranger").self_signed();
    let expected = [leaf.certificate.der().clone(), middle.certificate.der().clone()];

    let reversed = folder.put("reversed.pem", middle.pem() + &leaf.both());
    let loaded = load_file(&reversed, None);
    assert_eq!(findings(&loaded), [warning(Reason::ChainOrder, "reversed.pem")]);
    assert_eq!(loaded.certificates[0].chain(), expected);

    let with_stranger = folder.put("stranger.pem", leaf.both() + &stranger.pem() + &middle.pem());
    let loaded = load_file(&with_stranger, None);
    assert_eq!(findings(&loaded), [warning(Reason::NotInChain, "stranger.pem")]);
    assert_eq!(loaded.certificates[0].chain(), expected);

    let with_root = folder.put("root.pem", leaf.both() + &middle.pem() + &root.pem());
    let loaded = load_file(&with_root, None);
    assert_eq!(findings(&loaded), [note(Reason::ChainNeedless, "root.pem")]);
    assert_eq!(loaded.certificates[0].chain().len(), 3);
}

#[test]
fn names_that_nobody_can_ask_for_are_reported() {
    let folder = Folder::new();
    folder.openssl("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout a.key -subj /CN=www.example.org -days 36500 -out a.crt");
    // openssl dates from the machine's clock, whatever its time.
    let later = SystemTime::UNIX_EPOCH + Duration::from_secs(3_350_000_000);
    let source = Source::File { certificate: folder.at("a.crt"), key: Some(folder.at("a.key")), ocsp: None };
    let loaded = load(&[source], &Lists::default(), later);
    let (severity, reason, _) = &findings(&loaded)[0];
    assert_eq!((*severity, *reason), (Severity::Warning, Reason::NoNames));
    assert!(loaded.findings.iter().any(|finding| finding.message.contains("www.example.org")));
    assert_eq!(loaded.certificates[0].dns_names(), ["www.example.org".into()], "it is chosen for that name");
    let odd = Maker::new(&["f*.example.org", "good.example.org"]).self_signed();
    let loaded = load_file(&folder.put("odd.pem", odd.both()), None);
    assert_eq!(findings(&loaded), [warning(Reason::UnusableName, "odd.pem")]);
    assert_eq!(loaded.certificates[0].dns_names(), ["good.example.org".into()]);
}

#[test]
fn a_key_that_others_can_read_is_a_warning_with_the_cure() {
    let folder = Folder::new();
    let made = Maker::new(&["a.example.org"]).self_signed();
    let path = folder.put("a.pem", made.both());
    for (mode, readers) in [(0o640, "its group"), (0o644, "all users"), (0o602, "all users")] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let loaded = load_file(&path, None);
        assert_eq!(findings(&loaded), [warning(Reason::Permissions, "a.pem")]);
        assert!(loaded.findings[0].message.contains(readers));
        assert!(loaded.findings[0].message.contains(&format!("{mode:04o}")));
        assert_eq!(loaded.findings[0].hint, Some(format!("chmod 600 {}", path.display())));
    }
    // A certificate alone is no secret.
    let certificate = folder.put("a.crt", made.pem());
    fs::set_permissions(&certificate, fs::Permissions::from_mode(0o644)).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(findings(&load_file(&certificate, Some(&path))), []);
}

fn example(name: &str) -> Made {
    Maker::new(&[name]).self_signed()
}

#[test]
fn a_folder_pairs_by_key_whatever_the_names() {
    let folder = Folder::new();
    let (one, two, three) =
        (example("one.example.org"), example("two.example.org"), example("three.example.org"));
    folder.put("1.pem", one.pem());
    folder.put("z.txt", one.key_pem());
    folder.put("2.crt", two.pem());
    folder.put("2.key", two.key_pem());
    folder.put("3", three.both());
    let loaded = load_folder(&folder);
    assert_eq!(findings(&loaded), []);
    assert_eq!(file_names(&loaded), [vec!["1.pem", "z.txt"], vec!["2.crt", "2.key"], vec!["3"]]);
}

#[test]
fn certbots_folder_serves_the_full_chain_once() {
    let folder = Folder::new();
    let real = Folder::new();
    let root = Maker::authority("root").self_signed();
    let middle = Maker::authority("middle").signed_by(&root);
    let leaf = Maker::new(&["a.example.org"]).signed_by(&middle);
    for (name, content) in [
        ("cert.pem", leaf.pem()),
        ("chain.pem", middle.pem()),
        ("fullchain.pem", leaf.pem() + &middle.pem()),
        ("privkey.pem", leaf.key_pem()),
    ] {
        symlink(real.put(name, content), folder.at(name)).unwrap();
    }
    folder.put("README", "This folder contains your keys.\n");
    let loaded = load_folder(&folder);
    assert_eq!(file_names(&loaded), [["fullchain.pem", "privkey.pem"]]);
    assert_eq!(loaded.certificates[0].chain().len(), 2);
    let expected = [
        note(Reason::NotPem, "README"),
        note(Reason::Duplicate, "cert.pem"),
        note(Reason::UnusedAuthority, "chain.pem"),
    ];
    assert_eq!(findings(&loaded), expected);
}

/// The order of a PKCS#12 file has no meaning: what its key fits comes first, without a warning.
#[test]
fn pkcs12_is_read_in_a_folder_and_by_its_name() {
    let folder = Folder::new();
    let ca = Maker::authority("ca").self_signed();
    let own = Maker::new(&["p12.example.org"]).signed_by(&ca);
    folder.put("in.pem", own.both());
    folder.put("first.pem", ca.pem());
    fs::create_dir(folder.at("certificates")).unwrap();
    folder.openssl("pkcs12 -export -in in.pem -certfile first.pem -passout pass: -out certificates/web.pfx");
    folder.openssl("pkcs12 -export -in in.pem -passout pass:secret -out certificates/locked.p12");
    let loaded = load(&[Source::Folder(folder.at("certificates"))], &Lists::default(), now());
    let names: Vec<_> = loaded.certificates.iter().map(|made| made.dns_names()[0].to_string()).collect();
    assert_eq!((names, loaded.certificates[0].chain().len()), (vec!["p12.example.org".to_owned()], 2));
    let seen: Vec<_> = loaded.findings.iter().map(|finding| (finding.severity, finding.reason)).collect();
    assert_eq!(seen, [(Severity::Warning, Reason::BadPkcs12), (Severity::Note, Reason::ChainNeedless)]);
    let load_file = |name: &str| {
        let source = Source::File { certificate: folder.at(name), key: None, ocsp: None };
        load(&[source], &Lists::default(), now())
    };
    assert_eq!(load_file("certificates/web.pfx").certificates.len(), 1);
    let locked = load_file("certificates/locked.p12");
    assert_eq!(locked.findings[0].severity, Severity::Error);
    assert_eq!(locked.findings[0].message, "is PKCS#12 with a password, expected an empty one");
    assert!(locked.findings[0].hint.as_deref().unwrap().starts_with("openssl pkcs12 -in "));
}

#[test]
fn every_file_that_is_not_used_is_named_with_the_reason() {
    let folder = Folder::new();
    let served = example("served.example.org");
    folder.put("served.pem", served.both());
    folder.put(".hidden.pem", served.both());
    fs::create_dir(folder.at("inside")).unwrap();
    folder.put("again.pem", served.both());
    folder.put("key-alone.key", example("x.example.org").key_pem());
    folder.put("same.key", served.key_pem());
    folder.put("no-key.crt", example("y.example.org").pem());
    folder.put("other-no-key.crt", example("z.example.org").pem());
    folder.put("ca.pem", Maker::authority("ca").self_signed().pem());
    folder.put("bundle.p12", b"\x30\x82\x09\x00\x02\x01\x03\x30\x82");
    folder
        .put("request.csr", "-----BEGIN CERTIFICATE REQUEST-----\nAAEC\n-----END CERTIFICATE REQUEST-----\n");
    folder.put("dh.pem", "-----BEGIN DH PARAMETERS-----\nAAEC\n-----END DH PARAMETERS-----\n");
    folder.put("notes.txt", "do not delete\n");
    symlink(folder.at("nowhere"), folder.at("dangling.pem")).unwrap();
    let loaded = load_folder(&folder);
    assert_eq!(file_names(&loaded), [["again.pem"]]);
    let mut found = findings(&loaded);
    found.sort_by(|a, b| a.2.cmp(&b.2));
    let expected = [
        note(Reason::Hidden, ".hidden.pem"),
        warning(Reason::BadPkcs12, "bundle.p12"),
        note(Reason::UnusedAuthority, "ca.pem"),
        error(Reason::Missing, "dangling.pem"),
        note(Reason::UnusedSection, "dh.pem"),
        note(Reason::SubFolder, "inside"),
        warning(Reason::KeyAlone, "key-alone.key"),
        warning(Reason::NoKey, "no-key.crt"),
        note(Reason::NotPem, "notes.txt"),
        warning(Reason::NoKey, "other-no-key.crt"),
        note(Reason::UnusedSection, "request.csr"),
        note(Reason::Duplicate, "same.key"),
        note(Reason::Duplicate, "served.pem"),
    ];
    assert_eq!(found, expected);
}

#[test]
fn an_issuer_that_lies_beside_and_is_not_sent_is_pointed_at() {
    let folder = Folder::new();
    let root = Maker::authority("root").self_signed();
    let middle = Maker::authority("middle").signed_by(&root);
    let leaf = Maker::new(&["a.example.org"]).signed_by(&middle);
    folder.put("a.crt", leaf.pem());
    folder.put("a.key", leaf.key_pem());
    folder.put("a.ca", middle.pem());
    let loaded = load_folder(&folder);
    assert_eq!(
        findings(&loaded),
        [warning(Reason::ChainIncomplete, "a.crt"), note(Reason::UnusedAuthority, "a.ca")]
    );
    assert!(loaded.findings[0].hint.as_ref().unwrap().starts_with("append it: cat"));
}

#[test]
fn folders_that_give_nothing_are_errors() {
    let folder = Folder::new();
    let loaded = load_folder(&folder);
    assert_eq!(loaded.findings[0].reason, Reason::NoCertificate);
    assert!(loaded.has_errors());
    let loaded = load(&[Source::Folder(folder.at("none"))], &Lists::default(), now());
    assert_eq!(findings(&loaded), [error(Reason::Missing, "none")]);
    let file = folder.put("file", "");
    let loaded = load(&[Source::Folder(file)], &Lists::default(), now());
    assert_eq!(findings(&loaded), [error(Reason::NotAFile, "file")]);
}

#[test]
fn a_certificate_found_twice_is_served_once() {
    let folder = Folder::new();
    let path = folder.put("a.pem", example("a.example.org").both());
    let file = Source::File { certificate: path, key: None, ocsp: None };
    let loaded = load(&[file.clone(), file, Source::Folder(folder.path().into())], &Lists::default(), now());
    assert_eq!(loaded.certificates.len(), 1);
    assert_eq!(findings(&loaded), [note(Reason::Duplicate, "a.pem"), note(Reason::Duplicate, "a.pem")]);
}

#[test]
fn changes_are_seen_without_reading() {
    let folder = Folder::new();
    let made = example("a.example.org");
    folder.put("a.crt", made.pem());
    folder.put("a.key", made.key_pem());
    let sources = [Source::Folder(folder.path().into())];
    let fresh = || load(&sources, &Lists::default(), now()).files_read;
    let seen = fresh();
    assert!(!changed(&seen, None));
    folder.put("b.pem", "x");
    assert!(changed(&seen, None), "a file was added");
    let seen = fresh();
    fs::rename(folder.at("b.pem"), folder.at("a.key")).unwrap();
    assert!(changed(&seen, None), "a file was replaced");
    let seen = fresh();
    File::options().append(true).open(folder.at("a.crt")).unwrap();
    assert!(!changed(&seen, None), "nothing was written");
    std::io::Write::write_all(&mut File::options().append(true).open(folder.at("a.crt")).unwrap(), b"\n")
        .unwrap();
    assert!(changed(&seen, None), "a file was written to");
    let missing = folder.at("later.pem");
    let seen = load_file(&missing, None).files_read;
    assert!(!changed(&seen, None));
    folder.put("later.pem", "x");
    assert!(changed(&seen, None), "a file that was missing came");
}

#[test]
fn the_folders_to_watch_are_those_of_the_names_and_of_what_they_lead_to() {
    let (folder, real) = (Folder::new(), Folder::new());
    let target = real.put("a.pem", example("a.example.org").both());
    symlink(&target, folder.at("a.pem")).unwrap();
    let loaded = load_file(&folder.at("a.pem"), None);
    let mut expected = vec![folder.path().to_path_buf(), real.path().canonicalize().unwrap()];
    expected.sort();
    assert_eq!(loaded.folders, expected);
}

/// Two states of a pair, swapped by rename repeatedly while it is read: each result is one whole pair or an error that
/// requests another attempt; never a mixture.
#[test]
fn a_pair_under_replacement_is_whole_or_an_error() {
    use std::sync::atomic::AtomicBool;
    let folder = Folder::new();
    let pairs = [example("a.example.org"), example("a.example.org")];
    let put = |made: &Made| {
        for (name, content) in [("a.crt", made.pem()), ("a.key", made.key_pem())] {
            fs::rename(folder.put("aside", content), folder.at(name)).unwrap();
        }
    };
    put(&pairs[0]);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for made in pairs.iter().cycle() {
                put(made);
                if stop.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
        for _ in 0..300 {
            // Once: in between the files change.
            let (certificate, key) = (folder.at("a.crt"), Some(folder.at("a.key")));
            let loaded = load(&[Source::File { certificate, key, ocsp: None }], &Lists::default(), now());
            match loaded.certificates.first() {
                Some(certificate) => certificate.certified().keys_match().unwrap(),
                None => assert!(loaded.may_be_half_written(), "{:?}", findings(&loaded)),
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn what_was_served_before_is_kept_and_only_that() {
    let folder = Folder::new();
    let (stays, goes) = (Maker::new(&["stays.example.org"]), Maker::new(&["goes.example.org"]));
    folder.put("stays.pem", stays.self_signed().both());
    folder.put("renewed.pem", goes.self_signed().both());
    let before = load_folder(&folder).certificates;
    folder.put("renewed.pem", goes.self_signed().both());
    let mut after = load_folder(&folder).certificates;
    assert!(before.iter().zip(&after).all(|(before, after)| !Arc::ptr_eq(before, after)));
    keep_known(&mut after, &before);
    let kept: Vec<_> = before.iter().zip(&after).map(|(before, after)| Arc::ptr_eq(before, after)).collect();
    assert_eq!(kept, [false, true], "renewed, stays");
    // The same certificate in another file is reported as from there.
    fs::rename(folder.path().join("stays.pem"), folder.path().join("moved.pem")).unwrap();
    let mut moved = load_folder(&folder).certificates;
    keep_known(&mut moved, &before);
    assert_eq!(moved[0].file(), folder.path().join("moved.pem"));
}
