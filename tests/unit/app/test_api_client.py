"""The wiring of an agent with an API server: what it keeps, and who is told of it."""

import asyncio
import json
import math
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import aiohttp.web

from kit.certificates import Authority
from kit.loopback import serving as serving_api
from kit.pods import make_pod
from kit.signing import SigningApi
from kit.waiting import eventually
from pykubelet.api.codec import convert
from pykubelet.api.pod import PodSpec
from pykubelet.api.struct import changed
from pykubelet.app.api_client import connect
from pykubelet.config.agent import Config, make_config
from pykubelet.kube.certificate_store import CLIENT, CertificateStore
from pykubelet.pod.moments import Journal
from pykubelet.server.application import application
from pykubelet.server.metrics.metrics import Metrics
from pykubelet.web.serving import serving


def config_in(folder: Path) -> Config:
    """Of a node whose client certificate is in its store, and whose serving certificate is yet to be issued."""
    issued = Authority().issue("system:node:n1", organizations=["system:nodes"])
    CertificateStore(folder / "pki", CLIENT).update(issued.certificate, issued.key)
    current = str(folder / "pki" / "kubelet-client-current.pem")
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"client-certificate": current, "client-key": current}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    (folder / "kubeconfig").write_text(json.dumps(kubeconfig))
    return make_config(
        {
            "rotateCertificates": True,
            "serverTLSBootstrap": True,
            "--hostname-override": "n1",
            "--kubeconfig": str(folder / "kubeconfig"),
            "--root-dir": str(folder),
        }
    )


async def ttl(metrics: Metrics, kind: str) -> float:
    """In seconds, as a scrape shows it."""
    async with (
        serving(application(metrics.routes(), None), "127.0.0.1", 0) as port,
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}/metrics") as answer,
    ):
        name = f"kubelet_certificate_manager_{kind}_ttl_seconds "
        lines = (await answer.text()).splitlines()
        return next(float(line.removeprefix(name)) for line in lines if line.startswith(name))


async def test_how_long_the_certificates_are_valid_is_measured(tmp_path: Path) -> None:
    config = config_in(tmp_path)
    async with AsyncExitStack() as stack:
        connected = await connect(config, Journal(), stack)
        parts, metrics = connected.parts, Metrics("n1", gauges=connected.gauges)
        keeping = [asyncio.ensure_future(parts[f"{kind} certificate"]()) for kind in ("client", "serving")]
        async with asyncio.timeout(10):
            while await ttl(metrics, "client") == math.inf:
                pass  # it is being read
        assert 4 < await ttl(metrics, "client") / 86400 < 5
        assert await ttl(metrics, "server") == math.inf
        for task in keeping:
            task.cancel()
        await asyncio.gather(*keeping, return_exceptions=True)


async def test_how_changes_of_objects_are_noticed_is_as_configured(tmp_path: Path) -> None:
    config = config_in(tmp_path)
    asked: list[str] = []

    async def handle(request: aiohttp.web.BaseRequest) -> aiohttp.web.Response:
        asked.append(request.path)
        meta = {"name": "a", "namespace": "default", "uid": "u", "resourceVersion": "1"}
        return aiohttp.web.json_response({"kind": "ConfigMap", "apiVersion": "v1", "metadata": meta})

    async with serving_api(handle) as port, AsyncExitStack() as stack:
        kubeconfig = (tmp_path / "kubeconfig").read_text().replace("127.0.0.1:1", f"127.0.0.1:{port}")
        (tmp_path / "kubeconfig").write_text(kubeconfig)
        by_get = changed(config, client=changed(config.client, change_detection="Get"))
        objects = (await connect(by_get, Journal(), stack)).objects
        watching = asyncio.ensure_future(objects.run())
        await asyncio.sleep(0)
        spec = {"containers": [{"name": "c", "image": "i", "envFrom": [{"configMapRef": {"name": "a"}}]}]}
        objects.register(changed(make_pod("p"), spec=convert(PodSpec, spec)))
        for _ in range(2):
            await objects.config_map(make_pod("p"), "a")
        assert asked == ["/api/v1/namespaces/default/configmaps/a"] * 2
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def test_an_expired_node_turns_to_whom_its_bootstrap_kubeconfig_names(tmp_path: Path) -> None:
    """One whose certificate expires while it runs, perhaps because the machine slept: nobody else would know it."""
    config = config_in(tmp_path)
    api = SigningApi()
    api.signs_at_once = True
    async with serving_api(api.handle) as port, AsyncExitStack() as stack:
        bootstrap = (tmp_path / "kubeconfig").read_text().replace("127.0.0.1:1", f"127.0.0.1:{port}")
        (tmp_path / "bootstrap").write_text(bootstrap)
        with_bootstrap = changed(
            config, client=changed(config.client, bootstrap_kubeconfig=str(tmp_path / "bootstrap"))
        )
        parts = (await connect(with_bootstrap, Journal(), stack)).parts
        former = expire(CertificateStore(tmp_path / "pki", CLIENT))
        keeping = asyncio.ensure_future(parts["client certificate"]())
        await eventually(lambda: current_serial(tmp_path) not in (0, former))
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)


def expire(store: CertificateStore) -> int:
    """-> the serial number of the certificate in force, which has expired"""
    issued = Authority().issue(
        "system:node:n1", organizations=["system:nodes"], expires=datetime.now(UTC) - timedelta(minutes=1)
    )
    return store.update(issued.certificate, issued.key).leaf.serial_number


def current_serial(folder: Path) -> int:
    pair = CertificateStore(folder / "pki", CLIENT).current()
    return pair.leaf.serial_number if pair else 0
