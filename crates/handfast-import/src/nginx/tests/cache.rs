//! Tests of `proxy_cache` and its kin.

use super::converted;

const PASS: &str = "proxy_pass http://a:1; proxy_redirect off;";

/// A location that is cached, with more settings; and the settings of the folder.
fn cached(folder: &str, settings: &str) -> (String, Vec<String>) {
    converted(&format!(
        "proxy_cache_path /var/cache/n {folder} keys_zone=z:10m; upstream u {{ server a:1; }}
         server {{ listen 80; location /a/ {{ proxy_cache z; {settings} {PASS} }} location / {{ {PASS} }} }}"
    ))
}

#[test]
fn responses_are_cached_where_nginx_caches_them() {
    for (folder, settings, expected) in [
        (
            "max_size=10g",
            "",
            "[service.cache]\nfolder = \"/var/cache/n-http-80\"\nsize = \"10GiB\"\nstale-if-error = \"off\"\nclient-directives = false\n",
        ),
        (
            "max_size=1k",
            "proxy_cache_use_stale error updating http_500;",
            "size = \"1MiB\"\nstale-if-error = \"off\"\n",
        ),
        ("", "proxy_cache_bypass $http_cache_control;", "stale-if-error = \"off\"\n\n"),
        ("", "proxy_cache_key $scheme://$host$uri$is_args$args;", "[service.cache]"),
        (
            "",
            "proxy_cache_bypass $http_upgrade $http_pragma; proxy_no_cache $http_upgrade 0;",
            "[service.cache]",
        ),
        ("", "add_header X-Cache $upstream_cache_status;", "[service.cache]"),
    ] {
        let (config, notes) = cached(folder, settings);
        assert!(config.contains(expected), "{folder} {settings}\n{config}\n{notes:?}");
        // The other location.
        assert_eq!(config.matches("cache = false").count(), 1, "{config}");
        assert!(!config.contains("X-Cache"), "{config}");
    }
}

/// A response for one client must not be one that nginx does not keep.
#[test]
fn nothing_is_cached_where_more_than_the_url_decides() {
    for (settings, option) in [
        (
            "proxy_cache_key $host$request_uri$cookie_session;",
            "proxy_cache_key $host$request_uri$cookie_session",
        ),
        ("proxy_cache_key \"$uri ${http_accept_language}\";", "proxy_cache_key $uri ${http_accept_language}"),
        ("proxy_cache_bypass $cookie_session;", "proxy_cache_bypass $cookie_session"),
        ("proxy_cache_bypass $http_authorization;", "proxy_cache_bypass $http_authorization"),
        (
            "proxy_no_cache $http_pragma $http_authorization;",
            "proxy_no_cache $http_pragma $http_authorization",
        ),
        ("proxy_no_cache 1;", "proxy_no_cache 1"),
    ] {
        let (config, notes) = cached("", settings);
        assert!(config.contains("[[service]]") && !config.contains("cache"), "{settings}\n{config}");
        assert!(notes.contains(&format!("approximated {option}")), "{settings}: {notes:?}");
    }
    for settings in ["proxy_cache off;", "proxy_buffering off;"] {
        let (config, _) = cached("", settings);
        assert!(
            config.contains("[[service]]") && !config.contains("[service.cache]"),
            "{settings}\n{config}"
        );
    }
    let (config, notes) =
        converted(&format!("server {{ listen 80; location / {{ proxy_cache z; {PASS} }} }}"));
    assert!(config.contains("[[service]]") && !config.contains("[service.cache]"), "{config}");
    assert!(notes.contains(&"approximated proxy_cache z".to_owned()), "{notes:?}");
}

#[test]
fn a_service_has_one_cache() {
    let (config, notes) = converted(&format!(
        "proxy_cache_path /x keys_zone=x:1m max_size=1g; proxy_cache_path /y keys_zone=y:1m max_size=2g; upstream u {{ server a:1; }}
         server {{ listen 80; location /x/ {{ proxy_cache x; {PASS} }} location / {{ proxy_cache y; {PASS} }} }}
         server {{ listen 81; location / {{ proxy_cache x; {PASS} }} }}"
    ));
    assert!(
        config.contains("folder = \"/x-http-80\"") && config.contains("folder = \"/x-http-81\""),
        "{config}"
    );
    assert!(notes.contains(&"approximated proxy_cache y".to_owned()), "{notes:?}");
}
