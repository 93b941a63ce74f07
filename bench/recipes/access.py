"""Recipes about who may use an application: client certificates of an internal authority, and sign-in with oauth2-proxy.

In: a trial. Out: its rows.
"""

import json
import shlex
import shutil

from harness.certificates import Authority
from web import tools

from .page import changed
from .trial import HERE, free_port, run

# Of curl, for an alert in answer to its certificate: it comes before or after the request was sent.
REFUSED = (35, 55, 56)


def certificates(trial):
    port, folder = free_port(), trial.folder
    clients, foreign = Authority(folder, "clients-ca"), Authority(folder, "foreign-ca")
    shutil.copy(clients.chain, folder / "clients-ca.pem")
    users = {name: authority.issue(name, [name, f"{name}.clients.example.org"]) for name, authority in
             (("alice", clients), ("bob", clients), ("mallory", clients), ("stranger", foreign))}
    revoke(folder, clients, users["mallory"])
    trial.node(port, "api.js")
    trial.handfast({"127.0.0.1:8080": f"127.0.0.1:{port}"})
    for version in ("1.1", "2"):
        def ask(path, user=None, *words, **more):
            shown = ("--cert", users[user].chain, "--key", users[user].key) if user else ()
            return trial.curl(path, f"--http{version}", *shown, *words, **more)

        def subject(answer):
            return json.loads(answer.text)["fields"].get("x-client")
        statuses = {(path, user): ask(path, user).status for path in ("/", "/public", "/admin") for user in ("alice", "bob", None)}
        expected = {("/", "alice"): 200, ("/", "bob"): 200, ("/", None): 403, ("/admin", "alice"): 200, ("/admin", "bob"): 403,
                    ("/admin", None): 403, ("/public", "alice"): 200, ("/public", "bob"): 200, ("/public", None): 200}
        trial.check(f"HTTP/{version}: statuses by path and client", statuses, expected)
        claim = ("-H", "X-Client: CN=alice", "-H", "X_Client: CN=alice")
        fields = [subject(ask("/", "bob", *claim)), subject(ask("/public", None, *claim)), subject(ask("/admin", "alice"))]
        trial.check(f"HTTP/{version}: the backend receives the subject, and no client can set it", fields, ["CN=bob", None, "CN=alice"])
        for user in ("mallory", "stranger"):
            trial.check(f"HTTP/{version}: {user} is refused for every path", ask("/public", user, good=REFUSED).status, 0)
    refused = trial.log(lambda line: line.get("client_fault"), 4)
    trial.check("the log has the reasons", sorted({(line["client_subject"], line["client_fault"]) for line in refused}),
                [("CN=mallory", "revoked"), ("CN=stranger", "unknown-ca")])
    line = trial.log(lambda line: line.get("status") == 403)[0]
    trial.check("the cause of 403 in the log", line["reason"]["cause"], "forbidden")
    one = trial.log(lambda line: line.get("path") == "/admin" and line["status"] == 200)[0]
    trial.check("lines of requests do not name the certificate", one.get("client_subject"), None)


def revoke(folder, authority, certificate):
    """Writes `clients.crl`."""
    config = folder / "ca.cnf"
    config.write_text((HERE / "ca.cnf").read_text().replace("FOLDER", str(folder)).replace("AUTHORITY", str(authority.key.with_suffix(""))))
    (folder / "index.txt").touch()
    (folder / "crlnumber").write_text("01\n")
    run(["openssl", "ca", "-config", config, "-revoke", certificate.chain])
    run(["openssl", "ca", "-config", config, "-gencrl", "-out", folder / "clients.crl"])


def sign_in(trial):
    ports = {"app": free_port(), "auth": free_port()}
    trial.node(ports["app"], "api.js")
    (trial.folder / "users").write_text(run([tools.find("htpasswd"), "-nbB", "alice", "secret"]))
    command = shlex.split(changed(trial.section.name, trial.section.block("sh").replace("\\\n", " "), {"127.0.0.1:4180": f"127.0.0.1:{ports['auth']}"}))
    trial.start([tools.find(command[0]), *command[1:]], ports["auth"])
    trial.handfast({"127.0.0.1:8080": f"127.0.0.1:{ports['app']}", "127.0.0.1:4180": f"127.0.0.1:{ports['auth']}"})
    for version in ("1.1", "2"):
        browse(trial, f"HTTP/{version}", f"--http{version}")
    lines = trial.log(lambda line: line.get("user") == "alice")
    trial.check("the log has the name of the user", {(line["path"], line["status"]) for line in lines}, {("/reports?year=2026", 200)})
    line = trial.log(lambda line: line.get("status") == 403)[0]
    trial.check("and the reason without a session", line["reason"]["cause"], "unauthenticated")


def browse(trial, label, version):
    """What a browser does: a page without a session, the form, the page again."""
    page, cookies = "/reports?year=2026", trial.folder / f"cookies{version}"
    first = trial.curl(page, version)
    trial.check(f"{label}: without a session", (first.status, "Sign in" in first.text), (403, True))
    wrong = trial.curl("/oauth2/sign_in", version, "-c", cookies, "-d", "username=alice", "-d", "password=wrong", "-d", f"rd={page}")
    trial.check(f"{label}: a wrong password", "_oauth2_proxy=" not in wrong.fields.get("set-cookie", ""))
    entered = trial.curl("/oauth2/sign_in", version, "-c", cookies, "-d", "username=alice", "-d", "password=secret", "--data-urlencode", f"rd={page}")
    cookie = entered.fields.get("set-cookie", "")
    trial.check(f"{label}: the right one leads back, with a cookie", (entered.status, entered.fields.get("location"), "HttpOnly; Secure" in cookie),
                (302, page, True))
    claim = ("-H", "X-Auth-Request-User: root", "-H", "X-Auth-Request-Email: root@example.org", "-H", "X_Auth_Request_User: root")
    seen = trial.curl(page, version, "-b", cookies, *claim)
    fields = json.loads(seen.text)["fields"]
    claimed = {name: value for name, value in fields.items() if "auth" in name}
    trial.check(f"{label}: the page, and the user that the application receives", (seen.status, claimed), (200, {"x-auth-request-user": "alice"}))
    basic = trial.curl(page, version, "-u", "alice:secret")
    trial.check(f"{label}: a password in each request (basic) works too", basic.status, 200)
    out = trial.curl("/oauth2/sign_out", version, "-b", cookies, "-c", cookies)
    trial.check(f"{label}: after the sign-out", (out.status, trial.curl(page, version, "-b", cookies).status), (302, 403))


RECIPES = {
    "certificates": (certificates, "http/recipes-access.md", "Client certificates of an internal authority",
                     ("Handfast", "OpenSSL", "Node.js", "curl")),
    "sign-in": (sign_in, "http/recipes-access.md", "Sign-in with oauth2-proxy", ("Handfast", "oauth2-proxy", "htpasswd", "Node.js", "curl")),
}
