//! Maintenance of a service: what is read, and what cannot be meant.

use std::time::Duration;

use super::http::{issues, shop};
use super::*;
use crate::model::Maintenance;

fn read(lines: &str) -> Option<Maintenance> {
    let config = good(&shop(&format!("[service.http]\n{lines}")));
    config.services[0].http.as_ref().expect("it serves HTTP").maintenance.clone()
}

#[test]
fn maintenance_is_off_on_or_has_settings() {
    assert_eq!(read(""), None);
    assert_eq!(read("maintenance = false"), None);
    assert_eq!(read("maintenance = true"), Some(Maintenance::default()));
    // The same default is written for the reference.
    assert_eq!(read("maintenance = {}"), Some(Maintenance::default()));
    let allow = ["10.0.0.0/8", "2001:db8::7"].map(|prefix| prefix.parse().expect("a prefix")).to_vec();
    assert_eq!(
        read("maintenance = { allow = [\"10.0.0.0/8\", \"2001:db8::7\"], retry-after = \"1h\" }"),
        Some(Maintenance { allow, retry_after: Duration::from_secs(3_600) })
    );
    assert_eq!(
        read("maintenance = { allow = \"10.0.0.0/8\" }").expect("it is on").in_words(),
        "requests are answered with 503 and Retry-After 5m, except those of clients from 10.0.0.0/8"
    );
}

#[test]
fn wrong_settings_of_maintenance_are_reported() {
    for (value, expected) in [
        (
            "\"on\"",
            "error 8 expected a table, such as `{ allow = [\"10.0.0.0/8\"], retry-after = \"10m\" }`; or `true` or `false`, found a text | -",
        ),
        ("{ retry-after = \"0s\" }", "error 8 0s is out of range | -"),
        ("{ retry-after = \"2d\" }", "error 8 2d is out of range | -"),
        ("{ allow = \"10.0.0.0/33\" }", "error 8"),
        (
            "{ alow = \"10.0.0.0/8\" }",
            "error 8 unknown key `alow` in { allow = …, retry-after = … } | did you mean `allow`?",
        ),
    ] {
        let found = issues(&shop(&format!("[service.http]\nmaintenance = {value}")));
        assert!(found.len() == 1 && found[0].starts_with(expected), "{value}: {found:?}");
    }
}
