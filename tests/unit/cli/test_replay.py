"""`pykubelet replay`, in a process of its own: it limits its memory and turns its log off."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from kit.node import World
from kit.pods import make_pod
from kit.recorded import Lines, recorded
from kit.virtual_time import VirtualTimeLoop
from kit.waiting import eventually


async def _session(lines: Lines) -> None:
    world = World()
    async with recorded(world, lines) as node:
        for name in ("web", "db"):
            world.pods.apply(make_pod(name))
        await eventually(lambda: all(node.phase(f"uid-{name}") == "Running" for name in ("web", "db")))
        await asyncio.sleep(30)
        world.pods.remove("uid-web")
        await eventually(lambda: "uid-web" not in node.agent.workers.workers)


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    lines = Lines()
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(_session(lines))
    file = tmp_path_factory.mktemp("replay") / "recording"
    file.write_bytes(b"\n".join(lines.all) + b"\n")
    return file


def replay(*arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "pykubelet", "replay", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=30)


def test_decisions_are_shown_in_their_order(recording: Path) -> None:
    done = replay(recording, "--pod", "default/web")
    assert done.returncode == 0, done.stderr
    shown = done.stdout.splitlines()
    assert all(" default/web " in line for line in shown)
    order = ["Admitted", "runtime.run_sandbox", "runtime.start_container", "StopAsked", "runtime.stop_container"]
    places = [next(place for place, line in enumerate(shown) if f" {each} " in line) for each in order]
    assert places == sorted(places)
    assert "came out as recorded. The recording ends here: the agent was stopped." in done.stderr


@pytest.mark.parametrize("until", ["00:00:20", "2026-01-01T00:00:20", "60"])
def test_it_ends_where_it_is_told_to(recording: Path, until: str) -> None:
    done = replay(recording, "--until", until)
    assert done.returncode == 0, done.stderr
    assert "Admitted" in done.stdout
    assert "StopAsked" not in done.stdout
    assert "as told with --until" in done.stderr


def test_json_has_every_line_with_its_number_and_time(recording: Path) -> None:
    done = replay(recording, "-o", "json")
    shown = [json.loads(line) for line in done.stdout.splitlines()]
    assert {"line": 2, "time": "2026-01-01T00:00:00+00:00"}.items() <= shown[0].items()
    assert [each["line"] for each in shown] == sorted(each["line"] for each in shown)


@pytest.mark.parametrize("output", ["text", "json"])
def test_a_difference_is_named_with_what_led_to_it_and_ends_with_1(
    recording: Path, tmp_path: Path, output: str
) -> None:
    spoiled = tmp_path / "spoiled"
    spoiled.write_bytes(recording.read_bytes().replace(b'"by":"removed","grace":30', b'"by":"removed","grace":31'))
    done = replay(spoiled, "-o", output)
    assert done.returncode == 1, done.stderr
    if output == "json":
        found = json.loads(done.stdout.splitlines()[-1])["difference"]
        assert (found["pod"], found["recorded"]["note"]["grace"]) == ("default/web", 31)
        assert (found["replayed"]["note"]["grace"], found["time"][:19]) == (30, "2026-01-01T00:00:30")
        assert any("Merged" in json.dumps(each) for each in found["before"])
        return
    told = done.stdout[done.stdout.index("The first difference is at line ") :]
    assert "2026-01-01 00:00:3" in told
    assert "pod default/web." in told
    assert "recorded: StopAsked by=removed grace=31" in told
    assert "replayed: StopAsked by=removed grace=30" in told
    assert "Merged op=REMOVE source=api" in told[told.index("What led to it:") :]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"hello\n", "this is no recording: it does not begin as one"),
        (b"", "this is no recording: it does not begin as one"),
        (b'{"recording":2}\n', "this recording has format 2, which is newer"),
    ],
)
def test_what_is_no_recording_is_refused_in_one_line(tmp_path: Path, content: bytes, told: str) -> None:
    file = tmp_path / "file"
    file.write_bytes(content)
    done = replay(file)
    assert done.returncode == 2
    assert done.stderr.startswith(f"pykubelet: {file}: {told}")
    assert done.stderr.count("\n") == 1


def test_a_wrong_end_is_refused(recording: Path) -> None:
    done = replay(recording, "--until", "soon")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--until soon: is neither a line nor a time" in done.stderr


def test_what_others_wrote_does_not_move_the_cursor(recording: Path, tmp_path: Path) -> None:
    evil = tmp_path / "evil"
    evil.write_bytes(recording.read_bytes().replace(b'"by":"removed"', rb'"by":"\u001b[2Jremoved"'))
    assert "\x1b" not in replay(evil).stdout
