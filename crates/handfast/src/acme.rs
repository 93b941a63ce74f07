//! `handfast acme`: the certificates that a proxy orders.
//!
//! In: the configuration of the proxy; for `renew` and `revoke` its admin address. Out: a table, or the proxy's answer.

use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use handfast_config::ConfigSource;
use handfast_config::model::Config;
use handfast_proxy::OrderedName;
use handfast_text::calendar::Utc;
use handfast_text::units::long;

use crate::running;
use crate::talk::color;
use crate::talk::{self, print};
use crate::words::acme::{AcmeWords, ImportWords, ListWords, NameWords};

pub(crate) fn acme(words: &AcmeWords) -> ExitCode {
    match words {
        AcmeWords::List(words) => list(words),
        AcmeWords::Import(words) => import(words),
        AcmeWords::Renew(words) => request_action(words, "renew"),
        AcmeWords::Revoke(words) => request_action(words, "revoke"),
    }
}

fn request_action(words: &NameWords, what: &str) -> ExitCode {
    running::run_request(&format!("/acme/{}?do={what}", running::encoded(&words.name)), &words.running)
}

fn list(words: &ListWords) -> ExitCode {
    let config = match configuration(words) {
        Ok(config) => config,
        Err(code) => return code,
    };
    let Some((names, records)) = handfast_proxy::ordered(&config) else {
        return print("no certificate is ordered by this configuration\n", true);
    };
    let now = SystemTime::now();
    let mut text: String = names.iter().map(|name| line(name, now)).collect();
    if !records.is_empty() {
        text.push_str("\nrecords in DNS for dns-persist-01:\n");
        records.iter().for_each(|record| text.push_str(&format!("  {record}\n")));
    }
    let is_good = names.iter().all(|name| name.not_after.is_some() && name.failures == 0);
    match print(&text, true) {
        ExitCode::SUCCESS if !is_good => ExitCode::FAILURE,
        code => code,
    }
}

fn import(words: &ImportWords) -> ExitCode {
    let config = match configuration(&words.config) {
        Ok(config) => config,
        Err(code) => return code,
    };
    match handfast_proxy::import_certificates(&config, &words.folder) {
        Ok(lines) => print(&(lines.join("\n") + "\n"), true),
        Err(problem) => {
            talk::err(&format!("error: import certificates: {problem}"));
            ExitCode::FAILURE
        }
    }
}

fn configuration(words: &ListWords) -> Result<Config, ExitCode> {
    match ConfigSource::File(words.config.clone()).read(color()) {
        Ok((config, warnings)) => {
            if !warnings.is_empty() {
                talk::err(warnings.trim_end());
            }
            Ok(config)
        }
        Err(error) => {
            talk::err(error.to_string().trim_end());
            Err(ExitCode::from(2))
        }
    }
}

fn line(status: &OrderedName, now: SystemTime) -> String {
    let time =
        |seconds: i64| SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    let left = status.not_after.map(|end| time(end).duration_since(now).unwrap_or_default());
    let life = left.map_or_else(|| "no certificate".to_owned(), |left| format!("{} left", long(left)));
    let next = match time(status.next_try).duration_since(now) {
        Ok(wait) => format!("next order {} (in {})", Utc::of(time(status.next_try)).for_people(), long(wait)),
        Err(_) => "next order now".to_owned(),
    };
    let mut text = format!("{}: {life}, {next}\n", status.name);
    if let Some(error) = &status.last_error {
        text.push_str(&format!("  failed {} times, last: {error}\n", status.failures));
    }
    text
}
