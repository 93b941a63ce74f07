//! Tests that the reference page is what the descriptions say.

use super::*;

#[test]
fn the_page_in_the_documents_is_the_generated_one() {
    let page = include_str!("../../../../docs/reference/configuration.md");
    assert!(
        page == reference(),
        "docs/reference/configuration.md is out of date; run `cargo run -p handfast -- reference > \
         docs/reference/configuration.md`"
    );
}

#[test]
fn every_key_is_on_the_page_under_its_section() {
    let page = reference();
    for section in keys::FILE.all() {
        let is_shown = section.name.is_empty() || page.contains(&format!("\n## `{}`\n", section.header));
        assert!(is_shown, "{}", section.header);
        for key in section.keys {
            assert!(page.contains(&format!("\n### `{}`\n\n{}\n", key.name, key.doc)), "{}", key.name);
        }
    }
}

#[test]
fn every_policy_is_on_the_page() {
    let page = reference();
    for name in handfast_tls::policy::names() {
        assert!(page.contains(&format!("\n### `{name}`\n")), "{name}");
    }
}

#[test]
fn links_inside_the_page_have_targets() {
    let page = reference();
    for section in named_sections() {
        let link = format!("](#{})", anchor(section.header));
        assert!(page.contains(&link), "{link}");
    }
    assert_eq!(anchor("[[service.client-certificates]]"), "serviceclient-certificates");
}
