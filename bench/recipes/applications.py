"""Recipes for applications: PHP behind nginx, a single-page application with an API, Prometheus below a path.

In: a trial. Out: its rows.
"""

import grp
import json
import os
import pwd
import re
import shlex
import shutil
from pathlib import Path

from harness.machine import Process, wait_until
from web import tools

from .page import changed
from .programs import PHP_FPM
from .trial import HERE, free_port, run

PASSWORD = "correct horse"
# Not the address of Handfast, to see which one is recorded.
CLIENT = "127.0.0.5"


def php(trial):
    port = free_port()
    wiki = dokuwiki(trial.folder)
    php_fpm(trial.folder)
    trial.nginx(port, {"127.0.0.1:8080": f"127.0.0.1:{port}", "/usr/share/dokuwiki": wiki,
                       "/run/php/php8.2-fpm.sock": trial.folder / "php-fpm.sock"})
    trial.handfast({"127.0.0.1:8080": f"127.0.0.1:{port}"})
    for version in ("1.1", "2"):
        php_application(trial, f"--http{version}", f"HTTP/{version}")
    limit = trial.folder / "large.zip"
    with open(limit, "wb") as file:
        file.truncate(101 << 20)
    for version, answer in trial.both("/lib/exe/mediamanager.php", "-F", f"upload=@{limit}").items():
        trial.check(f"HTTP/{version}: an upload above max-body", answer.status, 413)


def php_application(trial, version, label):
    """What a user of the wiki does, with his cookies."""
    cookies = trial.folder / f"cookies{version}"
    browser = (version, "--interface", CLIENT, "-b", cookies, "-c", cookies, "-H", "X-Forwarded-For: 192.0.2.99")
    front = trial.curl("/doku.php?id=start", *browser)
    links = set(re.findall(r"(https?://[^/]*)/", trial.curl("/lib/exe/opensearch.php", *browser).text)) - {"http://a9.com"}
    trial.check(f"{label}: links of the wiki to itself", links, {"https://localhost"})
    form = ("--data-urlencode", "u=alice", "--data-urlencode", f"p={PASSWORD}")
    entered = trial.curl("/doku.php?id=start&do=login", *browser, *form, "--data-urlencode", f"sectok={token(front)}")
    names = [line.split(";") for line in entered.fields.get("set-cookie", "").split(", DW")]
    trial.check(f"{label}: signed in, with cookies that are `secure`", ("Logged in as" in trial.curl("/doku.php?id=start", *browser).text,
                all("secure" in " ".join(parts).lower() for parts in names)), (True, True))
    content, name = os.urandom(20 << 20), f"file{version[-1]}.zip"
    (trial.folder / name).write_bytes(content)
    page = trial.curl("/lib/exe/mediamanager.php?ns=", *browser)
    trial.curl("/lib/exe/mediamanager.php?ns=", *browser, "-F", f"sectok={token(page)}", "-F", "ns=", "-F", f"upload=@{trial.folder / name}",
               "-F", f"mediaid={name}")
    fetched = trial.curl(f"/lib/exe/fetch.php?media={name}", *browser)
    trial.check(f"{label}: 20 MiB are uploaded and downloaded", fetched.content == content)
    title = f"page{version[-1]}"
    form = trial.curl(f"/doku.php?id={title}&do=edit", *browser)
    hidden = dict(re.findall(r'name="(sectok|changecheck|rev|date|prefix|suffix|target)" value="([^"]*)"', form.text))
    fields = [word for key, value in {**hidden, "wikitext": "seen", "do[save]": "1"}.items() for word in ("--data-urlencode", f"{key}={value}")]
    saved = trial.curl(f"/doku.php?id={title}", *browser, *fields)
    trial.check(f"{label}: a saved page redirects to https",
                (saved.status, saved.fields.get("location", "").startswith("https://localhost/doku.php?")), (302, True))
    changes = (trial.folder / "data/meta/_dokuwiki.changes").read_text()
    trial.check(f"{label}: the wiki recorded the address of the client", changes.splitlines()[-1].split("\t")[1], CLIENT)
    seen = {line.split()[0] for line in (trial.folder / "nginx-access.log").read_text().splitlines()}
    trial.check(f"{label}: so did nginx, and not what the client claimed", (CLIENT in seen, "192.0.2.99" in seen), (True, False))


def token(page):
    found = re.search(r'name="sectok" value="([^"]+)"', page.text)
    return found[1] if found else ""


def dokuwiki(folder):
    """A copy of Debian's DokuWiki with a data folder and a user: alice, an administrator."""
    wiki, conf, data = folder / "wiki", folder / "conf", folder / "data"
    shutil.copytree("/usr/share/dokuwiki", wiki, ignore=shutil.ignore_patterns(".htaccess"))
    conf.mkdir()
    for file in Path("/etc/dokuwiki").iterdir():
        if file.is_file() and not file.is_symlink():
            shutil.copy(file, conf)
    for part in ("attic", "cache", "index", "locks", "log", "media", "media_attic", "media_meta", "meta", "pages", "tmp"):
        (data / part).mkdir(parents=True)
    (wiki / "inc/preload.php").write_text(f"<?php define('DOKU_CONF', '{conf}/');\n")
    words = {"title": "'Recipe'", "useacl": "1", "superuser": "'@admin'", "savedir": f"'{data}'"}
    (conf / "local.php").write_text("<?php\n" + "".join(f"$conf['{key}'] = {value};\n" for key, value in words.items()))
    secret = run([tools.find("htpasswd"), "-nbB", "alice", PASSWORD]).strip().split(":")[1]
    (conf / "users.auth.php").write_text(f"alice:{secret}:Alice:alice@example.org:admin,user\n")
    (conf / "acl.auth.php").write_text("*\t@ALL\t1\n*\t@user\t8\n")
    return wiki


def php_fpm(folder):
    config = (HERE / "php-fpm.conf").read_text().replace("FOLDER", str(folder))
    names = pwd.getpwuid(os.geteuid()).pw_name, grp.getgrgid(os.getegid()).gr_name
    (folder / "php-fpm.conf").write_text(config.replace("USER", names[0]).replace("GROUP", names[1]))
    process = Process([PHP_FPM, "-R", "-y", folder / "php-fpm.conf"], None, folder / "php-fpm.log", folder)
    wait_until("php-fpm to listen", (folder / "php-fpm.sock").exists, 20, process)


def single_page(trial):
    static, api = free_port(), free_port()
    root = trial.folder / "app"
    (root / "assets").mkdir(parents=True)
    (root / "index.html").write_text("<!doctype html><title>app</title><script src=/assets/app.1a2b.js></script>\n")
    (root / "assets/app.1a2b.js").write_text("console.log('app');\n" * 500)
    trial.nginx(static, {"127.0.0.1:8080": f"127.0.0.1:{static}", "/srv/app": root})
    trial.node(api, "api.js")
    trial.handfast({"127.0.0.1:8080": f"127.0.0.1:{static}", "127.0.0.1:8081": f"127.0.0.1:{api}"})
    page = (root / "index.html").read_text()
    for label, version in (("HTTP/1.1", "--http1.1"), ("HTTP/2", "--http2")):
        for path in ("/", "/users/7", "/apis"):
            trial.check(f"{label}: {path} is the page", trial.curl(path, version).text, page)
        cached_files(trial, label, version, static)
        received = [json.loads(trial.curl(path, version).text)["target"] for path in ("/api/users?page=2", "/api", "/api/", "/api/a%2Fb")]
        trial.check(f"{label}: the API receives the rest of the path", received, ["/users?page=2", "/", "/", "/a%2Fb"])
        sent = trial.curl("/api/users", version, "-X", "PATCH", "-H", "Content-Type: application/json", "-d", '{"name":"é"}')
        seen = json.loads(sent.text)
        trial.check(f"{label}: method, content and the original host", (seen["method"], seen["content"], seen["fields"]["x-forwarded-host"]),
                    ("PATCH", '{"name":"é"}', "localhost"))
        both = [trial.curl(path, version).fields for path in ("/", "/api/x")]
        wanted = {"strict-transport-security": ["max-age=31536000"] * 2, "x-content-type-options": ["nosniff"] * 2,
                  "x-frame-options": ["SAMEORIGIN", "DENY"], "referrer-policy": ["strict-origin-when-cross-origin"] * 2}
        trial.check(f"{label}: fields for browsers, and the API's own one", {name: [one.get(name) for one in both] for name in wanted}, wanted)


def cached_files(trial, label, version, static):
    """What caches look at is what nginx sends without Handfast."""
    path = "/assets/app.1a2b.js"
    words = ["-H", "Accept-Encoding: gzip"]
    answer = trial.curl(path, version, *words)
    direct = run([tools.find("curl"), "-sS", "-o", trial.folder / "direct", "-D", "-", *words, f"http://127.0.0.1:{static}{path}"])
    fields = dict(line.split(": ", 1) for line in direct.lower().replace("\r", "").splitlines() if ": " in line)
    names = ("cache-control", "etag", "last-modified", "content-encoding", "vary")
    trial.check(f"{label}: fields for caches, as nginx sends them", [answer.fields.get(name, "").lower() for name in names],
                [fields.get(name, "") for name in names])
    trial.check(f"{label}: which are", (answer.fields["content-encoding"], answer.fields["cache-control"]),
                ("gzip", "public, max-age=31536000, immutable"))
    again = trial.curl(path, version, *words, "-H", f"If-None-Match: {answer.fields['etag']}")
    trial.check(f"{label}: a file that has not changed", (again.status, again.content), (304, b""))
    trial.check(f"{label}: the page is checked each time", trial.curl("/users/7", version).fields.get("cache-control"), "no-cache")


def prometheus(trial):
    for number, name in enumerate(("the path is Prometheus' own", "Handfast removes the path")):
        port = free_port()
        (trial.folder / "prometheus.yml").write_text("")
        command = shlex.split(changed(trial.section.name, trial.section.block("sh", number), {
            "127.0.0.1:9090": f"127.0.0.1:{port}", "www.example.org": "localhost"}))
        words = [f"--config.file={trial.folder / 'prometheus.yml'}", f"--storage.tsdb.path={trial.folder / f'data{number}'}"]
        trial.start([tools.find(command[0]), *command[1:], *words], port)
        trial.handfast({"127.0.0.1:9090": f"127.0.0.1:{port}"}, number=number)
        for label, version in (("HTTP/1.1", "--http1.1"), ("HTTP/2", "--http2")):
            prometheus_page(trial, f"{name}, {label}", version)


def prometheus_page(trial, label, version):
    wait_until("Prometheus to be ready", lambda: trial.curl("/prometheus/-/ready", version).status == 200, 30)
    for path in ("/prometheus", "/prometheus/"):
        first = trial.curl(path, version)
        trial.check(f"{label}: {path} redirects below the path", first.fields.get("location") in ("/prometheus/", "/prometheus/classic/graph"))
    page = trial.curl(first.fields["location"], version)
    paths = set(re.findall(r'(?:src|href)="(/[^"]+)"', page.text))
    trial.check(f"{label}: the page and its files", (page.status, len(paths) > 10, {trial.curl(path, version, "-L").status for path in paths}),
                (200, True, {200}))
    query = trial.curl("/prometheus/api/v1/query", version, "--data-urlencode", "query=1+1")
    trial.check(f"{label}: a query", json.loads(query.text)["data"]["result"][1], "2")


NGINX = ("Handfast", "nginx", "curl")
RECIPES = {
    "php": (php, "http/recipes-applications.md", "PHP behind nginx", (*NGINX, "PHP", "DokuWiki", "htpasswd")),
    "single-page": (single_page, "http/recipes-applications.md", "A single-page application and its API", (*NGINX, "Node.js")),
    "prometheus": (prometheus, "http/recipes-applications.md", "Prometheus below a path", ("Handfast", "Prometheus", "curl")),
}
