"""Pulls from a registry with a password, on a real containerd: the password comes from a plug-in or a pull secret."""

import base64
import json
import logging
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kit.containerd import Containerd
from kit.cri import cleared, runtime_on
from kit.node import Events
from kit.oci import make_image
from kit.pods import make_pod
from kit.registry import PASSWORD, USER, LoopbackRegistry, loopback_registry
from pykubelet.api.objects import Secret
from pykubelet.api.pod import Pod
from pykubelet.api.struct import changed
from pykubelet.host.credential_providers import load_credential_providers
from pykubelet.node.images import Images
from pykubelet.node.not_started import NotStarted
from pykubelet.pod.moments import Journal
from pykubelet.pod.ports.api import Keyring
from pykubelet.pod.ports.runtime import Image, Runtime

PLUGIN = """#!/usr/bin/env python3
import json, os, sys
request = json.load(sys.stdin)
assert request["kind"] == "CredentialProviderRequest"
password = open(os.environ["PASSWORD_FILE"]).read()
print("giving away", password, file=sys.stderr)
if password == "none":
    sys.exit(7)
registry = request["image"].split("/")[0]
print(json.dumps({
    "kind": "CredentialProviderResponse",
    "apiVersion": request["apiVersion"],
    "cacheKeyType": "Registry",
    "auth": {registry: {"username": sys.argv[1], "password": password}},
}))
"""


@pytest.fixture
async def runtime(containerd: Containerd) -> AsyncIterator[Runtime]:
    running = runtime_on(containerd)
    yield running
    await cleared(running)


@pytest.fixture(scope="module")
def registry(containerd: Containerd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackRegistry]:
    with loopback_registry(tmp_path_factory.mktemp("pulls") / "registry", protected=True) as running:
        yield running


class Puller:
    """The agent's part in a pull, and everything that it tells anybody."""

    def __init__(self, runtime: Runtime, keyring: Keyring | None = None) -> None:
        self.runtime = runtime
        self.events = Events()
        self.journal = Journal()
        self._secrets: tuple[Secret, ...] = ()
        self._images = Images(
            runtime, self.events, self.journal, self._pull_secrets, now=lambda: datetime.now(UTC), keyring=keyring
        )

    async def pull(self, name: str, *secrets: Secret) -> Image:
        pod = make_pod("web", image=name)
        container = changed(pod.spec.containers[0], image_pull_policy="Always")
        self._secrets = secrets
        return await self._images.ensure(pod, container)

    async def _pull_secrets(self, pod: Pod) -> tuple[Secret, ...]:
        return self._secrets

    async def refused(self, name: str, *secrets: Secret) -> str:
        with pytest.raises(NotStarted) as raised:
            await self.pull(name, *secrets)
        assert raised.value.waiting.reason == "ErrImagePull"
        return raised.value.waiting.message

    def told(self) -> str:
        return f"{self.events.all} {self.journal.of('uid-web')} {self._images._backoffs}"


class Plugin:
    def __init__(self, folder: Path) -> None:
        self.password = folder / "password"
        self._folder = folder
        self._bin = folder / "bin"
        self._bin.mkdir()
        program = self._bin / "giver"
        program.write_text(PLUGIN)
        program.chmod(0o755)

    def keyring(self, pattern: str = "127.*.0.1:{port}", *, port: str) -> Keyring:
        provider = {
            "name": "giver",
            "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
            "matchImages": [pattern.replace("{port}", port)],
            "defaultCacheDuration": "0s",
            "args": [USER],
            "env": [{"name": "PASSWORD_FILE", "value": str(self.password)}],
        }
        config = {"apiVersion": "kubelet.config.k8s.io/v1", "kind": "CredentialProviderConfig", "providers": [provider]}
        (self._folder / "config.json").write_text(json.dumps(config))
        return load_credential_providers(str(self._folder / "config.json"), str(self._bin))


async def test_a_plug_in_gives_the_password_and_no_other_will_do(
    runtime: Runtime,
    containerd: Containerd,
    registry: LoopbackRegistry,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    name = registry.push(make_image("x", containerd.layer, {}), "team/plugged", "v1")
    plugin, port = Plugin(tmp_path), registry.address.partition(":")[2]
    plugin.password.write_text("a-wrong-guess")
    wrong = Puller(runtime, plugin.keyring(port=port))
    assert "a-wrong-guess" not in await wrong.refused(name)
    plugin.password.write_text("none")
    silent = Puller(runtime, plugin.keyring(port=port))
    await silent.refused(name)
    assert "credential provider giver has no credentials for image" in caplog.text
    assert "it ended with code 7" in caplog.text
    plugin.password.write_text(PASSWORD)
    elsewhere = Puller(runtime, plugin.keyring("registry.example:{port}", port=port))
    await elsewhere.refused(name)
    right = Puller(runtime, plugin.keyring(port=port))
    pulled = await right.pull(name)
    assert name in pulled.names
    for text in (caplog.text, *(each.told() for each in (wrong, silent, elsewhere, right))):
        assert "a-wrong-guess" not in text
        assert PASSWORD not in text
        assert base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode() not in text
    await runtime.remove_image(pulled.id)


@pytest.mark.parametrize("server", ["{address}", "http://{address}", "https://{address}/v2/", "{address}/team"])
async def test_a_pull_secret_works_however_its_registry_is_written(
    runtime: Runtime, containerd: Containerd, registry: LoopbackRegistry, server: str
) -> None:
    name = registry.push(make_image("x", containerd.layer, {}), "team/secret", "v1")

    def secret(password: str) -> Secret:
        auth = base64.b64encode(f"{USER}:{password}".encode()).decode()
        auths = {server.replace("{address}", registry.address): {"auth": auth}}
        data = {".dockerconfigjson": json.dumps({"auths": auths}).encode()}
        return Secret(type="kubernetes.io/dockerconfigjson", data=data)

    puller = Puller(runtime)
    assert "a-wrong-guess" not in await puller.refused(name, secret("a-wrong-guess"))
    pulled = await Puller(runtime).pull(name, secret("a-wrong-guess"), secret(PASSWORD))
    assert name in pulled.names
    await runtime.remove_image(pulled.id)
