//! Files of addresses: read, and put into the lists that name them.
//!
//! In: a service as it is configured. Out: the same with the addresses of its files. The configuration itself stays without them, so that
//! the next reload of changed files reads them again. A list that admits or trusts clients is never empty because its files
//! are: an empty one would mean every client.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use handfast_config::model::{Admission, Http, Places, ProxySender, RouteAccess, Service};
use handfast_config::{AddressLineProblem, MAX_ADDRESS_FILE_BYTES, addresses};
use handfast_net::prefix::Prefix;
use handfast_pki::files::read_text;
use handfast_pki::load::FileStamp;
use handfast_process::privileges::ServiceUser;
use handfast_process::trusted_path::folder_of;

/// Reason why a file of addresses cannot be used.
#[derive(Debug, thiserror::Error)]
enum AddressFileError {
    #[error("cannot be read: {0}")]
    Read(#[from] std::io::Error),
    #[error("{}", lines(.0))]
    Lines(Vec<AddressLineProblem>),
    /// This process cannot act as the user that serves.
    #[error(transparent)]
    User(#[from] handfast_process::error::Error),
}

fn lines(problems: &[AddressLineProblem]) -> String {
    problems.iter().map(|problem| format!("line {problem}")).collect::<Vec<_>>().join("\n  ")
}

/// The files that are read for a state, each once.
pub(super) struct AddressFiles<'p> {
    places: &'p Places,
    user: ServiceUser,
    known: HashMap<PathBuf, Option<Vec<Prefix>>>,
    /// The files as they were read, and their folders.
    pub(super) files: Vec<(PathBuf, FileStamp)>,
    pub(super) folders: Vec<PathBuf>,
    /// Everything that is wrong with them.
    pub(super) errors: Vec<String>,
}

impl<'p> AddressFiles<'p> {
    /// Reads none yet. Those that `user` can replace are read with its rights.
    pub(super) fn new(places: &'p Places, user: ServiceUser) -> Self {
        let known = HashMap::new();
        Self { places, user, known, files: Vec::new(), folders: Vec::new(), errors: Vec::new() }
    }

    /// A service with the addresses of its files.
    pub(super) fn fill<'s>(&mut self, service: &'s Service) -> Cow<'s, Service> {
        if !has_files(service) {
            return Cow::Borrowed(service);
        }
        let mut filled = service.clone();
        let mut reader = Reader { files: self, service: &service.name };
        let Admission { allow, allow_files, refuse, refuse_files, .. } = &mut filled.admission;
        reader.extend(("allow-clients", true), allow, allow_files, |prefix| prefix);
        reader.extend(("refuse-clients", false), refuse, refuse_files, |prefix| prefix);
        let headers = &mut filled.proxy_protocol;
        let (senders, files) = (&mut headers.accept_from, &headers.accept_from_files);
        reader.extend(("accept-from", true), senders, files, ProxySender::Prefix);
        if let Some(http) = &mut filled.http {
            let (trusted, files) = (&mut http.forwarded.trusted, &http.forwarded.trusted_files);
            reader.extend(("trust-forwarded-from", true), trusted, files, ProxySender::Prefix);
            for access in accesses(http) {
                let RouteAccess { allow, allow_files, refuse, refuse_files, .. } = access;
                reader.extend(("allow-clients", true), allow, allow_files, |prefix| prefix);
                reader.extend(("refuse-clients", false), refuse, refuse_files, |prefix| prefix);
            }
        }
        Cow::Owned(filled)
    }
}

fn accesses(http: &mut Http) -> impl Iterator<Item = &mut RouteAccess> {
    let routes = http.routes.iter_mut().map(|route| &mut route.access);
    std::iter::once(&mut http.access).chain(routes)
}

fn has_files(service: &Service) -> bool {
    let of_http = |http: &Http| {
        let of_routes = http.routes.iter().map(|route| &route.access);
        let mut accesses = std::iter::once(&http.access).chain(of_routes);
        !http.forwarded.trusted_files.is_empty()
            || accesses.any(|access| !access.allow_files.is_empty() || !access.refuse_files.is_empty())
    };
    !service.admission.allow_files.is_empty()
        || !service.admission.refuse_files.is_empty()
        || !service.proxy_protocol.accept_from_files.is_empty()
        || service.http.as_ref().is_some_and(of_http)
}

struct Reader<'r, 'p> {
    files: &'r mut AddressFiles<'p>,
    service: &'r str,
}

impl Reader<'_, '_> {
    /// Adds the addresses of files to a list; `is_strict`: it must not be empty.
    fn extend<T>(
        &mut self,
        (key, is_strict): (&str, bool),
        list: &mut Vec<T>,
        files: &[PathBuf],
        item: impl Fn(Prefix) -> T,
    ) {
        let mut is_whole = true;
        for file in files {
            match self.read(file) {
                Some(prefixes) => list.extend(prefixes.into_iter().map(&item)),
                None => is_whole = false,
            }
        }
        if let Some(first) = files.first()
            && is_whole
            && is_strict
            && list.is_empty()
        {
            let (service, place) = (self.service, self.files.places.suffix(first));
            self.files.errors.push(format!(
                "service {service}: {}{place}: there is no address, and `{key}` needs one\n  hint: an empty list would mean every client",
                first.display()
            ));
        }
    }

    /// The addresses of a file; `None`: it cannot be used, which is reported once.
    fn read(&mut self, file: &Path) -> Option<Vec<Prefix>> {
        let files = &mut *self.files;
        if let Some(known) = files.known.get(file) {
            return known.clone();
        }
        files.folders.push(folder_of(file).to_path_buf());
        files.files.push((file.to_path_buf(), FileStamp::of(file)));
        let read = files.user.act_on(file, || {
            let text = read_text(file, MAX_ADDRESS_FILE_BYTES)?;
            addresses(&text).map_err(AddressFileError::Lines)
        });
        let prefixes = match read.unwrap_or_else(|error| Err(error.into())) {
            Ok(prefixes) => Some(prefixes),
            Err(error) => {
                let (service, shown, place) = (self.service, file.display(), files.places.suffix(file));
                files.errors.push(format!("service {service}: addresses of {shown}{place}: {error}"));
                None
            }
        };
        files.known.insert(file.to_path_buf(), prefixes.clone());
        prefixes
    }
}
