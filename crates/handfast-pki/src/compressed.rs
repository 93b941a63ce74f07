//! Certificate messages compressed in advance (RFC 8879, zlib), so that no handshake compresses anything.
//!
//! In: a certificate that comes into a store. Out: its message of TLS 1.3 compressed, with and without its OCSP response,
//! where that is smaller. During a handshake `handfast-tls` looks up and copies; other messages are sent uncompressed.
//!
//! Of the clients in use Firefox and Safari offer zlib; Chrome offers brotli alone, which would cost four packages.

use std::sync::Arc;

use flate2::{Compress, FlushCompress, Status};
use rustls::sign::CertifiedKey;

/// Bytes that a CompressedCertificate has before its content beyond those of a Certificate: algorithm, two lengths
/// (RFC 8879 §4).
const HEADER: usize = 8;
/// The least that must be saved, as a part of the whole, to be worth the memory: keys and signatures cannot be
/// compressed, so of a single ECDSA certificate almost nothing is saved.
const WORTH: usize = 16;

/// The compressed Certificate messages of one certificate.
#[derive(Debug)]
pub struct Compressed {
    /// Source of the messages.
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

    /// Returns the compressed form of `message`, if it is one of the prepared messages.
    pub fn of(&self, message: &[u8]) -> Option<&[u8]> {
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

/// `message` compressed, when that is worth it.
fn smaller(message: &[u8], compressor: &mut Compress) -> Option<Box<[u8]>> {
    let most = (message.len() - message.len() / WORTH).checked_sub(HEADER)?;
    let mut out = Vec::with_capacity(most);
    compressor.reset();
    // A message that does not fit into `most` bytes does not end there, and is of no use.
    let status = compressor.compress_vec(message, &mut out, FlushCompress::Finish).ok()?;
    (status == Status::StreamEnd).then(|| out.into())
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
