"""Setting a filter for system calls: it stays for all that this process becomes and starts."""

from __future__ import annotations

import ctypes

from . import kernel

_PR_SET_SECCOMP = 22
_MODE_FILTER = 2
_STEP = 8


def install(program: bytes) -> None:
    """Takes CAP_SYS_ADMIN in our user namespace, or that no new privileges can be gained."""
    steps = ctypes.create_string_buffer(program, len(program))
    kernel.prctl(_PR_SET_SECCOMP, _MODE_FILTER, (ctypes.c_uint64 * 2)(len(program) // _STEP, ctypes.addressof(steps)))
