#!/usr/bin/env bash
# A session of ssh through `ProxyCommand openssl s_client` that succeeds ends its TLS stream without close_notify, so that TLS proxies report it as cut
# off.
#
# Seen with OpenSSH 9.2p1 and 10.6p1, OpenSSL 3.0 and 3.6, TLS 1.2 and 1.3: when the remote command has ended, ssh sends SIGHUP to its ProxyCommand, and
# s_client ends without a last word. ssh itself exits with 0, and all output is there. The same s_client sends close_notify when its input ends. Proxies
# that take a FIN without close_notify for an attack (RFC 9846 §6.1) log these sessions as truncated.
#
# In: nothing; needs ssh, openssl, python3 with venv and a package index. Out: what was seen; exit code 0, 1 if it has changed, 2 if it could not run.
set -euo pipefail
folder=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null; rm -rf "$folder"' EXIT
cd "$folder"
{ python3 -m venv venv && venv/bin/pip -q install asyncssh==2.21.0 trustme==1.2.1 && ssh -V && openssl version; } >/dev/null 2>&1 || exit 2
cat >server.py <<'PYTHON'
import asyncio
import socket
import ssl
import threading

import asyncssh
import trustme

tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
trustme.CA().issue_cert("localhost").configure_cert(tls)


class Server(asyncssh.SSHServer):
    def begin_auth(self, username):
        return False


async def shell(process):
    process.stdout.write("hello\n")
    process.exit(0)


def copy(source, sink):
    try:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def relay(plain, port):
    stream = tls.wrap_socket(plain, server_side=True, suppress_ragged_eofs=False)
    backend = socket.create_connection(("127.0.0.1", port))
    threading.Thread(target=copy, args=(backend, stream), daemon=True).start()
    try:
        while data := stream.recv(65536):
            backend.sendall(data)
        print("close_notify", flush=True)
    except ssl.SSLEOFError:
        print("FIN alone", flush=True)
    except ConnectionResetError:
        print("reset", flush=True)
    backend.close()


async def main():
    key = asyncssh.generate_private_key("ssh-ed25519")
    ssh = await asyncssh.create_server(Server, "127.0.0.1", 0, server_host_keys=[key], process_factory=shell)
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)

    def accept():
        while True:
            threading.Thread(target=relay, args=(listener.accept()[0], ssh.get_port()), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    await asyncio.Event().wait()


asyncio.run(main())
PYTHON
venv/bin/python server.py >seen 2>server.err &
server=$!
for _ in $(seq 100); do [ -s seen ] && break; sleep 0.1; done
port=$(head -1 seen)
for _ in 1 2 3 4 5; do
  output=$(ssh -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR \
    -o "ProxyCommand=openssl s_client -quiet -connect 127.0.0.1:$port 2>/dev/null" user@localhost command)
  [ "$output" = hello ] || exit 2
done
for _ in $(seq 100); do [ "$(wc -l <seen)" -ge 6 ] && break; sleep 0.1; done
without=$(tail -n +2 seen | grep -vc close_notify || true)
echo "$(ssh -V 2>&1), $(openssl version): of five sessions that succeeded, $without ended TLS without close_notify"
[ "$without" -ge 3 ]
