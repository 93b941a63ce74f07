//! The files that a configuration names, and their problems.
//!
//! In: paths and their places, noted while the file is read. Out: when the configuration is refused, the problems of these files.

use std::path::PathBuf;
use std::time::SystemTime;

use handfast_pki::Severity as FindingSeverity;
use handfast_pki::load;
use handfast_pki::weak;
use handfast_tls::client;
use handfast_tls::client_certificates::{self, Demand, KnownLists};

use super::accounts::{find_group, find_user};
use super::model::{CertificateEntry, ClientChecks, Places};
use super::problem::{Place, Problem, sort_by_place};

/// Every file that was named, also in a configuration that is refused.
#[derive(Debug, Default)]
pub(crate) struct Named {
    pub(crate) places: Places,
    /// The files of the configuration itself, in the order read.
    pub(crate) files: Vec<String>,
    /// Certificates of each service.
    pub(crate) certificates: Vec<Vec<CertificateEntry>>,
    /// Files of client authorities, and their revocation lists.
    pub(crate) authorities: Vec<ClientChecks>,
    /// Files of the authorities for backends.
    pub(crate) trusted: Vec<PathBuf>,
    pub(crate) weak_keys: Vec<PathBuf>,
    pub(crate) user: Option<(String, Place)>,
    pub(crate) group: Option<(String, Place)>,
}

impl Named {
    /// Problems of a configuration that is refused, with those of the files it names, in the order of the file.
    ///
    /// Touches the disk: reads the files, and looks the user and group up.
    pub(crate) fn with_problems_of_files(&self, mut problems: Vec<Problem>, now: SystemTime) -> Vec<Problem> {
        let mut loaded = weak::load(&self.weak_keys, None);
        let mut findings = std::mem::take(&mut loaded.findings);
        for sources in &self.certificates {
            let sources: Vec<_> = sources
                .iter()
                .filter_map(CertificateEntry::on_disk)
                .flat_map(|source| source.places())
                .collect();
            let certificates = load::load(&sources, &loaded.lists, now);
            findings.extend(certificates.findings);
            findings.extend(certificates.staples);
        }
        for checks in &self.authorities {
            // The demand on clients does not change what the file holds.
            let settings = checks.tls_settings(Demand::Require, &loaded.lists);
            findings.extend(client_certificates::load_all(&settings, &KnownLists::default(), now).findings);
        }
        for file in &self.trusted {
            findings.extend(client::load_trust(file, &loaded.lists, now).findings);
        }
        for finding in findings.iter().filter(|finding| finding.severity == FindingSeverity::Error) {
            let place = self.places.place(&finding.file);
            let problem =
                Problem { hint: finding.hint.clone(), ..Problem::error(place, finding.to_string()) };
            if !problems.contains(&problem) {
                problems.push(problem);
            }
        }
        let user = self.user.iter().filter_map(|(name, place)| Some((find_user(name).err()?, place)));
        let group = self.group.iter().filter_map(|(name, place)| Some((find_group(name).err()?, place)));
        let unknown = user.chain(group);
        problems.extend(unknown.map(|(error, place)| Problem::error(place.clone(), error.to_string())));
        sort_by_place(&mut problems, &self.files);
        problems
    }
}
