//! The commands of the program.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::CommandFactory as _;
use handfast_config::{self as config, ConfigSource, FlagInput};
use handfast_pki::weak::{self, PackError, Packed};
use handfast_process::service_manager::ServiceManager;
use handfast_proxy::{Outcome, UpgradeFailure};
use handfast_text::units::counted;
use tracing::Level;

use crate::reference::page;
use crate::status::AdminAddress;
use crate::talk::{self, color, print};
use crate::words::package;
use crate::words::reference::{CONFIGURATION, ReferenceWords};
use crate::words::weak_keys::WeakKeysWords;
use crate::words::{
    CheckWords, Foreign, From, KeyProcessWords, ProxyWords, StartProgramsWords, UpgradeWords, Words,
};

pub(crate) fn proxy(words: ProxyWords) -> ExitCode {
    // Before the second thread starts.
    let manager = ServiceManager::find();
    let color = color();
    let talk = talk::start(color, Level::INFO, talk::Stamp::fitting());
    let source = source(words.from, &words.foreign, words.ca_file);
    if let ConfigSource::Embedded(ca_file) = &source {
        print_suggestions(ca_file);
    }
    let outcome = handfast_proxy::run(&source, color, manager, words.take_over.as_deref());
    talk.finish();
    exit(outcome)
}

pub(crate) fn upgrade(words: UpgradeWords) -> ExitCode {
    let UpgradeWords { config, socket, program } = words;
    let source = ConfigSource::File(config);
    match handfast_proxy::upgrade(&source, socket, program.as_deref()) {
        Ok(text) => print(&format!("{text}\n"), true),
        Err(failure) => {
            let (text, outcome) = match failure {
                UpgradeFailure::Configuration(problems) => (problems, Outcome::WrongUse),
                failure => (format!("error: {failure}"), Outcome::Failed),
            };
            talk::err(text.trim_end());
            exit(outcome)
        }
    }
}

pub(crate) fn start_programs(words: &StartProgramsWords) -> ExitCode {
    let talk = talk::start(color(), Level::INFO, talk::Stamp::fitting());
    let act = if words.supervise {
        handfast_process::programs::supervise
    } else {
        handfast_process::programs::start_programs
    };
    let outcome = act(words.count);
    talk.finish();
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            talk::err(&format!("handfast: error: start programs: {error}"));
            exit(Outcome::Failed)
        }
    }
}

pub(crate) fn key_process(words: &KeyProcessWords) -> ExitCode {
    let act =
        if words.supervise { handfast_process::key_process::supervise } else { handfast_proxy::hold_keys };
    match act(words.channels, words.configuration.clone()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            talk::err(&format!("handfast: error: key process: {error}"));
            exit(Outcome::Failed)
        }
    }
}

pub(crate) fn check(words: &CheckWords) -> ExitCode {
    let throwaway = PathBuf::from("handfast-throwaway-ca.pem");
    let source = source(words.from.clone(), &words.foreign, throwaway);
    if words.ready {
        return ready(&source);
    }
    let target = words.explain.as_ref().and_then(Option::as_ref);
    let checked = handfast_proxy::check(&source, target, color());
    talk::err(checked.problems.trim_end());
    let warnings = counted(checked.warnings as u64, "warning");
    let is_lax = checked.warnings > 0 && words.strict;
    if is_lax && checked.good {
        talk::err(&format!("error: {}: {warnings}, and none is allowed (--strict)", source.name()));
    }
    let good = checked.good && !is_lax;
    if words.explain.is_some() {
        return print(&checked.explanation, good);
    }
    let verdict = match (good, checked.warnings) {
        (false, _) => String::new(),
        (true, 0) => format!("{}: good\n", source.name()),
        (true, _) => format!("{}: good, {warnings}\n", source.name()),
    };
    print(&verdict, good)
}

/// Asks the proxy that runs with a configuration whether it is ready: for the health check of a container without other programs.
fn ready(source: &ConfigSource) -> ExitCode {
    let address = match source.admin_address(color()) {
        Ok(Some(address)) => address,
        Ok(None) => {
            talk::err(
                "error: check whether the proxy is ready: admin.listen is \"off\", expected an address to ask",
            );
            return exit(Outcome::WrongUse);
        }
        Err(error) => {
            talk::err(error.problems.trim_end());
            return exit(Outcome::WrongUse);
        }
    };
    let status = AdminAddress::of(&address);
    match status.ready() {
        Ok(()) => print("ready\n", true),
        Err(why) => {
            talk::err(&format!("error: check whether the proxy at {} is ready: {why}", status.place()));
            exit(Outcome::Failed)
        }
    }
}

pub(crate) fn weak_keys(words: &WeakKeysWords) -> ExitCode {
    let WeakKeysWords::Pack(words) = words;
    match weak::pack(&words.lists, &words.output) {
        Ok(Packed { sha256, blacklist }) => {
            let file = words.output.display();
            print(
                &format!("{file}: {sha256} keys by SHA-256, {blacklist} entries of openssl-blacklist\n"),
                true,
            )
        }
        Err(error) => {
            talk::err(&format!("error: {error}"));
            let is_ours = matches!(error, PackError::Write { .. });
            exit(if is_ours { Outcome::Failed } else { Outcome::WrongUse })
        }
    }
}

pub(crate) fn reference(words: &ReferenceWords) -> ExitCode {
    if let Some(folder) = &words.package {
        let Err((path, error)) = package::write_below(folder, &Words::command()) else {
            return ExitCode::SUCCESS;
        };
        talk::err(&format!("handfast: write {}: {error}", path.display()));
        return ExitCode::from(1);
    }
    match words.page.as_str() {
        CONFIGURATION => print(&config::reference(), true),
        command => print(&page(command), true),
    }
}

fn exit(outcome: Outcome) -> ExitCode {
    match outcome {
        Outcome::Good => ExitCode::SUCCESS,
        Outcome::Failed => ExitCode::from(1),
        Outcome::WrongUse => ExitCode::from(2),
    }
}

/// Returns true if no option names a service.
fn is_bare(from: &From) -> bool {
    from.config.is_none()
        && from.listen.is_empty()
        && from.backend.is_empty()
        && from.certificate.is_empty()
        && from.key.is_none()
        && from.admin.is_none()
        && from.access_log.is_none()
}

fn source(from: From, foreign: &Foreign, ca_file: PathBuf) -> ConfigSource {
    if let Some(source) = crate::import::source(foreign) {
        return source;
    }
    if is_bare(&from) {
        return ConfigSource::Embedded(ca_file);
    }
    match from.config {
        Some(path) => ConfigSource::File(path),
        None => ConfigSource::Flags(FlagInput {
            listen: from.listen,
            backend: from.backend,
            certificate: from.certificate,
            key: from.key,
            admin: from.admin,
            access_log: from.access_log,
        }),
    }
}

/// Three commands for a first test.
fn print_suggestions(ca_file: &std::path::Path) {
    let ca = ca_file.display();
    talk::err(&format!(
        "\n\
         Handfast serves embedded defaults: a throwaway certificate and a built-in backend. Try in another terminal:\n\
         \n  curl --cacert {ca} https://localhost:8443/\
         \n  openssl s_client -CAfile {ca} -connect localhost:8443 -servername localhost\
         \n  curl http://127.0.0.1:7643/metrics\
         \n\nand http://127.0.0.1:7643/ in a browser. Ctrl-C drains and stops it.\n"
    ));
}
