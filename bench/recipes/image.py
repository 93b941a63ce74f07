"""An image of a container as an OCI layout, made here: one layer, which is a tar file of random bytes.

In: a folder, the size. Out: the layout.
"""

import hashlib
import io
import json
import os
import tarfile


def make(folder, size):
    """Returns the digest of the layer."""
    blobs = folder / "blobs/sha256"
    blobs.mkdir(parents=True)
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')

    def put(content):
        digest = hashlib.sha256(content).hexdigest()
        (blobs / digest).write_bytes(content)
        return {"digest": f"sha256:{digest}", "size": len(content)}

    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        entry = tarfile.TarInfo("data")
        entry.size = size
        tar.addfile(entry, io.BytesIO(os.urandom(size)))
    layer = put(packed.getvalue())
    kind = "application/vnd.oci.image"
    config = put(json.dumps({"architecture": "amd64", "os": "linux", "config": {},
                             "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]}}).encode())
    manifest = put(json.dumps({"schemaVersion": 2, "mediaType": f"{kind}.manifest.v1+json",
                               "config": {"mediaType": f"{kind}.config.v1+json", **config},
                               "layers": [{"mediaType": f"{kind}.layer.v1.tar", **layer}]}).encode())
    named = {"mediaType": f"{kind}.manifest.v1+json", **manifest, "annotations": {"org.opencontainers.image.ref.name": "latest"}}
    (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [named]}))
    return layer["digest"]
