//! The URL of another site in the place of backends, and what follows from it: HTTP mode, TLS by its scheme, and the `Host` of requests.

use handfast_http::http1::Kind;
use toml::de::DeValue;

use super::backend_tls;
use crate::kind::Site;
use crate::model::{BackendTls, BackendVersion, FieldChange, FieldRule, RequestRules, Template};
use crate::problem::Fault;
use crate::reading::Written;
use crate::schema::{Entry, Section};
use crate::table::Table;

/// TLS towards backends and its place; the inner `None`: plain text.
pub(super) type WrittenTls = Written<Option<BackendTls>>;

/// The site that `key` names. Reports a URL among several backends.
pub(super) fn of(section: &Table<'_>, key: &dyn Entry) -> Option<Written<Site>> {
    let item = section.item(key)?;
    if let DeValue::Array(list) = item.value
        && list.len() > 1
    {
        for url in list.iter().filter(|entry| entry.get_ref().as_str().is_some_and(Site::is_url)) {
            let fault = Fault::new("the URL of a site is the only backend: `Host` and TLS are for its name");
            let hint = "write `host:port` for each, `backend-tls`, and a route with `set-request-headers = \"host: …\"`";
            section.reading().error(&url.span(), fault.hint(hint));
        }
        return None;
    }
    Site::of(&item)
}

/// TLS towards backends by its section, or else by the scheme of `site` where that differs from what is `inherited`. The inner `None`:
/// what is inherited counts.
pub(super) fn backend_tls(
    outer: &Table<'_>,
    section: &'static Section,
    http: Option<BackendVersion>,
    (site, inherited): (Option<&Written<Site>>, Option<&WrittenTls>),
) -> Option<Option<WrittenTls>> {
    let inner = outer.inner(section);
    if !inner.is_written() {
        let Some(site) = site else { return Some(None) };
        let is_secure = site.value.is_secure;
        if inherited.is_some_and(|tls| tls.value.is_some() == is_secure) {
            return Some(None);
        }
        let value = if is_secure { backend_tls::read(&inner, http)?.value } else { None };
        return Some(Some(Written { value, span: site.span.clone() }));
    }
    let tls = backend_tls::read(&inner, http)?;
    if let Some(site) = site
        && site.value.is_secure != tls.value.is_some()
    {
        let (what, scheme) = match site.value.is_secure {
            true => ("the backend is written with `https://`, so this cannot be plain text", "http"),
            false => ("the backend is written with `http://`, which is plain text", "https"),
        };
        let hint = format!("write `{scheme}://` there, or remove this");
        outer.reading().error(&tls.span, Fault::new(what).hint(hint).see(site.span.clone(), "written here"));
    }
    Some(Some(tls))
}

/// Has requests to the site carry its name as their `Host`, unless a rule already sets it.
pub(super) fn name_host(rules: &mut RequestRules, site: &Site) {
    let is_host = |rule: &FieldRule| Kind::of(rule.name.as_bytes()) == Kind::Host;
    if !rules.request.iter().any(is_host) {
        let change = FieldChange::Set(Template::text(&site.authority));
        rules.request.push(FieldRule { name: "Host".into(), change });
    }
}

/// Reports backends that connections choose beside the service's site: requests to them would have its name.
pub(super) fn check_others(section: &Table<'_>, key: &dyn Entry, site: Option<&Written<Site>>) {
    let Some(site) = site else { return };
    let what = "requests to these backends would have the name of the service's site as their `Host`";
    let hint = "write [[service.route]] with `hosts` and `backend` instead, or `host:port` for the service";
    section.error(key, Fault::new(what).hint(hint).see(site.span.clone(), "the site"));
}
