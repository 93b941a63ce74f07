//! A small encoder of ClientHellos, right or wrong, for these tests only.

use handfast_wire::record::PLAINTEXT_LIMIT;

/// A ClientHello's fields; what is wrong with them stays wrong.
#[derive(Clone, Debug)]
pub(crate) struct Build {
    pub(crate) legacy_version: u16,
    pub(crate) session_id: Vec<u8>,
    pub(crate) cipher_suites: Vec<u16>,
    pub(crate) compression_methods: Vec<u8>,
    /// `None` leaves out even the length of the extensions.
    pub(crate) extensions: Option<Vec<(u16, Vec<u8>)>>,
}

impl Default for Build {
    fn default() -> Self {
        Self {
            legacy_version: 0x0303,
            session_id: vec![7; 32],
            cipher_suites: vec![0x1301, 0xc02b],
            compression_methods: vec![0],
            extensions: Some(vec![]),
        }
    }
}

impl Build {
    /// The same hello with one extension more.
    pub(crate) fn with(mut self, extension: u16, data: Vec<u8>) -> Self {
        self.extensions.get_or_insert_default().push((extension, data));
        self
    }

    pub(crate) fn body(&self) -> Vec<u8> {
        let mut body = self.legacy_version.to_be_bytes().to_vec();
        body.extend([0x5a; 32]);
        body.extend(vector8(&self.session_id));
        body.extend(vector16(&numbers(&self.cipher_suites)));
        body.extend(vector8(&self.compression_methods));
        if let Some(extensions) = &self.extensions {
            let mut list = Vec::new();
            for (extension, data) in extensions {
                list.extend(extension.to_be_bytes());
                list.extend(vector16(data));
            }
            body.extend(vector16(&list));
        }
        body
    }

    /// The handshake message in records as large as they may be.
    pub(crate) fn wire(&self) -> Vec<u8> {
        records(&message(&self.body()), &[PLAINTEXT_LIMIT])
    }
}

/// A body behind the header of a client_hello message.
pub(crate) fn message(body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).expect("tests make short bodies").to_be_bytes();
    [&[1, length[1], length[2], length[3]], body].concat()
}

/// A handshake message in records of the given sizes, which are repeated in order.
pub(crate) fn records(message: &[u8], sizes: &[usize]) -> Vec<u8> {
    let mut wire = Vec::new();
    let mut left = message;
    let mut sizes = sizes.iter().cycle();
    while !left.is_empty() {
        let size = (*sizes.next().expect("a cycle has no end")).clamp(1, left.len());
        wire.extend(record(22, 0x0301, &left[..size]));
        left = &left[size..];
    }
    wire
}

/// One record.
pub(crate) fn record(content_type: u8, version: u16, payload: &[u8]) -> Vec<u8> {
    let mut record = vec![content_type];
    record.extend(version.to_be_bytes());
    record.extend(vector16(payload));
    record
}

pub(crate) fn vector8(bytes: &[u8]) -> Vec<u8> {
    let length = u8::try_from(bytes.len()).expect("a test's short vector is short");
    [&[length], bytes].concat()
}

pub(crate) fn vector16(bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).expect("a test's vector fits its length");
    [&length.to_be_bytes(), bytes].concat()
}

pub(crate) fn numbers(list: &[u16]) -> Vec<u8> {
    list.iter().flat_map(|number| number.to_be_bytes()).collect()
}

/// Data of an extension that is one list of numbers behind a length of two bytes.
pub(crate) fn list16(list: &[u16]) -> Vec<u8> {
    vector16(&numbers(list))
}

/// Data of server_name with one host name.
pub(crate) fn server_name(name: &[u8]) -> Vec<u8> {
    vector16(&[&[0][..], &vector16(name)].concat())
}

/// Data of application_layer_protocol_negotiation.
pub(crate) fn alpn(names: &[Vec<u8>]) -> Vec<u8> {
    vector16(&names.iter().flat_map(|name| vector8(name)).collect::<Vec<_>>())
}

/// Data of key_share: groups, and the length of each key.
pub(crate) fn key_shares(shares: &[(u16, usize)]) -> Vec<u8> {
    let mut list = Vec::new();
    for (group, length) in shares {
        list.extend(group.to_be_bytes());
        list.extend(vector16(&vec![0x33; *length]));
    }
    vector16(&list)
}
