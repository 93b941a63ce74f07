//! Checks a bus before joining it. Any publisher on a bus of load tests can make every worker load any target. So a server that others
//! can reach must authenticate users, be encrypted, and restrict us to our own subjects.
//!
//! In: a [`BusAddress`]. Out: a bus that is safe to use, or why not and what to do about it.

use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_nats::{ServerAddr, ServerInfo};
use bytes::Bytes;
use handfast_pki::files::read_text;
use percent_encoding::percent_decode_str;
use serde::{Deserialize, Deserializer};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};

use crate::bus::Bus;
use crate::bus::nats::{ConnectionSettings, Nats, place};
use crate::error::{Problem, Reach, Unreachable};
use crate::{BusAddress, BusError, CHECK, Purpose, check_fleet, fresh_id};

/// Timeout for reaching a server and reading its greeting.
const GREETING: Duration = Duration::from_secs(5);
/// The longest greeting that is read. **Units**: bytes. A NATS server's has about 400.
const MAX_GREETING_BYTES: u64 = 65_536;
/// The longest file with a secret. **Units**: bytes.
const MAX_SECRET_BYTES: u64 = 4_096;
/// Time to wait for the server to reject a forbidden subject. It does so at once.
const COMPLAINING: Duration = Duration::from_secs(2);
/// The first version without the known ways around users and permissions (CVE-2023-47090, CVE-2025-30215).
const SOUND: [u32; 3] = [2, 10, 27];

/// The server's first message (`INFO` of the NATS client protocol). `host` is its listening address, or its configured
/// address.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Greeting {
    #[serde(deserialize_with = "printable")]
    version: String,
    #[serde(deserialize_with = "printable")]
    host: String,
    auth_required: bool,
    tls_required: bool,
    max_payload: u64,
}

impl Greeting {
    /// The greeting that came within TLS.
    fn within_tls(info: ServerInfo) -> Self {
        Self {
            version: shown(&info.version),
            host: shown(&info.host),
            auth_required: info.auth_required,
            tls_required: true,
            max_payload: u64::try_from(info.max_payload).unwrap_or(u64::MAX),
        }
    }

    /// Returns true if it listens on the loopback alone. A server that does not report this may be reachable from anywhere,
    /// even if we reach it by the loopback or through a tunnel.
    fn is_here_alone(&self) -> bool {
        let address = self.host.parse::<IpAddr>().map(|host| host.to_canonical().is_loopback());
        address.unwrap_or(self.host.eq_ignore_ascii_case("localhost"))
    }
}

/// A text of another machine that is safe to print on a terminal: no control characters, and of bounded length.
///
/// **Errors**: it is no text.
pub fn printable<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    String::deserialize(deserializer).map(|text| shown(&text))
}

fn shown(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).take(100).collect()
}

/// A server that was checked, and not joined.
struct Inspection {
    server: ServerAddr,
    user: Option<(String, String)>,
    /// True if programs on other machines may reach it.
    exposed: bool,
    greeting: Greeting,
    place: String,
    purpose: Purpose,
}

/// Joins a bus that is safe to join. `name` is our name in the server's list of clients, `inbox` the subject of answers.
///
/// **Errors**: a server that others can reach without TLS, users or narrow permissions; one that cannot be reached.
pub async fn join(address: &BusAddress, name: &str, inbox: &str) -> Result<Arc<dyn Bus>, BusError> {
    let (inspection, nats, complaints) = connect(address, name, inbox).await?;
    for warning in inspection.openness().into_iter().chain(inspection.weaknesses()) {
        tracing::warn!("{warning}");
    }
    if inspection.exposed {
        let allowed = allowed_elsewhere(&nats, complaints).await?;
        permissions_are_narrow(&inspection, &allowed)?;
    }
    Ok(nats)
}

/// Checks a bus like joining it: each finding as a sentence.
///
/// **Errors**: what prevents a worker or coordinator from joining.
pub async fn doctor(bus: &BusAddress) -> Result<Vec<String>, BusError> {
    check_fleet(&bus.fleet)?;
    let id = fresh_id()?;
    let (inspection, nats, complaints) = connect(bus, "handfast doctor", &bus.inbox(&id)).await?;
    let yes = |yes: bool| if yes { "required" } else { "not required" };
    let mut found = vec![
        format!("{} runs nats-server {}", inspection.place, inspection.greeting.version),
        if inspection.exposed {
            "it can be reached from other machines".to_owned()
        } else {
            "it listens on the loopback: only this machine can reach it".to_owned()
        },
        format!("TLS is {}", yes(inspection.greeting.tls_required)),
        format!("users are {}", yes(inspection.greeting.auth_required)),
        format!("it takes messages of up to {} bytes", inspection.greeting.max_payload),
    ];
    found.extend(inspection.openness().into_iter().chain(inspection.weaknesses()));
    found.push("this user may join".into());
    let allowed = allowed_elsewhere(&nats, complaints).await?;
    if inspection.exposed {
        permissions_are_narrow(&inspection, &allowed)?;
    }
    found.push(if allowed.is_empty() {
        "this user may use no subjects but the fleet's".into()
    } else {
        format!("this user may {} subjects that are not the fleet's", allowed.join(" and "))
    });
    Ok(found)
}

/// Finds the server, reads its greeting, decides whether more may be sent to it, and connects. With `tls_first` the greeting comes within
/// TLS: then the certificate was verified before anything was sent, and the greeting is judged afterwards.
async fn connect(
    address: &BusAddress,
    name: &str,
    inbox: &str,
) -> Result<(Inspection, Arc<Nats>, mpsc::Receiver<String>), BusError> {
    let server: ServerAddr = address.url.parse().map_err(|_| Problem::Url)?;
    if !["nats", "tls"].contains(&server.scheme()) || server.host().is_empty() {
        return Err(Problem::Scheme.into());
    }
    let user = user(address, &server)?;
    let place = place(&server);
    let failed = |source| Problem::Unreachable { place: place.clone(), purpose: address.purpose, source };
    let deadline = Instant::now() + GREETING;
    let found = timeout_at(deadline, tokio::net::lookup_host((server.host(), server.port()))).await;
    let addresses: Vec<SocketAddr> = found
        .map_err(|_| failed(Unreachable::ResolveTimeout))?
        .map_err(|error| failed(Unreachable::Resolve(error)))?
        .collect();
    let far = !addresses.iter().all(|address| address.ip().to_canonical().is_loopback());
    let mut inspection = Inspection {
        server,
        user,
        exposed: true,
        greeting: Greeting::default(),
        place: place.clone(),
        purpose: address.purpose,
    };
    let mut connection = None;
    if address.tls_first {
        let (nats, complaints) = inspection.connect(address, name, inbox).await?;
        inspection.greeting = Greeting::within_tls(nats.greeting());
        connection = Some((nats, complaints));
    } else {
        let greeting = timeout_at(deadline, greeting(&addresses)).await;
        let greeting = greeting.map_err(|_| failed(Unreachable::NoGreeting))?;
        inspection.greeting = greeting.map_err(failed)?;
    }
    inspection.exposed = far || !inspection.greeting.is_here_alone();
    judge(&inspection.place, &inspection.greeting, far, address.purpose)?;
    let (nats, complaints) = match connection {
        Some(connection) => connection,
        None => inspection.connect(address, name, inbox).await?,
    };
    Ok((inspection, nats, complaints))
}

async fn greeting(addresses: &[SocketAddr]) -> Result<Greeting, Unreachable> {
    let mut last = Unreachable::NoAddress;
    for &address in addresses {
        let stream = match TcpStream::connect(address).await {
            Ok(stream) => stream,
            Err(error) => {
                last = Unreachable::Io(address, error);
                continue;
            }
        };
        let mut line = String::new();
        let mut reader = BufReader::new(stream.take(MAX_GREETING_BYTES));
        reader.read_line(&mut line).await.map_err(|error| Unreachable::Io(address, error))?;
        if line.is_empty() {
            return Err(Unreachable::Silent(address));
        }
        let not_nats = || Unreachable::NotNats(address);
        let info = line.strip_prefix("INFO ").ok_or_else(not_nats)?;
        return serde_json::from_slice(info.as_bytes()).map_err(|_| not_nats());
    }
    Err(last)
}

/// Refuses a server that others can reach and that lacks encryption or users. `far`: we dial another machine ourselves.
fn judge(place: &str, greeting: &Greeting, far: bool, purpose: Purpose) -> Result<(), BusError> {
    let lacks = match (greeting.tls_required, greeting.auth_required) {
        (true, true) => return Ok(()),
        (true, false) => "does not authenticate users",
        (false, true) => "does not encrypt",
        (false, false) => "neither encrypts nor authenticates users",
    };
    let reach = match (far, greeting.is_here_alone()) {
        (true, _) => Reach::Dialled,
        (false, true) => return Ok(()),
        (false, false) if greeting.host.is_empty() => Reach::Unreported,
        (false, false) => Reach::ListensOn(greeting.host.clone()),
    };
    Err(Problem::Exposed { place: place.to_owned(), reach, lacks, purpose }.into())
}

impl Inspection {
    /// The warning that the server does not authenticate users. A server that others can reach was refused before.
    fn openness(&self) -> Option<String> {
        (!self.greeting.auth_required).then(|| {
            format!(
                "the bus {} does not authenticate users: any program here could {}; {}",
                self.place,
                self.purpose.danger(),
                self.purpose.set_up()
            )
        })
    }

    /// The warning that this version has known vulnerabilities; none for a server that others cannot reach.
    fn weaknesses(&self) -> Option<String> {
        let version = &self.greeting.version;
        (self.exposed && is_older(version, SOUND)).then(|| {
            format!(
                "nats-server {version} has known ways around users and permissions (CVE-2023-47090, \
                 CVE-2025-30215), fixed in 2.10.27: make it reachable only for people you trust"
            )
        })
    }

    async fn connect(
        &self,
        address: &BusAddress,
        name: &str,
        inbox: &str,
    ) -> Result<(Arc<Nats>, mpsc::Receiver<String>), BusError> {
        Nats::connect(ConnectionSettings {
            address,
            server: without_user(&self.server),
            user: self.user.clone(),
            insist_on_tls: address.tls_first
                || self.exposed
                || self.server.tls_required()
                || address.ca.is_some(),
            name,
            inbox: inbox.to_owned(),
        })
        .await
    }
}

/// The address without user and password, which are separate and never logged.
fn without_user(server: &ServerAddr) -> ServerAddr {
    place(server).parse().unwrap_or_else(|_| server.clone())
}

/// User and password: out of the file, or out of the URL.
fn user(address: &BusAddress, server: &ServerAddr) -> Result<Option<(String, String)>, BusError> {
    let in_url = server.username().map(|user| (unescape(user), unescape(server.password().unwrap_or(""))));
    match (&address.credentials, in_url) {
        (Some(_), Some(_)) => Err(Problem::TwoLogins.into()),
        (Some(file), None) => credentials(file).map(Some),
        (None, in_url) => Ok(in_url),
    }
}

/// Reads a file with a secret; also whether others on this machine can read it.
///
/// **Errors**: read(2); it is no file, such as a named pipe, for whose writer this would wait; its length.
pub fn read_private(file: &Path) -> io::Result<(String, bool)> {
    let text = read_text(file, MAX_SECRET_BYTES)?;
    let metadata = fs::metadata(file)?;
    // A secret of Kubernetes belongs to root and is readable by the group of the pod.
    let private = if metadata.uid() == 0 { 0o037 } else { 0o077 };
    Ok((text.to_string(), metadata.mode() & private != 0))
}

fn credentials(file: &Path) -> Result<(String, String), BusError> {
    let unreadable = |source| Problem::ReadLogin { file: file.to_owned(), source };
    let (text, others_can_read) = read_private(file).map_err(unreadable)?;
    if others_can_read {
        tracing::warn!(file = %file.display(), "others on this machine can read this password: chmod 600");
    }
    let split = text.trim().split_once(':').map(|(user, password)| (user.to_owned(), password.to_owned()));
    split.ok_or_else(|| Problem::LoginForm(file.to_owned()).into())
}

/// Decodes `%40` and the like, as in URLs.
fn unescape(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// Returns true if a version is below another; false for one that cannot be read.
fn is_older(version: &str, than: [u32; 3]) -> bool {
    let number = |part: &str| part.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u32>().ok();
    let numbers: Option<Vec<u32>> = version.split('.').take(3).map(number).collect();
    numbers.is_some_and(|numbers| numbers.as_slice() < than.as_slice())
}

/// The user's permissions for subjects that no worker needs: `publish to`, `listen to`.
async fn allowed_elsewhere(
    nats: &Nats,
    mut complaints: mpsc::Receiver<String>,
) -> Result<Vec<&'static str>, BusError> {
    let subject = format!("hf.{CHECK}.{}", fresh_id()?);
    let failed = |source| Problem::AskPermissions { place: nats.place().to_owned(), source };
    let _feed = nats.subscribe(&subject).await.map_err(failed)?;
    nats.publish(&subject, Bytes::new()).await.map_err(failed)?;
    let mut allowed = vec!["publish to", "listen to"];
    let reading = async {
        while !allowed.is_empty() {
            let Some(complaint) = complaints.recv().await else { break };
            let complaint = complaint.to_lowercase();
            if complaint.contains("permissions violation") && complaint.contains(&subject) {
                let about = if complaint.contains("for publish") { "publish to" } else { "listen to" };
                allowed.retain(|what| *what != about);
            }
        }
    };
    // A timeout means that the server rejected nothing more: the rest is allowed.
    let _ = timeout(COMPLAINING, reading).await;
    Ok(allowed)
}

fn permissions_are_narrow(inspection: &Inspection, allowed: &[&'static str]) -> Result<(), BusError> {
    if allowed.is_empty() {
        return Ok(());
    }
    let (place, allowed, purpose) = (inspection.place.clone(), allowed.to_vec(), inspection.purpose);
    Err(Problem::WidePermissions { place, allowed, purpose }.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_listens_for_others_is_refused_by_whatever_way_we_came() {
        let on = |host: &str| Greeting { host: host.into(), ..Greeting::default() };
        for host in ["127.0.0.1", "127.3.2.1", "::1", "::ffff:127.0.0.1", "localhost", "LOCALHOST"] {
            assert!(judge("here", &on(host), false, Purpose::Load).is_ok(), "{host}");
        }
        for host in ["0.0.0.0", "::", "10.0.0.7", "bus.example", ""] {
            let refusal = judge("here", &on(host), false, Purpose::Load).unwrap_err();
            assert!(
                refusal.what().contains("it can be reached from other machines and neither"),
                "{host}: {refusal}"
            );
            assert!(
                refusal.hint().is_some_and(|hint| hint.contains("nats-server -a 127.0.0.1")),
                "{refusal}"
            );
            let safe = Greeting { tls_required: true, auth_required: true, ..on(host) };
            assert!(judge("here", &safe, false, Purpose::Load).is_ok(), "{host}");
        }
        assert!(
            judge("here", &on("0.0.0.0"), false, Purpose::Load)
                .unwrap_err()
                .what()
                .contains("it listens on 0.0.0.0, it can")
        );
    }

    #[test]
    fn only_a_server_that_others_reach_must_know_its_users() {
        let open = Greeting { host: "127.0.0.1".into(), ..Greeting::default() };
        assert!(judge("here", &open, false, Purpose::Load).is_ok());
        let refusal = judge("there", &open, true, Purpose::Load).unwrap_err();
        assert!(refusal.what().contains("neither encrypts nor authenticates"), "{refusal}");
        assert!(refusal.hint().is_some_and(|hint| hint.contains("handfast worker setup")));
        let half = Greeting { tls_required: true, ..open.clone() };
        assert!(
            judge("there", &half, true, Purpose::Load)
                .unwrap_err()
                .what()
                .contains("does not authenticate users")
        );
        let half = Greeting { auth_required: true, ..open };
        assert!(judge("there", &half, true, Purpose::Load).unwrap_err().what().contains("does not encrypt"));
        assert!(judge("there", &Greeting { tls_required: true, ..half }, true, Purpose::Load).is_ok());
    }

    #[test]
    fn permissions_must_be_narrow() {
        let there = Inspection {
            server: "nats://there".parse().unwrap(),
            user: None,
            exposed: true,
            greeting: Greeting::default(),
            place: "there".into(),
            purpose: Purpose::Fleet,
        };
        assert!(permissions_are_narrow(&there, &[]).is_ok());
        let refusal = permissions_are_narrow(&there, &["publish to"]).unwrap_err();
        assert!(refusal.hint().is_some_and(|hint| hint.contains("handfast fleet setup")), "{refusal}");
        assert!(refusal.what().contains("may publish to subjects"), "{refusal}");
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        assert!(is_older("2.9.10", SOUND) && is_older("2.10.26", SOUND) && is_older("2.10.9-beta.1", SOUND));
        assert!(!is_older("2.10.27", SOUND) && !is_older("2.11.0", SOUND) && !is_older("what", SOUND));
    }

    #[test]
    fn passwords_come_out_of_urls_as_they_were_meant() {
        let mut address = BusAddress::new("nats://me:a%40b%3@localhost");
        let server: ServerAddr = address.url.parse().unwrap();
        assert_eq!(user(&address, &server).expect("it is in the URL"), Some(("me".into(), "a@b%3".into())));
        assert_eq!(without_user(&server).as_url_str(), "nats://localhost:4222");
        assert!(!format!("{address:?}").contains("a%40b"), "a password is not for logs");
        address.credentials = Some("file".into());
        assert!(user(&address, &server).unwrap_err().is_wrong_use());
    }

    #[tokio::test]
    async fn what_is_no_nats_server_is_named() {
        use tokio::io::AsyncWriteExt;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = BusAddress::new(format!("nats://{}", listener.local_addr().unwrap()));
        let greet = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(b"220 mail.example ESMTP\r\n").await.unwrap();
        };
        let (found, ()) = tokio::join!(doctor(&address), greet);
        let refusal = found.unwrap_err();
        assert!(refusal.what().contains("does not greet as a NATS server"), "{refusal}");
    }
}
