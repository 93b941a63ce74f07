//! `handfast probe --from-pcap`: a capture in, a report about its connections out.
//!
//! In: a file, or standard input. Out: text on standard output, perhaps JSON, an exit code: 1 for an incomplete file.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::process::ExitCode;

use handfast_probe::capture;
use handfast_report::ToolError;

use super::output::{output, style};
use crate::load::refused;
use crate::talk;
use crate::talk::print;
use crate::words::probe::ProbeWords;

/// Reads the capture, and prints the report.
pub(super) fn captured(path: &Path, words: &ProbeWords) -> ExitCode {
    match read(path, words) {
        Ok(code) => code,
        Err(refusal) => refused(&refusal),
    }
}

fn read(path: &Path, words: &ProbeWords) -> Result<ExitCode, ToolError> {
    let json = output("--json", &words.output.json)?;
    let program = format!("handfast {}", env!("CARGO_PKG_VERSION"));
    let name = path.display().to_string();
    let report = if path.as_os_str() == "-" {
        capture::read("standard input", &program, &mut io::stdin().lock())
    } else {
        let file = File::open(path).map_err(|error| ToolError::wrong_use(format!("read {name}: {error}")))?;
        capture::read(&name, &program, &mut { file } as &mut dyn Read)
    };
    let report = report.map_err(ToolError::wrong_use)?;
    let (on_output, style) = style(words);
    let text = if words.verbose { capture::to_text } else { capture::to_summary };
    let text = text(&report, style);
    if on_output {
        talk::err(text.trim_end());
    } else {
        print(&text, true);
    }
    if let Some(json) = json {
        json.write(&capture::to_json(&report)).map_err(ToolError::failed)?;
    }
    Ok(ExitCode::from(u8::from(report.broken.is_some())))
}
