//! Tests for the tickets that each process can decrypt over time; one clock for all, set by the test.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use proptest::prelude::*;

use super::*;
use handfast_testkit::maker::Folder;

const HOUR: u64 = 3_600;
const START: u64 = 1_793_534_400;
const SETTINGS: TicketSettings =
    TicketSettings { rotate: Duration::from_secs(8 * HOUR), lifetime: Duration::from_secs(24 * HOUR) };

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(START + seconds)
}

fn ticketer(keys: &TicketKeys, policy: &[u8]) -> Ticketer {
    Ticketer::new(keys.keys(), policy, SETTINGS.lifetime)
}

fn random() -> TicketKeys {
    TicketKeys::random(at(0), SETTINGS).unwrap()
}

fn refresh(keys: &mut TicketKeys, seconds: u64) -> bool {
    keys.refresh(at(seconds)).unwrap().is_some()
}

fn decrypts(keys: &TicketKeys, ticket: &[u8]) -> bool {
    ticketer(keys, b"p").decrypt(ticket).is_some()
}

fn encrypt(keys: &TicketKeys) -> Vec<u8> {
    ticketer(keys, b"p").encrypt(b"state").unwrap()
}

#[test]
fn a_ticket_comes_back_as_it_was() {
    let keys = random();
    let one = ticketer(&keys, b"p");
    for state in [&b""[..], b"x", &[7; 5_000]] {
        let ticket = one.encrypt(state).unwrap();
        assert_eq!(one.decrypt(&ticket).unwrap(), state);
        // Another thread's ticketer of the same policy.
        assert_eq!(ticketer(&keys, b"p").decrypt(&ticket).unwrap(), state);
    }
    assert!(one.enabled());
    assert_eq!(one.lifetime(), 86_400);
    let long = Ticketer::new(keys.keys(), b"p", Duration::from_secs(u64::MAX));
    assert_eq!(long.lifetime(), 604_800, "RFC 9846 §4.6.1 has a maximum");
}

#[test]
fn nothing_of_the_state_shows_and_no_two_tickets_are_alike() {
    let one = ticketer(&random(), b"p");
    let state = b"a secret that is long enough to be found";
    let (first, second) = (one.encrypt(state).unwrap(), one.encrypt(state).unwrap());
    assert!(!first.windows(8).any(|window| state.windows(8).any(|part| part == window)));
    assert_eq!(first[..NAME_LENGTH], second[..NAME_LENGTH]);
    assert_ne!(first[NAME_LENGTH..][..SEED_LENGTH], second[NAME_LENGTH..][..SEED_LENGTH]);
    assert_ne!(first[NAME_LENGTH + SEED_LENGTH..], second[NAME_LENGTH + SEED_LENGTH..]);
}

/// The key of each ticket is what HKDF makes of its seed (RFC 5869 §2.3), though HKDF is not called for it.
#[test]
fn a_tickets_key_is_the_first_block_of_hkdf() {
    use aws_lc_rs::hkdf::Prk;

    let secret = [0x5a; KEY_LENGTH];
    let own = PolicyKey { name: [0; NAME_LENGTH], tickets: hmac::Key::new(hmac::HMAC_SHA256, &secret) };
    let hkdf = Prk::new_less_safe(HKDF_SHA256, &secret);
    for seed in [[0; SEED_LENGTH], [0xff; SEED_LENGTH], *b"0123456789abcdef"] {
        let mut expected = [0; KEY_LENGTH];
        let info: [&[u8]; 2] = [b"ticket", &seed];
        hkdf.expand(&info, Length(KEY_LENGTH)).unwrap().fill(&mut expected).unwrap();
        let expected = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &expected).unwrap());
        let (key, nonce) = own.for_seed(seed).unwrap();
        let mut sealed = b"state".to_vec();
        key.seal_in_place_append_tag(nonce, Aad::empty(), &mut sealed).unwrap();
        let nonce = Nonce::assume_unique_for_key([0; NONCE_LEN]);
        assert_eq!(expected.open_in_place(nonce, Aad::empty(), &mut sealed).unwrap(), b"state");
    }
}

#[test]
fn what_is_logged_of_keys_holds_no_secret() {
    let keys = random();
    let text = keys.to_give().unwrap();
    let shown = format!("{keys:?} {text:?} {:?}", ticketer(&keys, b"p"));
    assert!(["MasterKey", "KeyText", "Ticketer"].iter().all(|kind| shown.contains(kind)), "{shown}");
    let secret = text.reveal().trim_end().rsplit(' ').next().unwrap();
    assert!(secret.len() == 2 * KEY_LENGTH && !shown.contains(secret));
    assert!(
        !shown.contains(&format!("{:?}", keys.keys[0].secret).replace("Zeroizing(", "").replace(')', ""))
    );
}

#[test]
fn another_policy_cannot_decrypt_and_does_not_even_share_a_key_name() {
    let keys = random();
    let ticket = ticketer(&keys, b"p").encrypt(b"state").unwrap();
    let other = ticketer(&keys, b"q");
    assert_eq!(other.decrypt(&ticket), None);
    let own = other.encrypt(b"state").unwrap();
    assert_ne!(own[..NAME_LENGTH], ticket[..NAME_LENGTH]);
    // Not even with the name forged.
    let mut forged = ticket;
    forged[..NAME_LENGTH].copy_from_slice(&own[..NAME_LENGTH]);
    assert_eq!(other.decrypt(&forged), None);
}

#[test]
fn two_processes_have_nothing_in_common() {
    let (one, other) = (random(), random());
    assert!(!decrypts(&other, &encrypt(&one)));
    assert_ne!(one.keys[0].secret, other.keys[0].secret);
    assert_ne!(*one.keys[0].secret, [0; KEY_LENGTH]);
}

#[test]
fn any_change_to_a_ticket_makes_it_nothing() {
    let keys = random();
    let one = ticketer(&keys, b"p");
    let ticket = one.encrypt(b"state").unwrap();
    for place in 0..ticket.len() {
        let mut changed = ticket.clone();
        changed[place] ^= 1;
        assert_eq!(one.decrypt(&changed), None, "byte {place}");
        assert_eq!(one.decrypt(&ticket[..place]), None, "cut at {place}");
    }
}

#[test]
fn keys_rotate_with_overlap_and_end() {
    let mut keys = random();
    let first = encrypt(&keys);
    assert!(!refresh(&mut keys, 8 * HOUR - 1), "not yet");
    assert!(refresh(&mut keys, 8 * HOUR));
    let second = encrypt(&keys);
    assert_ne!(first[..NAME_LENGTH], second[..NAME_LENGTH], "a new key encrypts");
    assert!(decrypts(&keys, &first) && decrypts(&keys, &second));

    // The first key encrypted until hour 8; a ticket from then is good until hour 32.
    for hour in [16, 24] {
        refresh(&mut keys, hour * HOUR);
    }
    assert!(!refresh(&mut keys, 32 * HOUR - 1) && decrypts(&keys, &first));
    assert!(refresh(&mut keys, 32 * HOUR));
    assert!(!decrypts(&keys, &first), "over");
    assert!(decrypts(&keys, &second));
    assert_eq!(keys.count(), 4);
}

#[test]
fn a_ticketer_keeps_its_set_until_it_is_notified() {
    let mut keys = random();
    let ticket = ticketer(&keys, b"p");
    let first = ticket.encrypt(b"state").unwrap();
    let set = keys.refresh(at(8 * HOUR)).unwrap().unwrap();
    assert_eq!(ticket.encrypt(b"state").unwrap()[..NAME_LENGTH], first[..NAME_LENGTH]);
    ticket.update(set);
    assert_ne!(ticket.encrypt(b"state").unwrap()[..NAME_LENGTH], first[..NAME_LENGTH]);
    assert_eq!(ticket.decrypt(&first).unwrap(), b"state");
}

#[test]
fn the_next_refresh_is_named_and_never_in_the_past() {
    let mut keys = random();
    let mut now = 0;
    for _ in 0..20 {
        let next = unix(keys.next_refresh()) - START;
        assert!(next > now);
        assert!(!refresh(&mut keys, next - 1), "nothing happens before {next}");
        assert!(refresh(&mut keys, next), "something happens at {next}");
        now = next;
    }
}

#[test]
fn a_long_sleep_ends_everything_at_once() {
    let mut keys = random();
    let old = encrypt(&keys);
    assert!(refresh(&mut keys, 1_000 * HOUR));
    assert_eq!(keys.count(), 1);
    assert!(!decrypts(&keys, &old));
    assert!(decrypts(&keys, &encrypt(&keys)));
}

#[test]
fn a_clock_set_back_neither_stops_tickets_nor_keeps_a_key_for_ever() {
    let mut keys = TicketKeys::random(at(10_000 * HOUR), SETTINGS).unwrap();
    // By an hour: the key goes on.
    let ticket = encrypt(&keys);
    refresh(&mut keys, 9_999 * HOUR);
    assert!(decrypts(&keys, &ticket) && decrypts(&keys, &encrypt(&keys)));
    // By a year: a new one, or the old would serve for a year.
    assert!(refresh(&mut keys, 0));
    assert!(!decrypts(&keys, &ticket) && decrypts(&keys, &encrypt(&keys)));
}

fn open(path: &Path, seconds: u64) -> TicketKeys {
    TicketKeys::load_or_create(path, at(seconds), SETTINGS).unwrap()
}

#[test]
fn a_file_keeps_keys_over_restarts_and_only_for_its_owner() {
    let folder = Folder::new();
    let path = folder.at("tickets");
    let keys = open(&path, 0);
    let ticket = encrypt(&keys);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
    let again = open(&path, HOUR);
    assert!(decrypts(&again, &ticket));
    assert_eq!(encrypt(&again)[..NAME_LENGTH], ticket[..NAME_LENGTH]);
    // Nothing left of the writing but the lock.
    let mut left: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, [".tickets.lock", "tickets"]);
}

#[test]
fn the_next_key_is_in_the_file_before_anybody_uses_it() {
    let folder = Folder::new();
    let path = folder.at("tickets");
    let (mut writer, mut reader) = (open(&path, 0), open(&path, 0));
    let first = encrypt(&writer);
    let due = 8 * HOUR - AHEAD.as_secs();
    assert!(!refresh(&mut writer, due - 1));
    assert!(refresh(&mut writer, due), "the next key is there");
    assert_eq!(encrypt(&writer)[..NAME_LENGTH], first[..NAME_LENGTH], "and not used yet");
    // A reader that looks once a minute has it in time.
    assert!(refresh(&mut reader, due + 60));
    assert!(refresh(&mut writer, 8 * HOUR), "now it is used");
    let second = encrypt(&writer);
    assert_ne!(second[..NAME_LENGTH], first[..NAME_LENGTH]);
    assert!(decrypts(&reader, &second), "before the reader itself uses it");
    assert_eq!(encrypt(&reader)[..NAME_LENGTH], first[..NAME_LENGTH]);
    assert!(refresh(&mut reader, 8 * HOUR));
    assert_eq!(encrypt(&reader)[..NAME_LENGTH], second[..NAME_LENGTH]);
}

/// Many that start and rotate at the same moments, truly at once: never more than one key for each moment, and the same
/// ones for all.
#[test]
fn many_at_once_converge() {
    let folder = Folder::new();
    let path = folder.at("tickets");
    let barrier = std::sync::Barrier::new(8);
    let all: Vec<(Vec<u8>, TicketKeys)> = std::thread::scope(|scope| {
        let started: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    barrier.wait();
                    let mut keys = open(&path, 0);
                    let ticket = encrypt(&keys);
                    for hours in [8, 16, 24] {
                        barrier.wait();
                        // Those that find the lock taken come again, as a process does within a minute.
                        refresh(&mut keys, hours * HOUR - AHEAD.as_secs());
                        barrier.wait();
                        refresh(&mut keys, hours * HOUR);
                    }
                    (ticket, keys)
                })
            })
            .collect();
        started.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let ids =
        |keys: &TicketKeys| keys.keys.iter().map(|key| (key.id, key.used_from - START)).collect::<Vec<_>>();
    let first = ids(&all[0].1);
    assert_eq!(first.iter().map(|(_, from)| from / HOUR).collect::<Vec<_>>(), [0, 8, 16, 24]);
    for (ticket, keys) in &all {
        assert_eq!(ticket[..NAME_LENGTH], all[0].0[..NAME_LENGTH], "from the first ticket on");
        assert_eq!(ids(keys), first);
        assert_eq!(keys.current.encrypting, Some(3));
    }
}

#[test]
fn a_link_that_leads_to_another_file_is_followed() {
    let folder = Folder::new();
    let link = folder.at("tickets");
    let [one, other] = ["one", "other"].map(|name| open(&folder.at(name), 0));
    symlink("one", &link).unwrap();
    let mut keys = open(&link, 0);
    assert!(decrypts(&keys, &encrypt(&one)));
    fs::remove_file(&link).unwrap();
    symlink("other", &link).unwrap();
    assert!(refresh(&mut keys, 10));
    assert!(decrypts(&keys, &encrypt(&other)));
}

#[test]
fn a_lock_that_is_held_delays_a_rotation_and_nothing_else() {
    let folder = Folder::new();
    let path = folder.at("tickets");
    let mut keys = open(&path, 0);
    let held = KeyFile::new(&path).lock(false).unwrap().unwrap();
    assert!(!refresh(&mut keys, 8 * HOUR - 60), "another process is rotating");
    assert!(decrypts(&keys, &encrypt(&keys)));
    drop(held);
    assert!(refresh(&mut keys, 8 * HOUR - 30));
    assert_eq!(keys.count(), 2);
}

/// Returns the error text for an invalid file.
fn refused(path: &Path) -> String {
    TicketKeys::load_or_create(path, at(0), SETTINGS).unwrap_err().to_string()
}

#[test]
fn a_file_that_others_can_read_is_refused() {
    let folder = Folder::new();
    let path = folder.at("tickets");
    open(&path, 0);
    for mode in [0o640, 0o604, 0o620, 0o666] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let error = TicketKeys::load_or_create(&path, at(0), SETTINGS).unwrap_err();
        assert!(
            matches!(error, Error::TicketFilePermissions { mode: found, .. } if found == mode),
            "{error}"
        );
        assert!(error.hint().unwrap().starts_with("chmod 600"));
    }
}

#[test]
fn a_broken_file_is_refused_with_its_line() {
    let folder = Folder::new();
    let path = folder.at("tickets");
    open(&path, 0);
    let good = fs::read_to_string(&path).unwrap();
    let line = good.lines().last().unwrap();
    let secret = line.rsplit(' ').next().unwrap();
    let cases = [
        (good.replace("keys 1", "keys 2"), ":1: expected \"handfast-ticket-keys 1\""),
        (String::new(), ":1: expected \"handfast-ticket-keys 1\""),
        (good.replace(secret, &"0".repeat(64)), ":4: the secret is zero"),
        (good.replace(secret, &secret[1..]), ":4: the secret is not 64"),
        (good.replace(secret, &secret.replace(&secret[..1], "x")), ":4: the secret is not 64"),
        (good.replace("from 1", "from x1"), ":4: the time after \"from\""),
        (good.replace("made 1", "made 99999999999991"), ":4: the time after \"made\""),
        (good.replace("key ", "kex "), ":4: expected \"key <id>"),
        (format!("{good}{line}\n"), ":5: the id of an earlier key"),
        (good.trim_end().to_owned(), ":4: no line end"),
        (good.replace(" from", " from from"), ":4: expected \"key <id>"),
    ];
    for (content, expected) in cases {
        folder.put("tickets", content);
        let message = refused(&path);
        assert!(message.contains(expected), "expected {expected:?} in {message:?}");
    }
    folder.put("tickets", b"\xff\xff");
    assert!(refused(&path).contains("is not text"));
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(refused(&path).contains("is a folder"));
    assert!(refused(&folder.at("no/folder")).contains("No such file"));
}

/// As a process that is forked while the lock is held has, until it executes its program.
#[test]
fn a_copy_of_the_locks_descriptor_does_not_hold_the_lock() {
    let folder = Folder::new();
    let file = KeyFile::new(&folder.at("tickets"));
    let lock = file.lock(false).unwrap().expect("no other process has it");
    let copy = lock.0.try_clone().unwrap();
    assert!(file.lock(false).unwrap().is_none(), "it is held");
    drop(lock);
    assert!(file.lock(false).unwrap().is_some(), "it was given back");
    drop(copy);
}

#[test]
fn a_file_that_breaks_later_leaves_what_is_in_memory_for_a_while() {
    let folder = Folder::new();
    let path = folder.at("tickets");
    let mut keys = open(&path, 0);
    let ticket = encrypt(&keys);
    folder.put("tickets", "broken\n");
    keys.refresh(at(HOUR)).unwrap_err();
    keys.refresh(at(15 * HOUR)).unwrap_err();
    assert!(decrypts(&keys, &encrypt(&keys)), "a key may encrypt for twice its time");
    let _ = keys.refresh(at(16 * HOUR));
    assert_eq!(ticketer(&keys, b"p").encrypt(b"state"), None, "and no longer");
    assert!(decrypts(&keys, &ticket));
    let _ = keys.refresh(at(40 * HOUR));
    assert!(!decrypts(&keys, &ticket));
    // Once it is cured all is well again.
    fs::remove_file(&path).unwrap();
    assert!(refresh(&mut keys, 41 * HOUR));
    assert!(decrypts(&keys, &encrypt(&keys)));
}

#[test]
fn a_file_that_was_removed_is_written_again_with_the_keys_in_use() {
    let folder = Folder::new();
    let path = folder.at("tickets");
    let mut keys = open(&path, 0);
    let ticket = encrypt(&keys);
    fs::remove_file(&path).unwrap();
    refresh(&mut keys, HOUR);
    assert!(decrypts(&open(&path, HOUR), &ticket));
}

#[test]
fn a_file_whose_time_is_over_does_not_bring_old_tickets_back() {
    let folder = Folder::new();
    let path = folder.at("tickets");
    let ticket = encrypt(&open(&path, 0));
    let later = open(&path, 40 * HOUR);
    assert!(!decrypts(&later, &ticket));
    assert!(decrypts(&later, &encrypt(&later)));
    assert_eq!(fs::read_to_string(&path).unwrap().matches("\nkey ").count(), 1, "and is gone from the file");
}

#[test]
fn a_link_stays_a_link() {
    let (folder, real) = (Folder::new(), Folder::new());
    open(&real.at("tickets"), 0);
    let path: PathBuf = folder.at("tickets");
    symlink(real.at("tickets"), &path).unwrap();
    let mut keys = open(&path, 0);
    assert!(refresh(&mut keys, 8 * HOUR));
    assert!(fs::symlink_metadata(&path).unwrap().is_symlink());
    assert_eq!(fs::read_to_string(real.at("tickets")).unwrap().matches("\nkey ").count(), 2);
}

#[test]
fn secrets_are_in_no_debug_text() {
    let folder = Folder::new();
    let keys = open(&folder.at("tickets"), 0);
    let text = format!("{keys:?} {:?}", ticketer(&keys, b"p"));
    let secret = &keys.keys[0].secret;
    assert!(!text.contains(&format!("{:?}", &secret[..2]).replace(['[', ']'], "")), "{text}");
    assert!(text.contains("MasterKey"), "{text}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_bytes_panic_or_decrypt(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert_eq!(ticketer(&random(), b"p").decrypt(&bytes), None);
    }

    /// A process that refreshes at any moments, on a clock that goes forward, keeps two promises: a ticket is accepted
    /// for its lifetime, and never for longer than that and two rotations.
    #[test]
    fn a_ticket_lives_as_long_as_it_should(steps in proptest::collection::vec(1_u64..6 * HOUR, 1..60)) {
        let mut keys = random();
        let mut now = 0;
        let mut tickets = vec![(0, encrypt(&keys))];
        for step in steps {
            now += step;
            refresh(&mut keys, now);
            for (issued, ticket) in &tickets {
                let age = now - issued;
                let is_accepted = decrypts(&keys, ticket);
                prop_assert!(is_accepted || age >= 24 * HOUR, "refused at {} s", age);
                prop_assert!(!is_accepted || age <= (24 + 16) * HOUR, "accepted at {} s", age);
            }
            tickets.push((now, encrypt(&keys)));
        }
    }
}

/// In an upgrade, the process that follows resumes sessions whose tickets this one issued.
#[test]
fn keys_are_given_to_the_process_that_follows() {
    let keys = random();
    let ticket = encrypt(&keys);
    let text = keys.to_give().expect("they are nowhere else");
    let given = |text: &str| TicketKeys::given(&KeyText::from(text.to_owned()), at(60), SETTINGS).unwrap();
    let next = given(text.reveal()).expect("they are understood");
    assert!(decrypts(&next, &ticket) && decrypts(&keys, &encrypt(&next)));
    assert_eq!(encrypt(&next)[..NAME_LENGTH], ticket[..NAME_LENGTH]);
    assert!(given("something else\n").is_none());
    // Those that are over are not taken; there are new ones all the same.
    let late = TicketKeys::given(&text, at(1_000 * HOUR), SETTINGS).unwrap().expect("understood");
    assert!(!decrypts(&late, &ticket) && decrypts(&late, &encrypt(&late)));
    let folder = Folder::new();
    assert!(open(&folder.at("tickets"), 0).to_give().is_none(), "it reads them from the file");
}

#[test]
fn the_lock_is_beside_the_file_that_a_link_leads_to() {
    let (folder, real) = (Folder::new(), Folder::new());
    let file = real.put("tickets", "");
    symlink(&file, folder.at("link")).unwrap();
    let beside = real.path().canonicalize().unwrap().join(".tickets.lock");
    assert_eq!((lock_path(&file), lock_path(&folder.at("link"))), (beside.clone(), beside));
    assert_eq!(lock_path(&folder.at("none")), folder.at(".none.lock"));
}
