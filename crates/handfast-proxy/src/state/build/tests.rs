//! States made one after the other: data that is kept, files that are read again, problems that refuse a state.

use super::*;
use crate::testing::Folder;
use handfast_config::source::ConfigSource;

/// Two services with a certificate each, clients' certificates at the first one, and limits.
const SERVICES: &str = r#"
[access-log]
to = "off"
[admin]
listen = "off"
[[service]]
name = "web"
listen = "127.0.0.1:0"
backend = "127.0.0.1:1"
certificate = "web.pem"
max-connections = 10
max-connections-per-address = 5
client-certificates = { mode = "require", ca = "ca.pem" }
[[service]]
name = "mail"
listen = "127.0.0.1:0"
backend = "127.0.0.1:1"
certificate = "mail.pem"
"#;

/// State that a process would carry from each state to the next.
struct Process {
    folder: Folder,
    carried: CarriedOver,
    state: Option<State>,
}

impl Process {
    fn new() -> Self {
        let folder = Folder::new();
        folder.certificate("mail.pem");
        folder.certificate("ca.pem");
        folder.write("handfast.toml", SERVICES);
        let mut process = Self { folder, carried: CarriedOver::with_threads(2), state: None };
        let built = process.build();
        assert!(built.report.errors.is_empty(), "{:?}", built.report);
        process.state = built.state;
        process
    }

    fn build(&mut self) -> Built {
        let source = ConfigSource::File(self.folder.path("handfast.toml"));
        let (config, _) = source.read(false).expect("it can be read");
        let before = self.state.as_ref();
        let generation = before.map_or(1, |state| state.generation + 1);
        build(config, generation, before, &mut self.carried, SystemTime::now())
    }

    fn configure(&self, from: &str, to: &str) {
        assert!(SERVICES.contains(from));
        self.folder.write("handfast.toml", &SERVICES.replace(from, to));
    }

    /// A service of the state that is served.
    fn before(&self, service: usize) -> &ServiceState {
        &self.state.as_ref().expect("it was made").services[service]
    }
}

fn made(built: &Built) -> &State {
    built.state.as_ref().unwrap_or_else(|| panic!("{:?}", built.report))
}

#[test]
fn all_errors_are_reported_at_once_and_each_one_once() {
    let mut process = Process::new();
    process.folder.write("web.pem", "no certificate");
    process.folder.write("ca.pem", "no authority");
    // No state before: nothing that could be served instead.
    process.state = None;
    process.configure("\"mail.pem\"", "[\"web.pem\", \"gone.pem\"]");
    let built = process.build();
    assert!(built.state.is_none());
    let about = |name: &str| built.report.errors.iter().filter(|line| line.contains(name)).count();
    assert_eq!((about("web.pem"), about("gone.pem"), about("ca.pem")), (1, 1, 1), "{:?}", built.report);
    for service in ["web", "mail"] {
        let line = format!("service {service}: no certificate can be served");
        assert!(built.report.errors.contains(&line), "{:?}", built.report);
    }
    assert!(
        built.files.iter().any(|(file, _)| file.ends_with("web.pem")),
        "not tried again until it changes"
    );
}

#[test]
fn what_is_as_it_was_is_the_same_and_not_only_alike() {
    let mut process = Process::new();
    let built = process.build();
    let state = made(&built);
    assert_eq!(state.generation, 2);
    assert!(Arc::ptr_eq(&state.files, &process.state.as_ref().expect("made").files));
    for (place, now) in state.services.iter().enumerate() {
        let before = process.before(place);
        assert!(Arc::ptr_eq(&now.store, &before.store), "{}", now.model.name);
        assert!(Arc::ptr_eq(&now.standings, &before.standings), "{}", now.model.name);
        let ring = |service: &ServiceState| service.ring.clone().expect("TLS ends here");
        assert_eq!(ring(now).0, ring(before).0, "{}", now.model.name);
        assert!(Arc::ptr_eq(&ring(now).1, &ring(before).1), "{}", now.model.name);
    }
    // The counts of connections go on.
    let (now, before) = (&state.services[0], process.before(0));
    assert!(Arc::ptr_eq(now.pool.as_ref().expect("a limit"), before.pool.as_ref().expect("a limit")));
    let limits =
        (now.address_limit.as_ref().expect("a limit"), before.address_limit.as_ref().expect("a limit"));
    assert!(Arc::ptr_eq(limits.0, limits.1));
    assert!(state.services[1].pool.is_none() && state.services[1].address_limit.is_none());
}

#[test]
fn a_new_certificate_concerns_its_own_service_alone() {
    let mut process = Process::new();
    process.folder.certificate("mail.pem");
    let built = process.build();
    let state = made(&built);
    assert!(Arc::ptr_eq(&state.services[0].store, &process.before(0).store));
    assert!(!Arc::ptr_eq(&state.services[1].store, &process.before(1).store));
    assert!(!Arc::ptr_eq(&state.files, &process.state.as_ref().expect("made").files));
}

#[test]
fn another_limit_starts_its_count_again() {
    let mut process = Process::new();
    process.configure("max-connections = 10", "max-connections = 11");
    let built = process.build();
    let (now, before) = (&made(&built).services[0], process.before(0));
    assert!(!Arc::ptr_eq(now.pool.as_ref().expect("a limit"), before.pool.as_ref().expect("a limit")));
    let limits =
        (now.address_limit.as_ref().expect("a limit"), before.address_limit.as_ref().expect("a limit"));
    assert!(Arc::ptr_eq(limits.0, limits.1), "of the other one nothing has changed");
}

#[test]
fn a_service_with_another_name_takes_nothing_over() {
    let mut process = Process::new();
    process.configure("name = \"web\"", "name = \"shop\"");
    process.folder.write("web.pem", "broken");
    let built = process.build();
    assert!(built.state.is_none(), "its certificate was another service's");
    assert!(built.report.left_out.is_empty() && built.report.errors.len() >= 2, "{:?}", built.report);
}

#[test]
fn a_certificate_that_broke_is_served_as_it_was() {
    let mut process = Process::new();
    process.folder.write("mail.pem", "broken");
    let built = process.build();
    let state = made(&built);
    let (now, before) = (&state.services[1], process.before(1));
    assert!(Arc::ptr_eq(&now.store.certificates()[0], &before.store.certificates()[0]));
    assert_eq!((now.problems.len(), built.report.left_out.len()), (1, 1), "{:?}", built.report);
    assert!(built.report.left_out[0].contains("mail.pem"), "{:?}", built.report);
    assert!(built.may_be_half_written, "it could be used a moment ago");
    assert!(state.services[0].problems.is_empty());
    // The next state has it as a known problem, and does not wait any more.
    process.state = built.state;
    let again = process.build();
    assert!(!again.may_be_half_written);
    assert_eq!(made(&again).services[1].problems.len(), 1);
}

#[test]
fn authorities_that_broke_keep_no_certificate_from_being_renewed() {
    let mut process = Process::new();
    process.folder.write("ca.pem", "broken");
    process.folder.certificate("web.pem");
    let built = process.build();
    let (now, before) = (&made(&built).services[0], process.before(0));
    assert!(!Arc::ptr_eq(&now.store, &before.store), "the new certificate is served");
    let rule = |service: &ServiceState| {
        service.routes[0]
            .server
            .as_ref()
            .expect("TLS ends here")
            .client_certificates
            .as_ref()
            .expect("they are required")
            .fingerprint()
            .to_vec()
    };
    assert_eq!(rule(now), rule(before), "and clients are held against the authorities of before");
    assert_eq!(built.report.left_out.len(), 1, "{:?}", built.report);
    assert!(built.report.left_out[0].contains("ca.pem"), "{:?}", built.report);
    assert_eq!(made(&built).file_problems()[0].broken, 1);
}

/// With another demand the rule of before would admit or refuse clients against the intention.
#[test]
fn authorities_that_broke_are_not_used_for_another_demand() {
    let mut process = Process::new();
    process.folder.write("ca.pem", "broken");
    process.configure("mode = \"require\"", "mode = \"request\"");
    let built = process.build();
    assert!(built.state.is_none());
    assert!(built.report.errors.iter().any(|line| line.contains("ca.pem")), "{:?}", built.report);
}

/// Conditions for a backend are those of the present configuration, also if its broken CA file keeps an earlier version in use.
#[test]
fn a_broken_file_keeps_trusted_authorities_and_not_requirements() {
    let mut process = Process::new();
    let mail = "certificate = \"mail.pem\"";
    let mail_service = |verify: &str| {
        format!("{mail}\nbackend-tls = {{ ca = \"ca.pem\", verify = {verify:?}, name = \"mail.example\" }}")
    };
    let verification = |built: &Built| {
        let dialling =
            made(built).services[1].routes[0].backend_tls.as_ref().expect("TLS towards its backend");
        dialling.client.verification.clone()
    };
    process.configure(mail, &mail_service("full"));
    let full = verification(&process.build());
    process.configure(mail, &mail_service("insecure-any-name"));
    let lax = process.build();
    assert_ne!(verification(&lax), full);
    process.state = lax.state;
    process.folder.write("ca.pem", "no authority");
    process.configure(mail, &mail_service("full"));
    let built = process.build();
    assert_eq!(verification(&built), full, "its name is asked for again");
    let message =
        built.report.left_out.iter().find(|line| line.contains("backends' certificates are checked"));
    assert!(message.is_some_and(|line| line.contains("ca.pem")), "{:?}", built.report);
}
