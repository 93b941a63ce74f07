//! `handfast proxy-header` says what a PROXY header says, or exactly what is wrong with it, and its exit code says which.

use super::support::folder::Folder;
use super::support::proxy_headers::{far, v1, v2};
use super::support::tools::handfast;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_good_one_is_explained() {
    let folder = Folder::new();
    let file = folder.write("header.bin", v1(far(7))).display().to_string();
    let ran = handfast(&["proxy-header", &file]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.output.starts_with("PROXY header v1, "), "{ran:?}");
    assert!(ran.output.contains("source                   192.0.2.7:40007"), "{ran:?}");
    let digits = hex(&v2(far(7), &[(0x02, b"a.example")]));
    let ran = handfast(&["proxy-header", "--json", &digits[..20], &digits[20..]]);
    let json: serde_json::Value =
        serde_json::from_str(&ran.output).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    assert_eq!((&json["source"], &json["tlvs"][0]["text"]), (&"192.0.2.7:40007".into(), &"a.example".into()));
}

#[test]
fn what_is_wrong_is_reported_exactly() {
    let mut wrong = v2(far(7), &[]);
    wrong[20] ^= 1;
    let wrong = hex(&wrong);
    for (given, code, sentence) in [
        (&[wrong.as_str()][..], 1, "handfast: proxy-header: not a valid PROXY header: the checksum says 0x"),
        (
            &[&wrong[..40]],
            1,
            "handfast: proxy-header: the header is incomplete: 20 bytes came, 35 are announced",
        ),
        (&["160301"], 1, "handfast: proxy-header: no PROXY header: byte 1 is wrong, expected"),
        (
            &["PROXY", "TCP4"],
            1,
            "handfast: proxy-header: not a valid PROXY header: the source address is not",
        ),
        (&["/none/here"], 2, "handfast: proxy-header: read /none/here: No such file"),
        (&["12", "zz"], 2, "handfast: proxy-header: `12 zz` is neither hexadecimal digits nor a line"),
    ] {
        let ran = handfast(&[&["proxy-header"], given].concat());
        assert_eq!(ran.code, Some(code), "{ran:?}");
        assert!(ran.talk.starts_with(sentence) && ran.output.is_empty(), "{sentence:?}: {ran:?}");
    }
    let ran = handfast(&["proxy-header", "--json", "160301"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.output.starts_with("{\"error\":\"no PROXY header"), "{ran:?}");
}
