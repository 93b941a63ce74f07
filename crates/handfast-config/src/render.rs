//! Problems as a person at a terminal reads them: the line, a mark under the place, what is allowed, the cure.
//!
//! In: problems and the texts they are in. Out: one text, each problem in a block, and a last line that counts them.

use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use handfast_text::units::counted;

use super::hidden::Hidden;
use super::keys;
use super::problem::{Place, Problem, Severity};
use super::schema::known_names;

/// Renders problems for a terminal; `color` adds escape sequences.
///
/// `texts` holds the name and text of each file that problems are in; a file without a text is only named.
pub fn render(problems: &[Problem], texts: &[(&str, &str)], color: bool) -> String {
    let renderer = if color { Renderer::styled() } else { Renderer::plain() };
    let renderer = renderer.term_width(120);
    let shown = |text: &str| without_c1(&Hidden::of(text, known_names(&keys::FILE.all())).masked(text));
    let texts: Vec<(&str, String)> = texts.iter().map(|(file, text)| (*file, shown(text))).collect();
    let mut out = String::new();
    for problem in problems {
        out.push_str(renderer.render(&[block(problem, &texts)]).trim_end());
        out.push_str("\n\n");
    }
    out.push_str(&summary(problems));
    out.push('\n');
    out
}

/// The line that counts: `3 errors, 1 warning in handfast.toml`.
pub fn summary(problems: &[Problem]) -> String {
    let count = |severity: Severity| {
        let number = problems.iter().filter(|problem| problem.severity == severity).count();
        (number > 0).then(|| counted(number as u64, severity.name()))
    };
    let counts: Vec<String> = [Severity::Error, Severity::Warning].into_iter().filter_map(count).collect();
    let mut places: Vec<&str> = problems
        .iter()
        .map(|problem| match &problem.place {
            Place::Text { file, .. } | Place::File { file } => file.as_str(),
            Place::Flag { .. } => "the flags",
        })
        .collect();
    places.dedup();
    if counts.is_empty() {
        return "no problems".to_owned();
    }
    format!("{} in {}", counts.join(", "), places.join(", "))
}

fn block<'p>(problem: &'p Problem, texts: &'p [(&str, String)]) -> Group<'p> {
    let level = match problem.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let mut group = match &problem.place {
        Place::Text { file, span, .. } => {
            let title = level.primary_title(without_c1(&problem.what));
            match texts.iter().find(|(name, _)| name == file) {
                Some((_, text)) => elsewhere(
                    Group::with_title(title).element(snippet(file, text, span, problem)),
                    problem,
                    texts,
                ),
                None => Group::with_title(title),
            }
        }
        Place::Flag { flag, value } if value.is_empty() => {
            Group::with_title(level.primary_title(format!("{flag} {}", problem.what)))
        }
        Place::Flag { flag, value } => {
            let source = format!("{flag} {value}");
            let span = flag.len() + 1..source.len();
            let snippet =
                Snippet::source(source).line_numbering(false).annotation(AnnotationKind::Primary.span(span));
            Group::with_title(level.primary_title(without_c1(&problem.what))).element(snippet)
        }
        Place::File { file } => Group::with_title(level.primary_title(format!("{file}: {}", problem.what))),
    };
    if let Some(allowed) = &problem.allowed {
        group = group.element(Level::NOTE.with_name(Some("allowed")).message(visible(allowed)));
    }
    if let Some(hint) = &problem.hint {
        group = group.element(Level::HELP.with_name(Some("hint")).message(visible(hint)));
    }
    group
}

/// Text of the file inside our sentences, without what a terminal would obey.
fn visible(text: &str) -> String {
    annotate_snippets::normalize_untrusted_str(&without_c1(text))
}

/// A text without the control characters U+0080 to U+009F, which some terminals obey and the renderer leaves in.
///
/// Each becomes another character of two bytes, so that places stay right.
fn without_c1(text: &str) -> String {
    text.chars()
        .map(|character| if ('\u{80}'..='\u{9f}').contains(&character) { '·' } else { character })
        .collect()
}

fn snippet<'p>(
    file: &'p str,
    text: &'p str,
    span: &Range<usize>,
    problem: &'p Problem,
) -> Snippet<'p, annotate_snippets::Annotation<'p>> {
    let mut snippet =
        Snippet::source(text).path(file).annotation(AnnotationKind::Primary.span(one_line(text, span)));
    if let Some((Place::Text { file: other, span: see, .. }, why)) = &problem.see
        && other == file
    {
        snippet = snippet.annotation(AnnotationKind::Context.span(one_line(text, see)).label(why.as_str()));
    }
    snippet
}

/// Adds the second place of a problem if it is in another file.
fn elsewhere<'p>(group: Group<'p>, problem: &'p Problem, texts: &'p [(&str, String)]) -> Group<'p> {
    let Some((Place::Text { file, span, .. }, why)) = &problem.see else { return group };
    match texts.iter().find(|(name, _)| name == file) {
        Some((_, text)) if problem.place.file() != Some(file) => {
            let mark = AnnotationKind::Context.span(one_line(text, span)).label(why.as_str());
            group.element(Snippet::source(text.as_str()).path(file.as_str()).annotation(mark))
        }
        _ => group,
    }
}

/// The part of a span in its first line: a list over fifty lines is marked where it begins.
fn one_line(text: &str, span: &Range<usize>) -> Range<usize> {
    let start = text.floor_char_boundary(span.start);
    let end = text.ceil_char_boundary(span.end.max(start));
    let line = text[start..end].find('\n').map_or(end, |newline| start + newline);
    start..line
}

#[cfg(test)]
mod tests;
