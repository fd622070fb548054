import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from pykubelet.api.rules.printed_pod import PrintedPod
from pykubelet.base.errors import Invalid
from pykubelet.up import cluster
from pykubelet.up.cluster import is_settled, progress, why_failing
from pykubelet.up.folder import Folder


def pod(phase: str = "Running", *, reason: str = "", deleting: bool = False, **statuses: Any) -> dict[str, Any]:
    meta = {"name": "web", "namespace": "default"} | ({"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleting else {})
    status = {"phase": phase, "reason": reason, "startTime": "2026-01-01T00:00:00Z", **statuses}
    init = [{"name": each["name"]} for each in statuses.get("initContainerStatuses", ())]
    return {"metadata": meta, "spec": {"containers": [{"name": "c"}], "initContainers": init}, "status": status}


def container(ready: bool = False, restarts: int = 0, **state: Any) -> dict[str, Any]:
    return {"name": "c", "ready": ready, "restartCount": restarts, "state": state}


def waiting(reason: str) -> list[dict[str, Any]]:
    return [container(waiting={"reason": reason})]


@pytest.mark.parametrize(
    ("shown", "settled", "given"),
    [
        ("Pending", False, pod("Pending")),
        ("ContainerCreating", False, pod("Pending", containerStatuses=waiting("ContainerCreating"))),
        ("Running", False, pod(containerStatuses=[container(running={})])),
        ("Running", True, pod(containerStatuses=[container(ready=True, running={})])),
        ("Completed", True, pod("Succeeded", containerStatuses=[container(terminated={"reason": "Completed"})])),
        ("Error", True, pod("Failed", containerStatuses=[container(terminated={"reason": "Error"})])),
        ("Error", False, pod(containerStatuses=[container(terminated={"reason": "Error"})])),
        ("CrashLoopBackOff", True, pod(containerStatuses=waiting("CrashLoopBackOff"))),
        ("CreateContainerError", True, pod("Pending", containerStatuses=waiting("CreateContainerError"))),
        ("ImagePullBackOff", True, pod("Pending", containerStatuses=waiting("ImagePullBackOff"))),
        ("OutOfcpu", True, pod("Failed", reason="OutOfcpu")),
        ("Init:0/1", False, pod("Pending", initContainerStatuses=[container(running={})])),
        ("Init:CrashLoopBackOff", True, pod("Pending", initContainerStatuses=waiting("CrashLoopBackOff"))),
        ("Terminating", False, pod(deleting=True)),
    ],
)
def test_a_pod_is_shown_as_kubectl_shows_it(shown: str, settled: bool, given: dict[str, Any]) -> None:
    assert (PrintedPod(given).reason, is_settled(given)) == (shown, settled)


def test_what_fails_is_not_counted_as_up() -> None:
    up = pod(containerStatuses=[container(ready=True, running={})])
    crashing, starting = pod(containerStatuses=waiting("CrashLoopBackOff")), pod("Pending")
    assert progress([up, up]) == "2 of 2 pods are up"
    assert progress([up, crashing, starting]) == "1 of 3 pods are up, 1 cannot run"


@pytest.mark.parametrize(
    ("why", "given"),
    [
        ("c: no such image", container(waiting={"reason": "ErrImagePull", "message": "no such image"})),
        ("c: it ended with code 3", container(terminated={"reason": "Error", "exitCode": 3})),
        (
            "c: its last words",
            container(waiting={"reason": "CrashLoopBackOff", "message": "back-off 10s"})
            | {"lastState": {"terminated": {"exitCode": 1, "message": "its last words"}}},
        ),
    ],
)
def test_why_a_pod_fails_is_told_in_the_words_of_its_status(why: str, given: dict[str, Any]) -> None:
    assert why_failing(pod(containerStatuses=[given])) == why


def test_a_disk_without_room_is_told_before_anything_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(200 << 10, 0, 200 << 10))
    folder = Folder(tmp_path / "not" / "there")
    with pytest.raises(Invalid, match=r"there: 200 KiB are free there, and it takes 16 MiB; make room, or choose"):
        cluster.up(folder, print)
    assert not (tmp_path / "not").exists()


def test_the_examples_are_in_nobodys_way() -> None:
    """`kubectl create deployment web` and `expose` select `app=web`: no pod of ours may be among those."""
    for path in (Path(__file__).parents[3] / "examples").glob("*.yaml"):
        meta = yaml.safe_load(path.read_text())["metadata"]
        assert meta.get("labels", {}).get("app") != meta["name"]
