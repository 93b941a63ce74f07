//! Accounts in the layouts of certbot 2.1, lego 4.9, acme.sh 3.0, Caddy 2.8 and Handfast, with keys that are made here.

use rcgen::{KeyPair, PKCS_RSA_SHA256};
use serde_json::json;

use super::*;
use crate::jws::{AccountSigner, number, sequence};
use crate::testing::settings;

const DIRECTORY: &str = "https://ca.example:14000/dir";

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.0.path().join("old").join(file);
        fs::create_dir_all(path.parent().expect("it is in a folder")).expect("the folder is ours");
        fs::File::create(path)
            .and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes()))
            .expect("the folder is ours");
    }

    fn settings(&self) -> Settings {
        let mut settings = settings(&self.0.path().join("store"), &["a.example.org"]);
        settings.issuers[0].directory = DIRECTORY.to_owned();
        settings.issuers[0].staging = Some("https://staging.ca.example/dir".to_owned());
        settings
    }

    fn found(&self) -> Vec<FoundAccount> {
        find_accounts(&self.settings(), &self.0.path().join("old"))
    }

    /// The one account that is found, and the public key that it has.
    fn one(&self) -> (String, String) {
        match &self.found()[..] {
            [one] if one.directory == DIRECTORY => (one.url.clone(), one.key.jwk().to_owned()),
            other => panic!("{other:?}"),
        }
    }
}

fn url(number: usize) -> String {
    format!("https://CA.example:14000/my-account/{number}")
}

/// A key as the program writes it, and its public key.
fn made() -> (KeyPair, String) {
    let pair = KeyPair::generate().expect("a key");
    let jwk = AccountKey::from_der(pair.serialized_der()).expect("an account's").jwk().to_owned();
    (pair, jwk)
}

/// SEC 1, as Go's programs and openssl write it.
fn sec1(pair: &KeyPair) -> String {
    let mut left = sequence(pair.serialized_der()).expect("PKCS#8");
    // The version, the kind of key, and then the key in an OCTET STRING.
    for _ in 0..2 {
        left = &left[2 + usize::from(left[1])..];
    }
    let body = data_encoding::BASE64.encode(&left[2..]);
    format!("-----BEGIN EC PRIVATE KEY-----\n{body}\n-----END EC PRIVATE KEY-----\n")
}

#[test]
fn certbot_with_a_key_of_each_kind() {
    let pair = KeyPair::generate_for(&PKCS_RSA_SHA256).expect("a key");
    let expected = AccountKey::from_der(pair.serialized_der()).expect("an account's").jwk().to_owned();
    let der = pair.serialized_der();
    // RSAPrivateKey is in the last OCTET STRING of PKCS#8.
    let at = der.windows(2).position(|two| two == [4, 0x82]).expect("it is there") + 4;
    let mut left = sequence(&der[at..]).expect("RSAPrivateKey").split_at(3).1;
    let mut jwk = json!({ "kty": "RSA" });
    for name in ["n", "e", "d", "p", "q", "dp", "dq", "qi"] {
        let (value, rest) = number(left).expect("a number");
        jwk[name] = BASE64URL_NOPAD.encode(value).into();
        left = rest;
    }
    let place = Place::new();
    let folder = "letsencrypt/accounts/ca.example:14000/dir/d9f1c2e85525bd6abee8016d0051b435";
    place.write(&format!("{folder}/meta.json"), r#"{"creation_dt": "2026-11-26T19:32:03Z"}"#);
    place.write(&format!("{folder}/regr.json"), &json!({"body": {}, "uri": url(1)}).to_string());
    place.write(&format!("{folder}/private_key.json"), &jwk.to_string());
    assert_eq!(place.one(), (url(1), expected));

    let (pair, expected) = made();
    let der = pair.serialized_der();
    let at = der.windows(2).position(|two| two == [4, 32]).expect("the scalar") + 2;
    let point = pair.public_key_raw();
    let encode = |bytes: &[u8]| BASE64URL_NOPAD.encode(bytes);
    let jwk = json!({
        "kty": "EC", "crv": "P-256", "d": encode(&der[at..at + 32]), "x": encode(&point[1..33]), "y": encode(&point[33..])
    });
    place.write(&format!("{folder}/private_key.json"), &jwk.to_string());
    assert_eq!(place.one(), (url(1), expected));
}

#[test]
fn lego_acme_sh_and_caddy() {
    let (pair, expected) = made();
    let place = Place::new();
    let folder = "lego/accounts/ca.example_14000/a@example.org";
    let account =
        json!({"email": "a@example.org", "registration": {"body": {"status": "valid"}, "uri": url(2)}});
    place.write(&format!("{folder}/account.json"), &account.to_string());
    place.write(&format!("{folder}/keys/a@example.org.key"), &sec1(&pair));
    place.write(
        "lego/certificates/a.json",
        r#"{"domain": "a", "certUrl": "https://ca.example:14000/cert/1"}"#,
    );
    assert_eq!(place.one(), (url(2), expected));

    let (pair, expected) = made();
    let place = Place::new();
    let folder = ".acme.sh/ca/ca.example:14000/dir";
    // `openssl ecparam` writes the curve first.
    let curve = "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n";
    place.write(&format!("{folder}/account.key"), &format!("{curve}{}", sec1(&pair)));
    place.write(&format!("{folder}/account.json"), r#"{"status": "valid"}"#);
    place.write(&format!("{folder}/ca.conf"), &format!("CA_KEY_HASH='x'\nACCOUNT_URL='{}'\n", url(3)));
    assert_eq!(place.one(), (url(3), expected));

    let (pair, expected) = made();
    let (other, _) = made();
    let place = Place::new();
    let folder = "caddy/acme/ca.example-14000-dir/users/a@example.org";
    place.write(&format!("{folder}/a.json"), &json!({"status": "valid", "location": url(4)}).to_string());
    place.write(&format!("{folder}/a.key"), &sec1(&pair));
    place.write(&format!("{folder}/0.key"), &sec1(&other));
    assert_eq!(place.one(), (url(4), expected), "the key of the same name");
}

#[test]
fn an_account_goes_into_the_store_once_and_comes_out_of_it_again() {
    let (pair, expected) = made();
    let place = Place::new();
    place.write("users/a/a.json", &json!({"location": url(5)}).to_string());
    place.write("users/a/a.key", &pair.serialize_pem());
    let settings = place.settings();
    let found = place.found();
    assert!(found[0].is_needed(&settings));
    found[0].put(&settings).expect("the folder is ours");
    assert!(!found[0].is_needed(&settings));
    let again = find_accounts(&settings, &settings.folder);
    let again: Vec<_> = again.iter().map(|one| (one.url.clone(), one.key.jwk().to_owned())).collect();
    assert_eq!(again, [(url(5), expected)]);
}

#[test]
fn what_belongs_to_another_issuer_or_is_no_account_is_left() {
    let (pair, _) = made();
    let place = Place::new();
    for (folder, url) in [
        ("a", "https://ca.example/acct/1"),
        ("b", "http://ca.example:14000/acct/1"),
        ("c", "https://ca.example:14000.evil.example/acct/1"),
        ("d", "ca.example:14000"),
    ] {
        place.write(&format!("{folder}/account.json"), &json!({ "location": url }).to_string());
        place.write(&format!("{folder}/account.key"), &pair.serialize_pem());
    }
    // A key with its certificate is a server's.
    place.write("e/account.json", &json!({ "location": url(1) }).to_string());
    place.write("e/web.pem", &crate::testing::pair("a.example.org", crate::testing::NOW, 90));
    place.write("f/regr.json", &json!({ "uri": url(1) }).to_string());
    place.write("f/private_key.json", r#"{"kty": "RSA", "n": "", "e": "AQAB"}"#);
    place.write("g/regr.json", &json!({ "uri": url(1) }).to_string());
    assert!(place.found().is_empty(), "{:?}", place.found());
    // The staging directory is an issuer too, and its port is written or not.
    place.write("h/regr.json", &json!({ "uri": "https://staging.ca.example:443/acct/1" }).to_string());
    place.write("h/account.key", &pair.serialize_pem());
    assert_eq!(place.found()[0].directory, "https://staging.ca.example/dir");
}
