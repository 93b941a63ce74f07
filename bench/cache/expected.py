"""Answers of Handfast that are other than the questions expect; docs/http/cache-rules.md says why, for each of these groups."""

_GROUPS = {
    "an invalid Transfer-Encoding is refused": ["headers-store-Transfer-Encoding"],
    "a part is not kept alone": [
        "partial-store-partial-reuse-partial", "partial-store-partial-reuse-partial-byterange", "partial-store-partial-reuse-partial-absent",
        "partial-store-partial-reuse-partial-suffix", "partial-store-partial-complete"],
    "a response to POST is not kept": ["method-POST"],
    "the date of the condition is before that of the response": ["conditional-lm-fresh-no-lm"],
}
KNOWN = {question: group for group, questions in _GROUPS.items() for question in questions}
# Questions of npm's version that were corrected since: an `Age` that is no number is ignored, and of several the first one counts (RFC 9111 §5.1); an
# error of the cache itself, after the origin closed the connection, does not come from the store.
_AGES = ("nonnumeric", "negative", "float", "prefix-twoline", "dup-0", "dup-0-twoline", "dup-old", "parameter", "numeric-parameter")
CORRECTED = {f"age-parse-{form}": "`Age`" for form in _AGES}
CORRECTED |= {f"stale-close-{directive}": "closed" for directive in ("must-revalidate", "proxy-revalidate", "no-cache", "s-maxage=2")}
# Those of a cache without `heuristic` and `store-set-cookie`.
UNTIL_SET = {f"heuristic-{status}-cached": "no guess" for status in (200, 203, 204, 404, 405, 410, 414, 501, 599)}
UNTIL_SET |= {f"{test}-Set-Cookie": "a cookie is for one client" for test in ("headers-store", "304-etag-update-response")}
UNTIL_SET["other-set-cookie"] = "a cookie is for one client"
