//! Values as people type them.

use super::*;

#[test]
fn sizes() {
    for (text, bytes) in
        [("0", 0), ("4096", 4096), ("4KiB", 4096), ("4k", 4096), ("1MiB", 1 << 20), ("2g", 2 << 30)]
    {
        assert_eq!(size(text), Ok(bytes), "{text}");
    }
    for text in ["", "k", "-1", "4 KiB", "4.5k", "4KiBs", "99999999999999999999", "18446744073709551615k"] {
        assert!(size(text).is_err(), "{text}");
    }
    assert!(size("4kB").unwrap_err().to_string().contains("`4KiB`"));
}

#[test]
fn times() {
    let time = |text| super::time(text).map(|time| time.as_millis());
    for (text, milliseconds) in [
        ("10s", 10_000),
        ("500ms", 500),
        ("1m30s", 90_000),
        ("1.5s", 1500),
        ("1h", 3_600_000),
        ("168h", 604_800_000),
    ] {
        assert_eq!(time(text), Ok(milliseconds), "{text}");
    }
    for text in ["", "s", "-1s", "0s", "30s1m", "1s1s", "10x", "1..5s", "169h", "1e9h", "nans"] {
        assert!(time(text).is_err(), "{text}");
    }
    assert!(time("10").unwrap_err().to_string().contains("`10s`"));
}

#[test]
fn rates_and_ramps() {
    let whole = |from, to| Ok(RateStages { stages: vec![Stage { from, to, share: 1.0 }], length: None });
    assert_eq!(rates("500"), whole(500.0, 500.0));
    assert_eq!(rates("2.5k"), whole(2500.0, 2500.0));
    assert_eq!(rates("0.5/s"), whole(0.5, 0.5));
    assert_eq!(rates("100..2k"), whole(100.0, 2000.0));
    assert_eq!(rates("0..5"), whole(0.0, 5.0));
    for text in ["", "0", "-5", "inf", "nan", "1e3", "100..", "..5", "0..0", "1..2..3", "11000k"] {
        assert!(rates(text).is_err(), "{text}");
    }
}

#[test]
fn think_times() {
    let ms = Duration::from_millis;
    assert_eq!(think("200ms"), Ok(Think { least: ms(200), most: ms(200) }));
    assert_eq!(think("100ms..0.5s"), Ok(Think { least: ms(100), most: ms(500) }));
    assert_eq!(think("0s..1s"), Ok(Think { least: ms(0), most: ms(1000) }));
    for text in ["", "0s", "200", "..1s", "1s..", "5s..1s", "0s..0s", "1s..2s..3s", "1s..200h"] {
        assert!(think(text).is_err(), "{text}");
    }
}

#[test]
fn stages_have_lengths() {
    let stage = |from, to, share| Stage { from, to, share };
    let read = rates("0..500@30s, 500@2m,0@500ms,1k..0@1m30s").expect("four stages");
    let stages = vec![
        stage(0.0, 500.0, 30.0),
        stage(500.0, 500.0, 120.0),
        stage(0.0, 0.0, 0.5),
        stage(1000.0, 0.0, 90.0),
    ];
    assert_eq!(read, RateStages { stages, length: Some(Duration::from_millis(240_500)) });
    assert_eq!(rates("5@1m").map(|read| read.length), Ok(Some(Duration::from_secs(60))));
    for text in
        ["5@", "5@0s", "@5s", "5@1s,", "5@1s,,6@1s", "0@1s", "0@1s,0..0@2s", "5@100h,6@100h", "5@1s@2s"]
    {
        assert!(rates(text).is_err(), "{text}");
    }
    let message_for = |text: &str| rates(text).expect_err(text).to_string();
    assert!(
        message_for("5@1s,6").contains("has a stage without a length, expected one for each"),
        "{}",
        message_for("5@1s,6")
    );
    let many = vec!["1@1s"; STAGES + 1].join(",");
    assert_eq!(message_for(&many), "1001 stages, expected at most 1000");
}

#[test]
fn shares() {
    assert_eq!(share("0.7"), Ok(0.7));
    assert_eq!(share("70%"), Ok(0.7));
    assert_eq!(share("1"), Ok(1.0));
    for text in ["", "%", "1.1", "-0.1", "101%", "nan", "inf"] {
        assert!(share(text).is_err(), "{text}");
    }
}

#[test]
fn numbers_and_lists() {
    assert_eq!(number("3", 1, 9), Ok(3));
    for text in ["", "0", "10", "-1", "3.0"] {
        assert!(number(text, 1, 9).is_err(), "{text}");
    }
    assert_eq!(list("1.3, 1.2"), Ok(vec!["1.3".into(), "1.2".into()]));
    assert!(list("a,,b").is_err());
    assert!(list("").is_err());
}

#[test]
fn one_address_or_a_block() {
    let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
    assert_eq!(sources("10.0.0.7"), Ok(vec![ip("10.0.0.7")]));
    assert_eq!(sources("::1"), Ok(vec![ip("::1")]));
    let block = sources("127.1.0.77/30").expect("a block");
    assert_eq!(block, [ip("127.1.0.76"), ip("127.1.0.77"), ip("127.1.0.78"), ip("127.1.0.79")]);
    assert_eq!(sources("10.0.0.7/32"), Ok(vec![ip("10.0.0.7")]));
    assert_eq!(sources("fd00::/126").expect("a block").last(), Some(&ip("fd00::3")));
    assert_eq!(sources("127.1.0.0/20").map(|all| all.len()), Ok(SOURCES));
    for text in
        ["", "10.0.0", "10.0.0.0/33", "10.0.0.0/-1", "/24", "127.0.0.0/19", "fd00::/64", "::/0", "0.0.0.0/0"]
    {
        assert!(sources(text).is_err(), "{text}");
    }
}

#[test]
fn targets() {
    let plain =
        |host: &str, port| Ok(Aim { target: Target { host: host.into(), port, plain: false }, http: None });
    assert_eq!(aim("localhost:8443"), plain("localhost", 8443));
    assert_eq!(aim("[::1]:443"), plain("::1", 443));
    assert_eq!(aim("127.0.0.1:1"), plain("127.0.0.1", 1));
    let http = |text: &str| aim(text).map(|aim| (aim.target.host, aim.target.port, aim.http.unwrap()));
    let page = |host: &str, port, authority: &str, path: &str| {
        Ok((host.to_owned(), port, (authority.to_owned(), path.to_owned())))
    };
    assert_eq!(http("https://a.example"), page("a.example", 443, "a.example", "/"));
    assert_eq!(http("https://a.example:8443/x?y=1#z"), page("a.example", 8443, "a.example:8443", "/x?y=1"));
    assert_eq!(http("HTTPS://a.example/X"), page("a.example", 443, "a.example", "/X"));
    assert_eq!(http("HTTP://a.example/"), page("a.example", 80, "a.example", "/"));
    assert!(aim("http://a.example:8080/").is_ok_and(|aim| aim.target.plain && aim.target.port == 8080));
    assert!(aim("https://a.example/").is_ok_and(|aim| !aim.target.plain));
    assert_eq!(http("https://[::1]:8443?q"), page("::1", 8443, "[::1]:8443", "/?q"));
    for text in
        ["", ":443", "a:", "a:0", "a:65536", "::1:443", "[::1]", "[::1]443", "[a]:443", "a b:443", "a:443/x"]
    {
        assert!(aim(text).is_err(), "{text}");
    }
    for text in [
        "https://",
        "https://:443/",
        "https://u@a/",
        "https://a/\u{e4}",
        "https://a/ b",
        "http://",
        "http://a:0/",
        "ftp://a/",
    ] {
        assert!(aim(text).is_err(), "{text}");
    }
    assert!(aim("localhost").unwrap_err().to_string().contains("localhost:443"));
}
