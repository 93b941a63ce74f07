//! A capture of everything that hosts sent and received, with the TLS secrets of those who gave them, as pcapng.
//!
//! In: sightings, and a file into which programs write secrets (`SSLKEYLOGFILE`). Out: a file that Wireshark opens decrypted. Every
//! end of a link is an interface of it: a packet is there twice, when it was sent and when it was received.
//!
//! **Source**: the format is `handfast_wire::pcapng`; the key log is RFC 9850.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use handfast_net::clock::Moment;
use handfast_wire::link::RAW;
use handfast_wire::pcapng;
use rustix::fs::{MemfdFlags, Mode, OFlags, memfd_create};

use crate::error::LabError;
use crate::forwarder::Sighting;
use crate::plan::Plan;

/// The environment variable with the file in which programs write the secrets of their TLS sessions.
const VARIABLE: &str = "SSLKEYLOGFILE";
/// Maximum size of the secrets that are read: some hundred thousand sessions.
const SECRETS: u64 = 64 << 20;

/// A capture that is being made.
#[derive(Debug)]
pub struct Capture {
    path: PathBuf,
    file: File,
    head: Vec<u8>,
    secrets: Secrets,
    thread: JoinHandle<io::Result<File>>,
}

/// Source of the secrets.
#[derive(Debug)]
enum Secrets {
    /// From a file in our memory that commands find by this name.
    Ours(File, OsString),
    /// From a file that the user has named; what stood in it before is not of this run.
    Users(PathBuf, u64),
}

impl Capture {
    /// Begins one: makes the file, and keeps what is seen aside until the secrets, which stand before it, are known.
    ///
    /// **Errors**: the file cannot be made.
    pub fn start(path: &Path, plan: &Plan, seen: Receiver<Sighting>) -> Result<Self, LabError> {
        let act = format!("write the capture {}", path.display());
        let file = File::create(path).map_err(LabError::file(act.clone()))?;
        let aside = aside(path).map_err(LabError::file(act.clone()))?;
        let secrets = Secrets::new().map_err(LabError::file("make a file for TLS secrets"))?;
        let head = head(plan);
        let clock = Clock::now();
        let keep = move || {
            let mut to = BufWriter::new(aside);
            for sighting in seen {
                to.write_all(&packet(&sighting, clock))?;
            }
            to.into_inner().map_err(io::IntoInnerError::into_error)
        };
        let thread = std::thread::Builder::new().name("capture".into()).spawn(keep);
        Ok(Self { path: path.to_owned(), file, head, secrets, thread: thread.map_err(LabError::file(act))? })
    }

    /// The file into which commands are to write their secrets.
    pub fn secrets(&self) -> OsString {
        match &self.secrets {
            Secrets::Ours(_, name) => name.clone(),
            Secrets::Users(path, _) => path.clone().into_os_string(),
        }
    }

    /// Ends it when the sender of sightings has ended.
    ///
    /// **Errors**: the disk is full, or the like.
    pub fn finish(mut self) -> Result<(), LabError> {
        let act = format!("write the capture {}", self.path.display());
        let kept = match self.thread.join() {
            Ok(kept) => kept.map_err(LabError::file(act.clone()))?,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        let secrets = self.secrets.read().map_err(LabError::file("read TLS secrets"))?;
        let write = || {
            let mut kept = kept;
            kept.seek(SeekFrom::Start(0))?;
            self.file.write_all(&self.head)?;
            if !secrets.is_empty() {
                self.file.write_all(&pcapng::decryption_secrets(&secrets))?;
            }
            io::copy(&mut kept, &mut self.file)?;
            self.file.flush()
        };
        write().map_err(LabError::file(act))
    }
}

impl Secrets {
    fn new() -> io::Result<Self> {
        if let Some(path) = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
            let length = std::fs::metadata(&path).map_or(0, |file| file.len());
            return Ok(Self::Users(path.into(), length));
        }
        let file = File::from(memfd_create("tls-secrets", MemfdFlags::CLOEXEC)?);
        // This process is number 1 for those who are to find it.
        let name = format!("/proc/1/fd/{}", file.as_raw_fd());
        Ok(Self::Ours(file, name.into()))
    }

    fn read(&mut self) -> io::Result<Vec<u8>> {
        let mut secrets = Vec::new();
        match self {
            Self::Ours(file, _) => {
                file.seek(SeekFrom::Start(0))?;
                file.take(SECRETS).read_to_end(&mut secrets)?;
            }
            Self::Users(path, before) => match File::open(path) {
                Ok(mut file) => {
                    file.seek(SeekFrom::Start(*before))?;
                    file.take(SECRETS).read_to_end(&mut secrets)?;
                }
                // No command has written any.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            },
        }
        Ok(secrets)
    }
}

/// A file without a name beside `path`, which goes with its descriptor; in memory where the file system has no such thing.
fn aside(path: &Path) -> io::Result<File> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = rustix::fs::open(folder, flags, Mode::from_raw_mode(0o600));
    Ok(file.or_else(|_| memfd_create("capture", MemfdFlags::CLOEXEC))?.into())
}

/// Reading of the wall clock at a moment.
#[derive(Clone, Copy)]
struct Clock {
    at: Moment,
    shown: Duration,
}

impl Clock {
    fn now() -> Self {
        let shown = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        Self { at: Moment::now(), shown }
    }

    /// Nanoseconds since 1970.
    fn nanos(self, at: Moment) -> u64 {
        let start = self.shown.saturating_sub(Duration::from_nanos(self.at.nanos()));
        u64::try_from((start + Duration::from_nanos(at.nanos())).as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Section header, and a description of each interface: two for each link.
fn head(plan: &Plan) -> Vec<u8> {
    let mut head = pcapng::section("handfast lab");
    for link in &plan.links {
        for end in 0..2 {
            let (host, other) = (&plan.hosts[link.ends[end]], &plan.hosts[link.ends[1 - end]]);
            head.extend(pcapng::interface(RAW, host, &format!("{host}, on its link to {other}")));
        }
    }
    head
}

/// A packet with its direction, and a comment where the link lost it.
fn packet(sighting: &Sighting, clock: Clock) -> Vec<u8> {
    let interface = u32::try_from(2 * sighting.wire + sighting.end).unwrap_or(0);
    let direction = if sighting.received { 1 } else { 2 };
    let comment = sighting.lost.then_some("lost on the link");
    pcapng::packet(interface, clock.nanos(sighting.at), direction, &sighting.packet, comment)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;
    use crate::plan::LinkWords;

    /// Reads blocks as a reader of the format would: type and body; both lengths must agree.
    fn blocks(mut bytes: &[u8]) -> Vec<(u32, Vec<u8>)> {
        let mut blocks = Vec::new();
        while !bytes.is_empty() {
            let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
            let length = word(4) as usize;
            assert!(length.is_multiple_of(4) && word(length - 4) as usize == length);
            blocks.push((word(0), bytes[8..length - 4].to_vec()));
            bytes = &bytes[length..];
        }
        blocks
    }

    #[test]
    fn secrets_stand_before_the_packets() {
        let plan = Plan::of_one_link(&LinkWords::default(), None, None).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pcapng");
        let (sightings, seen) = sync_channel(4);
        let capture = Capture::start(&path, &plan, seen).unwrap();
        for (end, received, lost) in [(0, false, false), (1, true, false), (1, false, true)] {
            let packet = [0x45, 1, 2, 3, 4].as_slice().into();
            sightings.send(Sighting { wire: 0, end, received, at: Moment::now(), lost, packet }).unwrap();
        }
        drop(sightings);
        let Secrets::Ours(file, _) = &capture.secrets else { panic!("the tests set no {VARIABLE}") };
        file.try_clone().unwrap().write_all(b"CLIENT_RANDOM 00 11\n").unwrap();
        capture.finish().unwrap();
        let blocks = blocks(&std::fs::read(&path).unwrap());
        let kinds: Vec<_> = blocks.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, [0x0a0d_0d0a, 1, 1, 0x0a, 6, 6, 6]);
        assert_eq!(&blocks[3].1[8..28], b"CLIENT_RANDOM 00 11\n");
        assert_eq!((blocks[4].1[0], blocks[5].1[0], blocks[6].1[0]), (0, 1, 1));
        assert!(blocks[6].1.windows(16).any(|text| text == b"lost on the link"));
    }

    #[test]
    fn times_are_those_of_the_days_clock() {
        let clock = Clock { at: Moment::from_nanos(5_000), shown: Duration::from_secs(100) };
        assert_eq!(clock.nanos(Moment::from_nanos(6_000)), 100_000_001_000);
    }
}
