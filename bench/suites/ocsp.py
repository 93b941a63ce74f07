"""What stunnel does itself and Handfast leaves to a job of the operator (docs/proxy/ocsp.md): the OCSP response beside a server's certificate.

In: stunnel's configuration. Out: FILE.ocsp for its `cert`, if the certificate names a responder that answers, and whether there is one.
"""

import re
import subprocess
import urllib.request
from pathlib import Path


def staple(configuration):
    """Fetches the response for the certificate of each server, with the commands of the page."""
    if re.search(r"^\s*client\s*=\s*yes", configuration, re.MULTILINE):
        return False
    files = re.findall(r"^\s*cert\s*=\s*(\S+\.pem)\s*$", configuration, re.MULTILINE)
    return any([fetch(Path(file)) for file in files])


def fetch(file):
    url = openssl("x509", "-in", file, "-noout", "-ocsp_uri").strip()
    chain = re.findall(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", file.read_text(), re.DOTALL)
    if not url or len(chain) < 2:
        return False
    issuer, question = file.with_suffix(".issuer"), file.with_suffix(".request")
    issuer.write_text(chain[1])
    openssl("ocsp", "-issuer", issuer, "-cert", file, "-reqout", question, "-no_nonce")
    # Not by openssl itself: the responder of the suite sends no Content-Type.
    request = urllib.request.Request(url, question.read_bytes(), {"Content-Type": "application/ocsp-request"})
    with urllib.request.urlopen(request, timeout=5) as response:
        Path(f"{file}.ocsp").write_bytes(response.read())
    return True


def openssl(*words):
    done = subprocess.run(["openssl", *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20, check=False)
    return done.stdout
