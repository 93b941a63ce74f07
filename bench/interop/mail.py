"""Mail: Postfix, and Dovecot with IMAP, POP3 and LMTP; swaks and curl are the clients."""

import shutil
import subprocess

from harness.machine import listens, wait_until
from harness.rows import missing

ENVELOPE = ["--from", "a@example.org", "--to", "b@example.org", "--ehlo", "client.example"]
LOCAL = ["--protocol", "LMTP", "--from", "a@example.org", "--to", "bob", "--ehlo", "client.example"]


def swaks(place, way, word, *options):
    """The command, with TLS where the way has it."""
    tls = [] if way == "plain" else ["-tls", "--tls-verify", "--tls-ca-path", place.ca]
    return ["swaks", "--server", f"localhost:{place.port(way, word)}", *tls, *options]


def can_tls():
    """Whether swaks can use TLS, which is in another package."""
    return subprocess.run(["perl", "-MNet::SSLeay", "-e1"], capture_output=True, check=False).returncode == 0


def send(place, name, expected, way, word, *options):
    """A row: swaks sends a mail."""
    packages = missing(["swaks"]) or ([] if way == "plain" or can_tls() else ["libnet-ssleay-perl"])
    if packages:
        place.rows.row("skipped", name, f"not installed: {', '.join(packages)}")
    else:
        place.rows.run(name, expected, swaks(place, way, word, *options))


def postfix(place):
    folder = place.own_folder("postfix")
    for name in ("queue", "data"):
        (folder / name).mkdir()
    shutil.chown(folder / "data", "postfix")
    place.write(folder, "main.cf")
    place.write(folder, "master.cf", PORT=place.server["smtp"])
    # It becomes a daemon, which only its own command ends.
    subprocess.run(["postfix", "-c", folder, "start"], capture_output=True, check=True, timeout=30)
    try:
        wait_until("postfix to listen", lambda: listens(place.server["smtp"]))
        postfix_rows(place, folder)
    finally:
        subprocess.run(["postfix", "-c", folder, "stop"], capture_output=True, check=False, timeout=30)


def postfix_rows(place, folder):
    place.probed("postfix", "smtp")
    send(place, "postfix, swaks", "queued as", "front", "smtp", *ENVELOPE)
    send(place, "postfix asked, plain swaks", "queued as", "plain", "smtp", *ENVELOPE)
    send(place, "postfix and swaks asked", "queued as", "both", "smtp", *ENVELOPE)
    message = folder / "message"
    message.write_bytes(b"Subject: x\r\n\r\nhello\r\n")
    place.rows.run("postfix, curl", "", [*curl(place, "front"), f"smtp://localhost:{place.port('front', 'smtp')}", "--mail-from", "a@example.org",
                                         "--mail-rcpt", "b@example.org", "-T", message])


def curl(place, way):
    return ["curl", "-sS", "--cacert", place.ca, *([] if way == "plain" else ["--ssl-reqd"])]


def make_mailbox(folder):
    """Makes bob's mailbox with one message, and a folder for the server's own files."""
    for name in ("run", "mail/bob/new", "mail/bob/cur", "mail/bob/tmp"):
        (folder / name).mkdir(parents=True)
    (folder / "mail/bob/new/1.a.b").write_bytes(b"Subject: found\r\n\r\nhello\r\n")
    for path in ((folder / "mail"), *(folder / "mail").rglob("*")):
        path.chmod(0o777)


def dovecot(place):
    folder = place.own_folder("dovecot")
    make_mailbox(folder)
    ports = {word: place.server[word] for word in ("imap", "pop3", "lmtp")}
    config = place.write(folder, "dovecot.conf", **{word.upper(): port for word, port in ports.items()})
    place.start(["dovecot", "-F", "-c", config], *ports.values())
    for word in ports:
        place.probed("dovecot", word)
    for way, name in (("front", "dovecot"), ("plain", "dovecot asked, plain"), ("both", "dovecot asked, both")):
        for word, path in (("imap", "/INBOX;MAILINDEX=1"), ("pop3", "/1")):
            words = [*curl(place, way), "-u", "bob:secret", f"{word}://localhost:{place.port(way, word)}{path}"]
            place.rows.run(f"{name}, curl {word}", "found", words)
    send(place, "dovecot asked, plain, swaks lmtp", "250 2.0.0 <bob> ", "plain", "lmtp", *LOCAL)
    send(place, "dovecot, swaks lmtp", "250 2.0.0 <bob> ", "front", "lmtp", *LOCAL)


GROUPS = [("postfix", ["postfix", "curl"], postfix), ("dovecot", ["dovecot", "curl"], dovecot)]
