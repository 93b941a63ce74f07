"""Recipes for mirrors with a cache: Maven, npm, Debian packages, Crates, PyPI, a container registry.

In: a trial. Out: its rows. The origins are those that the clients of this machine use; their names are nowhere in this repository.
"""

import json
import os
import random
import re
import shutil
import urllib.parse
import xml.etree.ElementTree
import zipfile
from pathlib import Path

from harness.machine import Failed
from web import tools

from . import image
from .mirror import Mirror, Origin, contents, hidden, without
from .trial import HERE, free_port, run

CARGO_PROJECT = """[package]
name = "recipe"
edition = "2021"

[dependencies]
itoa = "=1.0.15"
semver = "=1.0.26"
"""
PIP = (tools.find("python3"), "-m", "pip")


def fetch(url):
    """A small file of an origin."""
    with hidden("origin", [urllib.parse.urlsplit(url).hostname]):
        return run([tools.find("curl"), "-sSfL", "--max-time", 60, url])


def write(path, text):
    """A file of a client's project."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def not_hits(visit):
    """The paths of requests that were not answered by hits, by their word."""
    found = {}
    for line in visit.lines:
        if line.get("cache", "hit") != "hit":
            found.setdefault(line["cache"], []).append(line["path"])
    # Lines of different threads are in no order.
    return {word: sorted(paths) for word, paths in found.items()}


def maven(trial):
    port, origin = free_port(), Origin.of(maven_url())
    trial.authority.issue("mirror", ["localhost"])
    settings = trial.folder / "settings.xml"
    settings.write_text(trial.section.block("xml").replace("mirror.example.org/maven2", f"localhost:{port}{origin.path}"))
    mirror = Mirror(trial, {"*:443": f"127.0.0.1:{port}", "/maven2/": f"{origin.path}/"}, {"repo.example.org": origin})

    def package(folder):
        shutil.copy(trial.ca, folder)
        shutil.copy(HERE / "maven-pom.xml", folder / "pom.xml")
        write(folder / "src/test/java/UseTest.java", "public class UseTest { @org.junit.Test public void run() { } }")
        # The commands of the page, which set the options for Java.
        script = trial.section.block("sh") + 'exec "$@"'
        run(["sh", "-ec", script, "sh", tools.find("mvn"), "-B", "-q", "-s", settings, "-gs", settings,
             f"-Dmaven.repo.local={folder}/repository", "package"], folder=folder, joined=True)
        if not list(folder.glob("target/*.jar")):
            raise Failed("run mvn: no jar is there")
        return contents(folder / "repository", ends=(".jar", ".pom"))

    again = mirror.twice(package, {"hit", "stale"})
    stale = {Path(path).name for path in not_hits(again).get("stale", [])} - {"maven-metadata.xml", "maven-metadata.xml.sha1"}
    trial.check("all are hits, except the list of versions", stale, set())


def maven_url():
    """The mirror of the user's settings, else the repository that Maven itself knows."""
    settings = Path.home() / ".m2/settings.xml"
    if settings.exists():
        for element in xml.etree.ElementTree.parse(settings).iter():
            if element.tag.rpartition("}")[2] == "mirror":
                return next(child.text.strip() for child in element if child.tag.rpartition("}")[2] == "url")
    folders = [Path(tools.find("mvn")).resolve().parent.parent / "lib", Path("/usr/share/maven/lib"), Path("/usr/share/java")]
    jar = next((jar for folder in folders for jar in sorted(folder.glob("maven-model-builder*.jar"))), None)
    if not jar:
        raise Failed("find the repository of Maven: no maven-model-builder*.jar is there")
    with zipfile.ZipFile(jar) as packed:
        pom = packed.read("org/apache/maven/model/pom-4.0.0.xml").decode()
    return re.search(r"<repository>.*?<url>(.*?)</url>", pom, re.DOTALL)[1].strip()


def npm(trial):
    port, program = free_port(), tools.find("npm")
    origin = Origin.of(run([program, "config", "get", "registry"]).strip())
    command = trial.section.block("sh").replace("127.0.0.1:8082/", f"127.0.0.1:{port}{origin.path}/")
    mirror = Mirror(trial, {"127.0.0.1:8082": f"127.0.0.1:{port}"}, {"registry.example.org": origin})

    def install(folder):
        clean = without("NPM_CONFIG_", npm_config_userconfig=folder / "npmrc", npm_config_cache=folder / "cache")
        (folder / "package.json").write_text('{"name": "recipe"}')
        run([*clean, "sh", "-ec", command], folder=folder)
        run([*clean, program, "install", "--no-audit", "--no-fund", "--no-update-notifier", "express@5.1.0", "left-pad@1.3.0", "is-odd@3.0.1"],
            folder=folder)
        return contents(folder / "node_modules")

    again = mirror.twice(install, {"hit", "stale"})
    trial.check("archives are hits", {line["cache"] for line in again.lines if line["path"].endswith(".tgz")}, {"hit"})


def debian(trial):
    port, (url, suite) = free_port(), debian_source()
    origin = Origin.of(url, "http")
    line = trial.section.block("text").replace("127.0.0.1:8083/debian", f"127.0.0.1:{port}{origin.path}").replace("bookworm", suite)
    mirror = Mirror(trial, {"127.0.0.1:8083": f"127.0.0.1:{port}", "/debian/": f"{origin.path}/"}, {"deb.example.org": origin})

    def download(folder):
        for part in ("state/lists/partial", "cache/archives/partial"):
            (folder / part).mkdir(parents=True)
        (folder / "sources.list").write_text(line)
        # Neither the state nor the configuration of this machine: its hooks would run.
        (folder / "apt.conf").write_text((HERE / "apt.conf").read_text().replace("FOLDER", str(folder)))
        for words in (["update"], ["download", "hello"]):
            run(["env", f"APT_CONFIG={folder}/apt.conf", "apt-get", "-q", *words], folder=folder)
        return contents(folder, ends=(".deb", "Packages", "InRelease"))

    again = mirror.twice(download, {"hit", "stale"})
    packages = {line["cache"] for line in again.lines if "/pool/" in line["path"] or "/by-hash/" in line["path"]}
    trial.check("packages and lists are hits", packages, {"hit"})


def debian_source():
    """URL and suite of the first source of this machine."""
    folder = Path("/etc/apt")
    for file in [folder / "sources.list", *sorted((folder / "sources.list.d").glob("*"))]:
        text = file.read_text() if file.suffix in (".list", ".sources") and file.exists() else ""
        if found := re.search(r"^deb (?:\[.*?\] )?(\S+) (\S+)", text, re.MULTILINE):
            return found[1], found[2]
        fields = dict(re.findall(r"^(URIs|Suites): *(\S+)", text, re.MULTILINE)[:2])
        if len(fields) == 2:
            return fields["URIs"], fields["Suites"]
    raise Failed("find the origin of Debian packages: /etc/apt has no source")


def crates(trial):
    ports, index = (free_port(), free_port()), crates_index()
    archives = Origin.of(json.loads(fetch(f"{index.url}/config.json"))["dl"])
    setting = trial.section.block("ini").replace("8084", str(ports[0]))
    mirror = Mirror(trial, {"127.0.0.1:8084": f"127.0.0.1:{ports[0]}", "127.0.0.1:8085/crates": f"127.0.0.1:{ports[1]}{archives.path}",
                            "127.0.0.1:8085": f"127.0.0.1:{ports[1]}", "/crates/**": f"{archives.path}/**"},
                    {"index.example.org": index, "archives.example.org": archives})

    def download(folder):
        write(folder / "Cargo.toml", CARGO_PROJECT)
        write(folder / "src/lib.rs", "")
        write(folder / ".cargo/config.toml", setting)
        run([*without("CARGO_", CARGO_HOME=folder / "home"), tools.find("cargo"), "fetch"], folder=folder)
        return contents(folder / "home/registry/cache", ends=(".crate",))

    again = mirror.twice(download, {"hit", "stale", "none"})
    own = [line["path"] for line in again.lines if "cache" not in line]
    trial.check("Handfast answers config.json, and archives are hits",
                (own, {line["cache"] for line in again.lines if line["service"] == "crates"}), (["/config.json"], {"hit"}))


def crates_index():
    """The index that Cargo used last on this machine; its folder has the name of the host."""
    home = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
    folders = sorted((home / "registry/index").glob("*-*"), key=lambda folder: folder.stat().st_mtime)
    hosts = [folder.name.rpartition("-")[0] for folder in folders if (folder / "config.json").exists()]
    if not hosts:
        raise Failed(f"find the index of Cargo: {home}/registry/index has none; hint: `cargo fetch` in a project with a dependency")
    return Origin.of(f"https://{hosts[-1]}")


def pypi(trial):
    index = Origin.of(pip_index())
    listed = re.search(r'href="(https://[^"#]*)', fetch(f"{index.url}/pip/"))
    if os.geteuid() or not listed:
        raise Failed("find the host of archives: the index has no https link" if not listed else "listen on port 443: not root")
    archives = Origin.of(listed[1])
    address = f"127.{random.randrange(1, 255)}.{random.randrange(256)}.{random.randrange(1, 255)}"
    trial.authority.issue("mirror", [index.host, archives.host])
    hosts = trial.folder / "hosts"
    names = trial.section.block("text").replace("192.0.2.10", address)
    hosts.write_text(names.replace("index.example.org", index.host).replace("archives.example.org", archives.host))
    mirror = Mirror(trial, {"*:443": f"{address}:443", '["archives.example.org"]': f'["{archives.host}"]',
                            "/packages/": f"/{archives.path.split('/')[1]}/"},
                    {"index.example.org": index, "archives.example.org": archives})
    # Of the client alone: Handfast finds the real addresses.
    own_hosts = ["unshare", "--mount", "sh", "-ec", 'mount --bind "$1" /etc/hosts; shift; exec "$@"', "sh", hosts]

    def download(folder):
        settings = without(("PIP_", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"), PIP_CONFIG_FILE=os.devnull, PIP_CERT=trial.ca)
        run([*own_hosts, *settings, *PIP, "download", "-q", "--no-cache-dir", "--disable-pip-version-check", "--only-binary=:all:",
             "-i", index.url, "-d", folder / "wheels", "requests==2.32.3"], folder=folder)
        return contents(folder / "wheels")

    again = mirror.twice(download, {"hit", "stale"})
    trial.check("archives are hits", {line["cache"] for line in again.lines if line["host"] == archives.host}, {"hit"})


def pip_index():
    """The index of the settings of this machine, else pip's own."""
    set_here = os.environ.get("PIP_INDEX_URL") or run([*PIP, "config", "get", "global.index-url"], good=(0, 1)).strip()
    return set_here or run([PIP[0], "-c", "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"]).strip()


def registry(trial):
    port, mirrored, folder = free_port(), free_port(), trial.folder
    (folder / "registry.yml").write_text((HERE / "registry.yml").read_text().replace("FOLDER", str(folder)).replace("PORT", str(port)))
    server = trial.start([tools.find("docker-registry"), "serve", folder / "registry.yml"], port)
    image.make(folder / "image", 100 << 20)
    skopeo = [tools.find("skopeo"), "--insecure-policy", "copy"]
    run([*skopeo, "--dest-tls-verify=false", f"oci:{folder / 'image'}:latest", f"docker://127.0.0.1:{port}/team/image:1"])
    mirror = Mirror(trial, {"127.0.0.1:8086": f"127.0.0.1:{mirrored}", "127.0.0.1:5000": f"127.0.0.1:{port}"}, {})

    def pull(target):
        run([*skopeo, "--src-tls-verify=false", f"docker://127.0.0.1:{mirrored}/team/image:1", f"oci:{target}/image:latest"])
        return contents(target / "image/blobs")

    # skopeo sends a ClientHello first, whatever `tls-verify` says.
    hello, tag = [("", 400, "http-request")], "/v2/team/image/manifests/1"
    first = mirror.visit("first-client", pull)
    trial.check("a client pulls the layer", (first.files[0], first.failed), (3, hello))
    again = mirror.visit("second-client", pull)
    trial.check("the second one has the same, and asks the registry about the tag alone", (again.files, again.failed, not_hits(again)),
                (first.files, hello, {"stored": ["/v2/"], "confirmed": [tag]}))
    server.stop()
    third = mirror.visit("third-client", pull)
    trial.check("without the registry the third one has the same", (third.files, third.failed, not_hits(third)),
                (first.files, hello, {"stale": ["/v2/", tag]}))


PAGE = "http/recipes-cache.md"
CLIENT = ("Handfast", "curl")
RECIPES = {
    "maven": (maven, PAGE, "Maven", (*CLIENT, "Maven", "Java")),
    "npm": (npm, PAGE, "npm", (*CLIENT, "npm")),
    "debian": (debian, PAGE, "Debian packages", (*CLIENT, "apt")),
    "crates": (crates, PAGE, "Crates", (*CLIENT, "Cargo")),
    "pypi": (pypi, PAGE, "PyPI", (*CLIENT, "pip")),
    "registry-mirror": (registry, PAGE, "A container registry", (*CLIENT, "Docker Registry", "skopeo")),
}
