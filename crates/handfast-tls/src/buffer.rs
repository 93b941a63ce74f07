//! A buffer whose room is always initialized, so that sockets and ciphers write straight into it.
//!
//! In: bytes, at the end. Out: bytes, from the front. One belongs to a thread and serves all its connections; a
//! connection keeps a buffer only while its peer does not accept bytes.

/// Bytes that were put in and not taken out, and room behind them.
#[derive(Clone, Debug, Default)]
pub struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Buffer {
    /// An empty buffer with room for `capacity` bytes.
    pub fn with_capacity(capacity: usize) -> Self {
        Self { bytes: vec![0; capacity], start: 0, end: 0 }
    }

    /// Returns the bytes that are in the buffer.
    pub fn filled(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// The same, to be changed in place.
    pub fn filled_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.end]
    }

    /// Returns the number of bytes in the buffer.
    pub fn len(&self) -> usize {
        self.end - self.start
    }

    /// Returns true if the buffer has no bytes.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Room for at least `size` more bytes. **Cost**: grows when there is less, which a thread's buffers soon stop
    /// doing; the room is zeroed once in its life.
    pub fn room(&mut self, size: usize) -> &mut [u8] {
        if self.bytes.len() < self.end + size {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
            if self.bytes.len() < self.end + size {
                self.bytes.resize(self.end + size, 0);
            }
        }
        &mut self.bytes[self.end..]
    }

    /// Marks this number of bytes of the room as written.
    pub fn wrote(&mut self, size: usize) {
        self.end = (self.end + size).min(self.bytes.len());
    }

    /// Puts `bytes` in.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.room(bytes.len())[..bytes.len()].copy_from_slice(bytes);
        self.wrote(bytes.len());
    }

    /// Takes `size` bytes out at the front.
    pub fn take(&mut self, size: usize) {
        self.start = (self.start + size).min(self.end);
        if self.start == self.end {
            self.clear();
        }
    }

    /// Takes everything out.
    pub fn clear(&mut self) {
        self.start = 0;
        self.end = 0;
    }
}

/// The four buffers that a thread's connections share; used within one step of one connection and never across a wait.
#[derive(Debug)]
pub struct Scratch {
    /// Bytes received from the socket.
    pub received: Vec<u8>,
    /// Plaintext decrypted from `received`.
    pub plaintext: Buffer,
    /// Records on their way to the peer, or to the leg that is written to.
    pub records: Buffer,
    /// The own answers of the session that was read from, for its peer only.
    pub replies: Buffer,
}

impl Scratch {
    /// Buffers for reads of `read` bytes. **Cost**: three times as much memory, for a whole thread.
    pub fn new(read: usize) -> Self {
        Self {
            received: vec![0; read],
            plaintext: Buffer::with_capacity(read),
            records: Buffer::with_capacity(read),
            replies: Buffer::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_in_comes_out() {
        let mut buffer = Buffer::with_capacity(4);
        assert_eq!(buffer.room(0).len(), 4, "the room it was made with");
        buffer.extend(b"abc");
        buffer.take(2);
        buffer.extend(b"defghi");
        assert_eq!(buffer.filled(), b"cdefghi");
        buffer.room(3)[..3].copy_from_slice(b"jkl");
        buffer.wrote(3);
        assert_eq!(buffer.len(), 10);
        buffer.take(100);
        assert!(buffer.is_empty());
    }
}
