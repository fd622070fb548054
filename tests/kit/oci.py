"""Small images, made of a static busybox and nothing else, without any builder."""

import gzip
import hashlib
import io
import json
import subprocess
import tarfile
import urllib.request
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

BUSYBOX: Final = Path("/bin/busybox")
_MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
INDEX: Final = "application/vnd.oci.image.index.v1+json"
_LAYER: Final = "application/vnd.oci.image.layer.v1.tar"
_CONFIG: Final = "application/vnd.oci.image.config.v1+json"
_PASSWD: Final = b"root:x:0:0:root:/root:/bin/sh\napp:x:1234:2345:app:/:/bin/sh\n"
_GROUP: Final = b"root:x:0:\napp:x:2345:\nextra:x:3456:app\n"


class Blob(Struct, frozen=True):
    data: bytes
    media_type: str

    @property
    def digest(self) -> str:
        return f"sha256:{hashlib.sha256(self.data).hexdigest()}"

    @property
    def descriptor(self) -> dict[str, Any]:
        return {"mediaType": self.media_type, "digest": self.digest, "size": len(self.data)}


class OciImage(Struct, frozen=True, kw_only=True):
    """`name` in full: registry, path and tag."""

    name: str
    manifest: Blob
    blobs: tuple[Blob, ...]


def busybox_layer() -> Blob:
    """Busybox under the names of all its applets, and two users."""
    packed = io.BytesIO()
    applets = subprocess.run([BUSYBOX, "--list"], check=True, capture_output=True, text=True).stdout.split()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for folder in ("bin", "dev", "etc", "proc", "root", "sys", "tmp"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
            tar.addfile(entry)
        for path, data in (("bin/busybox", BUSYBOX.read_bytes()), ("etc/passwd", _PASSWD), ("etc/group", _GROUP)):
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(data), 0o755 if path == "bin/busybox" else 0o644
            tar.addfile(entry, io.BytesIO(data))
        for applet in sorted(set(applets) - {"busybox"}):
            entry = tarfile.TarInfo(f"bin/{applet}")
            entry.type, entry.linkname = tarfile.SYMTYPE, "/bin/busybox"
            tar.addfile(entry)
    return Blob(packed.getvalue(), _LAYER)


def tar_entry(name: str, data: bytes = b"", **fields: Any) -> tuple[tarfile.TarInfo, bytes]:
    """`fields` as TarInfo has them: type, mode, uid, linkname ..."""
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), 0o644
    for field, value in fields.items():
        setattr(entry, field, value)
    return entry, data


def folder(name: str, mode: int = 0o755, **fields: Any) -> tuple[tarfile.TarInfo, bytes]:
    return tar_entry(name, type=tarfile.DIRTYPE, mode=mode, **fields)


def layer_of(*entries: tuple[tarfile.TarInfo, bytes], packing: str = "") -> "PackedLayer":
    """`packing`: gzip or zstd."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for entry, data in entries:
            tar.addfile(entry, io.BytesIO(data))
    plain = Blob(made.getvalue(), _LAYER)
    if packing == "gzip":
        return PackedLayer(Blob(gzip.compress(plain.data), f"{_LAYER}+gzip"), plain.digest)
    if packing == "zstd":
        packed = subprocess.run(["zstd", "-q", "-c"], input=plain.data, check=True, capture_output=True).stdout
        return PackedLayer(Blob(packed, f"{_LAYER}+zstd"), plain.digest)
    return PackedLayer(plain, plain.digest)


class PackedLayer(Struct, frozen=True):
    blob: Blob
    diff_id: str


def image_of(
    name: str, layers: Iterable[PackedLayer], config: Mapping[str, Any] | None = None, *, architecture: str = ""
) -> OciImage:
    """Of several layers, the lowest first."""
    layers = tuple(layers)
    return _image(name, [each.blob for each in layers], [each.diff_id for each in layers], config, architecture)


def make_image(name: str, layer: Blob, config: Mapping[str, Any] | None = None) -> OciImage:
    """`config` as images have it: Cmd, Entrypoint, User, Env ..."""
    return _image(name, [layer], [layer.digest], config, "")


def _image(
    name: str, layers: list[Blob], diff_ids: list[str], config: Mapping[str, Any] | None, architecture: str
) -> OciImage:
    machine = subprocess.run(["uname", "-m"], check=True, capture_output=True, text=True).stdout.strip()
    body = {
        "architecture": architecture or {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine),
        "os": "linux",
        # No two names share an id, so that each can be looked at and removed alone.
        "config": {"Env": ["PATH=/bin"], "Cmd": ["sh"], "Labels": {"name": name}, **(config or {})},
        "rootfs": {"type": "layers", "diff_ids": diff_ids},
    }
    settings = Blob(json.dumps(body).encode(), _CONFIG)
    manifest = {
        "schemaVersion": 2,
        "mediaType": _MANIFEST,
        "config": settings.descriptor,
        "layers": [layer.descriptor for layer in layers],
    }
    return OciImage(name=name, manifest=Blob(json.dumps(manifest).encode(), _MANIFEST), blobs=(settings, *layers))


def write_layout(images: Iterable[OciImage], path: Path) -> None:
    """An OCI layout in one tar, as `ctr images import` reads it."""
    images = tuple(images)
    entries = [{**i.manifest.descriptor, "annotations": {"io.containerd.image.name": i.name}} for i in images]
    files = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}'}
    files["index.json"] = json.dumps({"schemaVersion": 2, "manifests": entries}).encode()
    for blob in (blob for image in images for blob in (image.manifest, *image.blobs)):
        files[f"blobs/{blob.digest.replace(':', '/')}"] = blob.data
    with tarfile.open(path, "w") as tar:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o644
            tar.addfile(entry, io.BytesIO(data))


def push(image: OciImage, registry: str, repository: str, tag: str, *, authorization: str = "") -> None:
    """To a registry at `host:port`, over plain HTTP."""
    headers = {"Authorization": authorization} if authorization else {}
    base = f"http://{registry}/v2/{repository}"

    def send(method: str, url: str, data: bytes, media_type: str) -> str:
        request = urllib.request.Request(
            url,
            data=data,
            method=method,
            headers={**headers, "Content-Type": media_type, "Content-Length": str(len(data))},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return str(answer.headers.get("Location", ""))

    for blob in image.blobs:
        where = send("POST", f"{base}/blobs/uploads/", b"", "application/octet-stream")
        joint = "&" if "?" in where else "?"
        send("PUT", f"{where}{joint}digest={blob.digest}", blob.data, "application/octet-stream")
    send("PUT", f"{base}/manifests/{tag}", image.manifest.data, image.manifest.media_type)
