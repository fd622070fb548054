"""The wiring of the embedded API server: store, doorkeeper, controllers, TLS and the kubeconfig of whoever runs it."""

import asyncio
import logging
import signal
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path

from aiohttp import web
from msgspec import Struct

from pykubelet import __version__
from pykubelet.apiserver.backend import ApiSettings
from pykubelet.apiserver.controllers.all import run_all
from pykubelet.apiserver.security.gate import Gate
from pykubelet.apiserver.security.kubeconfig import kubeconfig, write_kubeconfig
from pykubelet.apiserver.security.pki import ADMIN, Pki
from pykubelet.apiserver.security.serving import ServingTls, serving_hosts
from pykubelet.apiserver.security.users import MASTERS, authenticated
from pykubelet.apiserver.server import ApiServer
from pykubelet.apiserver.store.etcd import EtcdStore
from pykubelet.apiserver.store.etcd_channel import EtcdTls
from pykubelet.apiserver.store.memory import MemoryStore
from pykubelet.apiserver.store.port import Store
from pykubelet.apiserver.store.sqlite import SqliteStore
from pykubelet.apiserver.subresources.table import enter
from pykubelet.base.errors import Invalid, Retry
from pykubelet.base.tasks import supervise

log = logging.getLogger(__name__)


class ApiServerConfig(Struct, frozen=True, kw_only=True):
    data: Path
    kubeconfig: Path
    """Where the administrator's is written."""
    address: str = "127.0.0.1"
    port: int = 6443
    names: tuple[str, ...] = ()
    """Further names and addresses that clients call the server by."""
    store: str = "sqlite"
    """sqlite, memory or etcd."""
    etcd_servers: tuple[str, ...] = ()
    etcd_ca: str = ""
    etcd_certificate: str = ""
    etcd_key: str = ""
    scheduler: bool = True
    insecure_kubelets: bool = False
    """Whether kubelets are believed whose serving certificate is not ours."""

    @property
    def pki(self) -> Path:
        return self.data / "pki"


async def run_apiserver(config: ApiServerConfig) -> None:
    """Until SIGTERM or SIGINT. Raises Invalid when it cannot start as configured."""
    told = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, told.set)
    async with AsyncExitStack() as stack:
        pki = await asyncio.to_thread(prepared, config)
        store = await _opened(config)
        stack.push_async_callback(store.close)
        settings = ApiSettings(advertise_address=_advertised(config), advertise_port=config.port)
        static = {pki.admin_token(): authenticated(ADMIN, (MASTERS,))}
        server = ApiServer(
            store,
            settings,
            gate=lambda backend: Gate(backend, pki.service_account_key(), static_tokens=static),
        )
        gate = server.backend.gate
        assert isinstance(gate, Gate)
        enter(server, gate, pki, insecure_kubelets=config.insecure_kubelets)
        tls = ServingTls(pki, lambda: serving_hosts((*config.names, config.address)))
        await _serve(server.application(), config, tls, stack)
        async with asyncio.TaskGroup() as tasks:
            running = [
                tasks.create_task(supervise("serving certificate", tls.run)),
                tasks.create_task(run_all(server.backend, pki.authority, scheduler=config.scheduler)),
            ]
            log.info("pykubelet %s serves the API at %s, with a store of %s", __version__, url(config), config.store)
            log.info("the administrator's kubeconfig is %s", config.kubeconfig)
            await told.wait()
            log.info("stopping")
            for task in running:
                task.cancel()


def prepared(config: ApiServerConfig) -> Pki:
    """Keys, certificates and the administrator's kubeconfig, made when they are missing. Blocks."""
    try:
        config.data.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise Invalid(f"{config.data}: cannot be made: {error.strerror}; choose another with --data-dir") from None
    pki = Pki.open(config.pki, lambda: datetime.now(UTC))
    certificate, key = (path.read_bytes() for path in pki.admin())
    write_kubeconfig(config.kubeconfig, kubeconfig(url(config), pki.authority.pem, certificate, key))
    return pki


def url(config: ApiServerConfig) -> str:
    """Where people of this machine find it."""
    address = "127.0.0.1" if config.address in ("0.0.0.0", "::", "127.0.0.1") else config.address  # noqa: S104
    return f"https://{f'[{address}]' if ':' in address else address}:{config.port}"


def _advertised(config: ApiServerConfig) -> str:
    return "127.0.0.1" if config.address in ("0.0.0.0", "::") else config.address  # noqa: S104


async def _opened(config: ApiServerConfig) -> Store:
    match config.store:
        case "memory":
            return MemoryStore()
        case "sqlite":
            return await SqliteStore.open(config.data / "state.db")
        case "etcd":
            if not config.etcd_servers:
                raise Invalid("--store=etcd needs --etcd-servers, such as https://127.0.0.1:2379")
            files = (config.etcd_ca, config.etcd_certificate, config.etcd_key)
            tls = EtcdTls.read(*(Path(file) if file else None for file in files)) if any(files) else None
            while True:
                try:
                    return await EtcdStore.open(config.etcd_servers, tls)
                except Retry as error:
                    log.warning("waiting for etcd: %s", error)
                    await asyncio.sleep(error.after or 1.0)
    raise Invalid(f"--store: must be sqlite, memory or etcd, not {config.store!r}")


async def _serve(app: web.Application, config: ApiServerConfig, tls: ServingTls, stack: AsyncExitStack) -> None:
    runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=2.0)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    try:
        await web.TCPSite(runner, config.address, config.port, ssl_context=tls.context()).start()
    except OSError as error:
        where = f"{config.address} port {config.port}"
        raise Invalid(f"cannot serve on {where}: {error.strerror or error}; choose another with --port") from None
