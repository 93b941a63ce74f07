//! Any bytes as a file of revocation lists: it is refused with a reason, and then nobody is let in by it; and what is refused once is
//! refused again.
//!
//! Through the file system, as there is no other way in: a file in a folder of the process.
#![no_main]

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime};

use handfast_pki::Severity;
use handfast_pki::weak::Lists;
use handfast_tls::client_certificates::{
    ClientCertificateSettings, Demand, KnownLists, LoadedAuthorities, load_all,
};
use libfuzzer_sys::fuzz_target;

/// The authority whose key signed the seeds.
const AUTHORITY: &[u8] = include_bytes!("../corpus/revocation_list/seed-authority");

struct Files {
    authority: PathBuf,
    list: [PathBuf; 1],
    keys: Arc<Lists>,
}

static FILES: LazyLock<Files> = LazyLock::new(|| {
    let folder = std::env::temp_dir().join(format!("handfast-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder of our own");
    let authority = folder.join("ca.pem");
    std::fs::write(&authority, AUTHORITY).expect("it has room");
    Files { authority, list: [folder.join("list")], keys: Arc::default() }
});

fuzz_target!(|bytes: &[u8]| {
    let files = &*FILES;
    std::fs::write::<&Path, _>(&files.list[0], bytes).expect("it has room");
    let first = judge(&load(files));
    assert_eq!(first, judge(&load(files)));
});

fn load(files: &Files) -> LoadedAuthorities {
    let settings = ClientCertificateSettings {
        lists: &files.list,
        ..ClientCertificateSettings::new(&files.authority, Demand::Require, &files.keys)
    };
    // Within the time of the seeds.
    load_all(&settings, &KnownLists::default(), SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000))
}

/// Returns the number of lists of the rule; `None`: there is no rule.
fn judge(loaded: &LoadedAuthorities) -> Option<usize> {
    let errors: Vec<_> =
        loaded.findings.iter().filter(|finding| finding.severity == Severity::Error).collect();
    assert!(errors.iter().all(|finding| !finding.message.is_empty()));
    assert_eq!(loaded.rule.is_none(), !errors.is_empty(), "a rule, or why not");
    loaded.rule.as_ref().map(|rule| rule.list_facts().len())
}
