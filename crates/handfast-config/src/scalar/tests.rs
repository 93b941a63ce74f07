//! Tests of `../scalar.rs`: each table holds what is read, and what is refused with which words.

use proptest::prelude::*;

use super::*;

fn folder() -> &'static Path {
    Path::new("/etc/handfast")
}

/// The problem and the hint, in one text.
fn words(fault: &Fault) -> String {
    format!("{} | {}", fault.what, fault.hint.as_deref().unwrap_or("-"))
}

#[test]
fn durations_and_sizes_are_refused_with_the_cure() {
    let table = [
        (duration("10").map(|_| ()), "invalid duration `10`: no unit | write `10s` for seconds"),
        (duration("10sec").map(|_| ()), "invalid duration `10sec` | the unit `sec` is written `s`"),
        (duration("1.5ms").map(|_| ()), "invalid duration `1.5ms`: finer than a millisecond | -"),
        (size("16384").map(|_| ()), "invalid size `16384`: no unit | write `16384B` for bytes"),
        (size("16k").map(|_| ()), "invalid size `16k` | write `16KiB`"),
    ];
    for (read, expected) in table {
        assert_eq!(read.as_ref().map_err(words), Err(expected.to_owned()));
    }
    assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1_500)));
    assert_eq!(size("16KiB"), Ok(16_384));
}

#[test]
fn modes_are_octal_text() {
    assert_eq!(mode("0660"), Ok(0o660));
    assert_eq!(mode("600"), Ok(0o600));
    for text in ["", "66", "0888", "1777", "0o660", "rw-rw----", "+660", "00660"] {
        assert!(mode(text).is_err(), "{text}");
    }
}

#[test]
fn listeners_are_addresses() {
    let ip = |text: &str| Address::Ip(text.parse().unwrap());
    let table = [
        ("127.0.0.1:8443", ip("127.0.0.1:8443")),
        ("[::1]:8443", ip("[::1]:8443")),
        ("*:8443", ip("[::]:8443")),
        ("0.0.0.0:443", ip("0.0.0.0:443")),
        ("127.0.0.1:0", ip("127.0.0.1:0")),
        ("unix:/run/x.sock", Address::Unix("/run/x.sock".into())),
        ("unix:///run/x.sock", Address::Unix("/run/x.sock".into())),
        ("unix:x.sock", Address::Unix("/etc/handfast/x.sock".into())),
    ];
    for (text, address) in table {
        assert_eq!(listen_address(text, folder()), Ok(address), "{text}");
    }
}

#[test]
fn wrong_listeners_are_refused_with_the_cure() {
    let table = [
        ("8443", "write `*:8443` for every address of this machine"),
        (":8443", "write `*:8443` for every address of this machine"),
        ("127.0.0.1", "add a port: `127.0.0.1:8443`"),
        ("::1", "add a port: `[::1]:8443`"),
        ("[::1]", "add a port: `[::1]:8443`"),
        ("::1:8443", "add a port: `[::1:8443]:8443`"),
        ("2001:db8:0:0:0:0:0:1:443", "write IPv6 addresses in brackets: `[2001:db8:0:0:0:0:0:1]:443`"),
        ("localhost:8443", "names are not listened on; write [\"127.0.0.1:8443\", \"[::1]:8443\"]"),
        ("www.example.org:443", "listen on an address of this machine, or on `*` for all of them"),
        ("127.0.0.1:65536", "ports are 1 to 65535"),
        ("127.0.0.1:", "ports are 1 to 65535"),
        ("127.0.0.256:80", "an IPv4 address is four numbers from 0 to 255"),
        ("*:http", "ports are 1 to 65535"),
        ("/run/x.sock", "write `unix:/run/x.sock` for a unix socket"),
        ("https://127.0.0.1:8443/", "write an address without a scheme: `127.0.0.1:8443`"),
        ("unix:@name", "abstract sockets are not supported: they have no owner and no mode"),
    ];
    for (text, hint) in table {
        let fault = listen_address(text, folder()).expect_err(text);
        assert_eq!(fault.hint.as_deref(), Some(hint), "{text}");
        assert!(fault.allowed.is_some(), "{text}");
    }
}

#[test]
fn unix_paths_that_the_kernel_would_cut_are_refused() {
    let longest = format!("unix:/{}", "x".repeat(106));
    assert!(listen_address(&longest, folder()).is_ok());
    let fault = listen_address(&format!("{longest}x"), folder()).expect_err("one byte too long");
    assert_eq!(fault.what, "the path of a unix socket has at most 107 bytes; this one has 108");
    assert_eq!(
        listen_address("unix:", folder()).expect_err("no path").what,
        "`unix:` is not followed by a path"
    );
}

#[test]
fn backends_are_addresses_or_names() {
    let table = [
        ("127.0.0.1:8080", Target::Address(Address::Ip("127.0.0.1:8080".parse().unwrap()))),
        ("[2001:db8::1]:80", Target::Address(Address::Ip("[2001:db8::1]:80".parse().unwrap()))),
        ("localhost:80", Target::Name("localhost".to_owned(), 80)),
        ("Web_1.Example.org:80", Target::Name("web_1.example.org".to_owned(), 80)),
        ("example.org.:80", Target::Name("example.org.".to_owned(), 80)),
        ("unix:/run/x.sock", Target::Address(Address::Unix("/run/x.sock".into()))),
    ];
    for (text, expected) in table {
        assert_eq!(target(text, folder()), Ok(expected), "{text}");
    }
}

#[test]
fn wrong_backends_are_refused_with_the_cure() {
    let table = [
        ("0.0.0.0:80", "write `127.0.0.1:80` or `[::1]:80` for this machine"),
        ("*:80", "write `127.0.0.1:80` for this machine"),
        (":80", "write `127.0.0.1:80` for this machine"),
        ("8080", "write `127.0.0.1:8080` for this machine"),
        ("127.0.0.1:0", "a backend's port is 1 to 65535"),
        ("http://127.0.0.1:80/", "write an address without a scheme: `127.0.0.1:80`"),
        ("http://web/", "write an address without a scheme: `web`"),
        ("127.0.0.1", "add a port: `127.0.0.1:8080`"),
        ("127.0.0.300:80", "an IPv4 address is four numbers from 0 to 255"),
        ("web:http", "ports are 1 to 65535"),
        ("web:0", "ports are 1 to 65535"),
        ("w eb:80", "names consist of letters, digits, `-` and `_`"),
        (
            "bücher.example:80",
            "names consist of letters, digits, `-` and `_`; names in other scripts are written as `xn--…`",
        ),
        ("/run/x.sock", "write `unix:/run/x.sock` for a unix socket"),
    ];
    for (text, hint) in table {
        let fault = target(text, folder()).expect_err(text);
        assert_eq!(fault.hint.as_deref(), Some(hint), "{text}");
        assert!(fault.allowed.is_some(), "{text}");
    }
}

#[test]
fn server_names_are_names_or_wildcards() {
    for (text, name) in [
        ("WWW.Example.org", "www.example.org"),
        ("*.example.org", "*.example.org"),
        ("localhost", "localhost"),
    ] {
        assert_eq!(name_pattern(text), Ok(name.to_owned()), "{text}");
    }
    let long_label = format!("{}.org", "x".repeat(64));
    let table = [
        ("*", "`*` matches the whole first part, and is allowed nowhere else"),
        ("127.0.0.1", "clients send no server name for addresses (RFC 6066, section 3)"),
        ("[::1]", "clients send no server name for addresses (RFC 6066, section 3)"),
        ("https://example.org", "a name alone, without scheme, port or path"),
        ("example.org:443", "a name alone, without scheme, port or path"),
        ("a.*.example.org", "`*` matches the whole first part, and is allowed nowhere else"),
        ("w*.example.org", "`*` matches the whole first part, and is allowed nowhere else"),
        ("example.org.", "a name has no empty parts: one dot between two parts, none at the ends"),
        ("", "a name has no empty parts: one dot between two parts, none at the ends"),
        (
            "bücher.example",
            "names consist of letters, digits, `-` and `_`; names in other scripts are written as `xn--…`",
        ),
        ("-a.example", "a part of a name neither begins nor ends with `-`, as `-a` does"),
        (&long_label, &format!("a part of a name has at most 63 bytes; `{}` has 64", "x".repeat(64))),
    ];
    for (text, hint) in table {
        let fault = name_pattern(text).expect_err(text);
        assert_eq!(fault.hint.as_deref(), Some(hint), "{text}");
    }
}

#[test]
fn odd_protocols_are_noticed_and_private_ones_are_not() {
    for (text, meant) in
        [("http2", "h2"), ("HTTP/1.1", "http/1.1"), ("http1.1", "http/1.1"), ("postgres", "postgresql")]
    {
        let hint = odd_protocol(text).and_then(|fault| fault.hint);
        assert_eq!(hint, Some(format!("did you mean `{meant}`?")), "{text}");
    }
    assert!(odd_protocol("h3").is_some());
    for text in ["h2", "http/1.1", "my-protocol/3", "x"] {
        assert_eq!(odd_protocol(text), None, "{text}");
    }
    assert!(protocol("").is_err());
    assert!(protocol(&"x".repeat(256)).is_err());
}

proptest! {
    #[test]
    fn no_text_makes_a_parser_panic(text in "\\PC{0,40}") {
        let _ = duration(&text);
        let _ = size(&text);
        let _ = mode(&text);
        let _ = listen_address(&text, folder());
        let _ = target(&text, folder());
        let _ = name_pattern(&text);
        let _ = protocol(&text).map(|protocol| odd_protocol(&protocol));
    }

    #[test]
    fn texts_that_look_right_do_not_panic_either(text in "(unix:|\\*|\\[|http://)?[0-9a-f:.*/]{0,20}\\]?:?[0-9]{0,6}") {
        let _ = listen_address(&text, folder());
        let _ = target(&text, folder());
        let _ = name_pattern(&text);
    }

    #[test]
    fn durations_come_back_as_they_were_shown(milliseconds in 0_u64..10_000_000_000) {
        let original = Duration::from_millis(milliseconds);
        prop_assert_eq!(duration(&handfast_text::duration::written(original)), Ok(original));
    }

    #[test]
    fn sizes_come_back_as_they_were_shown(bytes in 0_u64..1 << 40) {
        prop_assert_eq!(size(&handfast_text::size::written(bytes)), Ok(bytes));
    }
}
