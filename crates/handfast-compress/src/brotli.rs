//! Brotli by the crate `brotli`.

use std::io::Write;

use brotli::CompressorWriter;
use handfast_http::content_coding::ContentCoding;

use crate::error::EncodeError;

/// 128 KiB.
const WINDOW_BITS: u32 = 17;
/// Output that is copied at once.
const ROOM: usize = 4096;

pub(crate) struct Brotli(CompressorWriter<Vec<u8>>);

impl Brotli {
    pub(crate) fn new(level: u8) -> Self {
        Self(CompressorWriter::new(Vec::new(), ROOM, level.into(), WINDOW_BITS))
    }

    pub(crate) fn put(&mut self, data: &[u8], out: &mut Vec<u8>) -> Result<(), EncodeError> {
        self.0.write_all(data).map_err(|_| EncodeError(ContentCoding::Brotli))?;
        out.append(self.0.get_mut());
        Ok(())
    }

    pub(crate) fn flush(&mut self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        self.0.flush().map_err(|_| EncodeError(ContentCoding::Brotli))?;
        out.append(self.0.get_mut());
        Ok(())
    }

    pub(crate) fn finish(self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        out.append(&mut self.0.into_inner());
        Ok(())
    }
}
