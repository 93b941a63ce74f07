"""Certificates and keys, made by openssl.

In: a folder, the stem of the files, names. Out: PEM files.
"""

import subprocess
from pathlib import Path

from .machine import Failed

KINDS = {"ecdsa": ["ec", "-pkeyopt", "ec_paramgen_curve:P-256"], "rsa": ["rsa:2048"], "rsa-4096": ["rsa:4096"]}
# Not fewer: Handfast reports certificates that expire soon.
DAYS = ["-days", "30"]


class Certificate:
    """The files of one certificate: `key`, `chain`, and `pem`, which has both, the key first: hitch needs this order, the others do not mind."""

    def __init__(self, folder, stem):
        self.key, self.chain, self.pem = (Path(folder) / f"{stem}.{end}" for end in ("key", "crt", "pem"))

    def join(self):
        """Writes `pem`."""
        self.pem.touch(mode=0o600)
        self.pem.write_text(self.key.read_text() + self.chain.read_text())
        return self


def self_signed(folder, stem, names=("localhost",), kind="ecdsa", key=None):
    """A certificate that is its own authority, with a new key or with this one."""
    made = Certificate(folder, stem)
    if key:
        made.key.write_text(key.read_text())
    keys = ["-key", made.key] if key else ["-newkey", *KINDS[kind], "-nodes", "-keyout", made.key]
    openssl("req", "-x509", *keys, "-sha256", *DAYS, *subject(names), "-out", made.chain)
    return made.join()


class Authority:
    """Signs certificates; `chain` is its own one."""

    def __init__(self, folder, stem="ca", kind="ecdsa"):
        self.folder, self.kind = folder, kind
        made = Certificate(folder, stem)
        self.key, self.chain = made.key, made.chain
        # Python verifies strictly (RFC 5280 §4.2.1.3): an authority has a key usage.
        openssl("req", "-x509", "-newkey", *KINDS[kind], "-nodes", *DAYS, "-subj", f"/CN={stem}", "-addext", "keyUsage=critical,keyCertSign,cRLSign",
                "-keyout", self.key, "-out", self.chain)

    def issue(self, stem, names):
        """A certificate with these names, of which the first one is the common name."""
        made, request = Certificate(self.folder, stem), Path(self.folder) / f"{stem}.csr"
        openssl("req", "-newkey", *KINDS[self.kind], "-nodes", *subject(names), "-keyout", made.key, "-out", request)
        openssl("x509", "-req", "-in", request, *DAYS, "-CA", self.chain, "-CAkey", self.key, "-CAcreateserial", "-copy_extensions", "copy",
                "-out", made.chain)
        return made.join()


def subject(names):
    """Options for the common name and the alternative names; a name that begins with a digit is an address."""
    listed = ",".join(f"{'IP' if name[0].isdigit() else 'DNS'}:{name}" for name in names)
    return ["-subj", f"/CN={names[0]}", "-addext", f"subjectAltName={listed}"]


def openssl(*words):
    done = subprocess.run(["openssl", *map(str, words)], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        raise Failed(f"openssl {words[0]}: {done.stderr.strip()}")
