//! Damaged files, a disk that hangs, two processes, and giving the folder up.

use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use super::bench::{Bench, FRESH, content, get, key, poll_read, times, until, wait};
use super::faults::Fault;
use crate::rules::policy::Policy;
use crate::rules::reuse::Bypass;
use crate::rules::tests::response;
use crate::store::cache::{Begin, Cache, Lookup, watch};
use crate::store::folder::OpenError;
use crate::store::lock::locked;
use crate::store::reader::ReadError;
use crate::store::settings::Settings;

const SIZE: usize = 200_000;

fn flip(path: &Path, at: u64) {
    let mut file = std::fs::File::options().read(true).write(true).open(path).expect("the file opens");
    let mut byte = [0];
    file.seek(SeekFrom::Start(at)).expect("a position");
    file.read_exact(&mut byte).expect("a byte is there");
    file.seek(SeekFrom::Start(at)).expect("a position");
    file.write_all(&[byte[0] ^ 0x10]).expect("it can be written");
}

#[test]
fn a_flipped_byte_of_content_is_found_wherever_it_is() {
    for at in [0, 65_535, 65_536, 199_999] {
        let bench = Bench::new();
        bench.store(&get("/"), FRESH, &content(SIZE));
        flip(&bench.files("c")[0], at);
        let found = bench.get(&get("/"));
        assert_eq!(found, Some(Err(ReadError::Broken)), "byte {at}");
        assert!(matches!(bench.lookup(&get("/")), Lookup::Miss(_)), "it is not tried again");
        bench.idle();
        assert_eq!(
            (bench.files("c").len(), bench.files("h").len(), bench.cache.statistics().broken),
            (0, 0, 1)
        );
    }
}

#[test]
fn any_flipped_byte_of_a_head_costs_the_object() {
    let bench = Bench::new();
    bench.store(&get("/"), FRESH, b"abc");
    let head = std::fs::read(&bench.files("h")[0]).expect("the head");
    let mut folder = Arc::clone(&bench.folder);
    drop(bench);
    for at in 0..head.len() as u64 {
        assert!(crate::store::head_file::HeadFile::decode(&head).is_some(), "as it was written");
        let mut damaged = head.clone();
        damaged[usize::try_from(at).expect("a position")] ^= 0x10;
        assert!(crate::store::head_file::HeadFile::decode(&damaged).is_none(), "byte {at}");
    }
    let bench = Bench::over(Arc::clone(&folder), |_| {});
    flip(&bench.files("h")[0], 40);
    assert_eq!(bench.get(&get("/")), Some(Err(ReadError::Broken)), "at the first use");
    bench.store(&get("/"), FRESH, b"abc");
    flip(&bench.files("h")[0], 40);
    folder = Arc::clone(&bench.folder);
    drop(bench);
    let bench = Bench::over(folder, |_| {});
    assert_eq!(bench.get(&get("/")), None, "when the folder is read in");
    assert_eq!((bench.files("c").len(), bench.files("h").len()), (0, 0));
}

#[test]
fn a_file_of_another_length_is_never_served() {
    for length in [0, 65_536, SIZE as u64 - 1, SIZE as u64 + 1] {
        let bench = Bench::new();
        bench.store(&get("/"), FRESH, &content(SIZE));
        let file = std::fs::File::options().write(true).open(&bench.files("c")[0]).expect("the file opens");
        file.set_len(length).expect("a length");
        assert_eq!(bench.get(&get("/")), Some(Err(ReadError::Broken)), "{length} bytes");
    }
    // While it is read.
    let bench = Bench::new();
    bench.store(&get("/"), FRESH, &content(SIZE));
    let Lookup::Hit(hit) = bench.lookup(&get("/")) else { panic!("it is stored") };
    let mut reader = hit.reader(0..SIZE as u64);
    let mut buffer = vec![0; 65_536];
    assert_eq!(wait(|waker| poll_read(&mut reader, &mut buffer, waker)), Ok(65_536));
    let file = std::fs::File::options().write(true).open(&bench.files("c")[0]).expect("the file opens");
    file.set_len(70_000).expect("a length");
    assert_eq!(wait(|waker| poll_read(&mut reader, &mut buffer, waker)), Err(ReadError::Broken));
}

#[test]
fn what_has_no_place_in_the_folder_is_deleted_and_other_files_are_left() {
    let bench = Bench::new();
    bench.store(&get("/"), FRESH, b"abc");
    let put = |name: &str| std::fs::File::create(bench.path().join(name)).expect("a file");
    for name in ["0000000000000001.c", "0000000000000002.h", "0000000000000003.t", "README", "1.c"] {
        drop(put(name));
    }
    let bench = bench.reopened();
    let mut names: Vec<String> = std::fs::read_dir(bench.path())
        .expect("the folder")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .filter(|name| !name.ends_with(".c") && !name.ends_with(".h") || name.len() < 10)
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["1.c", "README", "lock"]);
    assert!(bench.get(&get("/")) == Some(Ok(b"abc".to_vec())));
    assert_eq!((bench.files("h").len(), bench.cache.statistics().objects), (1, 1));
}

#[test]
fn no_other_user_can_read_the_folder() {
    let bench = Bench::new();
    bench.store(&get("/"), FRESH, b"abc");
    let mode = |path: &Path| std::fs::metadata(path).expect("it is there").permissions().mode() & 0o7777;
    assert_eq!(mode(&bench.path()), 0o700);
    for path in bench.files("c").iter().chain(&bench.files("h")) {
        assert_eq!(mode(path), 0o600, "{}", path.display());
    }
}

#[test]
fn a_folder_that_others_can_write_is_refused_and_stays_as_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    for (mode, is_refused) in [(0o755, false), (0o775, true), (0o1777, true), (0o700, false)] {
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(mode)).expect("ours");
        let opened = Cache::open(Settings::new(folder.path(), 1 << 20)).err();
        assert_eq!(opened.is_some(), is_refused, "{mode:o}: {opened:?}");
        let now = std::fs::metadata(folder.path()).expect("it is there").permissions().mode() & 0o7777;
        assert_eq!(now, mode);
    }
}

#[test]
fn a_link_in_the_place_of_the_folder_is_refused() {
    let outside = tempfile::tempdir().expect("a folder");
    let link = outside.path().join("link");
    std::os::unix::fs::symlink(outside.path(), &link).expect("a link");
    let opened = Cache::open(Settings::new(&link, 1 << 20)).err();
    assert!(matches!(&opened, Some(OpenError::Folder(..))), "{opened:?}");
}

#[test]
fn a_second_process_is_refused_until_the_first_releases_the_folder() {
    let bench = Bench::new();
    bench.store(&get("/"), FRESH, &content(SIZE));
    let open = || Cache::open(Settings::new(bench.path(), 1 << 30));
    let refused = open().err().map(|error| error.to_string()).unwrap_or_default();
    assert!(refused.contains("another process uses it"), "{refused}");

    let Lookup::Hit(hit) = bench.lookup(&get("/")) else { panic!("it is stored") };
    let mut reader = hit.reader(0..SIZE as u64);
    let mut buffer = vec![0; 1000];
    assert_eq!(wait(|waker| poll_read(&mut reader, &mut buffer, waker)), Ok(1000));
    let mut filler = bench.begin(&get("/new"));
    assert!(filler.head(&get("/new"), &response(FRESH), &Policy::default(), times()).is_ok());
    assert!(wait(|waker| filler.poll_put(&content(SIZE), waker)));
    until("it has a file", || bench.files("c").len() == 2);

    bench.cache.release();
    let files = |bench: &Bench| {
        let list = |letter| {
            bench
                .files(letter)
                .iter()
                .map(|path| {
                    let metadata = std::fs::metadata(path).expect("it is there");
                    (path.clone(), metadata.len(), metadata.mtime_nsec())
                })
                .collect::<Vec<_>>()
        };
        (list("c"), list("h"), list("t"))
    };
    let before = files(&bench);
    assert_eq!((before.0.len(), before.1.len()), (1, 1), "the unfinished file is gone");
    let next = open().expect("the folder is free");
    until("the folder is read in", || !next.statistics().is_indexing);
    assert_eq!(next.statistics().objects, 1);

    // The first one goes on without it.
    assert!(!wait(|waker| filler.poll_put(b"more", waker)));
    assert!(!filler.end());
    assert!(matches!(bench.lookup(&get("/")), Lookup::Bypass(Bypass::Released)));
    assert!(matches!(bench.cache.begin(&key(&get("/")), &get("/"), true), Begin::Alone));
    bench.cache.purge(crate::Purge::Prefix(""));
    bench.idle();
    assert_eq!(files(&bench), before, "nothing was written");
    let mut rest = 1000;
    while rest < SIZE {
        let length = wait(|waker| poll_read(&mut reader, &mut buffer, waker))
            .expect("an open object is read to its end");
        assert_eq!(buffer[..length], content(SIZE)[rest..rest + length]);
        rest += length;
    }
}

#[test]
fn a_fill_that_the_disk_does_not_take_waits_and_is_given_up_then() {
    let bench = Bench::with(|settings| {
        settings.disk_timeout = Duration::from_secs(3600);
        settings.pending = 100_000;
    });
    let faults = Arc::clone(&bench.cache.shared().folder.faults);
    faults.plan(Some((1, Fault::Hang)));
    let mut filler = bench.begin(&get("/"));
    let hit = filler.head(&get("/"), &response(FRESH), &Policy::default(), times()).expect("it is stored");
    for _ in 0..10 {
        assert!(wait(|waker| filler.poll_put(&content(10_000), waker)));
    }
    assert!(
        filler.poll_put(&content(10_000), Waker::noop()).is_pending(),
        "no more than this waits for the disk"
    );
    watch(bench.cache.shared(), Duration::ZERO);
    let mut reader = hit.reader(0..u64::MAX);
    let mut buffer = vec![0; 10_000];
    let mut next = || wait(|waker| poll_read(&mut reader, &mut buffer, waker));
    assert!((0..10).all(|_| next() == Ok(10_000)), "its client goes on, from memory");
    assert!(!wait(|waker| filler.poll_put(&content(10_000), waker)));
    assert!(!filler.end());
    assert_eq!((next(), next()), (Ok(10_000), Ok(0)));
    assert!(
        bench.cache.problem().is_some_and(|text| text.contains("no progress")),
        "{:?}",
        bench.cache.problem()
    );
    assert!(matches!(bench.lookup(&get("/")), Lookup::Bypass(Bypass::Paused)));
    faults.plan(None);
    until("the file is deleted", || bench.files("c").is_empty());
}

#[test]
fn a_thread_watches_for_fills_that_the_disk_does_not_take() {
    let bench = Bench::with(|settings| {
        settings.disk_timeout = Duration::from_millis(20);
        settings.pending = 100_000;
    });
    bench.cache.shared().folder.faults.plan(Some((1, Fault::Hang)));
    let mut filler = bench.begin(&get("/"));
    let hit = filler.head(&get("/"), &response(FRESH), &Policy::default(), times()).expect("it is stored");
    // Its client has gone, so nothing else keeps the content back.
    drop(hit.reader(0..0));
    until("its client goes on", || !wait(|waker| filler.poll_put(&content(10_000), waker)));
}

#[test]
fn hits_go_past_a_disk_that_does_not_read() {
    let bench = Bench::with(|settings| {
        settings.queue = 2;
        settings.threads = 1;
    });
    bench.store(&get("/"), FRESH, &content(SIZE));
    let faults = Arc::clone(&bench.cache.shared().folder.faults);
    faults.plan(Some((0, Fault::Hang)));
    // The only thread hangs in a write.
    let mut filler = bench.begin(&get("/new"));
    assert!(filler.head(&get("/new"), &response(FRESH), &Policy::default(), times()).is_ok());
    assert!(wait(|waker| filler.poll_put(b"abc", waker)));
    until("the thread hangs", || faults.steps() > 0);
    let mut readers = Vec::new();
    let mut refused = false;
    for _ in 0..3 {
        match bench.lookup(&get("/")) {
            Lookup::Hit(hit) => {
                let mut reader = hit.reader(0..10);
                assert!(wait(|waker| Poll::Ready(reader.poll_ready(waker))).is_pending());
                readers.push(reader);
            }
            Lookup::Bypass(Bypass::Paused) => refused = true,
            _ => panic!("it is stored"),
        }
    }
    assert_eq!((readers.len(), refused), (2, true));
    faults.plan(None);
    for reader in &mut readers {
        assert_eq!(wait(|waker| reader.poll_ready(waker)), Ok(()));
    }
}

#[test]
fn a_reader_that_waits_is_woken_when_the_cache_ends() {
    let bench = Bench::with(|settings| settings.threads = 1);
    bench.store(&get("/"), FRESH, &content(SIZE));
    let faults = Arc::clone(&bench.cache.shared().folder.faults);
    faults.plan(Some((0, Fault::Hang)));
    let mut filler = bench.begin(&get("/new"));
    assert!(filler.head(&get("/new"), &response(FRESH), &Policy::default(), times()).is_ok());
    assert!(wait(|waker| filler.poll_put(b"abc", waker)));
    until("the thread hangs", || faults.steps() > 0);
    let Lookup::Hit(hit) = bench.lookup(&get("/")) else { panic!("it is stored") };
    let mut reader = hit.reader(0..10);
    assert!(reader.poll_ready(Waker::noop()).is_pending());
    std::thread::scope(|scope| {
        let waiting = scope.spawn(move || wait(|waker| reader.poll_ready(waker)));
        bench.cache.shared().pool.close();
        drop(bench);
        assert_eq!(waiting.join().expect("it does not panic"), Err(ReadError::Aborted));
    });
}

#[test]
fn a_purge_reaches_what_is_not_read_in_yet() {
    let bench = Bench::new();
    for path in ["/a", "/b"] {
        bench.store(&get(path), &format!("{FRESH}\nCache-Tag: {}", &path[1..]), b"abc");
    }
    let folder = Arc::clone(&bench.folder);
    drop(bench);
    let shared = Arc::new(
        crate::store::shared::Shared::open(Settings::new(folder.path().join("cache"), 1 << 30))
            .expect("it is free"),
    );
    // As `purge` does while the folder is read in.
    locked(&shared.early_purges).push(crate::store::shared::Meant::Tag(b"a".to_vec()));
    crate::store::rebuild::rebuild(&shared);
    let urls: Vec<_> =
        shared.index.list(|_| true, 9).iter().map(|object| object.key.url().to_vec()).collect();
    assert_eq!(urls, [b"https://example.com/b"]);
}

#[test]
fn files_of_another_variant_in_the_place_of_its_own_are_not_served() {
    let bench = Bench::new();
    let variant = |value: &str| crate::rules::tests::request(&format!("GET /\nFoo: {value}"));
    bench.store(&variant("1"), &format!("{FRESH}\nVary: Foo"), b"first");
    let (content, head) = (bench.files("c").remove(0), bench.files("h").remove(0));
    bench.store(&variant("2"), &format!("{FRESH}\nVary: Foo"), b"the second");
    for (letter, place) in [("c", content), ("h", head)] {
        let other = bench.files(letter).into_iter().find(|path| *path != place).expect("two of them");
        std::fs::rename(other, place).expect("it moves");
    }
    assert_eq!(bench.get(&variant("1")), Some(Err(ReadError::Broken)));
}

#[test]
fn a_head_without_content_is_no_object() {
    let bench = Bench::new();
    bench.store(&get("/"), FRESH, b"abc");
    std::fs::remove_file(&bench.files("c")[0]).expect("it was there");
    let bench = bench.reopened();
    assert_eq!((bench.files("h").len(), bench.cache.statistics().objects), (0, 0));
}

#[test]
fn small_pieces_that_wait_for_the_disk_are_bounded_too() {
    let bench = Bench::new();
    bench.cache.shared().folder.faults.plan(Some((0, Fault::Hang)));
    let mut filler = bench.begin(&get("/"));
    assert!(filler.head(&get("/"), &response(FRESH), &Policy::default(), times()).is_ok());
    let taken = (0..2000).take_while(|_| filler.poll_put(b"a", Waker::noop()).is_ready()).count();
    assert_eq!(taken, 1024);
}

#[test]
fn reading_goes_on_while_all_writes_hang() {
    let bench = Bench::with(|settings| settings.threads = 3);
    bench.store(&get("/"), FRESH, &content(SIZE));
    let faults = Arc::clone(&bench.cache.shared().folder.faults);
    faults.plan(Some((0, Fault::Hang)));
    let mut fillers = Vec::new();
    for path in ["/1", "/2", "/3"] {
        let mut filler = bench.begin(&get(path));
        assert!(filler.head(&get(path), &response(FRESH), &Policy::default(), times()).is_ok());
        assert!(wait(|waker| filler.poll_put(b"abc", waker)));
        fillers.push(filler);
    }
    until("two threads hang", || faults.steps() == 2);
    assert!(bench.get(&get("/")) == Some(Ok(content(SIZE))), "the file is opened and read by the third");
}
