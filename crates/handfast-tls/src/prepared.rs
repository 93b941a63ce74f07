//! Compresses the messages of all certificates in advance, and gives them to rustls.
//!
//! In: certificates; then the message that rustls wants to compress, and the algorithm that the client offers. Out: the message
//! compressed in advance, or nothing.

use std::sync::Arc;
use std::thread;

use handfast_pki::certificate::Certificate;
use handfast_pki::compressed::{ALGORITHMS, Compressor};
use rustls::CertificateCompressionAlgorithm;
use rustls::compress::{CertCompressor, CompressionFailed, CompressionLevel};

use crate::side_channels;

/// Compresses what has not been: several at a time, if they are many.
///
/// **Cost**: 60 to 100 µs of CPU for each chain, and about twice its size in memory.
pub(crate) fn prepare(certificates: &[Arc<Certificate>]) {
    let left: Vec<_> = certificates.iter().filter(|certificate| !certificate.is_compressed()).collect();
    let work = |part: &[&Arc<Certificate>]| {
        let mut compressor = Compressor::default();
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

/// Compressor for rustls that returns messages that were prepared by one algorithm.
#[derive(Debug)]
pub(crate) struct Prepared(CertificateCompressionAlgorithm);

/// One for each algorithm, in the order in which they are chosen for a client.
pub(crate) static PREPARED: [Prepared; 3] =
    [Prepared(ALGORITHMS[0]), Prepared(ALGORITHMS[1]), Prepared(ALGORITHMS[2])];

impl CertCompressor for Prepared {
    fn compress(&self, message: Vec<u8>, _: CompressionLevel) -> Result<Vec<u8>, CompressionFailed> {
        // The resolver of this thread has just chosen the certificate that this is the message of.
        side_channels::with_selection(|selected| {
            let compressed = selected.compressed.as_ref()?;
            compressed.of(self.0, &message).map(<[u8]>::to_vec)
        })
        .ok_or(CompressionFailed)
    }

    fn algorithm(&self) -> CertificateCompressionAlgorithm {
        self.0
    }
}

#[cfg(test)]
mod tests;
