//! The target and the TLS settings: resolves names, reads files, and checks everything before a thread starts.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::sync::mpsc::sync_channel;

use handfast_pki::files::read_input;
use handfast_tls::client::{ClientSettings, Identity, Verification};

use crate::plan::mix::{MAX_MEMBERS, MAX_NAMES};
use crate::plan::request::MAX_REQUESTS;
use crate::plan::take;
use crate::plan::{HttpVersion, Model, Plan, Stage, Target, Tls, Verify, Work};
use handfast_report::ToolError;

/// Bytes of a file with certificates or a key.
const MAX_PEM_BYTES: u64 = 16 << 20;

/// Resolves a target's name, as applications of this machine do.
///
/// **Errors**: no such name, or no answer within the plan's timeout.
pub(crate) fn resolve(plan: &Plan, target: &Target) -> Result<Vec<SocketAddr>, ToolError> {
    let (host, port, timeout) = (target.host.clone(), target.port, plan.timeout);
    let (answer, waiting) = sync_channel(1);
    let thread = std::thread::Builder::new().name("resolve".into()).spawn(move || {
        // getaddrinfo(3) has no deadline: a separate thread waits, and may outlive this call.
        let _ = answer.send((host.as_str(), port).to_socket_addrs().map(Iterator::collect::<Vec<_>>));
    });
    let name = &target.host;
    thread.map_err(|error| ToolError::failed(format!("start a thread to resolve {name}: {error}")))?;
    let addresses = match waiting.recv_timeout(timeout) {
        Ok(Ok(addresses)) => addresses,
        Ok(Err(error)) => return Err(ToolError::failed(format!("resolve {name}: {error}"))),
        Err(_) => {
            return Err(ToolError::failed(format!("resolve {name}: no answer within {timeout:?}"))
                .hint("check /etc/resolv.conf, or give an address instead of a name"));
        }
    };
    let mut seen = Vec::new();
    for address in addresses {
        if !seen.contains(&address) && usable(plan, address) {
            seen.push(address);
        }
    }
    if seen.is_empty() {
        return Err(ToolError::failed(format!(
            "resolve {name}: it has no address that the sources can reach"
        ))
        .hint("--source must be of the same family, IPv4 or IPv6, as the target"));
    }
    Ok(seen)
}

/// Returns true if the source addresses are of its family.
fn usable(plan: &Plan, address: SocketAddr) -> bool {
    plan.sources.iter().all(|source| source.is_ipv4() == address.is_ipv4())
}

/// The settings of the TLS clients: for each member of the mix, or for all clients.
///
/// **Errors**: files that cannot be read.
pub(crate) fn settings(plan: &Plan) -> Result<Vec<ClientSettings>, ToolError> {
    plan.clients().map(|(_, tls)| settings_of(tls, &plan.work)).collect()
}

fn settings_of(tls: &Tls, work: &Work) -> Result<ClientSettings, ToolError> {
    let identity = match &tls.client_certificate {
        None => None,
        Some((chain, key)) => {
            let certificate = read(chain, "the client certificate")?;
            Some(Identity::Pem(certificate, private_key(key, key == chain)?))
        }
    };
    let verification = match &tls.verify {
        Verify::Off => Verification::Off,
        Verify::System => Verification::System,
        Verify::File(path) => Verification::Roots(read(path, "the authorities")?),
    };
    let mut alpn = tls.alpn.clone();
    if let (true, Work::Http { version, .. }) = (alpn.is_empty(), work) {
        alpn.push(match version {
            HttpVersion::Http11 => "http/1.1".into(),
            HttpVersion::Http2 => "h2".into(),
        });
    }
    Ok(ClientSettings {
        versions: tls.versions.clone(),
        suites: tls.suites.clone(),
        groups: tls.groups.clone(),
        policy: None,
        server_name: tls.server_name.clone(),
        server_names: tls.server_names.iter().map(|name| name.name.clone()).collect(),
        alpn,
        identity,
        verification,
        early_data: tls.early_data,
        keeps_many_tickets: true,
        key_lines: None,
    })
}

/// The key of a client certificate. `same`: it is looked for in the certificate's own file.
///
/// **Errors**: a file that cannot be read, or has no key that can be used; TLS would only report that it found nothing.
fn private_key(path: &Path, same: bool) -> Result<Vec<u8>, ToolError> {
    const WHAT: &str = "the client certificate's key";
    let text = read(path, WHAT)?;
    let has = |mark: &[u8]| text.windows(mark.len()).any(|part| part == mark);
    let wrong = |why: &str| ToolError::wrong_use(format!("read {WHAT} from {}: {why}", path.display()));
    if has(b"-----BEGIN ENCRYPTED PRIVATE KEY-----") {
        return Err(wrong("the key is encrypted, expected one without a passphrase")
            .hint("`openssl pkey -in FILE -out PLAIN` takes the passphrase off"));
    }
    if has(b"PRIVATE KEY-----") {
        return Ok(text);
    }
    let hint = match same {
        true => "--client-key FILE names the key's own file",
        false => "a key in PEM begins with -----BEGIN PRIVATE KEY-----",
    };
    Err(wrong("there is no private key in this file, expected one in PEM").hint(hint))
}

fn read(path: &Path, what: &str) -> Result<Vec<u8>, ToolError> {
    read_input(path, MAX_PEM_BYTES)
        .map(|bytes| bytes.to_vec())
        .map_err(|error| ToolError::wrong_use(format!("read {what} from {}: {error}", path.display())))
}

/// All mistakes that do not depend on the machine.
pub(crate) fn check(plan: &Plan) -> Result<(), ToolError> {
    let mut wrong: Vec<String> = Vec::new();
    if plan.connections == 0 {
        wrong.push("--connections is 0; expected at least 1".into());
    }
    if plan.duration.is_zero() {
        wrong.push("--duration is 0; expected more than 0".into());
    }
    if plan.exchanges == Some(0) {
        wrong.push("--exchanges is 0; expected at least 1, or --handshake-only".into());
    }
    clients(plan, &mut wrong);
    requests(plan, &mut wrong);
    if matches!(plan.work, Work::Exchange { send: 0, receive: 0, .. }) {
        wrong.push("--send 0 --receive 0 exchanges nothing; expected --handshake-only".into());
    }
    if matches!(plan.work, Work::Bulk { send: false, receive: false }) {
        wrong.push("bulk needs a direction".into());
    }
    if let Model::Open { stages, .. } = &plan.model {
        let makes_sense = |rate: f64| rate.is_finite() && rate >= 0.0;
        let good = |stage: &Stage| {
            makes_sense(stage.from) && makes_sense(stage.to) && stage.share.is_finite() && stage.share > 0.0
        };
        if !stages.iter().all(good) || !stages.iter().any(|stage| stage.from.max(stage.to) > 0.0) {
            wrong.push("--rate must be more than 0 (a stage may be at 0, but not all of them)".into());
        }
    }
    if let Some(think) = plan.think
        && (plan.model != Model::Closed || think.least > think.most)
    {
        wrong.push("--think is for the closed model, from its shortest pause to its longest".into());
    }
    let standing = matches!(plan.work, Work::Bulk { .. } | Work::Idle { .. });
    if standing && plan.model != Model::Closed {
        wrong.push(
            "bulk and idle connections stay open for the whole run: there is no --rate for them".into(),
        );
    }
    if wrong.is_empty() { Ok(()) } else { Err(ToolError::wrong_use(wrong.join("\n"))) }
}

/// Mistakes in the clients, or in each member of the mix.
fn clients(plan: &Plan, wrong: &mut Vec<String>) {
    let members = plan.mix.len();
    if members > MAX_MEMBERS {
        wrong.push(format!("--mix has {members} members; expected at most {MAX_MEMBERS}"));
    }
    let early = plan.clients().any(|(_, tls)| tls.early_data);
    if early && !matches!(plan.work, Work::Exchange { send: 1.., .. }) {
        wrong.push("--early-data needs something to send: raw exchanges with --send".into());
    }
    if early && plan.wanted_resumed() == 0.0 {
        wrong.push("--early-data needs resumed handshakes: --resume 1, or another share".into());
    }
    for (share, tls) in plan.clients() {
        if !share.is_finite() || share <= 0.0 {
            wrong.push(format!("--mix has a share of {share}; expected more than 0"));
        }
        if !(0.0..=1.0).contains(&tls.resume) {
            wrong.push(format!("--resume is {}; expected a share from 0 to 1", tls.resume));
        }
        if tls.server_names.len() > MAX_NAMES {
            wrong.push(format!("--sni has {} names; expected at most {MAX_NAMES}", tls.server_names.len()));
        }
        if tls.server_names.iter().any(|name| name.weight == 0) {
            wrong.push("--sni has a name with a weight of 0; expected at least 1".into());
        }
    }
}

/// Mistakes in the requests.
fn requests(plan: &Plan, wrong: &mut Vec<String>) {
    let Work::Http { requests, streams, in_order, .. } = &plan.work else { return };
    if *in_order && *streams > 1 {
        wrong.push("--in-order needs --streams 1".into());
    }
    wrong.extend(take::mistakes(requests, *in_order).iter().map(|what| format!("--take: {what}")));
    if requests.is_empty() || requests.len() > MAX_REQUESTS {
        wrong.push(format!("--url: {} requests; expected 1 to {MAX_REQUESTS}", requests.len()));
    }
    for request in requests {
        let what = crate::plan::request::mistakes(request).into_iter();
        wrong.extend(what.map(|what| format!("the request {}: {what}", request.name())));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::plan::Arrivals;

    #[test]
    fn everything_that_makes_no_sense_is_reported_at_once() {
        let plan = Plan {
            connections: 0,
            duration: Duration::ZERO,
            model: Model::open(0.0, Arrivals::Fixed),
            ..Plan::default()
        };
        let refusal = check(&plan).expect_err("nonsense");
        assert!(refusal.is_wrong_use());
        assert_eq!(refusal.what.lines().count(), 3, "{refusal}");
        check(&Plan::default()).expect("the default makes sense");
    }

    #[test]
    fn a_client_certificate_without_its_key_is_reported_with_its_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            let mut made = std::fs::File::create_new(&path).expect("a new file");
            std::io::Write::write_all(&mut made, text.as_bytes()).expect("written");
            path
        };
        let chain = file("me.pem", "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n");
        let refused = |key: &Path| {
            let mut plan = Plan::default();
            plan.tls.client_certificate = Some((chain.clone(), key.to_path_buf()));
            settings(&plan).expect_err("there is no key").to_string()
        };
        let alone = refused(&chain);
        assert!(
            alone.contains("me.pem: there is no private key in this file, expected one in PEM"),
            "{alone}"
        );
        assert!(alone.contains("hint: --client-key FILE names the key's own file"), "{alone}");
        let other = refused(&file("me.key", "nothing"));
        assert!(
            other.contains("me.key: there is no private key") && other.contains("-----BEGIN PRIVATE KEY"),
            "{other}"
        );
        let locked = refused(&file("locked.key", "-----BEGIN ENCRYPTED PRIVATE KEY-----\n"));
        assert!(locked.contains("locked.key: the key is encrypted"), "{locked}");
        assert!(refused(Path::new("/none.key")).contains("key from /none.key: No such file"));
    }

    #[test]
    fn a_name_becomes_addresses_and_an_unknown_one_is_named() {
        let plan = |host: &str| {
            let mut plan = Plan::default();
            plan.target.host = host.into();
            plan
        };
        let addresses = {
            let plan = plan("localhost");
            resolve(&plan, &plan.target).expect("localhost")
        };
        assert!(addresses.iter().all(|address| address.ip().is_loopback() && address.port() == 8443));
        let refusal = {
            let plan = plan("no such name");
            resolve(&plan, &plan.target).expect_err("no such name")
        };
        assert!(refusal.what.contains("no such name"), "{refusal}");
    }
}
