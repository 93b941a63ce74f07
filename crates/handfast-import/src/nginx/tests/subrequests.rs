//! Tests of `auth_request`, `satisfy`, `mirror`, `limit_conn`, `internal` and variables of client certificates.

use super::converted;

const PASS: &str = "proxy_pass http://a:1; proxy_redirect off;";

/// The locations of a server with a backend, and one for a request that is sent to `/auth`.
fn with_auth(settings: &str, location: &str) -> (String, Vec<String>) {
    converted(&format!(
        "upstream two {{ server b:1; server c:2; }}
         server {{ listen 80; location / {{ auth_request /auth; {settings} {PASS} }}
         location = /auth {{ internal; proxy_set_header Host $host; {location} }} }}"
    ))
}

#[test]
fn the_server_of_auth_request_decides() {
    for (settings, location, expected) in [
        (
            "",
            "proxy_pass http://10.0.0.9:4180;",
            "forward-auth = { to = [\"10.0.0.9:4180\"], path = \"/auth\", timeout = \"1m\" }",
        ),
        (
            "",
            "proxy_pass http://10.0.0.9:4180/oauth2/check; proxy_read_timeout 5s; proxy_pass_request_body off;
             proxy_set_header Host $host; proxy_set_header Content-Length ''; proxy_set_header X-Forwarded-Uri $request_uri;
             proxy_set_header X-Real-IP $remote_addr; proxy_set_header Cookie $http_cookie;",
            "forward-auth = { to = [\"10.0.0.9:4180\"], path = \"/oauth2/check\", timeout = \"5s\" }",
        ),
        ("", "proxy_pass http://two;", "to = [\"b:1\", \"c:2\"], path = \"/auth\""),
        (
            "auth_request_set $u $upstream_http_x_auth_user; proxy_set_header X-Auth-User $u;",
            "proxy_pass http://10.0.0.9;",
            "to = [\"10.0.0.9:80\"], path = \"/auth\", copy = [\"x-auth-user\"]",
        ),
        (
            "auth_request_set $u $upstream_http_x_auth_user; proxy_set_header X-User $u;",
            "proxy_pass http://10.0.0.9;",
            "set-request-headers = [\"X-User: {user}\", ",
        ),
        (
            "auth_request_set $c $upstream_http_set_cookie; add_header Set-Cookie $c;",
            "proxy_pass http://10.0.0.9;",
            "forward-auth",
        ),
    ] {
        let (config, notes) = with_auth(settings, location);
        assert!(config.contains(expected), "{settings} {location}\n{config}\n{notes:?}");
        assert!(config.contains("path = \"/auth\"\nrespond = 404"), "{config}");
        assert!(notes.contains(&"approximated auth_request /auth".to_owned()), "{notes:?}");
    }
    // It is off, or not reached.
    for server in [
        format!("auth_request /auth; location / {{ auth_request off; {PASS} }}"),
        "auth_request /auth; location / { return 204; }".to_owned(),
    ] {
        let (config, notes) = converted(&format!("server {{ listen 80; {server} }}"));
        assert!(config.contains("[[service]]") && !config.contains("forward-auth"), "{config}\n{notes:?}");
    }
}

#[test]
fn a_decision_that_may_differ_is_refused() {
    let to = "proxy_pass http://10.0.0.9;";
    let of_user = "auth_request_set $u $upstream_http_x_auth_user; proxy_set_header";
    for (settings, location, refused) in [
        // The server would not receive by what it decides.
        (
            "",
            format!("{to} proxy_set_header Host $host; proxy_set_header X-Original-URI $request_uri;"),
            "proxy_set_header X-Original-URI $request_uri",
        ),
        (
            "",
            format!("{to} proxy_set_header Host $host; proxy_set_header X-Site intern;"),
            "proxy_set_header X-Site intern",
        ),
        (
            "",
            format!("{to} proxy_set_header Host $host; proxy_set_header Cookie '';"),
            "proxy_set_header Cookie ",
        ),
        ("", "proxy_pass https://10.0.0.9;".to_owned(), "proxy_pass https://10.0.0.9"),
        ("", "proxy_pass http://10.0.0.9$request_uri;".to_owned(), "proxy_pass http://10.0.0.9$request_uri"),
        ("", "proxy_pass http://10.0.0.9/a?b=c;".to_owned(), "proxy_pass http://10.0.0.9/a?b=c"),
        ("", format!("{to} error_page 403 =200 /b;"), "error_page 403 =200 /b"),
        ("", format!("{to} proxy_method POST;"), "proxy_method POST"),
        ("", "return 200;".to_owned(), "auth_request /auth"),
        // Fields have their names.
        (
            &*format!(
                "{of_user} X-Email $u; auth_request_set $v $upstream_http_x_other_user; proxy_set_header X-V $v;"
            ),
            to.to_owned(),
            "proxy_set_header X-Email $u",
        ),
        (
            "auth_request_set $m $upstream_http_x_mail; proxy_set_header X-Email $m;",
            to.to_owned(),
            "proxy_set_header X-Email $m",
        ),
    ] {
        let (config, notes) = with_auth(settings, &location);
        assert!(notes.contains(&format!("refused {refused}")), "{settings} {location}: {notes:?}");
        assert!(!config.contains("[[service]]"), "{config}");
    }
    // A name by which the server may decide.
    let (config, _) = converted(&format!(
        "server {{ listen 80; location / {{ auth_request /auth; {PASS} }} location = /auth {{ internal; proxy_pass http://auth.test; }} }}"
    ));
    assert!(!config.contains("[[service]]"), "{config}");
    // An expression could take the path, or there is no location for it.
    for more in ["location ~ ^/a { return 204; } location /au { proxy_pass http://10.0.0.9; }", ""] {
        let (config, notes) = converted(&format!(
            "server {{ listen 80; {more} location /b {{ auth_request /auth; {PASS} }} }}"
        ));
        assert!(notes.contains(&"refused auth_request /auth".to_owned()), "{notes:?}");
        assert!(!config.contains("[[service]]"), "{config}");
    }
    // Below an exact path, requests would go past the server.
    let (_, notes) = converted(&format!(
        "server {{ listen 80; auth_request /auth; location / {{ {PASS} }} location = /open {{ auth_request off; {PASS} }}
         location = /auth {{ internal; proxy_pass http://10.0.0.9; proxy_set_header Host $host; }} }}"
    ));
    assert!(notes.contains(&"refused location = /open".to_owned()), "{notes:?}");
}

#[test]
fn one_of_several_conditions_is_refused_unless_it_is_the_only_one() {
    let password = "auth_basic a; auth_basic_user_file /u;";
    let of = |rules: &str| {
        converted(&format!("server {{ listen 80; location / {{ satisfy any; {rules} {PASS} }} }}"))
    };
    for (rules, expected, absent) in [
        (password.to_owned(), "basic-auth", "clients"),
        ("allow 10.0.0.0/8; deny all;".to_owned(), "allow-clients = [\"10.0.0.0/8\"]", "basic-auth"),
        (format!("{password} deny all;"), "basic-auth", "clients"),
        (format!("{password} deny 10.0.0.1;"), "basic-auth", "clients"),
        (String::new(), "backend", "clients"),
    ] {
        let (config, notes) = of(&rules);
        assert!(config.contains(expected) && !config.contains(absent), "{rules}\n{config}\n{notes:?}");
    }
    for rules in [
        format!("allow 10.0.0.0/8; deny all; {password}"),
        "allow all; auth_request /auth;".to_owned(),
        format!("auth_request /auth; {password}"),
    ] {
        let (config, notes) = of(&rules);
        assert!(notes.contains(&"refused satisfy any".to_owned()), "{rules}: {notes:?}");
        assert!(!config.contains("[[service]]"), "{config}");
    }
    let (config, _) = converted(&format!(
        "server {{ listen 80; location / {{ satisfy all; allow 10.0.0.0/8; deny all; {password} {PASS} }} }}"
    ));
    assert!(config.contains("basic-auth") && config.contains("allow-clients"), "{config}");
}

#[test]
fn copies_have_the_path_that_the_backend_receives() {
    let of = |settings: &str, pass: &str, mirror: &str| {
        converted(&format!(
            "server {{ listen 80; location /a/ {{ {settings} {pass} proxy_redirect off; }} location = /m {{ internal; {mirror} }} location / {{ return 204; }} }}"
        ))
    };
    let (pass, copy) = ("proxy_pass http://a:1;", "proxy_pass http://10.0.0.9:1$request_uri;");
    let (config, notes) = of("mirror /m;", pass, copy);
    assert!(config.contains("mirror = { to = [\"10.0.0.9:1\"], content = \"1MiB\" }"), "{config}\n{notes:?}");
    let (config, _) = of("mirror /m; mirror_request_body off;", pass, copy);
    assert!(config.contains("content = \"0B\""), "{config}");
    let (config, _) = of("mirror off;", pass, copy);
    assert!(config.contains("[[service]]") && !config.contains("mirror"), "{config}");
    for (settings, pass, copy) in [
        ("mirror /m;", pass, "proxy_pass http://10.0.0.9:1;"),
        ("mirror /m;", pass, "proxy_pass http://10.0.0.9:1/b$request_uri;"),
        ("mirror /m;", pass, "proxy_pass https://10.0.0.9:1$request_uri;"),
        ("mirror /m;", "proxy_pass http://a:1/b/;", copy),
        ("mirror /m; mirror /n;", pass, copy),
        ("mirror /n;", pass, copy),
        ("mirror /m;", "root /srv;", copy),
    ] {
        let (config, notes) = of(settings, pass, copy);
        assert!(!config.contains("[[service]]"), "{settings} {pass} {copy}\n{config}\n{notes:?}");
    }
}

#[test]
fn connections_are_limited_for_a_whole_address() {
    let zones = "limit_conn_zone $binary_remote_addr zone=a:1m; limit_conn_zone $server_name zone=s:1m; limit_conn_zone $uri zone=u:1m;";
    let of = |servers: &str| converted(&format!("{zones} upstream u {{ server a:1; }} {servers}"));
    let location = format!("location / {{ {PASS} }}");
    for (servers, expected) in [
        (
            format!("server {{ listen 80; limit_conn a 5; {location} }}"),
            "\nmax-connections-per-address = 5\n",
        ),
        (format!("server {{ listen 80; limit_conn s 50; {location} }}"), "\nmax-connections = 50\n"),
        (format!("server {{ listen 80; limit_conn a 5; limit_conn_dry_run on; {location} }}"), "[[service]]"),
    ] {
        let (config, notes) = of(&servers);
        assert!(config.contains(expected), "{servers}\n{config}\n{notes:?}");
        assert_eq!(config.contains("max-connections"), expected.contains("max-connections"), "{config}");
    }
    for servers in [
        format!("server {{ listen 80; location / {{ limit_conn a 5; {PASS} }} }}"),
        format!("server {{ listen 80; limit_conn u 5; {location} }}"),
        format!("server {{ listen 80; limit_conn x 5; {location} }}"),
        format!("server {{ listen 80; limit_conn a 0; {location} }}"),
        format!("server {{ listen 80; http2 on; limit_conn a 5; {location} }}"),
        format!("server {{ listen 80; real_ip_header X-Real-IP; limit_conn a 5; {location} }}"),
        format!(
            "server {{ listen 80; limit_conn a 5; {location} }} server {{ listen 80; server_name b; {location} }}"
        ),
        format!(
            "server {{ listen 80; limit_conn s 5; {location} }} server {{ listen 80; limit_conn s 5; server_name b; {location} }}"
        ),
    ] {
        let (config, notes) = of(&servers);
        assert!(!config.contains("[[service]]"), "{servers}\n{config}\n{notes:?}");
    }
}

#[test]
fn an_internal_location_is_not_there_for_clients() {
    let (config, notes) = converted(&format!(
        "server {{ listen 80; location /i/ {{ internal; future_directive on; proxy_pass http://b:1; }} location / {{ {PASS} }} }}"
    ));
    assert!(
        config.contains("path = \"/i/\"\nrespond = 404") && !config.contains("b:1"),
        "{config}\n{notes:?}"
    );
    assert!(!config.contains("redirect"), "{config}");
    // The content of requests for it would be forwarded.
    let (config, _) =
        converted(&format!("server {{ listen 80; location / {{ proxy_pass_request_body off; {PASS} }} }}"));
    assert!(!config.contains("[[service]]"), "{config}");
}

#[test]
fn a_client_certificate_is_named_as_far_as_it_is_the_same() {
    let of = |tls: &str, value: &str| {
        converted(&format!(
            "server {{ listen 443 ssl; ssl_certificate /c; ssl_certificate_key /k; {tls} location / {{ proxy_set_header X-Client {value}; {PASS} }} }}"
        ))
    };
    let on = "ssl_verify_client on; ssl_client_certificate /ca;";
    let optional = "ssl_verify_client optional; ssl_client_certificate /ca;";
    for (tls, value, expected) in [
        (on, "$ssl_client_verify", "X-Client: SUCCESS"),
        ("", "$ssl_client_verify", "X-Client: NONE"),
        (optional, "$ssl_client_escaped_cert", "X-Client: {client-certificate-pem}"),
        (optional, "$ssl_client_s_dn", "X-Client: {client-subject}"),
    ] {
        let (config, notes) = of(tls, value);
        assert!(config.contains(expected), "{tls} {value}\n{config}\n{notes:?}");
    }
    for (tls, value) in [
        (optional, "$ssl_client_verify"),
        ("ssl_verify_client optional_no_ca;", "$ssl_client_verify"),
        (on, "$ssl_client_fingerprint"),
        (on, "$ssl_client_cert"),
        (on, "$ssl_client_serial"),
        (on, "$ssl_client_i_dn"),
    ] {
        let (config, notes) = of(tls, value);
        assert!(!config.contains("[[service]]"), "{tls} {value}\n{config}\n{notes:?}");
    }
}

/// A page of a location is not that of its server.
#[test]
fn a_location_has_its_own_pages_for_errors() {
    let (config, notes) = converted(&format!(
        "server {{ listen 80; root /srv; error_page 502 /a.html; location / {{ {PASS} }}
         location /b/ {{ error_page 502 /b.html; {PASS} }} location /c/ {{ error_page 401 = @login; {PASS} }} }}"
    ));
    assert!(config.contains("error-pages = { 502 = \"/srv/b.html\" }"), "{config}\n{notes:?}");
    assert!(config.contains("error-pages = { 502 = \"/srv/a.html\" }"), "{config}");
    assert!(notes.contains(&"approximated error_page 401 = @login".to_owned()), "{notes:?}");
    // A page that only redirects is left out, with that note; a backend is not.
    for (login, is_kept) in [("return 302 /in;", true), ("proxy_pass http://b:1;", false)] {
        let (config, notes) = converted(&format!(
            "server {{ listen 80; location / {{ error_page 401 = @login; {PASS} }} location @login {{ {login} }} }}"
        ));
        assert_eq!(config.contains("[[service]]"), is_kept, "{login}\n{config}\n{notes:?}");
    }
}
