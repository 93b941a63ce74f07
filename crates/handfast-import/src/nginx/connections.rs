//! `limit_conn`: connections of an address, and of a server.

use super::grammar::Directive;
use super::http::Server;
use super::listen::Socket;
use super::state::Import;
use crate::draft::Draft;
use crate::note::Fate;

/// Highest limit of Handfast.
const MAX_CONNECTIONS: i64 = 10_000_000;

impl<'d> Import<'d> {
    /// Writes the limits that all servers of an address have.
    pub(super) fn connections(&mut self, servers: &[Server<'d>], socket: &Socket, service: &mut Draft) {
        let is_dry = |server: &Server<'d>| server.scope.is_on("limit_conn_dry_run");
        let limits = |server: &Server<'d>| match is_dry(server) {
            true => Vec::new(),
            false => server.scope.all("limit_conn"),
        };
        let texts = |server: &Server<'d>| limits(server).into_iter().map(Directive::text).collect::<Vec<_>>();
        for server in servers.iter().filter(|server| !is_dry(server)) {
            let locations = server.directive.inner().iter().filter(|inner| inner.name == "location");
            for limit in locations.flat_map(Directive::inner).filter(|inner| inner.name == "limit_conn") {
                let effect = "connections are limited for all requests of an address: write it for the server, or a rate-limit of a route by hand";
                self.note(limit, Fate::Refused, effect);
            }
            if texts(server) != texts(&servers[0])
                && let Some(limit) = limits(server).first().or(limits(&servers[0]).first())
            {
                let effect = "connections are limited before their server is known: write it for all servers of an address";
                self.note(limit, Fate::Refused, effect);
            }
        }
        let is_h2 = |server: &Server<'_>| server.scope.is_on("http2");
        let has_http2 = socket.has_http2 || servers.iter().any(is_h2);
        let of_field = servers[0].scope.text("real_ip_header").is_some_and(|name| name != "proxy_protocol");
        for limit in limits(&servers[0]) {
            if has_http2 {
                let effect = "each request of HTTP/2 counts in nginx, and here the connection with all of its requests: write max-connections-per-address and http.max-streams by hand";
                self.note(limit, Fate::Refused, effect);
            } else if of_field {
                let effect = "the connections of the proxy in front would be counted together";
                self.note(limit, Fate::Refused, effect);
            } else {
                self.limit_of_connections(limit, servers.len() == 1, service);
            }
        }
    }

    fn limit_of_connections(&mut self, limit: &'d Directive, is_alone: bool, service: &mut Draft) {
        let name = limit.argument(0);
        let is_it = |zone: &&&Directive| {
            zone.name == "limit_conn_zone"
                && zone.option("zone=").is_some_and(|zone| zone.split(':').next() == Some(name))
        };
        let Some(zone) = self.zones.iter().find(is_it).copied() else {
            let effect = format!("there is no limit_conn_zone with the name {name}");
            return self.note(limit, Fate::Refused, effect);
        };
        let key = match zone.argument(0) {
            "$binary_remote_addr" | "$remote_addr" => "max-connections-per-address",
            "$server_name" if is_alone => "max-connections",
            _ => {
                let effect = "expected the address of the client as the key, or $server_name of the only server of an address";
                return self.note(zone, Fate::Refused, effect);
            }
        };
        match limit.argument(1).parse::<i64>() {
            Ok(most @ 1..=MAX_CONNECTIONS) if !service.of("").has(key) => {
                service.put("", key, most);
                let effect = "every open connection counts, also one without a request, and the one that is too many is closed; nginx counts those with a request, and answers 503";
                self.note(limit, Fate::Approximated, effect);
            }
            Ok(1..=MAX_CONNECTIONS) => self.note(limit, Fate::Refused, "a service has one such limit"),
            _ => self.note(limit, Fate::Refused, "expected a number from 1 to 10000000"),
        }
    }
}
