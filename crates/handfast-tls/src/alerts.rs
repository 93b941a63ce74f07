//! Corrects alerts: where rustls sends none after a failure, or a wrong one unencrypted.
//!
//! In: rustls's error, and what it sent. Out: bytes that make it send an alert, or the right number in the one that it sent.
//! rustls encrypts alerts and gives no access to the key, so an encrypted alert cannot be corrected.
//!
//! rustls 0.23.46 ends some connections without an alert, and its peer sees an end without a reason. Its record reader
//! still works then, and sends an alert for a worse record that is fed to it. docs/internals/lessons-tls.md lists the wrong
//! alerts.

use handfast_wire::record::{ContentType, first_record};
use handfast_wire::{Alert, AlertDescription};
use rustls::{Error, InvalidMessage, PeerMisbehaved};

/// The alert that RFC 9846 §5 and §6.2 require; `None` where rustls sends it, or none is required.
pub(crate) const fn deserved(error: &Error) -> Option<AlertDescription> {
    match error {
        Error::InvalidMessage(
            InvalidMessage::InvalidContentType
            | InvalidMessage::InvalidEmptyPayload
            | InvalidMessage::InvalidCcs,
        )
        | Error::PeerMisbehaved(
            PeerMisbehaved::MessageInterleavedWithHandshakeMessage
            | PeerMisbehaved::RejectedEarlyDataInterleavedWithHandshakeMessage
            | PeerMisbehaved::IllegalTlsInnerPlaintext
            | PeerMisbehaved::TooManyEmptyFragments
            | PeerMisbehaved::TooManyKeyUpdateRequests
            | PeerMisbehaved::TooManyRenegotiationRequests
            | PeerMisbehaved::TooManyWarningAlertsReceived,
        ) => Some(AlertDescription::UNEXPECTED_MESSAGE),
        Error::InvalidMessage(InvalidMessage::MessageTooLarge) => Some(AlertDescription::RECORD_OVERFLOW),
        Error::InvalidMessage(InvalidMessage::UnknownProtocolVersion) => {
            Some(AlertDescription::PROTOCOL_VERSION)
        }
        // The RFC has no alert for it; OpenSSL and BoringSSL send this one.
        Error::InvalidMessage(InvalidMessage::HandshakePayloadTooLarge)
        | Error::PeerMisbehaved(PeerMisbehaved::ServerNameDifferedOnRetry) => {
            Some(AlertDescription::ILLEGAL_PARAMETER)
        }
        _ => None,
    }
}

/// Returns the bytes that make rustls send an alert after an error that it ended without one; `unread` bytes were in the
/// caller's buffer.
///
/// While a message is unfinished rustls goes on reading behind it, wherever that was in the buffer: so this is no shorter,
/// and from there on it is a record of type 0, which is answered by `decode_error`. Otherwise it reads from the front: a
/// change_cipher_spec of a kind that is not allowed now, which is answered by `unexpected_message`.
pub(crate) fn provocation(error: &Error, unread: usize, handshaking: bool) -> Vec<u8> {
    let mut bytes = vec![0; unread + 2 * CHANGE_CIPHER_SPEC];
    let of_the_reader = matches!(
        error,
        Error::PeerMisbehaved(
            PeerMisbehaved::IllegalTlsInnerPlaintext | PeerMisbehaved::TooManyEmptyFragments
        )
    );
    // After any other error of this kind a well-formed record would get no answer.
    if of_the_reader {
        let kind = 1 + u8::from(handshaking);
        bytes[..CHANGE_CIPHER_SPEC].copy_from_slice(&[ContentType::CHANGE_CIPHER_SPEC.0, 3, 3, 0, 1, kind]);
    }
    bytes
}

/// Bytes of a change_cipher_spec record, and the fewest after which rustls can go on reading.
const CHANGE_CIPHER_SPEC: usize = 6;

/// Puts the right description into the alert at the end of `sent`, if it is in the clear.
pub(crate) fn correct(sent: &mut [u8], description: AlertDescription) {
    let mut last = 0;
    while let Some((record, _)) = first_record(&sent[last..]).filter(|(_, rest)| !rest.is_empty()) {
        last += record.len();
    }
    let right = Alert::fatal(description).to_record();
    let (ours, theirs) = (right.split_last(), sent[last..].split_last_mut());
    if let (Some((_, beginning)), Some((number, theirs))) = (ours, theirs)
        && theirs == beginning
    {
        *number = description.0;
    }
}

#[cfg(test)]
mod tests;
