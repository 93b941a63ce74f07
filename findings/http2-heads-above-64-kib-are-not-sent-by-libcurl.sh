#!/usr/bin/env bash
# Kerberos tickets and large cookies make heads of more than 64 KiB. A server of HTTP/2 says which it takes (SETTINGS_MAX_HEADER_LIST_SIZE,
# RFC 9113 §6.5.2), and a client should send what is within that.
#
# Seen with pycurl 7.49.0 (libcurl 8.23.0, nghttp2 1.70.0): a head of 80,000 bytes is not sent to a server that announces 1 MiB; the request fails with
# error 55, "Failed sending data to the peer", which says nothing of its size. The same request over HTTP/1.1 is served, and so is one of 40,000
# bytes over HTTP/2. Whoever looks for the cause at the proxy or the server finds a connection that the client ended.
#
# In: nothing; needs python3 with venv, and a package index. Out: what was seen; exit code 0, 1 if it has changed, 2 if it could not run.
set -euo pipefail
folder=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null; rm -rf "$folder"' EXIT
cd "$folder"
{ python3 -m venv venv && venv/bin/pip -q install pycurl==7.49.0 h2==4.3.0 trustme==1.2.1; } >/dev/null 2>&1 || exit 2
cat >server.py <<'PYTHON'
import socket
import ssl
import threading

import h2.config
import h2.connection
import h2.events
import h2.settings
import trustme

LARGEST = 1 << 20
authority = trustme.CA()
authority.cert_pem.write_to_path("ca.pem")
tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
authority.issue_cert("localhost").configure_cert(tls)
tls.set_alpn_protocols(["h2", "http/1.1"])
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)


def http1(stream):
    received = b""
    while b"\r\n\r\n" not in received:
        received += stream.recv(65536)
    stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")


def http2(stream):
    connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
    connection.decoder.max_header_list_size = LARGEST
    connection.update_settings({h2.settings.SettingCodes.MAX_HEADER_LIST_SIZE: LARGEST})
    connection.initiate_connection()
    stream.sendall(connection.data_to_send())
    while received := stream.recv(65536):
        for event in connection.receive_data(received):
            if isinstance(event, h2.events.RequestReceived):
                connection.send_headers(event.stream_id, [(":status", "200"), ("content-length", "2")])
                connection.send_data(event.stream_id, b"ok", end_stream=True)
        stream.sendall(connection.data_to_send())


def serve(plain):
    stream = tls.wrap_socket(plain, server_side=True)
    (http2 if stream.selected_alpn_protocol() == "h2" else http1)(stream)


while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
PYTHON
cat >client.py <<'PYTHON'
import sys

import pycurl

for version in (pycurl.CURL_HTTP_VERSION_1_1, pycurl.CURL_HTTP_VERSION_2TLS):
    for size in (40_000, 80_000):
        client = pycurl.Curl()
        client.setopt(pycurl.URL, f"https://localhost:{sys.argv[1]}/")
        client.setopt(pycurl.CAINFO, "ca.pem")
        client.setopt(pycurl.HTTP_VERSION, version)
        client.setopt(pycurl.TIMEOUT, 5)
        client.setopt(pycurl.WRITEFUNCTION, lambda data: None)
        client.setopt(pycurl.HTTPHEADER, [f"Authorization: Negotiate {'a' * size}"])
        try:
            client.perform()
            outcome = client.getinfo(pycurl.RESPONSE_CODE)
        except pycurl.error as error:
            outcome = f"error {error.args[0]}: {error.args[1]}"
        print(f"{'HTTP/1.1' if version == pycurl.CURL_HTTP_VERSION_1_1 else 'HTTP/2'}, {size} bytes: {outcome}")
PYTHON
venv/bin/python server.py >port 2>/dev/null &
server=$!
for _ in $(seq 100); do [[ -s port ]] && break; sleep 0.1; done
venv/bin/python client.py "$(cat port)" | tee seen
diff - seen >/dev/null <<'EXPECTED' || { echo "changed" >&2; exit 1; }
HTTP/1.1, 40000 bytes: 200
HTTP/1.1, 80000 bytes: 200
HTTP/2, 40000 bytes: 200
HTTP/2, 80000 bytes: error 55: Failed sending data to the peer
EXPECTED
