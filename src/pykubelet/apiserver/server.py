"""The API server as one thing: put together over a store, started and stopped with the application that it is."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable

from aiohttp import web

from pykubelet.apiserver.admission.chain import AdmissionChain
from pykubelet.apiserver.admission.client import Fault
from pykubelet.apiserver.aggregation.aggregator import Aggregator
from pykubelet.apiserver.backend import Backend
from pykubelet.apiserver.bootstrap import bootstrap
from pykubelet.apiserver.controllers.client import ControllerClient
from pykubelet.apiserver.controllers.custom_resource_definitions import CustomResourceDefinitions
from pykubelet.apiserver.discovery.non_resource_paths import NonResourcePaths, version_info
from pykubelet.apiserver.http import RequestHandler
from pykubelet.apiserver.requests.access import AccessControl, AllowAll
from pykubelet.apiserver.schema.resources import ROOT
from pykubelet.apiserver.settings import ApiSettings
from pykubelet.apiserver.store.port import Store
from pykubelet.apiserver.store.watch_cache import WatchCache
from pykubelet.apiserver.telemetry.observer import Auditing, Observer
from pykubelet.apiserver.verbs.binding import bind
from pykubelet.apiserver.verbs.components import component_statuses
from pykubelet.apiserver.verbs.eviction import evict
from pykubelet.apiserver.verbs.handlers import Connect, Verb
from pykubelet.apiserver.writer.author import KUBE_APISERVER
from pykubelet.base.errors import Retry
from pykubelet.base.tasks import supervise

log = logging.getLogger(__name__)

_RECENT = 16_384
_RECENT_BYTES = 32 * 1024 * 1024
_STARTED_WITHIN = 30.0


class ApiServer:
    """`application()` is what serves. `backend` is there for those who work on the same objects from inside."""

    def __init__(
        self,
        store: Store,
        settings: ApiSettings,
        *,
        access: Callable[[Backend], AccessControl] = lambda backend: AllowAll(),
        auditing: Auditing | None = None,
        service_fault: Fault | None = None,
    ) -> None:
        """`access` makes the control of it; without one everybody may do everything, which is for tests only.
        `service_fault`: why a webhook's service may not be called where its endpoints say that it is."""
        self._cache = WatchCache(store, ROOT, recent=_RECENT, recent_bytes=_RECENT_BYTES)
        self.backend = Backend(store, self._cache, settings)
        self.backend.access = access(self.backend)
        self._admission = AdmissionChain(self.backend, service_fault)
        self.backend.admission = self._admission
        checks = {"ping": _always, "log": _always, "etcd": store.healthy, "informer-sync": self._is_ready}
        self._observer = Observer(self.backend.now, auditing)
        self._plain = NonResourcePaths(settings, self.backend.resources, checks, self._measured)
        self._handler = RequestHandler(self.backend, self._plain, self._observer)
        self._is_started = False
        self.answer("", "pods", "binding", bind)
        self.answer("", "bindings", "", bind)
        self.answer("", "pods", "eviction", evict)
        self.answer("", "componentstatuses", "", component_statuses)

    def answer(self, group: str, plural: str, subresource: str, verb: Verb) -> None:
        """Have a resource that is not stored, or a part of one, answered by a function like those in `verbs`."""
        self._handler.answers[group, plural, subresource] = verb

    def publish(self, path: str, content_type: str, content: bytes) -> None:
        """Have a document that does not change at a path of its own."""
        self._plain.documents[path] = (content_type, content)

    def connect(self, group: str, plural: str, subresource: str, handler: Connect) -> None:
        """Have requests for a part of an object handed over as they are: streams, proxies. The body is not read yet."""
        self._handler.connections[group, plural, subresource] = handler

    def aggregate(self, aggregator: Aggregator) -> None:
        """Have other API servers answer for what is theirs."""
        self._handler.aggregator = aggregator
        self._plain.others = aggregator.others

    def application(self) -> web.Application:
        """For a runner with `handler_cancellation`, so that a watch ends with its client."""
        app = web.Application(client_max_size=self.backend.settings.most_body_bytes + 1)
        app.router.add_route("*", r"/{path:[\s\S]*}", self._handler.handle)  # a path may hold line ends, too
        app.cleanup_ctx.append(self._running)
        app.on_shutdown.append(self._end_streams)
        return app

    async def _running(self, app: web.Application) -> AsyncGenerator[None, None]:
        tasks = [asyncio.create_task(supervise("the watch cache", self._cache.run))]
        definitions = CustomResourceDefinitions(ControllerClient(self.backend, KUBE_APISERVER), self._admission.client)
        try:
            try:
                async with asyncio.timeout(_STARTED_WITHIN):
                    await self._wait_for_cache()
                    await bootstrap(self.backend)
                    await definitions.load()
                    tasks.append(asyncio.create_task(supervise("custom resources", definitions.run)))
            except TimeoutError:
                raise Retry(f"the store has not answered within {_STARTED_WITHIN:.0f} s: see that it runs") from None
            self._is_started = True
            yield
        finally:
            for task in reversed(tasks):
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._admission.close()

    async def _wait_for_cache(self) -> None:
        """Until the cache holds what is in the store."""
        while True:
            try:
                await self._cache.list(ROOT, limit=1)
                return
            except Retry as error:
                log.info("%s; waiting for it", error)

    async def _end_streams(self, app: web.Application) -> None:
        self._handler.end_streams()

    async def _measured(self) -> bytes:
        """Told by who answers requests and what is stored."""
        objects: dict[str, int] = {}
        for each in self.backend.resources:
            if each.is_stored:
                name = f"{each.plural}.{each.group}" if each.group else each.plural
                objects[name] = self._cache.count(each.prefix)
        build = version_info(self.backend.settings.version)
        tallies, under_way = self._observer.tallies, self._handler.in_flight.under_way()
        families = list(tallies.families(under_way, objects, build))
        from pykubelet.web.exposition import text

        return await asyncio.to_thread(text, families)

    async def _is_ready(self) -> bool:
        return self._is_started and self._cache.is_ready


async def _always() -> bool:
    return True
