"""`pykubelet explain` without an agent: from the files that one has left, and how stories are printed."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pykubelet.api import codec
from pykubelet.base.errors import Invalid, Retry
from pykubelet.base.journal import About, Noted
from pykubelet.cli.explain import _kubectls_own, _print_news
from pykubelet.cli.main import main
from pykubelet.cli.stories import Asked, Places, _all_of, named, tell
from pykubelet.cli.story_text import list_text, story_text
from pykubelet.host.journal_files import JournalFiles
from pykubelet.pod import moments as m
from pykubelet.pod.journal_rule import rule
from pykubelet.pod.lifecycle.pod_update import Op
from pykubelet.pod.story.story import story
from unit.pod.story.broken_pods import CASES, NOW, noted, one_status, pod

WEB = About("u1", "default", "web")
OLD = About("u0", "default", "old")


def left_behind(state: Path) -> None:
    now = datetime.now(UTC)
    files = JournalFiles(state / "journal", rule)
    files.read(Noted(now - timedelta(hours=3), WEB, m.Merged(Op.ADD, "api")))
    files.read(Noted(now - timedelta(minutes=2), WEB, m.ContainerStarted("app", "container", 0)))
    files.read(Noted(now - timedelta(minutes=1), WEB, m.Exited("app", 0, 1, "Error", now, now)))
    files.read(Noted(now - timedelta(minutes=1), OLD, m.Exited("app", 0, 137, "OOMKilled", now, now)))
    files.read(Noted(now, OLD, m.PodDeleted()))
    asyncio.run(files.flush())
    log = state / "logs" / "default_web_u1" / "app"
    log.mkdir(parents=True)
    (log / "0.log").write_text("2026-01-02T15:04:05Z stderr F KeyError: 'DATABASE_URL'\n")


def explain(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["explain", *arguments])


@pytest.fixture
def state(tmp_path: Path) -> str:
    left_behind(tmp_path)
    return str(tmp_path)


def test_a_pod_is_told_from_disk_while_the_agent_does_not_run(state: str) -> None:
    lines = explain("web", "--root-dir", state).output.splitlines()
    assert lines[0] == (
        "web fails: app exited with code 1; last words: `KeyError: 'DATABASE_URL'`; nothing is started or tried until "
        "the node's agent runs again."
    )
    assert "  | KeyError: 'DATABASE_URL'" in lines


def test_a_pod_that_is_gone_is_there_the_morning_after(state: str) -> None:
    told = json.loads(explain("old", "--root-dir", state, "-o", "json").output)
    assert (told["state"], told["cause"]["code"]) == ("Gone", "OutOfMemory")


def test_without_a_pod_all_are_told_that_are_not_well(state: str) -> None:
    assert [line.partition(" ")[0] for line in explain("--root-dir", state).output.splitlines()] == ["default/web"]
    assert explain("--root-dir", state, "-n", "other").output == "All pods are well.\n"


STATIC = About("5" * 32, "default", "static-n1")
MIRROR = About("mirror-uid", "default", "static-n1")
ONCE = About("u3", "default", "once")


def written(state: Path, *moments: tuple[float, About, m.Moment]) -> None:
    (state / "logs").mkdir()
    now = datetime.now(UTC)
    files = JournalFiles(state / "journal", rule)
    for seconds, about, moment in moments:
        files.read(Noted(now - timedelta(seconds=seconds), about, moment))
    asyncio.run(files.flush())


def ran_and_was_stopped(
    now: datetime, about: About, by: m.StopReason = "removed"
) -> list[tuple[float, About, m.Moment]]:
    return [
        (60, about, m.PhaseEntered(m.Phase.RUNNING)),
        (50, about, m.ContainerStarted("app", "container", 0)),
        (49, about, m.StatusSet("Running", "", True, now)),
        (10, about, m.StopAsked(by, 1.0)),
        (8, about, m.Exited("app", 0, 137, "Error", None, now - timedelta(seconds=8))),
        (7, about, m.PhaseEntered(m.Phase.RELEASED)),
    ]


def test_a_static_pod_is_told_once_and_its_mirror_not_at_all(tmp_path: Path) -> None:
    written(
        tmp_path,
        (60, STATIC, m.Merged(Op.ADD, "file")),
        (50, STATIC, m.ContainerStarted("app", "container", 0)),
        (40, MIRROR, m.Watched(None, False, True, ())),
        (40, MIRROR, m.Merged(Op.ADD, "api")),
    )
    listed = json.loads(explain("--root-dir", str(tmp_path), "-o", "json").output)["items"]
    assert [(each["uid"], each["cause"]["code"]) for each in listed] == [(STATIC.uid, "AgentDown")]
    assert json.loads(explain("static-n1", "--root-dir", str(tmp_path), "-o", "json").output)["uid"] == STATIC.uid


def test_a_pod_that_has_done_its_work_is_well_without_an_agent(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    written(
        tmp_path,
        (9, ONCE, m.Exited("app", 0, 0, "Completed", now, now)),
        (8, ONCE, m.StatusSet("Succeeded", "", False, None)),
    )
    assert explain("--root-dir", str(tmp_path)).output == "All pods are well.\n"
    assert explain("once", "--root-dir", str(tmp_path)).output.startswith("once has done its work and ended well.")


def test_a_pod_that_was_stopped_with_its_agent_has_not_failed(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    written(tmp_path, *ran_and_was_stopped(now, WEB))
    told = json.loads(explain("web", "--root-dir", str(tmp_path), "-o", "json").output)
    assert (told["state"], told["cause"]["code"], told["cause"]["wasStopped"]) == ("Stopped", "AgentDown", True)
    assert told["sentence"] == (
        "web was stopped, and is on a node whose agent does not run, last heard of 7s ago; nothing is started or tried "
        "until the node's agent runs again."
    )


def test_a_crash_after_an_earlier_stop_is_a_crash(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    written(
        tmp_path,
        *ran_and_was_stopped(now, WEB),
        (6, WEB, m.PhaseEntered(m.Phase.RUNNING)),
        (5, WEB, m.ContainerStarted("app", "container", 1)),
        (4, WEB, m.Exited("app", 1, 3, "Error", None, now - timedelta(seconds=4))),
    )
    told = json.loads(explain("web", "--root-dir", str(tmp_path), "-o", "json").output)
    assert (told["cause"]["code"], told["cause"]["exitCode"]) == ("Crashed", 3)


def test_a_static_pod_whose_file_came_back_is_not_gone(tmp_path: Path) -> None:
    written(
        tmp_path,
        (60, STATIC, m.PhaseEntered(m.Phase.GONE)),
        (50, STATIC, m.PhaseEntered(m.Phase.RUNNING)),
        (40, STATIC, m.ContainerStarted("app", "container", 0)),
    )
    assert json.loads(explain("static-n1", "--root-dir", str(tmp_path), "-o", "json").output)["state"] == "Running"


def test_the_context_s_namespace_is_meant_unless_another_is_given(tmp_path: Path, monkeypatch: Any) -> None:
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "namespace": "team"}}],
        "clusters": [{"name": "k", "cluster": {"server": "https://127.0.0.1:1"}}],
    }
    file = tmp_path / "kubeconfig"
    file.write_text(json.dumps(config))
    asked: list[str] = []

    async def from_api(_: object, what: Any) -> Any:
        asked.append(what.namespace)
        return {"version": 1, "kind": "StoryList", "node": "", "items": []}

    monkeypatch.setattr("pykubelet.cli.stories._from_api", from_api)
    for flags in ((), ("-n", "other"), ("-A",)):
        assert explain("--kubeconfig", str(file), *flags).exit_code == 0
    assert asked == ["team", "other", ""]
    assert explain("web", "-A", "--kubeconfig", str(file)).exit_code == 2


def test_since_cuts_the_timeline(state: str) -> None:
    told = json.loads(explain("web", "--root-dir", state, "-o", "json", "--since", "10m").output)
    assert [line["what"] for line in told["timeline"]] == ["started", "exited with code 1 (Error)"]
    refused = explain("web", "--root-dir", state, "--since", "soon")
    assert (refused.exit_code, "--since: 'soon' is not a duration" in refused.output) == (2, True)


def test_what_nobody_knows_is_said_in_one_line(state: str, tmp_path: Path) -> None:
    result = explain("nope", "--root-dir", state)
    assert result.exit_code == 2
    assert result.output == f"pykubelet: nothing is written down of pod default/nope in {state}/journal\n"
    nobody = explain("web", "--root-dir", str(tmp_path / "empty"))
    assert nobody.exit_code == 1
    assert "no agent answers at" in nobody.output
    assert "start one with `pykubelet up`" in nobody.output


def told(name: str) -> dict[str, Any]:
    case = next(case for case in CASES if case.name == name)
    words = {"app": case.last_words} if case.last_words else {}
    found: dict[str, Any] = json.loads(
        codec.encode(story(case.pod, case.moments, now=NOW, last_words=words, trouble=case.trouble))
    )
    return found


def test_the_text_begins_with_the_sentence_and_goes_on_with_what_to_try() -> None:
    lines = story_text(told("out of memory")).splitlines()
    assert lines[0].startswith("web keeps crashing: app exited 3 times with code 137 (OOMKilled: limit 64Mi)")
    assert lines[2:4] == [
        "What to try:", "  raise resources.limits.memory of app above 64Mi, or have it use less"
    ]  # fmt: skip


def test_a_stranger_s_text_moves_no_cursor() -> None:
    event = m.EventRecorded("Warning", "Failed", "boom\x1b[2J\r\nweb runs; all is well.")
    found = json.loads(codec.encode(story(None, (noted(event),), now=NOW)))
    text = story_text({**found, "lastWords": {"app": "\x1b[31mred"}, "note": "\x07"})
    assert not {"\x1b", "\r", "\x07"} & set(text)
    assert "web runs" not in [line.strip() for line in text.splitlines()]


def test_a_list_tells_what_the_node_has_to_do_without() -> None:
    trouble = {"runtime": "connection refused", "api": "10.0.0.1 does not answer"}
    assert list_text({"node": "n1", "items": [], "trouble": trouble}).splitlines() == [
        "node n1: its container runtime does not answer: connection refused",
        "node n1 cannot reach the API server: 10.0.0.1 does not answer",
    ]


def test_following_tells_news_and_not_the_clock(capsys: pytest.CaptureFixture[str]) -> None:
    before = told("missing config map")
    _print_news(before, {**before, "sentence": "in 3 s", "toldAt": "later"}, "text")
    assert capsys.readouterr().out == ""
    _print_news(before, told("out of memory"), "text")
    assert capsys.readouterr().out.startswith("web keeps crashing: ")


def test_the_plug_in_takes_kubectl_s_kubeconfig(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "two").touch()
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/one:{tmp_path}/two")
    assert _kubectls_own() == f"{tmp_path}/two"
    monkeypatch.setenv("KUBECONFIG", "")
    assert _kubectls_own().endswith("/.kube/config")


def test_following_goes_on_until_the_pod_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while nobody answers for a moment."""
    gone = {**told("out of memory"), "state": "Gone"}
    answers: list[Any] = [told("missing config map"), Retry("not now"), told("out of memory"), gone]

    async def tell(*_: object) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Retry):
            raise answer
        return answer

    monkeypatch.setattr("pykubelet.cli.stories.tell", tell)
    monkeypatch.setattr("time.sleep", lambda _: None)
    lines = explain("web", "--follow").output.splitlines()
    assert lines[0].startswith("web waits for ConfigMap default/app-config")
    assert lines[-2].startswith("web keeps crashing: ")
    assert answers == []


def test_a_list_of_an_agent_that_is_starting_does_not_say_that_all_are_well() -> None:
    assert list_text({"node": "n1", "items": [], "isStarting": True}) == (
        "node n1: its agent is just starting, and does not know all its pods yet."
    )


def test_what_a_pod_s_agent_says_is_worth_more_than_its_status() -> None:
    """A status does not tell that its container was ended with the node."""
    ended = {"terminated": {"exitCode": 137, "reason": "Error", "finishedAt": "2026-01-02T15:02:56Z"}}
    status = {"phase": "Running", "containerStatuses": one_status(ended)}
    stopped = pod(status=status, nodeName="n1")

    class Server:
        async def get(self, _: str, kind: Any) -> Any:
            return kind(items=(stopped,))

    async def listed(**answer: Any) -> int:
        async def of_node(_: str) -> Any:
            return {"items": [], **answer}

        return len((await _all_of(Server(), of_node, ""))["items"])

    assert asyncio.run(listed()) == 0
    assert asyncio.run(listed(isStarting=True)) == 1


@pytest.mark.parametrize(("words", "expected"), [
    ((), ("", "", False)),
    (("web",), ("web", "", False)),
    (("pod/web",), ("web", "", False)),
    (("pods", "web"), ("web", "", False)),
    (("default/web",), ("web", "default", False)),
    (("node/n1",), ("n1", "", True)),
    (("no", "n1"), ("n1", "", True)),
])  # fmt: skip
def test_a_name_may_be_as_kubectl_takes_it_or_as_a_list_prints_it(
    words: tuple[str, ...], expected: tuple[str, str, bool]
) -> None:
    assert named(words) == expected


@pytest.mark.parametrize("words", [("deploy/web",), ("Deployment", "web"), ("a/b/c",), ("pod/",), ("a", "b")])
def test_what_has_no_story_is_told_what_has(words: tuple[str, ...]) -> None:
    with pytest.raises(Invalid, match="explain takes "):
        named(words)


def test_names_with_their_kind_or_namespace_are_found(state: str) -> None:
    for name in ("pod/web", "default/web"):
        assert explain(name, "--root-dir", state).output.startswith("web fails: ")
    assert explain("other/web", "--root-dir", state, "-n", "default").exit_code == 2
    assert explain("other/web", "--root-dir", state).output.startswith(
        "pykubelet: nothing is written down of pod other"
    )


def test_where_the_time_went_includes_what_it_still_waits_for() -> None:
    span = {"stage": "sandbox", "what": "sandbox", "began": "2026-01-02T15:03:05Z", "seconds": 0.069}
    text = story_text({**told("missing image"), "criticalPath": [span]})
    assert "     0.069 s  sandbox\n    59.931 s  ready    not ready yet  <- most of it" in text


def test_without_an_agent_its_files_know_more_than_the_api_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, *ran_and_was_stopped(datetime.now(UTC), STATIC))
    crashed = {"namespace": "default", "name": "static-n1", "uid": "mirror-uid", "node": "n1"}
    waits = {"namespace": "default", "name": "waits", "uid": "u9", "node": ""}

    async def from_api(_: object, asked: Any) -> Any:
        return crashed if asked.name else {"items": [crashed, waits], "node": ""}

    monkeypatch.setattr("pykubelet.cli.stories._from_api", from_api)
    monkeypatch.setattr("pykubelet.cli.stories._settled", lambda _, asked: asked)
    places = Places(state=tmp_path, kubeconfig="x")
    listed = asyncio.run(tell(places, Asked()))["items"]
    assert [each["uid"] for each in listed] == [STATIC.uid, "u9"]
    assert asyncio.run(tell(places, Asked(name="static-n1")))["uid"] == STATIC.uid


def test_an_end_that_is_seen_after_the_next_start_is_not_the_end_of_that(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    written(
        tmp_path,
        *ran_and_was_stopped(now, WEB),
        (6, WEB, m.PhaseEntered(m.Phase.RUNNING)),
        (5, WEB, m.ContainerStarted("app", "container", 1)),
        (4, WEB, m.Exited("app", 0, 137, "Error", None, now - timedelta(seconds=8))),
    )
    told = json.loads(explain("web", "--root-dir", str(tmp_path), "-o", "json").output)
    assert (told["state"], told["cause"].get("wasStopped", False)) == ("Running", False)
