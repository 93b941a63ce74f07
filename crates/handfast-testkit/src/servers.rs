//! Other people's servers, which count by themselves: nginx, HAProxy, stunnel and OpenSSL's own. In: what they are to ask of
//! their clients. Out: where they listen, and what they counted.
//!
//! They cannot let the kernel choose a port, so each gets a separate address in 127.0.0.0/8, where no other program looks for
//! a free port. No connection tests whether they are ready: it would be counted.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::backend::Backend;
use crate::certificates::{KeyKind, authority, localhost};
use crate::deadline::{DEADLINE, wait_until, wait_until_seeing};
use crate::folder::Folder;
use crate::tools::Tool;

/// Requirements of a server for its clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientRequirements {
    /// TLS 1.2 and nothing else.
    pub old_version: bool,
    /// A certificate of the tests' authority.
    pub certificate: bool,
}

/// Counters of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Connections.
    pub connections: u64,
    /// Requests, or sessions that got as far as the backend.
    pub requests: u64,
    /// Connections that resumed a session; `None` where the server counts something else.
    pub resumed: u64,
    /// Connections whose client showed a certificate that was believed.
    pub certified: u64,
}

/// A unique address, and a port on it that is free.
pub fn address_of_ones_own() -> SocketAddr {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    // 127.128.0.0/9 has 2^23 addresses: the lower bits of the process number, and 128 servers in each process.
    let number = NUMBER.fetch_add(1, Ordering::Relaxed) & 0x7f;
    let own = 0x7f80_0000 | (std::process::id() & 0xffff) << 7 | number;
    let listener = TcpListener::bind((Ipv4Addr::from_bits(own), 0)).expect("all of 127.0.0.0/8 is loopback");
    listener.local_addr().expect("a bound socket has an address")
}

/// Files that every server here needs.
struct Files {
    folder: Folder,
    chain: PathBuf,
    key: PathBuf,
    both: PathBuf,
    authority: PathBuf,
}

impl Files {
    fn new() -> Self {
        let folder = Folder::new();
        let (identity, authority) = (localhost(), authority());
        Self {
            chain: folder.write("chain.pem", &identity.certificate_pem),
            key: folder.write("key.pem", &identity.key_pem),
            both: folder.write("both.pem", identity.combined()),
            authority: folder.write("authority.pem", &authority.pem),
            folder,
        }
    }
}

/// Asks something of a Unix socket that answers once.
fn query_socket(socket: &Path, question: &[u8]) -> Option<String> {
    let mut stream = UnixStream::connect(socket).ok()?;
    stream.set_read_timeout(Some(DEADLINE)).ok()?;
    stream.set_write_timeout(Some(DEADLINE)).ok()?;
    stream.write_all(question).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

fn number_of(lines: impl Iterator) -> u64 {
    u64::try_from(lines.count()).expect("it fits")
}

/// nginx with one page.
pub struct Nginx {
    /// Address that it listens at.
    pub address: SocketAddr,
    tool: Tool,
    folder: Folder,
    /// Looks at its status: each is a connection that it counts too.
    status_requests: u64,
}

impl Nginx {
    /// Starts it in the foreground, as one process that needs no rights.
    pub fn start(required: ClientRequirements) -> Self {
        Self::start_for(required, &[])
    }

    /// With a separate certificate for each of these names, and TLS 1.2 as well as 1.3 for them.
    pub fn start_for(required: ClientRequirements, names: &[&str]) -> Self {
        let files = Files::new();
        let address = address_of_ones_own();
        let config = nginx_config(&files, address, required, names);
        let config = files.folder.write("nginx.conf", config).display().to_string();
        let place = files.folder.path().display().to_string();
        let tool = Tool::start("nginx", &["-p", &place, "-c", &config, "-e", "stderr"]);
        let mut nginx = Self { address, tool, folder: files.folder, status_requests: 0 };
        let talk = nginx.tool.talk.clone();
        wait_until_seeing("nginx to be ready", || nginx.status(), || talk.so_far().join("\n"));
        nginx
    }

    /// Number of connections that it accepted, and the number of open ones, this one included.
    fn status(&mut self) -> Option<(u64, u64)> {
        let answer = query_socket(&self.folder.file("status.sock"), b"GET / HTTP/1.0\r\n\r\n")?;
        self.status_requests += 1;
        let number = |words: &str| words.split_whitespace().next()?.parse().ok();
        let (_, standing) = answer.split_once("Active connections: ")?;
        let (_, accepted) = standing.split_once("requests\n")?;
        Some((number(accepted)?, number(standing)?))
    }

    /// Returns the requests as its log has them, when all connections have ended: name in SNI, version,
    /// method, path, length of the body, and the header `X-Mark`.
    pub fn requests(self) -> Vec<[String; 6]> {
        let (_, log) = self.log();
        let columns = |line: &str| -> Vec<String> { line.split(' ').skip(4).map(str::to_owned).collect() };
        log.lines().map(|line| columns(line).try_into().expect("six columns")).collect()
    }

    /// Connections that it accepted, and its log, when all have ended.
    fn log(mut self) -> (u64, String) {
        let accepted = wait_until("nginx to have closed every connection", || {
            self.status().and_then(|(accepted, standing)| (standing == 1).then_some(accepted))
        });
        self.tool.process().signal(rustix::process::Signal::QUIT);
        let ran = self.tool.ended();
        assert_eq!(ran.code, Some(0), "{}", ran.all());
        let log = std::fs::read_to_string(self.folder.file("access.log")).expect("nginx wrote a log");
        (accepted - self.status_requests, log)
    }

    /// Returns its counters, when all connections have ended.
    pub fn counted(self) -> Counted {
        let (connections, log) = self.log();
        let mut lines: Vec<Vec<&str>> = log.lines().map(|line| line.split(' ').collect()).collect();
        let requests = number_of(lines.iter());
        assert!(lines.iter().all(|line| line[3] == "200"), "{log}");
        // A connection's first line is enough to know it by.
        lines.sort_by_key(|line| line[0]);
        lines.dedup_by_key(|line| line[0]);
        Counted {
            connections,
            requests,
            resumed: number_of(lines.iter().filter(|line| line[1] == "r")),
            certified: number_of(lines.iter().filter(|line| line[2] == "SUCCESS")),
        }
    }
}

fn nginx_config(files: &Files, address: SocketAddr, required: ClientRequirements, names: &[&str]) -> String {
    let versions = match (required.old_version, names) {
        (_, [_, ..]) => "TLSv1.2 TLSv1.3",
        (true, _) => "TLSv1.2",
        (false, _) => "TLSv1.3",
    };
    let named: String = names
        .iter()
        .map(|name| {
            let identity = authority().identity(&[name], KeyKind::Ecdsa);
            let chain = files.folder.write(&format!("{name}.pem"), &identity.certificate_pem);
            let key = files.folder.write(&format!("{name}.key"), &identity.key_pem);
            format!(
                "    server {{
        listen {address} ssl; server_name {name};
        ssl_certificate {}; ssl_certificate_key {};
        keepalive_requests 1000000;
        access_log access.log counted;
        location / {{ return 200 'a page of {name}\n'; }}
        location /missing {{ return 404; }}
    }}
",
                chain.display(),
                key.display()
            )
        })
        .collect();
    let certificate = if required.certificate {
        format!("ssl_verify_client on; ssl_client_certificate {};", files.authority.display())
    } else {
        String::new()
    };
    let (chain, key) = (files.chain.display(), files.key.display());
    // A relative path would be resolved from the folder in which nginx is started, not from the file's.
    let socket = files.folder.file("status.sock");
    let socket = socket.display();
    let scratch: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("    {name}_temp_path scratch;\n"))
        .concat();
    format!(
        "daemon off; master_process off; pid nginx.pid; error_log stderr;
events {{ worker_connections 512; }}
http {{
{scratch}
    log_format counted '$connection $ssl_session_reused $ssl_client_verify $status $ssl_server_name $ssl_protocol '
        '$request_method $uri $content_length $http_x_mark';
    ssl_session_cache shared:sessions:1m;
    server {{
        listen {address} ssl;
        ssl_protocols {versions}; {certificate}
        ssl_certificate {chain}; ssl_certificate_key {key};
        keepalive_requests 1000000;
        access_log access.log counted;
        location / {{ return 200 'a page of some length\\n'; }}
    }}
{named}    server {{ listen unix:{socket}; access_log off; location / {{ stub_status; }} }}
}}
"
    )
}

/// HAProxy as a TLS end in front of an echo.
pub struct Haproxy {
    /// Address that it listens at.
    pub address: SocketAddr,
    tool: Tool,
    files: Files,
    backend: Backend,
}

impl Haproxy {
    /// Starts it in the foreground.
    pub fn start(required: ClientRequirements) -> Self {
        let (files, backend) = (Files::new(), Backend::echo());
        let address = address_of_ones_own();
        let version = if required.old_version { "TLSv1.2" } else { "TLSv1.3" };
        let certificate = if required.certificate {
            format!("verify required ca-file {}", files.authority.display())
        } else {
            String::new()
        };
        let (socket, both) = (files.folder.file("stats.sock"), files.both.display());
        // The backend that a session reaches shows its kind: the log would do too, but it loses lines where its reader
        // is too slow.
        let backends = ["full", "resumed", "certified"]
            .map(|name| format!("backend {name}\n    server echo {}\n", backend.address))
            .concat();
        let config = format!(
            "global
    stats socket {}
defaults
    mode tcp
    timeout connect 10s
    timeout client 10s
    timeout server 10s
frontend front
    bind {address} ssl crt {both} ssl-min-ver {version} ssl-max-ver {version} {certificate}
    use_backend resumed if {{ ssl_fc_is_resumed }}
    use_backend certified if {{ ssl_c_used }}
    default_backend full
{backends}",
            socket.display(),
        );
        let config = files.folder.write("haproxy.cfg", config).display().to_string();
        let tool = Tool::start("haproxy", &["-db", "-f", &config]);
        let haproxy = Self { address, tool, files, backend };
        wait_until_seeing(
            "HAProxy to be ready",
            || haproxy.value("front,FRONTEND,", "scur"),
            || haproxy.tool.talk.so_far().join("\n"),
        );
        haproxy
    }

    /// A figure of `show stat`, by the beginning of its row and the name of its column.
    fn value(&self, row: &str, column: &str) -> Option<u64> {
        let answer = query_socket(&self.files.folder.file("stats.sock"), b"show stat\n")?;
        let mut columns = answer.lines().next()?.trim_start_matches("# ").split(',');
        let place = columns.position(|name| name == column)?;
        answer.lines().find(|line| line.starts_with(row))?.split(',').nth(place)?.parse().ok()
    }

    /// Returns its counters, when all connections have ended.
    pub fn counted(self) -> Counted {
        wait_until("HAProxy to have closed every connection", || {
            (self.value("front,FRONTEND,", "scur")? == 0).then_some(())
        });
        let figure = |row, column| self.value(row, column).expect("HAProxy reports it");
        let sessions =
            ["full,BACKEND,", "resumed,BACKEND,", "certified,BACKEND,"].map(|row| figure(row, "stot"));
        let all = sessions.iter().sum();
        assert_eq!(figure("front,FRONTEND,", "stot"), all, "each session came to a backend");
        assert_eq!(u64::try_from(self.backend.accepted()).expect("it fits"), all, "its backend agrees");
        Counted {
            connections: figure("front,FRONTEND,", "conn_tot"),
            requests: all,
            resumed: sessions[1],
            certified: sessions[2],
        }
    }
}

/// stunnel in front of an echo.
pub struct Stunnel {
    /// Address that it listens at.
    pub address: SocketAddr,
    tool: Tool,
    backend: Backend,
    _files: Files,
}

impl Stunnel {
    /// Starts it in the foreground.
    pub fn start(required: ClientRequirements) -> Self {
        let (files, backend) = (Files::new(), Backend::echo());
        let address = address_of_ones_own();
        let version = if required.old_version { "TLSv1.2" } else { "TLSv1.3" };
        let verify = if required.certificate {
            format!("verifyChain = yes\nCAfile = {}\n", files.authority.display())
        } else {
            String::new()
        };
        let config = format!(
            "foreground = yes\npid =\ndebug = info\nsyslog = no\n[echo]\naccept = {address}\nconnect = {}\n\
             cert = {}\nsslVersion = {version}\n{verify}",
            backend.address,
            files.both.display()
        );
        let config = files.folder.write("stunnel.conf", config).display().to_string();
        let tool = Tool::start("stunnel4", &[&config]);
        let _ = tool.talk.containing("Accepting new connections");
        Self { address, tool, backend, _files: files }
    }

    /// Returns its counters, when all connections have ended.
    pub fn counted(self) -> Counted {
        let lines = || self.tool.talk.so_far();
        let with = |text: &str| number_of(lines().iter().filter(|line| line.contains(text)));
        let accepted = || with(" accepted connection from ");
        // One of these is the last line of each connection.
        let ended = || with("byte(s) sent to TLS");
        wait_until_seeing(
            "stunnel to have closed every connection",
            || (accepted() > 0 && ended() == accepted()).then_some(()),
            || format!("{} of {}", ended(), accepted()),
        );
        Counted {
            connections: accepted(),
            requests: u64::try_from(self.backend.accepted()).expect("it fits"),
            resumed: with("TLS accepted: previous session reused"),
            certified: with("Certificate accepted at depth=0"),
        }
    }
}

/// `openssl s_server`, which serves one client after another.
pub struct Openssl {
    /// Address that it listens at.
    pub address: SocketAddr,
    /// The program.
    pub tool: Tool,
    _files: Files,
}

impl Openssl {
    /// Starts it with more options.
    pub fn start(options: &str) -> Self {
        let files = Files::new();
        let address = address_of_ones_own();
        let (listen, both) = (address.to_string(), files.both.display().to_string());
        let authority = files.authority.display().to_string();
        let mut arguments = vec!["s_server", "-accept", &listen, "-cert", &both, "-CAfile", &authority];
        arguments.extend(options.split_whitespace());
        let tool = Tool::start("openssl", &arguments);
        let _ = tool.output.containing("ACCEPT");
        Self { address, tool, _files: files }
    }

    /// Its page, fetched by OpenSSL's own client.
    fn page(&self) -> String {
        let target = self.address.to_string();
        let mut client = Tool::start("openssl", &["s_client", "-connect", &target, "-quiet", "-ign_eof"]);
        client.send(b"GET / HTTP/1.0\r\n\r\n");
        // It ends when the server does; its own input must stay open until then.
        client.output.containing("</HTML>");
        client.ended().output
    }

    /// Returns the counters of its page of statistics (`-www`), without the request for the page.
    pub fn counted(self) -> Counted {
        let look = self.page();
        let number = |what: &str| {
            let line = look.lines().find(|line| line.ends_with(what));
            let number = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
            number.unwrap_or_else(|| panic!("no `{what}` on the page:\n{look}"))
        };
        Counted {
            connections: number("server accepts (SSL_accept())") - 1,
            requests: number("server accepts that finished") - 1,
            resumed: number("session cache hits"),
            certified: 0,
        }
    }
}
