import itertools
import random
from datetime import UTC, datetime

import pytest

from kit.node import World
from kit.pods import make_pod
from kit.virtual_time import virtual_time
from kit.waiting import eventually
from pykubelet.api.handlers import ExecAction, Probe
from pykubelet.api.pod import Pod
from pykubelet.api.struct import changed
from pykubelet.base.errors import Retry
from pykubelet.base.journal import About, Noted
from pykubelet.pod import moments as m
from pykubelet.pod.lifecycle.pod_update import Op
from pykubelet.pod.stats.traces import PodTraces, Span


class Told:
    """What is told of the pods of a world."""

    def __init__(self, world: World, rate: int = 1_000_000) -> None:
        numbers = itertools.count(1)
        self.spans: list[Span] = []
        self.contexts: list[str] = []
        self.traces = PodTraces(rate, lambda size: next(numbers).to_bytes(size), self.spans.append)
        world.journal.read_by(self.traces.read)

    def named(self, name: str) -> list[Span]:
        return [span for span in self.spans if span.name == name]


def probed(name: str) -> Pod:
    pod = make_pod(name)
    probe = Probe(exec=ExecAction(command=("ready",)), period_seconds=1)
    container = changed(pod.spec.containers[0], readiness_probe=probe)
    return changed(pod, spec=changed(pod.spec, containers=(container,), restart_policy="Always"))


@virtual_time
async def test_a_start_is_one_trace_with_all_that_it_took() -> None:
    world = World()
    told = Told(world)
    world.runtime.delays |= {"pull_image": 4.0, "run_sandbox": 1.0, "start_container": 0.5, "exec_sync": 2.0}
    async with world.agent() as node:
        world.pods.apply(probed("web"))
        await eventually(lambda: node.phase("uid-web") == "Running")
        await eventually(lambda: told.named("pod start"))
    (root,) = told.named("pod start")
    assert {span.trace_id for span in told.spans} == {root.trace_id}
    assert (root.parent_id, root.error) == (b"", "")
    assert root.attributes == {
        "k8s.pod.uid": "uid-web",
        "k8s.pod": "default/web",
        "k8s.pod.name": "web",
        "k8s.namespace.name": "default",
    }
    first = told.named("syncPod")[0]
    assert first.parent_id == root.span_id
    assert first.attributes["k8s.pod.update_type"] == "create"
    seconds = {
        name: (span.end - span.start).total_seconds()
        for name in ("image pull", "sandbox", "readiness", "runtime.v1.RuntimeService/StartContainer")
        for span in told.named(name)[:1]
    }
    assert seconds["image pull"] == 4.0
    assert seconds["sandbox"] == 1.0
    assert seconds["runtime.v1.RuntimeService/StartContainer"] == 0.5
    assert seconds["readiness"] >= 2.0
    assert told.named("volumes")[0].parent_id == first.span_id
    assert told.named("runtime.v1.ImageService/PullImage")[0].is_call
    assert all(root.start <= span.start <= span.end for span in told.spans)
    known = {span.span_id for span in told.spans}
    assert all(span.parent_id in known for span in told.spans if span is not root), "nobody's parent is missing"


@virtual_time
async def test_what_fails_is_told_and_the_trace_goes_on() -> None:
    world = World()
    told = Told(world)
    world.runtime.failures["run_sandbox"].append(Retry("no room"))
    async with world.agent() as node:
        world.pods.apply(make_pod("web"))
        await eventually(lambda: node.phase("uid-web") == "Running")
        await eventually(lambda: told.named("pod start"))
    assert [bool(span.error) for span in told.named("syncPod")] == [True, False]
    assert told.named("sandbox")[0].error == "no room"
    assert told.named("pod start")[0].error == ""


@virtual_time
async def test_a_pod_that_is_stopped_before_it_was_ready_has_not_started() -> None:
    world = World()
    told = Told(world)
    world.runtime.delays["pull_image"] = 100.0
    async with world.agent() as node:
        world.pods.apply(make_pod("web"))
        await eventually(lambda: ("pull_image", "busybox:1.36") in world.runtime.calls)
        world.pods.remove("uid-web")
        await eventually(lambda: node.idle)
    assert told.named("pod start")[0].error == "it was stopped before it was ready: removed"


@virtual_time
async def test_others_are_told_what_to_go_on_with_while_it_lasts() -> None:
    world = World()
    told = Told(world)
    seen = []
    world.journal.read_by(lambda noted: seen.append(told.traces.context("uid-web")))
    async with world.agent() as node:
        world.pods.apply(make_pod("web"))
        await eventually(lambda: node.phase("uid-web") == "Running")
        await eventually(lambda: told.named("pod start"))
    sync = told.named("syncPod")[0]
    assert f"00-{sync.trace_id.hex()}-{sync.span_id.hex()}-01" in seen
    assert told.traces.context("uid-web") == ""


@virtual_time
async def test_a_pod_that_ran_before_does_not_start() -> None:
    world = World()
    async with world.agent() as node:
        world.pods.apply(make_pod("web"))
        await eventually(lambda: node.phase("uid-web") == "Running")
    world.pods.apply(make_pod("web", phase="Running"))
    told = Told(world)
    async with world.agent() as node:
        await eventually(lambda: node.phase("uid-web") == "Running")
    assert told.spans == []
    assert told.traces.context("uid-web") == ""


@pytest.mark.parametrize(("rate", "least", "most"), [(0, 0, 0), (500_000, 300, 700), (1_000_000, 1000, 1000)])
def test_as_many_are_told_of_as_wanted(rate: int, least: int, most: int) -> None:
    chance, spans = random.Random(1), list[Span]()
    traces = PodTraces(rate, chance.randbytes, spans.append)
    at = datetime(2026, 1, 1, tzinfo=UTC)
    for number in range(1000):
        whose = About(f"u{number}", "default", "p")
        traces.read(Noted(at, whose, m.Merged(Op.ADD, "api")))
        traces.read(Noted(at, whose, m.Rejected("OutOfcpu", "no room")))
    assert least <= len(spans) <= most


def test_pods_that_never_come_to_an_end_are_forgotten() -> None:
    numbers = itertools.count(1)
    traces = PodTraces(1_000_000, lambda size: next(numbers).to_bytes(size), lambda span: None)
    for number in range(10_000):
        traces.read(Noted(datetime(2026, 1, 1, tzinfo=UTC), About(f"u{number}", "d", "p"), m.Merged(Op.ADD, "api")))
    assert len(traces._traces) == 2000
