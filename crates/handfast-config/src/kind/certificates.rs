//! The type of values that name certificates: files, folders, and pairs of files.

use toml::de::DeValue;

use super::path::path;
use super::{Written, no_twins, text};
use crate::keys::{CERTIFICATE_PAIR, PAIR_CERTIFICATE, PAIR_KEY, PAIR_OCSP};
use crate::model::CertificateSource;
use crate::problem::Fault;
use crate::reading::{Item, Reading};
use crate::schema::ValueKind;
use crate::table::Table;

/// Certificates: files, folders, and pairs of files.
pub(crate) struct Certificates;

impl ValueKind for Certificates {
    type Value = Vec<Written<CertificateSource>>;
    const FORM: &'static str = "path of a PEM file or of a folder; or a list of such and of `{ certificate = \"chain.pem\", key = \"key.pem\", ocsp = \"response.der\" }`";

    fn read(&self, item: &Item<'_>, reading: &Reading<'_>) -> Option<Self::Value> {
        let DeValue::Array(list) = item.value else {
            return certificate(self, item, reading).map(|source| vec![source]);
        };
        if list.is_empty() {
            reading.error(&item.span, Fault::new("the list is empty").allowed("at least one certificate"));
            return None;
        }
        let sources: Vec<_> =
            list.iter().filter_map(|item| certificate(self, &Item::new(item), reading)).collect();
        no_twins(&sources, reading);
        Some(sources)
    }
}

fn certificate(
    kind: &Certificates,
    item: &Item<'_>,
    reading: &Reading<'_>,
) -> Option<Written<CertificateSource>> {
    let value = match item.value {
        DeValue::Table(entries) => {
            let pair = Table::open(&CERTIFICATE_PAIR, entries, item.span.clone(), reading);
            let (certificate, key) = (pair.required(&PAIR_CERTIFICATE), pair.required(&PAIR_KEY));
            let ocsp = pair.optional(&PAIR_OCSP);
            CertificateSource::File { certificate: certificate?, key: Some(key?), ocsp }
        }
        _ => text(kind, item, reading, |text| source(text, reading))?,
    };
    if let CertificateSource::Folder(path) | CertificateSource::File { certificate: path, key: None, .. } =
        &value
    {
        reading.names(path, &item.span);
    }
    Some(Written { value, span: item.span.clone() })
}

/// A certificate's place by its path alone.
fn source(text: &str, reading: &Reading<'_>) -> Result<CertificateSource, Fault> {
    Ok(match path(text, reading)? {
        (path, true) => CertificateSource::Folder(path),
        (certificate, false) => CertificateSource::File { certificate, key: None, ocsp: None },
    })
}
