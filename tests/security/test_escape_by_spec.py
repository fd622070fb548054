# ruff: noqa: ASYNC230, ASYNC240 - tests may block
"""A pod's author wants the files of the machine: by the names that he may choose (working folder, command), by what he
puts in the way of the next `exec`, and by whoever comes into his container."""

import asyncio
import fcntl
import os
from pathlib import Path
from typing import Final

import pytest

from contract.runtime import container_config, ended
from kit.waiting import eventually
from pykubelet.api.security import Capabilities, SecurityContext
from pykubelet.base.errors import Invalid
from unit.runtime.process.machine import UID, Machine, sandbox_of

PRECIOUS: Final = "precious-to-the-machine"
NOTHING: Final = SecurityContext(capabilities=Capabilities(drop=("ALL",)), read_only_root_filesystem=True)
TRACER: Final = SecurityContext(capabilities=Capabilities(add=("SYS_PTRACE",)))
PODS: Final = {
    "usual": sandbox_of(),
    "nothing": sandbox_of(NOTHING),
    "nothing-shared": sandbox_of(NOTHING, share_process_namespace=True),
    "tracer": sandbox_of(TRACER),
    "tracer-shared": sandbox_of(TRACER, share_process_namespace=True),
}
MAGIC: Final = ("/proc/1/root", "/proc/1/cwd", "/proc/self/root", "/proc/self/cwd", "/proc/thread-self/root")
DESCRIPTORS: Final = tuple(f"/proc/self/fd/{number}" for number in range(3, 10))
LOOK: Final = f"cat {PRECIOUS}; echo mine > written; echo over"

# Looks at everybody there is, for as long as it runs, and says what it should not have got.
WATCHER: Final = """
import os, sys
secret = sys.argv[1]
mine = int([line for line in open("/proc/self/status") if line.startswith("CapPrm")][0].split()[1], 16)
seen = set()
print("watching", flush=True)
while not os.path.exists("/tmp/enough"):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            status = dict(line.split(":", 1) for line in open(f"/proc/{pid}/status"))
            more = int(status["CapPrm"], 16) & ~mine
            places = [f"/proc/{pid}/root", f"/proc/{pid}/cwd"]
            try:
                places += [f"/proc/{pid}/fd/{number}" for number in os.listdir(f"/proc/{pid}/fd")]
            except OSError:
                pass
            found = [place for place in places if os.path.exists(place + secret)]
        except (OSError, KeyError):
            continue
        seen.add(pid)
        if more or found:
            print("bad", pid, status["Name"].strip(), hex(more), found, flush=True)
print("seen", len(seen), flush=True)
"""

# Holds on to the file that others run, and tries to have it for writing when they no longer do.
WRITER: Final = """
import mmap, os, sys, time
held = {}
print("waiting", flush=True)
while not os.path.exists("/tmp/enough"):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            name = os.readlink(f"/proc/{pid}/exe")
            if name not in held:
                held[name] = os.open(f"/proc/{pid}/exe", os.O_RDONLY)
        except OSError:
            continue
foreign = {name: fd for name, fd in held.items() if name.startswith("/memfd:") or not os.path.exists(name)}
for name, fd in foreign.items():
    for attempt in range(50):
        try:
            again = os.open(f"/proc/self/fd/{fd}", os.O_RDWR)
            mmap.mmap(again, 0, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
            print("bad", name, flush=True)
            break
        except OSError as error:
            why = error
            if error.errno != 26:
                break
            time.sleep(0.02)
    print("tried", name, why, flush=True)
print("over", flush=True)
"""
PYTHON: Final = "/usr/bin/python3"
needs_python = pytest.mark.skipif(not os.path.exists(PYTHON), reason=f"needs {PYTHON}, which containers see")


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """The folder with what belongs to the machine. Containers have another /tmp."""
    folder = tmp_path / "precious"
    folder.mkdir()
    (folder / PRECIOUS).write_text("secret")
    return folder


def kept(precious: Path) -> bool:
    return sorted(os.listdir(precious)) == [PRECIOUS]


@pytest.mark.parametrize("pod", PODS)
async def test_a_working_folder_leads_nowhere_else(isolated: Machine, precious: Path, pod: str) -> None:
    for attempt, magic in enumerate((*MAGIC, *DESCRIPTORS)):
        ways = (f"{magic}{precious}", f"{magic}/../../..{precious}", f"/usr/../{magic}{precious}")
        for number, folder in enumerate(ways if magic in MAGIC[:1] else ways[:1]):
            try:
                fields = {"attempt": attempt * 10 + number, "working_dir": folder}
                container_id = await isolated.start(LOOK, sandbox=PODS[pod], **fields)
            except Invalid as error:
                assert "working directory" in str(error)  # noqa: PT017 - one of two good ends
            else:
                await ended(isolated.runtime, UID, container_id)
                assert "secret" not in isolated.output(container_id)
        assert kept(precious)


@pytest.mark.parametrize("pod", ["usual", "tracer", "tracer-shared"])
async def test_a_working_folder_that_was_exchanged_is_not_entered(isolated: Machine, precious: Path, pod: str) -> None:
    script = "cd /; mv /place /gone; mkdir /ways; n=0; for way in $WAYS; do n=$((n+1)); ln -s $way /ways/$n; done; "
    script += "ln -s /ways/1 /place; echo ready; while :; do sleep 1000; done"
    ways = [f"{magic}{precious}" for magic in (*MAGIC, *DESCRIPTORS)]
    fields = {"env": (("WAYS", " ".join(ways)),), "working_dir": "/place"}
    container_id = await isolated.start(script, sandbox=PODS[pod], **fields)
    await eventually(lambda: "ready" in isolated.output(container_id))
    main = isolated.main(container_id).pid
    for number in range(1, len(ways) + 1):
        link = Path(f"/proc/{main}/root/place")
        link.unlink()
        link.symlink_to(f"/ways/{number}")
        with pytest.raises(Invalid, match="working directory"):
            await isolated.runtime.exec_sync(container_id, ("sh", "-c", LOOK), 10)
    assert kept(precious)


@pytest.mark.parametrize("pod", ["usual", "tracer-shared"])
async def test_a_command_is_none_of_the_machines(isolated: Machine, precious: Path, pod: str) -> None:
    (precious / PRECIOUS).write_text("#!/bin/sh\necho secret")
    (precious / PRECIOUS).chmod(0o755)
    container_id = await isolated.start("while :; do sleep 1000; done", sandbox=PODS[pod])
    for magic in (*MAGIC, *DESCRIPTORS):
        with pytest.raises(Invalid, match="exec: "):
            await isolated.runtime.exec_sync(container_id, (f"{magic}{precious}/{PRECIOUS}",), 10)


@needs_python
@pytest.mark.parametrize("pod", ["usual", "tracer"])
async def test_who_comes_in_is_no_file_that_can_be_written(isolated: Machine, pod: str) -> None:
    """The container has it run itself, by name and as the interpreter of a script, and waits until nobody does."""
    script = 'printf "#!/proc/self/exe\\n" > /tmp/itself; chmod +x /tmp/itself; exec $PYTHON -c "$WRITER"'
    env = (("WRITER", WRITER), ("PYTHON", PYTHON))
    container_id = await isolated.start(script, sandbox=PODS[pod], env=env)
    await eventually(lambda: "waiting" in isolated.output(container_id))
    for command in (("/proc/self/exe", "-c", "import time; time.sleep(0.3)"), ("/tmp/itself",)):
        for _ in range(3):
            await isolated.runtime.exec_sync(container_id, command, 10)
    await isolated.runtime.exec_sync(container_id, ("touch", "/tmp/enough"), 10)
    await ended(isolated.runtime, UID, container_id)
    output = isolated.output(container_id)
    abilities = isolated.runtime._abilities
    assert abilities is not None
    meets_others = pod == "tracer" or bool(abilities.scope_refusal)  # else the kernel does not let it look at them
    assert ("tried /memfd:python" in output) is meets_others, output
    assert "bad" not in output
    process = isolated.runtime._spawner._process
    assert process is not None
    with open(f"/proc/{process.pid}/exe", "rb") as file:
        assert fcntl.fcntl(file, fcntl.F_GET_SEALS) == 0xF


@needs_python
@pytest.mark.parametrize("pod", ["tracer", "tracer-shared"])
async def test_nobody_of_the_machine_is_met_inside(isolated: Machine, precious: Path, pod: str) -> None:
    """Not while containers start beside it and commands come in, and not with the right to look at everybody."""
    sandbox_id = (await isolated.runtime.run_sandbox(PODS[pod])).id
    command = (PYTHON, "-c", WATCHER, f"{precious}/{PRECIOUS}")
    watcher = await isolated.runtime.create_container(sandbox_id, container_config(isolated, command=command))
    await isolated.runtime.start_container(watcher)
    await eventually(lambda: "watching" in isolated.output(watcher))
    for attempt in range(4):
        config = container_config(isolated, "other", attempt, command=("sh", "-c", "while :; do sleep 1000; done"))
        other = await isolated.runtime.create_container(sandbox_id, config)
        await isolated.runtime.start_container(other)
        await asyncio.gather(*(isolated.runtime.exec_sync(each, ("true",), 10) for each in (watcher, other, watcher)))
        await isolated.runtime.stop_container(other, 0)
    await isolated.runtime.exec_sync(watcher, ("touch", "/tmp/enough"), 10)
    await ended(isolated.runtime, UID, watcher)
    output = isolated.output(watcher)
    assert "bad" not in output, output
    assert int(output.rpartition("seen ")[2]) > 4  # it has met those who came in


@pytest.mark.parametrize("tty", [False, True], ids=["pipes", "terminal"])
async def test_nothing_is_left_open(isolated: Machine, tty: bool) -> None:
    script = "ls /proc/self/fd; echo over; while :; do sleep 1000; done"
    container_id = await isolated.start(script, tty=tty, stdin=True)
    await eventually(lambda: "over" in isolated.output(container_id))
    assert isolated.output(container_id).split() == ["0", "1", "2", "3", "over"]  # 3 is the folder that `ls` reads
    result = await isolated.runtime.exec_sync(container_id, ("ls", "/proc/self/fd"), 10)
    assert result.stdout.split() == [b"0", b"1", b"2", b"3"]
    result = await isolated.runtime.exec_sync(container_id, ("sh", "-c", "ls /proc/1/fd"), 10)
    assert result.stdout.split() in ([b"0", b"1", b"2"], [b"0", b"1", b"10", b"2"])  # a shell's own is 10
