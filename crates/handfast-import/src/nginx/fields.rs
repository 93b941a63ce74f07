//! `proxy_set_header`, `add_header` and their kin: fields of requests and responses.

use super::location::Routes;
use super::scope::Scope;
use super::state::Import;
use super::subrequests::{copied_field, is_user};
use super::upstream::Target;
use super::value::{ServerFacts, template};
use crate::cells::{is_of_connection, names_client};
use crate::draft::Draft;
use crate::note::Fate;

/// Difference of `{client-subject}`.
const SUBJECT: &str =
    "the parts of the name are in the order of the certificate, with a comma and a blank between them";

impl<'d> Import<'d> {
    /// `proxy_set_header`. Returns whether the backend receives the client's `Host`.
    pub(super) fn request_fields(
        &mut self,
        scope: &Scope<'d>,
        target: &Target<'_>,
        route: &mut Draft,
        routes: &mut Routes<'_>,
    ) -> bool {
        let (mut has_host, mut is_host_written) = (false, false);
        for directive in scope.all("proxy_set_header") {
            let (name, value) = (directive.argument(0).to_ascii_lowercase(), directive.argument(1));
            match (name.as_str(), value) {
                ("host", "$http_host") => (has_host, is_host_written) = (true, true),
                ("host", "$proxy_host") => {}
                ("x-forwarded-for", "$proxy_add_x_forwarded_for") => {
                    routes.is_forwarded = true;
                    let effect = "what clients send in it is removed: list the proxies in front in http.trust-forwarded-from";
                    self.note(directive, Fate::Approximated, effect);
                }
                ("x-forwarded-for", "$remote_addr" | "$proxy_protocol_addr")
                | ("x-forwarded-proto", "$scheme")
                | ("x-forwarded-host", "$http_host") => routes.is_forwarded = true,
                ("x-forwarded-host", "$host") => {
                    routes.is_forwarded = true;
                    self.note(
                        directive,
                        Fate::Approximated,
                        "it has the port too, if the client's Host has one",
                    );
                }
                ("x-forwarded-proto", "https") if routes.has_tls => routes.is_forwarded = true,
                (name, "") if !is_of_connection(name) && name != "host" => {
                    route.of("").append("remove-request-headers", name);
                }
                (name, _) if is_of_connection(name) => {}
                (name, _) if names_client(name) => {
                    let effect = "Handfast writes X-Forwarded-For, -Proto and -Host by itself, and no others";
                    self.note(directive, Fate::Refused, effect);
                }
                ("x-request-id", "$request_id") => {}
                (name, value) if let Some(copied) = copied_field(scope, value) => {
                    let value = if name.eq_ignore_ascii_case(&copied) {
                        continue;
                    } else if is_user(scope, &copied) {
                        "{user}"
                    } else {
                        let effect =
                            format!("a field of the server that decides is copied with its name: {copied}");
                        self.note(directive, Fate::Refused, effect);
                        continue;
                    };
                    let field = format!("{}: {value}", directive.argument(0));
                    route.of("").append("set-request-headers", field);
                    let effect = format!("the backend receives {copied}, too");
                    self.note(directive, Fate::Approximated, effect);
                }
                (name, value) => match template(value, routes.facts) {
                    Ok(value) => {
                        if value.contains("{client-subject}") {
                            self.note(directive, Fate::Approximated, SUBJECT);
                        }
                        let is_host = name == "host";
                        is_host_written |= is_host;
                        has_host |= is_host && value == "{host}";
                        route
                            .of("")
                            .append("set-request-headers", format!("{}: {value}", directive.argument(0)));
                    }
                    Err(variable) => {
                        self.note(directive, Fate::Refused, format!("Handfast has no {variable}"));
                    }
                },
            }
        }
        if !is_host_written {
            route.of("").append("set-request-headers", format!("host: {}", target.host()));
        }
        has_host
    }

    /// `add_header`, `proxy_hide_header`, `expires`.
    pub(super) fn response_fields(&mut self, scope: &Scope<'d>, route: &mut Draft, facts: ServerFacts<'_>) {
        for directive in
            scope.all("proxy_hide_header").into_iter().filter(|hidden| !is_of_connection(hidden.argument(0)))
        {
            route.of("").append("remove-response-headers", directive.argument(0).to_ascii_lowercase());
        }
        for directive in scope.all("add_header") {
            let (name, value) = (directive.argument(0), directive.argument(1));
            if value == "$upstream_cache_status" {
                let effect = "responses that went through the cache have Cache-Status (RFC 9211)";
                self.note(directive, Fate::Approximated, effect);
                continue;
            }
            if copied_field(scope, value).is_some() {
                let effect = "fields of the server that decides do not reach clients where it consents, such as renewed cookies";
                self.note(directive, Fate::Approximated, effect);
                continue;
            }
            match template(value, facts) {
                Ok(_) if value.is_empty() || is_of_connection(name) => {}
                Ok(value) => {
                    route.of("").append("add-response-headers", format!("{name}: {value}"));
                    if directive.argument(2) != "always" {
                        let effect = "responses with errors have it too, as with `always`";
                        self.note(directive, Fate::Approximated, effect);
                    }
                }
                Err(variable) => self.note(directive, Fate::Refused, format!("Handfast has no {variable}")),
            }
        }
    }
}
