//! Problems whose text has several lines: one log line for each.

use std::borrow::Cow;

/// The target of lines whose number the operator's files decide: they have no limit.
pub const REPORT: &str = "handfast::report";

/// Logs warnings, one log line for each of their lines.
pub fn log_warnings(warnings: &[String]) {
    for warning in warnings {
        let lines = warning.lines().filter(|line| !line.trim().is_empty());
        lines.for_each(|line| tracing::warn!(target: REPORT, "{}", without_severity(line, "warning")));
    }
}

/// Removes the severity that a line begins with, plain or in color, because the log line has it too.
pub fn without_severity<'l>(line: &'l str, severity: &str) -> Cow<'l, str> {
    let (title, rest) = line.split_at(line.find('\n').unwrap_or(line.len()));
    let mut plain = String::new();
    let mut parts = title.split('\u{1b}');
    plain.push_str(parts.next().unwrap_or_default());
    parts.for_each(|part| plain.push_str(part.split_once('m').map_or(part, |(_, text)| text)));
    match plain.strip_prefix(severity).and_then(|text| text.strip_prefix(": ")) {
        Some(text) => Cow::Owned(format!("{text}{rest}")),
        None => Cow::Borrowed(line),
    }
}

/// Logs what was refused or left out, one log line for each of its lines.
pub fn log_refusal(head: &str, problem: &str) {
    tracing::error!(target: REPORT, "{head}:");
    let lines = problem.lines().filter(|line| !line.trim().is_empty());
    lines.for_each(|line| tracing::error!(target: REPORT, "{}", without_severity(line, "error")));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_severity_is_logged_once() {
        assert_eq!(
            without_severity("error: unknown key\n --> a:1:1\n\nerror: b", "error"),
            "unknown key\n --> a:1:1\n\nerror: b"
        );
        assert_eq!(
            without_severity("\u{1b}[1m\u{1b}[91merror\u{1b}[0m\u{1b}[1m: x\u{1b}[0m\n", "error"),
            "x\n"
        );
        assert_eq!(without_severity("warning: y", "error"), "warning: y");
        assert_eq!(without_severity("listen on 127.0.0.1:1: error", "error"), "listen on 127.0.0.1:1: error");
    }
}
