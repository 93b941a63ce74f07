//! The verdict names the bottleneck: whatever else than the target sets the pace is named first, with figures; and the exit
//! code says it to scripts.

use std::time::Duration;

use rustix::process::Signal;

use super::support::backend::Backend;
use super::support::config::Config;
use super::support::deadline::pause;
use super::support::delays::{Action, Manners, Request, TlsServer};
use super::support::folder::Folder;
use super::support::load::{Ended, Load};
use super::support::network::{in_a_network_of_its_own, set_parameter};
use super::support::proxy::Proxy;
use super::support::skip::{needs, skipped};
use super::support::stage::Stage;
use super::support::tools::Tool;

fn late(milliseconds: u64) -> TlsServer {
    TlsServer::start(Manners::late_by(Duration::from_millis(milliseconds)))
}

fn found(ended: &Ended, verdict: &str, code: i32) {
    assert_eq!(ended.verdict(), verdict, "{}", ended.all());
    assert_eq!(ended.code, Some(code), "{}", ended.all());
    let word = verdict.to_uppercase();
    let first = ended.output.lines().find(|line| line.chars().any(char::is_alphanumeric)).unwrap_or_default();
    assert!(first.contains(&word), "the verdict comes first:\n{}", ended.output);
    assert!(!ended.evidence().is_empty(), "{}", ended.all());
}

/// A run that had the processors it wanted. Other tests use them too, and then the program is right to report that and
/// nothing else: the next run shows what is tested. The last one counts, whatever it is.
fn undisturbed(load: impl Fn() -> Load) -> Ended {
    let crowded = |ended: &Ended| {
        ended.verdict() == "generator-limited"
            && ["wait for a CPU", "delayed them", "was paused"]
                .iter()
                .any(|words| ended.evidence().contains(words))
    };
    (0..9).map(|_| load().run()).find(|ended| !crowded(ended)).unwrap_or_else(|| load().run())
}

#[test]
fn limits_decide_about_the_exit_code() {
    let server = late(50);
    let load = || Load::at(server.address).with("-c 1 -n unlimited -d 500ms");
    let held = undisturbed(|| load().with("--max exchange.p50=10s --max errors=0.1% --min rate=1"));
    found(&held, "valid", 0);
    assert!(held.value("/limits").as_array().is_some_and(|limits| limits.len() == 3), "{}", held.all());
    let missed = undisturbed(|| load().with("--max exchange.p50=1ms --min rate=1"));
    found(&missed, "valid", 4);
    assert_eq!(missed.value("/limits/0/held"), false, "{}", missed.all());
    assert_eq!(missed.value("/limits/1/held"), true, "{}", missed.all());
    assert!(missed.output.contains("exchange.p50"), "{}", missed.all());
    // One connection and 50 ms are twenty a second at most.
    let too_slow = undisturbed(|| load().with("--min rate=10000"));
    found(&too_slow, "valid", 4);
}

#[test]
fn a_target_that_takes_less_than_was_offered() {
    // Four connections of 100 ms each: 40 a second at most.
    let server = late(100);
    let load = || Load::at(server.address).with("--rate 200 --arrivals fixed -c 4 -d 600ms");
    let ended = undisturbed(load);
    found(&ended, "target-limited", 0);
    let evidence = ended.evidence();
    assert!(evidence.contains("were offered") && evidence.contains("--connections"), "{evidence}");
    // A user that sets a limit means it at the offered rate.
    found(&undisturbed(|| load().with("--max exchange.p50=10s")), "target-limited", 4);
}

#[test]
fn a_target_that_resets_every_other_one() {
    let every_other = |request: Request| {
        if request.number % 2 == 1 { Action::Reset } else { Action::After(Duration::ZERO) }
    };
    let server = TlsServer::start(Manners { answer: Box::new(every_other), ..Manners::default() });
    // That a limit was missed says nothing then, and the exit code is not that of a missed one.
    let ended = Load::at(server.address).with("-c 2 -d 500ms --max errors=1%").run();
    found(&ended, "errors", 3);
    let evidence = ended.evidence();
    assert!(evidence.contains("exchange reset"), "{evidence}");
    let (failed, all) = (ended.count("/totals/failed"), ended.count("/totals/connections"));
    // Every other request has its answer, and each connection has one; what was under way at the end has none.
    assert!(failed > 0 && failed.abs_diff(all - failed) <= 4, "{failed} of {all}\n{}", ended.all());
    // The counts match the requests that the server answered and those that it reset.
    let resets = (0..server.requests()).filter(|number| number % 2 == 1).count() as u64;
    assert_eq!(failed, resets, "{}", ended.all());
    assert_eq!(ended.value("/errors/0/step"), "exchange", "{}", ended.all());
    assert_eq!(ended.value("/errors/0/cause"), "reset", "{}", ended.all());
    assert!(ended.value("/errors/0/examples/0").is_string(), "{}", ended.all());
}

#[test]
fn source_ports_that_run_out() {
    in_a_network_of_its_own!();
    let set = [("net.ipv4.ip_local_port_range", "40000 40031"), ("net.ipv4.tcp_tw_reuse", "0")];
    if !set.iter().all(|(name, value)| set_parameter(name, value)) {
        skipped!("the kernel's parameters cannot be set in a network of one's own");
    }
    let server = late(0);
    let ended = Load::at(server.address).with("-c 2 -d 500ms").run();
    found(&ended, "port-limited", 3);
    assert_eq!(ended.count("/ports/range"), 32, "{}", ended.all());
    assert!(ended.evidence().contains("source port"), "{}", ended.all());
    // An impossible run is refused before it begins.
    let refused = Load::at(server.address).with("--rate 100 -d 1s").run();
    assert_eq!(refused.code, Some(1), "{}", refused.all());
    assert!(
        refused.talk.contains("TIME_WAIT") && refused.talk.contains("--close reset"),
        "{}",
        refused.all()
    );
    // A reset leaves no TIME_WAIT: 32 ports are many then.
    let reset = Load::at(server.address).with("-c 2 -d 300ms --close reset --source 127.0.0.7").run_well();
    assert_eq!(reset.count("/totals/failed"), 0, "{}", reset.all());
    assert!(reset.count("/totals/connections") > 32, "{}", reset.all());
}

/// Processors that this process may use.
fn processors() -> Vec<u32> {
    let status = std::fs::read_to_string("/proc/self/status").expect("there is /proc");
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("it says so");
    let number = |text: &str| text.parse::<u32>().expect("a number");
    let range = |part: &str| match part.split_once('-') {
        Some((first, last)) => number(first)..=number(last),
        None => number(part)..=number(part),
    };
    list.trim().split(',').flat_map(range).collect()
}

#[test]
fn a_generator_that_has_no_processor_to_itself() {
    needs!("taskset", "sh");
    let processors = processors();
    let [first, _, ..] = processors[..] else { skipped!("it takes two processors") };
    let ours = first.to_string();
    let server = late(0);
    // The tests' own server stays where it may; what burns shares one processor with the generator's only thread.
    let burn = ["-c", ours.as_str(), "sh", "-c", "echo burning; while :; do :; done"];
    let burners = [(); 3].map(|()| Tool::start("taskset", &burn));
    for burner in &burners {
        let _ = burner.output.containing("burning");
    }
    let load = || Load::at(server.address).under(&["taskset", "-c", &ours]).with("--threads 1 -d 600ms");
    let closed = load().with("-c 16").run();
    let open = load().with("--rate 3000 --arrivals fixed -c 64").run();
    drop(burners);
    found(&closed, "generator-limited", 3);
    assert!(closed.evidence().contains("generator thread"), "{}", closed.all());
    found(&open, "generator-limited", 3);
    assert!(open.evidence().contains("lag"), "{}", open.all());
    assert!(closed.evidence().contains("waited for a CPU"), "{}", closed.all());
}

#[test]
fn a_target_is_blamed_only_by_a_generator_that_had_a_processor() {
    needs!("taskset", "sh");
    let processors = processors();
    let [first, _, ..] = processors[..] else { skipped!("it takes two processors") };
    let ours = first.to_string();
    let (folder, backend) = (Folder::new(), Backend::echo());
    // Generator and target share one processor, and what burns takes most of it from both.
    let proxy = Proxy::start_under(&["taskset", "-c", &ours], Config::to(&folder, backend.address));
    let burn = ["-c", ours.as_str(), "sh", "-c", "echo burning; while :; do :; done"];
    let burners = [(); 3].map(|()| Tool::start("taskset", &burn));
    for burner in &burners {
        let _ = burner.output.containing("burning");
    }
    // More than the few connections can carry then: arrivals wait, as they would for a target at its limit.
    let load = |model: &str| {
        let load = Load::at(proxy.address()).under(&["taskset", "-c", &ours]);
        load.with("--threads 1 -c 4").with(model).run()
    };
    for model in [
        "--rate 600 --arrivals fixed -d 1s",
        "--rate 1..1200 --arrivals fixed -d 1s",
        "--find-max total.p50=10s --find-start 600 --step 1s --repeats 1",
    ] {
        let ended = load(model);
        assert_eq!((ended.verdict(), ended.code), ("generator-limited", Some(3)), "{model}\n{}", ended.all());
        let evidence = ended.evidence();
        assert!(evidence.contains("waiting for a CPU"), "{model}\n{evidence}");
        assert!(!evidence.contains("had spare capacity"), "{model}\n{evidence}");
    }
}

#[test]
fn a_target_that_stands_still_under_a_closed_loop() {
    // Slow enough that what other tests do with the processors does not matter.
    let backend = Backend::start(|peer| {
        loop {
            let request = peer.read_exactly(4096);
            if request.len() < 4096 {
                return;
            }
            pause(Duration::from_millis(10));
            peer.send(&request);
        }
    });
    let stage = Stage::with(backend, |config, _| config);
    let load = Load::at(stage.proxy.address()).with("-c 2 -n unlimited -d 6s --max exchange.p50=10s");
    let running = load.start();
    running.seconds(1);
    stage.proxy.signal(Signal::STOP);
    // Whatever second it is in, a whole one passes.
    pause(Duration::from_millis(2_100));
    stage.proxy.signal(Signal::CONT);
    let ended = running.ended();
    let evidence = ended.evidence();
    assert!(
        evidence.contains("a second are usual: the target, or the network path to it, stalled"),
        "{}",
        ended.all()
    );
    assert!(evidence.contains("use --rate"), "{}", ended.all());
    assert!(ended.value("/stalled").as_array().is_some_and(|seconds| !seconds.is_empty()), "{}", ended.all());
    // The half of the exchanges that were begun were quick; those that clients would have begun meanwhile are not known.
    assert_eq!(ended.value("/limits/0/held"), false, "{}", ended.all());
    if ended.verdict() == "valid" {
        assert_eq!(ended.code, Some(4), "{}", ended.all());
        assert!(!ended.output.contains("are stable."), "{}", ended.all());
        assert!(ended.output.contains("but it stalled for a while"), "{}", ended.all());
    }
}

#[test]
fn a_generator_that_is_paused_for_less_than_a_second() {
    let server = late(5);
    for model in ["--rate 100 --arrivals fixed", "-c 2", "--rate 100 -n unlimited"] {
        let running = Load::at(server.address).with("-d 4s").with(model).start();
        running.seconds(1);
        running.process().signal(Signal::STOP);
        pause(Duration::from_millis(400));
        running.process().signal(Signal::CONT);
        let ended = running.ended();
        // A tenth of the run: p99 is that of the pause, whatever else took the processors.
        found(&ended, "generator-limited", 3);
        let evidence = ended.evidence();
        assert!(evidence.contains("the generator was paused: "), "{model}\n{evidence}");
        assert!(!evidence.contains("the target, or the network"), "{model}\n{evidence}");
        assert!(!ended.output.contains("are stable."), "{model}\n{}", ended.all());
    }
}

/// Their bounds are times, so they run alone.
mod timed {
    use super::*;

    #[test]
    fn valid_when_nothing_else_was_at_its_limit() {
        // Few and slow, so that what other tests do with the processors does not matter.
        let server = late(200);
        let closed = undisturbed(|| Load::at(server.address).with("-c 1 -n unlimited -d 1s"));
        found(&closed, "valid", 0);
        assert!(closed.evidence().contains("the generator had spare capacity"), "{}", closed.all());
        let open = undisturbed(|| Load::at(server.address).with("--rate 10 --arrivals fixed -d 1s"));
        found(&open, "valid", 0);
        assert!(open.evidence().contains("of the offered rate was reached"), "{}", open.all());
    }
}
