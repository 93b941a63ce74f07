"""The cases of http-desync-guardian as payloads. In: YAML files in `desync-cases`. Out: cases with a verdict by tier."""

from pathlib import Path

import yaml

from .payloads import Case

FOLDER = Path(__file__).resolve().parent / "desync-cases"
UNDERSCORE = "names with an underscore are not forwarded (`underscores = \"drop\"`), and without the field the request has no content"
CODINGS = "`coding`: Transfer-Encoding is one `chunked`, else 501 (RFC 9112 §6.1)"
# Case → (our verdict, why, field names that no backend may receive) where our rules, all in docs/http/rules.md, are others than those of the tier.
DIFFERENCES = {
    "ambiguous: Transfer_Encoding with underscore.": ("accept", UNDERSCORE, ("transfer_encoding", "transfer-encoding")),
    "ambiguous: Transfer-Encoding with multiple delimiters": ("accept", UNDERSCORE, ("transfer___encoding", "transfer-encoding")),
    "ambiguous: Content_Length with underscore.": ("accept", UNDERSCORE, ("content_length",)),
    "ambiguous: Transfer-Encoding with multiple hyphens": (
        "accept", "`Transfer---Encoding` is a token and another name (RFC 9110 §5.1): it is forwarded, and the request has no content",
        ("transfer-encoding",)),
    "more-compliant-tests: Correct TE OK": ("501", CODINGS, ()),
    "more-compliant-tests: TE with custom parameters OK": ("501", CODINGS, ()),
    "more-compliant-tests: Transfer-Encoding: identity and chunked OK": ("501", CODINGS, ()),
    "rfc-compliant: Different Transfer-Encoding headers combined": ("501", CODINGS, ()),
    "rfc-compliant: Empty URI": ("400", "`target`: two spaces and no target; an empty path is written as `/` (RFC 9112 §3.2.1)", ()),
}
VERDICTS = {"Compliant": "accept", "Acceptable": "either", "Ambiguous": "reject", "Severe": "reject"}


def differs(case, verdict):
    """(our verdict, why) where a whole group of cases is others by our rules than by its tier."""
    names = [header["name"].lower().strip() for header in case["headers"]]
    values = [str(header["value"]).strip() for header in case["headers"]]
    length = next((value for name, value in zip(names, values) if name == "content-length"), None)
    if verdict == "accept" and case["version"] == "HTTP/1.0" and length not in (None, "0") and case["method"] in ("GET", "HEAD", "DELETE"):
        return "reject", "HTTP/1.0 does not define content of these methods: 413"
    if "#" in str(case["uri"]):
        return "reject", "a target has no fragment (RFC 9112 §3.2)"
    framing = ("content-length", "transfer-encoding")
    clean = all(header["tier"] == "Compliant" or header["name"].lower() in framing for header in case["headers"])
    plain = case["version"] == "HTTP/1.1" and str(case["uri"]).isascii() and str(case["uri"]).isprintable()
    if clean and plain and case["expected"].get("reason", "").startswith("Undefined"):
        return "either", "content of a GET or HEAD has one clear length, and it is forwarded with it"
    if verdict == "accept" and (case["version"] not in ("HTTP/1.0", "HTTP/1.1") or "transfer-encoding" in names and case["version"] == "HTTP/1.0"):
        return "reject", "other versions are refused, and so is Transfer-Encoding in HTTP/1.0"
    if verdict == "accept" and names.count("content-length") + names.count("transfer-encoding") > 1:
        return "reject", "two framing fields are refused, also equal ones"
    return verdict, None


def payload(case):
    """The bytes. A token goes into the target; a Host is added where none is given, since its absence is another class."""
    target = str(case["uri"]).encode("latin-1", "replace")
    target += (b"&" if b"?" in target else b"?") + b"p-@ID@" if target.startswith(b"/") else b""
    head = str(case["method"]).encode("latin-1", "replace") + b" " + target + b" " + str(case["version"]).encode() + b"\r\n"
    if not any(header["name"].lower().strip() == "host" for header in case["headers"]):
        head += b"Host: garden.test\r\n"
    for header in case["headers"]:
        head += header["name"].encode("latin-1", "replace") + b": " + str(header["value"]).encode("latin-1", "replace") + b"\r\n"
    return head + b"\r\n" + content(case)


def content(case):
    """What the framing fields announce, as far as they are plain."""
    for header in case["headers"]:
        name, value = header["name"].lower().strip(), str(header["value"]).strip()
        if name == "transfer-encoding" and value.lower() == "chunked":
            return b"0\r\n\r\n"
        if name == "content-length" and value.isascii() and value.isdigit() and int(value) <= 1 << 22:
            return b"x" * int(value)
    return b""


def cases():
    """All cases, the name of their file in front."""
    found, used = [], {}
    for path in sorted(FOLDER.glob("*.yaml")):
        for case in yaml.safe_load(path.read_text(encoding="utf-8")):
            case["headers"] = case["headers"] or []
            name = f"{path.stem}: {case['name']}"
            used[name] = used.get(name, 0) + 1
            name += f" ({used[name]})" if used[name] > 1 else ""
            verdict, why, never = DIFFERENCES.get(name) or (*differs(case, VERDICTS[case["expected"]["tier"]]), ())
            rule = f"{case['expected']['tier']}, {case['expected'].get('reason', '')}"
            found.append(Case("desync-guardian", name, payload(case), rule, verdict, never, notes=[why] if why else []))
    assert used.keys() >= DIFFERENCES.keys(), "a difference names no case"
    return found
