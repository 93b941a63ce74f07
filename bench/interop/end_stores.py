"""Sessions with answers, and with a last message of their own: IMAP, SMTP, LDAP, PostgreSQL, MariaDB."""

from harness.machine import Failed, wait_until

from .databases import newest_postgresql, run, start_mariadb, start_postgresql
from .mail import make_mailbox

DOVECOT = """dovecot_config_version = 2.4.0
dovecot_storage_version = 2.4.0
protocols = imap
listen = 127.0.0.1
base_dir = {folder}/run
state_dir = {folder}/run
log_path = {folder}/dovecot.log
ssl = yes
ssl_server_cert_file = {chain}
ssl_server_key_file = {key}
auth_allow_cleartext = yes
mail_driver = maildir
mail_path = {folder}/mail/%{{user}}
first_valid_uid = 1
passdb static {{
  password = secret
}}
userdb static {{
  fields {{
    uid = nobody
    gid = nogroup
    home = {folder}/mail/%{{user}}
  }}
}}
service imap-login {{
  chroot =
  inet_listener imap {{
    port = {plain}
  }}
  inet_listener imaps {{
    port = {tls}
    ssl = yes
  }}
}}
service anvil {{
  chroot =
}}
"""
SLAPD = """include /etc/ldap/schema/core.schema
pidfile {folder}/pid
TLSCertificateFile {chain}
TLSCertificateKeyFile {key}
modulepath /usr/lib/ldap
moduleload back_mdb
database mdb
suffix "dc=example,dc=org"
rootdn "cn=admin,dc=example,dc=org"
rootpw secret
directory {folder}
"""


def values(place, word, folder):
    return {"folder": folder, "plain": place.plain[word], "tls": place.tls[word], "chain": place.certificate.chain, "key": place.certificate.key}


def imap(place):
    folder = place.own_folder("imap")
    make_mailbox(folder)
    config = folder / "dovecot.conf"
    config.write_text(DOVECOT.format(**values(place, "imap", folder)))
    place.start(["dovecot", "-F", "-c", config], place.plain["imap"], place.tls["imap"])
    place.sessions("imap", "IMAP, curl", lambda port, mark: [
        "curl", "-sS", "--cacert", place.ca, "-u", "bob:secret", f"imaps://localhost:{port}/INBOX;MAILINDEX=1"])
    place.sessions("imap", "IMAP, Python imaplib", place.python("imaplib"))


def smtp(place):
    """The server is aiosmtpd, which writes the messages to its output."""
    folder, received = place.own_folder("smtp"), {}
    for kind, port in (("plain", place.plain["smtp"]), ("tls", place.tls["smtp"])):
        tls = [] if kind == "plain" else ["--smtpscert", place.certificate.chain, "--smtpskey", place.certificate.key]
        words = ["python3", "-u", "-m", "aiosmtpd", "-n", "-l", f"127.0.0.1:{port}", "-c", "aiosmtpd.handlers.Debugging", "stdout", *tls]
        received[kind] = place.start(words, port, output=folder / kind)

    def arrived(mark):
        return "" if any(mark in path.read_text(errors="replace") for path in received.values()) else "the message did not arrive"

    def curl(port, mark):
        message = folder / f"{mark}mail"
        message.write_text(f"Subject: {mark}\r\n\r\nhello\r\n")
        return ["curl", "-sS", "--cacert", place.ca, f"smtps://localhost:{port}", "--mail-from", "a@example.org", "--mail-rcpt", "b@example.org",
                "-T", message]

    place.sessions("smtp", "SMTP, curl", curl, arrived)
    place.sessions("smtp", "SMTP, Python smtplib", place.python("smtplib"), arrived)


def ldap(place):
    folder, plain, tls = place.own_folder("ldap"), place.plain["ldap"], place.tls["ldap"]
    config = folder / "slapd.conf"
    config.write_text(SLAPD.format(**values(place, "ldap", folder)))
    place.start(["slapd", "-d", "0", "-h", f"ldap://127.0.0.1:{plain} ldaps://127.0.0.1:{tls}", "-f", config], plain, tls)
    place.sessions("ldap", "LDAP, ldapwhoami (libldap)", lambda port, mark: [
        "ldapwhoami", "-x", "-H", f"ldaps://127.0.0.1:{port}", "-D", "cn=admin,dc=example,dc=org", "-w", "secret"])
    place.sessions("ldap", "LDAP, Python ldap3", place.python("ldap3"))


def postgresql(place):
    port = place.plain["postgresql"]
    start_postgresql(place, port)
    direct = ["psql", f"host=127.0.0.1 port={port} user=postgres sslmode=disable", "-c"]
    # It listens before it is ready.
    wait_until("postgresql", lambda: not stored([*direct, "select 1"]))
    run([*direct, "create table marks (mark text)"])

    def arrived(mark):
        return stored([*direct, f"select 1 / count(*) from marks where mark = '{mark}'"])

    place.sessions("postgresql", "PostgreSQL, psql", lambda port, mark: [
        "psql", f"host=localhost port={port} user=postgres sslmode=verify-full sslrootcert={place.ca}", "-c", f"insert into marks values ('{mark}')"],
        arrived)
    for client in ("psycopg", "psycopg2", "asyncpg"):
        place.sessions("postgresql", f"PostgreSQL, {client}", place.python(client), arrived)


def stored(words):
    """What is missing in a database: the command fails without a row."""
    try:
        run(words)
    except Failed as problem:
        return f"the row did not arrive ({problem})"
    return ""


def mariadb(place):
    folder = start_mariadb(place, place.plain["mysql"])
    direct = ["mariadb", "--no-defaults", "--skip-ssl", "-S", folder / "s", "-u", "root", "-e"]
    run([*direct, "create user bob@localhost identified by 'secret'; create database if not exists test; grant all on test.* to bob@localhost; "
                  "create table test.marks (mark text)"])

    def arrived(mark):
        # A subquery with two rows is an error.
        return stored([*direct, f"select if(count(*), 1, (select 1 union select 2)) from test.marks where mark = '{mark}'"])

    place.sessions("mysql", "MariaDB, its client", lambda port, mark: [
        "mariadb", "--no-defaults", "-h", "localhost", "--protocol=tcp", "-P", port, "-u", "bob", "-psecret", "--ssl", f"--ssl-ca={place.ca}",
        "--ssl-verify-server-cert", "test", "-e", f"insert into marks values ('{mark}')"], arrived)
    place.sessions("mysql", "MariaDB, Python pymysql", place.python("pymysql"), arrived)


GROUPS = [
    ("imap", ["dovecot", "curl"], imap),
    ("smtp", ["curl"], smtp),
    ("ldap", ["slapd", "ldapwhoami"], ldap),
    ("postgresql", ["psql", "setpriv", str(newest_postgresql() / "initdb")], postgresql),
    ("mariadb", ["mariadbd", "mariadb", "mariadb-install-db"], mariadb),
]
