//! Encodes the key process's answer about a file, and decodes it.
//!
//! In: a file that was read there. Out: the same here, with only the public parts of keys. Both processes
//! are the same program, so there are no versions; an unreadable answer is still `None`, never a panic.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::{SignatureAlgorithm, SignatureScheme};

use super::holder::{Holder, KeyId, Remote, schemes_of};
use crate::finding::{Finding, Reason, Severity};
use crate::key::Key;
use crate::load::InspectedFile;
use crate::parsed::Parsed;
use crate::read::{Failure, FileStamp, NOT_FILES};
use crate::sections::{Contents, NotPem};

/// Problems with the content of a file; the index is the number on the wire.
const REASONS: [Reason; 10] = [
    Reason::BadKey,
    Reason::Empty,
    Reason::NotPem,
    Reason::Truncated,
    Reason::BadPem,
    Reason::BadCertificate,
    Reason::EncryptedKey,
    Reason::WeakKey,
    Reason::UnusedSection,
    Reason::BadPkcs12,
];
const SEVERITIES: [Severity; 3] = [Severity::Error, Severity::Warning, Severity::Note];
const NOT_PEM: [NotPem; 3] = [NotPem::Other, NotPem::Der, NotPem::Utf16];

/// The index of a value in its table; 0 when it is not there.
fn place<T: PartialEq>(table: &[T], value: &T) -> u64 {
    table.iter().position(|known| known == value).unwrap_or_default() as u64
}

#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn number(&mut self, number: u64) {
        self.0.extend(number.to_le_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend(bytes);
    }

    fn maybe<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.number(value.is_some().into());
        if let Some(value) = value {
            write(self, value);
        }
    }

    fn list<T>(&mut self, values: &[T], mut write: impl FnMut(&mut Self, &T)) {
        self.number(values.len() as u64);
        values.iter().for_each(|value| write(self, value));
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }

    fn index(&mut self) -> Option<usize> {
        usize::try_from(self.number()?).ok()
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.index()?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    fn text(&mut self) -> Option<String> {
        String::from_utf8(self.bytes()?.to_vec()).ok()
    }

    fn maybe<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        if self.number()? == 0 { Some(None) } else { read(self).map(Some) }
    }

    fn list<T>(&mut self, mut read: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.index()?;
        // Do not allocate for an announced length.
        let mut values = Vec::new();
        for _ in 0..count {
            values.push(read(self)?);
        }
        Some(values)
    }
}

pub(super) fn encode_stamp(stamp: FileStamp) -> Vec<u8> {
    let mut to = Writer::default();
    write_stamp(&mut to, stamp);
    to.0
}

fn write_stamp(to: &mut Writer, stamp: FileStamp) {
    to.maybe(stamp.numbers(), |to, numbers| numbers.into_iter().for_each(|number| to.number(number)));
}

pub(super) fn decode_stamp(bytes: &[u8]) -> Option<FileStamp> {
    let mut from = Reader(bytes);
    let stamp = read_stamp(&mut from)?;
    from.0.is_empty().then_some(stamp)
}

fn read_stamp(from: &mut Reader<'_>) -> Option<FileStamp> {
    let numbers = from.maybe(|from| {
        let mut numbers = [0; 7];
        for number in &mut numbers {
            *number = from.number()?;
        }
        Some(numbers)
    })?;
    Some(FileStamp::of_numbers(numbers))
}

pub(super) fn encode(looked: &InspectedFile) -> Vec<u8> {
    let InspectedFile { stamp, mode, contents, .. } = looked;
    let mut to = Writer::default();
    write_stamp(&mut to, *stamp);
    to.number((*mode).into());
    match contents {
        Ok(contents) => {
            to.number(0);
            write(&mut to, contents);
        }
        Err(Failure::Missing) => to.number(1),
        Err(Failure::Refused(error)) => {
            to.number(2);
            to.number(u64::from(error.raw_os_error().unwrap_or_default().cast_unsigned()));
            to.bytes(error.to_string().as_bytes());
        }
        Err(Failure::NotAFile(kind)) => {
            to.number(3);
            to.number(place(&NOT_FILES, kind));
        }
        Err(Failure::TooLarge(size)) => {
            to.number(4);
            to.number(*size);
        }
        Err(Failure::Changing) => to.number(5),
    }
    to.0
}

fn write(to: &mut Writer, contents: &Contents) {
    to.maybe(contents.not_pem.as_ref(), |to, kind| to.number(place(&NOT_PEM, kind)));
    to.list(&contents.certificates, |to, parsed| to.bytes(&parsed.der));
    to.list(&contents.keys, |to, key| {
        to.bytes(&key.public_key);
        to.number(u8::from(key.signing.algorithm()).into());
        to.list(&schemes_of(key), |to, scheme| to.number(u16::from(*scheme).into()));
    });
    to.list(&contents.findings, |to, finding| {
        to.number(place(&SEVERITIES, &finding.severity));
        to.number(place(&REASONS, &finding.reason));
        to.bytes(finding.message.as_bytes());
        to.maybe(finding.hint.as_ref(), |to, hint| to.bytes(hint.as_bytes()));
    });
}

/// Decodes the file that was read, and the IDs of the keys that it holds.
pub(super) fn decode(
    bytes: &[u8],
    path: &Path,
    holder: &Arc<dyn Holder>,
) -> Option<(InspectedFile, Vec<KeyId>)> {
    let mut from = Reader(bytes);
    let stamp = read_stamp(&mut from)?;
    let mode = u32::try_from(from.number()?).ok()?;
    let mut keys = Vec::new();
    let contents = match from.number()? {
        0 => Ok(read(&mut from, path, holder, &mut keys)?),
        1 => Err(Failure::Missing),
        2 => {
            let (number, text) = (i32::try_from(from.number()?).ok()?, from.text()?);
            let known = (number != 0).then(|| io::Error::from_raw_os_error(number));
            Err(Failure::Refused(known.unwrap_or_else(|| io::Error::other(text))))
        }
        3 => Err(Failure::NotAFile(NOT_FILES.get(from.index()?)?)),
        4 => Err(Failure::TooLarge(from.number()?)),
        5 => Err(Failure::Changing),
        _ => return None,
    };
    let looked = InspectedFile { path: path.to_path_buf(), stamp, mode, contents };
    from.0.is_empty().then_some((looked, keys))
}

fn read(
    from: &mut Reader<'_>,
    path: &Path,
    holder: &Arc<dyn Holder>,
    ids: &mut Vec<KeyId>,
) -> Option<Contents> {
    let not_pem = from.maybe(|from| NOT_PEM.get(from.index()?).copied())?;
    let certificates = from.list(|from| Parsed::from_der(from.bytes()?).ok())?;
    let keys = from.list(|from| {
        let public_key: Box<[u8]> = from.bytes()?.into();
        let algorithm = SignatureAlgorithm::from(u8::try_from(from.number()?).ok()?);
        let schemes = from.list(|from| Some(SignatureScheme::from(u16::try_from(from.number()?).ok()?)))?;
        let id = KeyId::of(&public_key);
        ids.push(id);
        let holder = Arc::clone(holder);
        let remote =
            Remote { holder, id, public_key: public_key.clone(), algorithm, schemes: schemes.into() };
        Some(Key { signing: Arc::new(remote), public_key })
    })?;
    let findings = from.list(|from| {
        let severity = *SEVERITIES.get(from.index()?)?;
        let reason = *REASONS.get(from.index()?)?;
        let message = from.text()?;
        let hint = from.maybe(Reader::text)?;
        Some(Finding { severity, reason, file: path.to_path_buf(), message, hint })
    })?;
    Some(Contents { certificates, keys, findings, not_pem })
}
