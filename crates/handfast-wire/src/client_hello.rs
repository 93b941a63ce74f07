//! Parsed ClientHello: the facts that policies, routes and logs need.
//!
//! In: the body of one whole handshake message. Out: [`ClientHello`], small and owned. Every length is checked, every
//! extension that is not read is stepped over. The offer is not judged here: the TLS library does that, and reads the
//! same bytes again.

use crate::invalid::Invalid;
use crate::limits::MESSAGE_HEADER_LENGTH;
use crate::reader::Reader;
use crate::registry;
use crate::server_name::{self, NameProblem};

/// Offer of a client, in its order of preference. Values reserved to keep servers tolerant (GREASE, RFC 8701) stay in
/// the lists.
///
/// **Source**: RFC 9846 §4.2.2 and §4.3; RFC 5246 §7.4.1.2.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientHello {
    /// `legacy_version`: the highest version, where there are no `versions`.
    pub legacy_version: u16,
    /// Bytes of `legacy_session_id`, 0 to 32.
    pub session_id_length: u8,
    /// Cipher suites; not empty.
    pub cipher_suites: Vec<u16>,
    /// Types of all extensions, in their order.
    pub extensions: Vec<u16>,
    /// The requested host name: valid, in lower case (RFC 6066 §3).
    pub server_name: Option<Box<str>>,
    /// Reason why the host name that was sent is not in `server_name`.
    pub server_name_problem: Option<NameProblem>,
    /// The first [`MAX_PROTOCOLS`] application protocols (RFC 7301); not always text.
    pub alpn: Vec<Box<[u8]>>,
    /// Supported versions (RFC 9846 §4.3.1); empty for clients of TLS 1.2 and before.
    pub versions: Vec<u16>,
    /// Key exchange groups (RFC 9846 §4.3.7).
    pub groups: Vec<u16>,
    /// Groups for which a key share came along (RFC 9846 §4.3.8); may be empty where the extension is there.
    pub key_shares: Vec<u16>,
    /// Signature schemes for the handshake, and for certificates where the next list is empty (RFC 9846 §4.3.3).
    pub signature_schemes: Vec<u16>,
    /// Signature schemes for certificates (`signature_algorithms_cert`).
    pub certificate_signature_schemes: Vec<u16>,
    /// Types of certificates that it takes from the server (RFC 7250 §3); empty: X.509 only.
    pub server_certificate_types: Vec<u8>,
    /// True if a TLS 1.3 session is offered for resumption (RFC 9846 §4.3.11).
    pub has_pre_shared_key: bool,
    /// True if early data follows (RFC 9846 §4.3.10).
    pub has_early_data: bool,
    /// True if a TLS 1.2 ticket is offered for resumption; an empty extension only requests one (RFC 5077 §3.2).
    pub has_session_ticket: bool,
    /// Most plaintext bytes that the client accepts in a record, where that is fewer than 16,384: of `max_fragment_length` (RFC 6066 §4) and
    /// `record_size_limit` (RFC 8449 §4) the smaller one. Values that are not allowed are no limit, as for a server without these extensions.
    pub record_limit: Option<u16>,
    /// Bytes of the hello on the wire, from the connection's first byte, record headers included; 0 unless peeked.
    pub length_on_wire: usize,
    /// Records that carried it; 0 unless peeked.
    pub record_count: usize,
}

impl ClientHello {
    /// Returns true if it takes raw public keys and no X.509 certificate from the server (RFC 7250).
    pub fn accepts_raw_keys_only(&self) -> bool {
        /// The number of X.509 in IANA's list of certificate types.
        const X509: u8 = 0;
        !self.server_certificate_types.is_empty() && !self.server_certificate_types.contains(&X509)
    }

    /// Reads the body of a ClientHello message, without the message's type and length.
    ///
    /// **Errors**: the first [`Invalid`] in the order of the bytes. **Cost**: one pass, and a sort of the extension
    /// types; allocations in proportion to the body.
    pub fn parse(body: &[u8]) -> Result<Self, Invalid> {
        let mut reader = Reader::new(body, "client_hello");
        let mut hello = Self { legacy_version: reader.u16()?, ..Self::default() };
        // Later versions than any known are no fault: RFC 9846 §4.2.2 has servers answer them with their own highest.
        if hello.legacy_version < 0x0300 {
            return Err(Invalid::LegacyVersion { version: hello.legacy_version });
        }
        reader.take(RANDOM_LENGTH)?;
        hello.session_id_length = session_id_length(reader.vector8("legacy_session_id")?)?;
        hello.cipher_suites = reader.vector16("cipher_suites")?.u16_list()?;
        if !reader.vector8("legacy_compression_methods")?.rest()?.contains(&NULL_COMPRESSION) {
            return Err(Invalid::NoNullCompression);
        }
        // Clients before TLS 1.2 may end here (RFC 5246 §7.4.1.2).
        if !reader.is_empty() {
            hello.read_extensions(reader.vector16("extensions")?)?;
        }
        reader.finish()?;
        Ok(hello)
    }

    /// Returns true if the client supports `version`.
    pub fn offers_version(&self, version: u16) -> bool {
        if self.versions.is_empty() {
            // Below TLS 1.3 a client names its highest version only; 1.3 needs the list (RFC 9846 §4.3.1).
            version <= self.legacy_version.min(registry::TLS_1_2)
        } else {
            self.versions.contains(&version)
        }
    }

    /// Returns true if it offers to resume a session: a TLS 1.3 pre-shared key or a TLS 1.2 ticket.
    ///
    /// Sessions kept by identifier alone do not show: clients of TLS 1.3 send an identifier without any session.
    pub const fn offers_resumption(&self) -> bool {
        self.has_pre_shared_key || self.has_session_ticket
    }

    fn read_extensions(&mut self, mut extensions: Reader<'_>) -> Result<(), Invalid> {
        while !extensions.is_empty() {
            let extension = extensions.u16()?;
            if self.has_pre_shared_key {
                return Err(Invalid::PreSharedKeyNotLast);
            }
            self.extensions.push(extension);
            self.read_extension(extension, extensions.vector16(field_name(extension))?)?;
        }
        first_duplicate(&self.extensions)
            .map_or(Ok(()), |extension| Err(Invalid::DuplicateExtension { extension }))
    }

    fn read_extension(&mut self, extension: u16, mut data: Reader<'_>) -> Result<(), Invalid> {
        match extension {
            extension::SERVER_NAME => {
                self.read_server_names(data.vector16("server_name_list")?)?;
                data.finish()?;
            }
            extension::MAX_FRAGMENT_LENGTH => {
                if let [code @ 1..=4] = data.all() {
                    self.limit_records(256 << code);
                }
            }
            extension::RECORD_SIZE_LIMIT => {
                // TLS 1.3 counts the byte that has the content type. Without that byte it is a little less than TLS 1.2 allows.
                if let Ok(limit @ 64..) = <[u8; 2]>::try_from(data.all()).map(u16::from_be_bytes) {
                    self.limit_records(limit - 1);
                }
            }
            extension::SERVER_CERTIFICATE_TYPE => {
                self.server_certificate_types = data.vector8("server_certificate_types")?.all().to_vec();
                data.finish()?;
            }
            extension::SUPPORTED_GROUPS => self.groups = only_list16(data, "named_group_list")?,
            extension::SIGNATURE_ALGORITHMS => {
                self.signature_schemes = only_list16(data, "supported_signature_algorithms")?;
            }
            extension::SIGNATURE_ALGORITHMS_CERT => {
                self.certificate_signature_schemes = only_list16(data, "supported_signature_algorithms")?;
            }
            extension::ALPN => {
                self.alpn = protocol_names(data.vector16("protocol_name_list")?)?;
                data.finish()?;
            }
            extension::SESSION_TICKET => self.has_session_ticket = !data.is_empty(),
            extension::PRE_SHARED_KEY => self.has_pre_shared_key = true,
            extension::EARLY_DATA => {
                self.has_early_data = true;
                data.finish()?;
            }
            extension::SUPPORTED_VERSIONS => {
                self.versions = data.vector8("supported_versions")?.u16_list()?;
                data.finish()?;
            }
            extension::KEY_SHARE => {
                self.key_shares = key_share_groups(data.vector16("client_shares")?)?;
                data.finish()?;
            }
            _ => {}
        }
        Ok(())
    }

    fn limit_records(&mut self, limit: u16) {
        if limit < FRAGMENT {
            self.record_limit = Some(self.record_limit.map_or(limit, |before| before.min(limit)));
        }
    }

    fn read_server_names(&mut self, mut names: Reader<'_>) -> Result<(), Invalid> {
        if names.is_empty() {
            return Err(Invalid::Empty { field: "server_name_list" });
        }
        let mut seen = false;
        while !names.is_empty() {
            let name_type = names.u8()?;
            // Names of all types begin with a length of two bytes (RFC 6066 §3), so unknown ones can be stepped over.
            let name = names.vector16("host_name")?;
            if name_type != HOST_NAME {
                continue;
            }
            if std::mem::replace(&mut seen, true) {
                return Err(Invalid::SeveralHostNames);
            }
            match server_name::host_name(name.all()) {
                Ok(name) => self.server_name = Some(name),
                Err(problem) => self.server_name_problem = Some(problem),
            }
        }
        Ok(())
    }
}

/// A ClientHello `message` (type and length included) without its pre_shared_key extension, which is the last one
/// (RFC 9846 §4.3.11); `None` when it has none, or is malformed.
pub fn without_pre_shared_key(message: &[u8]) -> Option<Vec<u8>> {
    let mut reader = Reader::new(message, "client_hello");
    reader.take(MESSAGE_HEADER_LENGTH + size_of::<u16>() + RANDOM_LENGTH).ok()?;
    reader.vector8("legacy_session_id").ok()?;
    reader.vector16("cipher_suites").ok()?;
    reader.vector8("legacy_compression_methods").ok()?;
    let mut extensions = reader.vector16("extensions").ok()?;
    reader.finish().ok()?;
    let begin = message.len() - extensions.len();
    let mut end = begin;
    while extensions.u16().ok()? != extension::PRE_SHARED_KEY {
        extensions.vector16("extension_data").ok()?;
        end = message.len() - extensions.len();
    }
    let mut shorter = message[..end].to_vec();
    let [_, high, middle, low] = u32::try_from(end - MESSAGE_HEADER_LENGTH).ok()?.to_be_bytes();
    shorter[1..MESSAGE_HEADER_LENGTH].copy_from_slice(&[high, middle, low]);
    shorter[begin - 2..begin].copy_from_slice(&u16::try_from(end - begin).ok()?.to_be_bytes());
    Some(shorter)
}

fn session_id_length(session_id: Reader<'_>) -> Result<u8, Invalid> {
    match session_id.all().len() {
        length @ 0..=32 => Ok(length as u8),
        length => Err(Invalid::SessionIdTooLong { length }),
    }
}

/// An extension that is one list of two-byte numbers behind a two-byte length.
fn only_list16(mut data: Reader<'_>, field: &'static str) -> Result<Vec<u16>, Invalid> {
    let list = data.vector16(field)?.u16_list()?;
    data.finish()?;
    Ok(list)
}

/// RFC 7301 §3.1: the list has a name at least, and "empty strings MUST NOT be included".
fn protocol_names(mut list: Reader<'_>) -> Result<Vec<Box<[u8]>>, Invalid> {
    if list.is_empty() {
        return Err(Invalid::Empty { field: "protocol_name_list" });
    }
    let mut names = Vec::new();
    while !list.is_empty() {
        // All must be well-formed, also those that are not kept.
        let name = list.vector8("protocol_name")?.rest()?;
        if names.len() < MAX_PROTOCOLS {
            names.push(name.into());
        }
    }
    Ok(names)
}

/// RFC 9846 §4.3.8: an empty list asks for a HelloRetryRequest, an empty key is malformed.
fn key_share_groups(mut shares: Reader<'_>) -> Result<Vec<u16>, Invalid> {
    let mut groups = Vec::new();
    while !shares.is_empty() {
        groups.push(shares.u16()?);
        shares.vector16("key_exchange")?.rest()?;
    }
    Ok(groups)
}

/// Sorted, because a hello of the greatest size has room for 16,000 extensions: comparing each with each would be an
/// attack.
fn first_duplicate(extensions: &[u16]) -> Option<u16> {
    let mut sorted = extensions.to_vec();
    sorted.sort_unstable();
    sorted.array_windows().find(|[one, next]| one == next).map(|[extension, _]| *extension)
}

fn field_name(extension: u16) -> &'static str {
    registry::extension_name(extension).unwrap_or("extension_data")
}

/// Most application protocols that are kept of a hello: browsers offer 2 or 3, and one of 128 KiB has room for 65,000.
pub const MAX_PROTOCOLS: usize = 64;

/// Most plaintext bytes in a record (RFC 9846 §5.1).
const FRAGMENT: u16 = 16_384;
const RANDOM_LENGTH: usize = 32;
const NULL_COMPRESSION: u8 = 0;
/// `host_name` of `NameType` in RFC 6066 §3, the only type there is.
const HOST_NAME: u8 = 0;

/// The extensions that are read (RFC 9846 §4.3; RFC 7301 §3.1 for ALPN; RFC 5077 §3.2 for tickets).
mod extension {
    pub(super) const SERVER_NAME: u16 = 0;
    pub(super) const MAX_FRAGMENT_LENGTH: u16 = 1;
    pub(super) const SUPPORTED_GROUPS: u16 = 10;
    pub(super) const SIGNATURE_ALGORITHMS: u16 = 13;
    pub(super) const ALPN: u16 = 16;
    pub(super) const SERVER_CERTIFICATE_TYPE: u16 = 20;
    pub(super) const RECORD_SIZE_LIMIT: u16 = 28;
    pub(super) const SESSION_TICKET: u16 = 35;
    pub(super) const PRE_SHARED_KEY: u16 = 41;
    pub(super) const EARLY_DATA: u16 = 42;
    pub(super) const SUPPORTED_VERSIONS: u16 = 43;
    pub(super) const SIGNATURE_ALGORITHMS_CERT: u16 = 50;
    pub(super) const KEY_SHARE: u16 = 51;
}
