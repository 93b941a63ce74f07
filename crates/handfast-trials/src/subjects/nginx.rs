//! nginx: its stream module, one server for the case and one for the bystander.

use rustix::process::Signal;

use crate::addresses::{BYSTANDER, ECHO, SERVICE};
use crate::mode::{self, Mode};
use crate::setup::USUAL;
use crate::subject::{Scene, Subject, milliseconds};

/// Path of the module in Debian, if it is not part of the program.
const MODULE: &str = "/usr/lib/nginx/modules/ngx_stream_module.so";

/// The adapter.
pub(super) const NGINX: Subject = Subject {
    name: "nginx",
    title: "nginx",
    files: &["nginx"],
    version: "-v",
    file: "nginx.conf",
    modes: &mode::RELAY_MODES,
    settings: &["connect", "handshake", "idle", "drain"],
    configuration,
    unknown_line: "bakend 1;",
    words: |file| ["-e", "stderr", "-c", file].map(str::to_owned).to_vec(),
    check: Some(|file| ["-e", "stderr", "-t", "-c", file].map(str::to_owned).to_vec()),
    reload: Signal::HUP,
    drain: Some(Signal::QUIT),
    sends_close_notify: false,
    is_logged: false,
    has_bystander: true,
};

fn configuration(scene: &Scene<'_>) -> String {
    let module = if std::path::Path::new(MODULE).exists() {
        format!("load_module {MODULE};\n")
    } else {
        String::new()
    };
    let drain =
        scene.limit("drain").map(|limit| format!("worker_shutdown_timeout {};\n", milliseconds(limit)));
    let server = |address: &String| format!("server {address}; ");
    let backends: String = scene.backends().iter().map(server).collect();
    let folder = scene.folder;
    // Bytes that are no ClientHello go to an address where no process listens.
    let only_tls = if scene.mode == Mode::PassThrough {
        "map $ssl_preread_protocol $case { \"\" 127.0.0.1:1; default case; }\n\
         map $ssl_preread_protocol $bystander { \"\" 127.0.0.1:1; default bystander; }\n"
    } else {
        ""
    };
    // The limits of the case are not the bystander's.
    let usual = Scene { setup: &USUAL, ..*scene };
    format!(
        "{module}daemon off;\nworker_processes 2;\nuser root;\npid {folder}/nginx.pid;\nerror_log stderr error;\n{}\
         events {{ worker_connections 1024; }}\nstream {{\nproxy_half_close on;\ntcp_nodelay on;\nproxy_socket_keepalive on;\n{only_tls}\
         upstream case {{ {backends}}}\nupstream bystander {{ server {ECHO}; }}\n{}{}}}\n",
        drain.unwrap_or_default(),
        service(scene, "case", &SERVICE.to_string()),
        service(&usual, "bystander", &BYSTANDER.to_string()),
    )
}

fn service(scene: &Scene<'_>, name: &str, listen: &str) -> String {
    let (mode, folder) = (scene.mode, scene.folder);
    let mut listens = format!("listen {listen} so_keepalive=on");
    let time = |name: &str, usual: &str| scene.limit(name).map_or(usual.to_owned(), milliseconds);
    let mut lines = format!(
        "proxy_connect_timeout {};\nproxy_timeout {};\npreread_timeout {handshake};\nproxy_protocol_timeout {handshake};\n",
        time("connect", "5s"),
        time("idle", "1h"),
        handshake = time("handshake", "10s"),
    );
    if mode.terminates() {
        // Its default leaves TLS 1.3 out.
        lines +=
            &format!("ssl_protocols TLSv1.2 TLSv1.3; ssl_handshake_timeout {};\n", time("handshake", "10s"));
        listens += " ssl";
        lines += &format!("ssl_certificate {folder}/web.pem; ssl_certificate_key {folder}/web.pem;\n");
        if scene.setup.asks_for_certificates {
            lines += &format!("ssl_verify_client optional; ssl_client_certificate {folder}/ca.pem;\n");
        }
    }
    if mode == Mode::ProxyIn {
        listens += " proxy_protocol";
    }
    if mode.originates() {
        lines += &format!(
            "proxy_ssl on; proxy_ssl_verify on; proxy_ssl_trusted_certificate {folder}/ca.pem;\n\
             proxy_ssl_name localhost; proxy_ssl_server_name on; proxy_ssl_protocols TLSv1.2 TLSv1.3;\n"
        );
    }
    if mode == Mode::ProxyOut {
        lines += "proxy_protocol on;\n";
    }
    let to = if mode == Mode::PassThrough {
        lines += "ssl_preread on;\n";
        format!("${name}")
    } else {
        name.to_owned()
    };
    format!("server {{ {listens};\n{lines}proxy_pass {to}; }}\n")
}
