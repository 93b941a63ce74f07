//! The type-length-values of version 2: their numbers and names, the walk over them, and what is checked.
//!
//! In: the bytes behind a header's addresses. Out: [`Tlvs`], or why a header is refused for them. The numbers from `0xe0` on are
//! the sender's own affair: AWS has `0xea`, Azure `0xee`, Google and hitch both `0xe0`; none is given a meaning by the reader.

use super::{Invalid, crc32c};

/// Application protocol that was agreed on.
pub const ALPN: u8 = 0x01;
/// Host name that the client requested, UTF-8.
pub const AUTHORITY: u8 = 0x02;
/// Checksum of the whole header.
pub const CRC32C: u8 = 0x03;
/// Nothing; fills space.
pub const NOOP: u8 = 0x04;
/// Name of the connection, opaque.
pub const UNIQUE_ID: u8 = 0x05;
/// TLS between client and sender; contains nested values.
pub const SSL: u8 = 0x20;
/// Inside SSL: version, such as `TLSv1.3`.
pub const SSL_VERSION: u8 = 0x21;
/// Inside SSL: Common Name of the client's certificate, UTF-8.
pub const SSL_CN: u8 = 0x22;
/// Inside SSL: cipher suite, by OpenSSL's name.
pub const SSL_CIPHER: u8 = 0x23;
/// Inside SSL: what signed the sender's certificate, such as `SHA256`.
pub const SSL_SIG_ALG: u8 = 0x24;
/// Inside SSL: key of the sender's certificate, such as `RSA2048`.
pub const SSL_KEY_ALG: u8 = 0x25;
/// Inside SSL: key exchange group, such as `secp256r1`.
pub const SSL_GROUP: u8 = 0x26;
/// Inside SSL: scheme of the sender's signature, such as `rsa_pss_rsae_sha256`.
pub const SSL_SIG_SCHEME: u8 = 0x27;
/// Inside SSL: the client's certificate in DER.
pub const SSL_CLIENT_CERT: u8 = 0x28;
/// hitch's number for the client's certificate in PEM, beside the values of TLS. Only sent.
pub const HITCH_CLIENT_CERT: u8 = 0xe0;
/// Name of the sender's network namespace, ASCII.
pub const NETNS: u8 = 0x30;

/// Most bytes of a [`UNIQUE_ID`].
pub const UNIQUE_ID_LIMIT: usize = 128;
/// Bytes of a type and a length.
const HEAD: usize = 3;
/// Bytes of [`SSL`] before the values inside it.
const SSL_HEAD: usize = 5;

/// The name of a type, as the specification has it without its prefix.
pub const fn name(number: u8) -> Option<&'static str> {
    Some(match number {
        ALPN => "ALPN",
        AUTHORITY => "AUTHORITY",
        CRC32C => "CRC32C",
        NOOP => "NOOP",
        UNIQUE_ID => "UNIQUE_ID",
        SSL => "SSL",
        SSL_VERSION => "SSL_VERSION",
        SSL_CN => "SSL_CN",
        SSL_CIPHER => "SSL_CIPHER",
        SSL_SIG_ALG => "SSL_SIG_ALG",
        SSL_KEY_ALG => "SSL_KEY_ALG",
        SSL_GROUP => "SSL_GROUP",
        SSL_SIG_SCHEME => "SSL_SIG_SCHEME",
        SSL_CLIENT_CERT => "SSL_CLIENT_CERT",
        NETNS => "NETNS",
        _ => return None,
    })
}

/// One type-length-value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tlv<'a> {
    /// Its type.
    pub number: u8,
    /// Its value.
    pub value: &'a [u8],
}

/// The type-length-values of a header, one after the other.
#[derive(Clone, Debug)]
pub struct Tlvs<'a> {
    rest: &'a [u8],
}

impl<'a> Tlvs<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }
}

impl<'a> Iterator for Tlvs<'a> {
    type Item = Tlv<'a>;

    /// Ends also where one reaches beyond the end, which none does in a header that was checked.
    fn next(&mut self) -> Option<Tlv<'a>> {
        let (&[number, high, low], rest) = self.rest.split_first_chunk::<HEAD>()?;
        let (value, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes([high, low])))?;
        self.rest = rest;
        Some(Tlv { number, value })
    }
}

/// Information about TLS between the client and the sender.
#[derive(Clone, Debug)]
pub struct Tls<'a> {
    /// Bits: see [`Tls::USED`] and those below it.
    pub client: u8,
    /// 0 when the client showed a certificate and it was found good.
    pub verify: u32,
    values: &'a [u8],
}

impl<'a> Tls<'a> {
    /// The client spoke TLS.
    pub const USED: u8 = 0x01;
    /// It showed a certificate in this connection.
    pub const CERTIFICATE_NOW: u8 = 0x02;
    /// It showed one at least once in this TLS session.
    pub const CERTIFICATE_IN_SESSION: u8 = 0x04;

    pub(super) fn parse(value: &'a [u8]) -> Option<Self> {
        let (&[client, a, b, c, d], values) = value.split_first_chunk::<SSL_HEAD>()?;
        Some(Self { client, verify: u32::from_be_bytes([a, b, c, d]), values })
    }

    /// The values inside, in their order.
    pub const fn values(&self) -> Tlvs<'a> {
        Tlvs::new(self.values)
    }
}

/// Checks everything behind the addresses of a whole header, from `start` on.
pub(super) fn check(whole: &[u8], start: usize) -> Result<(), Invalid> {
    let mut seen = Seen::default();
    for_each_value(whole, start, |at, tlv| {
        seen.once(tlv.number)?;
        let value_at = at + HEAD;
        match tlv.number {
            AUTHORITY => utf8(&tlv),
            NETNS => ascii(&tlv),
            UNIQUE_ID if tlv.value.len() > UNIQUE_ID_LIMIT => Err(length(&tlv, "128 at the most")),
            CRC32C => checksum(whole, value_at, &tlv),
            SSL if tlv.value.len() < SSL_HEAD => Err(length(&tlv, "5 at the least")),
            SSL => inside_ssl(&whole[..value_at + tlv.value.len()], value_at + SSL_HEAD),
            _ => Ok(()),
        }
    })
}

/// The values inside SSL, which ends where `whole` does here.
fn inside_ssl(whole: &[u8], start: usize) -> Result<(), Invalid> {
    let mut seen = Seen::default();
    for_each_value(whole, start, |_, tlv| {
        seen.once(tlv.number)?;
        match tlv.number {
            SSL_CN => utf8(&tlv),
            SSL_VERSION | SSL_CIPHER | SSL_SIG_ALG | SSL_KEY_ALG | SSL_GROUP | SSL_SIG_SCHEME => ascii(&tlv),
            _ => Ok(()),
        }
    })
}

/// Goes over the values from `start` to the end of `whole`, with the place of each.
fn for_each_value(
    whole: &[u8],
    start: usize,
    mut each: impl FnMut(usize, Tlv<'_>) -> Result<(), Invalid>,
) -> Result<(), Invalid> {
    let mut tlvs = Tlvs::new(&whole[start..]);
    loop {
        let at = whole.len() - tlvs.rest.len();
        match tlvs.next() {
            Some(tlv) => each(at, tlv)?,
            None if tlvs.rest.is_empty() => return Ok(()),
            None => return Err(beyond(at, tlvs.rest)),
        }
    }
}

fn beyond(at: usize, rest: &[u8]) -> Invalid {
    let needed = match *rest {
        [_, high, low, ..] => HEAD + usize::from(u16::from_be_bytes([high, low])),
        _ => HEAD,
    };
    Invalid::TlvBeyond { at, number: rest.first().copied(), needed, left: rest.len() }
}

/// Types that were there. Those that have a meaning must not contradict each other; of all others a sender may have several.
#[derive(Default)]
struct Seen(u64);

impl Seen {
    fn once(&mut self, number: u8) -> Result<(), Invalid> {
        if number == NOOP || name(number).is_none() {
            return Ok(());
        }
        let bit = 1 << number;
        if self.0 & bit != 0 {
            return Err(Invalid::TlvTwice { number });
        }
        self.0 |= bit;
        Ok(())
    }
}

fn utf8(tlv: &Tlv<'_>) -> Result<(), Invalid> {
    match str::from_utf8(tlv.value) {
        Ok(_) => Ok(()),
        Err(_) => Err(Invalid::TlvText { number: tlv.number, expected: "UTF-8" }),
    }
}

fn ascii(tlv: &Tlv<'_>) -> Result<(), Invalid> {
    match tlv.value.is_ascii() {
        true => Ok(()),
        false => Err(Invalid::TlvText { number: tlv.number, expected: "ASCII" }),
    }
}

fn length(tlv: &Tlv<'_>, expected: &'static str) -> Invalid {
    Invalid::TlvLength { number: tlv.number, length: tlv.value.len(), expected }
}

/// The checksum is that of the whole header with zeros in its own place.
fn checksum(whole: &[u8], at: usize, tlv: &Tlv<'_>) -> Result<(), Invalid> {
    let Ok(found) = tlv.value.try_into().map(u32::from_be_bytes) else { return Err(length(tlv, "4")) };
    let computed = crc32c::of(&[&whole[..at], &[0; 4], &whole[at + 4..]]);
    if found == computed { Ok(()) } else { Err(Invalid::Checksum { found, computed }) }
}
