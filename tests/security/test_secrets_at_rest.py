# ruff: noqa: ASYNC240 - tests may block
"""Who gets hold of the disk finds no secret that a container was given by its environment."""

import json
import os
import secrets
from pathlib import Path

import pytest

from contract.runtime import container_config
from pykubelet.base.errors import Invalid
from pykubelet.runtime.process.memory import is_memory, memory_folder
from unit.runtime.process.machine import Machine, sandbox_of

SECRET = f"c0rrect-horse-{secrets.token_hex(4)}"
ENV = (("PASSWORD", SECRET), ("PATH", os.environ["PATH"]))
SHOWN = ("sh", "-c", "echo $PASSWORD")
LOGIN = ("sh", "-c", f"exec sleep 1000 # login --password {SECRET}")
"""As it is when the pod's author has written $(PASSWORD)."""


def written_below(*folders: Path) -> list[Path]:
    """Every file on disk that holds it. What cannot be read is a pipe or gone."""
    found = []
    for folder in folders:
        for path in folder.rglob("*"):
            if path.is_file() and not path.is_symlink() and SECRET.encode() in path.read_bytes():
                found.append(path)
    return found


@pytest.fixture
def memory(any_machine: Machine) -> Path:
    found = memory_folder(any_machine.root)
    if found is None:
        pytest.skip("this machine has no place that is memory")
    return found


async def test_no_file_on_disk_has_what_a_container_was_told(
    any_machine: Machine, memory: Path, tmp_path: Path
) -> None:
    sandbox_id = (await any_machine.runtime.run_sandbox(sandbox_of())).id
    config = container_config(any_machine, command=LOGIN, env=ENV)
    container_id = await any_machine.runtime.create_container(sandbox_id, config)
    assert not written_below(tmp_path)
    await any_machine.runtime.start_container(container_id)
    assert not written_below(tmp_path)
    assert written_below(memory) == [memory / f"{container_id}.json"]
    assert is_memory(memory)
    assert (memory.stat().st_mode & 0o777, memory.stat().st_uid) == (0o700, os.getuid())
    assert (await any_machine.runtime.exec_sync(container_id, SHOWN, 10)).stdout.decode() == SECRET + "\n"
    await any_machine.runtime.remove_container(container_id)
    assert not written_below(tmp_path, memory)


async def test_an_agent_that_comes_later_still_knows_it(any_machine: Machine, memory: Path, tmp_path: Path) -> None:
    container_id = await any_machine.start("", command=LOGIN, env=ENV)
    runtime = await any_machine.restarted()
    assert (await runtime.exec_sync(container_id, SHOWN, 10)).stdout.decode() == SECRET + "\n"
    assert not written_below(tmp_path)


async def test_a_container_that_was_only_made_starts_under_the_next_agent(any_machine: Machine, memory: Path) -> None:
    sandbox_id = (await any_machine.runtime.run_sandbox(sandbox_of())).id
    config = container_config(any_machine, command=("sh", "-c", "echo $PASSWORD; sleep 1000"), env=ENV)
    container_id = await any_machine.runtime.create_container(sandbox_id, config)
    runtime = await any_machine.restarted()
    await runtime.start_container(container_id)
    assert (await runtime.exec_sync(container_id, SHOWN, 10)).stdout.decode() == SECRET + "\n"


async def test_what_an_agent_of_before_has_left_on_disk_is_taken_from_there(
    any_machine: Machine, memory: Path, tmp_path: Path
) -> None:
    container_id = await any_machine.start("", command=LOGIN, env=ENV)
    private, state = memory / f"{container_id}.json", any_machine.root / "containers" / container_id / "state.json"
    whole = json.loads(state.read_text())
    whole["config"] |= json.loads(private.read_text())
    state.write_text(json.dumps(whole))
    private.unlink()
    runtime = await any_machine.restarted()
    assert (await runtime.exec_sync(container_id, SHOWN, 10)).stdout.decode() == SECRET + "\n"
    assert not written_below(tmp_path)


async def test_what_is_lost_is_not_made_up(any_machine: Machine, memory: Path) -> None:
    container_id = await any_machine.start("", command=LOGIN, env=ENV)
    (memory / f"{container_id}.json").unlink()
    runtime = await any_machine.restarted()
    with pytest.raises(Invalid, match="the environment of container c is lost"):
        await runtime.exec_sync(container_id, SHOWN, 10)
    await runtime.stop_container(container_id, 0)


async def test_what_a_killed_agent_left_is_cleared_by_the_next(any_machine: Machine, memory: Path) -> None:
    (memory / "0123.json").write_text(SECRET)
    await any_machine.runtime.status()
    assert not list(memory.iterdir())


async def test_no_other_pod_reads_it(isolated: Machine) -> None:
    await isolated.start("", command=LOGIN, env=ENV)
    script = f"""
    exec 2>/dev/null
    for place in /dev/shm /run; do grep -rlF {SECRET[:10]}''{SECRET[10:]} $place/pykubelet-*; done
    for pid in /proc/[0-9]*; do tr '\\0' '\\n' < $pid/environ | grep ^PASSWORD; done
    echo over
    """
    container_id = await isolated.start("sleep 1000", sandbox=sandbox_of(host_ipc=True), name="c", attempt=7)
    result = await isolated.runtime.exec_sync(container_id, ("sh", "-c", script), 20)
    assert result.stdout == b"over\n"


@pytest.mark.skipif(os.getuid() != 0, reason="takes another user")
def test_a_folder_that_somebody_else_made_is_not_used(tmp_path: Path) -> None:
    place = next((each for each in (Path("/run"), Path("/dev/shm")) if is_memory(each)), None)
    if place is None:
        pytest.skip("this machine has no place that is memory")
    found = memory_folder(tmp_path, [place])
    assert found is not None
    try:
        os.chown(found, 65534, 65534)
        with pytest.raises(Invalid, match="is not ours alone"):
            memory_folder(tmp_path, [place])
        os.chown(found, 0, 0)
        found.chmod(0o755)
        with pytest.raises(Invalid, match="is not ours alone"):
            memory_folder(tmp_path, [place])
        found.rmdir()
        found.symlink_to(tmp_path)
        with pytest.raises(Invalid, match="is not ours alone"):
            memory_folder(tmp_path, [place])
    finally:
        found.unlink() if found.is_symlink() else found.rmdir()


def test_a_disk_is_no_memory(tmp_path: Path) -> None:
    assert not is_memory(Path("/proc"))
    assert not is_memory(tmp_path / "nowhere")
    assert memory_folder(tmp_path, [Path("/proc"), tmp_path / "nowhere"]) is None
