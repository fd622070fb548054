"""What a process may do, given up for good. Sets are numbers with a bit for each capability, as in /proc."""

from __future__ import annotations

import errno
import os

from . import kernel
from .files import CannotRun

_MOST = 64


def lower_bounds(kept: int) -> None:
    """Nothing that is executed later can have more than these. Who cannot bring that about has to be without already:
    then it is no container's doing if there is a way up."""
    stuck = 0
    for number in range(_MOST):
        is_bound = kernel.is_in_bounding_set(number)
        if is_bound is None:
            break  # the kernel knows no higher ones
        if is_bound and not kept >> number & 1:
            try:
                kernel.prctl(kernel.PR_CAPBSET_DROP, number)
            except OSError as error:
                if error.errno != errno.EPERM:
                    raise
                stuck |= 1 << number
    if stuck and (os.geteuid() == 0 or kernel.permitted_capabilities() & ~kept):
        raise CannotRun(
            f"capabilities {stuck:#x} cannot be taken from the container: the agent lacks CAP_SETPCAP; "
            "give it that one too, or run it as an ordinary user"
        )


def keep(kept: int) -> None:
    """These, of those that there are, and nothing to inherit: whoever is not root has none when he executes a file, and
    so has none before."""
    wanted = kept & kernel.permitted_capabilities() if os.geteuid() == 0 else 0
    kernel.set_capabilities(wanted)


def mask(numbers: list[int] | None) -> int:
    """None: whatever there is."""
    return sum(1 << number for number in numbers) if numbers is not None else (1 << _MOST) - 1
