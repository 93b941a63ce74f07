"""A directory and a chat: OpenLDAP, Prosody."""

import socket
import subprocess

from harness.machine import Failed, Process, wait_until

ADMIN = "cn=admin,dc=example,dc=org"
STREAM = b"<stream:stream to='localhost' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' version='1.0'>"
# A server that offers STARTTLS within TLS has not noticed that the connection has it.
OFFERED = "<mechanism>PLAIN</mechanism>"


def slapd(place):
    folder = place.own_folder("ldap")
    config = place.write(folder, "slapd.conf")
    # By address: libldap takes the name `localhost` for the machine's own.
    place.start(["slapd", "-d", "0", "-h", f"ldap://127.0.0.1:{place.server['ldap']}", "-f", config], place.server["ldap"])
    place.probed("slapd", "ldap")

    def who(name, way, *options, scheme="ldap", expected=ADMIN, **more):
        words = ["ldapwhoami", *options, "-x", "-H", f"{scheme}://127.0.0.1:{place.port(way, 'ldap')}", "-D", ADMIN, "-w", "secret"]
        place.rows.run(name, expected, words, LDAPTLS_CACERT=str(place.ca), LDAPTLS_REQCERT="demand", **more)

    who("slapd, ldapwhoami -ZZ", "front", "-ZZ")
    who("slapd, ldapwhoami ldaps on the same port", "front", scheme="ldaps")
    who("slapd asked, plain ldapwhoami", "plain")
    who("slapd and ldapwhoami -ZZ asked", "both", "-ZZ")
    who("slapd, a bind without TLS is refused", "front", expected="Confidentiality required", fails=True)


def plain_stream(port):
    """What an XMPP server offers to a client without TLS, until it offers passwords or ends. Deadline: 5 s."""
    received = b""
    with socket.create_connection(("127.0.0.1", port), 5) as connection:
        connection.sendall(STREAM)
        while OFFERED.encode() not in received and (more := connection.recv(65536)):
            received += more
    return received.decode(errors="replace")


def tls_stream(place, way):
    """The same to a client that begins TLS first."""
    words = ["openssl", "s_client", "-quiet", "-starttls", "xmpp", "-name", "localhost", "-connect", f"localhost:{place.port(way, 'xmpp')}",
             "-CAfile", place.ca, "-verify_return_error"]
    client = Process(words, None, place.folder / f"xmpp-{way}.log", stdin=subprocess.PIPE)
    try:
        client.process.stdin.write(STREAM)
        client.process.stdin.flush()
        wait_until("the offer", lambda: OFFERED in client.log.read_text(errors="replace"), 10, client)
    finally:
        client.stop()
    return client.log.read_text(errors="replace")


def prosody(place):
    folder = place.own_folder("prosody")
    config = place.write(folder, "prosody.cfg.lua", PORT=place.server["xmpp"])
    place.start(["prosody", "--root", "-F", "--config", config], place.server["xmpp"])
    for way, client in (("front", "a client with TLS"), ("plain", "a plain client"), ("both", "both asked")):
        try:
            received = plain_stream(place.port(way, "xmpp")) if way == "plain" else tls_stream(place, way)
            problem = "" if OFFERED in received else f"expected `{OFFERED}`, received {received}"
        except (Failed, OSError) as reason:
            problem = str(reason)
        place.rows.check(f"prosody, {client}", problem)


GROUPS = [("slapd", ["slapd", "ldapwhoami"], slapd), ("prosody", ["prosody"], prosody)]
