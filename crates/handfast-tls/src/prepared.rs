//! Compresses the messages of all certificates in advance, and gives them to rustls.
//!
//! In: certificates; then the message that rustls wants to compress. Out: the message compressed in advance, or
//! nothing.

use std::sync::Arc;
use std::thread;

use flate2::{Compress, Compression};
use rustls::CertificateCompressionAlgorithm;
use rustls::compress::{CertCompressor, CompressionFailed, CompressionLevel};

use crate::side_channels;
use handfast_pki::certificate::Certificate;

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

/// Compressor for rustls that returns prepared messages.
#[derive(Debug)]
pub(crate) struct Prepared;

impl CertCompressor for Prepared {
    fn compress(&self, message: Vec<u8>, _: CompressionLevel) -> Result<Vec<u8>, CompressionFailed> {
        // The resolver of this thread has just chosen the certificate that this is the message of.
        side_channels::with_selection(|selected| {
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
