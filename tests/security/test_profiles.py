"""A pod that asks for a filter is held by it, whatever it tries; and one that asks for more than there is does not
run."""

import os
from pathlib import Path
from typing import Any

import pytest

from pykubelet.api.security import (
    AppArmorProfile,
    Capabilities,
    PodSecurityContext,
    SeccompProfile,
    SecurityContext,
)
from pykubelet.base.errors import Invalid
from pykubelet.runtime.process.filters import Filters
from pykubelet.runtime.process.seccomp.numbers import spoken
from unit.runtime.process.machine import Machine, machine, sandbox_of

DEFAULT = SeccompProfile(type="RuntimeDefault")
STATUS = "grep -E '^(Seccomp|NoNewPrivs):' /proc/self/status"
pytestmark = pytest.mark.skipif(not spoken(os.uname().machine), reason="nothing can be filtered on this machine")

ATTACKS = """
exec 2>&1
unshare --user true && echo out by a user namespace
unshare --mount true && echo out by a mount namespace
mount -t tmpfs none /mnt && echo out by a mount
python3 -c '
import ctypes, socket
libc = ctypes.CDLL(None, use_errno=True)
for name, number in (("keyctl", 250), ("bpf", 321), ("userfaultfd", 323), ("io_uring_setup", 425), ("clone3", 435)):
    libc.syscall(number, 0, 0, 0)
    print(name, ctypes.get_errno())
for family in (38, 40):
    try:
        socket.socket(family, socket.SOCK_STREAM)
        print("out by a socket", family)
    except PermissionError:
        print("socket", family, 1)
'
echo over
"""


@pytest.mark.parametrize("escalation", [None, False])
async def test_the_default_profile_holds(isolated: Machine, escalation: bool | None) -> None:
    context = SecurityContext(seccomp_profile=DEFAULT, allow_privilege_escalation=escalation)
    _, output = await isolated.run(f"{STATUS}; {ATTACKS}", sandbox=sandbox_of(context))
    assert f"NoNewPrivs:\t{int(escalation is False)}\nSeccomp:\t2\n" in output
    assert "out by" not in output
    assert output.endswith("over\n")
    if os.uname().machine == "x86_64":
        expected = "keyctl 1\nbpf 1\nuserfaultfd 1\nio_uring_setup 1\nclone3 38\nsocket 38 1\nsocket 40 1\n"
        assert expected in output


async def test_without_a_profile_nothing_is_filtered(isolated: Machine) -> None:
    _, output = await isolated.run(STATUS)
    assert "Seccomp:\t0\n" in output


async def test_a_filter_holds_for_another_user_and_without_any_capability(isolated: Machine) -> None:
    context = SecurityContext(
        seccomp_profile=DEFAULT, run_as_user=1234, run_as_group=99, capabilities=Capabilities(drop=("ALL",))
    )
    _, output = await isolated.run(
        f"id -u; id -g; {STATUS}; unshare --user true && echo out", sandbox=sandbox_of(context)
    )
    assert output.startswith("1234\n99\nNoNewPrivs:\t0\nSeccomp:\t2\n")
    assert "out" not in output


@pytest.mark.parametrize("own", [{}, {"run_as_user": 1234}, {"allow_privilege_escalation": False}])
async def test_a_command_that_joins_later_is_held_as_well(isolated: Machine, own: dict[str, Any]) -> None:
    sandbox = sandbox_of(SecurityContext(**own), PodSecurityContext(seccomp_profile=DEFAULT))
    container_id = await isolated.start("sleep 1000", sandbox=sandbox)
    command = ("sh", "-c", f"{STATUS}; unshare --user true && echo out")
    result = await isolated.runtime.exec_sync(container_id, command, 10)
    assert b"Seccomp:\t2\n" in result.stdout
    assert b"out" not in result.stdout


async def test_a_plain_process_is_filtered_when_it_gives_up_privileges(plain: Machine) -> None:
    context = SecurityContext(seccomp_profile=DEFAULT, allow_privilege_escalation=False)
    _, output = await plain.run(f"{STATUS}; unshare --user true && echo out", sandbox=sandbox_of(context))
    assert "NoNewPrivs:\t1\nSeccomp:\t2\n" in output
    assert "out" not in output


async def test_a_profile_of_ones_own_holds_and_a_missing_one_keeps_the_pod_from_running(tmp_path: Path) -> None:
    profiles = tmp_path / "seccomp"
    profiles.mkdir()
    (profiles / "no-mkdir.json").write_text(
        '{"defaultAction": "SCMP_ACT_ALLOW", "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64"], "syscalls": '
        '[{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 28}]}'
    )
    filters = Filters(folder=profiles, by_default=True)
    async with machine(tmp_path / "root", log_root=tmp_path / "logs", filters=filters) as made:
        own = SeccompProfile(type="Localhost", localhost_profile="no-mkdir.json")
        context = SecurityContext(seccomp_profile=own, allow_privilege_escalation=False)
        _, output = await made.run("exec 2>&1; mkdir /tmp/x; touch /tmp/y && echo y", sandbox=sandbox_of(context))
        assert "No space left on device" in output
        assert output.endswith("y\n")
        missing = SeccompProfile(type="Localhost", localhost_profile="nope.json")
        with pytest.raises(Invalid, match=r"profile nope\.json cannot be used: .*/nope\.json: No such file"):
            await made.start("true", sandbox=sandbox_of(SecurityContext(seccomp_profile=missing)))
        silent = SecurityContext(allow_privilege_escalation=False)
        _, output = await made.run(STATUS, sandbox=sandbox_of(silent))
        assert "Seccomp:\t2\n" in output


@pytest.mark.parametrize(
    "context",
    [
        SecurityContext(app_armor_profile=AppArmorProfile(type="RuntimeDefault")),
        SecurityContext(app_armor_profile=AppArmorProfile(type="Localhost", localhost_profile="x")),
        SecurityContext(proc_mount="Unmasked"),
    ],
)
async def test_what_cannot_be_applied_is_not_run_without(any_machine: Machine, context: SecurityContext) -> None:
    with pytest.raises(Invalid, match="cannot be provided"):
        await any_machine.start("true", sandbox=sandbox_of(context))


@pytest.mark.skipif(os.getuid() == 0, reason="root may be anybody")
async def test_groups_that_an_ordinary_user_is_not_in_are_not_run_without(any_machine: Machine) -> None:
    for shared in (PodSecurityContext(fs_group=4711), PodSecurityContext(supplemental_groups=(4711,))):
        with pytest.raises(Invalid, match="4711 cannot be provided: without root"):
            await any_machine.start("true", sandbox=sandbox_of(None, shared))
