//! Sources of lines: files, gzip, standard input.
//!
//! In: a path, or a stream. Out: its lines, one after the other. Gzip is detected by the first bytes, not by the name.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use super::lines::{Lines, Take};

/// Bytes that are read at once.
const PIECE: usize = 64 * 1024;
/// The first bytes of every gzip file (RFC 1952 §2.3.1).
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Reads a file to its end.
///
/// **Errors**: it cannot be opened or read, or its compression is damaged; or those of `take`.
pub(super) fn read_file(path: &Path, take: &mut Take<'_>) -> Result<(), InputError> {
    let file = File::open(path).map_err(InputError::Read)?;
    read(file, take)
}

/// Reason why reading ended early.
#[derive(Debug)]
pub(super) enum InputError {
    /// The source.
    Read(io::Error),
    /// The consumer of lines.
    Take(io::Error),
}

/// Reads a stream to its end.
///
/// **Errors**: as [`read_file`].
pub(super) fn read(mut source: impl Read, take: &mut Take<'_>) -> Result<(), InputError> {
    let mut head = Vec::new();
    source.by_ref().take(GZIP.len() as u64).read_to_end(&mut head).map_err(InputError::Read)?;
    let is_gzip = head == GZIP;
    let whole = io::Cursor::new(head).chain(source);
    if is_gzip { read_plain(MultiGzDecoder::new(whole), take) } else { read_plain(whole, take) }
}

fn read_plain(mut source: impl Read, take: &mut Take<'_>) -> Result<(), InputError> {
    let (mut lines, mut piece) = (Lines::default(), vec![0; PIECE]);
    loop {
        match source.read(&mut piece) {
            Ok(0) => return lines.end(take).map_err(InputError::Take),
            Ok(count) => lines.feed(&piece[..count], take).map_err(InputError::Take)?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                // Complete lines before the damage are shown; the partial one is dropped.
                return Err(InputError::Read(error));
            }
        }
    }
}
