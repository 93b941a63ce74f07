//! Sites on disk: a folder of files, a proxy that serves it, and what clients get.

use std::io::{Read, Write};
use std::net::SocketAddr;

use super::certificates::{authority, localhost};
use super::client::{dial, with_deadline};
use super::config::Config;
use super::folder::Folder;
use super::proxy::Proxy;
use super::tools;

/// A service that answers with the files of `www` in the folder, for clients in plain text; and the same over TLS.
pub(crate) fn config(folder: &Folder, more: &str) -> String {
    folder.folder("www");
    let (www, certificate) = (folder.file("www"), folder.write("web.pem", localhost().combined()));
    let service = |name: &str, tls: String| {
        format!(
            "[[service]]\nname = \"{name}\"\nlisten = \"127.0.0.1:0\"\nmode = \"http\"\n{tls}\nfiles = \"{}\"\n{more}\n",
            www.display()
        )
    };
    let certified = format!("certificate = \"{}\"", certificate.display());
    format!(
        "{}\n{}{}",
        Config::empty(),
        service("plain", "client-tls = false".to_owned()),
        service("web", certified)
    )
}

/// Bytes that are at no two places alike; `seed` makes others.
pub(crate) fn noise(size: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..size).map(|_| next()).collect()
}

/// A response: its status, its fields in lower case with their line ends, its content.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) fields: String,
    pub(crate) content: Vec<u8>,
}

impl Answer {
    /// The value of a field; empty: there is none.
    pub(crate) fn field(&self, name: &str) -> &str {
        let mut fields = self.fields.lines().filter_map(|line| line.split_once(": "));
        fields.find(|(known, _)| *known == name).map_or("", |(_, value)| value)
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let end = bytes.windows(4).position(|end| end == b"\r\n\r\n")?;
        let head = String::from_utf8_lossy(&bytes[..end + 2]).to_lowercase();
        let status = head.split(' ').nth(1)?.trim_end().parse().ok()?;
        Some(Self { status, fields: head, content: bytes[end + 4..].to_vec() })
    }
}

/// Sends a request as it is written, for the end of the connection.
pub(crate) fn raw(address: SocketAddr, target: &str, method_and_fields: (&str, &str)) -> Answer {
    let (method, fields) = method_and_fields;
    let mut stream = dial(address).expect("it listens");
    with_deadline(&stream).expect("a socket");
    let request = format!("{method} {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{fields}\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("it answers and closes");
    Answer::parse(&bytes).unwrap_or_else(|| panic!("{target}: {}", String::from_utf8_lossy(&bytes)))
}

/// GET.
pub(crate) fn get(address: SocketAddr, target: &str) -> Answer {
    raw(address, target, ("GET", ""))
}

/// The answer that curl gets over TLS, by this version of HTTP.
pub(crate) fn by_curl(proxy: &Proxy, folder: &Folder, flags: &[&str], path: &str) -> Answer {
    let address = proxy.address_of("web");
    let (ca, out) = (folder.write("ca.pem", &authority().pem), folder.file("curl.out"));
    let _ = std::fs::remove_file(&out);
    let (ca, shown) = (ca.display().to_string(), out.display().to_string());
    let url = format!("https://localhost:{}{path}", address.port());
    let to = format!("localhost:{}:{}", address.port(), address.ip());
    let common = [
        "-sS",
        "--path-as-is",
        "--max-time",
        "30",
        "--cacert",
        &ca,
        "--resolve",
        &to,
        "-D",
        "-",
        "-o",
        &shown,
        &url,
    ];
    let ran = tools::run("curl", &[&common[..], flags].concat(), b"");
    assert_eq!(ran.code, Some(0), "{path}: {}", ran.all());
    // There it writes the head into the file.
    let is_head = flags.contains(&"--head");
    let content = if is_head { Vec::new() } else { std::fs::read(&out).unwrap_or_default() };
    let answer = Answer::parse(ran.output.as_bytes());
    Answer { content, ..answer.unwrap_or_else(|| panic!("{path}: {}", ran.all())) }
}
