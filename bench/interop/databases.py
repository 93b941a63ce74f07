"""Databases: PostgreSQL, also through proxies on the way, and MariaDB, each with its own client."""

import shutil
import subprocess
from pathlib import Path

from harness.machine import Failed

# PostgreSQL reports itself whether a connection has TLS: the one that Handfast made.
HAS_TLS = "select ssl from pg_stat_ssl where pid = pg_backend_pid()"
CIPHER = "show session status like 'ssl_cipher'"


def run(words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        raise Failed(f"{words[0]}: {(done.stdout + done.stderr).strip()[-300:]}")


def copy_certificate(place, folder, user):
    """(certificate, key) that belong to the server's user."""
    made = folder / "web.crt", folder / "web.key"
    for source, copy in zip((place.certificate.chain, place.certificate.key), made):
        shutil.copy(source, copy)
        shutil.chown(copy, user)
        copy.chmod(0o600)
    return made


def newest_postgresql():
    """The folder with the programs of the newest version."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4]))
    return found[-1].parent if found else Path("/usr/lib/postgresql")


def start_postgresql(place, port):
    """Starts a server with TLS, which is not asked for; returns its folder."""
    folder, programs = place.own_folder("pg"), newest_postgresql()
    shutil.chown(folder, "postgres")
    as_postgres = ["setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups"]
    run([*as_postgres, programs / "initdb", "-D", folder, "-A", "trust", "-U", "postgres"])
    certificate, key = copy_certificate(place, folder, "postgres")
    with open(folder / "postgresql.conf", "a", encoding="utf-8") as config:
        config.write(f"ssl = on\nssl_cert_file = '{certificate}'\nssl_key_file = '{key}'\n")
    place.start([*as_postgres, programs / "postgres", "-D", folder, "-h", "127.0.0.1", "-p", port, "-k", folder], port)
    return folder


def postgresql(place):
    start_postgresql(place, place.server["postgresql"])

    def query(name, expected, way, query=HAS_TLS, word="postgresql", verify=False, **options):
        tls = f"sslmode=verify-full sslrootcert={place.ca}" if verify else "sslmode=disable"
        words = ["psql", f"host=localhost port={place.port(way, word)} user=postgres {tls}", "-Atc", query]
        place.rows.run(name, expected, words, **options)

    place.probed("postgresql", "postgresql")
    query("postgresql, psql verify-full", "42", "front", "select 6*7", verify=True)
    query("postgresql asked, plain psql", "t", "plain")
    query("postgresql and psql verify-full asked", "t", "both", verify=True)
    query("postgresql, psql without TLS receives the reason", "only TLS connections are accepted", "front", fails=True)
    folder, port = place.own_folder("tinyproxy"), place.through["http"]
    tinyproxy = ["tinyproxy", "-d", "-c", place.write(folder, "tinyproxy.conf", PORT=port)]
    microsocks = ["microsocks", "-i", "127.0.0.1", "-p", place.through["socks5"], "-u", "bob", "-P", "secret"]
    for words, kind in ((tinyproxy, "http"), (microsocks, "socks5")):

        def through(words=words, kind=kind):
            place.start(words, place.through[kind])
            query(f"postgresql through {words[0]}", "t", "through", word=kind)

        place.rows.group(f"postgresql through {words[0]}", [words[0]], through)


def start_mariadb(place, port):
    """Starts a server with TLS, which is not asked for; returns its folder."""
    folder = place.own_folder("my")
    shutil.chown(folder, "mysql")
    run(["mariadb-install-db", "--no-defaults", "--user=mysql", f"--datadir={folder}", "--auth-root-authentication-method=normal"])
    certificate, key = copy_certificate(place, folder, "mysql")
    place.start(["mariadbd", "--no-defaults", "--user=mysql", f"--ssl-cert={certificate}", f"--ssl-key={key}", f"--datadir={folder}",
                 "--bind-address=127.0.0.1", f"--port={port}", f"--socket={folder}/s", f"--pid-file={folder}/p"], port)
    return folder


def mariadb(place):
    folder = start_mariadb(place, place.server["mysql"])
    place.probed("mariadb", "mysql")
    run(["mariadb", "--no-defaults", "--skip-ssl", "-S", folder / "s", "-u", "root", "-e", "create user bob@localhost identified by 'secret'"])

    def client(name, expected, way, query, password="secret", more=(), **options):
        tls = ["--skip-ssl"] if way == "plain" else ["--ssl", f"--ssl-ca={place.ca}", "--ssl-verify-server-cert"]
        words = ["mariadb", "--no-defaults", "-h", "localhost", "--protocol=tcp", "-P", place.port(way, "mysql"), "-u", "bob", f"-p{password}"]
        place.rows.run(name, expected, [*words, *tls, *more, "-e", query], **options)

    client("mariadb, its client", "bob@", "front", "select user(), version()")
    client("mariadb, its client --compress", "bob@", "front", "select user(), version()", more=["--compress"])
    client("mariadb asked, its plain client", "TLS_", "plain", CIPHER)
    client("mariadb and its client asked", "TLS_", "both", CIPHER)
    client("mariadb asked, a wrong password is refused in its words", "Access denied", "plain", "select 1", password="wrong", fails=True)
    client("mariadb, a wrong password is refused in its words", "Access denied", "front", "select 1", password="wrong", fails=True)


GROUPS = [
    ("postgresql", ["psql", "setpriv", str(newest_postgresql() / "initdb")], postgresql),
    ("mariadb", ["mariadbd", "mariadb", "mariadb-install-db"], mariadb),
]
