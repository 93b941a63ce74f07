//! PROXY headers of other programs are understood here, and ours there: HAProxy and nginx both ways, hitch and stunnel as senders,
//! for they read none.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, sync_channel};

use handfast_wire::proxy_header::{Tls, Version as Form, tlv};

use super::support::certificates::{KeyKind, localhost};
use super::support::client::dial;
use super::support::deadline::wait_until_seeing;
use super::support::folder::Folder;
use super::support::proxy_headers::header;
use super::support::servers::address_of_ones_own;
use super::support::skip::{needs, skipped};
use super::support::tools::Tool;
use super::support::*;

const SECTION: &str = "service.proxy-protocol";
pub(super) const NGINX_STREAM: &str = "/usr/lib/nginx/modules/ngx_stream_module.so";

/// A proxy of ours in front of an echo, that accepts headers from every client on this machine.
fn ours() -> Stage {
    Stage::with(Backend::echo(), |config, _| config.set(SECTION, "accept-from", "[\"127.0.0.0/8\"]"))
}

/// Waits for a listener. This connection is not one of the clients: it sends nothing.
pub(super) fn wait_until_listening(tool: &Tool, address: SocketAddr) {
    wait_until_seeing(
        "it to listen",
        || dial(address).ok().map(drop),
        || format!("{}\n{}", tool.output.so_far().join("\n"), tool.talk.so_far().join("\n")),
    );
}

/// HAProxy with these sections.
pub(super) fn haproxy(folder: &Folder, address: SocketAddr, sections: &str) -> Tool {
    let config = format!(
        "defaults\n    timeout connect 10s\n    timeout client 10s\n    timeout server 10s\n{sections}"
    );
    let config = folder.write("haproxy.cfg", config).display().to_string();
    let tool = Tool::start("haproxy", &["-db", "-f", &config]);
    wait_until_listening(&tool, address);
    tool
}

/// The record of a client that came through another proxy: the log names the client and that proxy.
fn named(stage: &Stage, client: &str) -> super::support::record::Record {
    let record = stage.proxy.record(client, |record| record.text("client") == client);
    assert!(record.text("proxied_by").starts_with("127."), "{record:?}");
    assert_ne!(record.text("proxied_by"), client);
    record
}

/// HAProxy carries the client's TLS to us untouched.
#[test]
fn haproxy_sends_both_versions_to_us() {
    needs!("haproxy");
    for options in [
        "send-proxy",
        "send-proxy-v2",
        "send-proxy-v2-ssl-cn",
        "send-proxy-v2 proxy-v2-options ssl,cert-cn,ssl-cipher,cert-sig,cert-key,authority,crc32c,unique-id",
    ] {
        let (stage, folder, address) = (ours(), Folder::new(), address_of_ones_own());
        let sections = format!(
            "frontend front\n    mode tcp\n    bind {address}\n    unique-id-format haproxy-%pid-%rt\n    default_backend back\n\
             backend back\n    mode tcp\n    server us {} {options}\n",
            stage.proxy.address()
        );
        let _haproxy = haproxy(&folder, address, &sections);
        let mut client = Client::connect(address, &Trust::version(Version::Tls13).config());
        client.echo(b"through HAProxy");
        let own = client.stream.local_addr().expect("it is bound").to_string();
        client.finish();
        let record = named(&stage, &own);
        assert_eq!(
            record.text("unique_id").starts_with("haproxy-"),
            options.contains("unique-id"),
            "{record:?}"
        );
    }
}

/// HAProxy ends the client's TLS and speaks its own to us: what it says of the client's is in the header.
#[test]
fn haproxy_reports_tls() {
    needs!("haproxy");
    let (stage, folder, address) = (ours(), Folder::new(), address_of_ones_own());
    let pem = folder.write("both.pem", localhost().combined());
    let sections = format!(
        "frontend front\n    mode tcp\n    bind {address} ssl crt {} alpn mqtt\n    default_backend back\n\
         backend back\n    mode tcp\n    server us {} ssl verify none sni str(localhost) send-proxy-v2-ssl-cn \
         proxy-v2-options ssl,ssl-cipher,cert-sig,cert-key,authority,crc32c\n",
        pem.display(),
        stage.proxy.address()
    );
    let _haproxy = haproxy(&folder, address, &sections);
    let mut client = Client::connect(address, &Trust::version(Version::Tls13).protocol("mqtt").config());
    client.echo(b"through HAProxy");
    let own = client.stream.local_addr().expect("it is bound").to_string();
    client.finish();
    let record = named(&stage, &own);
    assert_eq!(record.text("proxied_alpn"), "mqtt", "{record:?}");
    assert_eq!(record.text("proxied_authority"), "localhost", "{record:?}");
}

/// HAProxy returns in its answer what it read from our header.
#[test]
fn haproxy_understands_ours() {
    needs!("haproxy");
    for form in ["v1", "v2"] {
        let (folder, address) = (Folder::new(), address_of_ones_own());
        let sections = format!(
            "frontend front\n    mode http\n    bind {address} accept-proxy\n    http-request return status 200 \
             content-type text/plain lf-string \"%[src]:%[src_port] %[dst]:%[dst_port] %[fc_pp_authority] %[fc_pp_unique_id];\"\n"
        );
        let _haproxy = haproxy(&folder, address, &sections);
        let stage =
            Stage::with(Backend::echo(), |_, folder| Config::to(folder, address).text(SECTION, "send", form));
        let mut client = stage.any_client();
        client.send(b"GET / HTTP/1.0\r\n\r\n");
        let answer = String::from_utf8_lossy(&client.read_to_end().bytes).into_owned();
        let own = client.stream.local_addr().expect("it is bound").to_string();
        drop(client);
        let record = stage.proxy.record(&own, |record| record.text("client") == own);
        let received = match form {
            "v1" => " ".to_owned(),
            _ => format!("localhost {}", record.text("unique_id")),
        };
        let expected = format!("{own} {} {received};", stage.proxy.address());
        assert!(answer.contains(&expected), "{form}: {expected:?} is not in\n{answer}");
    }
}

/// nginx as a server of HTTP behind PROXY headers, with this `location`.
pub(super) fn nginx_with_headers(folder: &Folder, address: SocketAddr, location: &str) -> Tool {
    let place = folder.path().display();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("  {kind}_temp_path {place}/{kind};\n"))
        .concat();
    let config = format!(
        "events {{ }}\nhttp {{\n{temporary}  access_log off;\n  server {{\n    listen {address} proxy_protocol;\n    {location}\n  \
         }}\n}}\n"
    );
    nginx(folder, address, &config)
}

pub(super) fn nginx(folder: &Folder, address: SocketAddr, config: &str) -> Tool {
    let place = folder.path().display().to_string();
    let config = format!("daemon off;\nmaster_process off;\npid {place}/pid;\nerror_log stderr;\n{config}");
    let config = folder.write("nginx.conf", config).display().to_string();
    let tool = Tool::start("nginx", &["-p", &place, "-c", &config, "-e", "stderr"]);
    wait_until_listening(&tool, address);
    tool
}

#[test]
fn nginx_sends_version_1_to_us() {
    needs!("nginx");
    if !std::path::Path::new(NGINX_STREAM).exists() {
        skipped!("nginx's stream module is not installed (libnginx-mod-stream)");
    }
    let (stage, folder, address) = (ours(), Folder::new(), address_of_ones_own());
    let config = format!(
        "load_module {NGINX_STREAM};\nevents {{ }}\nstream {{\n  server {{\n    listen {address};\n    proxy_pass {};\n    \
         proxy_protocol on;\n  }}\n}}\n",
        stage.proxy.address()
    );
    let _nginx = nginx(&folder, address, &config);
    let mut client = Client::connect(address, &Trust::version(Version::Tls13).config());
    client.echo(b"through nginx");
    let own = client.stream.local_addr().expect("it is bound").to_string();
    // nginx answers a client's end with its end, and passes neither on.
    drop(client);
    named(&stage, &own);
}

#[test]
fn nginx_understands_ours() {
    needs!("nginx");
    for form in ["v1", "v2"] {
        let (folder, address) = (Folder::new(), address_of_ones_own());
        let location = "location / { return 200 \"$proxy_protocol_addr:$proxy_protocol_port \
                        $proxy_protocol_server_addr:$proxy_protocol_server_port;\"; }";
        let _nginx = nginx_with_headers(&folder, address, location);
        let stage =
            Stage::with(Backend::echo(), |_, folder| Config::to(folder, address).text(SECTION, "send", form));
        let mut client = stage.any_client();
        client.send(b"GET / HTTP/1.0\r\n\r\n");
        let answer = String::from_utf8_lossy(&client.read_to_end().bytes).into_owned();
        let own = client.stream.local_addr().expect("it is bound");
        let expected = format!("{own} {};", stage.proxy.address());
        assert!(answer.contains(&expected), "{form}: {expected:?} is not in\n{answer}");
    }
}

/// Notes what each connection sends first; for senders that carry no TLS behind their header.
fn noting() -> (Backend, Receiver<Vec<u8>>) {
    let (sender, first) = sync_channel(64);
    let backend = Backend::start(move |peer| {
        let (mut bytes, mut buffer) = (Vec::new(), vec![0; 65_536]);
        // The mark is the client's; the header may have a separate segment.
        while !bytes.ends_with(b"mark") {
            match peer.stream.read(&mut buffer) {
                Ok(count @ 1..) => bytes.extend_from_slice(&buffer[..count]),
                _ => return,
            }
        }
        let _ = sender.try_send(bytes);
        peer.send(b"seen");
    });
    (backend, first)
}

/// With the client's name and its whole certificate a header is longer than those that are usual.
#[test]
fn a_header_with_a_certificate_is_understood_too() {
    needs!("haproxy");
    for form in ["cn", "der"] {
        let (folder, address) = (Folder::new(), address_of_ones_own());
        let sections = format!(
            "frontend front\n    mode http\n    bind {address} accept-proxy\n    http-request return status 200 \
             content-type text/plain lf-string \"%[src]:%[src_port] %[fc_pp_authority] %[fc_pp_unique_id];\"\n"
        );
        let _haproxy = haproxy(&folder, address, &sections);
        let stage = Stage::with(Backend::echo(), |_, folder| {
            let ca = folder.write("clients.pem", &authority().pem);
            Config::to(folder, address)
                .text("service.client-certificates", "mode", "require")
                .text("service.client-certificates", "ca", ca.display())
                .text(SECTION, "send", "v2")
                .text(SECTION, "client-certificate", form)
        });
        // Some CAs write long ones.
        let names: Vec<String> = (0..150).map(|number| format!("name-{number}.client.example")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let identity = authority().identity(&names, KeyKind::Ecdsa);
        assert!(identity.certificate.len() > 3_000);
        let trust = Trust::version(Version::Tls13).showing(&identity).protocol("mqtt");
        let mut client = stage.client(&trust.config());
        client.send(b"GET / HTTP/1.0\r\n\r\n");
        let answer = String::from_utf8_lossy(&client.read_to_end().bytes).into_owned();
        let own = client.stream.local_addr().expect("it is bound").to_string();
        drop(client);
        let record = stage.proxy.record(&own, |record| record.text("client") == own);
        let expected = format!("{own} localhost {};", record.text("unique_id"));
        assert!(answer.contains(&expected), "{form}: {expected:?} is not in\n{answer}");
    }
}

/// A client of another TLS proxy sends its mark. Returns its address, and what the backend got.
fn marked(address: SocketAddr, first: &Receiver<Vec<u8>>) -> (SocketAddr, Vec<u8>) {
    let mut client = Client::connect(address, &Trust::version(Version::Tls13).config());
    client.send(b"mark");
    assert_eq!(client.read_exactly(4), b"seen");
    let own = client.stream.local_addr().expect("it is bound");
    (own, first.recv_timeout(DEADLINE).expect("the backend saw it"))
}

/// And through us to the end, where what they send is put before a ClientHello.
fn replayed(sent: &[u8], own: SocketAddr) {
    let stage = ours();
    let length = header(sent).length;
    let mut client = super::support::proxy_headers::together(stage.proxy.address(), &sent[..length])
        .unwrap_or_else(|refusal| panic!("{refusal:?}"));
    client.echo(b"replayed");
    client.finish();
    named(&stage, &own.to_string());
    stage.is_quiet();
}

#[test]
fn hitch_writes_what_we_understand() {
    needs!("hitch");
    let (folder, address) = (Folder::new(), address_of_ones_own());
    let (backend, first) = noting();
    let pem = folder.write("both.pem", localhost().combined());
    let config = format!(
        "frontend = \"[{}]:{}\"\nbackend = \"[127.0.0.1]:{}\"\npem-file = \"{}\"\nwrite-proxy-v2 = on\nproxy-tlv = on\nworkers = 1\n\
         daemon = off\n{}",
        address.ip(),
        address.port(),
        backend.address.port(),
        pem.display(),
        // It refuses to work as root.
        if rustix::process::geteuid().is_root() { "user = \"nobody\"\ngroup = \"nogroup\"\n" } else { "" }
    );
    let config = folder.write("hitch.conf", config).display().to_string();
    let tool = Tool::start("hitch", &[&format!("--config={config}")]);
    wait_until_listening(&tool, address);
    let (own, sent) = marked(address, &first);
    let received = header(&sent);
    assert_eq!((received.version, received.tcp().map(|ends| ends.0)), (Form::V2, Some(own)));
    assert_eq!(received.authority(), Some("localhost"));
    let tls = received.tls().expect("it tells of TLS");
    assert_eq!(tls.client & Tls::USED, Tls::USED);
    assert!(tls.values().any(|tlv| tlv.number == tlv::SSL_VERSION && tlv.value == b"TLSv1.3"));
    replayed(&sent, own);
}

#[test]
fn stunnel_writes_what_we_understand() {
    needs!("stunnel4");
    let (folder, address) = (Folder::new(), address_of_ones_own());
    let (backend, first) = noting();
    let pem = folder.write("both.pem", localhost().combined());
    let config = format!(
        "foreground = yes\npid =\nsyslog = no\n[front]\naccept = {address}\nconnect = {}\ncert = {}\nprotocol = proxy\n",
        backend.address,
        pem.display()
    );
    let config = folder.write("stunnel.conf", config).display().to_string();
    let tool = Tool::start("stunnel4", &[&config]);
    wait_until_listening(&tool, address);
    let (own, sent) = marked(address, &first);
    let received = header(&sent);
    assert_eq!((received.version, received.tcp().map(|ends| ends.0)), (Form::V1, Some(own)));
    replayed(&sent, own);
}

/// No other program sends this: an unknown client behind HAProxy that adds a header is one client, with
/// the address that HAProxy reports.
#[test]
fn a_client_cannot_add_a_header_behind_the_proxys_own() {
    needs!("haproxy");
    let (stage, folder, address) = (ours(), Folder::new(), address_of_ones_own());
    let sections = format!(
        "frontend front\n    mode tcp\n    bind {address}\n    default_backend back\nbackend back\n    mode tcp\n    server us {} \
         send-proxy-v2\n",
        stage.proxy.address()
    );
    let _haproxy = haproxy(&folder, address, &sections);
    let mut stream = dial(address).expect("HAProxy listens");
    stream.write_all(b"PROXY TCP4 203.0.113.9 203.0.113.9 1 1\r\n").expect("a fresh socket takes them");
    let own = stream.local_addr().expect("it is bound").to_string();
    let record = stage.proxy.record_of("hello/client/proxy-header-unexpected");
    assert_eq!(record.text("client"), own);
    assert_eq!(stage.backend.accepted(), 0);
}
