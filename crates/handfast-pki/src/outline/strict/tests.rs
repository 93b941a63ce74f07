//! Damaged certificates, by this and by OpenSSL.

use std::fmt::Write as _;

use data_encoding::BASE64;
use rcgen::{CertificateParams, CustomExtension, DnType, DnValue, KeyPair, KeyUsagePurpose, SanType};

use crate::parsed::Parsed;
use handfast_testkit::maker::{Folder, Maker};

/// A certificate with every kind of text in its name, and extensions of several shapes.
fn manifold() -> Vec<u8> {
    let mut params = CertificateParams::new(vec!["a.example".to_owned(), "127.0.0.1".to_owned()]).unwrap();
    let name = &mut params.distinguished_name;
    name.push(DnType::CommonName, "Bücher");
    name.push(DnType::OrganizationName, DnValue::BmpString("Bücher".try_into().unwrap()));
    name.push(DnType::OrganizationalUnitName, DnValue::UniversalString("Bücher".try_into().unwrap()));
    name.push(DnType::LocalityName, DnValue::TeletexString("books".try_into().unwrap()));
    name.push(DnType::StateOrProvinceName, DnValue::Ia5String("books".try_into().unwrap()));
    name.push(DnType::CountryName, DnValue::PrintableString("DE".try_into().unwrap()));
    params.subject_alt_names.push(SanType::Rfc822Name("a@a.example".try_into().unwrap()));
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    // A private extension need not be DER.
    params.custom_extensions.push(CustomExtension::from_oid_content(&[1, 3, 6, 1, 4, 1, 1], vec![5, 5, 5]));
    let issuer = Maker::authority("a CA").self_signed();
    let issuer = rcgen::Issuer::from_params(&issuer.params, &issuer.key);
    params.signed_by(&KeyPair::generate().unwrap(), &issuer).unwrap().der().to_vec()
}

/// A self-signed RSA certificate from OpenSSL.
fn by_openssl(folder: &Folder) -> Vec<u8> {
    folder.openssl(
        "req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out made.pem -days 30 -subj /C=DE/O=books/CN=a.example \
         -addext subjectAltName=DNS:a.example,IP:::1,email:a@a.example,URI:https://a.example \
         -addext keyUsage=critical,digitalSignature,keyCertSign -addext extendedKeyUsage=serverAuth \
         -addext certificatePolicies=1.2.3.4 -addext authorityInfoAccess=OCSP;URI:http://ocsp.example 2>/dev/null"
            .replace(';', "\\;")
            .as_str(),
    );
    folder.openssl("x509 -in made.pem -outform DER -out made.der");
    std::fs::read(folder.at("made.der")).unwrap()
}

/// Each byte changed in some ways, left out, or doubled.
fn damaged(der: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    (0..der.len()).flat_map(move |place| {
        let byte = der[place];
        let others = [byte ^ 1, byte ^ 0x20, byte ^ 0x80, 0, 0xff, byte.wrapping_add(1)];
        let changed = others.into_iter().filter(move |other| *other != byte).map(move |other| {
            let mut der = der.to_vec();
            der[place] = other;
            der
        });
        let shorter = [&der[..place], &der[place + 1..]].concat();
        let longer = [&der[..place], &[byte], &der[place..]].concat();
        changed.chain([shorter, longer])
    })
}

/// Returns true for each certificate that OpenSSL reads.
fn openssl_reads(folder: &Folder, certificates: &[Vec<u8>]) -> bool {
    let mut pem = String::new();
    for der in certificates {
        let text = BASE64.encode(der);
        let lines = text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap());
        let lines: Vec<_> = lines.collect();
        writeln!(pem, "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----", lines.join("\n"))
            .unwrap();
    }
    folder.put("all.pem", pem);
    let reading = std::process::Command::new("openssl")
        .current_dir(folder.path())
        .args(["crl2pkcs7", "-nocrl", "-certfile", "all.pem", "-outform", "DER", "-out", "all.p7"])
        .output();
    reading.unwrap().status.success()
}

/// Those of them that OpenSSL does not read.
fn unread(folder: &Folder, certificates: &[Vec<u8>]) -> Vec<Vec<u8>> {
    if openssl_reads(folder, certificates) {
        return Vec::new();
    }
    if let [one] = certificates {
        return vec![one.clone()];
    }
    let (first, second) = certificates.split_at(certificates.len() / 2);
    [unread(folder, first), unread(folder, second)].concat()
}

#[test]
fn what_is_accepted_is_accepted_by_openssl_too() {
    let folder = Folder::new();
    for whole in
        [by_openssl(&folder), manifold(), Maker::new(&["a.example"]).self_signed().certificate.der().to_vec()]
    {
        Parsed::from_der(&whole).unwrap();
        let all = damaged(&whole).count();
        let accepted: Vec<_> = damaged(&whole).filter(|der| Parsed::from_der(der).is_ok()).collect();
        // Keys, numbers and signatures may have any bits.
        assert!(accepted.len() > 500 && accepted.len() < all, "{} of {all}", accepted.len());
        let unread = unread(&folder, &accepted);
        let places = unread.iter().map(|der| {
            let place = der.iter().zip(&whole).position(|(one, other)| one != other);
            place.map(|place| {
                format!("{place}: {:02x?}", &der[place.saturating_sub(6)..(place + 6).min(der.len())])
            })
        });
        let places: Vec<_> = places.collect();
        assert!(unread.is_empty(), "{} of {} accepted: {places:?}", unread.len(), accepted.len());
    }
}
