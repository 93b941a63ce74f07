//! Rules about packages: which never, how old, under which licence, from where.
//!
//! In: Cargo.lock, `cargo tree` (what is really used here, unlike the lock file), deny.toml. Out: complaints.

use toml::{Table, Value};

use super::{Complaint, assert_none, root, run};

/// The least versions without a known flaw that concerns us, and that flaw.
const MIN_VERSIONS: [(&str, &str, &str); 4] = [
    ("rustls", "0.23.45", "RUSTSEC-2026-0285: handshake messages at the wrong encryption level"),
    ("rustls-webpki", "0.103.13", "RUSTSEC-2026-0104: a revocation list makes the parser panic"),
    ("aws-lc-sys", "0.39.0", "RUSTSEC-2026-0044 to 0048: name constraints, CCM timing, revocation"),
    ("tokio", "1.43.1", "RUSTSEC-2025-0023: broadcast channel clones without Sync"),
];

/// One package that is really built here.
#[derive(Debug)]
struct Package {
    name: String,
    version: String,
    licence: String,
}

fn table(file: &str) -> Table {
    let text =
        std::fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("read {file}: {error}"));
    text.parse().unwrap_or_else(|error| panic!("read {file}: {error}"))
}

fn locked() -> Vec<Value> {
    table("Cargo.lock")["package"].as_array().expect("a lock file lists packages").clone()
}

fn used() -> Vec<Package> {
    let arguments = "tree --workspace --locked --offline --edges normal,build,dev --prefix none --no-dedupe --format {p}|{l}";
    let listed = run(env!("CARGO"), &arguments.split(' ').collect::<Vec<_>>());
    let parse = |line: &str| {
        let (package, licence) = line.split_once('|')?;
        let mut words = package.split(' ');
        let (name, version) = (words.next()?.to_owned(), words.next()?.trim_start_matches('v').to_owned());
        Some(Package { name, version, licence: licence.to_owned() })
    };
    let mut packages: Vec<Package> = listed.lines().filter_map(parse).collect();
    packages.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    packages.dedup_by(|a, b| a.name == b.name && a.version == b.version);
    assert!(packages.len() > 20, "cargo tree listed {} packages only", packages.len());
    packages
}

/// A version's numbers; what follows a `-` or `+` does not count.
fn numbers(version: &str) -> Vec<u64> {
    let plain = version.split(['-', '+']).next().unwrap_or("");
    plain.split('.').map(|number| number.parse().unwrap_or(0)).collect()
}

fn too_old(name: &str, version: &str) -> Option<Complaint> {
    let (_, least, flaw) = MIN_VERSIONS.iter().find(|(least_name, ..)| *least_name == name)?;
    (numbers(version) < numbers(least)).then(|| {
        let what = format!("{name} {version} is older than {least} ({flaw}); hint: cargo update -p {name}");
        Complaint::new("Cargo.lock", 0, what)
    })
}

fn banned(deny: &Table, name: &str) -> Option<Complaint> {
    let list = deny["bans"]["deny"].as_array().expect("deny.toml lists bans");
    let entry = list.iter().find(|entry| entry["crate"].as_str() == Some(name))?;
    let reason = entry["reason"].as_str().expect("a ban has its reason");
    let what =
        format!("{name} is used here, and banned: {reason}. hint: `cargo tree -i {name}` shows who wants it");
    Some(Complaint::new("deny.toml", 0, what))
}

/// Returns true if an SPDX expression can be met with the allowed licences. `/` is how old manifests write OR.
fn permitted(expression: &str, allowed: &[&str]) -> bool {
    let spaced =
        expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ").replace(" WITH ", "_WITH_");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let met = any_of(&words, &mut at, allowed);
    met && at == words.len()
}

fn any_of(words: &[&str], at: &mut usize, allowed: &[&str]) -> bool {
    let mut met = all_of(words, at, allowed);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        met |= all_of(words, at, allowed);
    }
    met
}

fn all_of(words: &[&str], at: &mut usize, allowed: &[&str]) -> bool {
    let mut met = one(words, at, allowed);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        met &= one(words, at, allowed);
    }
    met
}

fn one(words: &[&str], at: &mut usize, allowed: &[&str]) -> bool {
    let word = words.get(*at).copied().unwrap_or("");
    *at += 1;
    if word != "(" {
        return allowed.contains(&word.replace("_WITH_", " WITH ").as_str());
    }
    let met = any_of(words, at, allowed);
    *at += 1;
    met
}

#[test]
fn nothing_banned_is_used() {
    let deny = table("deny.toml");
    assert_none(&used().iter().filter_map(|package| banned(&deny, &package.name)).collect::<Vec<_>>());
}

#[test]
fn nothing_with_a_known_flaw_is_locked() {
    let text =
        |package: &Value, key: &str| package[key].as_str().expect("a locked package has it").to_owned();
    let check = |package: &Value| too_old(&text(package, "name"), &text(package, "version"));
    assert_none(&locked().iter().filter_map(check).collect::<Vec<_>>());
    let gone =
        MIN_VERSIONS.iter().find(|(name, ..)| !locked().iter().any(|package| text(package, "name") == *name));
    assert!(
        gone.is_none(),
        "{gone:?} is in the table of flaws, and no longer in Cargo.lock; hint: drop the row"
    );
}

#[test]
fn licences_are_permissive() {
    let deny = table("deny.toml");
    let allowed = deny["licenses"]["allow"].as_array().expect("deny.toml lists licences");
    let allowed: Vec<&str> = allowed.iter().filter_map(Value::as_str).collect();
    let complain = |package: &Package| {
        (!permitted(&package.licence, &allowed)).then(|| {
            let what = format!(
                "{} {} is under `{}`, which the allowed licences do not meet; hint: do without it",
                package.name, package.version, package.licence
            );
            Complaint::new("deny.toml", 0, what)
        })
    };
    assert_none(&used().iter().filter_map(complain).collect::<Vec<_>>());
}

#[test]
fn packages_come_from_the_registry_alone() {
    let foreign = |package: &Value| {
        let source = package.get("source")?.as_str()?.to_owned();
        (!source.starts_with("registry+"))
            .then(|| Complaint::new("Cargo.lock", 0, format!("{} from {source}", package["name"])))
    };
    assert_none(&locked().iter().filter_map(foreign).collect::<Vec<_>>());
}

#[test]
fn an_old_or_banned_package_is_seen() {
    assert!(too_old("rustls", "0.23.44").is_some());
    assert!(too_old("rustls", "0.23.45").is_none());
    assert!(too_old("rustls", "0.24.0-dev.2").is_none());
    assert!(too_old("tokio", "1.43.0").is_some());
    assert!(too_old("unheard-of", "0.0.1").is_none());
    let deny = table("deny.toml");
    for name in ["ring", "openssl", "openssl-sys", "native-tls", "rustls-pemfile"] {
        assert!(banned(&deny, name).is_some(), "{name}");
    }
    assert!(banned(&deny, "rustls").is_none());
}

#[test]
fn a_licence_that_binds_is_seen() {
    let allowed = ["MIT", "ISC", "Apache-2.0", "Apache-2.0 WITH LLVM-exception"];
    for good in [
        "MIT",
        "MIT/GPL-3.0",
        "GPL-2.0 OR MIT",
        "ISC AND (MIT OR GPL-2.0)",
        "Apache-2.0 WITH LLVM-exception OR X",
    ] {
        assert!(permitted(good, &allowed), "{good}");
    }
    for bad in ["", "GPL-3.0", "MIT AND GPL-2.0", "ISC AND (GPL-2.0 OR LGPL-2.1)", "(MIT", "MPL-2.0"] {
        assert!(!permitted(bad, &allowed), "{bad}");
    }
}
