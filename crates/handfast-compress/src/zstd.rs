//! Zstandard by `zstd-safe`, which binds the C library.

use handfast_http::content_coding::ContentCoding;
use zstd_safe::zstd_sys::ZSTD_EndDirective as Directive;
use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer};

use crate::error::EncodeError;

/// 64 KiB, and tables for it: 650 KiB of memory instead of 3.5 MiB for 2 % more bytes. RFC 9659 permits 8 MiB.
const PARAMETERS: [CParameter; 3] =
    [CParameter::WindowLog(16), CParameter::HashLog(15), CParameter::ChainLog(14)];
/// Room for output that is made at once.
const ROOM: usize = 4096;

pub(crate) struct Zstd(CCtx<'static>);

impl Zstd {
    pub(crate) fn new(level: u8) -> Result<Self, EncodeError> {
        let mut context = CCtx::try_create().ok_or(EncodeError(ContentCoding::Zstd))?;
        for parameter in [CParameter::CompressionLevel(level.into())].into_iter().chain(PARAMETERS) {
            context.set_parameter(parameter).map_err(|_| EncodeError(ContentCoding::Zstd))?;
        }
        Ok(Self(context))
    }

    pub(crate) fn put(&mut self, data: &[u8], out: &mut Vec<u8>) -> Result<(), EncodeError> {
        self.run(data, Directive::ZSTD_e_continue, out)
    }

    pub(crate) fn flush(&mut self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        self.run(&[], Directive::ZSTD_e_flush, out)
    }

    pub(crate) fn finish(mut self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        self.run(&[], Directive::ZSTD_e_end, out)
    }

    fn run(&mut self, data: &[u8], directive: Directive, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let mut input = InBuffer::around(data);
        loop {
            out.reserve(ROOM);
            let start = out.len();
            let mut output = OutBuffer::around_pos(out, start);
            let left = self.0.compress_stream2(&mut output, &mut input, directive);
            let left = left.map_err(|_| EncodeError(ContentCoding::Zstd))?;
            // The rest is an estimate while more input is awaited.
            let is_over = left == 0 || directive == Directive::ZSTD_e_continue;
            if input.pos() == data.len() && is_over {
                return Ok(());
            }
        }
    }
}
