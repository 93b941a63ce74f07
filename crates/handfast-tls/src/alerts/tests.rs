//! Alerts for a client that breaks the protocol, in the clear and encrypted.

use std::sync::Arc;

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use rustls::ConnectionTrafficSecrets;
use rustls::client::ClientConfig;
use rustls::version::{TLS12, TLS13};

use super::*;
use crate::server::tests::{Pair, Talk, pair};
use crate::session::Session as _;

#[test]
fn the_last_record_is_corrected_if_it_is_an_alert_in_the_clear() {
    let wrong = Alert::fatal(AlertDescription::DECODE_ERROR).to_record();
    let right = Alert::fatal(AlertDescription::RECORD_OVERFLOW).to_record();
    let other = [22, 3, 3, 0, 1, 0];
    let encrypted = [&[21, 3, 3, 0, 26][..], &[0; 19], &wrong].concat();
    for (sent, expected) in [
        (wrong.to_vec(), right.to_vec()),
        ([&other[..], &wrong].concat(), [&other[..], &right].concat()),
        (Vec::new(), Vec::new()),
        (other.to_vec(), other.to_vec()),
        (encrypted.clone(), encrypted),
    ] {
        let mut corrected = sent.clone();
        correct(&mut corrected, AlertDescription::RECORD_OVERFLOW);
        assert_eq!(corrected, expected, "{sent:?}");
    }
}

fn record(content_type: u8, payload: &[u8]) -> Vec<u8> {
    [&[content_type, 3, 3], &(payload.len() as u16).to_be_bytes()[..], payload].concat()
}

/// A client key exchange in two records, with something in between.
fn interleaved(between: &[u8]) -> Vec<u8> {
    [record(22, &[16, 0, 0, 33, 32]), between.to_vec(), record(22, &[9; 32])].concat()
}

#[test]
fn before_encryption_every_fault_has_the_right_alert() {
    for (sent, name) in [
        (record(0, b"x"), "unexpected_message"),
        (record(99, b"x"), "unexpected_message"),
        (record(22, b""), "unexpected_message"),
        (record(20, b"\x02"), "unexpected_message"),
        (interleaved(&record(23, b"x")), "unexpected_message"),
        (interleaved(&record(21, &[1, 90])), "unexpected_message"),
        (interleaved(&record(20, &[1])), "unexpected_message"),
        (record(22, &[16, 0xff, 0xff, 0xff, 0]), "illegal_parameter"),
        (record(22, &[16, 1, 0, 0, 0]), "illegal_parameter"),
        (vec![22, 2, 0, 0, 1, 0], "protocol_version"),
        (vec![22, 3, 3, 0x60, 0], "record_overflow"),
        (record(21, &[2]), "decode_error"),
        (record(23, b"x"), "unexpected_message"),
    ] {
        let mut talk = pair(&TLS12, false).talk("localhost");
        talk.outgoing.clear();
        assert!(talk.give(&sent).is_err(), "{sent:?}");
        let alert =
            Alert::parse(&talk.outgoing.filled()[5..]).expect("an alert in the clear, and nothing else");
        assert_eq!(alert.description.to_string(), name, "{sent:?}");
    }
}

/// A message of a peer of the other side is not answered by an alert.
#[test]
fn an_alert_is_not_answered() {
    let mut talk = pair(&TLS12, false).talk("localhost");
    talk.outgoing.clear();
    assert!(talk.give(&record(21, &[2, 40])).is_err());
    assert!(talk.outgoing.is_empty());
}

/// One direction of an established session, taken out of rustls's client.
struct Keys {
    key: LessSafeKey,
    iv: [u8; 12],
    sequence: u64,
}

impl Keys {
    fn new(secrets: (u64, ConnectionTrafficSecrets)) -> Self {
        let (sequence, ConnectionTrafficSecrets::Aes128Gcm { key, iv }) = secrets else { panic!("AES-128") };
        let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, key.as_ref()).unwrap());
        Self { key, iv: iv.as_ref().try_into().unwrap(), sequence }
    }

    fn nonce(&mut self) -> Nonce {
        let mut nonce = self.iv;
        nonce[4..].iter_mut().zip(self.sequence.to_be_bytes()).for_each(|(byte, number)| *byte ^= number);
        self.sequence += 1;
        Nonce::assume_unique_for_key(nonce)
    }

    /// A TLS 1.3 record with these bytes within, type at the end.
    fn seal(&mut self, inner: &[u8]) -> Vec<u8> {
        let mut sealed = inner.to_vec();
        let header = [23, 3, 3, 0, inner.len() as u8 + 16];
        let nonce = self.nonce();
        self.key.seal_in_place_append_tag(nonce, Aad::from(header), &mut sealed).unwrap();
        [&header[..], &sealed].concat()
    }

    /// Decrypts the last record of `sent`, with its type at the end.
    fn open_last(&mut self, mut sent: &[u8]) -> Vec<u8> {
        let mut inner = Vec::new();
        while let Some((record, rest)) = first_record(sent) {
            let mut sealed = record[5..].to_vec();
            let nonce = self.nonce();
            let header: [u8; 5] = record[..5].try_into().unwrap();
            inner = self.key.open_in_place(nonce, Aad::from(header), &mut sealed).unwrap().to_vec();
            sent = rest;
        }
        inner
    }
}

/// An established session and the keys of its client.
fn established() -> (Talk, Keys, Keys) {
    let pair = pair(&TLS13, false);
    let mut client = ClientConfig::clone(&pair.client);
    client.enable_secret_extraction = true;
    let pair = Pair { client: Arc::new(client), ..pair };
    let mut talk = pair.talk("localhost").establish();
    talk.outgoing.clear();
    let (another, _) = pair.hello("localhost");
    let secrets = std::mem::replace(&mut talk.client, another).dangerous_extract_secrets().unwrap();
    (talk, Keys::new(secrets.tx), Keys::new(secrets.rx))
}

#[test]
fn after_encryption_no_fault_is_without_an_alert() {
    let update = [24, 0, 0, 1];
    let unfinished = vec![24, 0, 22];
    let cases: [(Vec<Vec<u8>>, &str); 8] = [
        // No content type at all: RFC 9846 §5.4.
        (vec![vec![0, 0, 0]], "unexpected_message"),
        (vec![vec![0]], "unexpected_message"),
        (vec![vec![23]; 40], "unexpected_message"),
        // Right would be unexpected_message.
        (vec![unfinished.clone(), vec![b'x', 23]], "decode_error"),
        (vec![unfinished.clone(), vec![1, 90, 21]], "decode_error"),
        (vec![unfinished.clone(), vec![0]], "decode_error"),
        ([vec![unfinished], vec![vec![22]; 40]].concat(), "decode_error"),
        // OpenSSL sends illegal_parameter.
        (vec![vec![24, 0xff, 0xff, 0xff, 0, 22]], "decode_error"),
    ];
    for (inner, name) in cases {
        let (mut talk, mut ours, mut theirs) = established();
        let records: Vec<u8> = inner.iter().flat_map(|inner| ours.seal(inner)).collect();
        assert!(talk.give(&records).is_err(), "{inner:?}");
        let message = theirs.open_last(talk.outgoing.filled());
        let [alert @ .., 21] = &message[..] else { panic!("{inner:?}: no alert: {message:?}") };
        let alert = Alert::parse(alert).expect("one alert");
        assert_eq!(alert.description.to_string(), name, "{inner:?}");
        assert!(talk.session.kept().is_empty());
    }
    let (mut talk, mut ours, _) = established();
    let whole = [&update[..], &[0, 22]].concat();
    assert_eq!(talk.give(&ours.seal(&whole)), Ok(false), "the keys are right");
}
