//! Commands and keys, and the file that keeps commands.

use super::*;

/// A configuration with the services `web` (HTTP) and `mail` (bytes), lines in [process] and [service.http].
fn config(process: &str, http: &str) -> Config {
    let text = format!(
        "[process]\n{process}\n[[service]]\nname = \"mail\"\nlisten = \"127.0.0.1:1\"\nclient-tls = false\nbackend = \"127.0.0.1:2\"\n\
         [[service]]\nname = \"web\"\nlisten = \"127.0.0.1:3\"\nclient-tls = false\nbackend = \"127.0.0.1:2\"\nmode = \"http\"\n\
         [service.http]\n{http}\n"
    );
    handfast_config::parse("/etc/handfast/handfast.toml", &text, &|_| false).expect("it is right").0
}

fn change(
    state: &mut MaintenanceState,
    config: &Config,
    service: &str,
    on: bool,
) -> Result<String, MaintenanceRefusal> {
    state.change(config, "handfast.toml", service, on.then(Maintenance::default))
}

#[test]
fn a_command_wins_over_the_key_until_its_end() {
    let (off, on) = (config("", ""), config("", "maintenance = { allow = \"10.0.0.0/8\" }"));
    let mut state = MaintenanceState::begin(&off, None).expect("there is no file");
    let by =
        |state: &MaintenanceState| state.snapshot("web").map(|found| (found.by.to_string(), found.allow));
    let (key, command) =
        (Some(("key".to_owned(), vec!["10.0.0.0/8".to_owned()])), Some(("command".to_owned(), vec![])));
    state.follow(&off);
    assert_eq!(by(&state), None);
    state.follow(&on);
    assert_eq!(by(&state), key);
    let said = change(&mut state, &on, "web", true).expect("it is known");
    assert!(said.contains("by command") && said.contains("a restart ends it\n  hint: "), "{said}");
    assert_eq!(by(&state), command);
    state.follow(&off);
    assert_eq!(by(&state), command, "whatever the key says");
    assert_eq!(change(&mut state, &off, "web", false).expect("it ends"), "service web: not in maintenance");
    assert_eq!(by(&state), None);
    change(&mut state, &on, "web", true).expect("it is known");
    let refusal = change(&mut state, &on, "web", false).expect_err("the key says on");
    assert_eq!(by(&state), key, "the key counts again");
    assert!(
        refusal
            .to_string()
            .contains("by its key, not by command: `maintenance` in [service.http] of handfast.toml")
    );
    assert!(state.table().find("web").is_some() && state.table().find("mail").is_none());
}

#[test]
fn only_services_in_http_mode_can_be_in_maintenance() {
    let config = config("", "");
    let mut state = MaintenanceState::default();
    for on in [true, false] {
        let unknown = change(&mut state, &config, "wep", on).expect_err("there is none").to_string();
        assert_eq!(unknown, "there is no service wep, expected `web`\n  hint: did you mean `web`?");
        let bytes = change(&mut state, &config, "mail", on).expect_err("it relays bytes").to_string();
        assert!(
            bytes.starts_with("service mail relays bytes, expected one with `mode = \"http\"`"),
            "{bytes}"
        );
    }
}

#[test]
fn commands_outlive_a_restart_and_a_repeated_one_keeps_its_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let below = folder.path().join("state");
    let config = config(&format!("state-folder = \"{}\"", below.display()), "");
    let mut state = MaintenanceState::begin(&config, None).expect("it makes the folder");
    let maintenance = Maintenance {
        allow: vec!["10.0.0.0/8".parse().expect("a prefix"), "2001:db8::7".parse().expect("an address")],
        retry_after: Duration::from_secs(77),
    };
    let said =
        state.change(&config, "handfast.toml", "web", Some(maintenance.clone())).expect("it is stored");
    assert!(!said.contains("hint"), "{said}");
    let before = state.records();
    let mut state = MaintenanceState::begin(&config, None).expect("it is good");
    assert_eq!(state.records(), before);
    state.follow(&config);
    assert_eq!(state.in_effect["web"].maintenance, maintenance);
    state.commands.get_mut("web").expect("it is there").since = SystemTime::UNIX_EPOCH;
    change(&mut state, &config, "web", true).expect("it is stored");
    assert_eq!(state.records()[0].since, 0, "it is in maintenance since then");
    change(&mut state, &config, "web", false).expect("it is stored");
    assert_eq!(MaintenanceState::begin(&config, None).expect("it is good").records(), []);
    // Records of the previous process replace the file.
    drop(MaintenanceState::begin(&config, Some(before.clone())).expect("it is good"));
    assert_eq!(MaintenanceState::begin(&config, None).expect("it is good").records(), before);
}

#[test]
fn a_command_for_a_service_that_is_gone_stays_until_it_is_ended() {
    let gone = CommandRecord { service: "gone".into(), since: 7, allow: Vec::new(), retry_after: 9 };
    let config = config("", "");
    let mut state = MaintenanceState::begin(&config, Some(vec![gone.clone()])).expect("a warning");
    state.follow(&config);
    assert!(state.snapshot("gone").is_none());
    assert_eq!(state.records(), [gone]);
    assert!(change(&mut state, &config, "gone", true).is_err());
    assert_eq!(
        change(&mut state, &config, "gone", false).expect("it ends"),
        "service gone: not in maintenance"
    );
    assert!(state.records().is_empty());
}

#[test]
#[expect(clippy::disallowed_methods, reason = "no other thread reads the file meanwhile")]
fn a_damaged_file_is_an_error_and_a_change_that_cannot_be_stored_is_in_effect() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = config(&format!("state-folder = \"{}\"", folder.path().display()), "");
    let mut state = MaintenanceState::begin(&config, None).expect("it is ours");
    change(&mut state, &config, "web", true).expect("it is stored");
    let file = folder.path().join("maintenance.json");
    let good = std::fs::read_to_string(&file).expect("it was written");
    for end in 0..good.trim_end().len() {
        std::fs::write(&file, &good[..end]).expect("it is ours");
        let problem = MaintenanceState::begin(&config, None).expect_err("it is cut").to_string();
        assert!(
            problem.contains("it is damaged: ") && problem.contains("hint: restore the file"),
            "{problem}"
        );
    }
    for (text, expected) in [
        (good.replace(": 1,", ": 2,"), "its version is 2, expected 1"),
        (good.replace("[]", "[\"10.0.0.0/33\"]"), "it is damaged: "),
        ("x".repeat(2 << 20), "it has more than 1048576 bytes"),
    ] {
        std::fs::write(&file, &text).expect("it is ours");
        let problem = MaintenanceState::begin(&config, None).expect_err(expected).to_string();
        assert!(problem.contains(expected), "{problem}");
        assert!(check_file(&config).is_err());
    }
    std::fs::remove_file(&file).expect("it is ours");
    // A folder in its place.
    std::fs::create_dir(&file).expect("it is ours");
    let refusal = change(&mut state, &config, "web", true).expect_err("it cannot be stored").to_string();
    assert!(
        refusal.contains("in maintenance since") && refusal.contains("A restart undoes this: write"),
        "{refusal}"
    );
    assert!(state.snapshot("web").is_some());
    std::fs::remove_dir(&file).expect("it is ours");
    change(&mut state, &config, "web", true).expect("a repeated command stores it");
    assert_eq!(MaintenanceState::begin(&config, None).expect("it is good").records().len(), 1);
}
