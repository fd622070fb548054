"""A real image registry on loopback, with or without a password."""

import base64
import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from msgspec import Struct

from kit.oci import INDEX, Blob, OciImage, push
from kit.ports import free_port
from kit.waiting import wait_for

USER: Final = "reader"
PASSWORD: Final = "secret"
_HTPASSWD: Final = "reader:$2b$05$6wVRl8ePvnAAw8k0FaSVa.GiyCYmUhzOiezu0lUWUI1P38IUImT7e\n"
"""bcrypt, the only kind that the registry takes."""


class LoopbackRegistry(Struct, frozen=True):
    address: str
    protected: bool = False

    def push(self, image: OciImage, repository: str, tag: str) -> str:
        """-> the name to pull it by"""
        secret = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        push(image, self.address, repository, tag, authorization=f"Basic {secret}" if self.protected else "")
        return f"{self.address}/{repository}:{tag}"

    def push_index(self, images: dict[str, OciImage], repository: str, tag: str) -> str:
        """One name for images by their platforms. -> the name to pull it by"""
        entries = []
        for platform, image in images.items():
            self.push(image, repository, f"{tag}-{platform.replace('/', '-')}")
            system, architecture, *variant = platform.split("/")
            described = {"os": system, "architecture": architecture, **({"variant": variant[0]} if variant else {})}
            entries.append({**image.manifest.descriptor, "platform": described})
        body = {"schemaVersion": 2, "mediaType": INDEX, "manifests": entries}
        index = OciImage(name="", manifest=Blob(json.dumps(body).encode(), INDEX), blobs=())
        return self.push(index, repository, tag)


@contextmanager
def loopback_registry(folder: Path, *, protected: bool = False) -> Iterator[LoopbackRegistry]:
    folder.mkdir(parents=True)
    address = f"127.0.0.1:{free_port()}"
    settings = [
        "version: 0.1",
        "log: {level: error, accesslog: {disabled: true}}",
        f"storage: {{filesystem: {{rootdirectory: {folder}/data}}, delete: {{enabled: true}}}}",
        f"http: {{addr: '{address}', secret: loopback}}",
    ]
    if protected:
        (folder / "htpasswd").write_text(_HTPASSWD)
        settings.append(f"auth: {{htpasswd: {{realm: test, path: {folder}/htpasswd}}}}")
    (folder / "config.yml").write_text("\n".join(settings) + "\n")
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(["docker-registry", "serve", folder / "config.yml"], stdout=log, stderr=log)
    try:
        wait_for(lambda: _answers(address, process, folder / "log"), seconds=30)
        yield LoopbackRegistry(address, protected)
    finally:
        process.terminate()
        process.wait(30)


def _answers(address: str, process: subprocess.Popen[bytes], log: Path) -> bool:
    assert process.poll() is None, log.read_text()
    try:
        urllib.request.urlopen(f"http://{address}/v2/", timeout=5).close()
    except urllib.error.HTTPError as error:
        error.close()  # it asks for a password
    except OSError:
        return False
    return True
