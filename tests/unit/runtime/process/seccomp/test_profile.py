import errno
import json
from typing import Any

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.runtime.process.filters import _RUNTIME_DEFAULT
from pykubelet.runtime.process.seccomp.bpf import compiled
from pykubelet.runtime.process.seccomp.numbers import X32_BIT, numbers_of, spoken
from pykubelet.runtime.process.seccomp.profile import Machine, filter_of, parse
from unit.runtime.process.seccomp.bpf_machine import answer

X86_64, X32, X86 = spoken("x86_64")
PC = Machine(architecture="x86_64", release="6.1.0-13-amd64")
ARM = Machine(architecture="aarch64", release="6.8")
KILL, ALLOW = 0x8000_0000, 0x7FFF_0000
EPERM, ENOSYS = 0x5_0000 | errno.EPERM, 0x5_0000 | errno.ENOSYS
NEWUSER, THREAD = 0x1000_0000, 0x3D0F00


class Tried:
    """A profile in force."""

    def __init__(self, profile: dict[str, Any] | bytes, *capabilities: str, machine: Machine = PC) -> None:
        text = profile if isinstance(profile, bytes) else json.dumps(profile).encode()
        self.program = compiled(filter_of(parse(text), frozenset(capabilities), machine))
        self.native = spoken(machine.architecture)[0]

    def __call__(self, name: str, *arguments: int, architecture: str = "") -> int:
        known = next((each for each in (X86_64, X32, X86) if each.name == architecture), self.native)
        return answer(self.program, known.token, numbers_of(known.name)[name], arguments)


def denying(**fields: Any) -> dict[str, Any]:
    return {"defaultAction": "SCMP_ACT_ERRNO", **fields}


def allowing(**rule: Any) -> dict[str, Any]:
    return denying(syscalls=[{"names": ["mount"], "action": "SCMP_ACT_ALLOW", **rule}])


# --- the runtime's own


@pytest.mark.parametrize("machine", [PC, ARM])
def test_the_default_lets_ordinary_programs_live(machine: Machine) -> None:
    call = Tried(_RUNTIME_DEFAULT.read_bytes(), machine=machine)
    for name in (
        "read",
        "openat",
        "execve",
        "mmap",
        "futex",
        "socketpair",
        "setresuid",
        "capset",
        "ptrace",
        "fchmodat2",
    ):
        assert call(name) == ALLOW, name
    assert call("clone", THREAD) == ALLOW
    assert call("socket", 1) == call("socket", 39) == call("socket", 41) == ALLOW
    assert call("personality", 0) == call("personality", 0xFFFF_FFFF) == ALLOW


@pytest.mark.parametrize("machine", [PC, ARM])
def test_the_default_forbids_what_leads_out(machine: Machine) -> None:
    call = Tried(_RUNTIME_DEFAULT.read_bytes(), machine=machine)
    names = ("mount", "umount2", "unshare", "setns", "bpf", "keyctl", "add_key", "kexec_load", "init_module", "reboot")
    for name in (*names, "open_by_handle_at", "perf_event_open", "userfaultfd", "io_uring_setup", "pivot_root"):
        assert call(name) == EPERM, name
    assert call("clone3") == ENOSYS  # its flags are in memory, so that programs have to fall back to clone
    for flag in (NEWUSER, 0x2_0000, 0x4000_0000, NEWUSER | THREAD):
        assert call("clone", flag) == EPERM
    assert call("socket", 38) == call("socket", 40) == EPERM
    assert call("personality", 0x40000) == EPERM


def test_the_default_goes_with_the_capabilities() -> None:
    admin = Tried(_RUNTIME_DEFAULT.read_bytes(), "CAP_SYS_ADMIN")
    assert admin("mount") == admin("clone3") == admin("clone", NEWUSER) == ALLOW
    assert admin("chroot") == admin("reboot") == EPERM
    other = Tried(_RUNTIME_DEFAULT.read_bytes(), "CAP_SYS_CHROOT", "CAP_SYSLOG")
    assert other("chroot") == other("syslog") == ALLOW
    assert other("mount") == EPERM


def test_the_default_holds_for_programs_of_32_bits_and_kills_no_others() -> None:
    call = Tried(_RUNTIME_DEFAULT.read_bytes())
    for architecture in ("x86", "x32"):
        assert call("read", architecture=architecture) == ALLOW
        assert call("mount", architecture=architecture) == EPERM
    assert answer(call.program, spoken("aarch64")[0].token, 0) == KILL


def test_a_call_that_is_newer_than_the_profile_does_not_exist_yet() -> None:
    call = Tried(_RUNTIME_DEFAULT.read_bytes())
    assert answer(call.program, X86_64.token, 9999) == ENOSYS
    lenient = Tried({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["mount"], "action": "SCMP_ACT_ERRNO"}]})
    assert answer(lenient.program, X86_64.token, 9999) == ALLOW


# --- people's own


def test_rules_may_depend_on_machine_kernel_and_capabilities() -> None:
    for rule, allowed in (
        ({"includes": {"arches": ["amd64"]}}, True),
        ({"includes": {"arches": ["s390x", "arm64"]}}, False),
        ({"excludes": {"arches": ["amd64"]}}, False),
        ({"includes": {"minKernel": "4.8"}}, True),
        ({"includes": {"minKernel": "6.2"}}, False),
        ({"excludes": {"minKernel": "4.8"}}, False),
        ({"includes": {"caps": ["CAP_SYS_ADMIN"]}}, False),
        ({"excludes": {"caps": ["CAP_SYS_ADMIN"]}, "comment": "why", "args": None}, True),
    ):
        assert (Tried(allowing(**rule))("mount") == ALLOW) is allowed, rule
    both = {"includes": {"caps": ["CAP_SYS_ADMIN", "CAP_BPF"]}}
    assert Tried(allowing(**both), "CAP_SYS_ADMIN")("mount") == EPERM
    assert Tried(allowing(**both), "CAP_SYS_ADMIN", "CAP_BPF")("mount") == ALLOW


def test_arguments_go_together_but_two_wishes_for_one_are_alternatives() -> None:
    first, second = {"index": 0, "value": 1, "op": "SCMP_CMP_EQ"}, {"index": 1, "value": 2, "op": "SCMP_CMP_EQ"}
    call = Tried(allowing(args=[first, second]))
    assert [call("mount", *each) for each in ((1, 2), (1, 3), (3, 2))] == [ALLOW, EPERM, EPERM]
    call = Tried(allowing(args=[first, {**first, "value": 5}]))
    assert [call("mount", each) for each in (1, 5, 3)] == [ALLOW, ALLOW, EPERM]


def test_errors_are_the_ones_that_are_wanted() -> None:
    rule = {"names": ["mount"], "action": "SCMP_ACT_ERRNO", "errnoRet": 22}
    call = Tried(denying(defaultErrnoRet=13, syscalls=[rule]))
    assert (call("mount"), call("read")) == (0x5_0016, 0x5_000D)
    named = {"name": "mount", "action": "SCMP_ACT_ERRNO", "errno": "EINVAL"}
    call = Tried(denying(defaultErrno="EACCES", syscalls=[named]))
    assert (call("mount"), call("read")) == (0x5_0016, 0x5_000D)


def test_only_architectures_that_are_named_are_let_in_beside_the_machines_own() -> None:
    rule = [{"names": ["read"], "action": "SCMP_ACT_ALLOW"}]
    bare = Tried(denying(architectures=["SCMP_ARCH_S390X"], syscalls=rule))
    assert bare("read") == ALLOW
    assert bare("read", architecture="x86") == bare("read", architecture="x32") == KILL
    named = Tried(denying(architectures=["SCMP_ARCH_X86"], syscalls=rule))
    assert named("read", architecture="x86") == ALLOW
    assert answer(named.program, X86_64.token, X32_BIT) == KILL


def test_a_name_that_nobody_knows_is_no_harm_where_it_allows() -> None:
    profile = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["no_such"], "action": "SCMP_ACT_ERRNO"}]}
    with pytest.raises(Invalid, match="no system call no_such"):
        Tried(profile)
    assert Tried(allowing(names=["mount", "no_such"]))("mount") == ALLOW
    foreign = {**profile, "syscalls": [{"names": ["s390_runtime_instr"], "action": "SCMP_ACT_ERRNO"}]}
    assert Tried(foreign)("read") == ALLOW


@pytest.mark.parametrize(
    ("profile", "reason"),
    [
        ({}, "defaultAction"),
        ({"defaultAction": "SCMP_ACT_JUMP"}, "no action SCMP_ACT_JUMP"),
        ({"defaultAction": "SCMP_ACT_NOTIFY"}, "nobody who could be notified"),
        (denying(listenerPath="/run/x"), "listenerPath"),
        (denying(flags=["SECCOMP_FILTER_FLAG_LOG"]), "SECCOMP_FILTER_FLAG_LOG"),
        (allowing(args=[{"index": 6, "value": 0, "op": "SCMP_CMP_EQ"}]), "args"),
        (allowing(args=[{"index": 0, "value": -1, "op": "SCMP_CMP_EQ"}]), "value"),
        (allowing(args=[{"index": 0, "value": 2**64, "op": "SCMP_CMP_EQ"}]), "64 bits"),
        (allowing(args=[{"index": 0, "value": 0, "op": "SCMP_CMP_ODD"}]), "SCMP_CMP_ODD"),
        (allowing(errnoRet=4096), "errnoRet"),
        (denying(defaultErrno="EWHAT"), "EWHAT"),
        (allowing(includes={"minKernel": "new"}), "version of a kernel"),
    ],
)
def test_what_cannot_be_honoured_is_refused(profile: dict[str, Any], reason: str) -> None:
    with pytest.raises(Invalid, match=reason):
        Tried(profile)


def test_a_machine_without_numbers_has_no_filters() -> None:
    with pytest.raises(Invalid, match="riscv64"):
        Tried(denying(), machine=Machine(architecture="riscv64", release="6.1"))
