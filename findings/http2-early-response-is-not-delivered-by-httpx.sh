#!/usr/bin/env bash
# An HTTP/2 server may send a complete response before it has received the whole request (RFC 9113 §8.1): a proxy does so for content that is
# too large (413), for a request without permission (403) and the like. The client should then deliver the response.
#
# Seen with httpx 0.28.1, httpcore 1.0.9 and h2 4.3.0: if the content is larger than the window that the server has opened, the client waits for a
# larger window and does not deliver the response that it has received; the caller gets ReadTimeout instead of the status 413. With content that
# fits into the window the same server's 413 is delivered.
#
# In: nothing; needs python3 with venv, and a package index. Out: what was seen; exit code 0, 1 if it has changed, 2 if it could not run.
set -euo pipefail
folder=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null; rm -rf "$folder"' EXIT
cd "$folder"
{ python3 -m venv venv && venv/bin/pip -q install 'httpx[http2]==0.28.1' httpcore==1.0.9 h2==4.3.0 trustme==1.2.1; } >/dev/null 2>&1 || exit 2
cat >server.py <<'PYTHON'
import socket
import ssl
import threading

import h2.config
import h2.connection
import h2.events
import trustme

authority = trustme.CA()
authority.cert_pem.write_to_path("ca.pem")
tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
authority.issue_cert("localhost").configure_cert(tls)
tls.set_alpn_protocols(["h2"])
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)


def serve(plain):
    stream = tls.wrap_socket(plain, server_side=True)
    connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
    connection.initiate_connection()
    stream.sendall(connection.data_to_send())
    while received := stream.recv(65536):
        for event in connection.receive_data(received):
            if isinstance(event, h2.events.RequestReceived):
                connection.send_headers(event.stream_id, [(":status", "413"), ("content-length", "9")])
                connection.send_data(event.stream_id, b"too large", end_stream=True)
        stream.sendall(connection.data_to_send())


while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
PYTHON
cat >client.py <<'PYTHON'
import ssl
import sys

import httpx

trust = ssl.create_default_context(cafile="ca.pem")
for size in (1_000, 300_000):
    with httpx.Client(http2=True, verify=trust, timeout=3) as client:
        try:
            outcome = client.post(f"https://localhost:{sys.argv[1]}/", content=b"x" * size).status_code
        except httpx.HTTPError as error:
            outcome = type(error).__name__
    print(f"{size} bytes: {outcome}")
PYTHON
venv/bin/python server.py >port 2>/dev/null &
server=$!
for _ in $(seq 100); do [[ -s port ]] && break; sleep 0.1; done
venv/bin/python client.py "$(cat port)" | tee seen
diff - seen >/dev/null <<'EXPECTED' || { echo "changed" >&2; exit 1; }
1000 bytes: 413
300000 bytes: ReadTimeout
EXPECTED
