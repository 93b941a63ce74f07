//! Certificate messages compressed in advance (RFC 8879, zlib), so that no handshake compresses anything.
//!
//! In: a certificate that comes into a store. Out: its message of TLS 1.3 compressed, with and without its OCSP response,
//! where that is smaller. During a handshake rustls asks [`Prepared`], which looks up and copies; for anything that was
//! not prepared it says no, and rustls sends the certificate as it is.
//!
//! Of the clients in use Firefox and Safari offer zlib; Chrome offers brotli alone, which would cost four packages.

use std::sync::Arc;
use std::thread;

use flate2::{Compress, Compression, FlushCompress, Status};
use rustls::CertificateCompressionAlgorithm;
use rustls::compress::{CertCompressor, CompressionFailed, CompressionLevel};
use rustls::sign::CertifiedKey;

use crate::certificate::Certificate;
use crate::store;

/// What a CompressedCertificate has in front of its content more than a Certificate has: algorithm, two lengths
/// (RFC 8879 §4).
const HEADER: usize = 8;
/// The least that must be saved, as a part of the whole, to be worth the memory: keys and signatures cannot be
/// compressed, so of a single ECDSA certificate almost nothing is saved.
const WORTH: usize = 16;

/// The compressed Certificate messages of one certificate.
#[derive(Debug)]
pub(crate) struct Compressed {
    /// What they were made of.
    certified: Arc<CertifiedKey>,
    plain: Option<Box<[u8]>>,
    stapled: Option<Box<[u8]>>,
}

impl Compressed {
    /// Compresses the messages; `None` when none gets smaller.
    pub(crate) fn new(certified: &Arc<CertifiedKey>, compressor: &mut Compress) -> Option<Self> {
        let plain = smaller(&message(certified, false), compressor);
        let stapled = certified.ocsp.as_ref().and_then(|_| smaller(&message(certified, true), compressor));
        let any = plain.is_some() || stapled.is_some();
        any.then(|| Self { certified: Arc::clone(certified), plain, stapled })
    }

    /// What `message` is compressed, if it is one of those that were made.
    fn of(&self, message: &[u8]) -> Option<&[u8]> {
        let is = |stapled| {
            let mut rest = Some(message);
            pieces(&self.certified, stapled, &mut |piece| {
                rest = rest.and_then(|rest| rest.strip_prefix(piece));
            });
            rest == Some(&[])
        };
        match (&self.plain, &self.stapled) {
            (Some(plain), _) if is(false) => Some(plain),
            (_, Some(stapled)) if is(true) => Some(stapled),
            _ => None,
        }
    }
}

/// Compresses what has not been: several at a time, if they are many.
///
/// **Cost**: 20 to 60 µs of CPU for each chain, and about three quarters of its size in memory.
pub(crate) fn prepare(certificates: &[Arc<Certificate>]) {
    let left: Vec<_> = certificates.iter().filter(|certificate| !certificate.is_compressed()).collect();
    let work = |part: &[&Arc<Certificate>]| {
        // Its tables are 300 KiB: made once.
        let mut compressor = Compress::new(Compression::best(), true);
        part.iter().for_each(|certificate| certificate.compress(&mut compressor));
    };
    let threads = thread::available_parallelism().map_or(1, |count| count.get()).min(16);
    // As with reading: a thread costs as much as two chains.
    let size = left.len().div_ceil(threads).max(16);
    let mut parts = left.chunks(size);
    let Some(first) = parts.next() else { return };
    thread::scope(|scope| {
        for part in parts {
            let name = thread::Builder::new().name("certificates".to_owned());
            if name.spawn_scoped(scope, move || work(part)).is_err() {
                work(part);
            }
        }
        work(first);
    });
}

/// `message` compressed, when that is worth it.
fn smaller(message: &[u8], compressor: &mut Compress) -> Option<Box<[u8]>> {
    let most = (message.len() - message.len() / WORTH).checked_sub(HEADER)?;
    let mut out = Vec::with_capacity(most);
    compressor.reset();
    // What does not fit into `most` bytes does not end there, and is of no use.
    let status = compressor.compress_vec(message, &mut out, FlushCompress::Finish).ok()?;
    (status == Status::StreamEnd).then(|| out.into())
}

fn message(certified: &CertifiedKey, stapled: bool) -> Vec<u8> {
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

/// What rustls takes for a compressor.
#[derive(Debug)]
pub(crate) struct Prepared;

impl CertCompressor for Prepared {
    fn compress(&self, message: Vec<u8>, _: CompressionLevel) -> Result<Vec<u8>, CompressionFailed> {
        // The resolver of this thread has just chosen the certificate that this is the message of.
        store::with_last_selection(|selected| {
            let compressed = selected.compressed.as_ref()?;
            compressed.of(&message).map(<[u8]>::to_vec)
        })
        .ok_or(CompressionFailed)
    }

    fn algorithm(&self) -> CertificateCompressionAlgorithm {
        CertificateCompressionAlgorithm::Zlib
    }
}

#[cfg(test)]
mod tests;
