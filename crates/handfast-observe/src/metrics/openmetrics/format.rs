//! The formats of metrics: OpenMetrics, and the text format before it, for scrapers that do not accept it. They differ in comments alone: in
//! the older one a counter's family is called as its samples are, an info is a gauge, and there are no units.

use super::openmetrics;
use crate::metrics::Snapshot;

/// Text format of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0.0.
    OpenMetrics,
    /// The text format of Prometheus before it.
    Text,
}

impl Format {
    /// The media type.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// Writes a snapshot. **Cost**: as [`openmetrics`].
    pub fn write(self, snapshot: Snapshot) -> String {
        let text = openmetrics(snapshot);
        match self {
            Self::OpenMetrics => text,
            Self::Text => rewritten(&text),
        }
    }
}

fn rewritten(text: &str) -> String {
    let mut old = String::with_capacity(text.len());
    let mut help = None;
    for line in text.lines() {
        if let Some(of_family) = line.strip_prefix("# HELP ") {
            help = of_family.split_once(' ');
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        {
            let (suffix, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                other => ("", other),
            };
            if let Some((_, help)) = help.take() {
                old.push_str(&format!("# HELP {name}{suffix} {help}\n"));
            }
            old.push_str(&format!("# TYPE {name}{suffix} {kind}\n"));
        } else if !line.starts_with("# UNIT ") {
            old.push_str(line);
            old.push('\n');
        }
    }
    old
}
