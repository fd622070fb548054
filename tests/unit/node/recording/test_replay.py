import asyncio
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from kit.node import World
from kit.pods import make_pod
from kit.recorded import PLANTED, Chaos, Lines, planted_objects, recorded, secret_pod
from kit.virtual_time import VirtualTimeLoop, virtual_time
from kit.waiting import eventually
from pykubelet.api.struct import changed
from pykubelet.base.errors import Invalid
from pykubelet.base.journal import work_for
from pykubelet.node import sync_pod
from pykubelet.node.eviction import EvictionParts
from pykubelet.node.image_gc import Look
from pykubelet.node.recording import lines as formats
from pykubelet.node.recording.live import RecordedAgent
from pykubelet.node.recording.replay import Line, Replay
from pykubelet.pod.eviction.thresholds import EvictionSettings, Threshold, parse_thresholds
from pykubelet.pod.lifecycle.plan import PodActions, plan
from pykubelet.pod.moments import about
from pykubelet.pod.stats.stats import Disk, Memory, NodeReading, PodReading, Usage

SECONDS = 180.0


@pytest.fixture(scope="module")
def chaos() -> list[bytes]:
    """A session of 50 pods."""
    lines = Lines()
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(_session(lines))
    return lines.all


async def _session(lines: Lines) -> None:
    await Chaos(seed=11, pods=50).run(lines, SECONDS)


def replayed(lines: list[bytes]) -> Replay:
    replay = Replay(iter(lines))
    replay.run()
    return replay


def test_fifty_pods_in_chaos_are_replayed_to_the_same_decisions(chaos: list[bytes]) -> None:
    replay = replayed(chaos)
    assert replay.difference is None
    assert replay.end == "the agent was stopped"
    assert replay.decisions > 5000
    all_of_it = b"\n".join(chaos)
    for happened in (
        b"BackedOff",
        b"start_container",
        b"stop_container",
        b"HealthChanged",
        b"api.delete",
        b"cancelled",
    ):
        assert happened in all_of_it


def test_what_is_secret_is_in_no_line(chaos: list[bytes]) -> None:
    all_of_it = b"\n".join(chaos)
    for what, secret in PLANTED.items():
        assert b"Pl4nted" not in all_of_it, what
        assert secret.encode() not in all_of_it, what
    assert b'"PASSWORD"' in all_of_it  # names are there
    assert b"denied for robot:[hidden]" in all_of_it
    assert b"timed out: " in all_of_it
    assert b"the command ['bye', 'hidden-" in all_of_it


def test_two_replays_say_the_same_whatever_the_order_of_sets(chaos: list[bytes], tmp_path: Path) -> None:
    file = tmp_path / "recording"
    file.write_bytes(b"\n".join(chaos) + b"\n")
    said = []
    for seed in ("1", "2"):
        command = [sys.executable, "-m", "pykubelet", "replay", str(file), "-o", "json"]
        done = subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, timeout=50)
        assert done.returncode == 0, done.stderr
        said.append(done.stdout)
    assert said[0] == said[1]


def test_a_decision_that_has_changed_is_found_and_named(chaos: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def forgetful(pod: object, *args: object) -> PodActions:
        actions = plan(pod, *args)  # type: ignore[arg-type]
        if pod.metadata.name == "p7" and actions.containers:  # type: ignore[attr-defined]
            seen.append(pod)
            return changed(actions, containers=())
        return actions

    monkeypatch.setattr(sync_pod, "plan", forgetful)
    found = replayed(chaos).difference
    assert found is not None
    assert found.pod == "default/p7"
    assert b'"planned"' in found.replayed
    assert found.at.value["with"]["1"]["containers"] == ["c"]
    assert len(seen) == 1, "the replay ends at the first difference"
    assert [line.value.get("pod", "default/p7") for line in found.before] == ["default/p7"] * len(found.before)
    assert any(b"Admitted" in line.text or b"host.set_up" in line.text for line in found.before)


def test_what_is_no_longer_done_is_a_difference(chaos: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sync_pod.PodSync, "_tidy", _nothing)
    found = replayed(chaos).difference
    assert found is not None
    assert b'"tidy"' in found.at.text


async def _nothing(*args: object) -> None:
    pass


@pytest.mark.parametrize("share", [0.001, 0.1, 0.5, 0.93])
def test_a_recording_that_was_cut_off_is_replayed_to_its_end(chaos: list[bytes], share: float) -> None:
    most = max(2, int(len(chaos) * share))
    replay = replayed(chaos[:most])
    assert replay.difference is None
    assert replay.end == ""


def test_a_replay_can_be_ended(chaos: list[bytes]) -> None:
    seen: list[Line] = []

    def look(line: Line) -> bool:
        seen.append(line)
        return len(seen) < 100

    replay = Replay(iter(chaos), look)
    assert replay.run() is None
    assert replay.is_cut
    assert len(seen) == 100


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b"", "no recording"),
        (b"[]", "no recording"),
        (b"\xff\xfe", "no recording"),
        (b"[" * 100_000, "no recording"),
        (b'{"recording":99}', "newer than what this version can replay (1)"),
        (b'{"recording":1}', "line 1"),
        (b'{"recording":1,"now":"2026-01-01T00:00:00Z"}', "no agent without host, node, node_info"),
        (b'{"recording":1,"now":"2026-01-01T00:00:00Z","parts":["__class__"]}', "knows nothing of __class__"),
    ],
)
def test_what_is_no_recording_is_refused_in_one_sentence(line: bytes, told: str) -> None:
    with pytest.raises(Invalid) as caught:
        Replay(iter([line]))
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "line",
    [
        b'{"in":[{"to":999999}],"now":"2026-01-01T00:00:00Z","t":1.0}',
        b'{"in":[{"ask":"__init__"}],"now":"2026-01-01T00:00:00Z","t":1.0}',
        b'{"in":[{"to":2,"is":{"uid":1}}],"now":"2026-01-01T00:00:00Z","t":1.0}',
        b'{"in":[{"to":2,"parts":[7]}],"now":"2026-01-01T00:00:00Z","t":1.0}',
        b'{"in":[{"to":"x"}],"now":"2026-01-01T00:00:00Z","t":1.0}',
        b'{"in":[{"to":2,"error":[]}],"now":"2026-01-01T00:00:00Z","t":1.0}',
        b'{"in":[],"now":"2026-01-01T00:00:00Z","t":1e300}',
        b'{"in":[],"now":"2026-01-01T00:00:00Z","t":-1}',
        b'{"in',
        b"garbage",
    ],
)
def test_a_line_that_was_tampered_with_is_named(chaos: list[bytes], line: bytes) -> None:
    step = next(place for place, each in enumerate(chaos[2:], 2) if each.startswith(b'{"in"'))
    with pytest.raises(Invalid, match=f"^line {step + 1}: "):
        replayed([*chaos[:step], line])


def test_time_far_in_the_future_is_one_step(chaos: list[bytes]) -> None:
    step = next(place for place, each in enumerate(chaos[2:], 2) if each.startswith(b'{"in"'))
    line = b'{"in":[],"now":"9999-12-31T00:00:00Z","t":1e8}'
    assert replayed([*chaos[:step], line]).difference is None


def test_a_replay_touches_nothing(chaos: list[bytes], tmp_path: Path) -> None:
    """Another process, for nobody can take an audit hook away again."""
    file = tmp_path / "recording"
    file.write_bytes(b"\n".join(chaos) + b"\n")
    program = """
import sys
from pykubelet.node.recording.replay import Replay
lines = open(sys.argv[1], "rb").read().splitlines()
bad = ("socket.", "subprocess.", "os.system", "os.exec", "os.posix_spawn", "os.remove", "os.mkdir", "shutil.")
def hook(event, args):
    if event.startswith(bad):
        print(event, args)
sys.addaudithook(hook)
Replay(iter(lines)).run()  # whatever is loaded late is loaded now
bad += ("open", "os.", "exec", "import", "ctypes.", "compile")
replay = Replay(iter(lines))
assert replay.run() is None
print("steps", replay.steps > 100)
"""
    done = subprocess.run([sys.executable, "-c", program, str(file)], capture_output=True, text=True, timeout=50)
    assert done.stdout == "steps True\n", done.stdout + done.stderr


# --- what is recorded


@virtual_time
async def test_an_agent_that_is_recorded_does_as_any_other() -> None:
    world, lines = World(), Lines()
    async with recorded(world, lines) as node:
        world.pods.apply(make_pod("web"))
        await eventually(lambda: node.phase("uid-web") == "Running")
        world.pods.remove("uid-web")
        await eventually(lambda: node.idle and world.runtime.is_empty)
    assert formats.version_of(lines.all[0]) == 1
    assert lines.all[-1] == b'{"end":"the agent was stopped"}'
    assert "Started" in world.events.reasons("web")


@virtual_time
async def test_who_happens_to_wake_the_agent_makes_no_difference() -> None:
    """What comes in one step comes from several: a step must not take place in the name of the first of them."""
    world, lines = World(), Lines()
    agent = RecordedAgent(world.outside(), lines)
    await agent.made()
    running = asyncio.create_task(agent.run())

    async def ask_for_a_pod() -> None:
        work_for(about(make_pod("web")))
        await agent.ask("look")
        await agent.ask("stop_pods")

    await asyncio.create_task(ask_for_a_pod())
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert any(b'"runtime.pods"' in line for line in lines.all)
    assert not any(b"default/web" in line for line in lines.all)
    assert replayed(lines.all).difference is None


@virtual_time
async def test_containers_get_their_secrets_all_the_same() -> None:
    world, lines = World(), Lines()
    world.objects = planted_objects()
    async with recorded(world, lines) as node:
        world.pods.apply(secret_pod("web"))
        await eventually(lambda: node.phase("uid-web") == "Running")
        made = next(iter(world.runtime._containers.values())).config
    assert dict(made.env)["PASSWORD"] == PLANTED["env of a secret"]
    assert made.args[0] == PLANTED["env of a secret"]
    assert replayed(lines.all).difference is None


@virtual_time
async def test_a_recording_that_is_full_ends_and_the_agent_goes_on() -> None:
    world, lines = World(), Lines(limit=3000)
    async with recorded(world, lines) as node:
        for name in ("a", "b", "c"):
            world.pods.apply(make_pod(name))
        await eventually(lambda: all(node.phase(f"uid-{name}") == "Running" for name in "abc"))
    assert sum(map(len, lines.all)) < 20_000
    assert replayed(lines.all).difference is None


@virtual_time
async def test_what_cannot_be_written_down_ends_the_recording_and_not_the_agent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world, lines = World(), Lines()

    async def odd() -> object:
        return object()

    world.runtime.status = odd  # type: ignore[method-assign, assignment]
    async with recorded(world, lines) as node:
        world.pods.apply(make_pod("web"))
        await eventually(lambda: b"not be written down" in lines.all[-1])
        await eventually(lambda: node.phase("uid-web") == "Running")
    assert lines.all[-1] == b'{"end":"something could not be written down"}'
    assert "the agent goes on without it" in caplog.text
    assert replayed(lines.all).difference is None


@virtual_time
async def test_a_step_without_end_ends_the_recording_and_not_the_agent(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world, lines = World(), Lines()
    async with recorded(world, lines) as node:
        monkeypatch.setattr("pykubelet.base.stepped_loop._MOST_CALLS", 20)
        for number in range(30):
            world.pods.apply(make_pod(f"p{number}"))
        await eventually(lambda: "the agent goes on without it" in caplog.text)
        monkeypatch.undo()
        await eventually(lambda: all(node.phase(f"uid-p{number}") == "Running" for number in range(30)))


@virtual_time
async def test_a_step_that_is_cancelled_ends_what_it_asked_for_before_the_next_begins() -> None:
    world, lines = World(), Lines()
    world.runtime.delays["pull_image"] = 60.0
    async with recorded(world, lines) as node:
        world.pods.apply(make_pod("web"))
        await eventually(lambda: ("pull_image", "busybox:1.36") in world.runtime.calls)
        world.pods.remove("uid-web")
        await eventually(lambda: node.idle and world.runtime.is_empty, seconds=20)
    assert any(line.startswith(b'{"cancel":') for line in lines.all)
    assert any(b'"cancelled":true' in line for line in lines.all)
    assert replayed(lines.all).difference is None


class Kernel:
    """Says at once that memory runs short, and then nothing more."""

    def __init__(self) -> None:
        self.expected = self.waits = 0
        self.is_closed = False

    def expect(self, node: NodeReading, thresholds: Iterable[Threshold]) -> None:
        self.expected += 1

    async def wait(self) -> None:
        self.waits += 1
        await asyncio.sleep(3.0 if self.waits == 1 else 3600.0)

    def close(self) -> None:
        self.is_closed = True


class FullDisk:
    async def node(self) -> NodeReading:
        disk = Disk(at=1, device="a", capacity=1000, available=10)
        return NodeReading(usage=Usage(at=1, memory=Memory(working_set=1, limit=1000)), disk=disk, images=disk)

    async def pods(self, *, files: bool) -> tuple[PodReading, ...]:
        return ()


@virtual_time
async def test_who_is_asked_may_ask_back_and_ports_are_made_when_they_are_needed() -> None:
    world, lines, kernel, shown = World(), Lines(), Kernel(), list[int]()

    async def remove_images(look: Look) -> None:
        shown.append(len(tuple(await look())))

    thresholds = parse_thresholds({"nodefs.available": "10%"}, soft={}, graces={}, reclaims={}, for_allocatable=False)
    world.eviction = EvictionParts(
        settings=EvictionSettings(thresholds=thresholds),
        stats=FullDisk(),
        recorder=world.events,
        remove_images=remove_images,
        notice=lambda: kernel,
    )
    async with recorded(world, lines) as node:
        world.pods.apply(make_pod("web"))
        await eventually(lambda: node.phase("uid-web") == "Failed")  # there is no room for it
        await eventually(lambda: shown == [0, 0])
    assert kernel.expected
    assert kernel.is_closed
    assert any(b'"ask":"look"' in line for line in lines.all)
    assert replayed(lines.all).difference is None
