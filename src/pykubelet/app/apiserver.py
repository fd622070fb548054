"""The wiring of the embedded API server: store, access control, controllers, TLS and a kubeconfig to reach it with."""

import asyncio
import gc
import ipaddress
import logging
import resource
import signal
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Final

from aiohttp import web

from pykubelet import __version__
from pykubelet.apiserver.aggregation.aggregator import Aggregator
from pykubelet.apiserver.aggregation.registration import Registration
from pykubelet.apiserver.controllers.all import Means, check_choice, run_all
from pykubelet.apiserver.controllers.client import ControllerClient
from pykubelet.apiserver.controllers.volumes.host_path import HostPathProvisioner, boot_id
from pykubelet.apiserver.requests.users import MASTERS, authenticated
from pykubelet.apiserver.schema.resources import ROOT
from pykubelet.apiserver.security.addresses import ClusterAddresses, kubelet_endpoints
from pykubelet.apiserver.security.cluster_access import ClusterAccess
from pykubelet.apiserver.security.pki import ADMIN, Pki
from pykubelet.apiserver.security.serving import apiserver_tls, front_proxy_context, serving_hosts
from pykubelet.apiserver.server import ApiServer
from pykubelet.apiserver.settings import ApiSettings, first_service, service_range, without_admission
from pykubelet.apiserver.store.memory import MemoryStore
from pykubelet.apiserver.store.moving import move
from pykubelet.apiserver.store.port import Store
from pykubelet.apiserver.store.sqlite import SqliteStore
from pykubelet.apiserver.subresources.all import register_all
from pykubelet.apiserver.telemetry.audit_log import AuditFile, AuditLog
from pykubelet.apiserver.telemetry.audit_policy import EVERYTHING, read_policy
from pykubelet.apiserver.telemetry.observer import Auditing
from pykubelet.apiserver.writer.author import KUBE_APISERVER
from pykubelet.base.errors import Invalid, Retry
from pykubelet.base.spare_memory import give_back
from pykubelet.base.tasks import Work, supervise
from pykubelet.config.apiserver import EVERYWHERE, ApiServerConfig, prepare_pki, url
from pykubelet.web.serving import Limits, serving
from pykubelet.web.tls import ServingTls

log = logging.getLogger(__name__)

_COLLECTED_AFTER: Final = (20_000, 20, 20)
_MOST_CONNECTIONS: Final = 8192
_FEWEST_CONNECTIONS: Final = 64
_OTHER_FILES: Final = 256
_LONGEST_LINE: Final = 256 << 10
"""Selectors are part of the first line of a request."""
_TLS_BUFFER: Final = 8 << 10
"""Of a thousand watchers hardly one ever says anything."""


async def run_apiserver(config: ApiServerConfig) -> None:
    """Until SIGTERM or SIGINT. Raises Invalid when it cannot start as configured."""
    check_choice(config.controllers)
    told = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, told.set)
    async with AsyncExitStack() as stack:
        pki = await asyncio.to_thread(prepare_pki, config)
        store = await _open_store(config)
        stack.push_async_callback(store.close)
        if config.import_from is not None:
            await _import_objects(config.import_from, store)
        services = service_range(config.service_range)
        settings = ApiSettings(
            advertise_address=_advertised(config),
            advertise_port=config.port,
            service_range=services,
            without_admission=without_admission(config.without_admission),
            dns_address=config.cluster_dns,
        )
        static = {pki.admin_token(): authenticated(ADMIN, (MASTERS,))}

        def hosts() -> list[str]:
            return serving_hosts((*config.names, config.address, first_service(services)))

        addresses = ClusterAddresses(
            hosts, config.port, settings.service_range, kubelet_endpoints(config.kubelet_endpoints)
        )
        tls = apiserver_tls(pki, hosts)
        auditing = await asyncio.to_thread(_auditing, config)
        server = ApiServer(
            store,
            settings,
            access=lambda backend: ClusterAccess(
                backend, pki.service_account_key(), static_tokens=static, certificate=tls.client_certificate
            ),
            auditing=auditing,
            service_fault=addresses.fault_at,
        )
        means = _registered(server, pki, addresses, config)
        aggregation = _aggregated(server, pki, addresses)
        await _serve(server.application(), config, tls, stack)
        _settle()
        async with asyncio.TaskGroup() as tasks:
            running = [
                tasks.create_task(supervise("serving certificate", tls.run)),
                tasks.create_task(supervise("spare memory", give_back)),
                tasks.create_task(_run_controllers(means, config)),
                *(tasks.create_task(supervise(name, work)) for name, work in aggregation.items()),
            ]
            if auditing is not None:
                running.append(tasks.create_task(auditing.log.run()))
            log.info("pykubelet %s serves the API at %s, with a store of %s", __version__, url(config), config.store)
            log.info("the administrator's kubeconfig is %s", config.kubeconfig)
            await told.wait()
            log.info("stopping")
            for task in running:
                task.cancel()


def _settle() -> None:
    """All is loaded: what is here now stays, and requests leave hardly anything that only a collection would find."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECTED_AFTER)
    gc.enable()


def _registered(server: ApiServer, pki: Pki, addresses: ClusterAddresses, config: ApiServerConfig) -> Means:
    """Have everything answered. -> what the controllers are made of"""
    backend, access = server.backend, server.backend.access
    assert isinstance(access, ClusterAccess)
    found_at = f"{backend.settings.advertise_address}:{config.port}"
    metrics = register_all(
        server, access, pki, addresses, found_at=found_at, insecure_kubelets=config.insecure_kubelets
    )
    measure = partial(metrics.of_pods, backend)
    client = ControllerClient(backend)
    folder = config.host_path_volumes
    provisioner = HostPathProvisioner(client, folder, boot_id()) if folder else None
    front_proxy = pki.front_proxy_authority().pem.decode()
    return Means(client, pki.authority, addresses, access.tokens, measure, front_proxy, provisioner)


def _aggregated(server: ApiServer, pki: Pki, addresses: ClusterAddresses) -> dict[str, Work]:
    """Have other API servers answer for what is theirs. -> what has to run for that"""
    client = ControllerClient(server.backend, KUBE_APISERVER)
    aggregator = Aggregator(client, partial(front_proxy_context, pki), addresses.fault_at)
    server.aggregate(aggregator)
    return {"API services": Registration(client).run, "other API servers": aggregator.run}


async def _run_controllers(means: Means, config: ApiServerConfig) -> None:
    """Only an etcd can be another server's, too: whoever has a store alone works at once, and asks nobody."""
    await run_all(means, wanted=config.controllers, elects=config.store == "etcd")


def _auditing(config: ApiServerConfig) -> Auditing | None:
    """Raises Invalid. Blocks."""
    if not config.audit_log:
        if config.audit_policy:
            raise Invalid("--audit-policy-file needs --audit-log-path, or nothing would be written")
        return None
    policy = read_policy(config.audit_policy) if config.audit_policy else EVERYTHING
    file = AuditFile(
        path=config.audit_log,
        most_days=config.audit_most_days,
        most_files=config.audit_most_files,
        most_megabytes=config.audit_most_megabytes,
        compress=config.audit_compress,
    )
    log_file = AuditLog(file)
    log_file.open()
    return Auditing(policy, log_file)


def _advertised(config: ApiServerConfig) -> str:
    """Where pods find it, whatever node they are on."""
    if config.address not in EVERYWHERE:
        return config.address
    known = (*config.names, *serving_hosts())
    return next(filter(_is_reachable, known), "127.0.0.1")


def _is_reachable(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return not (address.is_loopback or address.is_unspecified)


async def _open_store(config: ApiServerConfig) -> Store:
    match config.store:
        case "memory":
            return MemoryStore()
        case "sqlite":
            return await SqliteStore.open(config.data / "state.db")
        case "etcd":
            if not config.etcd_servers:
                raise Invalid("--store=etcd needs --etcd-servers, such as https://127.0.0.1:2379")
            # Only now: what it needs takes 10 MB, and few have an etcd.
            from pykubelet.apiserver.store.etcd import EtcdStore
            from pykubelet.apiserver.store.etcd_channel import EtcdTls

            files = (config.etcd_ca, config.etcd_certificate, config.etcd_key)
            tls = EtcdTls.read(*(Path(file) if file else None for file in files)) if any(files) else None
            while True:
                try:
                    return await EtcdStore.open(config.etcd_servers, tls)
                except Retry as error:
                    log.warning("waiting for etcd: %s", error)
                    await asyncio.sleep(error.after or 1.0)
    raise Invalid(f"--store: must be sqlite, memory or etcd, not {config.store!r}")


async def _import_objects(path: Path, store: Store) -> None:
    if not await asyncio.to_thread(path.exists):
        raise Invalid(f"--import-from: there is no {path}")
    source = await SqliteStore.open(path)
    try:
        count = await move(source, store, ROOT)
    finally:
        await source.close()
    log.info("%d objects of %s are in the store now", count, path)


async def _serve(app: web.Application, config: ApiServerConfig, tls: ServingTls, stack: AsyncExitStack) -> None:
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = max(_FEWEST_CONNECTIONS, min(_MOST_CONNECTIONS, files - _OTHER_FILES))
    limits = Limits(connections=most, longest_line=_LONGEST_LINE, tls_buffer=_TLS_BUFFER)
    try:
        await stack.enter_async_context(serving(app, config.address, config.port, tls=tls.context(), limits=limits))
    except Invalid as error:
        raise Invalid(f"{error}; choose another with --port") from None
