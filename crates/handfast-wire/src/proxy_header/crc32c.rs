//! The checksum of a PROXY header: CRC-32C (Castagnoli), as RFC 9260 appendix A has it for SCTP.
//!
//! In: parts of a message. Out: four bytes. A table of 256 numbers made at compile time: headers are short and few.

/// The polynomial, its bits reversed.
const POLYNOMIAL: u32 = 0x82f6_3b78;

const TABLE: [u32; 256] = table();

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
}

/// The checksum of these parts, one behind the other.
pub(super) fn of(parts: &[&[u8]]) -> u32 {
    let bytes = parts.iter().flat_map(|part| part.iter());
    !bytes.fold(!0, |crc, byte| TABLE[((crc ^ u32::from(*byte)) & 0xff) as usize] ^ (crc >> 8))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 3720 appendix B.4 has the four of 32 bytes; the nine digits are the check value that catalogues of CRCs give.
    #[test]
    fn it_is_the_one_that_others_compute() {
        assert_eq!(of(&[b"123456789"]), 0xe306_9283);
        assert_eq!(of(&[b"1234", b"", b"56789"]), 0xe306_9283);
        assert_eq!(of(&[&[0; 32]]), 0x8a91_36aa);
        assert_eq!(of(&[&[0xff; 32]]), 0x62a8_ab43);
        let rising: Vec<u8> = (0..32).collect();
        assert_eq!(of(&[&rising]), 0x46dd_794e);
    }
}
