//! The same file, run by the program that it was written for and, imported, by ours: the same clients see the same.
//!
//! Each client's outcome is also written down here, so that two programs which both serve nothing are not taken for equal.

use std::io::{self, Read, Write};
use std::net::SocketAddr;

use super::support::backend::{Backend, Peer};
use super::support::certificates::{Authority, Identity, KeyKind, authority};
use super::support::client::{Client, dial};
use super::support::deadline::wait_until;
use super::support::folder::Folder;
use super::support::proxy::{PROGRAM, Proxy};
use super::support::servers::address_of_ones_own;
use super::support::skip::{needs, skipped};
use super::support::tools::{self, Tool};
use super::support::trust::{Trust, Version};

/// Behavior of a client.
#[derive(Clone, Copy, Debug)]
enum ClientKind {
    /// Asks for a name in this version and shows a certificate, or none.
    Tls(&'static str, Version, Shows),
    /// Speaks in plain text.
    Plain,
}

#[derive(Clone, Copy, Debug)]
enum Shows {
    Nothing,
    /// One of the authority that the configuration names, for this name.
    Known(&'static str),
    /// One that another authority signed.
    Strange,
}

use ClientKind::{Plain, Tls};
use Shows::{Known, Nothing, Strange};
use Version::{Tls12, Tls13};

/// A configuration, and what becomes of clients.
struct Case {
    /// `@LISTEN@`, `@ONE@`, `@TWO@`, `@PROXY@`, `@CA@`, `@CERT@` (localhost), `@OTHER@` (other.test) are replaced by those of the test.
    config: &'static str,
    clients: &'static [(ClientKind, &'static str)],
}

const STUNNEL: [Case; 12] = [
    Case {
        config: "[web]\naccept = @LISTEN@\nconnect = @ONE@\ncert = @CERT@\n",
        clients: &[(Tls("localhost", Tls13, Nothing), "one"), (Tls("localhost", Tls12, Nothing), "one")],
    },
    Case {
        config: "cert = @CERT@\nsslVersionMin = TLSv1.3\n[web]\naccept = @LISTEN@\nconnect = @ONE@\n",
        clients: &[(Tls("localhost", Tls13, Nothing), "one"), (Tls("localhost", Tls12, Nothing), "refused")],
    },
    Case {
        config: "[web]\naccept = @LISTEN@\nconnect = @ONE@\ncert = @CERT@\nverifyChain = yes\nCAfile = @CA@\n",
        clients: &[
            (Tls("localhost", Tls12, Known("a.test")), "one"),
            (Tls("localhost", Tls12, Nothing), "refused"),
            (Tls("localhost", Tls12, Strange), "refused"),
        ],
    },
    Case {
        config: "[web]\naccept = @LISTEN@\nconnect = @ONE@\ncert = @CERT@\nverifyChain = yes\nCAfile = @CA@\n\
                 checkHost = a.test\ncheckHost = b.test\n",
        clients: &[
            (Tls("localhost", Tls12, Known("a.test")), "one"),
            (Tls("localhost", Tls12, Known("b.test")), "one"),
            (Tls("localhost", Tls12, Known("c.test")), "refused"),
        ],
    },
    Case {
        config: "[web]\naccept = @LISTEN@\nconnect = @ONE@\ncert = @CERT@\n\
                 [other]\nsni = web:other.test\nconnect = @TWO@\ncert = @OTHER@\n",
        clients: &[(Tls("localhost", Tls13, Nothing), "one"), (Tls("other.test", Tls13, Nothing), "two")],
    },
    Case {
        config: "[web]\naccept = @LISTEN@\nconnect = @ONE@\nredirect = @TWO@\ncert = @CERT@\nverifyChain = yes\nCAfile = @CA@\n",
        clients: &[
            (Tls("localhost", Tls12, Known("a.test")), "one"),
            (Tls("localhost", Tls12, Strange), "two"),
        ],
    },
    Case {
        config: "[out]\nclient = yes\naccept = @LISTEN@\nconnect = @PROXY@\nverifyChain = yes\nCAfile = @CA@\ncheckHost = localhost\n",
        clients: &[(Plain, "one")],
    },
    Case {
        config: "[out]\nclient = yes\naccept = @LISTEN@\nconnect = @PROXY@\nverifyChain = yes\nCAfile = @CA@\ncheckHost = c.test\n",
        clients: &[(Plain, "refused")],
    },
    Case {
        config: "[web]\naccept = @LISTEN@\nconnect = 127.0.0.1:1\nconnect = @TWO@\nfailover = prio\ncert = @CERT@\nprotocol = proxy\n",
        clients: &[(Tls("localhost", Tls13, Nothing), "two after PROXY TCP4")],
    },
    // After public questions: a wildcard for a name of one part more, and names that no certificate has.
    Case {
        config: "[default]\naccept = @LISTEN@\nconnect = @ONE@\ncert = @CERT@\n\
                 [all]\nsni = default:*.other.test\nconnect = @TWO@\ncert = @OTHER@\n",
        clients: &[(Tls("localhost", Tls12, Nothing), "one")],
    },
    // The mail sample of 2009 without its old versions: two services with what stands before them.
    Case {
        config: "cert = @CERT@\nsocket = l:TCP_NODELAY=1\nsocket = r:TCP_NODELAY=1\noptions = NO_SSLv2\n\
                 [pop3s]\naccept = @LISTEN@\nconnect = @ONE@\nTIMEOUTclose = 1\n",
        clients: &[(Tls("localhost", Tls12, Nothing), "one"), (Tls("localhost", Tls13, Nothing), "one")],
    },
    // Two backends in turn, the first of which is gone.
    Case {
        config: "[out]\nclient = yes\naccept = @LISTEN@\nconnect = 127.0.0.1:1\nconnect = @PROXY@\nfailover = prio\n\
                 TIMEOUTconnect = 5\nretry = yes\nsessionResume = no\n",
        clients: &[(Plain, "one"), (Plain, "one")],
    },
];

const HITCH: [Case; 8] = [
    Case {
        config: "frontend = \"@LISTEN@\"\nbackend = \"@ONE@\"\npem-file = \"@OTHER@\"\npem-file = \"@CERT@\"\n",
        clients: &[(Tls("localhost", Tls13, Nothing), "one"), (Tls("other.test", Tls12, Nothing), "one")],
    },
    Case {
        config: "frontend = \"@LISTEN@\"\nbackend = \"@ONE@\"\npem-file = \"@CERT@\"\ntls-protos = TLSv1.3\nwrite-proxy-v1 = on\n",
        clients: &[
            (Tls("localhost", Tls13, Nothing), "one after PROXY TCP4"),
            (Tls("localhost", Tls12, Nothing), "refused"),
        ],
    },
    Case {
        config: "frontend = \"@LISTEN@\"\nbackend = \"@TWO@\"\npem-file = \"@CERT@\"\nclient-verify = required\n\
                 client-verify-ca = \"@CA@\"\n",
        clients: &[
            (Tls("localhost", Tls12, Known("a.test")), "two"),
            (Tls("localhost", Tls12, Nothing), "refused"),
            (Tls("localhost", Tls12, Strange), "refused"),
        ],
    },
    Case {
        config: "frontend = \"@LISTEN@\"\nbackend = \"@ONE@\"\npem-file = \"@CERT@\"\nsni-nomatch-abort = on\n",
        clients: &[
            (Tls("localhost", Tls13, Nothing), "one"),
            (Tls("unknown.test", Tls13, Nothing), "refused"),
        ],
    },
    // After public questions: the certificates of a frontend are its own.
    Case {
        config: "backend = \"@ONE@\"\nciphers = \"ECDHE-RSA-AES128-GCM-SHA256:!LOW\"\nprefer-server-ciphers = on\nworkers = 2\n\
                 backlog = 100\nkeepalive = 3600\nsyslog = off\nwrite-proxy-v1 = on\nsni-nomatch-abort = on\n\
                 frontend = {\n host = \"@HOST@\"\n port = \"@PORT@\"\n pem-file = \"@CERT@\"\n}\n",
        clients: &[
            (Tls("localhost", Tls13, Nothing), "one after PROXY TCP4"),
            (Tls("other.test", Tls12, Nothing), "refused"),
        ],
    },
    Case {
        config: "pem-file = \"@OTHER@\"\nfrontend = {\n host = \"@HOST@\"\n port = \"@PORT@\"\n}\nbackend = \"@TWO@\"\n\
                 alpn-protos = \"h2, http/1.1\"\n",
        clients: &[(Tls("other.test", Tls13, Nothing), "two"), (Tls("localhost", Tls13, Nothing), "refused")],
    },
    // The versions of a frontend have an effect only if it has a certificate.
    Case {
        config: "pem-file = \"@CERT@\"\nfrontend = {\n host = \"@HOST@\"\n port = \"@PORT@\"\n tls-protos = TLSv1.2\n\
                 sni-nomatch-abort = on\n}\nbackend = \"@ONE@\"\n",
        clients: &[(Tls("localhost", Tls13, Nothing), "one"), (Tls("localhost", Tls12, Nothing), "one")],
    },
    Case {
        config: "frontend = {\n host = \"@HOST@\"\n port = \"@PORT@\"\n tls-protos = TLSv1.2\n\
                 pem-file = \"@CERT@\"\n}\nbackend = \"@ONE@\"\n",
        clients: &[(Tls("localhost", Tls13, Nothing), "refused"), (Tls("localhost", Tls12, Nothing), "one")],
    },
];

/// Servers and files that the configurations refer to.
struct World {
    folder: Folder,
    one: Backend,
    two: Backend,
    /// TLS in front of the first backend.
    inner: Proxy,
    words: Vec<(&'static str, String)>,
}

/// Sends its name after it has received something, and the PROXY header that came before.
fn named(name: &'static str) -> Backend {
    Backend::start(move |peer: &mut Peer| {
        let (mut received, mut buffer) = (Vec::new(), [0; 512]);
        while !received.ends_with(b"hello") {
            match peer.stream.read(&mut buffer) {
                Ok(count @ 1..) => received.extend_from_slice(&buffer[..count]),
                _ => return,
            }
        }
        let header = if received.starts_with(b"PROXY TCP4 ") { " after PROXY TCP4" } else { "" };
        let _ = peer.stream.write_all(format!("{name}{header}.").as_bytes());
    })
}

impl World {
    fn new() -> Self {
        let (folder, one, two) = (Folder::new(), named("one"), named("two"));
        let write =
            |name: &str, identity: &Identity| folder.write(name, identity.combined()).display().to_string();
        let cert = write("web.pem", &authority().identity(&["localhost"], KeyKind::Rsa));
        let other = write("other.pem", &authority().identity(&["other.test"], KeyKind::Rsa));
        let ca = folder.write("ca.pem", &authority().pem).display().to_string();
        let config = super::support::config::Config::to(&folder, one.address);
        let inner = Proxy::start(config);
        let words = vec![
            ("@ONE@", one.address.to_string()),
            ("@TWO@", two.address.to_string()),
            ("@PROXY@", inner.address().to_string()),
            ("@CA@", ca),
            ("@CERT@", cert),
            ("@OTHER@", other),
        ];
        Self { folder, one, two, inner, words }
    }

    /// A text with the files of this world.
    fn replaced(&self, text: &str) -> String {
        self.words.iter().fold(text.to_owned(), |text, (word, value)| text.replace(word, value))
    }

    /// A case's configuration, for a program that listens there.
    fn config(&self, case: &Case, listen: SocketAddr, bracketed: bool) -> String {
        let address = |text: &str| match text.rsplit_once(':') {
            Some((host, port)) if bracketed => format!("[{host}]:{port}"),
            _ => text.to_owned(),
        };
        let mut text = case.config.replace("@LISTEN@", &address(&listen.to_string()));
        text = text.replace("@HOST@", &listen.ip().to_string()).replace("@PORT@", &listen.port().to_string());
        for (word, value) in &self.words {
            let is_address = value.starts_with("127.");
            text = text.replace(word, &if is_address { address(value) } else { value.clone() });
        }
        text
    }
}

/// The outcome for a client: the backend's answer, or that it was not served.
fn outcome(kind: ClientKind, address: SocketAddr) -> String {
    match kind {
        Plain => {
            let Ok(mut stream) = dial(address) else { return "refused".into() };
            let _ = stream.write_all(b"hello");
            read_reply(|buffer| stream.read(buffer))
        }
        Tls(name, version, shows) => {
            let strange;
            let identity = match shows {
                Nothing => None,
                Known(name) => Some(authority().identity(&[name], KeyKind::Rsa)),
                Strange => {
                    strange = Authority::new("strangers");
                    Some(strange.identity(&["a.test"], KeyKind::Rsa))
                }
            };
            let trust = Trust::version(version);
            let trust = identity.iter().fold(trust, |trust, identity| trust.showing(identity));
            match Client::try_connect(address, &trust.config(), name) {
                Ok(mut client) => {
                    let _ = client.try_send(b"hello");
                    read_reply(|buffer| client.read(buffer))
                }
                Err(_) => "refused".into(),
            }
        }
    }
}

/// The answer up to its dot. The end of the connection is not awaited: stunnel takes up to a minute for it.
fn read_reply(mut read: impl FnMut(&mut [u8]) -> io::Result<usize>) -> String {
    let (mut received, mut buffer) = (Vec::new(), [0; 512]);
    while !received.ends_with(b".") {
        match read(&mut buffer) {
            Ok(count @ 1..) => received.extend_from_slice(&buffer[..count]),
            _ => break,
        }
    }
    let received = String::from_utf8_lossy(&received);
    received.strip_suffix('.').map_or_else(|| "refused".to_owned(), str::to_owned)
}

/// Asks the same of both programs. `first`: what the other one needs to run here; `theirs`: starts it on its file.
fn compare(cases: &[Case], program: &str, bracketed: bool, (first, theirs): (&str, impl Fn(&str) -> Tool)) {
    let world = World::new();
    for case in cases {
        let (there, here) = (address_of_ones_own(), address_of_ones_own());
        let old = format!("{first}{}", world.config(case, there, bracketed));
        let old = world.folder.write("old.conf", old).display().to_string();
        let _tool = theirs(&old);
        wait_until("the other program to listen", || dial(there).ok());
        let ours = world.folder.write("ours.conf", world.config(case, here, bracketed)).display().to_string();
        let ran = tools::handfast(&["import", program, &ours]);
        assert_eq!(ran.code, Some(0), "{}", ran.all());
        let proxy = Proxy::start(format!("{}\n[admin]\nlisten = \"127.0.0.1:0\"\n", ran.output));
        for (client, expected) in case.clients {
            let seen = [outcome(*client, there), outcome(*client, proxy.address())];
            assert_eq!(
                seen,
                [*expected, *expected],
                "{client:?}: {program}, then ours\n{}\n{}",
                case.config,
                ran.output
            );
        }
    }
    assert!(world.one.accepted() > 0 && world.two.accepted() > 0, "both backends were needed");
    drop(world.inner);
}

#[test]
fn of_stunnel() {
    needs!("stunnel4");
    let first = "foreground = yes\npid =\nsyslog = no\n";
    compare(&STUNNEL, "stunnel", false, (first, |file: &str| Tool::start("stunnel4", &[file])));
}

#[test]
fn of_hitch() {
    needs!("hitch");
    // It does not run as root.
    let first = if rustix::process::geteuid().is_root() { "user = \"nobody\"\n" } else { "" };
    compare(
        &HITCH,
        "hitch",
        true,
        (first, |file: &str| Tool::start("hitch", &[&format!("--config={file}")])),
    );
}

/// `proxy --stunnel` reads the old file at the start and at each reload, and one that cannot be kept changes nothing.
#[test]
fn an_old_file_runs_as_it_is() {
    let world = World::new();
    let listen = address_of_ones_own();
    let file = world.folder.write("stunnel.conf", world.config(&STUNNEL[0], listen, false));
    let tool =
        Tool::start(super::support::proxy::PROGRAM, &["proxy", "--stunnel", &file.display().to_string()]);
    tool.talk.containing("ready");
    let client = Tls("localhost", Tls13, Nothing);
    assert_eq!(outcome(client, listen), "one");
    let change = |from: &str, to: &str| {
        let text = std::fs::read_to_string(&file).expect("it is there");
        assert!(text.contains(from), "{text}");
        world.folder.replace("stunnel.conf", text.replace(from, to));
        tool.process().signal(rustix::process::Signal::HUP);
    };
    change(&world.one.address.to_string(), &world.two.address.to_string());
    wait_until("the other backend", || (outcome(client, listen) == "two").then_some(()));
    change("[web]\n", "[web]\nPSKsecrets = psk.txt\n");
    tool.talk.containing("PSKsecrets: refused");
    assert_eq!(outcome(client, listen), "two");
    // Lines of what was written are not taken for lines of the old file.
    let odd = world
        .folder
        .write("odd.conf", "[web]\naccept = 127.0.0.1:1\nconnect = 127.0.0.1:1\ncert = gone.pem\n");
    let output = tools::handfast(&["proxy", "--stunnel", &odd.display().to_string()]).all();
    assert!(output.contains("odd.conf, as imported:") && !output.contains("odd.conf:"), "{output}");
    // Wrong from the start: it does not start.
    let ran = tools::handfast(&["proxy", "--stunnel", &file.display().to_string()]);
    assert_eq!(ran.code, Some(2), "{}", ran.all());
}

/// The example files of the packages, as they are but for their addresses and users, and with the certificate that hitch needs.
#[test]
fn the_examples_of_the_packages_are_served() {
    needs!("stunnel4", "hitch");
    let world = World::new();
    for (flag, example, more) in [
        ("--stunnel", "/usr/share/doc/stunnel4/examples/stunnel.conf-sample", ""),
        ("--hitch", "/usr/share/doc/hitch/examples/hitch.conf.example", "pem-file = \"@CERT@\"\n"),
    ] {
        let Ok(text) = std::fs::read_to_string(example) else { skipped!("{example} is not installed") };
        let (mut written, mut expected) = (String::new(), 0);
        for line in text.lines() {
            let own = address_of_ones_own();
            let changed = match line.trim_start().split(' ').next() {
                Some("accept") => format!("accept = {own}"),
                Some("host") => format!("host = \"{}\"", own.ip()),
                // Debian has another one.
                Some("user" | "group") => continue,
                Some("port") => format!("port = \"{}\"", own.port()),
                _ => line.to_owned(),
            };
            expected += usize::from(changed.starts_with("accept") || changed.starts_with("port"));
            written.push_str(&format!("{changed}\n"));
        }
        let file = world
            .folder
            .write("example.conf", format!("{written}{}", world.replaced(more)))
            .display()
            .to_string();
        let tool = Tool::start(super::support::proxy::PROGRAM, &["proxy", flag, &file]);
        tool.talk.containing("ready");
        let listening = tool.talk.so_far().iter().filter(|line| line.contains("listening on")).count();
        assert!(
            expected > 0 && listening == expected,
            "{flag}: {listening} of {expected}\n{:?}",
            tool.talk.so_far()
        );
    }
}

/// A link to the program that is called as the other program takes its command line, and has its exit codes.
#[test]
fn a_link_with_the_name_of_the_other_program_takes_its_command_line() {
    let folder = Folder::new();
    let certificate =
        folder.write("web.pem", authority().identity(&["localhost"], KeyKind::Ecdsa).combined());
    let certificate = certificate.display().to_string();
    let run = |name: &str, words: &[&str]| {
        let link = folder.file(name);
        if !link.exists() {
            std::os::unix::fs::symlink(PROGRAM, &link).expect("the folder is ours");
        }
        tools::run_command(std::process::Command::new(link).args(words), b"")
    };
    let hitch = ["--test", "--backend=[127.0.0.1]:9", "--frontend=[127.0.0.1]:0", &certificate];
    let checked = run("hitch", &hitch);
    assert_eq!(checked.code, Some(0), "{}", checked.all());
    assert!(checked.all().contains("good"), "{}", checked.all());
    let wrong = run("hitch", &[&hitch[..], &["--workers=many"]].concat());
    assert_eq!(wrong.code, Some(1), "{}", wrong.all());
    assert!(wrong.all().contains("command line: workers: refused"), "{}", wrong.all());
    let unreadable = run("stunnel", &["/nowhere/stunnel.conf"]);
    assert_eq!(unreadable.code, Some(1), "{}", unreadable.all());
    assert!(unreadable.all().contains("cannot read /nowhere/stunnel.conf"), "{}", unreadable.all());
    assert_eq!(run("stunnel", &["-version"]).code, Some(0));
}
