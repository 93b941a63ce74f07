"""Recipes for large files: a container registry, uploads, parts of files.

In: a trial. Out: its rows.
"""

import contextlib
import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import time

from harness.machine import Failed
from web import tools

from . import image
from .trial import HERE, client, fields_of, free_port, run

MIB = 1 << 20
# Of the upload: more than fits into any buffer.
UPLOAD = 2048 * MIB
VIDEO = 96 * MIB


def registry(trial):
    port, folder = free_port(), trial.folder
    (folder / "registry.yml").write_text((HERE / "registry.yml").read_text().replace("FOLDER", str(folder)).replace("PORT", str(port)))
    (folder / "users.htpasswd").write_text(run([tools.find("htpasswd"), "-nbBC", "11", "alice", "secret"]))
    trial.start([tools.find("docker-registry"), "serve", folder / "registry.yml"], port)
    trial.handfast({"127.0.0.1:5000": f"127.0.0.1:{port}"})
    layer = image.make(folder / "image", 100 * MIB)
    (folder / "trust").mkdir()
    shutil.copy(trial.ca, folder / "trust/ca.crt")
    name = f"docker://localhost:{trial.port}/team/image:1"
    skopeo = [tools.find("skopeo"), "--insecure-policy"]
    trust, user = ["--dest-cert-dir", folder / "trust"], ["--dest-creds", "alice:secret"]
    push = [*skopeo, "copy", f"oci:{folder / 'image'}:latest"]
    trial.check("no password: refused", "authentication required" in run([*push, *trust, name], good=(1,), joined=True))
    wrong = run([*push, *trust, "--dest-creds", "alice:wrong", name], good=(1,), joined=True)
    trial.check("a wrong password: refused", "unauthorized: authentication required" in wrong)
    trial.check("another authority: refused", "certificate signed by unknown authority" in run([*push, *user, name], good=(1,), joined=True))
    run([*push, *trust, *user, name])
    line = trial.log(lambda line: line.get("method") == "PATCH" and line["bytes_from_client"] > 100 * MIB)[0]
    trial.check("a layer of 100 MiB is pushed in one PATCH request", (line["status"], line["user"]), (202, "alice"))
    run([*skopeo[:1], "login", "--authfile", folder / "auth.json", "--cert-dir", folder / "trust", "-u", "alice", "-p", "secret",
         f"localhost:{trial.port}"])
    pulled = folder / "pulled"
    run([*skopeo, "copy", "--src-cert-dir", folder / "trust", "--src-authfile", folder / "auth.json", name, f"oci:{pulled}:latest"])
    # It was compressed for the push.
    largest = max((pulled / "blobs/sha256").iterdir(), key=lambda file: file.stat().st_size)
    trial.check("after a login the layer is pulled as it was", f"sha256:{hashlib.sha256(gzip.decompress(largest.read_bytes())).hexdigest()}", layer)
    tags = run([*skopeo, "list-tags", "--cert-dir", folder / "trust", "--creds", "alice:secret", name.rsplit(":", 1)[0]])
    trial.check("list-tags", '"1"' in tags)
    for version in ("1.1", "2"):
        upload_by_hand(trial, version, ["-u", "alice:secret", f"--http{version}"])


def upload_by_hand(trial, version, words):
    """The three requests of a push, with a layer whose length no client announces."""
    begun = trial.curl("/v2/team/image/blobs/uploads/", *words, "-X", "POST", "-d", "")
    where = begun.fields["location"]
    trial.check(f"HTTP/{version}: the registry's own links are https", (begun.status, where[:18]), (202, "https://localhost/"))
    content = trial.folder / "layer"
    expected = random_file(content, 96 * MIB)
    command = trial.curl_words(*words, "-X", "PATCH", "-T", "-", "-D", "-", "-o", os.devnull, "-H", "Content-Type: application/octet-stream", where)
    with open(content, "rb") as file:
        done = subprocess.run(command, stdin=file, capture_output=True, text=True, timeout=120, check=True)
    fields = fields_of(done.stdout)
    path = fields["location"].removeprefix("https://localhost")
    put = trial.curl(f"{path}&digest=sha256:{expected}", *words, "-X", "PUT", "-d", "")
    trial.check(f"HTTP/{version}: 96 MiB without a length (in chunks) are accepted with their digest", put.status, 201)
    back = trial.folder / "layer-back"
    trial.curl(f"/v2/team/image/blobs/sha256:{expected}", *words, output=back)
    trial.check(f"HTTP/{version}: and downloaded", digest(back), expected)


def uploads(trial):
    port, root = free_port(), trial.folder / "files"
    root.mkdir()
    trial.nginx(port, {"127.0.0.1:8080": f"127.0.0.1:{port}", "/srv/files": root})
    trial.handfast({"127.0.0.1:8080": f"127.0.0.1:{port}"})
    if shutil.disk_usage(trial.folder).free < 2.5 * UPLOAD:
        raise Failed(f"store the uploads: {trial.folder} has less than {2.5 * UPLOAD / (1 << 30):.0f} GiB free; hint: TMPDIR=FOLDER")
    file = trial.folder / "upload"
    wanted = random_file(file, UPLOAD)
    trial.curl("/small", "-T", trial.ca)
    before = trial.memory_kib()
    for version in ("1.1", "2"):
        answer = trial.curl("/f", f"--http{version}", "-T", file)
        trial.check(f"HTTP/{version}: 2 GiB are uploaded, SHA-256", (answer.status in (201, 204), digest(root / "f")), (True, wanted))
        after = trial.memory_kib()
        trial.check(f"HTTP/{version}: Handfast's memory grew by less than 8 MiB", after - before < 8 << 10)
        print(f"seen     VmHWM of Handfast {before} KiB before, {after} KiB after", flush=True)
        with client(trial.curl_words(f"--http{version}", trial.url("/f"))) as curl:
            trial.check(f"HTTP/{version}: and downloaded", digest_of(curl.stdout), wanted)
        (root / "f").unlink()
    bounds(trial, file)


def bounds(trial, file):
    """What `max-body` and `body-timeout` of the page do. The page's times are minutes; here they are seconds."""
    os.truncate(file, 4096 * MIB)
    for version, exits in (("1.1", (0, 55, 56)), ("2", (0, 92))):
        answer = trial.curl("/large", f"--http{version}", "-T", file, good=exits)
        trial.check(f"HTTP/{version}: 4 GiB are refused by their announced length", answer.status, 413)
    lines = trial.log(lambda line: line.get("path") == "/large", 2)
    trial.check("of which Handfast reads nothing", {(line["reason"]["cause"], line["bytes_from_client"]) for line in lines}, {("body-too-large", 0)})
    seconds = {'"3GiB"': '"20MiB"', 'body-timeout = "5m"': 'body-timeout = "2s"'}
    trial.handfast({**trial.changes, **seconds})
    for version in ("1.1", "2"):
        answer = stopped(trial, version, 30 * MIB)
        # Over HTTP/2 curl 7.88 sees the end of the stream before the response now and then; the log has 413 all the same.
        trial.check(f"HTTP/{version}: one without a length is cut behind max-body", answer in (("413",) if version == "1.1" else ("413", "000")))
        print(f"seen     HTTP/{version}: status {answer}", flush=True)
        answer = stopped(trial, version, MIB)
        trial.check(f"HTTP/{version}: an upload that stops for longer than body-timeout", answer, "408")
    lines = trial.log(lambda line: line.get("path") == "/stopped", 4)
    trial.check("their causes in the log", [line["reason"]["cause"] for line in lines], ["body-too-large", "request-timeout"] * 2)
    trial.check("nginx has stored none of them", sorted(file.name for file in (trial.folder / "files").iterdir()), ["small"])


def stopped(trial, version, size):
    """The status of an upload of unknown length that sends so many bytes and then nothing more, with an open end."""
    # `-T -` would wait for its input, and not read the response.
    words = trial.curl_words(f"--http{version}", "-T", ".", "-o", os.devnull, "-w", "%{http_code}", trial.url("/stopped"))
    with client(words, stdin=subprocess.PIPE) as curl:
        with contextlib.suppress(BrokenPipeError):
            curl.stdin.write(bytes(size))
            curl.stdin.flush()
        return curl.stdout.read().decode()


def random_file(path, size):
    """Writes random bytes; returns their SHA-256."""
    found, block = hashlib.sha256(), os.urandom(16 * MIB)
    with open(path, "wb") as file:
        for number in range(size // len(block)):
            # Each block differs, so that an exchange of two would be seen.
            part = number.to_bytes(8, "big") + block[8:]
            file.write(part)
            found.update(part)
    return found.hexdigest()


def digest(path):
    with open(path, "rb") as file:
        return digest_of(file)


def digest_of(stream):
    """The SHA-256 of what a file or a program gives."""
    found = hashlib.sha256()
    while part := stream.read(MIB):
        found.update(part)
    return found.hexdigest()


def parts(trial):
    port, root = free_port(), trial.folder / "video"
    root.mkdir()
    random_file(root / "film.mp4", VIDEO)
    content = (root / "film.mp4").read_bytes()
    trial.nginx(port, {"127.0.0.1:8080": f"127.0.0.1:{port}", "/srv/video": root})
    trial.handfast({"127.0.0.1:8080": f"127.0.0.1:{port}"})
    for version in ("1.1", "2"):
        def get(*words, **more):
            return trial.curl("/film.mp4", f"--http{version}", *words, **more)
        whole = get("-I")
        trial.check(f"HTTP/{version}: parts are offered", (whole.status, whole.fields["accept-ranges"], int(whole.fields["content-length"])),
                    (200, "bytes", VIDEO))
        for asked, first, last in (("0-0", 0, 0), ("1000-1999", 1000, 1999), ("50000000-", 50000000, VIDEO - 1), ("-500", VIDEO - 500, VIDEO - 1)):
            part = get("-r", asked)
            trial.check(f"HTTP/{version}: bytes={asked}", (part.status, part.fields["content-range"], part.content == content[first:last + 1]),
                        (206, f"bytes {first}-{last}/{VIDEO}", True))
        several = get("-r", "0-9,100-109,-10")
        found = [content[int(first):int(last) + 1] == part for first, last, part in pieces(several)]
        trial.check(f"HTTP/{version}: three parts in one response", (several.status, found), (206, [True] * 3))
        beyond = get("-r", f"{VIDEO}-")
        trial.check(f"HTTP/{version}: a part behind the end", (beyond.status, beyond.fields["content-range"]), (416, f"bytes */{VIDEO}"))
        tag = whole.fields["etag"]
        same, other = (get("-r", "5-9", "-H", f"If-Range: {value}") for value in (tag, '"other"'))
        trial.check(f"HTTP/{version}: If-Range with the file's ETag, and with another one", (same.status, same.content == content[5:10], other.status,
                    len(other.content)), (206, True, 200, VIDEO))
        changed_since = get("-r", "5-9", "-H", f"If-Range: {whole.fields['last-modified']}")
        trial.check(f"HTTP/{version}: If-Range with its date", changed_since.status, 206)
        resumed = trial.folder / f"resumed{version}"
        resumed.write_bytes(content[:30_000_000])
        get("-C", "-", output=resumed)
        trial.check(f"HTTP/{version}: a download that was cut is resumed", resumed.read_bytes() == content)
        leave(trial, version)
        trial.check(f"HTTP/{version}: a player that reads nothing for 5 s, and then the rest", pause(trial, version) == content)
    lines = trial.log(lambda line: line.get("path") == "/film.mp4?left", 2)
    trial.check("the log of players that leave", {(line["status"], line["reason"]["side"]) for line in lines}, {(200, "client")})
    pages = trial.changes
    for key, cause in (("tcp-user-timeout", "zero-window"), ("body-timeout", "body-timeout")):
        trial.handfast({**pages, f'{key} = "10m"': f'{key} = "2s"'})
        for version in ("1.1", "2"):
            trial.check(f"HTTP/{version}: the same, for longer than {key}: cut", len(pause(trial, version)) < VIDEO)
        lines = trial.log(lambda line: line.get("path") == "/film.mp4?paused", 2)
        trial.check("the log has the cause", [cause in json.dumps(line["reason"]) for line in lines], [True, True])


def leave(trial, version):
    """A player that leaves in the middle of the film: it is limited to 1 MB/s, and ended after its first bytes."""
    words = trial.curl_words("-N", f"--http{version}", "--limit-rate", "1M", trial.url("/film.mp4?left"))
    with client(words) as curl:
        curl.stdout.read(1000)


def pause(trial, version):
    """What a player receives whose buffer is full: it reads nothing for five seconds, and then the rest."""
    words = trial.curl_words("-N", f"--http{version}", trial.url("/film.mp4?paused"))
    with client(words) as curl:
        first = curl.stdout.read(1000)
        # What is tried: a silence of the client.
        time.sleep(5)
        return first + curl.stdout.read()


def pieces(answer):
    """The parts of a `multipart/byteranges`: first byte, last byte, content."""
    boundary = answer.fields["content-type"].split("boundary=")[1].encode()
    for piece in answer.content.split(b"\r\n--" + boundary)[1:-1]:
        head, _, content = piece.partition(b"\r\n\r\n")
        first, last = re.search(rb"bytes (\d+)-(\d+)/", head).groups()
        yield first, last, content


NGINX = ("Handfast", "nginx", "curl")
RECIPES = {
    "parts": (parts, "http/recipes-files.md", "Parts of files: video and resumed downloads", NGINX),
    "registry": (registry, "http/recipes-files.md", "A container registry", ("Handfast", "Docker Registry", "skopeo", "htpasswd", "curl")),
    "uploads": (uploads, "http/recipes-files.md", "Uploads of gigabytes", NGINX),
}
