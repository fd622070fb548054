"""Which devices a container may use, whatever files it makes for them: those that OCI runtimes allow to everybody.

The kernel's v1 controller takes a list; v2 asks a small BPF program each time a device is opened or made.
"""

import ctypes
import os
import struct
from pathlib import Path
from typing import Final

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
_CHARACTER: Final = 2

_libc = ctypes.CDLL(None, use_errno=True)


def restrict(folder: Path) -> None:
    """Keep the members of a control group to what is allowed. Raises OSError."""
    if (folder / "devices.deny").exists():
        (folder / "devices.deny").write_text("a")
        for major, minor in ALLOWED:
            (folder / "devices.allow").write_text(f"c {major}:{'*' if minor == _ANY else minor} rwm")
        return
    loaded = _load(program())
    try:
        group = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _bpf(_PROG_ATTACH, struct.pack("=IIII", group, loaded, _ATTACH_CGROUP_DEVICE, _ALLOW_MULTI))
        finally:
            os.close(group)
    finally:
        os.close(loaded)  # the group holds it from now on


def program() -> bytes:
    """It is given the kind of access and device, the major and the minor number, in this order; 1 allows."""
    steps = [
        _step(0x61, to=2, by=1, offset=0),  # the kind of device is the lower half of the first word
        _step(0x57, to=2, value=0xFFFF),
        _step(0x61, to=4, by=1, offset=4),
        _step(0x61, to=5, by=1, offset=8),
    ]
    answers = [_step(0xB7, to=0, value=0), _step(0x95), _step(0xB7, to=0, value=1), _step(0x95)]
    after = sum(1 if minor == _ANY else 2 for _, minor in ALLOWED)  # steps from the first test to the answers
    steps.append(_step(0x55, to=2, value=_CHARACTER, offset=after))
    for major, minor in ALLOWED:
        if minor == _ANY:
            after -= 1
            steps.append(_step(0x15, to=4, value=major, offset=after + 2))
        else:
            after -= 2
            steps.append(_step(0x55, to=4, value=major, offset=1))
            steps.append(_step(0x15, to=5, value=minor, offset=after + 2))
    return b"".join([*steps, *answers])


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
