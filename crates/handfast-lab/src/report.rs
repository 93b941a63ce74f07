//! Report of what a lab really did, as data, as text and as JSON. In: the plan and the forwarder's
//! tallies. Out: a [`Report`]. It measures nothing.

use std::time::Duration;

use handfast_stats::histogram::Histogram;
use handfast_text::units;
use serde::Serialize;

use crate::emulate::{Bound, Shape};
use crate::forwarder::{ACCURACY, Ended, Tally};
use crate::plan::Plan;
use crate::port::Engine;

/// Report of a run of the lab.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Name and version of this format.
    pub schema: &'static str,
    /// Engine that carried packets: `veth` or `tun`.
    pub engine: &'static str,
    /// Seed of the random numbers.
    pub seed: u64,
    /// True if the thread that forwards ran in real time.
    pub real_time: bool,
    /// Duration of the command.
    pub seconds: f64,
    /// Its exit code, as shells count.
    pub exit: u8,
    /// Packets that are missing in the capture, for the disk was too slow.
    pub not_captured: u64,
    /// Each link.
    pub links: Vec<LinkReport>,
}

/// Figures of a link.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinkReport {
    /// The hosts at its ends.
    pub between: [String; 2],
    /// The largest packet, in bytes.
    pub mtu: u32,
    /// From the first to the second, and back.
    pub directions: Vec<Direction>,
}

/// Figures of one direction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Direction {
    /// The sender.
    pub from: String,
    /// The receiver.
    pub to: String,
    /// The request.
    pub asked: RequestedEffects,
    /// Packets that were sent.
    pub packets: u64,
    /// Their bytes, from the IP header on.
    pub bytes: u64,
    /// Packets that arrived.
    pub arrived: u64,
    /// Packets lost by chance, as asked.
    pub lost: u64,
    /// Packets dropped because the queue was full.
    pub dropped: u64,
    /// Packets that arrived after one that was sent later.
    pub reordered: u64,
    /// The most packets that waited for the rate.
    pub longest_queue: u64,
    /// Packets that were due and that the receiver's kernel did not take.
    pub undelivered: u64,
    /// Packets that were gone before the lab saw them, for the machine was too slow.
    pub missed: u64,
    /// Time from being sent to arriving.
    pub delay_ms: Spread,
    /// Time from when a packet was due to its arriving: the lab's own error.
    pub late_ms: Spread,
    /// Packets that were more than half a millisecond late.
    pub late_packets: u64,
    /// Bits a second that arrived, from the first packet sent to the last one that arrived.
    pub bits_per_second: f64,
}

/// Requested effects of a link.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RequestedEffects {
    /// Milliseconds from one end to the other.
    pub delay_ms: f64,
    /// Requested variation to both sides, in milliseconds.
    pub jitter_ms: f64,
    /// Share to be lost.
    pub loss: f64,
    /// Share to be held back.
    pub reorder: f64,
    /// Bits a second.
    pub bits_per_second: Option<u64>,
    /// Packets that may wait, where they are counted in packets.
    pub queue_packets: Option<usize>,
    /// Bytes that may wait, where they are counted in bytes.
    pub queue_bytes: Option<u64>,
}

/// A distribution. **Units**: milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// The smallest.
    pub min: f64,
    /// Half are below.
    pub p50: f64,
    /// 99 of 100 are below.
    pub p99: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    fn of(histogram: &Histogram) -> Self {
        if histogram.is_empty() {
            return Self::default();
        }
        let ms = |nanos: u64| (nanos as f64 / 1e3).round() / 1e3;
        Self {
            min: ms(histogram.min_nanos()),
            p50: ms(histogram.quantile_nanos(0.5)),
            p99: ms(histogram.quantile_nanos(0.99)),
            max: ms(histogram.max_nanos()),
        }
    }
}

/// Other facts about a run.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Engine that carried packets.
    pub engine: Engine,
    /// Seed of the random numbers.
    pub seed: u64,
    /// Duration of the command.
    pub took: Duration,
    /// Its exit code.
    pub exit: u8,
}

impl Report {
    /// Puts together what happened.
    pub fn new(plan: &Plan, run: Run, ended: &Ended) -> Self {
        let links = plan.links.iter().zip(&ended.tallies).map(|(link, tallies)| {
            let between = link.ends.map(|end| plan.hosts[end].clone());
            let directions = tallies.iter().enumerate().map(|(from, tally)| {
                let (from, to) = (from, 1 - from);
                direction(between[from].clone(), between[to].clone(), &link.shapes[from], tally)
            });
            let directions = directions.collect();
            LinkReport { between, mtu: link.mtu, directions }
        });
        Self {
            schema: "handfast-lab/1",
            engine: run.engine.word(),
            seed: run.seed,
            real_time: ended.real_time,
            seconds: run.took.as_secs_f64(),
            exit: run.exit,
            not_captured: ended.unwatched,
            links: links.collect(),
        }
    }

    /// As JSON.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("text and numbers are JSON");
        text.push('\n');
        text
    }

    /// As text, for people.
    pub fn to_text(&self) -> String {
        let clock = if self.real_time { "real time" } else { "ordinary priority" };
        let took = units::duration(self.seconds * 1e9);
        let mut text = format!("lab: {took}, {}, {clock}, seed {}\n", self.engine, self.seed);
        for link in &self.links {
            for direction in &link.directions {
                text.push_str(&words(direction, link.mtu));
            }
        }
        if self.not_captured > 0 {
            let packets = units::counted(self.not_captured, "packet");
            text.push_str(&format!("  the capture is missing {packets}: the disk was too slow\n"));
        }
        text
    }
}

fn direction(from: String, to: String, shape: &Shape, tally: &Tally) -> Direction {
    let counts = tally.counts;
    let span = tally.first.zip(tally.last).map_or(0.0, |(first, last)| last.since(first).as_secs_f64());
    let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
    Direction {
        from,
        to,
        asked: RequestedEffects {
            delay_ms: ms(shape.delay),
            jitter_ms: ms(shape.jitter),
            loss: shape.loss,
            reorder: shape.reorder,
            bits_per_second: shape.rate,
            queue_packets: match shape.queue {
                Bound::Packets(packets) if shape.rate.is_some() => Some(packets),
                _ => None,
            },
            queue_bytes: match shape.queue {
                Bound::Bytes(bytes) if shape.rate.is_some() => Some(bytes),
                _ => None,
            },
        },
        packets: counts.entered,
        bytes: counts.bytes,
        arrived: counts.arrived,
        lost: counts.lost,
        dropped: counts.dropped,
        reordered: counts.reordered,
        longest_queue: counts.longest_queue,
        undelivered: tally.undelivered,
        missed: tally.missed,
        delay_ms: Spread::of(&tally.took),
        late_ms: Spread::of(&tally.late),
        late_packets: tally.late_packets,
        bits_per_second: if span > 0.0 { counts.arrived_bytes as f64 * 8.0 / span } else { 0.0 },
    }
}

/// One direction in three lines.
fn words(direction: &Direction, mtu: u32) -> String {
    let Direction { from, to, asked, delay_ms, late_ms, .. } = direction;
    let ms = |ms: f64| units::duration(ms * 1e6);
    let mut line = format!("  {from} to {to}, asked for {}", ms(asked.delay_ms));
    if asked.jitter_ms > 0.0 {
        line.push_str(&format!(" ± {}", ms(asked.jitter_ms)));
    }
    for (share, what) in [(asked.loss, "lost"), (asked.reorder, "held back")] {
        if share > 0.0 {
            line.push_str(&format!(", {} {what}", units::share(share)));
        }
    }
    if let Some(rate) = asked.bits_per_second {
        line.push_str(&format!(", {}", bits(rate as f64)));
    }
    match (asked.queue_packets, asked.queue_bytes) {
        (Some(packets), _) => {
            line.push_str(&format!(", a queue of {}", units::counted(packets as u64, "packet")))
        }
        (_, Some(bytes)) => line.push_str(&format!(", a queue of {}", units::exact_bytes(bytes))),
        _ => {}
    }
    line.push_str(&format!(", MTU {mtu}\n"));
    line.push_str(&format!(
        "    {}, {}: {} lost, {} dropped, {} reordered; {} a second\n",
        units::counted(direction.packets, "packet"),
        units::bytes(direction.bytes),
        units::count(direction.lost),
        units::count(direction.dropped),
        units::count(direction.reordered),
        bits(direction.bits_per_second),
    ));
    if direction.arrived > 0 {
        line.push_str(&format!(
            "    took {} (p50), {} (p99), {} (max); late by {}, {}, {}; {} by more than {}\n",
            ms(delay_ms.p50),
            ms(delay_ms.p99),
            ms(delay_ms.max),
            ms(late_ms.p50),
            ms(late_ms.p99),
            ms(late_ms.max),
            units::count(direction.late_packets),
            ms(ACCURACY.as_secs_f64() * 1e3),
        ));
    }
    for (count, what) in [
        (direction.undelivered, "were not taken by the receiver's kernel"),
        (direction.missed, "were gone before the lab saw them: this machine is too slow for so many"),
    ] {
        if count > 0 {
            line.push_str(&format!("    {} {what}\n", units::counted(count, "packet")));
        }
    }
    line
}

/// Bits in the unit that fits.
fn bits(bits: f64) -> String {
    match bits {
        bits if bits >= 1e9 => format!("{:.2} Gbit", bits / 1e9),
        bits if bits >= 1e6 => format!("{:.2} Mbit", bits / 1e6),
        bits if bits >= 1e3 => format!("{:.1} kbit", bits / 1e3),
        bits => format!("{bits:.0} bit"),
    }
}
