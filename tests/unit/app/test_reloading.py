"""A configuration that is read again: what is applied, what is named, and what changes nothing."""

import asyncio
import logging
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from kit.node import World
from kit.pods import make_pod
from kit.virtual_time import virtual_time
from kit.waiting import eventually
from pykubelet.api import codec
from pykubelet.api.struct import changed
from pykubelet.app.foundations import lay_foundations
from pykubelet.app.kubelet import Kubelet
from pykubelet.app.reloading import ConfigFiles, Reloaded, Reloading
from pykubelet.base.errors import Invalid
from pykubelet.config.agent import Config, make_config
from pykubelet.config.kubelet_configuration import load_configuration
from pykubelet.config.options import OPTIONS
from pykubelet.pod.eviction.thresholds import EvictionSettings
from pykubelet.pod.lifecycle.crash_loop_backoff import RestartWaits


class Agent:
    def __init__(self, folder: Path, **more: Any) -> None:
        self.file = folder / "config.yaml"
        self.write()
        self.applied: list[Config] = []
        files = ConfigFiles(load=self.load, file=str(self.file), is_watched=True)
        self.config = self.load()
        self.reloading = Reloading(
            self.config,
            files,
            check=more.get("check", lambda _: None),
            apply=self.applied.append,
            unable=more.get("unable", ()),
        )

    def write(self, **fields: Any) -> None:
        whole = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", **fields}
        self.file.write_bytes(codec.encode(whole))

    def load(self) -> Config:
        given = load_configuration(str(self.file), "", eviction_hard={})
        return make_config({"--root-dir": str(self.file.parent), "registryPullQPS": 7, **given})


@pytest.mark.asyncio
async def test_what_can_be_is_applied_and_the_rest_is_named(tmp_path: Path) -> None:
    agent = Agent(tmp_path)
    assert await agent.reloading.reload() == Reloaded()
    agent.write(syncFrequency="10s", logging={"verbosity": 6}, evictionHard={"memory.available": "7Mi"}, maxPods=7)
    told = await agent.reloading.reload()
    assert set(told.applied) == {"syncFrequency", "logging.verbosity", "evictionHard"}
    assert told.kept == ("maxPods",)
    (applied,) = agent.applied
    assert (applied.resync_period, applied.logging.verbosity) == (10.0, 6)
    assert [each.least for each in applied.eviction.thresholds if each.is_hard]
    assert str(told).endswith("; takes a restart: maxPods")


@pytest.mark.asyncio
async def test_what_is_in_force_is_shown_and_what_is_not_is_named_again(tmp_path: Path) -> None:
    agent = Agent(tmp_path)
    agent.write(syncFrequency="10s", maxPods=7)
    await agent.reloading.reload()
    shown = agent.config.configuration
    assert (shown["syncFrequency"], shown["maxPods"]) == ("10s", 110)
    assert await agent.reloading.reload() == Reloaded(kept=("maxPods",))
    assert len(agent.applied) == 1
    agent.write()
    assert await agent.reloading.reload() == Reloaded(applied=("syncFrequency",))
    assert shown["syncFrequency"] == "1m0s"


@pytest.mark.asyncio
async def test_a_bad_file_changes_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    agent = Agent(tmp_path)
    for text in (b"{", b"kind: Pod", b"", b'{"syncFrequency": "soon"}', b"\xff\xfe"):
        agent.file.write_bytes(text)
        with pytest.raises(Invalid):
            await agent.reloading.reload()
    agent.write(syncFrequency="10s", imageGCHighThresholdPercent=10, imageGCLowThresholdPercent=90)
    with pytest.raises(Invalid, match="imageGC"):
        await agent.reloading.reload()
    agent.file.unlink()
    with pytest.raises(Invalid):
        await agent.reloading.reload()
    assert agent.applied == []
    asked = asyncio.Event()
    asked.set()
    running = asyncio.create_task(agent.reloading.run(asked))
    with caplog.at_level(logging.ERROR):
        while not caplog.messages:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    running.cancel()
    (said,) = caplog.messages
    assert said.startswith("the configuration is not reloaded, and nothing is changed: ")


@pytest.mark.asyncio
async def test_what_this_machine_cannot_do_changes_nothing(tmp_path: Path) -> None:
    def check(config: Config) -> None:
        if config.resync_period == 10.0:
            raise Invalid("more than this machine has")

    agent = Agent(tmp_path, check=check)
    agent.write(syncFrequency="10s", imageMinimumGCAge="1m")
    with pytest.raises(Invalid, match="more than this machine has"):
        await agent.reloading.reload()
    assert agent.applied == []


@pytest.mark.asyncio
async def test_a_runtime_that_cannot_says_so(tmp_path: Path) -> None:
    agent = Agent(tmp_path, unable={"containerLogMaxSize"})
    agent.write(containerLogMaxSize="1Mi", containerLogMonitorInterval="3s")
    told = await agent.reloading.reload()
    assert told == Reloaded(applied=("containerLogMonitorInterval",), kept=("containerLogMaxSize",))


@pytest.mark.asyncio
async def test_a_flag_outdoes_the_file_as_ever(tmp_path: Path) -> None:
    agent = Agent(tmp_path)
    agent.write(registryPullQPS=7)
    assert await agent.reloading.reload() == Reloaded()


@pytest.mark.asyncio
async def test_a_changed_file_is_noticed_by_itself(tmp_path: Path) -> None:
    agent = Agent(tmp_path)
    running = asyncio.create_task(agent.reloading.run(asyncio.Event()))
    await asyncio.sleep(0.1)
    assert agent.applied == []
    other = tmp_path / "new.yaml"
    agent.file.rename(other)
    agent.write(syncFrequency="10s")
    async with asyncio.timeout(20):
        while not agent.applied:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    assert agent.applied[0].resync_period == 10.0
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


def test_the_documented_fields_are_those_of_the_table() -> None:
    text = (Path(__file__).parents[3] / "docs/reference/configuration.md").read_text()
    section = text.partition("## Without a restart")[2].partition("\n## ")[0]
    table = [line for line in section.splitlines() if line.startswith("| `")]
    told = {field for line in table for field in line.split("|")[1].replace("`", "").replace(" ", "").split(",")}
    assert told == {option.field for option in OPTIONS if option.reloads}


@pytest.mark.asyncio
async def test_what_is_applied_reaches_those_who_heed_it(tmp_path: Path) -> None:
    given = {
        "staticPodPath": str(tmp_path),
        "--root-dir": str(tmp_path / "state"),
        "containerRuntimeEndpoint": "process",
    }
    more = {"logging.verbosity": 5, "imageGCHighThresholdPercent": 90, "nodeStatusUpdateFrequency": "3s"}
    before = logging.getLogger("pykubelet").level
    handlers = logging.getLogger().handlers[:]
    try:
        async with AsyncExitStack() as stack:
            kubelet = Kubelet(await lay_foundations(make_config(given), stack))
            assert kubelet._parts.image_gc.settings.high == 85
            kubelet._apply(make_config({**given, **more}))
            assert kubelet._parts.image_gc.settings.high == 90
            assert kubelet._parts.reporter._settings.update_period == 3.0
            assert logging.getLogger("pykubelet").level == logging.DEBUG
            assert (await kubelet.reload(""))["kind"] == "Retry", "an agent that is still starting says so"
    finally:
        logging.getLogger("pykubelet").setLevel(before)
        logging.getLogger().handlers[:] = handlers


@virtual_time
async def test_an_agent_that_runs_takes_other_periods_and_thresholds() -> None:
    world = World()
    async with world.agent() as node:
        world.pods.apply(changed(make_pod("web"), spec=changed(make_pod("web").spec, restart_policy="Always")))
        await eventually(world.runtime.running)
        node.agent.reload(7.0, RestartWaits(first=1.0, longest=2.0), EvictionSettings())
        assert {worker.resync_period for worker in node.agent.workers.workers.values()} == {7.0}
        starts = []
        for _ in range(5):
            world.runtime.exit("uid-web", "c", 1)
            ended = world.now()
            await eventually(world.runtime.running, seconds=600)
            starts.append((world.now() - ended).total_seconds())
        assert max(starts) < 4, "nobody waits longer than the new longest"
