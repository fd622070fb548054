"""Claims are prepared for the first pod and given back after the last, whatever drivers, disks and agents do."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kit.dra_driver import DRIVER, Driver, answered, claim, device
from kit.waiting import eventually
from pykubelet.api import codec
from pykubelet.api.pod import Pod
from pykubelet.api.resource_claims import DeviceClaim
from pykubelet.base.errors import Invalid, NotFound
from pykubelet.plugins import claims as room
from pykubelet.plugins import dra_driver
from pykubelet.plugins._gen import dra_pb2 as wire
from pykubelet.plugins.claims import CHECKPOINT, NodeClaims
from pykubelet.plugins.dra import DraDrivers
from pykubelet.pod.claims.checkpoint import read
from pykubelet.pod.claims.failures import ClaimFailed
from pykubelet.pod.claims.moments import ClaimsHandled
from pykubelet.pod.moments import Journal

OTHER = "net.example.com"


class Api:
    def __init__(self, *claims: DeviceClaim) -> None:
        self.claims = {each.metadata.name: each for each in claims}

    async def claim(self, namespace: str, name: str) -> DeviceClaim:
        if name not in self.claims:
            raise NotFound(f'resourceclaims.resource.k8s.io "{name}" not found')
        return self.claims[name]

    async def remove_slices(self, driver: str = "") -> None: ...


def pod(uid: str, *claims: str, request: str = "") -> Pod:
    uses = [{"name": each, "request": request} for each in claims]
    spec = {
        "containers": [{"name": "c", "resources": {"claims": uses}}, {"name": "d"}],
        "resourceClaims": [{"name": each, "resourceClaimName": each} for each in claims],
    }
    return codec.convert(Pod, {"metadata": {"name": uid, "namespace": "default", "uid": uid}, "spec": spec})


class Node:
    """The agent's part, in a folder, with drivers that are reached at once."""

    def __init__(self, root: Path, api: Api) -> None:
        self.journal, self.handled = Journal(), list[tuple[str, bool]]()
        self.journal.read_by(self._read)
        self.api = api
        self.root = root
        self.drivers = DraDrivers(api, self.journal)
        self.claims = NodeClaims(root, self.drivers, api, self.journal, runtime_knows_cdi=lambda: True)
        self.claims.load()

    def _read(self, noted: Any) -> None:
        if isinstance(noted.moment, ClaimsHandled):
            self.handled.append((noted.moment.operation, not noted.moment.error))

    def saved(self) -> dict[str, set[str]]:
        """By claim: the pods that use it, as the next agent would hear."""
        return {each.name: set(each.pods) for each in read((self.root / CHECKPOINT).read_bytes())}

    async def ids(self, of: Pod, container: int = 0) -> tuple[str, ...]:
        return (await self.claims.given(of, of.spec.containers[container])).cdi_devices


@asynccontextmanager
async def node(root: Path, api: Api, *drivers: Driver) -> AsyncIterator[Node]:
    made = Node(root, api)
    for each in drivers:
        endpoint = root / f"{each.name}.sock"
        await made.drivers.register(each.name, str(endpoint), each.versions)
    try:
        yield made
    finally:
        for each in drivers:
            await made.drivers.deregister(each.name, str(root / f"{each.name}.sock"))


async def test_a_claim_is_prepared_once_and_given_back_after_the_last_pod(tmp_path: Path) -> None:
    driver, api = Driver(), Api(claim("one", "a", "b"), claim("two", "a"))
    async with driver.at(tmp_path / f"{DRIVER}.sock"), node(tmp_path, api, driver) as here:
        a, b = pod("a", "one", "two"), pod("b", "one", request="gpu")
        assert here.claims.lacks(a)
        await here.claims.prepare(a)
        await here.claims.prepare(a)
        await here.claims.prepare(b)
        assert not here.claims.lacks(a)
        assert driver.asked == ["prepare one two"]  # all of a driver in one call
        assert await here.ids(a) == ("example.com/gpu=one", "example.com/gpu=two")
        assert await here.ids(b) == ("example.com/gpu=one",)
        assert await here.ids(a, 1) == ()
        assert here.saved() == {"one": {"a", "b"}, "two": {"a"}}
        await here.claims.unprepare("a")
        assert here.saved() == {"one": {"b"}}
        await here.claims.unprepare("b")
        await here.claims.unprepare("b")
        assert here.saved() == {}
        assert driver.asked[1:] == ["unprepare two", "unprepare one"]
        assert here.handled == [("PrepareResources", True)] * 3 + [("UnprepareResources", True)] * 2
        assert here.claims.shown(a, a.spec.containers[0]) == []


async def test_a_claim_of_two_drivers_needs_both(tmp_path: Path) -> None:
    one, both = Driver(), claim("both", "a")
    results = both.status.allocation.devices.results if both.status.allocation else ()
    api = Api(_with_results(both, (*results, *_results(claim("x", driver=OTHER)))))
    other = Driver(OTHER)
    async with one.at(tmp_path / f"{DRIVER}.sock"), node(tmp_path, api, one) as here:
        with pytest.raises(ClaimFailed, match=f"DRA driver {OTHER} is not registered") as failed:
            await here.claims.prepare(pod("a", "both"))
        assert (failed.value.driver, one.asked) == (OTHER, [])
        assert here.claims.table.held == {}  # a pod that could not begin can go without asking anybody
        async with other.at(tmp_path / f"{OTHER}.sock"):
            await here.drivers.register(OTHER, str(tmp_path / f"{OTHER}.sock"), other.versions)
            other.failure = "no link"
            with pytest.raises(ClaimFailed, match="no link"):
                await here.claims.prepare(pod("a", "both"))
            assert here.saved() == {"both": {"a"}}
            other.failure = ""
            await here.claims.prepare(pod("a", "both"))
            assert one.asked == ["prepare both"] * 2
            assert await here.ids(pod("a", "both")) == (
                "example.com/gpu=both",
            )  # each says the same, and once is enough
            await here.drivers.deregister(OTHER, str(tmp_path / f"{OTHER}.sock"))
        with pytest.raises(ClaimFailed, match=f"DRA driver {OTHER} is not registered"):
            await here.claims.unprepare("a")
        assert here.saved() == {"both": {"a"}}


def _results(of: DeviceClaim) -> tuple[Any, ...]:
    return of.status.allocation.devices.results if of.status.allocation else ()


def _with_results(of: DeviceClaim, results: tuple[Any, ...]) -> DeviceClaim:
    made = json.loads(codec.encode(of))
    made["status"]["allocation"]["devices"]["results"] = [json.loads(codec.encode(each)) for each in results]
    return codec.convert(DeviceClaim, made)


def error(uid: str, text: str) -> Callable[[list[wire.Claim]], wire.NodePrepareResourcesResponse]:
    return lambda claims: wire.NodePrepareResourcesResponse(claims={uid: wire.NodePrepareResourceResponse(error=text)})


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (error("uid-one", "broken"), "NodePrepareResources failed for ResourceClaim one: broken"),
        (answered(), "NodePrepareResources skipped 1 ResourceClaims"),
        (answered(other=[device()]), "NodePrepareResources returned result for unknown claim UID other"),
        (answered(uid_one=[device("gpu-9")]), "with device pool/gpu-9, which was not allocated"),
        (answered(uid_one=[device("gpu-0", "/dev/sda")]), "'/dev/sda' is no name of a device"),
        (answered(uid_one=[device("gpu-0", *(f"a.b/c={n}" for n in range(2000)))]), "more than 1024 CDI devices"),
        (answered(uid_one=[device("gpu-0")] * 2000), "more than 1024 devices, or requests of one"),
        (error("uid-one", "broken" * 1000), "NodePrepareResources failed for ResourceClaim one: broken"),
        (answered(uid_one=[device("x" * (5 << 20))]), "larger than max"),
    ],
)
async def test_a_driver_that_answers_nonsense_is_not_believed(tmp_path: Path, answer: Any, told: str) -> None:
    driver, api = Driver(), Api(claim("one", "a"))
    driver.answer = answer
    async with driver.at(tmp_path / f"{DRIVER}.sock"), node(tmp_path, api, driver) as here:
        with pytest.raises(ClaimFailed) as failed:
            await here.claims.prepare(pod("a", "one"))
        assert told in str(failed.value)
        assert len(str(failed.value)) < 2_000
        assert failed.value.driver == DRIVER
        await here.claims.unprepare("a")  # it may have been prepared all the same
        assert driver.asked[-1] == "unprepare one"
        assert here.claims.table.held == {}


async def test_a_driver_that_hangs_or_is_dead_holds_up_its_own_pods_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dra_driver, "DEADLINE", 1.0)
    hanging, other, dead = Driver(), Driver(OTHER), Driver("dead.example.com")
    hanging.hangs = True
    api = Api(claim("one", "a"), claim("two", "b", driver=OTHER), claim("three", "c", driver=dead.name))
    async with (
        hanging.at(tmp_path / f"{DRIVER}.sock"),
        other.at(tmp_path / f"{OTHER}.sock"),
        node(tmp_path, api, hanging, other, dead) as here,
    ):
        waiting = asyncio.create_task(here.claims.prepare(pod("a", "one")))
        await here.claims.prepare(pod("b", "two"))
        assert not waiting.done()
        with pytest.raises(ClaimFailed, match=r"NodePrepareResources: .*code = DeadlineExceeded"):
            await waiting
        with pytest.raises(ClaimFailed, match=f"DRA driver {dead.name}: rpc error: code = Unavailable"):
            await here.claims.prepare(pod("c", "three"))
        hanging.hangs = False
        hanging.unanswered = True
        with pytest.raises(ClaimFailed, match="NodeUnprepareResources skipped 1 ResourceClaims"):
            await here.claims.unprepare("a")
        hanging.unanswered = False
        await here.claims.unprepare("a")
        assert here.saved().keys() == {"two", "three"}


@pytest.mark.parametrize(
    ("claims", "told"),
    [
        ((), 'fetch ResourceClaim one: resourceclaims.resource.k8s.io "one" not found'),
        ((claim("one", "b"),), "pod a (a) is not allowed to use ResourceClaim one (uid-one)"),
    ],
)
async def test_a_claim_that_may_not_be_used_is_not_prepared(
    tmp_path: Path, claims: tuple[DeviceClaim, ...], told: str
) -> None:
    here = Node(tmp_path, Api(*claims))
    with pytest.raises(ClaimFailed) as failed:
        await here.claims.prepare(pod("a", "one"))
    assert (str(failed.value), failed.value.claim) == (told, "one")
    await here.claims.unprepare("a")
    assert not (tmp_path / CHECKPOINT).exists()
    assert here.handled == [("PrepareResources", False)]


async def test_the_end_of_a_pod_that_never_began_leaves_others_their_claim(tmp_path: Path) -> None:
    driver, api = Driver(), Api(claim("one", "a"))
    async with driver.at(tmp_path / f"{DRIVER}.sock"), node(tmp_path, api, driver) as here:
        await here.claims.prepare(pod("a", "one"))
        with pytest.raises(ClaimFailed, match="not allowed"):
            await here.claims.prepare(pod("b", "one"))
        await here.claims.unprepare("b")
        assert driver.asked == ["prepare one"]


async def test_the_next_agent_knows_what_is_in_use_and_gives_back_what_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver, api = Driver(), Api(claim("one", "a"), claim("two", "b"))
    async with driver.at(tmp_path / f"{DRIVER}.sock"):
        async with node(tmp_path, api, driver) as here:
            await here.claims.prepare(pod("a", "one"))
            await here.claims.prepare(pod("b", "two"))
        api.claims.clear()  # nobody needs them to know what is prepared
        async with node(tmp_path, api, driver) as here:
            assert not here.claims.lacks(pod("a", "one"))
            assert await here.ids(pod("a", "one")) == ("example.com/gpu=one",)
            monkeypatch.setattr(room, "_RETRY", (0.01, 0.1))
            task = asyncio.create_task(here.claims.run())
            driver.failure = "not yet"
            here.claims.retain({"a"})
            await eventually(lambda: driver.asked[2:3] == ["unprepare two"])
            driver.failure = ""
            here.claims.retain({"a"})
            await eventually(lambda: here.saved() == {"one": {"a"}})
            task.cancel()
        assert set(driver.asked[2:]) == {"unprepare two"}


async def test_after_a_restart_a_claim_is_prepared_again_for_a_pod_that_begins(tmp_path: Path) -> None:
    """Whether what was prepared is still there, only the driver knows: the machine may have been started anew."""
    driver, api = Driver(), Api(claim("one", "a"))
    async with driver.at(tmp_path / f"{DRIVER}.sock"):
        for _ in range(2):
            async with node(tmp_path, api, driver) as here:
                await here.claims.prepare(pod("a", "one"))
                assert await here.ids(pod("a", "one")) == ("example.com/gpu=one",)
        assert driver.asked == ["prepare one"] * 2


async def test_a_spoilt_checkpoint_is_put_aside_and_claims_are_taken_up_again(tmp_path: Path) -> None:
    (tmp_path / CHECKPOINT).write_text('{"Data":"x","Checksum":1}')
    driver, api = Driver(), Api(claim("one", "a"))
    async with driver.at(tmp_path / f"{DRIVER}.sock"), node(tmp_path, api, driver) as here:
        assert (tmp_path / f"{CHECKPOINT}.bad").exists()
        assert here.claims.lacks(pod("a", "one"))
        assert await here.ids(pod("a", "one")) == ("example.com/gpu=one",)
        await here.claims.unprepare("a")
        assert driver.asked == ["prepare one", "unprepare one"]


async def test_nothing_is_prepared_that_cannot_be_written_down(tmp_path: Path) -> None:
    driver, api = Driver(), Api(claim("one", "a"))
    async with driver.at(tmp_path / f"{DRIVER}.sock"), node(tmp_path, api, driver) as here:
        (tmp_path / CHECKPOINT).mkdir()
        with pytest.raises(ClaimFailed, match=r"checkpoint ResourceClaim state: .*directory"):
            await here.claims.prepare(pod("a", "one"))
        assert driver.asked == []


async def test_a_claim_is_not_given_back_while_another_pod_begins_to_use_it(tmp_path: Path) -> None:
    driver, api = Driver(), Api(claim("one", "a", "b"))
    async with driver.at(tmp_path / f"{DRIVER}.sock"), node(tmp_path, api, driver) as here:
        await here.claims.prepare(pod("a", "one"))
        both = asyncio.gather(here.claims.unprepare("a"), here.claims.prepare(pod("b", "one")))
        await both
        assert driver.asked == ["prepare one", "unprepare one", "prepare one"]
        assert here.saved() == {"one": {"b"}}
        assert not here.claims._turns


async def test_a_name_that_no_file_explains_is_told(tmp_path: Path) -> None:
    driver, api = Driver(), Api(claim("one", "a"))
    driver.answer = answered(uid_one=[device("gpu-0", "nowhere.example.com/gpu=0")])
    async with driver.at(tmp_path / f"{DRIVER}.sock"), node(tmp_path, api, driver) as here:
        here.claims._runtime_knows_cdi = lambda: False
        await here.claims.prepare(pod("a", "one"))
        with pytest.raises(Invalid, match=r"says what nowhere\.example\.com/gpu=0 is"):
            await here.ids(pod("a", "one"))


async def test_a_claim_whose_driver_had_not_answered_is_given_back_by_the_next_agent(tmp_path: Path) -> None:
    """As the Go kubelet leaves it, too: written down, and no word of devices."""
    begun = Path(__file__).parents[2] / "data" / "dra" / "begun.json"
    (tmp_path / CHECKPOINT).write_bytes(begun.read_bytes())
    driver, api = Driver(), Api(claim("one", "pod-1", uid="uid-1"))
    async with driver.at(tmp_path / f"{DRIVER}.sock"), node(tmp_path, api, driver) as here:
        assert await here.ids(pod("pod-1", "one")) == ()
        await here.claims.prepare(pod("pod-1", "one"))
        assert await here.ids(pod("pod-1", "one")) == ("example.com/gpu=one",)
        here.claims.retain(())
        task = asyncio.create_task(here.claims.run())
        await eventually(lambda: here.saved() == {})
        task.cancel()
        assert driver.asked == ["prepare one", "unprepare one"]


class Killed(Exception):
    """The agent is no more."""


class Killer:
    """Ends the agent at the n-th of the moments at which something is about to be written, asked, or was."""

    def __init__(self, at: int) -> None:
        self._left = at

    def wrap(self, work: Callable[..., Any]) -> Callable[..., Any]:
        async def killed(*args: Any) -> Any:
            self._count()
            result = await work(*args)
            self._count()
            return result

        return killed

    def _count(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise Killed


@pytest.mark.parametrize("goes_on", [True, False])
async def test_wherever_the_agent_is_killed_nothing_stays_prepared_for_nobody(tmp_path: Path, goes_on: bool) -> None:
    ended_alive = set()
    for number in range(16):
        root = tmp_path / str(number)
        root.mkdir()
        driver, api, a = Driver(), Api(claim("one", "a")), pod("a", "one")
        async with driver.at(root / f"{DRIVER}.sock"):
            async with node(root, api, driver) as here:
                killer, instance = Killer(number), here.drivers.instance(DRIVER)
                for owner, name in ((here.claims, "_write"), (instance, "prepare"), (instance, "unprepare")):
                    setattr(owner, name, killer.wrap(getattr(owner, name)))
                try:
                    await here.claims.prepare(a)
                    await here.claims.unprepare("a")
                    ended_alive.add(number)
                except Killed:
                    pass
            async with node(root, api, driver) as here:
                if goes_on:
                    await here.claims.prepare(a)
                    assert await here.ids(a) == ("example.com/gpu=one",)
                    assert driver.prepared == {"one"}
                    await here.claims.unprepare("a")
                here.claims.retain(())
                task = asyncio.create_task(here.claims.run())
                await eventually(lambda: not here.claims.table.held)
                task.cancel()
                assert not driver.prepared
    assert ended_alive == set(range(10, 16))  # three times something is written, and two questions are asked
