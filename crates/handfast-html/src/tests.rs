//! That text stays text, that the policy permits the page and nothing more, and that everything can be read.

use super::*;

#[test]
fn the_policy_permits_the_style_sheet_and_nothing_else() {
    let page = page("a <title>", Some(5), &html! { p { "x" } });
    let style = page.split_once("<style>").expect("a style").1.split_once("</style>").expect("its end").0;
    let hash = BASE64.encode(digest(&SHA256, style.as_bytes()).as_ref());
    let policy = policy();
    assert!(
        policy.starts_with("default-src 'none';") && policy.contains(&format!("'sha256-{hash}'")),
        "{policy}"
    );
    assert!(!policy.contains("unsafe"), "{policy}");
    assert!(page.contains(&format!("http-equiv=\"Content-Security-Policy\" content=\"{policy}\"")), "{page}");
    assert!(
        page.contains("<title>a &lt;title&gt;</title>")
            && page.contains("http-equiv=\"refresh\" content=\"5\"")
    );
    assert!(!STYLE.contains("url(") && !STYLE.contains("@import"));
}

#[test]
fn control_characters_are_visible_and_lines_stay() {
    let page = page("t", None, &html! { pre { "one\ntwo\u{202e}\u{1b}" } });
    assert!(page.contains("<pre>one\ntwo\\u{202e}\\u{1b}</pre>"), "{page}");
}

#[test]
fn backticks_are_code() {
    assert_eq!(prose("`service` is <without> it").0, "<code>service</code> is &lt;without&gt; it");
    assert_eq!(prose("one ` alone, `two`").0, "one <code> alone, </code>two`");
    assert_eq!(prose("none").0, "none");
}

#[test]
fn a_column_with_one_value_is_a_sentence() {
    let rows = |count: usize| (0..count).map(|row| vec![format!("row {row}"), "same".into(), "7".into()]);
    let table = |count| Table::of_text("name", "a|b|#c", rows(count)).0;
    assert!(table(2).contains(">b</th>") && !table(2).contains("In every row"), "{}", table(2));
    let three = table(3);
    assert!(
        three.contains("In every row: b <b>same</b> · c <b>7</b></p>") && !three.contains(">b</th>"),
        "{three}"
    );
    assert_eq!(three.matches("scope=\"row\"").count(), 3, "{three}");
}

#[test]
fn a_table_of_numbers_scrolls_and_one_of_text_becomes_records() {
    let rows = || [vec!["r".into(), "1".into()]];
    let numbers = Table::of_numbers("n", "a|b", rows()).0;
    assert!(
        numbers.contains("class=\"scroll\"") && numbers.contains("<td class=\"number\" data-label=\"b\">")
    );
    let mut text = Table::new("n", "a|b");
    text.group(html! { "of a service" });
    text.row([html! { "r" }, html! { "x" }]);
    let text = text.draw().0;
    assert!(
        text.contains("class=\"scroll stack\"")
            && text.contains("scope=\"rowgroup\" colspan=\"2\">of a service<")
    );
}

/// Colours of the page by name: light, then dark.
fn palettes() -> [std::collections::BTreeMap<String, [f64; 3]>; 2] {
    let (light, rest) =
        STYLE.split_once("@media(prefers-color-scheme:dark)").expect("a light palette comes first");
    let dark = rest.split_once("\n\n").expect("the palettes end with an empty line").0;
    [light, dark].map(|text| {
        let declared =
            text.split([';', '{', '}']).filter_map(|part| part.trim().strip_prefix("--")?.split_once(":#"));
        let part = |hex: &str| f64::from(u8::from_str_radix(hex, 16).expect("hexadecimal")) / 255.0;
        let colour = |hex: &str| match hex.len() {
            3 => [0, 1, 2].map(|at| part(&hex[at..=at].repeat(2))),
            _ => [0, 2, 4].map(|at| part(&hex[at..at + 2])),
        };
        declared.map(|(name, hex)| (name.to_owned(), colour(hex))).collect()
    })
}

/// WCAG 2.2, "contrast ratio" and "relative luminance".
fn contrast(one: [f64; 3], other: [f64; 3]) -> f64 {
    let linear = |part: f64| if part <= 0.040_45 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) };
    let luminance =
        |[red, green, blue]: [f64; 3]| 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

#[test]
fn every_text_has_contrast_enough() {
    assert!((contrast([0.0; 3], [1.0; 3]) - 21.0).abs() < 1e-9);
    // Pairs of text colour and background: as in style.css.
    let everywhere = ["page", "card", "goodback", "warnback", "badback"];
    let written = [
        ("ink", &everywhere[..]),
        ("soft", &everywhere),
        ("link", &["page"]),
        ("good", &["goodback", "card", "page"]),
        ("warn", &["warnback", "card"]),
        ("bad", &["badback", "card", "page"]),
    ];
    // Names at the ends of lines.
    let labels =
        ["teal", "orange", "purple", "blue", "mauve", "mark", "over", "bad"].map(|ink| (ink, &["card"][..]));
    for (palette, name) in palettes().iter().zip(["light", "dark"]) {
        for (ink, papers) in written.iter().chain(&labels) {
            for paper in *papers {
                let found = contrast(palette[*ink], palette[*paper]);
                // Level AA, success criterion 1.4.3.
                assert!(found >= 4.5, "{name}: {ink} on {paper} has {found:.2}, expected 4.5 at least");
            }
        }
    }
}
