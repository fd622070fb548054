"""The claims of pods on this node, from the first pod that uses one until the last has ended.

What is about to be prepared is written down before its driver is asked, and what has come of it afterwards: whatever
happens to the agent in between, the next one gives back what nobody uses. A claim is in one pair of hands at a time, so
that none is given back while another pod begins to use it.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final
from weakref import WeakValueDictionary

from pykubelet.api.container import Container
from pykubelet.api.pod import Pod
from pykubelet.api.resource_claims import DeviceClaim
from pykubelet.base.backoff import Backoff
from pykubelet.base.errors import Invalid, PykubeletError
from pykubelet.base.timed import timed
from pykubelet.base.whole_files import put_aside, write_whole
from pykubelet.plugins.cdi import expanded
from pykubelet.plugins.dra import DraDrivers
from pykubelet.pod.claims.checkpoint import read, written
from pykubelet.pod.claims.failures import ClaimFailed
from pykubelet.pod.claims.moments import ClaimsHandled
from pykubelet.pod.claims.table import ClaimKey, ClaimTable, PreparedDevice
from pykubelet.pod.claims.wanted import PodClaim, check_claim, container_claims, pod_claims
from pykubelet.pod.moments import Journal, about
from pykubelet.pod.ports.claims import ClaimApi
from pykubelet.pod.ports.devices import ContainerDevices

log = logging.getLogger(__name__)

CHECKPOINT: Final = "dra_manager_state"
_RETRY: Final = (1.0, 60.0)


class NodeClaims:
    """The Claims port. `root` is where is remembered who uses what; `extended`: whether claims may stand for extended
    resources."""

    def __init__(
        self,
        root: Path,
        drivers: DraDrivers,
        api: ClaimApi,
        journal: Journal,
        *,
        runtime_knows_cdi: Callable[[], bool] = lambda: False,
        extended: bool = False,
    ) -> None:
        self.table = ClaimTable()
        self._path = root / CHECKPOINT
        self._drivers = drivers
        self._api = api
        self._journal = journal
        self._runtime_knows_cdi = runtime_knows_cdi
        self._extended = extended
        self._turns: WeakValueDictionary[ClaimKey, asyncio.Lock] = WeakValueDictionary()
        self._saving = asyncio.Lock()
        self._is_saved = True
        self._left: frozenset[str] = frozenset()
        """Uids of pods that are gone and have not given back theirs."""
        self._is_left = asyncio.Event()

    def load(self) -> None:
        """What an earlier agent has left behind. What cannot be read is told of, and put aside."""
        try:
            self.table = ClaimTable(read(self._path.read_bytes()))
        except FileNotFoundError:
            pass
        except (OSError, Invalid) as error:
            put_aside(self._path, error, "which claims are in use is not known")

    # --- a pod begins

    def lacks(self, pod: Pod) -> bool:
        if not _has_claims(pod):
            return False
        try:
            used = list(pod_claims(pod, extended=self._extended))
        except ClaimFailed:
            return True
        return any(not self.table.has(_key(pod, each), pod.metadata.uid) for each in used)

    async def prepare(self, pod: Pod) -> None:
        if not _has_claims(pod):
            return
        with timed(self._journal, partial(ClaimsHandled, "PrepareResources"), about(pod)):
            await self._prepare(pod)

    async def _prepare(self, pod: Pod) -> None:
        used = {_key(pod, each): each for each in pod_claims(pod, extended=self._extended)}
        async with self._hands_on(used):
            claims = [await self._checked(pod, each) for each in used.values()]
            for claim in claims:
                for driver in _drivers(claim):
                    self._drivers.instance(driver)  # a pod that cannot begin leaves no trace: it can go as it came
            held = [self.table.hold(each, pod.metadata.uid) for each in claims]
            await self._save()
            fresh = [claim for claim, one in zip(claims, held, strict=True) if not one.is_prepared]
            if not fresh:
                return
            found = await self._ask_drivers(fresh)
            for claim in fresh:
                self.table.prepared(_key_of(claim), found[claim.metadata.uid])
            await self._save()

    async def _checked(self, pod: Pod, used: PodClaim) -> DeviceClaim:
        try:
            claim = await self._api.claim(pod.metadata.namespace, used.name)
        except PykubeletError as error:
            raise ClaimFailed(f"fetch ResourceClaim {used.name}: {error}", claim=used.name) from error
        check_claim(pod, used, claim)
        return claim

    async def _ask_drivers(self, claims: Sequence[DeviceClaim]) -> dict[str, dict[str, tuple[PreparedDevice, ...]]]:
        """-> by uid of the claim and by driver."""
        found: dict[str, dict[str, tuple[PreparedDevice, ...]]] = {each.metadata.uid: {} for each in claims}
        for driver in sorted({driver for each in claims for driver in _drivers(each)}):
            mine = [each for each in claims if driver in _drivers(each)]
            for uid, devices in (await self._drivers.instance(driver).prepare(mine)).items():
                found[uid][driver] = devices
        return found

    async def given(self, pod: Pod, container: Container) -> ContainerDevices:
        uses = list(container_claims(pod, container, extended=self._extended))
        if not uses:
            return ContainerDevices()
        if self.lacks(pod):  # what was remembered is lost
            await self.prepare(pod)
        devices = (each for use in uses for _, each in self.table.devices(pod.metadata.namespace, use))
        ids = dict.fromkeys(id_ for each in devices for id_ in each.cdi_ids)
        found = ContainerDevices(cdi_devices=tuple(ids))
        if not ids or self._runtime_knows_cdi():
            return found
        return await asyncio.to_thread(expanded, found)

    def shown(self, pod: Pod, container: Container) -> list[tuple[ClaimKey, list[tuple[str, PreparedDevice]]]]:
        """What a container has: of which claim, from which driver."""
        try:
            return [
                (ClaimKey(pod.metadata.namespace, use.name), list(self.table.devices(pod.metadata.namespace, use)))
                for use in container_claims(pod, container, extended=self._extended)
            ]
        except ClaimFailed:
            return []

    # --- a pod has ended

    async def unprepare(self, uid: str) -> None:
        if not (mine := self.table.of(uid)) and self._is_saved:
            return
        with timed(self._journal, partial(ClaimsHandled, "UnprepareResources")):
            async with self._hands_on(each.key for each in mine):
                last = [each for each in self.table.of(uid) if each.pods == {uid}]
                for driver in sorted({driver for each in last for driver in each.drivers}):
                    mine_there = [each for each in last if driver in each.drivers]
                    await self._drivers.instance(driver).unprepare(mine_there)
                for each in mine:
                    self.table.release(each.key, uid)
                await self._save()

    def retain(self, uids: Collection[str]) -> None:
        self._left = frozenset(uid for each in self.table.held.values() for uid in each.pods).difference(uids)
        if self._left:
            self._is_left.set()

    async def run(self) -> None:
        """Give back what pods have left behind that ended while nobody looked."""
        backoff = Backoff(*_RETRY, now=asyncio.get_running_loop().time)
        while True:
            await self._is_left.wait()
            self._is_left.clear()
            failures = [each for uid in sorted(self._left) if (each := await self._given_back(uid))]
            if not failures:
                backoff.reset()
                continue
            pause = backoff.next()
            log.warning("claims of pods that are gone: %s; trying again in %.0f s", "; ".join(failures), pause)
            await asyncio.sleep(pause)

    async def _given_back(self, uid: str) -> str:
        """-> what went wrong."""
        try:
            await self.unprepare(uid)
        except PykubeletError as error:
            return f"{uid}: {error}"
        return ""

    # --- inside

    @asynccontextmanager
    async def _hands_on(self, keys: Iterable[ClaimKey]) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for key in sorted(keys):  # in one order, so that no two wait for each other
                await stack.enter_async_context(self._turns.setdefault(key, asyncio.Lock()))
            yield

    async def _save(self) -> None:
        """Raises ClaimFailed. Who is cancelled leaves it to be written all the same."""
        self._is_saved = False
        writing = asyncio.ensure_future(self._write())
        if fault := await asyncio.shield(writing):
            raise ClaimFailed(f"checkpoint ResourceClaim state: {self._path}: {fault}")

    async def _write(self) -> str:
        """-> what went wrong."""
        async with self._saving:
            try:
                await asyncio.to_thread(write_whole, self._path, written(self.table.held.values()))
            except OSError as error:
                return error.strerror or str(error)
        self._is_saved = True
        return ""


def _has_claims(pod: Pod) -> bool:
    return bool(pod.spec.resource_claims) or pod.status.extended_resource_claim_status is not None


def _key(pod: Pod, used: PodClaim) -> ClaimKey:
    return ClaimKey(pod.metadata.namespace, used.name)


def _key_of(claim: DeviceClaim) -> ClaimKey:
    return ClaimKey(claim.metadata.namespace, claim.metadata.name)


def _drivers(claim: DeviceClaim) -> frozenset[str]:
    allocation = claim.status.allocation
    return frozenset(each.driver for each in allocation.devices.results) if allocation is not None else frozenset()
