//! Dependencies that are permitted between crates. In: `cargo metadata --no-deps`. Out: complaints
//! about arrows that are not in the table.

use serde_json::Value;

use super::{Complaint, assert_none, run};

/// Dependencies that one crate may have. They point down only; products never name each other.
struct Arrows {
    /// The crate.
    name: &'static str,
    /// Crates of this workspace.
    ours: &'static [&'static str],
    /// Of all other crates.
    theirs: &'static [&'static str],
    /// Of all other crates, in tests only; every crate may have `handfast-testkit` there.
    in_tests: &'static [&'static str],
    /// Things that must never be here, and why: the sentence for a developer who wants to add one.
    never: &'static str,
}

/// The table. To add an arrow is a decision: say in the commit what it saves and what it costs.
const TABLE: [Arrows; 28] = [
    Arrows {
        name: "handfast-wire",
        ours: &[],
        theirs: &["bytes", "etherparse"],
        in_tests: &["proptest", "tempfile"],
        never: "wire is bytes to values: no runtime, no TLS library, no socket, no clock",
    },
    Arrows {
        name: "handfast-http",
        ours: &[],
        theirs: &[],
        in_tests: &["http-body-util", "httparse", "hyper", "proptest"],
        never: "http is bytes to messages and connections: no runtime, no socket, no clock, no word of a route",
    },
    Arrows {
        name: "handfast-text",
        ours: &[],
        theirs: &["jiff", "strsim", "unicode-width"],
        in_tests: &["proptest"],
        never: "text is values to text and back: no clock, no file, no word of TLS or of a configuration",
    },
    Arrows {
        name: "handfast-net",
        ours: &[],
        theirs: &["libc", "rustix"],
        in_tests: &["proptest", "tempfile"],
        never: "net is sockets and causes: it knows no TLS and no configuration, and is small because it is unsafe",
    },
    Arrows {
        name: "handfast-pki",
        ours: &["handfast-text"],
        theirs: &[
            "aws-lc-rs",
            "cbc",
            "data-encoding",
            "des",
            "brotli",
            "flate2",
            "libc",
            "num-bigint",
            "rc2",
            "rcgen",
            "rustix",
            "rustls",
            "rustls-pki-types",
            "rustls-webpki",
            "x509-parser",
            "zeroize",
            "zstd-safe",
        ],
        in_tests: &["proptest", "tempfile"],
        never: "pki is certificates and keys as files and values: of rustls only its keys and signature algorithms, no session, \
                no configuration and no verifier; no socket, no file read behind the caller's back",
    },
    Arrows {
        name: "handfast-tls",
        ours: &["handfast-pki", "handfast-wire"],
        theirs: &[
            "aws-lc-rs",
            "data-encoding",
            "rustls",
            "rustls-native-certs",
            "rustls-pki-types",
            "zeroize",
        ],
        in_tests: &[
            "brotli",
            "flate2",
            "handfast-text",
            "proptest",
            "rcgen",
            "tempfile",
            "x509-parser",
            "zstd-safe",
        ],
        never: "tls is sessions over buffers: no runtime, no socket, no file read behind the caller's back",
    },
    Arrows {
        name: "handfast-leg",
        ours: &["handfast-net", "handfast-tls"],
        theirs: &["rustix"],
        in_tests: &["handfast-stats"],
        never: "leg is one side of a connection: outside of blocking.rs it waits for nothing and reads no clock, so that memory can take a socket's place",
    },
    Arrows {
        name: "handfast-acme",
        ours: &["handfast-leg", "handfast-net", "handfast-pki", "handfast-text", "handfast-tls"],
        theirs: &[
            "aws-lc-rs",
            "bytes",
            "data-encoding",
            "http",
            "http-body-util",
            "httparse",
            "instant-acme",
            "rcgen",
            "rustix",
            "rustls-pki-types",
            "serde",
            "serde_json",
            "thiserror",
            "tokio",
            "tracing",
        ],
        in_tests: &["proptest", "tempfile"],
        never: "acme is names to certificates in files: it serves nobody, and knows no configuration and no worker",
    },
    Arrows {
        name: "handfast-bus",
        ours: &["handfast-pki", "handfast-text", "handfast-tls"],
        theirs: &[
            "async-nats",
            "aws-lc-rs",
            "bytes",
            "data-encoding",
            "futures-util",
            "percent-encoding",
            "rcgen",
            "serde",
            "serde_json",
            "thiserror",
            "tokio",
            "tracing",
        ],
        in_tests: &[],
        never: "bus is bytes between machines: it knows no load test, no key and no configuration",
    },
    Arrows {
        name: "handfast-fleet",
        ours: &["handfast-bus"],
        theirs: &[
            "aws-lc-rs",
            "bytes",
            "data-encoding",
            "serde",
            "serde_json",
            "thiserror",
            "tokio",
            "tracing",
            "zeroize",
        ],
        in_tests: &["proptest", "tempfile"],
        never: "fleet is what machines tell each other: it knows no configuration, no key but its secret, and no worker",
    },
    Arrows {
        name: "handfast-cache",
        ours: &["handfast-http"],
        theirs: &["crc32fast", "httpdate", "lru", "mime_guess", "rustix", "sfv"],
        in_tests: &["proptest", "tempfile"],
        never: "cache is rules and a folder: no socket, no TLS, no runtime; it knows a task by its Waker alone",
    },
    Arrows {
        name: "handfast-compress",
        ours: &["handfast-http"],
        theirs: &["brotli", "flate2", "thiserror", "zstd-safe"],
        in_tests: &["proptest"],
        never: "compress is bytes to bytes: no socket, no clock, no word of a request",
    },
    Arrows {
        name: "handfast-config",
        ours: &[
            "handfast-http",
            "handfast-net",
            "handfast-pki",
            "handfast-text",
            "handfast-tls",
            "handfast-wire",
        ],
        theirs: &["annotate-snippets", "globset", "nix", "serde_json", "thiserror", "toml", "toml_edit"],
        in_tests: &["jsonschema", "proptest", "tempfile"],
        never: "config is text to a model: it opens no socket, serves nothing and knows no product",
    },
    Arrows {
        name: "handfast-observe",
        ours: &[
            "handfast-config",
            "handfast-http",
            "handfast-leg",
            "handfast-net",
            "handfast-pki",
            "handfast-text",
            "handfast-tls",
            "handfast-wire",
        ],
        theirs: &["percent-encoding", "prometheus-client", "rustix", "serde", "serde_json", "tracing"],
        in_tests: &["proptest", "tempfile"],
        never: "observe is what is reported: it decides nothing, opens nothing but a log, and knows a backend's health by a trait",
    },
    Arrows {
        name: "handfast-process",
        ours: &[
            "handfast-config",
            "handfast-net",
            "handfast-pki",
            "handfast-text",
            "handfast-tls",
            "handfast-wire",
        ],
        theirs: &["nix", "rustix", "tempfile", "thiserror", "tokio", "tracing"],
        in_tests: &[],
        never: "process is sockets, rights and limits: no metrics, no connection, no TLS session",
    },
    Arrows {
        name: "handfast-admin",
        ours: &[
            "handfast-config",
            "handfast-html",
            "handfast-net",
            "handfast-observe",
            "handfast-pki",
            "handfast-text",
            "handfast-tls",
        ],
        theirs: &[
            "bytes",
            "data-encoding",
            "http-body-util",
            "hyper",
            "hyper-util",
            "maud",
            "percent-encoding",
            "rustix",
            "serde",
            "serde_json",
            "thiserror",
            "tokio",
            "tracing",
            "zeroize",
        ],
        in_tests: &["tempfile"],
        never: "admin is questions and answers: it knows the proxy by the Control trait alone",
    },
    Arrows {
        name: "handfast-proxy",
        ours: &[
            "handfast-acme",
            "handfast-admin",
            "handfast-cache",
            "handfast-compress",
            "handfast-config",
            "handfast-fleet",
            "handfast-http",
            "handfast-leg",
            "handfast-net",
            "handfast-observe",
            "handfast-pki",
            "handfast-process",
            "handfast-text",
            "handfast-tls",
            "handfast-wire",
        ],
        theirs: &[
            "argon2",
            "bcrypt",
            "data-encoding",
            "fastrand",
            "hickory-resolver",
            "http",
            "httparse",
            "percent-encoding",
            "rustix",
            "serde",
            "serde_json",
            "thiserror",
            "tokio",
            "tracing",
            "zeroize",
        ],
        in_tests: &["bytes", "h2", "handfast-stats", "rcgen", "tempfile"],
        never: "proxy is a product: it names no other product, and TLS only through handfast-tls",
    },
    Arrows {
        name: "handfast-stats",
        ours: &[],
        theirs: &["data-encoding", "flate2", "hdrhistogram", "serde", "statrs", "thiserror"],
        in_tests: &["proptest"],
        never: "stats is numbers to numbers: no clock, no file, no socket",
    },
    Arrows {
        name: "handfast-html",
        ours: &["handfast-text"],
        theirs: &["aws-lc-rs", "data-encoding", "maud"],
        in_tests: &[],
        never: "html is rows and figures to a page: it knows no report and no metric, and permits no script",
    },
    Arrows {
        name: "handfast-report",
        ours: &["handfast-html", "handfast-stats", "handfast-text"],
        theirs: &["maud", "prometheus-client", "schemars", "serde", "serde_json", "thiserror"],
        in_tests: &["hdrhistogram", "jsonschema"],
        never: "report is results to text: it measures nothing and opens nothing",
    },
    Arrows {
        name: "handfast-load",
        ours: &[
            "handfast-bus",
            "handfast-http",
            "handfast-leg",
            "handfast-net",
            "handfast-pki",
            "handfast-report",
            "handfast-stats",
            "handfast-text",
            "handfast-tls",
            "handfast-wire",
        ],
        theirs: &[
            "aws-lc-rs",
            "bytes",
            "data-encoding",
            "http",
            "rcgen",
            "rustix",
            "rustls",
            "rustls-pki-types",
            "serde",
            "serde_json",
            "thiserror",
            "tokio",
            "tracing",
        ],
        in_tests: &["proptest", "tempfile"],
        never: "load is a product: it names no other product, TLS sessions only through handfast-tls; speed/ times the operations of the library itself",
    },
    Arrows {
        name: "handfast-import",
        ours: &["handfast-pki", "handfast-text"],
        theirs: &["glob", "rustls-pki-types", "serde_json", "thiserror", "toml_edit"],
        in_tests: &["rcgen", "tempfile"],
        never: "import is text to text: it dials nothing, resolves nothing and knows no other product; that the proxy takes what it writes is tested where both are known",
    },
    Arrows {
        name: "handfast-doctor",
        ours: &["handfast-leg", "handfast-net", "handfast-pki", "handfast-text", "handfast-tls"],
        theirs: &["libc", "rustix", "schemars", "serde", "serde_json", "thiserror"],
        in_tests: &["jsonschema", "tempfile"],
        never: "doctor is a product: it names no other product, has TLS only through handfast-tls, and changes nothing that it looks at",
    },
    Arrows {
        name: "handfast-lab",
        ours: &[
            "handfast-html",
            "handfast-leg",
            "handfast-net",
            "handfast-stats",
            "handfast-text",
            "handfast-tls",
            "handfast-wire",
        ],
        theirs: &["etherparse", "maud", "nix", "rcgen", "rustix", "serde", "serde_json", "toml"],
        in_tests: &["proptest", "tempfile"],
        never: "lab is a product: it names no other product, has TLS only through handfast-tls, and what it does to a network it does in its own namespaces",
    },
    Arrows {
        name: "handfast-testkit",
        ours: &[],
        theirs: &["rcgen", "rustix", "rustls", "rustls-pki-types", "serde_json", "tempfile"],
        in_tests: &[],
        never: "testkit is what tests are made of: a crate of the program under test would put the same fault on both sides of an assertion",
    },
    Arrows {
        name: "handfast-trials",
        ours: &[
            "handfast-html",
            "handfast-lab",
            "handfast-net",
            "handfast-testkit",
            "handfast-text",
            "handfast-tls",
        ],
        theirs: &["clap", "maud", "nix", "rustix", "rustls", "rustls-pki-types", "serde", "serde_json"],
        in_tests: &[],
        never: "trials is not shipped: it knows programs by their command line alone, and no crate of the program may use it",
    },
    Arrows {
        name: "handfast-probe",
        ours: &[
            "handfast-html",
            "handfast-leg",
            "handfast-net",
            "handfast-report",
            "handfast-text",
            "handfast-tls",
            "handfast-wire",
        ],
        theirs: &["httparse", "maud", "schemars", "serde", "serde_json", "thiserror"],
        in_tests: &["jsonschema", "proptest"],
        never: "probe is a product: it names no other product, has TLS only through handfast-tls, and one connection at a time",
    },
    Arrows {
        name: "handfast",
        ours: &[
            "handfast-admin",
            "handfast-config",
            "handfast-import",
            "handfast-doctor",
            "handfast-lab",
            "handfast-load",
            "handfast-net",
            "handfast-pki",
            "handfast-probe",
            "handfast-observe",
            "handfast-process",
            "handfast-proxy",
            "handfast-report",
            "handfast-stats",
            "handfast-text",
            "handfast-tls",
            "handfast-wire",
        ],
        theirs: &[
            "annotate-snippets",
            "clap",
            "clap_complete",
            "clap_mangen",
            "flate2",
            "mimalloc",
            "ratatui",
            "rcgen",
            "rustix",
            "serde",
            "serde_json",
            "thiserror",
            "tokio",
            "tracing",
            "tracing-subscriber",
            "zeroize",
        ],
        in_tests: &[
            "clap_complete",
            "clap_mangen",
            "rustls",
            "rustls-pki-types",
            "schemars",
            "tempfile",
            "toml",
            "vt100",
        ],
        never: "the program is words in, report out; anything another crate could want lives in that crate",
    },
];

/// One dependency as it is written in a Cargo.toml.
struct Dependency {
    package: String,
    on: String,
    dev: bool,
}

fn written_dependencies(metadata: &Value) -> Vec<Dependency> {
    let packages = metadata["packages"].as_array().expect("cargo metadata lists packages");
    let of_package = |package: &Value| {
        let name = package["name"].as_str().expect("a package has a name").to_owned();
        let dependencies = package["dependencies"].as_array().expect("a package lists its dependencies");
        let written = dependencies.iter().map(|dependency| Dependency {
            package: name.clone(),
            on: dependency["name"].as_str().expect("a dependency has a name").to_owned(),
            dev: dependency["kind"].as_str() == Some("dev"),
        });
        written.collect::<Vec<_>>()
    };
    packages.iter().flat_map(of_package).collect()
}

fn complaints(dependencies: &[Dependency]) -> Vec<Complaint> {
    let complain = |dependency: &Dependency| {
        let path = format!("crates/{}/Cargo.toml", dependency.package);
        let Some(arrows) = TABLE.iter().find(|arrows| arrows.name == dependency.package) else {
            return Some(Complaint::new(
                &path,
                0,
                "a crate that the table does not know; hint: add it to TABLE in tests/tidy/arrows.rs with its reason",
            ));
        };
        let on = dependency.on.as_str();
        let allowed = arrows.ours.contains(&on)
            || arrows.theirs.contains(&on)
            || dependency.dev && (on == "handfast-testkit" || arrows.in_tests.contains(&on));
        (!allowed).then(|| {
            let what = format!(
                "depends on {on}{}; {}. hint: do without, move the code, or add the arrow to TABLE in \
                 tests/tidy/arrows.rs with the reason in the commit",
                if dependency.dev { " in tests" } else { "" },
                arrows.never
            );
            Complaint::new(&path, 0, what)
        })
    };
    dependencies.iter().filter_map(complain).collect()
}

#[test]
fn dependencies_point_down_as_the_table_says() {
    let metadata = run(env!("CARGO"), &["metadata", "--no-deps", "--offline", "--format-version", "1"]);
    let metadata: Value = serde_json::from_str(&metadata).expect("cargo metadata is JSON");
    let dependencies = written_dependencies(&metadata);
    assert!(dependencies.len() > 10, "cargo metadata listed {} dependencies only", dependencies.len());
    assert_none(&complaints(&dependencies));
}

#[test]
fn an_arrow_up_or_sideways_is_seen() {
    let arrow = |package: &str, on: &str, dev| Dependency { package: package.into(), on: on.into(), dev };
    let found = complaints(&[
        arrow("handfast-net", "rustls", false),
        arrow("handfast-wire", "handfast-net", false),
        arrow("handfast", "rustls", false),
        arrow("handfast-new", "serde", false),
        arrow("handfast", "rustls", true),
        arrow("handfast-proxy", "tokio", false),
    ]);
    let paths: Vec<&str> = found.iter().map(|complaint| complaint.path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "crates/handfast-net/Cargo.toml",
            "crates/handfast-wire/Cargo.toml",
            "crates/handfast/Cargo.toml",
            "crates/handfast-new/Cargo.toml"
        ]
    );
}
