//! Analyses a capture of another program: every TCP connection in it, and where its time went.
//!
//! In: an untrusted file, pcap or pcapng. Out: a [`CaptureReport`]: data, to be written as text or JSON. Nothing is decrypted, and no
//! key is needed. Memory is bounded for every file: [`MAX_CONNECTIONS`], [`MAX_HELD_BYTES`], and what `conversation.rs` keeps of each.
//!
//! | question | file |
//! |---|---|
//! | records of one direction | `records.rs` |
//! | one connection | `conversation.rs` |
//! | the data | [`report`] |
//! | for people | `text.rs` |

mod conversation;
mod records;
pub mod report;
mod text;

use std::collections::HashMap;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use handfast_text::calendar::Utc;
use handfast_wire::capture::{Broken, CaptureReader, Format, Frame, MAX_RECORD_BYTES, Next};
use handfast_wire::link::ip_packet;
use handfast_wire::packet::{Segment, segment};

use conversation::Conversation;
pub use report::{CaptureReport, ConnectionReport, PacketRow};
pub use text::{to_summary, to_text};

/// Connections that are kept; more are counted.
pub const MAX_CONNECTIONS: usize = 10_000;
/// Bytes of all connections that wait for others.
const MAX_HELD_BYTES: usize = 16 << 20;

/// Reason why a file is not analysed.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// It cannot be read.
    #[error("read {name}: {source}")]
    Read {
        /// Its name.
        name: String,
        /// Error of the system.
        source: io::Error,
    },
    /// It is no capture.
    #[error("read {name}: {source}")]
    NoCapture {
        /// Its name.
        name: String,
        /// Problem with its first bytes.
        source: Broken,
    },
    /// It ends before its format is known.
    #[error("read {name}: {bytes} bytes, expected pcap or pcapng")]
    TooShort {
        /// Its name.
        name: String,
        /// Bytes that are there.
        bytes: usize,
    },
}

/// Reads a capture to its end.
///
/// **Errors**: it cannot be read, or is no capture. One that is cut off or damaged further on is reported up to there.
///
/// **Cost**: one pass; memory as the module's head says.
pub fn read(name: &str, program: &str, file: &mut dyn Read) -> Result<CaptureReport, CaptureError> {
    let mut table = Table::default();
    let read = each(name, file, &mut |frame, interface| table.take(frame, interface))?;
    Ok(table.report(CaptureReport {
        schema: report::SCHEMA,
        program: program.to_owned(),
        file: name.to_owned(),
        format: read.format.name(),
        bytes: read.bytes,
        broken: read.broken,
        ..CaptureReport::default()
    }))
}

/// The facts about a whole file.
struct Whole {
    format: Format,
    bytes: u64,
    /// Reason why it is incomplete.
    broken: Option<String>,
}

/// Gives each frame of a capture to `take`, with the name of its interface.
///
/// **Errors**: it cannot be read, or is no capture.
fn each(
    name: &str,
    file: &mut dyn Read,
    take: &mut dyn FnMut(&Frame<'_>, Option<&str>),
) -> Result<Whole, CaptureError> {
    let mut reader = CaptureReader::default();
    let mut window = Window { file, bytes: Vec::new(), at: 0, passed: 0, over: false };
    let unread = |source: io::Error| CaptureError::Read { name: name.to_owned(), source };
    let broken = loop {
        match reader.next(&window.bytes[window.at..]) {
            Err(broken) if window.passed == 0 => {
                return Err(CaptureError::NoCapture { name: name.to_owned(), source: broken });
            }
            Err(broken) => break Some(format!("damaged behind byte {}: {broken}", window.passed)),
            Ok(Next::More(required)) => {
                if !window.fill(required).map_err(unread)? {
                    let there = window.bytes.len();
                    break (there > 0).then(|| {
                        format!("cut off: {there} bytes of a record of at least {required} are there")
                    });
                }
            }
            Ok(Next::Passed(bytes)) => {
                if !window.pass(bytes).map_err(unread)? {
                    break Some("cut off within a block without packets".to_owned());
                }
            }
            Ok(Next::Frame(frame, taken)) => {
                take(&frame, reader.interface_name(frame.interface));
                window.at += taken;
                window.passed += taken as u64;
            }
        }
    };
    match reader.format() {
        Some(format) => Ok(Whole { format, bytes: window.passed, broken }),
        None => Err(CaptureError::TooShort { name: name.to_owned(), bytes: window.bytes.len() }),
    }
}

/// The packets of the connection with this address of ours, and what they show.
pub(crate) fn watched(mut file: &[u8], local: SocketAddr) -> Option<(Vec<PacketRow>, ConnectionReport)> {
    /// More than any handshake has.
    const MAX_ROWS: usize = 400;
    let mut kept: Option<(u64, Conversation)> = None;
    let mut rows = Vec::new();
    let mut take = |frame: &Frame<'_>, _: Option<&str>| {
        let Some(segment) = ip_packet(frame.link, frame.bytes).and_then(segment) else { return };
        if segment.from != local && segment.to != local {
            return;
        }
        let at = frame.at.unwrap_or(0);
        let (begun, conversation) = kept.get_or_insert_with(|| (at, Conversation::new(0, at, &segment)));
        let what = conversation.take(at, &segment);
        if rows.len() < MAX_ROWS {
            let flags =
                [(segment.syn, "SYN"), (segment.fin, "FIN"), (segment.reset, "RST"), (segment.ack, "ACK")];
            rows.push(PacketRow {
                at_ms: at.saturating_sub(*begun) as f64 / 1e6,
                from: if segment.from == local { "client" } else { "server" },
                flags: flags.into_iter().filter_map(|(set, name)| set.then_some(name)).collect(),
                bytes: segment.data,
                what,
            });
        }
    };
    each("the capture", &mut file, &mut take).ok()?;
    let (begun, conversation) = kept?;
    Some((rows, conversation.report(begun, None)))
}

/// The report as JSON.
pub fn to_json(report: &CaptureReport) -> String {
    serde_json::to_string_pretty(report).expect("numbers and strings") + "\n"
}

/// The part of a file that is in memory.
struct Window<'f> {
    file: &'f mut dyn Read,
    bytes: Vec<u8>,
    /// Offset of the first byte that was not read yet.
    at: usize,
    /// Bytes before that, of the whole file.
    passed: u64,
    over: bool,
}

impl Window<'_> {
    /// Reads until so many bytes are there; whether they are.
    fn fill(&mut self, required: usize) -> io::Result<bool> {
        const PIECE: usize = 256 << 10;
        self.bytes.drain(..self.at);
        self.at = 0;
        let required = required.min(MAX_RECORD_BYTES);
        while self.bytes.len() < required && !self.over {
            let there = self.bytes.len();
            self.bytes.resize(there + PIECE, 0);
            let read = match self.file.read(&mut self.bytes[there..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
                Err(error) => return Err(error),
                Ok(read) => {
                    self.over = read == 0;
                    read
                }
            };
            self.bytes.truncate(there + read);
        }
        Ok(self.bytes.len() >= required)
    }

    /// Steps over so many bytes; whether they were there.
    fn pass(&mut self, mut bytes: u64) -> io::Result<bool> {
        while bytes > 0 {
            let here = bytes.min((self.bytes.len() - self.at) as u64);
            self.at += here as usize;
            self.passed += here;
            bytes -= here;
            if bytes > 0 && !self.fill(1)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// All connections.
#[derive(Default)]
pub(crate) struct Table {
    packets: u64,
    other: u64,
    cut: u64,
    times: Option<(u64, u64)>,
    not_kept: u64,
    held: usize,
    /// By interface and both ends: the place of the newest one between them.
    places: HashMap<(usize, SocketAddr, SocketAddr), usize>,
    all: Vec<Conversation>,
    names: HashMap<usize, String>,
}

impl Table {
    /// Takes a frame in.
    pub(crate) fn take(&mut self, frame: &Frame<'_>, interface: Option<&str>) {
        self.packets += 1;
        self.cut += u64::from((frame.bytes.len() as u64) < frame.length.into());
        let at = frame.at.or(self.times.map(|(_, last)| last)).unwrap_or(0);
        let (first, last) = self.times.unwrap_or((at, at));
        self.times = Some((first.min(at), last.max(at)));
        match ip_packet(frame.link, frame.bytes).and_then(segment) {
            Some(segment) => self.segment(frame.interface, at, &segment, interface),
            None => self.other += 1,
        }
    }

    fn segment(&mut self, interface: usize, at: u64, segment: &Segment<'_>, name: Option<&str>) {
        let (one, other) = (segment.from.min(segment.to), segment.from.max(segment.to));
        let key = (interface, one, other);
        let known = self.places.get(&key).copied();
        let known = known.filter(|place| !self.all[*place].is_over_before(segment));
        let place = match known {
            Some(place) => place,
            None if self.all.len() == MAX_CONNECTIONS => {
                // Counted once, by its SYN.
                self.not_kept += u64::from(segment.syn && !segment.ack);
                return;
            }
            None => {
                if let Some(name) = name {
                    self.names.entry(interface).or_insert_with(|| name.to_owned());
                }
                self.places.insert(key, self.all.len());
                self.all.push(Conversation::new(interface, at, segment));
                self.all.len() - 1
            }
        };
        let conversation = &mut self.all[place];
        self.held -= conversation.held();
        conversation.take(at, segment);
        if self.held + conversation.held() > MAX_HELD_BYTES {
            conversation.forget();
        }
        self.held += conversation.held();
    }

    /// Builds the report of all connections.
    fn report(self, begun: CaptureReport) -> CaptureReport {
        let (first, last) = self.times.unwrap_or((0, 0));
        let started = SystemTime::UNIX_EPOCH.checked_add(Duration::from_nanos(first));
        let connections = self.all.into_iter().map(|conversation| {
            let name = self.names.get(&conversation.interface).map(String::as_str);
            conversation.report(first, name)
        });
        CaptureReport {
            packets: self.packets,
            other_packets: self.other,
            cut_packets: self.cut,
            started: Utc::of(started.unwrap_or(SystemTime::UNIX_EPOCH)).to_seconds().to_string(),
            lasted_ms: last.saturating_sub(first) as f64 / 1e6,
            not_kept: self.not_kept,
            connections: connections.collect(),
            ..begun
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
