"""Lets one of several API servers on the same objects do the work of the controllers: the one that holds the lease."""

import asyncio
import logging
import random
import socket
import uuid
from contextlib import suppress
from typing import Any, Final

from pykubelet.api.struct import MicroTime
from pykubelet.apiserver.controllers.client import LEASES, ControllerClient
from pykubelet.apiserver.controllers.election_rules import (
    JITTER,
    RENEW_SECONDS,
    RETRY_SECONDS,
    Seen,
    held,
    is_free,
    released,
    seen,
)
from pykubelet.apiserver.objects import Object
from pykubelet.base.errors import PykubeletError
from pykubelet.base.tasks import Work, unless

log = logging.getLogger(__name__)

_NAMESPACE: Final = "kube-system"


def identity() -> str:
    """Of this server, and of no other that ever was."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


class LeaderElection:
    def __init__(self, client: ControllerClient, name: str, identity: str, work: Work) -> None:
        self._client = client
        self._name = name
        self._identity = identity
        self._work = work
        self._seen: Seen | None = None

    async def run(self) -> None:
        """Until cancelled: wait for the lease, work for as long as it is ours, wait again."""
        while True:
            await self._acquire()
            log.info("%s: this server does the work now, as %s", self._name, self._identity)
            try:
                await unless(self._keep(), self._lead())
            finally:
                await self._release()
            log.warning("%s: this server has lost the lease, and has stopped its work", self._name)

    async def _acquire(self) -> None:
        while True:
            if await self._try():
                return
            await asyncio.sleep(RETRY_SECONDS * (1 + JITTER * random.random()))

    async def _lead(self) -> None:
        await self._work()

    async def _keep(self) -> None:
        """Until the lease is somebody else's, or could not be renewed in time: counted from when it was last asked for,
        as others count from when they see it renewed, which is later."""
        loop = asyncio.get_running_loop()
        asked = loop.time()
        while True:
            await asyncio.sleep(RETRY_SECONDS)
            try:
                async with asyncio.timeout_at(asked + RETRY_SECONDS + RENEW_SECONDS):
                    asks = loop.time()
                    while not await self._try():
                        if not self._is_mine():
                            return
                        await asyncio.sleep(RETRY_SECONDS)
                        asks = loop.time()
            except TimeoutError:
                return
            asked = asks

    def _is_mine(self) -> bool:
        return self._seen is not None and self._seen.spec.get("holderIdentity") == self._identity

    async def _try(self) -> bool:
        """Take the lease or renew it; whether it is ours now, as of the moment of the write."""
        try:
            lease = await self._client.find(LEASES, _NAMESPACE, self._name)
            if lease is None:
                return await self._make()
            if not self._may_write(lease):
                return False
            changed = await self._client.change(LEASES, lease, self._written)
        except PykubeletError as error:
            log.debug("%s: the lease is out of reach: %s", self._name, error)
            return False
        if changed is not None:
            self._look(changed)
        return changed is not None and self._is_mine()

    async def _make(self) -> bool:
        spec = held({}, self._identity, self._time())
        lease = {"metadata": {"name": self._name, "namespace": _NAMESPACE}, "spec": spec}
        made = await self._client.create(LEASES, lease)
        if made:
            self._look(lease)
        return made

    def _written(self, live: Object) -> Object | None:
        """Asked again with what is there when somebody was faster."""
        if not self._may_write(live):
            return None
        return {**live, "spec": held(live.get("spec") or {}, self._identity, self._time())}

    def _may_write(self, lease: Object) -> bool:
        return is_free(self._look(lease), self._identity, asyncio.get_running_loop().time())

    def _look(self, lease: dict[str, Any]) -> Seen:
        self._seen = seen(lease, self._seen, asyncio.get_running_loop().time())
        return self._seen

    async def _release(self) -> None:
        """Others need not wait for one who knows that he has stopped."""
        with suppress(PykubeletError, TimeoutError):
            async with asyncio.timeout(RETRY_SECONDS):
                lease = await self._client.find(LEASES, _NAMESPACE, self._name)
                if lease is not None:
                    await self._client.change(LEASES, lease, self._released)

    def _released(self, live: Object) -> Object | None:
        spec = released(live.get("spec") or {}, self._identity, self._time())
        return None if spec is None else {**live, "spec": spec}

    def _time(self) -> str:
        return str(MicroTime.of(self._client.now()))
