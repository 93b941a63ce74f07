//! Tests for the certificates served after each step of a renewal, in every order, and for bad or missing files.

use std::fs;
use std::time::Duration;

use super::*;
use crate::load::load;
use crate::weak::Lists;
use handfast_testkit::maker::{Folder, Made, Maker, NOW};

const KEEP: Duration = Duration::from_secs(600);

/// A service that is reloaded repeatedly.
struct Served {
    sources: Vec<Source>,
    certificates: Vec<Arc<Certificate>>,
    problems: Vec<FileProblem>,
    dropped: usize,
    now: i64,
    errors: Vec<String>,
}

impl Served {
    fn start(sources: Vec<Source>) -> Self {
        let loaded = load(&sources, &Lists::default(), at(NOW));
        assert!(!loaded.has_errors(), "{:?}", loaded.findings);
        let certificates = loaded.certificates;
        Self { sources, certificates, problems: Vec::new(), dropped: 0, now: NOW, errors: Vec::new() }
    }

    fn folder(folder: &Folder) -> Self {
        Self::start(vec![Source::Folder(folder.path().into())])
    }

    fn reload(&mut self) {
        let before =
            Before { sources: &self.sources, certificates: &self.certificates, problems: &self.problems };
        let mut loaded = load(&self.sources, &Lists::default(), at(self.now));
        let kept = keep(&mut loaded, &self.sources, before, KEEP, at(self.now));
        let errors = loaded.findings.iter().filter(|finding| finding.severity == Severity::Error);
        self.errors = errors.map(ToString::to_string).collect();
        if self.errors.is_empty() {
            (self.certificates, self.problems) = (loaded.certificates, kept.problems);
            self.dropped = kept.dropped.len();
        }
    }

    /// Reloads, and gives what is served under a name: the certificate in DER.
    fn after_reload(&mut self, name: &str) -> Option<Vec<u8>> {
        self.reload();
        let has =
            |certificate: &&Arc<Certificate>| certificate.dns_names().iter().any(|known| **known == *name);
        self.certificates.iter().find(has).map(|certificate| certificate.chain()[0].to_vec())
    }

    fn problems(&self) -> Vec<(ProblemKind, String, bool)> {
        let name = |problem: &FileProblem| problem.file.file_name().unwrap().to_string_lossy().into_owned();
        self.problems.iter().map(|problem| (problem.kind, name(problem), problem.kept.is_some())).collect()
    }
}

fn at(seconds: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds as u64)
}

fn made(name: &str) -> Made {
    Maker::new(&[name]).self_signed()
}

fn der(made: &Made) -> Option<Vec<u8>> {
    Some(made.certificate.der().to_vec())
}

fn broken(name: &str) -> (ProblemKind, String, bool) {
    (ProblemKind::Broken, name.to_owned(), true)
}

/// Every order of some acts.
fn orders(count: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return vec![Vec::new()];
    }
    let shorter = orders(count - 1);
    let with = |order: &Vec<usize>, place: usize| {
        let mut order = order.clone();
        order.insert(place, count - 1);
        order
    };
    shorter.iter().flat_map(|order| (0..count).map(move |place| with(order, place))).collect()
}

#[test]
fn a_pair_can_be_removed_and_written_in_every_order() {
    // Names that show that files belong together, and names that do not.
    for (chain_name, key_name) in [("www.crt", "www.key"), ("server.pem", "private.pem")] {
        // Removing and writing both files, half a chain in between; each file's own acts in their order.
        for order in orders(6) {
            let place = |act: usize| order.iter().position(|known| *known == act);
            // 0 removes the chain, 1 writes half of it, 2 all of it; 3, 4 and 5 the same of the key.
            if !(place(0) < place(1) && place(1) < place(2) && place(3) < place(4) && place(4) < place(5)) {
                continue;
            }
            let folder = Folder::new();
            let (old, new, other) = (made("www.example"), made("www.example"), made("other.example"));
            folder.put("a-first.pem", other.both());
            folder.put(chain_name, old.pem());
            folder.put(key_name, old.key_pem());
            let mut served = Served::folder(&folder);
            for (number, act) in order.iter().enumerate() {
                let half = |text: &str| text[..text.len() / 2].to_owned();
                match act {
                    0 => fs::remove_file(folder.at(chain_name)).unwrap(),
                    1 => drop(folder.put(chain_name, half(&new.pem()))),
                    2 => drop(folder.put(chain_name, new.pem())),
                    3 => fs::remove_file(folder.at(key_name)).unwrap(),
                    4 => drop(folder.put(key_name, half(&new.key_pem()))),
                    _ => drop(folder.put(key_name, new.key_pem())),
                }
                let expected = if number == 5 { der(&new) } else { der(&old) };
                assert_eq!(served.after_reload("www.example"), expected, "{order:?} after {number}");
                assert_eq!(served.errors, Vec::<String>::new(), "{order:?} after {number}");
                assert_eq!(served.certificates.len(), 2, "{order:?} after {number}");
                assert_eq!(served.problems.is_empty(), number == 5, "{order:?}: {:?}", served.problems);
            }
        }
    }
}

#[test]
fn one_bad_file_keeps_nothing_from_the_others() {
    let folder = Folder::new();
    let (old_a, old_b) = (made("a.example"), made("b.example"));
    folder.put("a.pem", old_a.both());
    folder.put("b.pem", old_b.both());
    let mut served = Served::folder(&folder);
    let (new_a, new_b) = (made("a.example"), made("b.example"));
    folder.put("a.pem", &new_a.both()[..300]);
    folder.put("b.pem", new_b.both());
    folder.put("c.pem", "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n");
    assert_eq!(served.after_reload("b.example"), der(&new_b));
    assert_eq!(served.after_reload("a.example"), der(&old_a));
    assert_eq!(served.problems(), [broken("a.pem"), (ProblemKind::Broken, "c.pem".into(), false)]);
    assert!(served.problems[0].what.contains("cut short"), "{:?}", served.problems);
    served.now += 100 * 86_400;
    assert_eq!(served.after_reload("a.example"), der(&old_a), "it is kept until the file is mended");
    assert_eq!(served.problems[0].since, NOW);
    folder.put("a.pem", new_a.both());
    fs::remove_file(folder.at("c.pem")).unwrap();
    served.now = NOW;
    assert_eq!(served.after_reload("a.example"), der(&new_a));
    assert_eq!(served.problems(), []);
}

#[test]
fn a_removed_one_is_served_for_a_while_and_keeps_its_place() {
    let folder = Folder::new();
    let (first, second) = (made("a.example"), made("b.example"));
    folder.put("a.pem", first.both());
    folder.put("b.pem", second.both());
    let mut served = Served::folder(&folder);
    fs::remove_file(folder.at("a.pem")).unwrap();
    for seconds in [0, 1, 598] {
        served.now = NOW + seconds;
        assert_eq!(served.after_reload("a.example"), der(&first));
        assert_eq!(served.problems(), [(ProblemKind::Removed, "a.pem".into(), true)]);
        assert_eq!(served.certificates[0].dns_names()[0].as_ref(), "a.example", "it stays the default");
    }
    served.now = NOW + 600;
    assert_eq!(served.after_reload("a.example"), None);
    assert_eq!((served.problems(), served.dropped), (vec![], 1));
    served.reload();
    assert_eq!(served.dropped, 0, "said once");
}

#[test]
fn what_was_replaced_under_another_name_is_gone_at_once() {
    let folder = Folder::new();
    let old = made("a.example");
    folder.put("a-2026.pem", old.both());
    let mut served = Served::folder(&folder);
    let new = made("a.example");
    folder.put("a-2027.pem", new.both());
    fs::remove_file(folder.at("a-2026.pem")).unwrap();
    assert_eq!(served.after_reload("a.example"), der(&new));
    assert_eq!((served.problems(), served.certificates.len()), (vec![], 1));
    // Moved as it is, and copied over another one.
    fs::rename(folder.at("a-2027.pem"), folder.at("b.pem")).unwrap();
    assert_eq!(served.after_reload("a.example"), der(&new));
    assert_eq!((served.problems(), served.certificates.len()), (vec![], 1));
    folder.put("c.pem", made("c.example").both());
    served.reload();
    folder.put("c.pem", new.both());
    assert_eq!(served.after_reload("c.example"), None, "a copy of a good one is no fault");
    assert_eq!((served.problems(), served.certificates.len()), (vec![], 1));
}

#[test]
fn another_kind_of_key_or_a_wildcard_is_no_replacement() {
    let folder = Folder::new();
    let old = made("a.example");
    folder.put("a.pem", old.both());
    folder.put("b.pem", made("*.example").both());
    folder.put("c.pem", Maker::new(&["a.example"]).algorithm(&rcgen::PKCS_ED25519).self_signed().both());
    let mut served = Served::folder(&folder);
    fs::remove_file(folder.at("a.pem")).unwrap();
    assert_eq!(served.after_reload("a.example"), der(&old));
    assert_eq!(served.problems(), [(ProblemKind::Removed, "a.pem".into(), true)]);
}

#[test]
fn a_folder_that_is_gone_or_empty_is_broken_and_no_removal() {
    let folder = Folder::new();
    let old = made("a.example");
    fs::create_dir(folder.at("live")).unwrap();
    folder.put("live/a.pem", old.both());
    let mut served = Served::start(vec![Source::Folder(folder.at("live"))]);
    fs::remove_file(folder.at("live/a.pem")).unwrap();
    for _ in 0..2 {
        served.now += 86_400;
        assert_eq!(served.after_reload("a.example"), der(&old));
        assert_eq!(served.problems(), [broken("live")]);
        let _ = fs::remove_dir(folder.at("live"));
    }
    assert!(served.problems[0].what.contains("is not there"), "{:?}", served.problems);
}

#[test]
fn a_named_file_is_kept_until_it_is_mended() {
    let folder = Folder::new();
    let (old, other) = (made("a.example"), made("b.example"));
    let (chain, key) = (folder.put("a.crt", old.pem()), folder.put("a.key", old.key_pem()));
    let second = folder.put("b.pem", other.both());
    let mut served = Served::start(vec![
        Source::File { certificate: chain.clone(), key: Some(key.clone()), ocsp: None },
        Source::File { certificate: second, key: None, ocsp: None },
    ]);
    let new_other = made("b.example");
    folder.put("b.pem", new_other.both());
    fs::remove_file(&chain).unwrap();
    fs::remove_file(&key).unwrap();
    for file in ["a.crt", "a.key"] {
        served.now += 86_400;
        assert_eq!(served.after_reload("a.example"), der(&old), "{file}");
        assert_eq!(served.after_reload("b.example"), der(&new_other));
        assert_eq!(served.certificates[0].dns_names()[0].as_ref(), "a.example", "it stays the default");
        assert_eq!(served.problems(), [broken(file)]);
        folder.put("a.crt", old.pem());
    }
    folder.put("a.key", made("a.example").key_pem());
    assert_eq!(served.after_reload("a.example"), der(&old));
    assert!(served.problems[0].what.contains("key does not fit"), "{:?}", served.problems);
    folder.put("a.key", old.key_pem());
    assert_eq!(served.after_reload("a.example"), der(&old));
    assert_eq!(served.problems(), []);
}

#[test]
fn what_the_configuration_newly_names_stays_an_error() {
    let folder = Folder::new();
    let old = made("a.example");
    let good = folder.put("a.pem", old.both());
    let named = |certificate| Source::File { certificate, key: None, ocsp: None };
    let mut served = Served::start(vec![named(good.clone())]);
    let before = Before { sources: &served.sources, certificates: &served.certificates, problems: &[] };
    let bad = folder.put("b.pem", "no certificate");
    for sources in [
        vec![named(good.clone()), named(bad)],
        vec![Source::File { certificate: good, key: Some(folder.at("none.key")), ocsp: None }],
    ] {
        let mut loaded = load(&sources, &Lists::default(), at(NOW));
        let kept = keep(&mut loaded, &sources, before, KEEP, at(NOW));
        assert!(loaded.has_errors(), "{sources:?}");
        assert!(kept.problems.is_empty(), "{kept:?}");
    }
    // Certificates that it no longer names are dropped at once.
    served.sources = vec![Source::Folder(folder.path().join("none"))];
    served.reload();
    assert_eq!(served.errors.len(), 1, "{:?}", served.errors);
}

#[test]
fn an_expired_one_does_not_replace_what_works() {
    let folder = Folder::new();
    let (old, other) = (made("a.example"), made("b.example"));
    folder.put("a.pem", old.both());
    folder.put("b.pem", other.both());
    let mut served = Served::folder(&folder);
    let expired = Maker::new(&["a.example"]).valid((2020, 1, 1), (2021, 1, 1)).self_signed();
    let early = Maker::new(&["b.example"]).valid((2027, 1, 1), (2028, 1, 1)).self_signed();
    folder.put("a.pem", expired.both());
    folder.put("b.pem", early.both());
    assert_eq!(served.after_reload("a.example"), der(&old));
    assert_eq!(served.after_reload("b.example"), der(&other));
    assert_eq!(served.problems(), [broken("a.pem"), broken("b.pem")]);
    assert!(served.problems[0].what.contains("expired on 2021-01-01"), "{:?}", served.problems);
    // The very one that was served may expire.
    folder.put("a.pem", old.both());
    folder.put("b.pem", other.both());
    served.now = NOW + 365 * 86_400;
    assert_eq!(served.after_reload("a.example"), der(&old));
    assert_eq!(served.problems(), []);
}

#[test]
fn a_file_that_is_something_else_now_is_broken_and_not_removed() {
    let folder = Folder::new();
    let www = Maker::new(&["www.example.org"]).self_signed();
    folder.put("www.pem", www.both());
    folder.put("other.pem", Maker::new(&["other.example.org"]).self_signed().both());
    let mut served = Served::folder(&folder);
    folder.put("www.pem", "notes about certificates\n");
    assert_eq!(served.after_reload("www.example.org"), Some(www.certificate.der().to_vec()), "kept");
    assert_eq!(served.problems(), [(ProblemKind::Broken, "www.pem".to_owned(), true)]);
    fs::remove_file(folder.at("www.pem")).unwrap();
    served.reload();
    assert_eq!(served.problems(), [(ProblemKind::Removed, "www.pem".to_owned(), true)]);
}

#[test]
fn a_problem_is_known_by_its_file_its_kind_and_its_words() {
    let problem = |file: &str, kind, what: &str| FileProblem {
        file: file.into(),
        kind,
        what: what.into(),
        hint: None,
        kept: None,
        since: NOW,
    };
    let cut = problem("a.pem", ProblemKind::Broken, "is cut short");
    let before = [problem("b.pem", ProblemKind::Broken, "is cut short"), cut.clone()];
    assert!(FileProblem { since: NOW + 1, ..cut.clone() }.is_known(&before));
    assert!(!cut.is_known(&[]));
    for other in [
        problem("c.pem", ProblemKind::Broken, "is cut short"),
        problem("a.pem", ProblemKind::Removed, "is cut short"),
        problem("a.pem", ProblemKind::Broken, "is empty"),
    ] {
        assert!(!other.is_known(&before), "{other:?}");
    }
}

#[test]
fn a_problem_that_changes_is_a_new_one() {
    let folder = Folder::new();
    let old = made("a.example");
    folder.put("a.pem", old.both());
    let mut served = Served::folder(&folder);
    folder.put("a.pem", &old.both()[..300]);
    served.reload();
    served.now = NOW + 10;
    folder.put("a.pem", "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n");
    served.reload();
    assert_eq!(served.problems[0].since, NOW + 10, "{:?}", served.problems);
    served.now = NOW + 20;
    served.reload();
    assert_eq!(served.problems[0].since, NOW + 10, "{:?}", served.problems);
}

/// The first one is what clients without a name get, whatever the files are called.
#[test]
fn the_order_is_the_configurations_also_with_one_that_is_kept() {
    let folder = Folder::new();
    let (first, second) = (made("z.example"), made("a.example"));
    fs::create_dir(folder.at("z")).unwrap();
    fs::create_dir(folder.at("a")).unwrap();
    for (sources, files) in [
        (
            ["z.pem", "a.pem"].map(|name| Source::File {
                certificate: folder.at(name),
                key: None,
                ocsp: None,
            }),
            ["z.pem", "a.pem"],
        ),
        (["z", "a"].map(|name| Source::Folder(folder.at(name))), ["z/1.pem", "a/1.pem"]),
    ] {
        folder.put(files[0], first.both());
        folder.put(files[1], second.both());
        let mut served = Served::start(sources.into());
        for broken in files {
            folder.put(broken, "no certificate");
            assert_eq!(served.after_reload("z.example"), der(&first));
            let names: Vec<_> =
                served.certificates.iter().map(|known| known.dns_names()[0].to_string()).collect();
            assert_eq!(names, ["z.example", "a.example"], "{broken}");
        }
    }
}

#[test]
fn an_expired_one_replaces_another_expired_one() {
    let folder = Folder::new();
    let expired = |name: &str, year| Maker::new(&[name]).valid((2020, 1, 1), (year, 1, 1)).self_signed();
    let (first, second, renamed) =
        (expired("a.example", 2021), expired("a.example", 2022), expired("b.example", 2022));
    folder.put("a.pem", first.both());
    let mut served = Served::folder(&folder);
    folder.put("a.pem", second.both());
    assert_eq!(served.after_reload("a.example"), der(&second), "{:?}", served.problems);
    folder.put("a.pem", renamed.both());
    assert_eq!(served.after_reload("b.example"), der(&renamed), "{:?}", served.problems);
    // In a file beside it that is for its name.
    let other = expired("b.example", 2023);
    std::fs::remove_file(folder.at("a.pem")).unwrap();
    folder.put("c.pem", other.both());
    assert_eq!(served.after_reload("b.example"), der(&other), "{:?}", served.problems);
    assert_eq!(served.errors, [""; 0]);
}

/// A certificate that expires while it is served stays, with its warning; one that had expired before it came is not
/// taken.
#[test]
fn one_that_expired_while_it_was_served_lets_no_other_expired_one_in() {
    let folder = Folder::new();
    let year = 365 * 86_400;
    let (old, stranger) =
        (made("a.example"), Maker::new(&["b.example"]).valid((2020, 1, 1), (2021, 1, 1)).self_signed());
    folder.put("a.pem", old.both());
    let mut served = Served::folder(&folder);
    served.now = NOW + year;
    folder.put("b.pem", stranger.both());
    assert_eq!(served.after_reload("b.example"), None);
    assert_eq!(served.after_reload("a.example"), der(&old));
    assert_eq!(served.problems(), [(ProblemKind::Broken, "b.pem".into(), false)]);

    let mut loaded = load(&served.sources, &Lists::default(), at(served.now));
    let before = Before { sources: &served.sources, certificates: &served.certificates, problems: &[] };
    keep(&mut loaded, &served.sources, before, KEEP, at(served.now));
    let expired = loaded.findings.iter().filter(|finding| finding.reason == Reason::Expired);
    let files: Vec<_> = expired.map(|finding| (finding.severity, finding.file.clone())).collect();
    assert_eq!(files, [(Severity::Warning, folder.at("a.pem"))], "the other is reported as a problem, once");
}
