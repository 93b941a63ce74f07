//! The HTML of all pages: reports of load, probe, lab and trials, and the proxy's status page.
//!
//! In: text, rows and figures. Out: one document that loads nothing and runs nothing, in light and dark, for wide screens and phones.
//! maud escapes all text. A Content-Security-Policy permits the one style sheet by its hash and nothing else, so no element may have a
//! `style` attribute: what needs a position is SVG.
#![forbid(unsafe_code)]

pub mod axis;
pub mod plot;
mod table;

use std::sync::LazyLock;

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::BASE64;
use handfast_text::units::plain;
use maud::{DOCTYPE, Markup, PreEscaped, html};

pub use table::{Table, text};

const STYLE: &str = include_str!("style.css");

static POLICY: LazyLock<String> = LazyLock::new(|| {
    let hash = BASE64.encode(digest(&SHA256, STYLE.as_bytes()).as_ref());
    format!("default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'")
});

/// The Content-Security-Policy of every page, also for the header of a server.
pub fn policy() -> &'static str {
    &POLICY
}

/// The document; `refresh`: the browser loads it again after this number of seconds.
pub fn page(title: &str, refresh: Option<u32>, body: &Markup) -> String {
    let document = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width,initial-scale=1";
                meta http-equiv="Content-Security-Policy" content=(policy());
                meta name="color-scheme" content="light dark";
                @if let Some(seconds) = refresh { meta http-equiv="refresh" content=(seconds); }
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body { (body) }
        }
    };
    // Control characters of foreign text are made visible here, once for all of it.
    let lines: Vec<String> = document.into_string().split('\n').map(plain).collect();
    lines.join("\n") + "\n"
}

/// A part of the page, with a sentence on how to read it.
pub fn card(title: &str, meaning: &str, content: &Markup) -> Markup {
    html! {
        section.card {
            h2 { (title) }
            @if !meaning.is_empty() { p.soft { (meaning) } }
            (content)
        }
    }
}

/// A sentence: text between backticks is code. An unpaired backtick is kept.
pub fn prose(text: &str) -> Markup {
    let parts: Vec<&str> = text.split('`').collect();
    html! {
        @for (place, part) in parts.iter().enumerate() {
            @if place % 2 == 0 { (part) } @else if place + 1 == parts.len() { "`" (part) } @else { code { (part) } }
        }
    }
}

/// Words with their meanings.
pub fn pairs<K: AsRef<str>, V: AsRef<str>>(pairs: impl IntoIterator<Item = (K, V)>) -> Markup {
    html! { dl { @for (word, text) in pairs { div { dt { (word.as_ref()) } dd { (prose(text.as_ref())) } } } } }
}

/// Sentences below each other.
pub fn list(class: &str, items: impl IntoIterator<Item = Markup>) -> Markup {
    html! { ul class=(class) { @for item in items { li { (item) } } } }
}

/// Returns content that is shown on request.
pub fn details(summary: &str, content: &Markup) -> Markup {
    html! { details { summary { (summary) } (content) } }
}

/// Returns a legend of colours. A colour is the name of a class: blue, orange, teal, purple, mauve, red, ink, free.
pub fn legend<'a>(entries: impl IntoIterator<Item = (&'a str, &'a str)>) -> Markup {
    list("key", entries.into_iter().map(|(colour, name)| html! { i class={ "swatch " (colour) } {} (name) }))
}

/// A bar of parts, each with its colour and its share of the whole width (0 to 1).
pub fn bar(label: &str, parts: &[(&str, f64)]) -> Markup {
    let mut left = 0.0;
    let boxes = parts.iter().map(|(colour, share)| {
        let (from, width) = (left, (share * 100.0).clamp(0.0, 100.0 - left));
        left += width;
        html! { rect class=(colour) x=(percent(from)) width=(percent(width)) height="100%" {} }
    });
    let boxes: Vec<Markup> = boxes.collect();
    html! { svg.bar role="img" aria-label=(label) { @for part in &boxes { (part) } } }
}

/// A bar, and below it what it shows in words.
pub fn bar_with_words(parts: &[(&str, f64)], words: &str) -> Markup {
    html! { (bar(words, parts)) small { (words) } }
}

/// A text with a smaller one below it.
pub fn with_small(text: &str, small: &str) -> Markup {
    html! { (text) @if !small.is_empty() { small { (small) } } }
}

fn percent(value: f64) -> String {
    format!("{value:.2}%")
}

#[cfg(test)]
mod tests;
