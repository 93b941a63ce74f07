//! Certificate messages compressed in advance (RFC 8879), so that no handshake compresses anything.
//!
//! In: a certificate that comes into a store. Out: its message of TLS 1.3 compressed, with and without its OCSP response,
//! where that is smaller. During a handshake `handfast-tls` looks up and copies; other messages are sent uncompressed.
//!
//! Clients differ in what they read: Chromium has Brotli alone, Safari zlib, Firefox all three.

use std::io::Write;
use std::sync::Arc;

use brotli::CompressorWriter;
use flate2::{Compress, Compression, FlushCompress, Status};
use rustls::CertificateCompressionAlgorithm;
use rustls::sign::CertifiedKey;
use zstd_safe::CCtx;

/// Bytes that a CompressedCertificate has before its content beyond those of a Certificate: algorithm, two lengths
/// (RFC 8879 §4).
const HEADER: usize = 8;
/// The least that must be saved, as a part of the whole, to be worth the memory: keys and signatures cannot be
/// compressed, so of a certificate with little else almost nothing is saved.
const WORTH: usize = 16;
/// Algorithms, those that make chains smallest first.
pub const ALGORITHMS: [CertificateCompressionAlgorithm; 3] = [
    CertificateCompressionAlgorithm::Zstd,
    CertificateCompressionAlgorithm::Zlib,
    CertificateCompressionAlgorithm::Brotli,
];
/// Level of Zstandard: the next ones save 3 bytes in 1,000 for ten times the time.
const ZSTD_LEVEL: i32 = 9;
/// Level and window of Brotli. From level 2 an encoder has tables of a quarter of a MiB and more, which are new memory for each message and take ten
/// to twenty times the time: three seconds for 10,000 certificates. Level 5 saves 8 % more.
const BROTLI: (u32, u32) = (1, 22);

/// Compressor for many messages, with the tables of zlib and Zstandard, some 600 KiB.
pub struct Compressor {
    zlib: Compress,
    /// `None`: there was no memory.
    zstd: Option<CCtx<'static>>,
}

impl Default for Compressor {
    fn default() -> Self {
        Self { zlib: Compress::new(Compression::best(), true), zstd: CCtx::try_create() }
    }
}

impl Compressor {
    /// Returns `message` compressed, if that is worth it.
    fn smaller(&mut self, algorithm: CertificateCompressionAlgorithm, message: &[u8]) -> Option<Box<[u8]>> {
        let most = (message.len() - message.len() / WORTH).checked_sub(HEADER)?;
        let mut out = Vec::with_capacity(most);
        // A message that does not fit into `most` bytes is of no use.
        match algorithm {
            CertificateCompressionAlgorithm::Zlib => {
                self.zlib.reset();
                let status = self.zlib.compress_vec(message, &mut out, FlushCompress::Finish).ok()?;
                (status == Status::StreamEnd).then(|| out.into())
            }
            CertificateCompressionAlgorithm::Zstd => {
                self.zstd.as_mut()?.compress(&mut out, message, ZSTD_LEVEL).ok()?;
                Some(out.into())
            }
            CertificateCompressionAlgorithm::Brotli => {
                let mut writer = CompressorWriter::new(out, most, BROTLI.0, BROTLI.1);
                writer.write_all(message).ok()?;
                let out = writer.into_inner();
                (out.len() <= most).then(|| out.into())
            }
            _ => None,
        }
    }
}

/// The compressed Certificate messages of one certificate.
#[derive(Debug)]
pub struct Compressed {
    /// Source of the messages.
    certified: Arc<CertifiedKey>,
    /// By algorithm, in the order of [`ALGORITHMS`].
    plain: [Option<Box<[u8]>>; ALGORITHMS.len()],
    stapled: [Option<Box<[u8]>>; ALGORITHMS.len()],
}

impl Compressed {
    /// Compresses the messages; `None` when none gets smaller.
    pub(crate) fn new(certified: &Arc<CertifiedKey>, compressor: &mut Compressor) -> Option<Self> {
        let mut each = |message: &[u8]| ALGORITHMS.map(|algorithm| compressor.smaller(algorithm, message));
        let plain = each(&message(certified, false));
        let stapled = certified.ocsp.as_ref().map(|_| each(&message(certified, true))).unwrap_or_default();
        let is_any = plain.iter().chain(&stapled).any(Option::is_some);
        is_any.then(|| Self { certified: Arc::clone(certified), plain, stapled })
    }

    /// Returns the compressed form of `message`, if it is one of the prepared messages.
    pub fn of(&self, algorithm: CertificateCompressionAlgorithm, message: &[u8]) -> Option<&[u8]> {
        let place = ALGORITHMS.iter().position(|known| *known == algorithm)?;
        let is = |stapled| {
            let mut rest = Some(message);
            pieces(&self.certified, stapled, &mut |piece| {
                rest = rest.and_then(|rest| rest.strip_prefix(piece));
            });
            rest == Some(&[])
        };
        match (&self.plain[place], &self.stapled[place]) {
            (Some(plain), _) if is(false) => Some(plain),
            (_, Some(stapled)) if is(true) => Some(stapled),
            _ => None,
        }
    }
}

/// The body of the Certificate message; `stapled`: with its OCSP response.
pub fn message(certified: &CertifiedKey, stapled: bool) -> Vec<u8> {
    let mut message = Vec::new();
    pieces(certified, stapled, &mut |piece| message.extend_from_slice(piece));
    message
}

/// The body of the server's Certificate message, piece by piece (RFC 9846 §4.4.2): an empty context, and each certificate
/// with its extensions, of which the first may have an OCSP response (RFC 6066 §8).
fn pieces(certified: &CertifiedKey, stapled: bool, take: &mut dyn FnMut(&[u8])) {
    let ocsp = certified.ocsp.as_deref().filter(|_| stapled);
    // Type and length of the extension, type and length of the status.
    let extensions = ocsp.map_or(0, |ocsp| 2 + 2 + 1 + 3 + ocsp.len());
    let list: usize = certified.cert.iter().map(|certificate| 3 + certificate.len() + 2).sum();
    take(&[0]);
    take(&u24(list + extensions));
    for (place, certificate) in certified.cert.iter().enumerate() {
        take(&u24(certificate.len()));
        take(certificate);
        match ocsp.filter(|_| place == 0) {
            None => take(&[0, 0]),
            Some(ocsp) => {
                take(&u24(extensions)[1..]);
                take(&[0, 5]);
                take(&u24(extensions - 4)[1..]);
                take(&[1]);
                take(&u24(ocsp.len()));
                take(ocsp);
            }
        }
    }
}

/// The three low bytes of a length: chains and responses are read with far smaller limits.
fn u24(length: usize) -> [u8; 3] {
    let [.., high, middle, low] = length.to_be_bytes();
    [high, middle, low]
}

#[cfg(test)]
mod tests;
