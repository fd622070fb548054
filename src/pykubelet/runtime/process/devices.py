"""Which devices a container may use, whatever files it makes for them: those that OCI runtimes allow to everybody.

The kernel's v1 controller takes a list; v2 asks a small BPF program each time a device is opened or made.
"""

import ctypes
import os
import stat
import struct
from collections.abc import Collection
from pathlib import Path
from typing import Final, Literal, NamedTuple

from pykubelet.pod.ports.runtime import Device

_ANY: Final = -1
ALLOWED: Final = (
    (1, 3),  # null
    (1, 5),  # zero
    (1, 7),  # full
    (1, 8),  # random
    (1, 9),  # urandom
    (5, 0),  # tty
    (5, 2),  # ptmx
    (136, _ANY),  # pts
)
"""Character devices by major and minor number, without the console, which would be this machine's. No others can even
be made: a file for one, left in a volume, would lead somebody else to it."""

_NUMBERS: Final = {"x86_64": 321, "aarch64": 280, "riscv64": 280, "ppc64le": 361, "s390x": 351}  # of bpf(2)
_PROG_LOAD, _PROG_ATTACH = 5, 8
_TYPE_CGROUP_DEVICE: Final = 15
_ATTACH_CGROUP_DEVICE: Final = 6
_ALLOW_MULTI: Final = 2
_BLOCK, _CHARACTER = 1, 2
_ACCESS: Final = {"m": 1, "r": 2, "w": 4}
_RULE_STEPS: Final = 7

_libc = ctypes.CDLL(None, use_errno=True)


class Rule(NamedTuple):
    """What may be done to one device more."""

    kind: Literal["b", "c"]
    major: int
    minor: int
    permissions: str


def rule_of(device: Device) -> Rule:
    """Raises OSError."""
    found = os.stat(device.host_path)
    kind: Literal["b", "c"] = "b" if stat.S_ISBLK(found.st_mode) else "c"
    return Rule(kind, os.major(found.st_rdev), os.minor(found.st_rdev), device.permissions)


def restrict(folder: Path, more: Collection[Device] = ()) -> None:
    """Keep the members of a control group to what is allowed, and to some devices more. Raises OSError."""
    rules = [rule_of(device) for device in more]
    if (folder / "devices.deny").exists():
        (folder / "devices.deny").write_text("a")
        for major, minor in ALLOWED:
            (folder / "devices.allow").write_text(f"c {major}:{'*' if minor == _ANY else minor} rwm")
        for rule in rules:
            (folder / "devices.allow").write_text(f"{rule.kind} {rule.major}:{rule.minor} {rule.permissions}")
        return
    loaded = _load(program(rules))
    try:
        group = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _bpf(_PROG_ATTACH, struct.pack("=IIII", group, loaded, _ATTACH_CGROUP_DEVICE, _ALLOW_MULTI))
        finally:
            os.close(group)
    finally:
        os.close(loaded)  # the group holds it from now on


def program(more: Collection[Rule] = ()) -> bytes:
    """It is given the kind of access and device, the major and the minor number, in this order; 1 allows."""
    own = [
        step
        for number, rule in enumerate(more)
        for step in _rule_steps(rule, to_allow=(len(more) - 1 - number) * _RULE_STEPS + 2)
    ]
    steps = [
        _step(0x61, to=2, by=1, offset=0),  # the kind of device is the lower half of the first word
        _step(0x57, to=2, value=0xFFFF),
        _step(0x61, to=4, by=1, offset=4),
        _step(0x61, to=5, by=1, offset=8),
    ]
    answers = [*own, _step(0xB7, to=0, value=0), _step(0x95), _step(0xB7, to=0, value=1), _step(0x95)]
    after = sum(1 if minor == _ANY else 2 for _, minor in ALLOWED)  # steps from the first test to the rules
    steps.append(_step(0x55, to=2, value=_CHARACTER, offset=after))
    after += len(own)
    for major, minor in ALLOWED:
        if minor == _ANY:
            after -= 1
            steps.append(_step(0x15, to=4, value=major, offset=after + 2))
        else:
            after -= 2
            steps.append(_step(0x55, to=4, value=major, offset=1))
            steps.append(_step(0x15, to=5, value=minor, offset=after + 2))
    return b"".join([*steps, *answers])


def _rule_steps(rule: Rule, to_allow: int) -> list[bytes]:
    """Whoever wants more than the rule says goes on to the next. `to_allow`: steps from its last one to the answer."""
    forbidden = 7 & ~sum(bit for letter, bit in _ACCESS.items() if letter in rule.permissions)
    return [
        _step(0x55, to=2, value=_CHARACTER if rule.kind == "c" else _BLOCK, offset=6),
        _step(0x55, to=4, value=rule.major, offset=5),
        _step(0x55, to=5, value=rule.minor, offset=4),
        _step(0x61, to=3, by=1, offset=0),
        _step(0x77, to=3, value=16),  # the kind of access is the upper half of the first word
        _step(0x57, to=3, value=forbidden),
        _step(0x15, to=3, value=0, offset=to_allow),
    ]


def _step(operation: int, *, to: int = 0, by: int = 0, offset: int = 0, value: int = 0) -> bytes:
    return struct.pack("=BBhi", operation, by << 4 | to, offset, value)


def _load(code: bytes) -> int:
    steps, licence = ctypes.create_string_buffer(code, len(code)), ctypes.create_string_buffer(b"Apache-2.0")
    places = ctypes.addressof(steps), ctypes.addressof(licence)
    return _bpf(_PROG_LOAD, struct.pack("=IIQQIIQII", _TYPE_CGROUP_DEVICE, len(code) // 8, *places, 0, 0, 0, 0, 0))


def _bpf(command: int, attributes: bytes) -> int:
    number = _NUMBERS.get(os.uname().machine)
    if number is None:
        raise OSError(f"there is no number of bpf(2) for {os.uname().machine} here")
    data = ctypes.create_string_buffer(attributes, len(attributes))
    result = int(_libc.syscall(number, command, data, len(attributes)))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"cannot set rules for devices: {os.strerror(code)}")
    return result
