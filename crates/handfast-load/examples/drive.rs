//! Runs a plan given as JSON and prints the sums: to try the generator without the rest.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "a program for a terminal")]

use handfast_load::generator::{Generator, Share};
use handfast_load::plan::Plan;
use handfast_net::clock::Moment;

fn main() {
    let plan: Plan = serde_json::from_str(&std::env::args().nth(1).expect("a plan")).expect("a plan");
    let generator = Generator::prepare(&plan, Share { index: 0, of: 1 }).expect("prepare");
    println!("{:?}", generator.facts());
    let (sender, receiver) = std::sync::mpsc::sync_channel(4);
    let running =
        generator.start(Moment::now() + std::time::Duration::from_millis(300), sender).expect("start");
    for second in receiver {
        let threads: Vec<_> = second.threads.iter().map(|t| t.busy_ns / 1_000_000).collect();
        println!("{} {:?} {:?} {threads:?}", second.second, second.tally, second.failures);
    }
    let end = running.join();
    for (series, histogram) in &end.totals.series {
        println!(
            "{:<18} {:?} p99 {:?} max {}",
            series.name(),
            histogram,
            histogram.quantile(0.99),
            histogram.max_nanos()
        );
    }
    println!("{:?} {:?} {:?} start {}", end.totals.tally, end.totals.agreed, end.kernel, end.start_error_ns);
}
