//! Requests as issuers get them: verified here with the public key that the request itself has.

use rcgen::{KeyPair, PKCS_ECDSA_P384_SHA384, PKCS_RSA_SHA256};

use super::*;

const HEADER: &str = r#"{"alg":"ES256","jwk":{"kty":"EC"},"nonce":"n","url":"https://ca.example/new"}"#;

fn text(encoded: &str) -> String {
    String::from_utf8(BASE64URL_NOPAD.decode(encoded.as_bytes()).expect("base64url")).expect("UTF-8")
}

/// Verifies a request, and returns its header.
fn verified(key: &AccountKey, jws: &Jws) -> Value {
    use aws_lc_rs::signature::*;
    let algorithm: &dyn VerificationAlgorithm = match key.algorithm {
        "ES256" => &ECDSA_P256_SHA256_FIXED,
        "ES384" => &ECDSA_P384_SHA384_FIXED,
        _ => &RSA_PKCS1_2048_8192_SHA256,
    };
    let public = UnparsedPublicKey::new(algorithm, key.pair.public_key_raw());
    let signature = BASE64URL_NOPAD.decode(jws.signature.as_bytes()).expect("base64url");
    public.verify(format!("{}.{}", jws.protected, jws.payload).as_bytes(), &signature).expect("it is signed");
    serde_json::from_str(&text(&jws.protected)).expect("JSON")
}

fn keys() -> Vec<AccountKey> {
    let made = [&PKCS_ECDSA_P384_SHA384, &PKCS_RSA_SHA256];
    let made = made.map(|algorithm| {
        let pair = KeyPair::generate_for(algorithm).expect("a key");
        AccountKey::from_der(pair.serialized_der()).expect("an account's")
    });
    made.into_iter().chain([AccountKey::generate().expect("a key")]).collect()
}

#[test]
fn every_kind_of_key_signs_as_issuers_verify_it() {
    for key in keys() {
        // Numbers of an ECDSA signature are shorter now and then.
        for _ in 0..200 {
            let jws = key.sign(HEADER, r#"{"csr":"x"}"#).expect("it signs");
            let header = verified(&key, &jws);
            assert_eq!(header["alg"], key.algorithm);
            assert_eq!(header["jwk"], serde_json::from_str::<Value>(key.jwk()).expect("JSON"));
            assert_eq!(text(&jws.payload), r#"{"csr":"x"}"#);
            if key.width.is_none() {
                break;
            }
        }
    }
}

#[test]
fn the_thumbprint_is_that_of_the_standard() {
    // RFC 7638 §3.1 has the hash of this key.
    #[derive(Debug)]
    struct Example;
    impl AccountSigner for Example {
        fn jwk(&self) -> &str {
            r#"{"e":"AQAB","kty":"RSA","n":"0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw"}"#
        }
        fn sign(&self, _: &str, _: &str) -> Result<Jws, JwsError> {
            Err(JwsError::UnknownKind)
        }
    }
    let (authorization, _) = key_authorization(&Example, "token");
    assert_eq!(authorization, "token.NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs");
}

#[test]
fn only_requests_that_this_program_sends_are_signed() {
    let key = AccountKey::generate().expect("a key");
    for payload in ["", "{}", r#"{"identifiers":[],"profile":"p"}"#] {
        assert!(key.sign(HEADER, payload).is_ok(), "{payload}");
    }
    for (header, payload) in [
        // The end of the account (RFC 8555 §7.3.6), and another key for it (RFC 8555 §7.3.5).
        (HEADER, r#"{"status":"deactivated"}"#),
        (HEADER, r#"{"protected":"","payload":"","signature":""}"#),
        (HEADER, "text"),
        (HEADER, "[]"),
        (r#"{"alg":"ES256","url":"https://ca.example/","nonce":"n","b64":false}"#, "{}"),
        (r#"{"alg":"ES256","kid":"k","url":"https://ca.example/"}"#, "{}"),
        ("", ""),
    ] {
        assert!(key.sign(header, payload).is_err(), "{header} {payload}");
    }
}

#[test]
fn a_request_of_the_library_is_signed_again_with_the_binding_of_the_account() {
    let key = AccountKey::generate().expect("a key");
    let encode = |text: &str| BASE64URL_NOPAD.encode(text.as_bytes());
    let bound = format!(
        r#"{{"contact":[],"externalAccountBinding":{{"protected":"{}","payload":"{}","signature":"x"}}}}"#,
        encode(r#"{"alg":"HS256","kid":"k","url":"u"}"#),
        encode("{}")
    );
    let body =
        format!(r#"{{"protected":"{}","payload":"{}","signature":"y"}}"#, encode(HEADER), encode(&bound));
    let again = sign_again(body.as_bytes(), &key, Some(b"secret")).expect("it is signed");
    let jws: Jws = serde_json::from_slice(&again).expect("JSON");
    verified(&key, &jws);
    let payload: Value = serde_json::from_str(&text(&jws.payload)).expect("JSON");
    let binding: Jws = serde_json::from_value(payload["externalAccountBinding"].clone()).expect("a binding");
    assert_eq!(text(&binding.payload), key.jwk());
    let mac = BASE64URL_NOPAD.decode(binding.signature.as_bytes()).expect("base64url");
    let signed = format!("{}.{}", binding.protected, binding.payload);
    hmac::verify(&hmac::Key::new(hmac::HMAC_SHA256, b"secret"), signed.as_bytes(), &mac)
        .expect("the same key");
    assert!(sign_again(b"{}", &key, None).is_err());
}
