"""The node's lease: a small object, written every few seconds, by which a cluster knows that the node is alive."""

import asyncio
import logging
import random
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from pykubelet.api.meta import ObjectMeta, OwnerReference
from pykubelet.api.node import Node
from pykubelet.api.objects import Lease, LeaseSpec
from pykubelet.api.struct import MicroTime, changed
from pykubelet.base.backoff import Backoff
from pykubelet.base.errors import Conflict, NotFound, PykubeletError, Retry
from pykubelet.kube.client import ApiClient, object_path, slim

log = logging.getLogger(__name__)

NAMESPACE: Final = "kube-node-lease"
DURATION: Final = 40
"""Seconds after which a lease that is not renewed means that the node is gone."""
_RENEWALS: Final = 4
"""How often it is renewed in that time."""
_JITTER: Final = 0.04
_TRIES: Final = 5
_SOONEST: Final = 0.2
_LATEST: Final = 7.0
_GROUP: Final = "coordination.k8s.io/v1"


class LeaseKeeper:
    """Creates the lease of a node and renews it. The lease belongs to the node: it goes when that is deleted.

    Renewals should not wait behind other requests: give it a client of its own, with a short timeout and no limit of
    its rate.
    """

    def __init__(
        self,
        server: ApiClient,
        node_name: str,
        *,
        duration: int = DURATION,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._server = server
        self._node_name = node_name
        self._duration = duration
        self._now = now
        self._lease: Lease | None = None
        """The newest that we wrote. Nobody else writes it, so that most renewals need no reading."""

    async def run(self) -> None:
        """Until cancelled. May be called again after that."""
        while True:
            await self._keep()
            await asyncio.sleep(self._duration / _RENEWALS * random.uniform(1.0, 1.0 + _JITTER))

    async def _keep(self) -> None:
        if self._lease is not None and await self._renew(self._lease):
            return
        self._lease, is_new = await self._ensure()
        if not is_new and not await self._renew(self._lease):
            log.warning("the lease of node %s could not be renewed; the next try is in a while", self._node_name)

    async def _renew(self, lease: Lease) -> bool:
        """Write the lease with the present time, in a few quick tries. False when none of them worked."""
        for _ in range(_TRIES):
            try:
                fresh = self._fresh(await self._with_owner(lease))
                self._lease = slim(await self._server.update(self._path(self._node_name), fresh, Lease))
            except NotFound:
                self._lease = None
                return False
            except Conflict:
                lease, is_new = await self._ensure()
                if is_new:
                    self._lease = lease
                    return True
            except PykubeletError as error:
                log.info("the lease of node %s is not renewed: %s", self._node_name, error)
            else:
                return True
        return False

    async def _ensure(self) -> tuple[Lease, bool]:
        """The lease as it is on the server, and whether it was made just now. Tries until it works."""
        backoff = Backoff(_SOONEST, _LATEST, now=asyncio.get_running_loop().time)
        complaint = ""
        while True:
            try:
                try:
                    return slim(await self._server.get(self._path(self._node_name), Lease)), False
                except NotFound:
                    return slim(await self._server.create(self._path(), await self._new(), Lease)), True
            except PykubeletError as error:
                level = logging.DEBUG if str(error) == complaint else logging.WARNING
                complaint = str(error)
                log.log(level, "node %s has no lease yet: %s", self._node_name, error)
                after = error.after if isinstance(error, Retry) else None
                await asyncio.sleep(max(backoff.next(), after or 0.0))

    # --- what is written

    async def _new(self) -> Lease:
        """Only for a node that is there: without an owner the lease would stay for ever."""
        return self._fresh(
            Lease(
                kind="Lease",
                api_version=_GROUP,
                metadata=ObjectMeta(name=self._node_name, namespace=NAMESPACE, owner_references=(await self._owner(),)),
                spec=LeaseSpec(holder_identity=self._node_name),
            )
        )

    def _fresh(self, lease: Lease) -> Lease:
        spec = changed(lease.spec, lease_duration_seconds=self._duration, renew_time=MicroTime.of(self._now()))
        return changed(lease, spec=spec)

    async def _with_owner(self, lease: Lease) -> Lease:
        if lease.metadata.owner_references:
            return lease
        try:
            owner = await self._owner()
        except PykubeletError as error:
            log.info("the lease of node %s has no owner yet: %s", self._node_name, error)
            return lease  # to be alive matters more than to be tidy
        return changed(lease, metadata=changed(lease.metadata, owner_references=(owner,)))

    async def _owner(self) -> OwnerReference:
        node = await self._server.get(object_path("nodes", name=self._node_name), Node)
        return OwnerReference(api_version="v1", kind="Node", name=self._node_name, uid=node.metadata.uid)

    def _path(self, name: str = "") -> str:
        return object_path("leases", namespace=NAMESPACE, name=name, group=_GROUP)


class KubeLeases:
    """Who has shown to be alive. Renewing a lease is another's work."""

    def __init__(self, server: ApiClient) -> None:
        self._server = server

    async def renewal_time(self, node_name: str) -> datetime | None:
        """When the lease of a node was last renewed; None when there is none, or it was never renewed."""
        path = object_path("leases", namespace=NAMESPACE, name=node_name, group=_GROUP)
        with suppress(NotFound):
            return (await self._server.get(path, Lease)).spec.renew_time
        return None
