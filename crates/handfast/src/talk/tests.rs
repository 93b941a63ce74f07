//! Floods of messages. In: kinds of messages. Out: the lines that are written, and the numbers of those that are not.

use std::sync::mpsc::sync_channel;

use tracing_subscriber::Registry;

use super::*;

/// Everything that is written while `action` logs.
fn written(action: impl FnOnce()) -> Vec<String> {
    let (lines, waiting) = sync_channel(QUEUE);
    let shared = Arc::new(Shared { lost: AtomicU64::new(0), limit: Limit::new() });
    let talker = Talker {
        lines: lines.clone(),
        shared: Arc::clone(&shared),
        level: Level::INFO,
        color: false,
        stamp: Stamp::Absent,
    };
    let subscriber = Registry::default().with(talker);
    let write = move || {
        let mut out = Vec::new();
        let screen = Screen::new(&mut out, || None);
        Writer { shared, stamp: Stamp::Absent, screen, samples: HashMap::new() }.write_lines(&waiting);
        String::from_utf8(out).expect("text").lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let writer = std::thread::Builder::new().name("writer".into()).spawn(write).expect("a thread");
    tracing::subscriber::with_default(subscriber, action);
    lines.send(Line::End).expect("the writer waits for it");
    writer.join().expect("it does not panic")
}

/// The number of lines that the summaries of this kind report.
fn reported(lines: &[String], sample: &str) -> u64 {
    let summaries = lines.iter().filter(|line| line.contains(" left out in ") && line.contains(sample));
    let number = |line: &String| {
        let words = line.strip_prefix("handfast: warning: ").expect("a warning");
        words.split_once(" more line").expect("a number").0.replace(',', "").parse::<u64>().expect("a number")
    };
    summaries.map(number).sum()
}

/// A message of each kind, as a peer or a library causes it: what it contains, its level, its module.
type Kind = (&'static str, fn(u32));

const KINDS: [Kind; 6] = [
    ("a warning of ours", |number| tracing::warn!("a warning of ours, number {number}")),
    ("an error of ours", |number| tracing::error!("an error of ours, number {number}")),
    ("a note of ours", |number| tracing::info!("a note of ours, number {number}")),
    (
        "PING ack",
        |number| tracing::warn!(target: "h2::proto::ping_pong", "recv PING ack that we never sent: {number}"),
    ),
    ("fatal alert", |number| tracing::warn!(target: "rustls::conn", "received fatal alert {number}")),
    ("with fields", |number| tracing::error!(number, "with fields")),
];

/// Floods of each kind and of all at once: their lines are bounded, what is left out is counted, and no other line is lost.
#[test]
fn a_flood_of_one_kind_is_counted_and_displaces_nothing() {
    const FLOOD: u32 = 20_000;
    for flooded in (0..KINDS.len()).map(|kind| kind..kind + 1).chain(std::iter::once(0..KINDS.len())) {
        let kinds = &KINDS[flooded];
        let lines = written(|| {
            for number in 0..FLOOD {
                kinds.iter().for_each(|(_, log)| log(number));
                if number % (FLOOD / 40) == 0 {
                    tracing::warn!("something else, number {number}");
                }
            }
        });
        for (sample, _) in kinds {
            let own = lines.iter().filter(|line| line.contains(sample) && !line.contains(" left out in "));
            // A slow machine may need two windows.
            let own = own.count() as u64;
            assert!((50..=200).contains(&own), "{own} lines of {sample:?}");
            assert_eq!(own + reported(&lines, sample), u64::from(FLOOD), "{sample:?}: {lines:?}");
        }
        assert_eq!(lines.iter().filter(|line| line.contains("something else")).count(), 40);
        assert!(!lines.iter().any(|line| line.contains("too many at once")), "{lines:?}");
    }
}

/// A report of the operator's files is written whole.
/// Every log line passes there, whichever text of a peer or a file is in it.
#[test]
fn no_text_in_a_message_reaches_the_terminal_as_it_is() {
    let hostile = "a\r\nhandfast: error: forged\u{1b}[2J\u{9b}2J\u{202e}";
    let lines = written(|| {
        tracing::error!("{hostile}");
        tracing::warn!(answer = hostile, number = 7, "it failed");
        tracing::info!(error = ?hostile, "it failed\n  hint: ours");
    });
    let is_first = |line: &&String| line.starts_with("handfast: ");
    assert_eq!(lines.iter().filter(is_first).count(), 3, "one looks like another message: {lines:?}");
    for line in &lines {
        assert!(line.starts_with("  ") || is_first(&line), "{line:?}");
        assert!(!line.chars().any(|sign| sign.is_control() || sign == '\u{202e}'), "{line:?}");
    }
}

#[test]
fn reports_have_no_limit() {
    let lines = written(|| {
        let warnings: Vec<_> = (0..300).map(|number| format!("unused file {number}")).collect();
        handfast_process::log_lines::log_warnings(&warnings);
    });
    assert_eq!(lines.len(), 300);
}

/// Lines that find no room in the queue.
#[test]
fn lines_without_room_are_counted() {
    let (lines, waiting) = sync_channel(2);
    let shared = Arc::new(Shared { lost: AtomicU64::new(0), limit: Limit::new() });
    let counted = Arc::clone(&shared);
    let talker = Talker { lines, shared, level: Level::INFO, color: false, stamp: Stamp::Absent };
    tracing::subscriber::with_default(Registry::default().with(talker), || {
        (0..5).for_each(|number| tracing::warn!("number {number}"));
    });
    assert_eq!(counted.lost.load(Ordering::Relaxed), 3);
    let mut out = Vec::new();
    let screen = Screen::new(&mut out, || None);
    Writer { shared: counted, stamp: Stamp::Absent, screen, samples: HashMap::new() }.write_lines(&waiting);
    let text = String::from_utf8(out).expect("text");
    assert!(
        text.starts_with("handfast: warning: 3 lines left out: too many at once for the reader"),
        "{text}"
    );
}

mod limits {
    use tracing::callsite::Callsite;

    use super::super::limit::MAX_LINES;
    use super::*;

    /// The call sites of two lines.
    fn kinds() -> [&'static Metadata<'static>; 2] {
        [
            tracing::callsite!(name: "one", kind: tracing::metadata::Kind::EVENT, fields: message).metadata(),
            tracing::callsite!(name: "other", kind: tracing::metadata::Kind::EVENT, fields: message)
                .metadata(),
        ]
    }

    #[test]
    fn kinds_are_counted_separately_and_what_is_left_out_is_taken_once() {
        let limit = Limit::new();
        let [one, other] = kinds();
        let verdicts: Vec<_> = (0..MAX_LINES + 3).map(|_| limit.admit(one).verdict).collect();
        let (written, omitted) = verdicts.split_at(MAX_LINES as usize);
        assert!(written.iter().all(|verdict| *verdict == Verdict::Written));
        assert_eq!(omitted, [Verdict::FirstOmitted, Verdict::Omitted, Verdict::Omitted]);
        let place = limit.admit(one).place;
        assert_eq!(limit.admit(other).verdict, Verdict::Written);
        assert_ne!(limit.admit(other).place, place);
        assert_eq!(limit.take_omitted(true), [Omitted { place, lines: 4 }]);
        assert_eq!(limit.take_omitted(true), []);
    }

    #[test]
    fn threads_lose_no_line() {
        let limit = Limit::new();
        let [one, _] = kinds();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    (0..1_000).for_each(|_| {
                        let _ = limit.admit(one);
                    })
                });
            }
        });
        assert_eq!(
            limit.take_omitted(true).iter().map(|omitted| omitted.lines).sum::<u32>(),
            4_000 - MAX_LINES
        );
    }
}
