//! A value goes in, a value comes out, and what is served is none of its business.

use std::net::TcpListener;
use std::panic::AssertUnwindSafe;

use handfast_net::listen::Origin;
use tokio::sync::oneshot::{self, error::TryRecvError};

use super::*;
use crate::backends::tunnel::OwnTargets;
use crate::state::{CarriedOver, KeyRings};
use crate::testing::Folder;
use handfast_admin::ReloadRefusal;
use handfast_process::listeners::{Listeners, Share};

const ADMIN_OFF: &str = "[admin]\nlisten = \"off\"\n";

/// State that a test serves.
struct Served {
    folder: Folder,
    listeners: Listeners,
    /// Sockets that its workers would have.
    _sockets: Vec<Share>,
    present: Present,
}

impl Served {
    /// One service on a port of loopback, in its first generation.
    fn new() -> Self {
        let folder = Folder::new();
        let source = folder.configure(ADMIN_OFF, &[("web", &["127.0.0.1:0"])]);
        let (config, _) = source.read(false).expect("it is right");
        let mut carried = CarriedOver {
            rings: KeyRings::default(),
            throwaway: None,
            own_targets: OwnTargets::default(),
            threads: 2,
            keys: None,
            sticky_key: None,
            verifier: Default::default(),
            file_threads: Default::default(),
        };
        let built = state::build(config, 1, None, &mut carried, SystemTime::now());
        let state = Arc::new(built.state.expect("it can be served"));
        let mut listeners = Listeners::default();
        let plan = listeners.snapshot().plan(&state.config, 2).expect("loopback has a free port");
        let sockets = listeners.adopt(plan).expect("it can listen");
        let taken = listeners.snapshot();
        let carried = SharedCarriedOver::new(carried);
        let started_with = state.config.restart.clone();
        let present =
            Present { source, carried, state, started_with, taken, workers: 2, sandbox: Default::default() };
        Self { folder, listeners, _sockets: sockets, present }
    }

    fn reload(&self, scope: Scope) -> Result<Reloaded, Refused> {
        reload(&self.present, scope)
    }

    /// Writes a new certificate, at another time than the one that is served, as the file system counts.
    fn renew(&self) {
        while !self.present.state.have_changed(&self.present.state.files) {
            self.folder.certificate("web.pem");
        }
    }

    fn refused(&self) -> Refused {
        self.reload(Scope::Configuration).expect_err("it must not be served")
    }

    /// Returns the served state in a form that can be compared.
    fn facts(&self) -> (u64, usize, ListenerSnapshot, Vec<String>) {
        let state = &self.present.state;
        let kinds = state.certificate_facts(SystemTime::now());
        let files = kinds.iter().map(|fact| format!("{fact:?}")).collect();
        (state.generation, state.services.len(), self.listeners.snapshot(), files)
    }
}

#[test]
fn what_comes_out_is_the_next_state_with_sockets_for_what_is_new() {
    let mut served = Served::new();
    let before = served.facts();
    served.folder.configure(ADMIN_OFF, &[("web", &["127.0.0.1:0"]), ("mail", &["127.0.0.1:0"])]);
    let reloaded = served.reload(Scope::Configuration).expect("it is right");
    assert_eq!((reloaded.state.generation, reloaded.state.services.len()), (2, 2));
    assert_eq!(reloaded.text(), "reloaded: configuration was read again; generation 2");
    assert_eq!(served.facts(), before, "nothing is true of it until somebody installs it");
    let shares = served.listeners.adopt(reloaded.plan).expect("it can listen");
    let new = shares.iter().flatten().map(|(id, _)| id.service.as_str()).collect::<Vec<_>>();
    assert_eq!(new, ["mail", "mail"], "a socket for each worker, and none for what stays");
    let ours = served.listeners.descriptors().filter(|(_, origin, ..)| *origin == Origin::Bound);
    assert_eq!(ours.count(), 4);
}

#[test]
fn what_is_as_it_was_stays_where_it_is() {
    let served = Served::new();
    let reloaded = served.reload(Scope::Configuration).expect("it is right");
    let store = |state: &State| Arc::clone(&state.services[0].store);
    assert!(Arc::ptr_eq(&store(&reloaded.state), &store(&served.present.state)));
    assert!(Arc::ptr_eq(&reloaded.state.files, &served.present.state.files));
}

#[test]
fn a_refused_reload_changes_nothing() {
    let served = Served::new();
    let before = served.facts();
    let other = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let taken = other.local_addr().expect("it is bound").to_string();
    let socket = served.folder.path("web.sock");
    let unix = format!("unix:{}", socket.display());
    let web: &[&str] = &["127.0.0.1:0"];

    served.folder.configure(ADMIN_OFF, &[("web", web), ("mail", &[&unix, &taken])]);
    let refused = served.refused();
    assert!(refused.problems.starts_with(&format!("listen on {taken} (service mail): ")), "{refused:?}");
    assert!(refused.unusable.is_none(), "no file is to blame");
    assert!(!socket.exists(), "what could be bound is closed and removed");
    assert_eq!(served.facts(), before);

    served.folder.configure("[proces]\nthreads = 1\n", &[("web", web)]);
    let refused = served.refused();
    assert!(refused.problems.contains("unknown"), "{refused:?}");
    assert_eq!(served.facts(), before);

    let source = served.folder.configure(ADMIN_OFF, &[("web", web)]);
    served.folder.write("other.pem", "no certificate");
    let ConfigSource::File(file) = &source else { panic!("it is a file") };
    let text = std::fs::read_to_string(file).expect("it is there").replace("web.pem", "other.pem");
    served.folder.write("handfast.toml", &text);
    let refused = served.refused();
    assert!(refused.problems.contains("other.pem"), "{refused:?}");
    assert!(refused.unusable.is_none(), "the files of what is served are as they were");
    assert_eq!(served.facts(), before);
}

#[test]
fn files_are_read_again_without_the_configuration() {
    let served = Served::new();
    served.folder.write("handfast.toml", "not a configuration");
    served.folder.certificate("web.pem");
    let reloaded = served.reload(Scope::Files).expect("the configuration is not looked at");
    assert_eq!(reloaded.text(), "reloaded: files have changed and were read again; generation 2");
    let store = |state: &State| Arc::clone(&state.services[0].store);
    assert!(!Arc::ptr_eq(&store(&reloaded.state), &store(&served.present.state)), "the new one is in it");
    assert!(served.reload(Scope::Configuration).is_err());
}

#[test]
fn a_certificate_that_broke_is_left_out_and_named() {
    let served = Served::new();
    served.folder.write("web.pem", "-----BEGIN CERTIFICATE-----\nbroken");
    let reloaded = served.reload(Scope::Files).expect("its old version is in memory");
    assert!(reloaded.found.left_out.contains("web.pem"), "{:?}", reloaded.found);
    assert!(reloaded.text().starts_with("reloaded in part: files have changed"), "{}", reloaded.text());
}

#[test]
fn what_takes_a_restart_is_named() {
    let served = Served::new();
    let more = format!("{ADMIN_OFF}[process]\nthreads = 7\nmax-connections = 9\n");
    served.folder.configure(&more, &[("web", &["127.0.0.1:0"])]);
    let reloaded = served.reload(Scope::Configuration).expect("it is right");
    assert_eq!(reloaded.found.needs_restart, ["process.threads", "process.max-connections"]);
    assert!(
        reloaded.text().starts_with("reloaded in part: configuration was read again"),
        "{}",
        reloaded.text()
    );
    // They are still not in effect when the next reload finds the same file.
    let mut served = served;
    served.present.state = reloaded.state;
    let again = served.reload(Scope::Configuration).expect("it is right");
    assert_eq!(again.found.needs_restart, ["process.threads", "process.max-connections"]);
    assert_eq!(again.found.not_in_effect().lines().count(), 2, "{}", again.found.not_in_effect());
}

const ACME: &str = "[[service]]\nname = \"ordered\"\nlisten = \"127.0.0.1:0\"\nbackend = \"127.0.0.1:1\"\n\
    certificate = \"acme\"\nacme-names = \"a.example\"\n[acme]\naccept-terms-of-service = true\nfolder = \"acme\"\n";

/// A configuration before and after a change of one key that needs a restart.
fn restart_rows() -> Vec<(&'static str, String, String)> {
    let row = |key, after: &str| (key, String::new(), after.to_owned());
    let acme = |key, line: &str| (key, ACME.to_owned(), format!("{ACME}{line}"));
    vec![
        row("process.threads", "[process]\nthreads = 7\n"),
        row("process.user", "[process]\nuser = \"nobody\"\n"),
        (
            "process.group",
            "[process]\nuser = \"nobody\"\n".into(),
            "[process]\nuser = \"nobody\"\ngroup = \"daemon\"\n".into(),
        ),
        row("process.max-connections", "[process]\nmax-connections = 9\n"),
        row("process.upgrade-socket", "[process]\nupgrade-socket = \"upgrade.sock\"\n"),
        row("process.private-keys", "[process]\nprivate-keys = \"separate-process\"\n"),
        row("process.sandbox", "[process]\nsandbox = \"off\"\n"),
        row("process.sandbox-folders", "[process]\nsandbox-folders = [\"/srv/\"]\n"),
        row("process.state-folder", "[process]\nstate-folder = \"state\"\n"),
        row("access-log.to", "[access-log]\nto = \"off\"\n"),
        row("access-log.format", "[access-log]\nformat = \"combined\"\n"),
        row("access-log.redact-query", "[access-log]\nredact-query = \"token\"\n"),
        row("admin.listen", "[admin]\nlisten = \"off\"\n"),
        row(
            "service.only-client",
            "[[service]]\nname = \"fed\"\nonly-client = { program = \"/bin/true\" }\n\
             backend = \"127.0.0.1:1\"\ncertificate = \"web.pem\"\n",
        ),
        acme("acme.key-folder", "key-folder = \"keys/\"\n[process]\nprivate-keys = \"separate-process\"\n"),
        acme("acme.dns-command", "challenges = [\"dns-01\"]\ndns-command = \"/bin/true\"\n"),
    ]
}

#[test]
fn each_key_that_needs_a_restart_is_named_and_the_rest_is_served() {
    let mut served = Served::new();
    let rows = restart_rows();
    let known: Vec<&str> = rows.iter().map(|(key, ..)| *key).collect();
    assert_eq!(served.present.started_with.keys().collect::<Vec<_>>(), known, "a row for each key");
    for (key, before, after) in &rows {
        let web: &[(&str, &[&str])] = &[("web", &["127.0.0.1:0"])];
        let (config, _) = served.folder.configure_as(before, web).read(false).expect("it is right");
        served.present.started_with = config.restart;
        served.folder.configure_as(before, web);
        let same = served.reload(Scope::Configuration).expect("it is right");
        assert_eq!(same.found.needs_restart, [""; 0], "{key} has not changed");
        let source = served.folder.configure_as(&format!("{after}[limits]\nidle = \"77s\"\n"), web);
        let reloaded =
            served.reload(Scope::Configuration).unwrap_or_else(|refused| panic!("{key}: {refused:?}"));
        let changed = &reloaded.found.needs_restart;
        assert!(changed.iter().any(|changed| changed == key), "{key}: {changed:?}");
        let message =
            format!("{key} has changed, which takes effect only at a restart or `handfast upgrade`");
        assert!(reloaded.found.not_in_effect().contains(&message), "{}", reloaded.found.not_in_effect());
        let (config, _) = source.read(false).expect("it is right");
        assert_eq!(reloaded.state.config, config, "{key}: everything else is served");
        let idle = reloaded.state.services.iter().map(|service| service.model.limits.idle);
        assert!(
            idle.clone().count() > 0 && idle.clone().all(|idle| idle == Duration::from_secs(77)),
            "{key}"
        );
    }
}

/// Runs on a separate control thread.
fn on_the_control_thread(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(test);
}

#[test]
fn requests_during_a_reload_become_one_more() {
    on_the_control_thread(async {
        let served = Served::new();
        let present = || served.present.clone();
        let mut reloads = Reloads::default();
        let (first, mut first_told) = oneshot::channel();
        let (second, mut second_told) = oneshot::channel();
        reloads.request_reload(Scope::Files, Some(first), present);
        reloads.request_reload(Scope::Configuration, Some(second), present);
        reloads.request_reload(Scope::Files, None, present);

        reloads.check_files(present);

        let done =
            async |reloads: &mut Reloads| reloads.done().await.expect("it reloads").expect("it is right");
        let reloaded = done(&mut reloads).await;
        assert_eq!(reloaded.scope, Scope::Files);
        assert!(!reloads.are_over());
        reloads.answer(&Ok("one".into()));
        reloads.go_on(present);
        assert_eq!(first_told.try_recv(), Ok(Ok("one".into())));
        assert_eq!(second_told.try_recv(), Err(TryRecvError::Empty), "its turn has only begun");

        let reloaded = done(&mut reloads).await;
        assert_eq!(reloaded.scope, Scope::Configuration, "the larger request counts");
        let refusal = ReloadRefusal::Refused { problems: "two".into() };
        assert!(reloads.are_over());
        reloads.answer(&Err(refusal.clone()));
        assert_eq!(second_told.try_recv(), Ok(Err(refusal)));

        reloads.go_on(present);
        assert!(reloads.done().await.is_none(), "the look that was due meanwhile finds nothing new");
        reloads.go_on(|| panic!("nothing more was asked for"));
    });
}

/// Returns the outcome of comparing the files; nothing runs before, and nothing after.
async fn check_outcome(reloads: &mut Reloads, served: &Served) -> Outcome {
    reloads.check_files(|| served.present.clone());
    let outcome = reloads.done().await;
    reloads.go_on(|| panic!("nothing more is due"));
    outcome
}

#[test]
fn a_check_of_files_finds_changes_of_any_time() {
    on_the_control_thread(async {
        let mut served = Served::new();
        let mut reloads = Reloads::default();
        for _ in 0..3 {
            assert!(check_outcome(&mut reloads, &served).await.is_none(), "nothing has changed");
            served.renew();
            let reloaded = check_outcome(&mut reloads, &served).await.expect("it has").expect("it is right");
            // After it was read, and before that is served.
            served.present.state = reloaded.state;
            served.renew();
            let reloaded =
                check_outcome(&mut reloads, &served).await.expect("it has again").expect("it is right");
            served.present.state = reloaded.state;
        }
        assert_eq!(served.present.state.generation, 7);
    });
}

#[test]
fn a_refused_configuration_keeps_no_served_file_from_being_renewed() {
    on_the_control_thread(async {
        let served = Served::new();
        let text = "[[service]]\nname = \"web\"\nlisten = \"127.0.0.1:0\"\nbackend = \"127.0.0.1:1\"\n";
        let config = format!("{ADMIN_OFF}{text}certificate = \"other.pem\"\n");
        served.folder.write("handfast.toml", &config);
        served.folder.write("other.pem", "no certificate");
        let mut reloads = Reloads::default();
        reloads.request_reload(Scope::Configuration, None, || served.present.clone());
        assert!(reloads.done().await.expect("it was asked for").is_err());
        served.folder.certificate("web.pem");
        let reloaded =
            check_outcome(&mut reloads, &served).await.expect("it is served").expect("it is right");
        assert_eq!(reloaded.scope, Scope::Files);
    });
}

#[test]
fn files_that_cannot_be_served_are_not_tried_again_until_they_change() {
    let served = Served::new();
    served.renew();
    let file = served.folder.path("web.pem");
    let tried = vec![(file.clone(), FileStamp::of(&file))];
    assert!(matches!(reload_if_changed(&served.present, &tried), Ok(None)), "it was tried as it is");
    while FileStamp::of(&file) == tried[0].1 {
        served.folder.certificate("web.pem");
    }
    let reloaded =
        reload_if_changed(&served.present, &tried).expect("it is right").expect("it is another one");
    assert_eq!(reloaded.scope, Scope::Files);
}

#[test]
fn ticket_keys_are_within_reach_after_a_reload_that_panicked() {
    let Present { carried, .. } = Served::new().present;
    let panicked = std::panic::catch_unwind(AssertUnwindSafe(|| {
        let _lent = carried.lock();
        panic!("while files are read");
    }));
    assert!(panicked.is_err());
    assert!(carried.try_lock().is_some());
    let _lent = carried.lock();
    assert!(carried.try_lock().is_none(), "files are read now");
}
