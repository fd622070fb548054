"""The first line of twenty-odd broken pods, what programs find in the JSON, and where the time went."""

import json
from datetime import timedelta
from typing import get_args

import pytest
from msgspec.structs import replace

from pykubelet.api import codec
from pykubelet.pod import moments as m
from pykubelet.pod.lifecycle.pod_update import Op
from pykubelet.pod.story import causes
from pykubelet.pod.story.advice import advice, next_step
from pykubelet.pod.story.diagnosis import NodeTrouble
from pykubelet.pod.story.sentences import sentence
from pykubelet.pod.story.story import Story, story
from unit.pod.story.broken_pods import CASES, NOW, RUNNING, Case, ago, noted, one_status, pod


def told(case: Case) -> Story:
    return story(
        case.pod,
        case.moments,
        now=NOW,
        last_words={"app": case.last_words, "prepare": case.last_words},
        trouble=case.trouble,
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_first_line_names_the_cause_and_what_comes_next(case: Case) -> None:
    found = told(case)
    assert found.sentence == case.line
    assert found.state == case.state
    assert not found.is_well


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_programs_find_the_cause_by_its_code(case: Case) -> None:
    found = json.loads(codec.encode(told(case)))
    assert found["version"] == 1
    assert (found["name"], found["namespace"], found["uid"]) == ("web", "default", "u1")
    assert found["cause"]["code"] == case.code
    assert {name: found["cause"].get(name, False) for name in case.names} == case.names
    assert found["next"]["by"] in ("time", "object", "change", "node", "probe", "never")


def test_a_cause_that_ends_with_time_says_when() -> None:
    case = next(case for case in CASES if case.name == "missing image")
    found = json.loads(codec.encode(told(case)))
    assert found["next"] == {"by": "time", "what": "next pull in 38 s", "at": "2026-01-02T15:04:43Z"}


def test_codes_are_stable() -> None:
    """A program may look for any of them: to take one away or give it another name breaks it."""
    codes = (
        "NotScheduled SchedulingGated NoRoom NoDevices UntoleratedTaint ImageNotFound TagNotFound ImageDenied "
        "RegistryUnreachable "
        "ImagePullFailed ImageNeverPulled InvalidImageName PullSlow ObjectNotFound KeyNotFound VolumeFailed "
        "ClaimNotReady DriverAway "
        "NetworkNotReady SandboxFailed PortTaken ContainerNotMade WrongUser CommandNotFound Crashed OutOfMemory "
        "ReadOnlyFileSystem PermissionDenied ProbeFailed HookFailed ReadinessGate RuntimeDown ApiServerAway AgentDown "
        "Evicted Preempted DeadlineExceeded Rejected Failed"
    )
    assert {kind.__name__ for kind in get_args(causes.Cause)} == set(codes.split())


@pytest.mark.parametrize(
    "cause",
    [
        causes.SchedulingGated(gates=("quota",)),
        causes.NotScheduled(),
        causes.ImagePullFailed(container="app", image="x", message="disk full"),
        causes.InvalidImageName(container="app", image="X Y"),
        causes.ClaimNotReady(claim="gpu", message="not allocated"),
        causes.DriverAway(driver="gpu.example.com", message="DRA driver gpu.example.com is not registered"),
        causes.NetworkNotReady(message="no CNI"),
        causes.SandboxFailed(message="no CNI"),
        causes.ContainerNotMade(container="app", reason="CreateContainerError", message="no"),
        causes.HookFailed(container="app", hook="postStart"),
        causes.ReadinessGate(gates=("a/b",)),
        causes.AgentDown(since=ago(60)),
        causes.Preempted(by="kube-system/dns"),
        causes.DeadlineExceeded(seconds=30),
        causes.Rejected(reason="NodeAffinity", message="no match"),
        causes.Failed(reason="Shutdown"),
    ],
    ids=lambda cause: type(cause).__name__,
)
def test_every_other_cause_has_a_sentence_and_a_next_step(cause: causes.Cause) -> None:
    assert sentence(cause, NOW)
    assert next_step(cause, None, NOW, restarts=True).what


def test_a_pod_that_runs_is_well() -> None:
    found = story(pod(status={"phase": "Running", "containerStatuses": one_status(RUNNING, ready=True)}), (), now=NOW)
    assert (found.sentence, found.is_well, found.cause) == ("web runs for 60s; all is well.", True, None)


def test_a_container_that_has_ended_well_is_no_trouble() -> None:
    done = {"terminated": {"exitCode": 0, "reason": "Completed"}}
    found = story(pod(status={"phase": "Succeeded", "containerStatuses": one_status(done)}), (), now=NOW)
    assert (found.state, found.cause) == ("Succeeded", None)


def test_a_job_that_has_failed_is_not_started_again() -> None:
    ended = {"terminated": {"exitCode": 3, "reason": "Error"}}
    status = {"phase": "Failed", "containerStatuses": one_status(ended)}
    found = story(pod(status=status, restartPolicy="Never"), (), now=NOW)
    assert found.sentence == "web fails: app exited with code 3; it is not started again (restartPolicy)."


def test_a_pod_that_is_gone_is_told_from_its_moments_alone() -> None:
    moments = (
        noted(m.ContainerStarted("app", "container", 2), 20),
        noted(m.Exited("app", 2, 137, "OOMKilled", ago(20), ago(10)), 10),
        noted(m.PodDeleted(), 5),
    )
    found = story(None, moments, now=NOW, is_gone=True, node="n1")
    assert found.sentence == ("web is gone; at last it keeps crashing: app exited 3 times with code 137 (OOMKilled).")
    assert (found.state, found.is_well, found.next) == ("Gone", True, None)


def test_a_port_that_is_roots_is_not_taken_for_a_file() -> None:
    for words, expected in (
        ("httpd: bind: Permission denied", "port from 1024 on"),
        ("listen tcp :80: permission denied", "port from 1024 on"),
        ("cat: can't open '/etc/shadow': Permission denied", "runAsUser or fsGroup"),
    ):
        denied = causes.PermissionDenied(container="app", exit_code=1, last_words=words)
        assert expected in advice(denied, "default", "web")[0]


def test_who_ran_out_of_memory_is_told_with_what_it_had() -> None:
    moments = (noted(m.Exited("app", 2, 137, "OOMKilled", ago(20), ago(10), (64 << 20) - 4096), 10),)
    case = next(case for case in CASES if case.name == "out of memory")
    found = story(case.pod, moments, now=NOW)
    assert "(OOMKilled: limit 64Mi, peak 64Mi)" in found.sentence
    assert json.loads(codec.encode(found))["cause"]["peak"] == "64Mi"


@pytest.mark.parametrize("at", [9.5, 9.0], ids=["to the second", "as it was"])
def test_who_ends_because_its_pod_is_stopped_has_not_failed(at: float) -> None:
    """The times of a status are whole seconds."""
    moments = (
        noted(m.StopAsked("deleted", 30.0), 9.6 if at == 9.0 else 9.5),
        noted(m.PhaseEntered(m.Phase.STOPPING), 9.5),
    )
    finished = "2026-01-02T15:03:55Z" if at == 9.5 else "2026-01-02T15:03:56Z"
    ended = {"terminated": {"exitCode": 143, "reason": "Error", "finishedAt": finished}}
    status = {"phase": "Running", "containerStatuses": one_status(ended)}
    assert story(pod(status=status), moments, now=NOW).cause is None
    assert story(pod(status=status), (), now=NOW).cause is not None


def test_a_side_car_that_was_ended_with_its_pod_is_no_cause() -> None:
    killed = {"terminated": {"exitCode": 137, "reason": "Error"}}
    side = [{"name": "side", "image": "x", "restartPolicy": "Always"}]
    for phase, code, cause in (("Succeeded", 0, None), ("Failed", 3, "app")):
        ended = {"terminated": {"exitCode": code, "reason": "Error"}}
        status = {
            "phase": phase,
            "initContainerStatuses": [{**one_status(killed)[0], "name": "side"}],
            "containerStatuses": one_status(ended),
        }
        found = story(pod(status=status, restartPolicy="Never", initContainers=side), (), now=NOW)
        assert getattr(found.cause, "container", None) == cause
        assert found.is_well is (cause is None)


def test_a_container_that_could_not_be_started_is_told_from_its_moments_alone() -> None:
    moments = (
        noted(m.StartFailed("app", "container", "ErrImagePull", "r/x: MANIFEST_UNKNOWN", 2.0), 20),
        noted(m.BackedOff("app", NOW + timedelta(seconds=10), "r/x:1"), 10),
        noted(m.StartFailed("app", "container", "ImagePullBackOff", "Back-off: manifest unknown", 2.0), 10),
    )
    found = story(None, moments, now=NOW)
    assert isinstance(found.cause, causes.TagNotFound)
    assert found.sentence.endswith("next pull in 10 s.")


def _start() -> tuple[m.Noted, ...]:
    return (
        noted(m.Merged(Op.ADD, "api"), 60.0),
        noted(m.Began(1, ago(60), True), 59.9),
        noted(m.StepEnded("volumes", 0.4), 59.5),
        noted(m.SandboxMade(0, "", False, 0.5), 59.0),
        noted(m.PullEnded("busybox", 20.0, 20.0, 4 << 20), 39.0),
        noted(m.ContainerStarted("prepare", "init_container", 0), 38.9),
        noted(m.Exited("prepare", 0, 0, "Completed", ago(38.9), ago(34)), 33.9),
        noted(m.ContainerStarted("app", "container", 0), 33.0),
        noted(m.StatusSet("Running", "", False, ago(33)), 33.0),
        noted(m.StatusSet("Running", "", True, ago(33)), 30.0),
        noted(m.Exited("app", 0, 1, "Error", ago(33), ago(10)), 10.0),
    )


def test_the_critical_path_is_the_time_until_ready_without_a_gap() -> None:
    found = story(None, _start(), now=NOW)
    stages = [("waiting", 0.1), ("volumes", 0.4), ("sandbox", 0.5), ("pull", 20.0), ("init", 5.0), ("start", 1.0)]
    assert [(each.stage, each.seconds) for each in found.critical_path] == [*stages, ("ready", 3.0)]
    assert found.ready_after == pytest.approx(30.0)
    took = {each.stage: each.took for each in found.critical_path if each.took is not None}
    assert took == {"volumes": 0.4, "sandbox": 0.5, "pull": 20.0, "init": 4.9}


def test_the_timeline_has_durations_and_can_be_cut() -> None:
    found = story(None, _start(), now=NOW)
    assert [(each.what, each.seconds) for each in found.timeline if each.seconds][:3] == [
        ("volumes", 0.4), ("sandbox", 0.5), ("pulled busybox, 4 MiB", 20.0)
    ]  # fmt: skip
    assert [each.what for each in story(None, _start(), now=NOW, since=ago(20)).timeline] == [
        "exited with code 1 (Error)"
    ]


def test_what_a_program_says_stays_in_its_line() -> None:
    """Its last words are a stranger's text."""
    case = replace_words("boom\n\x1b[2J; web runs; all is well.\n" + "x" * 5000 + "\n")
    assert "\n" not in case.sentence
    assert "\x1b" not in case.sentence
    assert len(case.sentence) < 400


def replace_words(words: str) -> Story:
    case = next(case for case in CASES if case.name.startswith("crash loop"))
    return told(case._replace(last_words=words))


def test_a_pod_that_is_being_deleted_is_stopping() -> None:
    case = next(case for case in CASES if case.name == "out of memory")
    meta = replace(case.pod.metadata, deletion_timestamp=NOW)
    found = told(case._replace(pod=replace(case.pod, metadata=meta)))
    assert found.state == "Stopping"
    assert found.sentence.startswith("web is being stopped; before that it keeps crashing: ")


def test_a_volume_without_a_name_is_found_by_its_path() -> None:
    volume = {"name": "data", "hostPath": {"path": "/srv/x"}}
    moments = (noted(m.Awaiting("volume", "", "hostPath type check failed: /srv/x is not a directory")),)
    found = story(pod(volumes=[volume]), moments, now=NOW)
    assert found.sentence.startswith("web waits for volume data, which cannot be mounted: hostPath type check failed")


def test_a_program_that_could_not_be_started_is_told_from_its_moments_alone() -> None:
    why = 'exec: "/bin/nope": no such file or directory'
    moments = (
        noted(m.StartFailed("app", "container", "RunContainerError", why, 1.0), 20),
        noted(m.Exited("app", 0, 128, "StartError", None, ago(20)), 20),
        noted(m.StartFailed("app", "container", "CrashLoopBackOff", "back-off 10s restarting", 8.0), 10),
    )
    assert story(None, moments, now=NOW).sentence.startswith(f"web cannot run /bin/nope in container app: {why}; ")


def test_nothing_is_promised_while_no_agent_runs() -> None:
    moments = (noted(m.Exited("app", 0, 1, "Error", ago(20), ago(10)), 10),)
    found = story(None, moments, now=NOW, trouble=NodeTrouble(agent=True))
    assert found.sentence == (
        "web fails: app exited with code 1; nothing is started or tried until the node's agent runs again."
    )


@pytest.mark.parametrize(("policy", "after"), [
    ("Always", "it is started again when it has ended, 25 s from now at the latest"),
    ("Never", "it is not started again (restartPolicy)"),
])  # fmt: skip
def test_a_container_that_is_being_ended_for_its_probe_is_not_well(policy: str, after: str) -> None:
    """It is as ready as ever until it has ended."""
    status = {"phase": "Running", "containerStatuses": one_status(RUNNING, ready=True)}
    started = noted(m.ContainerStarted("app", "container", 0), 60)
    failed = noted(m.EventRecorded("Warning", "Unhealthy", "Liveness probe failed: no answer"), 6)
    killed = noted(m.ContainerStopping("app", 30, "Container app failed liveness probe, will be restarted"), 5)
    found = story(pod(status=status, restartPolicy=policy), (started, failed, killed), now=NOW)
    assert found.sentence == f"web is ending container app: its liveness probe has failed: no answer; {after}."
    assert (found.state, found.is_well) == ("Failing", False)
    again = noted(m.ContainerStarted("app", "container", 1), 1)
    assert story(pod(status=status), (started, failed, killed, again), now=NOW).is_well


def test_a_pod_that_runs_without_its_image_says_so() -> None:
    event = noted(m.EventRecorded("Warning", "ImageNotPulled", "this machine's programs run instead"), 61)
    said = "web runs for 60s; not its image, but this machine's programs: the registry cannot be reached."
    for image, after, expected in (
        ("machine", (), said),
        ("sha256:1", (), "web runs for 60s; all is well."),
        ("machine", (noted(m.PullEnded("r/x:1", 1.0), 60.5),), "web runs for 60s; all is well."),
    ):
        status = [{**one_status(RUNNING, ready=True)[0], "imageID": image}]
        here = pod(status={"phase": "Running", "containerStatuses": status})
        found = story(here, (event, *after), now=NOW)
        assert (found.sentence, found.is_well) == (expected, True)


def test_who_cannot_reach_a_registry_hears_what_does_without() -> None:
    for cause in (
        causes.RegistryUnreachable(container="app", image="nginx", message=""),
        causes.ImageNeverPulled(container="app", image="nginx"),
    ):
        words = " ".join(advice(cause, "web", "default"))
        assert "pykubelet image import" in words
        assert "image: host" in words


def test_an_end_is_told_once_and_after_its_start() -> None:
    """The runtime may know whole seconds, and the next agent sees the end once more."""
    end = m.Exited("app", 0, 3, "Error", ago(10), ago(10))
    moments = (noted(m.ContainerStarted("app", "container", 0), 9.4), noted(end, 9.3), noted(end, 2))
    assert [each.what for each in story(None, moments, now=NOW).timeline] == ["started", "exited with code 3 (Error)"]


def test_the_time_until_it_was_started_once_more_is_not_until_ready() -> None:
    moments = (
        noted(m.Began(1, ago(20), True), 20),
        noted(m.ContainerStarted("app", "container", 0), 19),
        noted(m.Exited("app", 0, 3, "Error", ago(19), ago(19)), 19),
        noted(m.ContainerStarted("app", "container", 1), 9),
        noted(m.StatusSet("Running", "", True, ago(9)), 8.5),
    )
    path = story(None, moments, now=NOW).critical_path
    assert [(each.stage, each.what, each.seconds) for each in path[1:]] == [
        ("start", "app", 1.0), ("start", "app, once more", 10.0), ("ready", "until Ready", 0.5)
    ]  # fmt: skip


def test_who_was_started_by_an_earlier_agent_is_ended_for_its_probe_all_the_same() -> None:
    status = {"phase": "Running", "containerStatuses": one_status({"terminated": {"exitCode": 137}}, restarts=3)}
    moments = (
        noted(m.ContainerStopping("app", 1, "Container app failed liveness probe, will be restarted"), 5),
        noted(m.Exited("app", 3, 137, "Error", ago(90), ago(4)), 4),
    )
    assert isinstance(story(pod(status=status), moments, now=NOW).cause, causes.ProbeFailed)
