//! Tests of configurations that are made without a file.

use super::*;

fn flags(listen: &[&str], backend: &[&str], certificate: &[&str], key: Option<&str>) -> FlagInput {
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    FlagInput {
        listen: texts(listen),
        backend: texts(backend),
        certificate: texts(certificate),
        key: key.map(str::to_owned),
        ..FlagInput::default()
    }
}

/// The problems of flags, each as one line.
fn problems(input: &FlagInput) -> Vec<String> {
    from_flags(input).expect_err("something is wrong").iter().map(Problem::to_string).collect()
}

#[test]
fn flags_make_the_same_configuration_as_a_file() {
    let input = flags(&["127.0.0.1:1", "[::1]:1"], &["a:1", "b:2"], &["a \"b\".pem"], Some("a.key"));
    let (config, warnings) = from_flags(&input).expect("good flags");
    assert_eq!(warnings, []);
    let text = "[[service]]\nname = \"main\"\nlisten = [\"127.0.0.1:1\", \"[::1]:1\"]\nbackend = [\"a:1\", \"b:2\"]\n\
                certificate = 'a \"b\".pem'\nkey = \"a.key\"\n";
    let (file, _) = parse("", text, &|_| false).expect("a good file");
    assert_eq!(config.places.suffix("a.key".as_ref()), " (--key)");
    assert_eq!(Config { places: file.places.clone(), ..config }, file);
}

#[test]
fn each_missing_flag_is_named() {
    let problems = problems(&FlagInput::default());
    assert_eq!(problems.len(), 3, "{problems:?}");
    for (problem, flag) in problems.iter().zip(["--listen", "--backend", "--certificate"]) {
        assert!(
            problem
                .starts_with(&format!("{flag} is missing; a service by flags needs it; hint: add `{flag} ")),
            "{problem}"
        );
    }
}

#[test]
fn what_is_wrong_is_reported_with_its_flag() {
    let input = flags(&["*:1", "8443", "*:1"], &["a/"], &["a", "b"], Some("k"));
    let problems = problems(&input);
    let starts = [
        "--listen: `8443` is not an address to listen on",
        "--listen: this address is listened on twice",
        "--backend: `a/` is not a backend",
    ];
    assert_eq!(problems.len(), 4, "{problems:?}");
    for start in starts {
        assert!(problems.iter().any(|problem| problem.starts_with(start)), "{start}: {problems:?}");
    }
    let values: Vec<Place> =
        from_flags(&input).expect_err("wrong").into_iter().map(|problem| problem.place).collect();
    assert!(values.contains(&Place::Flag { flag: "--listen", value: "8443".to_owned() }), "{values:?}");
    assert!(values.contains(&Place::Flag { flag: "--key", value: "k".to_owned() }), "{values:?}");
}

#[test]
fn a_value_cannot_write_lines_of_its_own() {
    let input = flags(&["*:1\"]\nuser = \"root\n\n"], &["a/"], &["c"], None);
    let problems = problems(&input);
    assert_eq!(problems.len(), 3, "{problems:?}");
    assert_eq!(problems[2], "--certificate: c: is not there", "files are looked at all the same");
    // The second one would be said of another flag, if the first value had taken more than its line.
    assert!(problems[0].starts_with("--listen: ") && problems[1].starts_with("--backend: "), "{problems:?}");
}

#[test]
fn the_embedded_configuration_stays_on_this_machine() {
    let config = Config::embedded(PathBuf::from("/tmp/ca.pem"));
    let [service] = config.services.as_slice() else { panic!("{config:?}") };
    assert_eq!(
        service.listen.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["127.0.0.1:8443", "[::1]:8443"]
    );
    assert_eq!(*service.backends, [Target::BuiltIn.into()]);
    assert_eq!(
        service.tls.as_ref().expect("it has TLS").certificates,
        [CertificateEntry::Throwaway { ca_file: "/tmp/ca.pem".into() }]
    );
    assert_eq!(config.access_log, AccessLog::Stdout);
    assert_eq!(config.admin.map(|address| address.to_string()).as_deref(), Some("127.0.0.1:7643"));
}
