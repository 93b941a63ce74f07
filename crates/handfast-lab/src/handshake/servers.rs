//! The servers of the handshake table: how each is configured to serve the same three things on the same three ports.
//!
//! In: a host, and the name of a server. Out: it running there, listening; it ends with the value.

use std::fs::File;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::error::LabError;
use crate::host::Host;
use crate::names::FOLDER;
use crate::namespace::code;
use crate::run::{Servers, is_listening, pause};

/// The name that certificates are for.
pub(super) const NAME: &str = "server";
/// Bytes of each resource.
pub(super) const BODY: usize = 4096;
/// The port of the backend of servers that only relay.
pub(super) const ORIGIN: u16 = 8080;
/// Time limit for a server to listen.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// Configuration of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    /// A short chain, every group.
    Plain,
    /// A chain that does not fit the first flight.
    LongChain,
    /// X25519 and no other group.
    OneGroup,
}

impl Variant {
    const ALL: [Self; 3] = [Self::Plain, Self::LongChain, Self::OneGroup];

    pub(super) const fn port(self) -> u16 {
        match self {
            Self::Plain => 8443,
            Self::LongChain => 8444,
            Self::OneGroup => 8445,
        }
    }

    /// The name of its certificate's files.
    const fn certificate(self) -> &'static str {
        match self {
            Self::LongChain => "long",
            _ => "leaf",
        }
    }
}

/// A server that can be measured.
#[derive(Debug)]
pub(super) struct Server {
    /// Name by which it is chosen, and of its program.
    pub(super) name: &'static str,
    /// Name for people.
    pub(super) title: &'static str,
    /// Option that prints its version.
    version: &'static str,
    /// True if several requests may go over one connection.
    pub(super) keeps_connections: bool,
    /// True if it speaks HTTP/2.
    pub(super) http2: bool,
    /// Its configuration, and the commands that start it.
    start: fn() -> (String, Vec<Vec<String>>),
}

/// Those that are known.
pub(super) const ALL: [Server; 5] = [
    Server {
        name: "handfast",
        title: "Handfast",
        version: "--version",
        keeps_connections: true,
        http2: true,
        start: handfast,
    },
    Server {
        name: "nginx",
        title: "nginx",
        version: "-v",
        keeps_connections: true,
        http2: true,
        start: nginx,
    },
    Server {
        name: "haproxy",
        title: "HAProxy",
        version: "-v",
        keeps_connections: true,
        http2: true,
        start: haproxy,
    },
    Server {
        name: "stunnel4",
        title: "stunnel",
        version: "-version",
        keeps_connections: true,
        http2: false,
        start: stunnel,
    },
    Server {
        name: "openssl",
        title: "openssl s_server",
        version: "version",
        keeps_connections: false,
        http2: false,
        start: openssl,
    },
];

/// Those with these names; without names, all that are installed.
pub(super) fn chosen(names: &[String]) -> Result<Vec<&'static Server>, LabError> {
    if names.is_empty() {
        return Ok(ALL.iter().filter(|server| program(server).is_some()).collect());
    }
    let find = |name: &String| {
        let found = ALL.iter().find(|server| server.name == name);
        match found.map(|server| (server, program(server))) {
            None => {
                let known: Vec<_> = ALL.iter().map(|server| server.name).collect();
                Err(format!("--server {name}: unknown; known are {}", known.join(", ")))
            }
            Some((_, None)) => Err(format!("--server {name}: it is not installed")),
            Some((server, Some(_))) => Ok(server),
        }
    };
    let (found, problems): (Vec<_>, Vec<_>) = names.iter().map(find).partition(Result::is_ok);
    if problems.is_empty() {
        Ok(found.into_iter().flatten().collect())
    } else {
        Err(LabError::Wrong(problems.into_iter().filter_map(Result::err).collect()))
    }
}

/// The path of a server's program. Administrators' programs are not on the PATH of every user.
fn program(server: &Server) -> Option<String> {
    if server.name == "handfast" {
        return Some("/proc/self/exe".to_owned());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let also = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(std::path::PathBuf::from);
    let files = std::env::split_paths(&path).chain(also).map(|folder| folder.join(server.name));
    files.into_iter().find(|file| file.is_file()).map(|file| file.display().to_string())
}

/// Version of the server's program in one line, as the program prints it.
pub(super) fn version(server: &Server) -> String {
    let Some(program) = program(server) else { return String::new() };
    let output = Command::new(program).arg(server.version).stdin(Stdio::null()).output();
    let output = output.map(|output| [output.stdout, output.stderr].concat()).unwrap_or_default();
    let output = String::from_utf8_lossy(&output).into_owned();
    let with_digits = |line: &&str| line.contains(|letter: char| letter.is_ascii_digit());
    let line = output.lines().find(with_digits).unwrap_or_default();
    handfast_text::units::plain(line.split(" - http").next().unwrap_or_default().trim())
}

/// The path of a file in the lab's own folder.
pub(super) fn path(name: &str) -> String {
    format!("{FOLDER}/{name}")
}

/// Writes what servers that read files serve.
pub(super) fn write_body() -> Result<(), LabError> {
    put("body", &"x".repeat(BODY))
}

fn put(name: &str, text: &str) -> Result<(), LabError> {
    let file = path(name);
    let written = File::create(&file).and_then(|mut made| made.write_all(text.as_bytes()));
    written.map_err(LabError::file(format!("write {file}")))
}

/// A server that runs.
pub(super) struct Running(Servers);

impl Running {
    /// Starts it, and waits until it listens on all its ports.
    pub(super) fn start(host: &Host, server: &Server) -> Result<Self, LabError> {
        let (configuration, commands) = (server.start)();
        put("server.conf", &configuration)?;
        let program = program(server).unwrap_or_else(|| server.name.to_owned());
        let mut running = Self(Servers(Vec::new()));
        for words in commands {
            let mut command = Command::new(&program);
            // Of ours, what goes wrong is of interest here, and nothing else.
            command
                .env("HANDFAST_LOG", "error")
                .args(words)
                .current_dir(FOLDER)
                .stdin(Stdio::null())
                .stdout(Stdio::null());
            running.0.0.push(host.spawn(&mut command)?);
        }
        running.wait(host, server)?;
        Ok(running)
    }

    fn wait(&mut self, host: &Host, server: &Server) -> Result<(), LabError> {
        let begun = Instant::now();
        loop {
            if host.run(|| Variant::ALL.into_iter().all(|variant| is_listening(Some(variant.port()))))? {
                return Ok(());
            }
            let late =
                |what: String| LabError::Late { what, hint: "what it said is above, if anything".to_owned() };
            for child in &mut self.0.0 {
                if let Ok(Some(status)) = child.try_wait() {
                    return Err(late(format!(
                        "{} ended with exit code {} before it listened",
                        server.title,
                        code(status)
                    )));
                }
            }
            if begun.elapsed() > START_TIMEOUT {
                return Err(late(format!(
                    "{} did not listen within {}",
                    server.title,
                    handfast_text::duration::written(START_TIMEOUT)
                )));
            }
            pause();
        }
    }
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

fn handfast() -> (String, Vec<Vec<String>>) {
    let service = |variant: Variant| {
        let (port, certificate) = (variant.port(), path(variant.certificate()));
        let key = path("leaf.key");
        let groups = if variant == Variant::OneGroup { "groups = [\"X25519\"]\n" } else { "" };
        format!(
            "[[service]]\nname = \"port-{port}\"\nlisten = \"0.0.0.0:{port}\"\nbackend = \"127.0.0.1:{ORIGIN}\"\n\
             certificate = \"{certificate}.pem\"\nkey = \"{key}\"\nmode = \"http\"\n{groups}"
        )
    };
    let services: String = Variant::ALL.into_iter().map(service).collect();
    let text = format!("[admin]\nlisten = \"off\"\n[access-log]\nto = \"off\"\n{services}");
    (text, vec![words(&format!("proxy -c {}", path("server.conf")))])
}

fn nginx() -> (String, Vec<Vec<String>>) {
    let server = |variant: Variant| {
        let (port, certificate, key) = (variant.port(), path(variant.certificate()), path("leaf.key"));
        let curves = if variant == Variant::OneGroup { "ssl_ecdh_curve X25519; " } else { "" };
        format!(
            "server {{ listen {port} ssl http2; ssl_certificate {certificate}.pem; ssl_certificate_key {key}; \
             {curves}root {FOLDER}; }}\n"
        )
    };
    let servers: String = Variant::ALL.into_iter().map(server).collect();
    let folders: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {FOLDER}/{kind}; "))
        .concat();
    let text = format!(
        "daemon off; worker_processes 1; user root; pid {FOLDER}/nginx.pid; error_log stderr warn;\nevents {{ }}\n\
         http {{ access_log off; default_type text/plain; tcp_nodelay on; {folders}\n\
         ssl_protocols TLSv1.2 TLSv1.3; ssl_session_cache shared:lab:1m; ssl_early_data on;\n{servers}}}\n"
    );
    (text, vec![words(&format!("-p {FOLDER} -e stderr -c {}", path("server.conf")))])
}

fn haproxy() -> (String, Vec<Vec<String>>) {
    let frontend = |variant: Variant| {
        let (port, certificate) = (variant.port(), path(variant.certificate()));
        let curves = if variant == Variant::OneGroup { " curves X25519" } else { "" };
        format!(
            "frontend port-{port}\n bind :{port} ssl crt {certificate}-and-key.pem alpn h2,http/1.1 allow-0rtt{curves}\n \
             http-request return status 200 content-type text/plain file {}\n",
            path("body")
        )
    };
    let frontends: String = Variant::ALL.into_iter().map(frontend).collect();
    let text = format!(
        "global\n maxconn 200\n ssl-default-bind-options ssl-min-ver TLSv1.2\ndefaults\n mode http\n \
         timeout connect 5s\n timeout client 30s\n timeout server 30s\n{frontends}"
    );
    (text, vec![words(&format!("-q -db -f {}", path("server.conf")))])
}

fn stunnel() -> (String, Vec<Vec<String>>) {
    let service = |variant: Variant| {
        let (port, certificate) = (variant.port(), path(variant.certificate()));
        let curves = if variant == Variant::OneGroup { "curves = X25519\n" } else { "" };
        format!(
            "[port-{port}]\naccept = {port}\nconnect = 127.0.0.1:{ORIGIN}\ncert = {certificate}.pem\nkey = {}\n{curves}",
            path("leaf.key")
        )
    };
    let services: String = Variant::ALL.into_iter().map(service).collect();
    let text = format!(
        "foreground = yes\npid =\ndebug = 2\nsslVersionMin = TLSv1.2\nsocket = r:TCP_NODELAY=1\nsocket = l:TCP_NODELAY=1\n{services}"
    );
    (text, vec![vec![path("server.conf")]])
}

fn openssl() -> (String, Vec<Vec<String>>) {
    let server = |variant: Variant| {
        let port = variant.port();
        let key = path("leaf.key");
        let mut words = words(&format!("s_server -quiet -www -accept {port} -key {key} -cert"));
        match variant {
            Variant::LongChain => {
                words.extend([path("long-leaf.pem"), "-cert_chain".to_owned(), path("chain.pem")])
            }
            Variant::Plain => words.push(path("leaf.pem")),
            Variant::OneGroup => words.extend([path("leaf.pem"), "-groups".to_owned(), "X25519".to_owned()]),
        }
        words
    };
    (String::new(), Variant::ALL.into_iter().map(server).collect())
}
