"""The story of a pod from what the agent has of it: status, moments in memory and on disk, logs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pykubelet.api.pod import Pod
from pykubelet.base.errors import Invalid, NotFound
from pykubelet.pod import moments as m
from pykubelet.pod.story import causes
from pykubelet.pod.story.diagnosis import NodeTrouble
from pykubelet.server.explainer import Explainer, read_time
from unit.pod.story.broken_pods import NOW, RUNNING, ago, crashing, noted, one_status, pod

STARTED = noted(m.ContainerStarted("app", "container", 0), 3600)
EXITED = noted(m.Exited("app", 0, 1, "Error", ago(60), ago(30)), 30)


def explainer(
    pods: Sequence[Pod], log_root: Path, *, memory: Sequence[m.Noted] = (), disk: Sequence[m.Noted] = ()
) -> Explainer:
    async def history(**_: object) -> list[m.Noted]:
        return list(disk)

    return Explainer(lambda: pods, lambda _: memory, history, NodeTrouble, str(log_root), node="n1", now=lambda: NOW)


def say(root: Path, attempt: int, *lines: str) -> None:
    folder = root / "default_web_u1" / "app"
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(f"2026-01-02T15:04:05Z stderr F {line}\n" for line in lines)
    (folder / f"{attempt}.log").write_text(text)


async def test_the_last_words_are_those_of_the_one_that_failed(tmp_path: Path) -> None:
    say(tmp_path, 3, "Traceback", "ValueError: no")
    say(tmp_path, 2, "older")
    found = await explainer([pod(status=crashing(1))], tmp_path).one("default", "web", None)
    assert "last words: `ValueError: no`" in found.sentence
    assert found.last_words == {"app": "Traceback\nValueError: no"}


async def test_of_one_that_runs_again_they_are_those_of_the_one_before(tmp_path: Path) -> None:
    say(tmp_path, 0, "ValueError: no")
    say(tmp_path, 1, "all fine")
    ended = {"terminated": {"exitCode": 1, "reason": "Error"}}
    status = {"phase": "Running", "containerStatuses": one_status(RUNNING, last=ended, restarts=1)}
    found = await explainer([pod(status=status)], tmp_path).one("default", "web", None)
    assert found.last_words == {"app": "ValueError: no"}


async def test_what_is_on_disk_alone_comes_before_what_is_in_memory(tmp_path: Path) -> None:
    found = await explainer([pod()], tmp_path, memory=(EXITED,), disk=(STARTED, EXITED)).one("default", "web", None)
    assert [each.what for each in found.timeline] == ["started", "exited with code 1 (Error)"]


async def test_a_pod_that_is_gone_is_told_from_disk(tmp_path: Path) -> None:
    found = await explainer([], tmp_path, disk=(STARTED, EXITED)).one("default", "web", None)
    assert (found.state, found.node) == ("Gone", "n1")
    assert isinstance(found.cause, causes.Crashed)


async def test_the_moments_of_a_pod_are_those_in_memory_or_else_those_on_disk(tmp_path: Path) -> None:
    assert await explainer([], tmp_path, memory=(EXITED,), disk=(STARTED, EXITED)).moments("u1") == (EXITED,)
    assert await explainer([], tmp_path, disk=(STARTED, EXITED)).moments("u1") == [STARTED, EXITED]
    assert await explainer([], tmp_path, disk=(STARTED, EXITED)).moments("") == (), "the node is never gone"


async def test_a_pod_that_nobody_ever_knew_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="does not know pod default/web"):
        await explainer([], tmp_path).one("default", "web", None)


async def test_the_list_has_those_that_are_not_well(tmp_path: Path) -> None:
    well = pod(status={"phase": "Running", "containerStatuses": one_status(RUNNING, ready=True)})
    told = await explainer([well, pod(status=crashing(1))], tmp_path).all()
    assert (told["node"], told["pods"], [each.state for each in told["items"]]) == ("n1", 2, ["Failing"])


@pytest.mark.parametrize("question", ["", "default web", "default web 2026-01-02T15:00:00+00:00"])
async def test_the_socket_may_ask_for_one_or_all(tmp_path: Path, question: str) -> None:
    answer: Any = await explainer([pod(status=crashing(1))], tmp_path).answer(question)
    assert (answer["items"][0] if isinstance(answer, dict) else answer).name == "web"


async def test_a_question_that_cannot_be_answered_is_answered_with_an_error(tmp_path: Path) -> None:
    assert "does not know pod" in (await explainer([], tmp_path).answer("default nope"))["error"]
    assert "is not a time" in (await explainer([], tmp_path).answer("default nope yesterday"))["error"]
    with pytest.raises(Invalid):
        read_time("never")


def came_back(*, finished: str) -> Pod:
    ended = {"terminated": {"exitCode": 137, "reason": "Error", "finishedAt": finished}}
    running = {"running": {"startedAt": "2026-01-02T15:03:16Z"}}
    status = one_status(running, last=ended, restarts=2, ready=True)
    return pod(status={"phase": "Running", "containerStatuses": status})


async def test_what_was_stopped_with_an_earlier_agent_has_not_failed_in_a_list_either(tmp_path: Path) -> None:
    """The list is told from memory, and that began after the end."""
    before = (noted(m.StopAsked("removed", 1.0), 70), noted(m.PhaseEntered(m.Phase.RELEASED), 68))
    memory = (noted(m.PhaseEntered(m.Phase.RUNNING), 50), noted(m.ContainerStarted("app", "container", 2), 49))
    reads: list[object] = []

    async def history(**asked: object) -> list[m.Noted]:
        reads.append(asked)
        return [*before, *memory]

    stopped = came_back(finished="2026-01-02T15:02:56Z")
    asked = Explainer(
        lambda: [stopped], lambda _: memory, history, NodeTrouble, str(tmp_path), node="n1", now=lambda: NOW
    )
    assert (await asked.all())["items"] == []
    told = await asked.told(stopped)
    assert (told.is_well, told.sentence) == (True, (await asked.one("default", "web", None)).sentence)
    assert len(reads) == 2, "the files are read once for lists, and for the one that was asked for"
    crashed = explainer([stopped], tmp_path, memory=memory, disk=memory)
    assert [each.state for each in (await crashed.all())["items"]] == ["Failing"], "nobody had asked for that end"


async def test_an_agent_that_is_starting_does_not_say_that_all_is_well_or_gone(tmp_path: Path) -> None:
    async def history(**_: object) -> list[m.Noted]:
        return [STARTED]

    asked = Explainer(
        lambda: (), lambda _: (), history, NodeTrouble, str(tmp_path), node="n1", now=lambda: NOW,
        is_starting=lambda: True,
    )  # fmt: skip
    assert (await asked.all())["isStarting"] is True
    assert "is just starting" in (await asked.answer("default web"))["error"]
