//! Tests for faults that a store survives: files that are half written, full disks, two processes.

use super::*;
use crate::testing::{NOW, pair};

fn store() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = Store::new(&folder.path().join("acme"));
    store.prepare().expect("it can be made");
    (folder, store)
}

fn name() -> Name {
    Name::parse("web.example.org").expect("a name")
}

fn install(store: &Store, pem: &str) -> Result<(), Error> {
    store.reserve(&name()).expect("there is room").install(pem, &name(), NOW)
}

fn files(store: &Store) -> Vec<String> {
    let mut names = Vec::new();
    for folder in store.folders() {
        for entry in fs::read_dir(&folder).expect("the folder is ours").flatten() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    names
}

#[test]
fn a_certificate_is_replaced_only_by_one_that_can_be_used() {
    let (_folder, store) = store();
    install(&store, &pair("web.example.org", NOW, 90)).expect("a good one");
    let before = store.certificate(&name(), NOW).expect("it is there");
    let cut = pair("web.example.org", NOW, 90);
    for (bad, why) in [
        ("", "is empty"),
        (&cut[..cut.len() / 3], ""),
        (&pair("other.example.org", NOW, 90), "not for web.example.org"),
        (&pair("web.example.org", NOW + 86_400, 90), "not valid"),
        (&pair("web.example.org", NOW - 91 * 86_400, 90), "not valid"),
    ] {
        let error = install(&store, bad).expect_err("it is refused").to_string();
        assert!(error.contains(why), "{error}");
        assert_eq!(store.certificate(&name(), NOW).as_ref(), Some(&before));
    }
    assert!(!files(&store).iter().any(|file| file.ends_with(".new")), "{:?}", files(&store));
}

#[test]
fn files_of_a_process_that_was_killed_are_removed_by_the_next_and_lose_nothing() {
    let (_folder, store) = store();
    install(&store, &pair("web.example.org", NOW, 90)).expect("a good one");
    let record = Record { failures: 3, ..Record::default() };
    store.save_record(&name(), &record).expect("there is room");
    // As killed in the middle of each write.
    let half: Vec<PathBuf> =
        [store.certificate_file(&name()), store.record_file(&name()), store.pending_file(&name())]
            .iter()
            .map(|target| aside(target))
            .collect();
    for file in &half {
        create(file).and_then(|mut file| file.write_all(b"-----BEGIN PRI")).expect("the folder is ours");
    }
    assert!(store.certificate(&name(), NOW).is_some());
    assert_eq!(store.record(&name(), NOW), record);
    let lock = store.lock().expect("it can be opened").expect("it is free");
    assert!(half.iter().all(|file| !file.exists()));
    assert!(store.certificate(&name(), NOW).is_some());
    drop(lock);
}

#[test]
fn one_process_has_the_lock_and_a_dead_one_has_not() {
    let (_folder, store) = store();
    let first = store.lock().expect("it can be opened").expect("it is free");
    assert!(store.lock().expect("it can be opened").is_none());
    drop(first);
    assert!(store.lock().expect("it can be opened").is_some());
}

#[test]
fn a_record_that_cannot_be_read_means_a_pause_and_not_a_new_beginning() {
    let (_folder, store) = store();
    let path = store.record_file(&name());
    create(&path).and_then(|mut file| file.write_all(b"{\"failures\": 3,")).expect("the folder is ours");
    let record = store.record(&name(), NOW);
    assert!(record.next_try >= NOW + AFTER_A_LOST_RECORD, "{record:?}");
    assert!(record.last_error.is_some_and(|error| error.contains("web.example.org.json")));
}

#[test]
fn an_account_that_cannot_be_read_is_an_error_and_not_a_new_account() {
    let (_folder, store) = store();
    let directory = "https://ca.example/directory";
    assert!(store.account::<serde_json::Value>(directory).expect("none is no error").is_none());
    store.save_account(directory, &serde_json::json!({"id": 1})).expect("there is room");
    assert!(store.account::<serde_json::Value>(directory).expect("it can be read").is_some());
    assert!(store.account::<serde_json::Value>("https://ca.example/Directory").expect("none").is_none());
    let path = store.account_file(directory);
    create(&path).expect("the folder is ours");
    assert!(store.account::<serde_json::Value>(directory).is_err(), "an empty file");
}

#[test]
fn a_folder_that_is_a_file_is_named_at_the_start() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    create(&folder.path().join("acme")).expect("the folder is ours");
    let error = Store::new(&folder.path().join("acme")).prepare().expect_err("it is a file");
    assert!(error.to_string().contains("/acme"), "{error}");
}

#[test]
fn keys_are_for_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let (_folder, store) = store();
    install(&store, &pair("web.example.org", NOW, 90)).expect("a good one");
    store.save_record(&name(), &Record::default()).expect("there is room");
    for folder in store.folders() {
        for path in
            fs::read_dir(&folder).expect("ours").flatten().map(|entry| entry.path()).chain([folder.clone()])
        {
            let mode = fs::metadata(&path).expect("it is there").permissions().mode() & 0o777;
            assert_eq!(mode & 0o077, 0, "{}: {mode:o}", path.display());
        }
    }
}
