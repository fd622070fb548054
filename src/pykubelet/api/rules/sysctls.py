"""The names of kernel settings, and which of a pod's namespaces the kernel keeps each apart in."""

import re
from typing import Final

_IPC: Final = frozenset(
    f"kernel.{name}"
    for name in ("sem", "shm", "shmall", "shmmax", "shmmni", "shm_rmid_forced", "msg", "msgmax", "msgmnb", "msgmni")
)
_SWAPPED: Final = str.maketrans("./", "/.")


def with_dots(name: str) -> str:
    """`net/ipv4/conf/eth0.100/x` is `net.ipv4.conf.eth0/100.x`: whichever comes first, dot or slash, separates."""
    first = re.search(r"[./]", name)
    return name.translate(_SWAPPED) if first and first[0] == "/" else name


def sysctl_namespace(name: str) -> str:
    """`Net` or `IPC` for a name with dots, or the beginning of one; empty when the kernel has it only once."""
    if name in _IPC or name.startswith("fs.mqueue."):
        return "IPC"
    return "Net" if name.startswith("net.") else ""
