//! A report can be kept and repeated: every file is whole and well-formed, `--replay` does the same again, `compare` knows
//! noise from change, and a run that is ended early still reports.

use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;

use super::support::delays::{Manners, TlsServer};
use super::support::folder::Folder;
use super::support::load::{Ended, Load};
use super::support::skip::needs;
use super::support::tools;

/// Every file there is, and its option.
const FILES: [(&str, &str); 6] = [
    ("--json", "kept.json"),
    ("--csv", "seconds.csv"),
    ("--csv-latencies", "latencies.csv"),
    ("--openmetrics", "metrics.txt"),
    ("--hlog", "steps.hlog"),
    ("--html", "report.html"),
];

fn server() -> TlsServer {
    TlsServer::start(Manners::late_by(Duration::from_millis(5)))
}

fn all_files(load: Load, folder: &Folder) -> Load {
    let others = FILES.iter().filter(|(option, _)| *option != "--json");
    let load = load.json(&folder.file("kept.json"));
    others.fold(load, |load, (option, name)| load.file(option, &folder.file(name)))
}

fn kept(folder: &Folder, name: &str) -> String {
    std::fs::read_to_string(folder.file(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn json(folder: &Folder, name: &str) -> serde_json::Value {
    serde_json::from_str(&kept(folder, name)).expect("it is JSON")
}

/// One run with every file.
fn keep_all(words: &str) -> (Ended, Folder) {
    let (server, folder) = (server(), Folder::new());
    let ended = all_files(Load::at(server.address).with(words), &folder).run_well();
    (ended, folder)
}

#[test]
fn json_names_its_version_and_its_figures_agree() {
    let (ended, folder) = keep_all("-c 4 -d 1200ms --resume 50%");
    let report = json(&folder, "kept.json");
    assert_eq!(report["schema"], "handfast-load/1");
    let timeline = report["timeline"].as_array().expect("a list");
    let sum: u64 = timeline.iter().filter_map(|second| second["transactions"].as_u64()).sum();
    assert_eq!(Some(sum), report["totals"]["transactions"].as_u64(), "the seconds make the whole");
    let (full, resumed) = (report["mix"]["full"].as_u64(), report["mix"]["resumed"].as_u64());
    let handshakes = full.zip(resumed).map(|(full, resumed)| full + resumed);
    let series = report["series"].as_array().expect("a list");
    let count =
        |name: &str| series.iter().find(|one| one["name"] == name).and_then(|one| one["count"].as_u64());
    assert_eq!((count("handshake-full"), count("handshake-resumed")), (full, resumed));
    assert_eq!(count("handshake"), handshakes);
    assert!(ended.output.contains(&ended.verdict().to_uppercase()), "{}", ended.all());
}

#[test]
fn csv_has_a_line_for_each_second_and_each_percentile() {
    let (_, folder) = keep_all("-c 4 -d 1200ms");
    let report = json(&folder, "kept.json");
    for name in ["seconds.csv", "latencies.csv"] {
        let text = kept(&folder, name);
        let columns: Vec<usize> = text.lines().map(|line| line.split(',').count()).collect();
        assert!(columns.len() > 1 && columns[0] > 1, "{text}");
        assert!(columns.iter().all(|count| *count == columns[0]), "{text}");
    }
    let seconds = kept(&folder, "seconds.csv").lines().count() - 1;
    assert_eq!(Some(seconds), report["timeline"].as_array().map(Vec::len));
    assert!(kept(&folder, "latencies.csv").contains("exchange"));
}

#[test]
fn the_metrics_are_read_by_the_text_file_collector_too() {
    needs!("promtool");
    let (_, folder) = keep_all("-c 4 -d 500ms");
    // It uses the parser of node_exporter's collector, for the text format of Prometheus.
    let checked = tools::run("promtool", &["check", "metrics"], kept(&folder, "metrics.txt").as_bytes());
    assert_eq!((checked.code, checked.all().trim()), (Some(0), ""), "{}", kept(&folder, "metrics.txt"));
}

#[test]
fn quiet_means_nothing_but_errors_and_warnings() {
    let server = server();
    let good = Load::at(server.address).with("-c 1 -d 300ms -q").run_well();
    assert!(good.output.is_empty(), "{}", good.all());
    let missed = Load::at(server.address).with("-c 1 -d 300ms -q --max exchange.p50=1ns").run();
    assert!(missed.output.is_empty() && missed.talk.starts_with("handfast: warning: "), "{}", missed.all());
    assert_eq!(missed.talk.lines().count(), 1, "{}", missed.all());
}

#[test]
fn openmetrics_is_well_formed() {
    let (_, folder) = keep_all("-c 4 -d 500ms");
    let text = kept(&folder, "metrics.txt");
    assert!(text.ends_with("\n# EOF\n"), "{text}");
    let mut types = Vec::new();
    for line in text.lines().take_while(|line| *line != "# EOF") {
        if let Some(line) = line.strip_prefix("# TYPE ") {
            let name = line.split(' ').next().expect("a name").to_owned();
            assert!(!types.contains(&name), "{name} is declared twice:\n{text}");
            types.push(name);
            continue;
        }
        if line.starts_with("# ") {
            continue;
        }
        // A sample: name, labels, a number; of the family that was declared last.
        let (name, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no sample: {line}"));
        assert!(value.parse::<f64>().is_ok(), "{line}");
        let name = name.split('{').next().expect("a name");
        assert!(types.last().is_some_and(|family| name.starts_with(family.as_str())), "{line}: of no family");
    }
    assert!(types.len() > 3, "{text}");
}

#[test]
fn the_histogram_log_is_well_formed() {
    let (_, folder) = keep_all("-c 4 -d 1200ms");
    let text = kept(&folder, "steps.hlog");
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    assert_eq!(lines.next().map(|line| line.starts_with("\"StartTimestamp\"")), Some(true), "{text}");
    let mut tags = std::collections::BTreeSet::new();
    for line in lines {
        let (tag, rest) = line.split_once(',').expect("a tag comes first");
        tags.insert(tag.strip_prefix("Tag=").unwrap_or_else(|| panic!("no tag: {line}")).to_owned());
        let fields: Vec<&str> = rest.split(',').collect();
        assert_eq!(fields.len(), 4, "{line}");
        assert!(fields[..3].iter().all(|field| field.parse::<f64>().is_ok()), "{line}");
        // V2 DEFLATE in base64: its cookie is 0x1c849304, whose first 24 bits are these letters.
        assert!(fields[3].starts_with("HISTFAAA"), "{line}");
    }
    assert!(tags.contains("exchange") && tags.contains("handshake"), "{tags:?}");
}

#[test]
fn the_page_needs_no_network() {
    let (ended, folder) = keep_all("-c 4 -d 1200ms");
    let page = kept(&folder, "report.html");
    assert!(page.starts_with("<!") && page.trim_end().ends_with("</html>"));
    assert!(
        page.contains(&ended.verdict().to_uppercase()) && page.contains("<svg"),
        "the verdict and a plot"
    );
    for outside in ["src=", "<link", "<script", "@import", "url(", "href=\"http", "<iframe", "<object"] {
        assert!(!page.contains(outside), "{outside} in the page");
    }
    // Names of XML's own are no places to go to.
    let places = page.matches("http://").count() + page.matches("https://").count();
    assert_eq!(places, page.matches("http://www.w3.org/").count(), "a place outside is named");
}

#[test]
fn a_report_is_replayed_and_compared() {
    let (server, folder) = (server(), Folder::new());
    let (first, second) = (folder.file("a.json"), folder.file("b.json"));
    let words = "-c 3 -n 2 -d 600ms --tls 1.2 --send 4KiB --timeout 7s --close fin --max exchange.p50=5s";
    let _ = Load::at(server.address).with(words).json(&first).run_well();
    let _ = Load::words_alone().file("--replay", &first).json(&second).run_well();
    let (a, b) = (json(&folder, "a.json"), json(&folder, "b.json"));
    assert_eq!(a["manifest"]["job"], b["manifest"]["job"]);
    assert!(a["manifest"]["job"].is_object());
    assert_eq!((&a["work"], &a["manifest"]["seed"]), (&b["work"], &b["manifest"]["seed"]));
    assert_eq!(b["limits"][0]["held"], true, "the limits are asked for again");
}

#[test]
fn two_reports_are_shown_side_by_side() {
    let folder = Folder::new();
    let (quick, slow) = (server(), TlsServer::start(Manners::late_by(Duration::from_millis(60))));
    let start = |server: &TlsServer, words: &str, name: &str| {
        Load::at(server.address).with("-d 1s").with(words).json(&folder.file(name)).start()
    };
    // All at once: they wait most of the time.
    let runs = [
        start(&quick, "-c 3", "quick.json"),
        start(&slow, "-c 3", "slow.json"),
        start(&quick, "-c 4", "other.json"),
    ];
    let ended = runs.map(|run| run.ended().well());
    let compare = |words: &[&str]| {
        let path = |word: &&str| match word.ends_with(".json") {
            true => folder.file(word).display().to_string(),
            false => (*word).to_owned(),
        };
        let words: Vec<String> =
            std::iter::once("compare".to_owned()).chain(words.iter().map(path)).collect();
        tools::handfast(&words.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let other = compare(&["quick.json", "other.json"]);
    assert!(other.output.starts_with("NOT COMPARABLE: "), "{}", other.all());
    assert!(
        other.output.contains("job connections differs: 3 in run 1 of A, 4 in run 1 of B"),
        "{}",
        other.all()
    );
    let other = compare(&["quick.json", "slow.json"]);
    assert!(other.output.contains("the target differs: 127.0.0.1:"), "{}", other.all());
    let beside = compare(&["quick.json", "slow.json", "--across-targets"]);
    assert_eq!(beside.code, Some(0), "{}", beside.all());
    // The third run is not in this comparison.
    if ended[..2].iter().all(|ended| ended.verdict() == "valid") {
        assert!(beside.output.starts_with("SIDE BY SIDE, no claim: "), "{}", beside.all());
    } else {
        // Other tests had the processors.
        assert!(beside.output.starts_with("NOT COMPARED: run 1 of "), "{}", beside.all());
    }
    assert!(!beside.output.contains("slower") && beside.output.contains("  rate "), "{}", beside.all());
    let written = compare(&["quick.json", "quick.json", "--json", "compared.json"]);
    assert_eq!(written.code, Some(0), "{}", written.all());
    assert_eq!(json(&folder, "compared.json")["schema"], "handfast-compare/2");
    let only_json = compare(&["quick.json", "quick.json", "--json", "-"]);
    assert!(only_json.output.starts_with('{') && only_json.talk.contains("rate"), "{}", only_json.all());
    for wrong in [
        &["quick.json"][..],
        &["--before", "quick.json"],
        &["quick.json", "slow.json", "--before", "quick.json"],
    ] {
        assert_eq!(compare(wrong).code, Some(2), "{wrong:?}");
    }
}

#[test]
fn three_runs_of_each_side_in_turn_are_compared() {
    let folder = Folder::new();
    let (quick, slow) = (server(), TlsServer::start(Manners::late_by(Duration::from_millis(60))));
    let mut files: [Vec<String>; 2] = Default::default();
    for (place, side) in [0, 1, 1, 0, 0, 1].into_iter().enumerate() {
        let server = [&quick, &slow][side];
        let file = folder.file(&format!("{place}.json"));
        let _ = Load::at(server.address).with("-c 1 -n unlimited -d 1s").json(&file).run_well();
        files[side].push(file.display().to_string());
    }
    let mut words = vec!["compare", "--across-targets", "--before"];
    words.extend(files[0].iter().map(String::as_str));
    words.push("--after");
    words.extend(files[1].iter().map(String::as_str));
    let compared = tools::handfast(&words);
    assert_eq!(compared.code, Some(0), "{}", compared.all());
    let spoilt = compared.output.starts_with("NOT COMPARED: ");
    // Without the processors, which other tests had, nothing can be said.
    assert!(spoilt || compared.output.starts_with("DIFFERENT: rate: after is "), "{}", compared.all());
    assert!(spoilt || compared.output.contains("slower"), "{}", compared.all());
}

#[test]
fn a_file_that_cannot_be_written_is_found_before_the_run() {
    let (server, folder) = (server(), Folder::new());
    for (option, _) in FILES {
        let path: PathBuf = folder.file("no such folder").join("report");
        let load = Load::at(server.address).with("-d 60s");
        let ended = if option == "--json" { load.json(&path) } else { load.file(option, &path) }.run();
        assert_eq!(ended.code, Some(1), "{option}: {}", ended.all());
        assert!(ended.talk.contains(option) && ended.talk.contains("no such folder"), "{}", ended.all());
    }
    assert_eq!(server.requests(), 0, "nothing was run");
    // An earlier report survives a run that fails.
    let path = folder.write("old.json", "old");
    let ended = Load::at("127.0.0.1:1").json(&path).run();
    assert_eq!(ended.code, Some(1), "{}", ended.all());
    assert_eq!(kept(&folder, "old.json"), "old");
}

#[test]
fn a_run_that_is_ended_early_still_reports() {
    let (server, folder) = (server(), Folder::new());
    let running = all_files(Load::at(server.address).with("-c 4 -d 60s"), &folder).start();
    running.seconds(1);
    running.process().signal(Signal::INT);
    let ended = running.ended();
    // Half a run must not look like a whole one: the exit code is that of a shell, 128 and the signal's number.
    assert_eq!(ended.code, Some(130), "{}", ended.all());
    assert!(ended.took < Duration::from_secs(30), "{:?}", ended.took);
    assert!(ended.output.contains(&ended.verdict().to_uppercase()), "{}", ended.all());
    let report = json(&folder, "kept.json");
    let seconds = report["totals"]["duration_seconds"].as_f64().expect("a number");
    assert!((1.0..30.0).contains(&seconds), "{seconds}");
    let notes = report["notes"].to_string();
    assert!(notes.contains("interrupted"), "{notes}");
    for (_, name) in FILES {
        assert!(!kept(&folder, name).is_empty(), "{name}");
    }
    let left: Vec<_> = std::fs::read_dir(folder.path()).expect("it is there").flatten().collect();
    assert_eq!(left.len(), FILES.len(), "nothing is left aside: {left:?}");
    let counted =
        report["totals"]["exchanges"].as_u64().zip(report["totals"]["warm_up_connections"].as_u64());
    assert_eq!(counted.map(|(run, before)| run + before), Some(server.requests() as u64), "none is lost");
}
