import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from kit.certificates import Authority, server_context
from kit.loopback import serving
from kit.signing import SigningApi
from kit.virtual_time import virtual_time
from kit.waiting import eventually
from pykubelet.api.node import NodeAddress
from pykubelet.api.rules.well_known import CLIENT_SIGNER, SERVING_SIGNER
from pykubelet.kube.certificate_rotation import CertificateKeeper, rotation_due
from pykubelet.kube.certificate_store import CLIENT, SERVING, CertificateStore
from pykubelet.kube.client import ApiClient
from pykubelet.kube.credentials import Credentials
from pykubelet.kube.csr import Template, node_template, serving_template
from pykubelet.kube.kubeconfig import ClientConfig, Cluster, User
from pykubelet.pod.moments import CertificateRenewalFailed, CertificateRotated, Journal, Noted

START = datetime(2026, 1, 1, tzinfo=UTC)
LIFE = 3600.0


def now() -> datetime:
    return START + timedelta(seconds=asyncio.get_running_loop().time())


@dataclass
class Scene:
    api: SigningApi
    server: ApiClient
    store: CertificateStore
    keeper: CertificateKeeper
    ages: list[float]
    wanted: Template | None = None
    failures: int = 0
    task: asyncio.Task[None] | None = None
    fields: dict[str, Any] = field(default_factory=dict)

    @property
    def serial(self) -> int:
        pair = self.store.current()
        return pair.leaf.serial_number if pair else 0


@asynccontextmanager
async def keeping(
    folder: Path, wanted: Template | None, signer: str = CLIENT_SIGNER, **more: Any
) -> AsyncIterator[Scene]:
    api = SigningApi()
    api.now, api.lifetime = now, timedelta(seconds=LIFE)
    async with serving(api.handle) as port:
        config = ClientConfig(Cluster(server=f"http://127.0.0.1:{port}"), User())
        async with ApiClient(Credentials(config, environ={})) as server:
            store = CertificateStore(folder, CLIENT if signer == CLIENT_SIGNER else SERVING, now=now)
            ages: list[float] = []
            journal = Journal()

            def read(noted: Noted) -> None:
                if isinstance(noted.moment, CertificateRotated):
                    assert noted.moment.kind == ("client" if signer == CLIENT_SIGNER else "server")
                    ages.append(noted.moment.age)
                elif isinstance(noted.moment, CertificateRenewalFailed):
                    scene.failures += 1

            journal.read_by(read)
            keeper = CertificateKeeper(
                server, store, signer, lambda: scene.wanted, now=now, spread=lambda: 0.8, journal=journal, **more
            )
            scene = Scene(api, server, store, keeper, ages, wanted)
            scene.task = asyncio.create_task(keeper.run())
            try:
                yield scene
            finally:
                scene.task.cancel()
                await asyncio.wait([scene.task])
                assert scene.task.cancelled()


@virtual_time
async def test_a_node_without_a_certificate_asks_for_one_at_once(tmp_path: Path) -> None:
    async with keeping(tmp_path, node_template("n1")) as scene:
        await eventually(lambda: scene.api.names)
        spec = scene.api.requests["csr-1"]["spec"]
        assert spec["signerName"] == "kubernetes.io/kube-apiserver-client-kubelet"
        assert spec["usages"] == ["digital signature", "client auth"]
        assert scene.api.wanted("csr-1").subject.rfc4514_string() == "CN=system:node:n1,O=system:nodes"
        scene.api.sign("csr-1")
        await eventually(scene.store.current)
        assert scene.keeper.expires == scene.store.current().expires  # type: ignore[union-attr]
        assert scene.ages == [0.0]


@virtual_time
async def test_a_certificate_is_renewed_with_a_new_key_when_most_of_its_life_is_over(tmp_path: Path) -> None:
    async with keeping(tmp_path, node_template("n1")) as scene:
        scene.api.signs_at_once = True
        await eventually(scene.store.current)
        first, begun = scene.store.current(), asyncio.get_running_loop().time()
        await asyncio.sleep(0.79 * LIFE)
        assert scene.api.names == ["csr-1"]
        await asyncio.sleep(0.02 * LIFE)
        assert scene.api.names == ["csr-1", "csr-2"]
        second = scene.store.current()
        assert first is not None
        assert second is not None
        assert second.key != first.key
        assert scene.ages[1] == pytest.approx(0.8 * LIFE + begun, abs=15)


def test_renewal_is_spread_over_a_fifth_of_the_life(tmp_path: Path) -> None:
    issued = Authority().issue("n1")
    store = CertificateStore(tmp_path, CLIENT)
    pair = store.update(issued.certificate, issued.key)
    life = pair.expires - pair.begins
    assert rotation_due(pair, 0.7) == pair.begins + life * 0.7


@virtual_time
async def test_a_valid_certificate_is_left_alone_after_a_restart(tmp_path: Path) -> None:
    async with keeping(tmp_path, node_template("n1")) as scene:
        scene.api.signs_at_once = True
        await eventually(scene.store.current)
    async with keeping(tmp_path, node_template("n1")) as scene:
        await asyncio.sleep(0.5 * LIFE)
        assert scene.api.asked == []


@virtual_time
async def test_a_certificate_that_was_given_by_hand_is_replaced_at_once(tmp_path: Path) -> None:
    async with keeping(tmp_path, node_template("n1")) as scene:
        scene.api.signs_at_once = True
        await eventually(scene.store.current)
    async with keeping(tmp_path, node_template("n1"), at_once=True) as scene:
        scene.api.signs_at_once = True
        before = scene.serial
        await eventually(lambda: scene.serial != before)
        await asyncio.sleep(0.5 * LIFE)
        assert scene.api.names == ["csr-1"]


@virtual_time
async def test_a_file_that_cannot_be_read_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "rubbish").write_text("hello")
    (tmp_path / "kubelet-client-current.pem").symlink_to(tmp_path / "rubbish")
    async with keeping(tmp_path, node_template("n1")) as scene:
        scene.api.signs_at_once = True
        await eventually(lambda: scene.ages)
        assert scene.serial


@virtual_time
async def test_a_certificate_of_another_node_is_replaced(tmp_path: Path) -> None:
    async with keeping(tmp_path, node_template("n1")) as scene:
        scene.api.signs_at_once = True
        await eventually(scene.store.current)
    async with keeping(tmp_path, node_template("n2")) as scene:
        scene.api.signs_at_once = True
        await eventually(lambda: scene.ages)


@virtual_time
async def test_a_server_that_is_away_is_asked_again_and_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with keeping(tmp_path, node_template("n1")) as scene:
        scene.api.faults = [503] * 6
        scene.api.signs_at_once = True
        await eventually(scene.store.current, seconds=300)
        assert scene.failures == 6
        assert "no new certificate from kubernetes.io/kube-apiserver-client-kubelet" in caplog.text


@virtual_time
async def test_a_denial_is_said_and_asked_about_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with keeping(tmp_path, node_template("n1")) as scene:
        await eventually(lambda: scene.api.names)
        scene.api.say("csr-1", "Denied", "NotNow", "come back later")
        await eventually(lambda: len(scene.api.names) == 2, seconds=60)
        assert "csr-1 was denied (NotNow: come back later)" in caplog.text
        scene.api.say("csr-2", "Failed", "Broken")
        await eventually(lambda: len(scene.api.names) == 3, seconds=60)
        assert "failed on the certificate signing request csr-2 (Broken)" in caplog.text
        scene.api.sign("csr-3")
        await eventually(scene.store.current)


@virtual_time
async def test_a_request_that_nobody_answers_is_made_anew_after_a_quarter_of_an_hour(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with keeping(tmp_path, node_template("n1")) as scene:
        await asyncio.sleep(890)
        assert scene.api.names == ["csr-1"]
        await asyncio.sleep(30)
        assert scene.api.names == ["csr-1", "csr-2"]
        assert "kubectl certificate approve csr-1" in caplog.text


@virtual_time
async def test_a_request_that_is_deleted_is_made_anew(tmp_path: Path) -> None:
    async with keeping(tmp_path, node_template("n1")) as scene:
        await eventually(lambda: scene.api.names)
        del scene.api.requests["csr-1"]
        await eventually(lambda: scene.api.names == ["csr-2"], seconds=60)


@virtual_time
async def test_failures_while_waiting_are_waited_out(tmp_path: Path) -> None:
    async with keeping(tmp_path, node_template("n1")) as scene:
        await eventually(lambda: scene.api.names)
        scene.api.faults = [500, 503, 401]
        scene.api.sign("csr-1")
        await eventually(scene.store.current, seconds=60)
        assert scene.api.names == ["csr-1"]


@virtual_time
async def test_with_an_expired_certificate_the_fallback_is_asked(tmp_path: Path) -> None:
    other = SigningApi()
    other.now, other.signs_at_once = now, True
    async with serving(other.handle) as port:
        config = ClientConfig(Cluster(server=f"http://127.0.0.1:{port}"), User())
        async with (
            ApiClient(Credentials(config, environ={})) as fallback,
            keeping(tmp_path, node_template("n1"), fallback=fallback) as scene,
        ):
            scene.api.signs_at_once = True
            await eventually(scene.store.current)
            scene.api.faults = [401] * 100_000
            await asyncio.sleep(0.99 * LIFE)
            assert other.names == []
            before = scene.serial
            await asyncio.sleep(0.02 * LIFE)
            assert other.names == ["csr-1"]
            assert scene.serial != before


# --- serving certificates


def at(*ips: str) -> Template | None:
    return serving_template("n1", [NodeAddress(type="InternalIP", address=ip) for ip in ips])


@virtual_time
async def test_a_serving_certificate_is_asked_for_once_the_node_has_an_address(tmp_path: Path) -> None:
    async with keeping(tmp_path, at(), SERVING_SIGNER) as scene:
        await asyncio.sleep(100)
        assert scene.api.asked == []
        scene.wanted = at("10.0.0.1")
        scene.api.signs_at_once = True
        await eventually(scene.store.current)
        spec = scene.api.requests["csr-1"]["spec"]
        assert spec["signerName"] == "kubernetes.io/kubelet-serving"
        assert spec["usages"] == ["digital signature", "server auth"]
        assert (tmp_path / "kubelet-server-current.pem").is_symlink()


@virtual_time
async def test_a_new_address_makes_a_new_certificate_and_a_lost_one_does_not(tmp_path: Path) -> None:
    async with keeping(tmp_path, at("10.0.0.1"), SERVING_SIGNER) as scene:
        scene.api.signs_at_once = True
        await eventually(scene.store.current)
        scene.wanted = at("10.0.0.1", "10.0.0.2")
        await eventually(lambda: len(scene.ages) == 2)
        pair = scene.store.current()
        assert pair is not None
        names = pair.leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert [str(each) for each in names.get_values_for_type(x509.IPAddress)] == ["10.0.0.1", "10.0.0.2"]
        scene.wanted = at("10.0.0.2")
        await asyncio.sleep(0.5 * LIFE)
        assert len(scene.ages) == 2


@virtual_time
async def test_a_request_for_addresses_of_yesterday_is_not_waited_for(tmp_path: Path) -> None:
    async with keeping(tmp_path, at("10.0.0.1"), SERVING_SIGNER) as scene:
        await eventually(lambda: scene.api.names)
        scene.wanted = at("10.0.0.2")
        await eventually(lambda: len(scene.api.names) == 2, seconds=20)
        assert scene.failures == 0


@virtual_time
async def test_a_signer_that_leaves_names_out_is_not_asked_for_ever(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with keeping(tmp_path, at("10.0.0.1"), SERVING_SIGNER) as scene:
        await eventually(lambda: scene.api.names)
        scene.api.sign("csr-1", without_names=True)
        await asyncio.sleep(0.5 * LIFE)
        assert scene.api.names == ["csr-1"]
        assert "says less than was asked for" in caplog.text


# --- what uses it


async def test_requests_use_the_new_client_certificate_from_the_next_one_on(tmp_path: Path) -> None:
    servers, clients = Authority("servers"), Authority("clients")
    seen: list[int] = []

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        der = request.get_extra_info("ssl_object").getpeercert(binary_form=True)
        seen.append(x509.load_der_x509_certificate(der).serial_number)
        return web.json_response({})

    tls = server_context(servers.issue("server", hosts=["127.0.0.1"]), clients=clients, required=True)
    store = CertificateStore(tmp_path, CLIENT)
    (tmp_path / "ca.crt").write_bytes(servers.pem)
    pem = str(store.current_path)
    expected = []
    async with serving(handle, tls=tls) as port:
        cluster = Cluster(server=f"https://127.0.0.1:{port}", certificate_authority=str(tmp_path / "ca.crt"))
        issued = clients.issue("system:node:n1")
        store.update(issued.certificate, issued.key)
        config = ClientConfig(cluster, User(client_certificate=pem, client_key=pem))
        async with ApiClient(Credentials(config, environ={})) as server:
            for number in range(3):
                issued = clients.issue(f"system:node:n{number}")
                assert load_pem_private_key(issued.key, None)
                expected.append(store.update(issued.certificate, issued.key).leaf.serial_number)
                await server.request("GET", "/version")
    assert seen == expected
