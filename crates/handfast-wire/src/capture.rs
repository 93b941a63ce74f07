//! Captures as tcpdump and Wireshark write them, pcap and pcapng: from bytes to frames.
//!
//! In: the file's bytes, untrusted, as many as are there. Out: [`Next`]: a frame, a number of bytes to skip, or a request for more.
//! Nothing is read past the end, nothing is kept but the interfaces' descriptions, and no length that was only announced is
//! believed. Sources: draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng. Written by [`crate::pcapng`].

use std::fmt;

/// Most bytes of a record or a block with a frame: libpcap's own bound for a frame is 256 KiB.
pub const MAX_RECORD_BYTES: usize = 1 << 20;
/// Most interfaces of one section.
const MAX_INTERFACES: usize = 4_096;
/// Most bytes of an interface's name that are kept.
const MAX_NAME_BYTES: usize = 64;

/// Next element of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next<'a> {
    /// It is not whole: this number of bytes is needed, from the first of the given ones.
    More(usize),
    /// Bytes that have been read, which may be more than were given.
    Passed(u64),
    /// A frame, and the bytes that it took.
    Frame(Frame<'a>, usize),
}

/// A frame that was captured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Number of the interface.
    pub interface: usize,
    /// Its link type.
    pub link: u16,
    /// Time of capture, in nanoseconds since 1970; `None` where the block has no time.
    pub at: Option<u64>,
    /// Bytes on the wire.
    pub length: u32,
    /// Those of them that were captured.
    pub bytes: &'a [u8],
}

/// Reason why a file, or the rest of it, is no capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Broken {
    /// It begins with something else.
    NotACapture([u8; 4]),
    /// A version that is not known.
    Version(u16),
    /// A length that no record or block has.
    Length(u32),
    /// The length behind a block is not the one before it.
    Lengths(u32, u32),
    /// A frame of an interface that was not described.
    Interface(u32),
    /// More interfaces than there may be.
    Interfaces,
    /// A resolution of time that cannot be reckoned with.
    Resolution(u8),
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotACapture([a, b, c, d]) => {
                write!(f, "it begins with {a:02x} {b:02x} {c:02x} {d:02x}, expected pcap or pcapng")
            }
            Self::Version(version) => write!(f, "version {version}, expected 2 of pcap or 1 of pcapng"),
            Self::Length(length) => write!(f, "a record of {length} bytes, expected fewer and whole ones"),
            Self::Lengths(before, behind) => {
                write!(f, "a block says {before} bytes at its beginning and {behind} at its end")
            }
            Self::Interface(number) => write!(f, "a frame of interface {number}, which was not described"),
            Self::Interfaces => write!(f, "more than {MAX_INTERFACES} interfaces"),
            Self::Resolution(code) => write!(f, "an interface's resolution of time is 0x{code:02x}"),
        }
    }
}

impl std::error::Error for Broken {}

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The older one: one interface.
    Pcap,
    /// The newer one: blocks.
    Pcapng,
}

impl Format {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pcap => "pcap",
            Self::Pcapng => "pcapng",
        }
    }
}

#[derive(Clone, Debug)]
struct Interface {
    link: u16,
    name: String,
    /// Nanoseconds of a unit of time, as a fraction.
    unit: (u128, u128),
    /// Seconds to be added.
    offset: i64,
}

impl Interface {
    fn nanos(&self, units: u64) -> u64 {
        let nanos = u128::from(units) * self.unit.0 / self.unit.1;
        let nanos = i128::try_from(nanos).unwrap_or(i128::MAX);
        let all = nanos.saturating_add(i128::from(self.offset) * 1_000_000_000);
        u64::try_from(all.max(0)).unwrap_or(u64::MAX)
    }
}

/// Reads a capture, a piece at a time.
#[derive(Clone, Debug, Default)]
pub struct CaptureReader {
    format: Option<Format>,
    little: bool,
    interfaces: Vec<Interface>,
}

const SECTION: u32 = 0x0a0d_0d0a;

impl CaptureReader {
    /// The format, as soon as its first bytes were read.
    pub const fn format(&self) -> Option<Format> {
        self.format
    }

    /// An interface's name, where it has one.
    pub fn interface_name(&self, number: usize) -> Option<&str> {
        self.interfaces.get(number).map(|interface| interface.name.as_str()).filter(|name| !name.is_empty())
    }

    /// Reads the next record. `bytes` are those behind what was read.
    ///
    /// **Errors**: the file is no capture, or no further than to here.
    pub fn next<'a>(&mut self, bytes: &'a [u8]) -> Result<Next<'a>, Broken> {
        match self.format {
            None => self.begin(bytes),
            Some(Format::Pcap) => self.record(bytes),
            Some(Format::Pcapng) => self.block(bytes),
        }
    }

    fn begin(&mut self, bytes: &[u8]) -> Result<Next<'static>, Broken> {
        const HEADER: usize = 24;
        let Some(magic) = bytes.first_chunk::<4>() else { return Ok(Next::More(4)) };
        if u32::from_be_bytes(*magic) == SECTION {
            self.format = Some(Format::Pcapng);
            return Ok(Next::Passed(0));
        }
        let (unit, little) = match u32::from_be_bytes(*magic) {
            0xa1b2_c3d4 => (1_000, false),
            0xd4c3_b2a1 => (1_000, true),
            0xa1b2_3c4d => (1, false),
            0x4d3c_b2a1 => (1, true),
            _ => return Err(Broken::NotACapture(*magic)),
        };
        let Some(header) = bytes.get(..HEADER) else { return Ok(Next::More(HEADER)) };
        self.little = little;
        match self.u16(header, 4) {
            2 => {}
            version => return Err(Broken::Version(version)),
        }
        // Above the link type stand facts about checksums of frames.
        let link = self.u32(header, 20) as u16;
        self.interfaces.push(Interface { link, name: String::new(), unit: (unit, 1), offset: 0 });
        self.format = Some(Format::Pcap);
        Ok(Next::Passed(HEADER as u64))
    }

    fn record<'a>(&self, bytes: &'a [u8]) -> Result<Next<'a>, Broken> {
        const HEADER: usize = 16;
        let Some(header) = bytes.get(..HEADER) else { return Ok(Next::More(HEADER)) };
        let captured = self.u32(header, 8);
        let whole = HEADER + captured as usize;
        if whole > MAX_RECORD_BYTES {
            return Err(Broken::Length(captured));
        }
        let Some(frame) = bytes.get(HEADER..whole) else { return Ok(Next::More(whole)) };
        let interface = &self.interfaces[0];
        let parts = interface.nanos(self.u32(header, 4).into());
        let at = u64::from(self.u32(header, 0)) * 1_000_000_000 + parts;
        let length = self.u32(header, 12);
        Ok(Next::Frame(
            Frame { interface: 0, link: interface.link, at: Some(at), length, bytes: frame },
            whole,
        ))
    }

    fn block<'a>(&mut self, bytes: &'a [u8]) -> Result<Next<'a>, Broken> {
        const MIN_BYTES: usize = 12;
        let Some(header) = bytes.get(..MIN_BYTES) else { return Ok(Next::More(MIN_BYTES)) };
        if header[..4] == SECTION.to_be_bytes() {
            self.little = match self.u32_be(header, 8) {
                0x1a2b_3c4d => false,
                0x4d3c_2b1a => true,
                _ => return Err(Broken::NotACapture([header[8], header[9], header[10], header[11]])),
            };
        }
        let (kind, length) = (self.u32(header, 0), self.u32(header, 4));
        let whole = length as usize;
        if !whole.is_multiple_of(4) || whole < MIN_BYTES {
            return Err(Broken::Length(length));
        }
        let read = matches!(kind, SECTION | 1 | 2 | 3 | 6);
        if !read {
            return Ok(Next::Passed(length.into()));
        }
        if whole > MAX_RECORD_BYTES {
            return Err(Broken::Length(length));
        }
        let Some(block) = bytes.get(..whole) else { return Ok(Next::More(whole)) };
        let behind = self.u32(block, whole - 4);
        if behind != length {
            return Err(Broken::Lengths(length, behind));
        }
        let body = &block[8..whole - 4];
        let frame = match kind {
            SECTION => {
                self.section(body)?;
                None
            }
            1 => {
                self.interface(body)?;
                None
            }
            _ => Some(self.frame(kind, body)?),
        };
        Ok(frame.map_or(Next::Passed(whole as u64), |frame| Next::Frame(frame, whole)))
    }

    fn section(&mut self, body: &[u8]) -> Result<(), Broken> {
        let version = body.get(4..6).ok_or(Broken::Length(body.len() as u32))?;
        match self.u16(version, 0) {
            1 => {}
            version => return Err(Broken::Version(version)),
        }
        self.interfaces.clear();
        Ok(())
    }

    fn interface(&mut self, body: &[u8]) -> Result<(), Broken> {
        let (head, mut options) = body.split_at_checked(8).ok_or(Broken::Length(body.len() as u32))?;
        if self.interfaces.len() >= MAX_INTERFACES {
            return Err(Broken::Interfaces);
        }
        // Microseconds, where nothing else is stated.
        let mut made =
            Interface { link: self.u16(head, 0), name: String::new(), unit: (1_000, 1), offset: 0 };
        while let Some((head, rest)) = options.split_first_chunk::<4>() {
            let (code, length) = (self.u16(head, 0), usize::from(self.u16(head, 2)));
            let Some(value) = rest.get(..length).filter(|_| code != 0) else { break };
            match (code, value) {
                (2, name) => {
                    let name = &name[..name.len().min(MAX_NAME_BYTES)];
                    made.name = String::from_utf8_lossy(name).trim_end_matches('\0').to_owned();
                }
                (9, [code]) => made.unit = unit(*code).ok_or(Broken::Resolution(*code))?,
                (14, value) if value.len() == 8 => {
                    let (first, second) = (self.u32(value, 0), self.u32(value, 4));
                    let (high, low) = if self.little { (second, first) } else { (first, second) };
                    made.offset = (u64::from(high) << 32 | u64::from(low)) as i64;
                }
                _ => {}
            }
            options = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
        self.interfaces.push(made);
        Ok(())
    }

    /// Of an Enhanced, a Simple or an old Packet Block.
    fn frame<'a>(&self, kind: u32, body: &'a [u8]) -> Result<Frame<'a>, Broken> {
        let head = if kind == 3 { 4 } else { 20 };
        let (head, rest) = body.split_at_checked(head).ok_or(Broken::Length(body.len() as u32))?;
        let number = match kind {
            3 => 0,
            2 => u32::from(self.u16(head, 0)),
            _ => self.u32(head, 0),
        };
        let interface = self.interfaces.get(number as usize).ok_or(Broken::Interface(number))?;
        let (at, captured, length) = match kind {
            3 => (None, self.u32(head, 0).min(rest.len() as u32), self.u32(head, 0)),
            _ => {
                let units = u64::from(self.u32(head, 4)) << 32 | u64::from(self.u32(head, 8));
                (Some(interface.nanos(units)), self.u32(head, 12), self.u32(head, 16))
            }
        };
        let bytes = rest.get(..captured as usize).ok_or(Broken::Length(captured))?;
        Ok(Frame { interface: number as usize, link: interface.link, at, length, bytes })
    }

    fn u16(&self, bytes: &[u8], at: usize) -> u16 {
        let word = [bytes[at], bytes[at + 1]];
        if self.little { u16::from_le_bytes(word) } else { u16::from_be_bytes(word) }
    }

    fn u32(&self, bytes: &[u8], at: usize) -> u32 {
        let word = self.u32_be(bytes, at);
        if self.little { word.swap_bytes() } else { word }
    }

    fn u32_be(&self, bytes: &[u8], at: usize) -> u32 {
        u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
    }
}

/// Nanoseconds of a unit of `if_tsresol`: a negative power of ten, or with the highest bit of two.
fn unit(code: u8) -> Option<(u128, u128)> {
    const GIGA: u128 = 1_000_000_000;
    match code {
        0..=20 => Some((GIGA, 10_u128.pow(code.into()))),
        0x80..=0xbf => Some((GIGA, 1 << (code & 0x7f))),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
