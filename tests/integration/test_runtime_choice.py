"""Which runtime `up` takes when nobody says: a real one that is free, and never one that runs somebody's pods."""

import asyncio
import os
from pathlib import Path

import pytest

from kit.containerd import Containerd
from kit.pods import make_pod
from pykubelet.base.errors import Invalid, Retry
from pykubelet.pod.container.sandbox_config import sandbox_config
from pykubelet.runtime.cri.runtime import CriRuntime
from pykubelet.up.runtime_choice import check_runtime, choose_runtime


def test_without_a_socket_containers_are_processes_of_this_machine(tmp_path: Path) -> None:
    choice = choose_runtime(tmp_path, [tmp_path / "none.sock"])
    assert choice.endpoint == "process"
    assert choice.why == "Containers are processes of this machine (there is no container runtime here)."


def test_a_socket_that_nobody_answers_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "dead.sock").touch()
    choice = choose_runtime(tmp_path, [tmp_path / "dead.sock"])
    assert choice.endpoint == "process"
    assert "dead.sock" in choice.why


def test_a_container_runtime_that_is_free_is_taken(tmp_path: Path, containerd: Containerd) -> None:
    choice = choose_runtime(tmp_path, [tmp_path / "none.sock", containerd.socket])
    assert choice.endpoint == containerd.endpoint
    assert choice.why.startswith("Containers run on containerd ")


async def test_a_container_runtime_with_pods_of_somebody_else_is_left_alone(
    tmp_path: Path, containerd: Containerd
) -> None:
    runtime = CriRuntime(containerd.endpoint)
    sandbox = (await runtime.run_sandbox(sandbox_config(make_pod("theirs"), 0, log_root=str(tmp_path / "logs")))).id
    try:
        choice = await asyncio.to_thread(choose_runtime, tmp_path, [containerd.socket])
        with pytest.raises(Invalid, match="runs 1 pods of somebody else"):  # also when somebody names it
            await asyncio.to_thread(check_runtime, containerd.endpoint, tmp_path)
    finally:
        await runtime.remove_sandbox(sandbox)
        await runtime.close()
    assert choice.endpoint == "process"
    assert "runs 1 pods of somebody else" in choice.why


def test_a_runtime_that_is_named_has_to_answer(tmp_path: Path, containerd: Containerd) -> None:
    assert check_runtime(containerd.endpoint, tmp_path).startswith("Containers run on containerd ")
    assert check_runtime("process", tmp_path) == ""
    with pytest.raises(Invalid, match=r"none.sock cannot be used: .*; name another with --container-runtime-endpoint"):
        check_runtime(f"{tmp_path}/none.sock", tmp_path)


def test_a_socket_in_a_folder_that_is_not_for_us_is_as_if_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: object, **__: object) -> os.stat_result:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(os, "stat", denied)
        choice = choose_runtime(tmp_path, [Path("/run/containerd/containerd.sock")])
    assert choice.endpoint == "process"


async def test_images_may_come_from_another_endpoint_and_the_runtime_is_told_the_pods_addresses(
    tmp_path: Path, containerd: Containerd
) -> None:
    other = tmp_path / "images.sock"
    other.symlink_to(containerd.socket)
    runtime = CriRuntime(containerd.endpoint, image_endpoint=f"unix://{other}")
    try:
        assert runtime.capabilities.set_pod_cidr is not None
        await runtime.capabilities.set_pod_cidr("10.88.0.0/24")
        assert await runtime.image_storage() is not None
        other.unlink()
        other.symlink_to(tmp_path / "gone.sock")
        elsewhere = CriRuntime(containerd.endpoint, image_endpoint=f"unix://{other}")
        try:
            await elsewhere.version()
            with pytest.raises(Retry):
                await elsewhere.image("a")
        finally:
            await elsewhere.close()
    finally:
        await runtime.close()
