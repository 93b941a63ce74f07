//! The frame of an OCSP response, read in one pass (RFC 6960 §4.2.1).
//!
//! In: DER. Out: a [`Response`] that borrows from it, or what it is instead. Nothing is believed here: `verify.rs` holds
//! it against the certificate that it should be about.

use super::StapleError;
use super::refusal::MAX_RESPONSE_BYTES;
use crate::asn1::{SignedParts, generalized_time as time};
use crate::der::{Der, ENUMERATED, GENERALIZED_TIME, INTEGER, OBJECT_IDENTIFIER, OCTET_STRING, SEQUENCE};

/// id-pkix-ocsp-basic, 1.3.6.1.5.5.7.48.1.1.
const BASIC: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 0x30, 1, 1];
/// Certificates that one response may be about, and that may come with it. One is usual.
const MAX_CERTIFICATES: usize = 64;

/// A basic OCSP response.
#[derive(Debug)]
pub(super) struct Response<'a> {
    /// ResponseData, and the responder's signature.
    pub(super) parts: SignedParts<'a>,
    pub(super) singles: Vec<Single<'a>>,
    /// Certificates that come with it, in DER.
    pub(super) certificates: Vec<&'a [u8]>,
}

/// Statement of the response about one certificate.
#[derive(Debug)]
pub(super) struct Single<'a> {
    /// Object identifier of the hash of the next two.
    pub(super) hash: &'a [u8],
    pub(super) issuer_name: &'a [u8],
    pub(super) issuer_key: &'a [u8],
    pub(super) serial: &'a [u8],
    pub(super) status: Status,
    pub(super) this_update: i64,
    pub(super) next_update: Option<i64>,
}

/// Status of that certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Good,
    /// Since when, Unix time.
    Revoked(i64),
    Unknown,
}

/// Reads a response.
pub(super) fn read(der: &[u8]) -> Result<Response<'_>, StapleError> {
    if der.len() > MAX_RESPONSE_BYTES {
        return Err(StapleError::TooLarge(der.len()));
    }
    let (status, bytes) = outside(der).ok_or(StapleError::Malformed)?;
    if status != 0 {
        return Err(StapleError::Unsuccessful(status));
    }
    basic(bytes.ok_or(StapleError::Malformed)?).ok_or(StapleError::Malformed)
}

/// The status of the whole, and the basic response in it.
fn outside(der: &[u8]) -> Option<(u8, Option<&[u8]>)> {
    let mut whole = Der(der);
    let mut response = Der(whole.expect(SEQUENCE)?);
    if !whole.0.is_empty() {
        return None;
    }
    let [status] = response.expect(ENUMERATED)? else { return None };
    let Some(bytes) = response.optional(0xa0) else { return Some((*status, None)) };
    let mut bytes = Der(Der(bytes).expect(SEQUENCE)?);
    if bytes.expect(OBJECT_IDENTIFIER)? != BASIC {
        return None;
    }
    Some((*status, Some(bytes.expect(OCTET_STRING)?)))
}

fn basic(bytes: &[u8]) -> Option<Response<'_>> {
    let mut whole = Der(bytes);
    let mut basic = Der(whole.expect(SEQUENCE)?);
    let parts = SignedParts::read(&mut basic).ok()?;
    let mut certificates = Vec::new();
    if let Some(list) = basic.optional(0xa0) {
        let mut list = Der(Der(list).expect(SEQUENCE)?);
        while !list.0.is_empty() {
            certificates.push(list.whole(SEQUENCE)?);
            (certificates.len() <= MAX_CERTIFICATES).then_some(())?;
        }
    }
    let mut data = Der(Der(parts.signed).expect(SEQUENCE)?);
    data.optional(0xa0); // version
    data.next().filter(|(tag, _)| matches!(tag, 0xa1 | 0xa2))?; // who answers; its signature says who
    data.expect(GENERALIZED_TIME)?; // produced at
    let mut list = Der(data.expect(SEQUENCE)?);
    let mut singles = Vec::new();
    while !list.0.is_empty() {
        singles.push(single(list.expect(SEQUENCE)?)?);
        (singles.len() <= MAX_CERTIFICATES).then_some(())?;
    }
    (whole.0.is_empty() && basic.0.is_empty()).then_some(())?;
    Some(Response { parts, singles, certificates })
}

fn single(content: &[u8]) -> Option<Single<'_>> {
    let mut single = Der(content);
    let mut id = Der(single.expect(SEQUENCE)?);
    let hash = Der(id.expect(SEQUENCE)?).expect(OBJECT_IDENTIFIER)?;
    let issuer_name = id.expect(OCTET_STRING)?;
    let issuer_key = id.expect(OCTET_STRING)?;
    let serial = id.expect(INTEGER)?;
    let status = match single.next()? {
        (0x80, []) => Status::Good,
        (0xa1, revoked) => Status::Revoked(time(&mut Der(revoked))?),
        (0x82, []) => Status::Unknown,
        _ => return None,
    };
    let this_update = time(&mut single)?;
    let next_update = match single.optional(0xa0) {
        Some(next) => Some(time(&mut Der(next))?),
        None => None,
    };
    Some(Single { hash, issuer_name, issuer_key, serial, status, this_update, next_update })
}
