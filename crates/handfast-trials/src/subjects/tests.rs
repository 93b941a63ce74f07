//! Each installed program accepts the configuration of its adapter, in every mode and with every limit that it has a setting for.

use std::process::{Command, Stdio};

use handfast_testkit::folder::Folder;

use super::*;
use crate::addresses::{BYSTANDER, SERVICE};
use crate::case::Case;
use crate::cases::all;
use crate::certificates::Certificates;
use crate::mode::Mode;
use crate::program::put;
use crate::setup::{Setup, USUAL};
use crate::subject::Scene;

/// Reports that a program is not tried.
fn skip(subject: &Subject, reason: &str) {
    let name = format!("subjects::tests::a_program_accepts_its_configuration ({})", subject.name);
    handfast_testkit::skip::report(&name, reason);
}

/// The setups of all cases that a program can play in a mode; each once.
fn setups(subject: &Subject, mode: Mode) -> Vec<&'static Setup> {
    let plays =
        |case: &&Case| case.does_not_apply(mode).is_none() && case.not_possible(subject, mode).is_none();
    let mut found: Vec<&Setup> = Vec::new();
    for setup in all().filter(plays).map(|case| &case.setup) {
        if !found.iter().any(|known| format!("{known:?}") == format!("{setup:?}")) {
            found.push(setup);
        }
    }
    found
}

/// An address of this machine with a port that is free.
fn free() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    listener.local_addr().expect("it is bound").to_string()
}

fn accepts(subject: &'static Subject) {
    let Some(check) = subject.check else { return skip(subject, "it has no word for a check") };
    let Some(program) = subject.installed() else { return skip(subject, "it is not installed") };
    let certificates = Certificates::make();
    let folder = Folder::new();
    put(&folder.path().join("ca.pem"), &certificates.ca).expect("it is writable");
    put(&folder.path().join("web.pem"), &certificates.web).expect("it is writable");
    let file = folder.path().join(subject.file);
    for mode in subject.modes {
        for setup in setups(subject, *mode) {
            let text = (subject.configuration)(&Scene {
                mode: *mode,
                folder: &folder.path().display().to_string(),
                client: [198, 19, 0, 1].into(),
                backend: std::net::SocketAddrV4::new([198, 19, 0, 2].into(), 9000),
                setup,
            });
            // nginx binds what it checks: addresses of this machine, and ports that are free.
            let text = text.replace(&SERVICE.to_string(), &free()).replace(&BYSTANDER.to_string(), &free());
            put(&file, &text).expect("it is writable");
            let checked =
                Command::new(&program).args(check(&file.display().to_string())).stdin(Stdio::null()).output();
            let checked = checked.expect("it can be started");
            let printed = String::from_utf8_lossy(&checked.stderr).into_owned();
            assert!(
                checked.status.success(),
                "{} refuses in {}:\n{text}\n{printed}",
                subject.name,
                mode.name()
            );
        }
    }
}

#[test]
fn a_program_accepts_its_configuration() {
    // Handfast is built beside this test and may be older; the promises run it.
    SUBJECTS.into_iter().filter(|subject| !subject.is_logged).for_each(accepts);
}

/// Returns true if any of it is text for Handfast's configuration alone, which another program cannot follow.
fn is_handfast_text(setup: &Setup) -> bool {
    let process = setup.process.lines().any(|line| !line.starts_with("drain = "));
    let texts = [setup.globals, setup.service, setup.tables];
    process || texts.iter().any(|text| !text.is_empty()) || setup.log != USUAL.log
}

#[test]
fn what_is_in_handfasts_own_words_is_for_handfast_only() {
    for case in
        all().filter(|case| is_handfast_text(&case.setup) && case.does_not_apply(Mode::Terminate).is_none())
    {
        assert!(case.handfast_only.is_some(), "{}", case.name);
    }
}

#[test]
fn a_case_with_a_limit_that_a_program_has_no_setting_for_is_not_possible() {
    let case = |name: &str| all().find(|case| case.name == name).expect("there is this case");
    let hitch = named("hitch").expect("it is known");
    let why = case("idle-for-ever").not_possible(hitch, Mode::Terminate);
    assert_eq!(why.as_deref(), Some("has no setting for `idle`"));
    let why = case("backend-resets").not_possible(hitch, Mode::Originate);
    assert_eq!(why.as_deref(), Some("has no mode originate"));
    // Ten minutes are no limit in a case that lasts seconds.
    assert_eq!(case("backend-stops-reading").not_possible(hitch, Mode::Terminate), None);
    assert_eq!(case("log-full").not_possible(HANDFAST, Mode::Terminate), None);
    assert!(case("log-full").not_possible(hitch, Mode::Terminate).is_some());
    assert_eq!(USUAL.limits().count(), 0);
}
