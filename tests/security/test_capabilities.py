"""What a container is not given it does not have, neither its program nor a command, in no set of any kind."""

import ctypes
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from kit.waiting import eventually
from pykubelet.api.security import Capabilities, SecurityContext
from pykubelet.runtime.process.shim import kernel
from unit.runtime.process.machine import Machine, sandbox_of

USUAL: Final = 0xA80405FB
BIND: Final = 1 << 10
PTRACE: Final = 1 << 19
NONE: Final = Capabilities(drop=("ALL",))
only_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root")
LOOK: Final = "grep -E 'Cap(Inh|Prm|Eff|Bnd|Amb)' /proc/self/status"


def sets(text: str) -> dict[str, int]:
    return {name: int(value, 16) for name, value in re.findall(r"Cap(\w+):\s*(\w+)", text)}


@pytest.mark.parametrize(
    ("context", "had", "bound"),
    [
        (SecurityContext(), USUAL, USUAL),
        (SecurityContext(capabilities=NONE), 0, 0),
        (SecurityContext(capabilities=Capabilities(drop=("ALL",), add=("NET_BIND_SERVICE",))), BIND, BIND),
        (SecurityContext(capabilities=Capabilities(add=("SYS_PTRACE",))), USUAL | PTRACE, USUAL | PTRACE),
        (SecurityContext(run_as_user=1234), 0, USUAL),
        (SecurityContext(run_as_user=1234, capabilities=NONE), 0, 0),
        (SecurityContext(run_as_user=1234, capabilities=NONE, allow_privilege_escalation=False), 0, 0),
        (SecurityContext(run_as_user=1234, capabilities=Capabilities(add=("SYS_PTRACE",))), 0, USUAL | PTRACE),
    ],
    ids=["usual", "none", "one", "more", "user", "user-none", "user-none-ever", "user-more"],
)
@pytest.mark.parametrize("shared", [False, True], ids=["alone", "shared"])
async def test_every_set_is_what_the_pod_says(
    isolated: Machine, context: SecurityContext, had: int, bound: int, shared: bool
) -> None:
    sandbox = sandbox_of(context, share_process_namespace=shared)
    container_id = await isolated.start(f"{LOOK}; echo over; while :; do sleep 1000; done", sandbox=sandbox)
    await eventually(lambda: "over" in isolated.output(container_id))
    expected = {"Inh": 0, "Prm": had, "Eff": had, "Bnd": bound, "Amb": 0}
    assert sets(isolated.output(container_id)) == expected
    result = await isolated.runtime.exec_sync(container_id, ("sh", "-c", LOOK), 10)
    assert sets(result.stdout.decode()) == expected


async def test_a_privileged_container_has_what_there_is(isolated: Machine) -> None:
    _, output = await isolated.run(LOOK, sandbox=sandbox_of(SecurityContext(privileged=True)))
    found = sets(output)
    assert found["Eff"] == found["Prm"] == found["Bnd"]
    assert found["Eff"] & (1 << 21)  # CAP_SYS_ADMIN
    assert found["Inh"] == found["Amb"] == 0


AGENT: Final = """
import asyncio, sys
from pathlib import Path
from pykubelet.api.security import Capabilities, SecurityContext
from unit.runtime.process.machine import machine, sandbox_of

async def main():
    async with machine(Path(sys.argv[1]) / "root", log_root=Path(sys.argv[1]) / "logs") as made:
        await made.runtime.status()
        for uid in (None, 1234):
            context = SecurityContext(run_as_user=uid, capabilities=Capabilities(drop=("ALL",)))
            try:
                _, output = await made.run("grep CapBnd /proc/self/status", sandbox=sandbox_of(context))
                print("ran", output)
            except Exception as error:
                print("refused", error)
            for pod in await made.runtime.pods():
                for sandbox in pod.sandboxes:
                    await made.runtime.remove_sandbox(sandbox.id)

asyncio.run(main())
"""


@only_root
def test_an_agent_that_cannot_take_capabilities_away_runs_nothing_that_may_not_have_them(tmp_path: Path) -> None:
    setpriv = ["setpriv", "--bounding-set", "-setpcap", "--inh-caps", "-setpcap"]
    command = [*setpriv, sys.executable, "-c", AGENT, str(tmp_path)]
    done = subprocess.run(
        command, env={"PYTHONPATH": ":".join(sys.path)}, capture_output=True, text=True, check=False, cwd="/"
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 2, done.stdout + done.stderr
    for line in lines:
        assert line.startswith("refused"), done.stdout
        assert "the agent lacks CAP_SETPCAP" in line


# --- keys

KEYRING: Final = -3  # the session's
_KEYCTL: Final = kernel._KEYCTL.get(os.uname().machine, 219)
WHICH: Final = f"import ctypes; print(ctypes.CDLL(None).syscall({_KEYCTL}, 0, {KEYRING}, 0))"


@pytest.mark.skipif(not os.path.exists("/usr/bin/python3"), reason="needs a Python that containers see")
async def test_every_container_and_every_command_has_a_keyring_of_its_own(isolated: Machine) -> None:
    ours = ctypes.CDLL(None).syscall(_KEYCTL, 0, KEYRING, 0)
    if ours < 0:
        pytest.skip("there are no keys here")
    found = [ours]
    for attempt in range(2):
        script = f'/usr/bin/python3 -c "{WHICH}"; while :; do sleep 1000; done'
        container_id = await isolated.start(script, attempt=attempt)
        await eventually(lambda each=container_id: isolated.output(each).strip())  # type: ignore[misc]
        found.append(int(isolated.output(container_id)))
        result = await isolated.runtime.exec_sync(container_id, ("/usr/bin/python3", "-c", WHICH), 10)
        found.append(int(result.stdout))
    assert min(found) > 0
    assert len(set(found)) == len(found)
