//! The TLS record header: five bytes with the type and the number of the following bytes.
//!
//! In: bytes from a record's first. Out: [`RecordHeader`], unjudged; what a record may be is its reader's matter.
//! Source: RFC 9846 §5.1; RFC 5246 §6.2.1.

/// Bytes of a record header.
pub const HEADER_LENGTH: usize = 5;

/// Greatest payload of a plaintext record, in bytes: "The length MUST NOT exceed 2^14 bytes" (RFC 9846 §5.1).
pub const PLAINTEXT_LIMIT: usize = 16_384;

/// Type of a record's content, as the byte on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ContentType(pub u8);

impl ContentType {
    /// Change of cipher, of meaning in TLS 1.2 only.
    pub const CHANGE_CIPHER_SPEC: Self = Self(20);
    /// An alert.
    pub const ALERT: Self = Self(21);
    /// Handshake messages or parts of them.
    pub const HANDSHAKE: Self = Self(22);
    /// Application data, and in TLS 1.3 everything encrypted.
    pub const APPLICATION_DATA: Self = Self(23);
    /// Heartbeat (RFC 6520).
    pub const HEARTBEAT: Self = Self(24);

    /// The RFC's word, or `None` for a type that no record in the clear may have.
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Self::CHANGE_CIPHER_SPEC => Some("change_cipher_spec"),
            Self::ALERT => Some("alert"),
            Self::HANDSHAKE => Some("handshake"),
            Self::APPLICATION_DATA => Some("application_data"),
            Self::HEARTBEAT => Some("heartbeat"),
            _ => None,
        }
    }
}

/// A record's first five bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RecordHeader {
    /// Type of its content.
    pub content_type: ContentType,
    /// `legacy_record_version`; it has no relation to the version that will be agreed on.
    pub version: u16,
    /// Bytes that follow the header.
    pub length: u16,
}

impl RecordHeader {
    /// Reads a header from the start of `bytes`; `None` when fewer than five are there.
    pub const fn parse(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [content_type, major, minor, high, low, ..] => Some(Self {
                content_type: ContentType(*content_type),
                version: u16::from_be_bytes([*major, *minor]),
                length: u16::from_be_bytes([*high, *low]),
            }),
            _ => None,
        }
    }

    /// Bytes on the wire, header included.
    pub const fn length_on_wire(&self) -> usize {
        HEADER_LENGTH + self.length as usize
    }
}

/// The first whole record of `bytes`, header included, and what follows it; `None` when it is not all there.
pub fn first_record(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    bytes.split_at_checked(RecordHeader::parse(bytes)?.length_on_wire())
}

/// Returns the joined contents of the whole records of `bytes`.
pub fn payloads(bytes: &[u8]) -> Vec<u8> {
    // Every byte that is copied is here already, so this is no allocation on a peer's word.
    let mut payloads = Vec::with_capacity(bytes.len());
    let mut left = bytes;
    while let Some((record, rest)) = first_record(left) {
        payloads.extend_from_slice(&record[HEADER_LENGTH..]);
        left = rest;
    }
    payloads
}

/// `message` in as few handshake records as carry it, in the clear.
pub fn handshake_records(message: &[u8]) -> Vec<u8> {
    let mut records =
        Vec::with_capacity(message.len() + message.len().div_ceil(PLAINTEXT_LIMIT) * HEADER_LENGTH);
    for fragment in message.chunks(PLAINTEXT_LIMIT) {
        let [_, _, high, low] = (fragment.len() as u32).to_be_bytes();
        records.extend_from_slice(&[ContentType::HANDSHAKE.0, 3, 3, high, low]);
        records.extend_from_slice(fragment);
    }
    records
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_the_rfcs_words() {
        let names = [19, 20, 21, 22, 23, 24, 25].map(|number| ContentType(number).name());
        let [alert, handshake] = [Some("alert"), Some("handshake")];
        let [change, data, heartbeat] =
            [Some("change_cipher_spec"), Some("application_data"), Some("heartbeat")];
        assert_eq!(names, [None, change, alert, handshake, data, heartbeat, None]);
    }

    #[test]
    fn a_header_is_five_bytes() {
        let bytes = [22, 3, 1, 0x01, 0x02, 99];
        let header = RecordHeader { content_type: ContentType::HANDSHAKE, version: 0x0301, length: 258 };
        assert_eq!(RecordHeader::parse(&bytes), Some(header));
        assert_eq!(header.length_on_wire(), 263);
        for end in 0..HEADER_LENGTH {
            assert_eq!(RecordHeader::parse(&bytes[..end]), None);
        }
    }

    #[test]
    fn a_message_comes_out_of_its_records_as_it_went_in() {
        for length in [0, 1, PLAINTEXT_LIMIT, PLAINTEXT_LIMIT + 1, 3 * PLAINTEXT_LIMIT] {
            let message: Vec<u8> = (0..length).map(|number| number as u8).collect();
            let records = handshake_records(&message);
            assert_eq!(records.len(), length + HEADER_LENGTH * length.div_ceil(PLAINTEXT_LIMIT));
            assert_eq!(payloads(&records), message);
            assert_eq!(
                payloads(&[&records[..], &[22, 3, 3, 0, 9, 1]].concat()),
                message,
                "half a record is none"
            );
        }
    }
}
