"""Registries that want to know who we are, that send us elsewhere, and that are not to be trusted."""

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from kit.certificates import Authority, server_context
from kit.loopback import forwarding, serving
from kit.oci import OciImage, image_of, layer_of, tar_entry
from kit.ports import free_port
from pykubelet.base.errors import Invalid, NotFound, Retry
from pykubelet.pod.ports.runtime import PullCredentials, RegistryUnreachable
from pykubelet.runtime.process.images import pull, registry
from pykubelet.runtime.process.images.hosts import Endpoint
from pykubelet.runtime.process.images.images import Images, image_store
from pykubelet.runtime.process.images.manifest import Descriptor
from pykubelet.runtime.process.images.pull import Puller
from pykubelet.runtime.process.images.registry import Registry, new_session
from pykubelet.runtime.process.images.store import ImageStore

CREDENTIALS = PullCredentials(username="u", password="p-secret")
BASIC = "Basic " + base64.b64encode(b"u:p-secret").decode()
IMAGE = image_of("x", [layer_of(tar_entry("x", b"1" * 5000), packing="gzip")])

Answer = Callable[[web.BaseRequest], web.StreamResponse | None]


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_PAUSE", 0.01)
    monkeypatch.setattr(pull, "_TRIES", 1)


class Served:
    """A registry with one image, asked before it answers what else it might say."""

    def __init__(self, first: Answer | None = None, image: OciImage = IMAGE) -> None:
        self._first = first or (lambda request: None)
        self._image = image
        self.asked: list[tuple[str, str]] = []
        """What, and with which authorization."""

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.asked.append((request.path_qs, request.headers.get("Authorization", "")))
        if (answer := self._first(request)) is not None:
            return answer
        if "/manifests/" in request.path:
            return web.Response(body=self._image.manifest.data, content_type=self._image.manifest.media_type)
        digest = request.path.rpartition("/")[2]
        return web.Response(body=next(blob.data for blob in self._image.blobs if blob.digest == digest))


@asynccontextmanager
async def pulling(tmp_path: Path, served: Served) -> AsyncIterator[tuple[Puller, str, ImageStore]]:
    store = image_store(tmp_path / "root")
    store.open()
    async with serving(served.handle) as port:
        yield Puller(store, tmp_path / "registries.yaml"), f"127.0.0.1:{port}/team/app:1", store


def nothing_is_left(store: ImageStore) -> bool:
    return not any(any((store.root / name).iterdir()) for name in ("layers", "records", "partial"))


async def test_who_asks_for_a_token_is_shown_the_credentials_once(tmp_path: Path) -> None:
    def first(request: web.BaseRequest) -> web.Response | None:
        if request.path == "/token":
            assert request.headers["Authorization"] == BASIC
            assert request.query == {"service": "s", "scope": "repository:team/app:pull"}
            return web.json_response({"token": "t-1"})
        if request.headers.get("Authorization") != "Bearer t-1":
            realm = f'Bearer realm="http://{request.host}/token",service="s",scope="repository:team/app:pull"'
            return web.Response(status=401, headers={"WWW-Authenticate": realm})
        return None

    served = Served(first)
    async with pulling(tmp_path, served) as (puller, name, _):
        image = await puller.pull(name, CREDENTIALS)
    assert image.names == (name,)
    assert [authorization for _, authorization in served.asked] == ["", BASIC, *["Bearer t-1"] * 3]


async def test_an_identity_token_is_exchanged(tmp_path: Path) -> None:
    forms = []

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/token":
            forms.append(dict(await request.post()))
            return web.json_response({"access_token": "t-2"})
        if request.headers.get("Authorization") != "Bearer t-2":
            realm = f'Bearer realm="http://{request.host}/token",service="s"'
            return web.Response(status=401, headers={"WWW-Authenticate": realm})
        return await Served().handle(request)

    store = image_store(tmp_path / "root")
    store.open()
    async with serving(handle) as port:
        token = PullCredentials(token="refresh")
        await Puller(store, tmp_path / "r.yaml").pull(f"127.0.0.1:{port}/team/app:1", token)
    assert forms[0]["refresh_token"] == "refresh"
    assert forms[0]["scope"] == "repository:team/app:pull"


async def test_who_is_asked_instead_is_not_shown_the_credentials(tmp_path: Path) -> None:
    elsewhere = Served()
    async with serving(elsewhere.handle) as port:

        def first(request: web.BaseRequest) -> web.Response | None:
            if request.headers.get("Authorization") != BASIC:
                return web.Response(status=401, headers={"WWW-Authenticate": 'Basic realm="x"'})
            if "/blobs/" in request.path:
                target = f"http://127.0.0.1:{port}{request.path}"
                return web.Response(status=307, headers={"Location": f"{target}?sig=a%2Fb%3D"})
            return None

        async with pulling(tmp_path, Served(first)) as (puller, name, _):
            await puller.pull(name, CREDENTIALS)
    assert [authorization for _, authorization in elsewhere.asked] == ["", ""]
    assert all(path.endswith("?sig=a%2Fb%3D") for path, _ in elsewhere.asked)  # or it would not be signed any more


async def test_a_mirror_is_asked_first_and_without_credentials(tmp_path: Path) -> None:
    mirror, own = Served(lambda request: web.Response(status=404)), Served()
    async with serving(mirror.handle) as port, pulling(tmp_path, own) as (puller, name, _):
        registry_name = name.partition("/")[0]
        text = f"mirrors: {{'{registry_name}': {{endpoint: ['http://127.0.0.1:{port}']}}}}"
        (tmp_path / "registries.yaml").write_text(text)
        await puller.pull(name, CREDENTIALS)
    assert mirror.asked == [("/v2/team/app/manifests/1", "")]
    assert len(own.asked) == 3


async def test_a_busy_registry_is_asked_again(tmp_path: Path) -> None:
    failures = [503, 429, 500]

    def first(request: web.BaseRequest) -> web.Response | None:
        return web.Response(status=failures.pop()) if len(failures) > 1 else None

    async with pulling(tmp_path, Served(first)) as (puller, name, _):
        await puller.pull(name, None)


@pytest.mark.parametrize(
    ("spoiled", "why"),
    [
        (lambda data: data[:-1] + b"!", "is not what it should be"),
        (lambda data: data + b"!", "is larger than"),
        (lambda data: data[:-1], "ended 1 bytes too early"),
        (lambda data: b"", "bytes too early"),
    ],
)
async def test_a_layer_is_what_its_digest_says(tmp_path: Path, spoiled: Callable[[bytes], bytes], why: str) -> None:
    layer = IMAGE.blobs[1]

    def first(request: web.BaseRequest) -> web.Response | None:
        return web.Response(body=spoiled(layer.data)) if request.path.endswith(layer.digest) else None

    async with pulling(tmp_path, Served(first)) as (puller, name, store):
        with pytest.raises((Invalid, Retry), match=f"{why}|layer of it is refused"):
            await puller.pull(name, None)
        assert nothing_is_left(store)


async def test_a_manifest_is_what_its_digest_says(tmp_path: Path) -> None:
    async with pulling(tmp_path, Served()) as (puller, name, store):
        with pytest.raises(Invalid, match="its manifest is not what it should be"):
            await puller.pull(name.replace(":1", "") + "@sha256:" + "0" * 64, None)
        assert nothing_is_left(store)


async def test_documents_are_of_a_size(tmp_path: Path) -> None:
    endless = Served(lambda request: web.Response(body=b" " * (5 << 20)))
    async with pulling(tmp_path, endless) as (puller, name, _):
        with pytest.raises(Invalid, match="its manifest 1 is larger than 4194304 bytes"):
            await puller.pull(name, None)


async def test_of_what_is_said_only_a_registrys_own_words_are_told(tmp_path: Path) -> None:
    """Who names the address of something else must not read its answers in a pod's status."""
    for body, told in (
        (b"root-password: hunter2", r"status 418$"),
        (b'{"errors": [{"code": "DENIED", "message": "no\\u001b[2J such"}]}', r"status 418 \(DENIED: no \[2J such\)$"),
        (b'{"errors": [{"code": "X", "message": "' + b"a" * 5000 + b'"}]}', r"status 418 \(X: a{297}\)$"),
    ):
        served = Served(lambda request, body=body: web.Response(status=418, body=body))  # type: ignore[misc]
        async with pulling(tmp_path, served) as (puller, name, _):
            with pytest.raises(Retry, match=told):
                await puller.pull(name, None)


async def test_what_is_not_there_is_not_found(tmp_path: Path) -> None:
    async with pulling(tmp_path, Served(lambda request: web.Response(status=404))) as (puller, name, _):
        with pytest.raises(NotFound, match="its manifest 1 is not there"):
            await puller.pull(name, None)


async def test_a_registry_out_of_reach_is_not_asked_again_at_once(tmp_path: Path) -> None:
    store, port = image_store(tmp_path / "root"), free_port()
    store.open()
    puller = Puller(store, tmp_path / "registries.yaml")
    for _ in range(2):
        with pytest.raises(RegistryUnreachable, match=rf"127\.0\.0\.1:{port} cannot be reached"):
            await puller.pull(f"127.0.0.1:{port}/x:1", None)
    assert list(puller._out_of_reach) == [f"http://127.0.0.1:{port}"]


async def test_a_crowd_waits_for_the_first_who_finds_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names that cannot be looked up would hold all threads of the agent."""
    tried: list[str] = []

    async def manifest(self: Registry, reference: str) -> tuple[bytes, str]:
        tried.append(reference)
        await asyncio.sleep(0.01)
        raise RegistryUnreachable("registry.example cannot be reached: no name")

    monkeypatch.setattr(Registry, "manifest", manifest)
    puller = Puller(image_store(tmp_path / "root"), tmp_path / "registries.yaml")
    pulls = (puller.pull(f"registry.example/app{number}:{number}", None) for number in range(5))
    found = await asyncio.gather(*pulls, return_exceptions=True)
    assert {type(each) for each in found} == {RegistryUnreachable}
    assert len(tried) == 1  # whichever was first: each looks at its files in a thread of its own


async def test_nothing_leads_from_tls_to_none(tmp_path: Path) -> None:
    def first(request: web.BaseRequest) -> web.Response | None:
        if "/blobs/" in request.path:
            return web.Response(status=302, headers={"Location": f"http://{request.host}/x"})
        return web.Response(status=401, headers={"WWW-Authenticate": f'Bearer realm="http://{request.host}/token"'})

    served, blob = Served(first), IMAGE.blobs[1]
    layer = Descriptor(digest=blob.digest, size=len(blob.data))
    async with serving(served.handle, tls=server_context(Authority().issue("r", hosts=["127.0.0.1"]))) as port:
        endpoint = Endpoint(url=f"https://127.0.0.1:{port}", is_own=True, verified=False)
        async with new_session(endpoint) as session:
            asked = Registry(session, endpoint, "team/app", CREDENTIALS)
            with pytest.raises(Invalid, match=r"wants credentials to be shown at .* which is not TLS"):
                await asked.manifest("1")
            with pytest.raises(Invalid, match="leads from TLS to http://"):
                async for _ in asked.blob(layer):
                    pass
            strict = Registry(session, Endpoint(url=endpoint.url, is_own=True), "team/app", CREDENTIALS)
            with pytest.raises(Retry, match="certificate that is not trusted") as refusal:
                await strict.manifest("1")
            assert not isinstance(refusal.value, RegistryUnreachable)  # somebody answers, if not the right one
    assert [authorization for _, authorization in served.asked] == ["", ""]


async def test_pulls_of_one_image_are_one_pull_of_its_layers(tmp_path: Path) -> None:
    served = Served()
    images = Images(tmp_path / "root", "registry")
    images.open()
    async with serving(served.handle) as port:
        name = f"127.0.0.1:{port}/team/app:1"
        found = await asyncio.gather(*(images.pull(name, None) for _ in range(4)))
    assert len(set(found)) == 1
    layer = IMAGE.blobs[1].digest
    assert [path for path, _ in served.asked].count(f"/v2/team/app/blobs/{layer}") == 1


async def test_a_pull_that_nobody_waits_for_leaves_nothing_behind(tmp_path: Path) -> None:
    halfway = asyncio.Event()

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        if not request.path.endswith(IMAGE.blobs[1].digest):
            return await Served().handle(request)
        answer = web.StreamResponse(headers={"Content-Length": str(len(IMAGE.blobs[1].data))})
        await answer.prepare(request)
        await answer.write(IMAGE.blobs[1].data[:100])
        halfway.set()
        await asyncio.sleep(1000)
        return answer

    store = image_store(tmp_path / "root")
    store.open()
    async with serving(handle) as port:
        puller = Puller(store, tmp_path / "registries.yaml")
        pulled = asyncio.create_task(puller.pull(f"127.0.0.1:{port}/team/app:1", None))
        await halfway.wait()
        pulled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await pulled
    assert nothing_is_left(store)
    store.sweep()  # nobody holds it any more


async def test_a_proxy_of_the_environment_is_asked_but_not_for_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = Served()
    async with forwarding() as proxy, pulling(tmp_path, served) as (puller, name, _):
        for variable in ("http_proxy", "https_proxy"):
            monkeypatch.setenv(variable, f"http://127.0.0.1:{proxy.port}")
        monkeypatch.delenv("no_proxy", raising=False)
        await puller.pull(name, None)
        assert proxy.asked == []
        port = name.partition("/")[0].rpartition(":")[2]
        mirror = f"mirrors: {{registry.example: {{endpoint: ['http://registry.example:{port}']}}}}"
        (tmp_path / "registries.yaml").write_text(mirror)
        image = await puller.pull("registry.example/team/app:1", None)
        assert proxy.asked[0] == f"GET http://registry.example:{port}/v2/team/app/manifests/1"
        proxy.answer = "403 Forbidden"
        with pytest.raises(RegistryUnreachable, match="the proxy refuses with status 403"):
            await puller.pull("other.example/x:1", None)
    assert image.digests[-1].startswith("registry.example/team/app@sha256:")


async def test_who_takes_long_to_answer_or_answers_nonsense_is_not_out_of_reach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A registry that fetches what it is asked for from another one may think for a while."""
    monkeypatch.setattr(registry, "_SILENCE", 0.2)
    monkeypatch.setattr(registry, "_CONNECTING", 0.1)

    async def silent(request: web.BaseRequest) -> web.StreamResponse:
        await asyncio.sleep(1000)
        raise AssertionError

    async def gone(request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.close()
        return web.Response()

    store = image_store(tmp_path / "root")
    store.open()
    for handle in (silent, gone):
        async with serving(handle) as port:
            with pytest.raises(Retry, match="gives no answer that can be understood") as refusal:
                await Puller(store, tmp_path / "r.yaml").pull(f"127.0.0.1:{port}/x:1", None)
        assert not isinstance(refusal.value, RegistryUnreachable)
