#!/usr/bin/env bash
# A TLS client of the JDK with its default settings waits about 40 ms for the answer to its first request, on the loopback too, behind servers that
# answer within a millisecond.
#
# Seen with OpenJDK 17 against CPython's ssl (OpenSSL): the client writes change_cipher_spec and Finished in two segments. Nagle's algorithm, which
# the JDK leaves on, holds the second one back until the first is acknowledged, and the server's kernel delays that acknowledgement by 40 ms, since the
# server has nothing to send. `startHandshake` returns before, so the time counts for the first request. With `Socket.setTcpNoDelay(true)` before the
# handshake it is gone. nginx 1.22, HAProxy 2.6 and stunnel 5.68 in front of an echo showed the same 42 ms.
#
# In: nothing; needs python3 with venv, a JDK (java) and a package index. Out: what was seen; exit code 0, 1 if it has changed, 2 if it could not run.
set -euo pipefail
folder=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null; rm -rf "$folder"' EXIT
cd "$folder"
{ python3 -m venv venv && venv/bin/pip -q install trustme==1.2.1 && java --version; } >/dev/null 2>&1 || exit 2
cat >server.py <<'PYTHON'
import socket
import ssl
import threading

import trustme

tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
trustme.CA().issue_cert("localhost").configure_cert(tls)
tls.num_tickets = 0
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)


def serve(plain):
    stream = tls.wrap_socket(plain, server_side=True)
    stream.sendall(stream.recv(4))
    stream.recv(4)


while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
PYTHON
cat >First.java <<'JAVA'
import java.net.Socket;
import java.security.cert.X509Certificate;
import java.util.Arrays;
import javax.net.ssl.*;

public class First {
    static final class Any implements X509TrustManager {
        public void checkClientTrusted(X509Certificate[] chain, String type) {}
        public void checkServerTrusted(X509Certificate[] chain, String type) {}
        public X509Certificate[] getAcceptedIssuers() { return new X509Certificate[0]; }
    }

    static long median(int port, boolean noDelay) throws Exception {
        long[] times = new long[15];
        for (int number = 0; number < times.length; number++) {
            // A new context: no session is resumed.
            SSLContext context = SSLContext.getInstance("TLS");
            context.init(null, new TrustManager[] {new Any()}, null);
            Socket plain = new Socket("127.0.0.1", port);
            plain.setTcpNoDelay(noDelay);
            try (SSLSocket stream = (SSLSocket) context.getSocketFactory().createSocket(plain, "localhost", port, true)) {
                stream.startHandshake();
                long began = System.nanoTime();
                stream.getOutputStream().write("ping".getBytes());
                stream.getInputStream().readNBytes(4);
                times[number] = (System.nanoTime() - began) / 1_000_000;
            }
        }
        Arrays.sort(times);
        return times[times.length / 2];
    }

    public static void main(String[] arguments) throws Exception {
        int port = Integer.parseInt(arguments[0]);
        System.out.println(median(port, false) + " " + median(port, true));
    }
}
JAVA
venv/bin/python server.py >port 2>server.log &
server=$!
for _ in $(seq 100); do [[ -s port ]] && break; sleep 0.1; done
[[ -s port ]] || exit 2
read -r default without < <(java First.java "$(cat port)") || exit 2
echo "$(java --version | head -1): first answer after $default ms by default, after $without ms without Nagle's algorithm (medians of 15)"
((default >= 20 && without < 10))
