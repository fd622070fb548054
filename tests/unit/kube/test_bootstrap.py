import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kit.certificates import Authority, server_context
from kit.loopback import serving
from kit.signing import SigningApi
from kit.virtual_time import virtual_time
from kit.waiting import eventually
from pykubelet.base.errors import Invalid, PykubeletError, Retry
from pykubelet.kube import kubeconfig
from pykubelet.kube.bootstrap import bootstrap, is_usable, rotating
from pykubelet.kube.certificate_store import CLIENT, CertificateStore
from pykubelet.kube.kubeconfig import ClientConfig, Cluster, User
from pykubelet.kube.settings import ClientSettings

START = datetime.now(UTC)


def now() -> datetime:
    return START + timedelta(seconds=asyncio.get_running_loop().time())


@dataclass
class Scene:
    api: SigningApi
    settings: ClientSettings
    folder: Path

    @property
    def kubeconfig(self) -> Path:
        return Path(self.settings.kubeconfig)

    async def run(self) -> bool:
        return await bootstrap(self.settings, now=now)


@asynccontextmanager
async def new_node(folder: Path) -> AsyncIterator[Scene]:
    api, authority = SigningApi(), Authority()
    api.now = now
    (folder / "ca.crt").write_bytes(authority.pem)
    async with serving(api.handle, tls=server_context(authority.issue("api", hosts=["127.0.0.1"]))) as port:
        (folder / "bootstrap.conf").write_text(
            f"""
apiVersion: v1
kind: Config
clusters:
- name: c
  cluster: {{server: "https://127.0.0.1:{port}", certificate-authority: ca.crt, tls-server-name: 127.0.0.1}}
users: [{{name: u, user: {{token: bootstrap-token}}}}]
contexts: [{{name: x, context: {{cluster: c, user: u}}}}]
current-context: x
"""
        )
        settings = ClientSettings(
            kubeconfig=str(folder / "etc" / "kubelet.conf"),
            bootstrap_kubeconfig=str(folder / "bootstrap.conf"),
            cert_dir=folder / "pki",
            node_name="n1",
        )
        yield Scene(api, settings, folder)


@virtual_time
async def test_a_new_node_asks_waits_and_writes_its_kubeconfig(tmp_path: Path) -> None:
    async with new_node(tmp_path) as scene:
        task = asyncio.create_task(scene.run())
        await eventually(lambda: scene.api.names)
        (name,) = scene.api.names
        assert name.startswith("node-csr-")
        spec = scene.api.requests[name]["spec"]
        assert spec["signerName"] == "kubernetes.io/kube-apiserver-client-kubelet"
        assert spec["usages"] == ["digital signature", "client auth"]
        assert scene.api.wanted(name).subject.rfc4514_string() == "CN=system:node:n1,O=system:nodes"
        assert set(scene.api.authorizations) == {"Bearer bootstrap-token"}
        await asyncio.sleep(60)
        assert not task.done()
        scene.api.sign(name)
        assert await task

        config = kubeconfig.load(str(scene.settings.kubeconfig))
        pem = tmp_path / "pki" / "kubelet-client-current.pem"
        assert config.user == User(client_certificate=str(pem), client_key=str(pem))
        assert config.cluster.certificate_authority == str(tmp_path / "ca.crt")
        assert config.cluster.tls_server_name == "127.0.0.1"
        assert scene.kubeconfig.stat().st_mode & 0o777 == 0o600
        assert pem.stat().st_mode & 0o777 == 0o600
        assert not (tmp_path / "pki" / "kubelet-client.key.tmp").exists()


@virtual_time
async def test_a_node_that_is_known_asks_for_nothing(tmp_path: Path) -> None:
    async with new_node(tmp_path) as scene:
        scene.api.signs_at_once = True
        assert await scene.run()
        scene.api.asked.clear()
        assert not await scene.run()
        assert scene.api.asked == []


@virtual_time
async def test_a_node_whose_certificate_has_expired_is_made_known_anew(tmp_path: Path) -> None:
    async with new_node(tmp_path) as scene:
        scene.api.signs_at_once = True
        assert await scene.run()
        await asyncio.sleep(2 * 86400)
        assert await scene.run()
        assert len(scene.api.names) == 2


@virtual_time
async def test_an_agent_that_was_stopped_while_it_waited_finds_its_request(tmp_path: Path) -> None:
    async with new_node(tmp_path) as scene:
        task = asyncio.create_task(scene.run())
        await eventually(lambda: scene.api.names)
        key = tmp_path / "pki" / "kubelet-client.key.tmp"
        assert key.stat().st_mode & 0o777 == 0o600
        task.cancel()
        await asyncio.wait([task])
        (name,) = scene.api.names
        scene.api.sign(name)
        assert await scene.run()
        assert scene.api.names == [name]


@virtual_time
async def test_a_request_by_that_name_with_another_key_is_not_used(tmp_path: Path) -> None:
    async with new_node(tmp_path) as scene:
        task = asyncio.create_task(scene.run())
        await eventually(lambda: scene.api.names)
        task.cancel()
        await asyncio.wait([task])
        (name,) = scene.api.names
        other = replace(
            scene,
            settings=ClientSettings(
                kubeconfig=str(tmp_path / "x"),
                bootstrap_kubeconfig=scene.settings.bootstrap_kubeconfig,
                cert_dir=tmp_path / "y",
                node_name="n1",
            ),
        )
        task = asyncio.create_task(other.run())
        await eventually(lambda: len(scene.api.names) == 2)
        task.cancel()
        await asyncio.wait([task])
        scene.api.requests[name]["spec"]["request"] = scene.api.requests[scene.api.names[1]]["spec"]["request"]
        with pytest.raises(Invalid, match=f"{name} exists and is not ours; remove it: kubectl delete csr {name}"):
            await scene.run()


@virtual_time
async def test_a_denial_ends_it_with_a_clear_word(tmp_path: Path) -> None:
    async with new_node(tmp_path) as scene:
        task = asyncio.create_task(scene.run())
        await eventually(lambda: scene.api.names)
        (name,) = scene.api.names
        scene.api.say(name, "Denied", message="not one of ours")
        with pytest.raises(Invalid, match=rf"{name} was denied \(not one of ours\).*kubectl delete csr {name}"):
            await task
        assert not scene.kubeconfig.exists()


@virtual_time
async def test_a_server_that_is_not_there_yet_is_waited_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with new_node(tmp_path) as scene:
        scene.api.faults = [503, 503, 401, 500]
        scene.api.signs_at_once = True
        assert await scene.run()
        assert "this node is not known yet" in caplog.text


@virtual_time
async def test_a_bootstrap_user_without_rights_ends_it(tmp_path: Path) -> None:
    async with new_node(tmp_path) as scene:
        scene.api.faults = [403]
        with pytest.raises(Invalid, match=r"POST .*certificatesigningrequests"):
            await scene.run()


@virtual_time
async def test_a_request_that_was_deleted_is_made_anew(tmp_path: Path) -> None:
    async with new_node(tmp_path) as scene:
        task = asyncio.create_task(scene.run())
        await eventually(lambda: scene.api.names)
        scene.api.requests.clear()
        await eventually(lambda: scene.api.names, seconds=100)
        scene.api.sign(scene.api.names[0])
        assert await task


@virtual_time
async def test_after_an_hour_it_gives_up_and_says_what_to_do(tmp_path: Path) -> None:
    async with new_node(tmp_path) as scene:
        with pytest.raises(Retry, match=r"within an hour: kubectl certificate approve node-csr-"):
            await scene.run()


@virtual_time
async def test_a_certificate_that_has_expired_in_the_meantime_is_not_used(tmp_path: Path) -> None:
    async with new_node(tmp_path) as scene:
        task = asyncio.create_task(scene.run())
        await eventually(lambda: scene.api.names)
        task.cancel()
        await asyncio.wait([task])
        scene.api.sign(scene.api.names[0])
        await asyncio.sleep(2 * 86400)
        with pytest.raises(Invalid, match="has expired"):
            await scene.run()
        scene.api.signs_at_once = True
        assert await scene.run()


@virtual_time
async def test_a_missing_bootstrap_kubeconfig_is_named(tmp_path: Path) -> None:
    settings = ClientSettings(
        kubeconfig=str(tmp_path / "a"), bootstrap_kubeconfig=str(tmp_path / "b"), cert_dir=tmp_path, node_name="n1"
    )
    with pytest.raises(PykubeletError, match="/b does not exist"):
        await bootstrap(settings)


# --- kubeconfigs that are there


def written(path: Path, user: str) -> Path:
    path.write_text(
        "{apiVersion: v1, kind: Config, clusters: [{name: c, cluster: {server: 'https://x'}}], current-context: x, "
        f"users: [{{name: u, user: {user}}}], contexts: [{{name: x, context: {{cluster: c, user: u}}}}]}}"
    )
    return path


@pytest.mark.parametrize("user", ["{token: t}", "{tokenFile: /t}", "{username: u, password: p}"])
def test_credentials_of_another_kind_are_not_written_over(tmp_path: Path, user: str) -> None:
    assert is_usable(written(tmp_path / "conf", user), START)


def test_a_kubeconfig_without_credentials_or_with_broken_ones_is_not_usable(tmp_path: Path) -> None:
    assert not is_usable(written(tmp_path / "conf", "{}"), START)
    assert not is_usable(written(tmp_path / "conf", "{client-certificate: /none, client-key: /none}"), START)
    (tmp_path / "conf").write_text("rubbish: [")
    assert not is_usable(tmp_path / "conf", START)
    assert not is_usable(tmp_path / "none", START)


def test_a_certificate_in_the_kubeconfig_is_usable_until_it_expires(tmp_path: Path) -> None:
    issued = Authority().issue("system:node:n1")
    data = {"certificate": issued.certificate, "key": issued.key}
    fields = ", ".join(f"client-{name}-data: {base64.b64encode(pem).decode()}" for name, pem in data.items())
    path = written(tmp_path / "conf", f"{{{fields}}}")
    assert is_usable(path, START)
    assert not is_usable(path, START + timedelta(days=30))


def test_a_certificate_in_the_kubeconfig_goes_to_the_store_and_is_to_be_replaced(tmp_path: Path) -> None:
    authority = Authority()
    issued, store = authority.issue("system:node:n1"), CertificateStore(tmp_path, CLIENT)
    user = User(
        client_certificate_data=base64.b64encode(issued.certificate).decode(),
        client_key_data=base64.b64encode(issued.key).decode(),
    )
    config = ClientConfig(Cluster(server="https://x"), user, origin="here")

    changed, at_once = rotating(config, store, START)

    path = str(store.current_path)
    assert at_once
    assert changed.user == User(client_certificate=path, client_key=path)
    assert (changed.cluster, changed.origin) == (config.cluster, "here")
    assert rotating(config, store, START) == (changed, False)
    assert rotating(changed, store, START) == (changed, False)


def test_other_credentials_are_not_rotated(tmp_path: Path) -> None:
    config = ClientConfig(Cluster(server="https://x"), User(token="t"))
    assert rotating(config, CertificateStore(tmp_path, CLIENT), START) == (config, False)
