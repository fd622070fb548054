"""What this machine lets the runtime do, and what follows for the containers: said plainly, to mislead nobody."""

import logging
import os
import tempfile
from pathlib import Path
from typing import Final, Self

from msgspec import Struct

from pykubelet.api.struct import changed
from pykubelet.pod.ports.runtime import RuntimeStatus
from pykubelet.runtime.process.cgroups import Cgroups
from pykubelet.runtime.process.seccomp.numbers import spoken
from pykubelet.runtime.process.spawner import Spawner
from pykubelet.runtime.process.store import remove_tree
from pykubelet.runtime.settings import ImageSource

log = logging.getLogger(__name__)

PLAIN: Final = "process://plain"
_IMAGES: Final = {
    "auto": ("Where no registry can be reached, containers run this machine's programs if it has them.",),
    "machine": ("Images are not pulled: containers run this machine's programs unless the image was imported.",),
}
_PROBING: Final = 30.0
_FILTERS: Final = Path("/proc/sys/kernel/seccomp/actions_avail")
_SE_LINUX: Final = Path("/sys/fs/selinux/enforce")


class Abilities(Struct, frozen=True, kw_only=True):
    uid: int
    gid: int
    namespaces: bool = False
    """Whether containers have a root, a process tree and a hostname of their own."""
    in_user_namespace: bool = False
    """Whether that takes a user namespace, as it does for ordinary users."""
    overlay: bool = False
    """Whether a container can have private writes everywhere in its root."""
    fresh_proc: bool = False
    refusal: str = ""
    """Why there are no namespaces."""
    plain_is_wanted: bool = False
    """Whether somebody has asked for containers that are plain processes."""
    overlay_refusal: str = ""
    limits: frozenset[str] = frozenset()
    """What the kernel lets us limit for a container as a whole: of memory, cpu, pids."""
    limits_refusal: str = ""
    """Why memory and processor time cannot be limited, or not both; empty: they can."""
    groups: tuple[int, ...] = ()
    """The runtime's own, beside its first."""
    device_rules: bool = True
    """Whether the kernel keeps containers from devices that they have made themselves."""
    seccomp_refusal: str = ""
    """Why system calls cannot be filtered; empty: they can."""
    se_linux: bool = False
    scope_refusal: str = ""
    """Why abstract unix sockets of this machine are within reach; empty: they are not."""

    @classmethod
    def plain(cls, refusal: str, cgroups: Cgroups, *, is_wanted: bool = False) -> Self:
        return cls(
            plain_is_wanted=is_wanted,
            uid=os.getuid(),
            gid=os.getgid(),
            groups=tuple(os.getgroups()),
            refusal=refusal,
            limits=cgroups.controllers,
            limits_refusal=cgroups.refusal,
            device_rules=cgroups.device_rules,
            seccomp_refusal=seccomp_refusal(),
            se_linux=_SE_LINUX.exists(),
            scope_refusal="containers are plain processes",
        )

    @property
    def has_capabilities(self) -> bool:
        """Whether a container's process has any to begin with, its own user namespace's if not this machine's."""
        return self.may_change_user or self.in_user_namespace

    @property
    def may_change_user(self) -> bool:
        """To any user at all."""
        return self.uid == 0 and not self.in_user_namespace


async def probe_abilities(spawner: Spawner, root: Path, cgroups: Cgroups) -> Abilities:
    """By really trying: the kernel's settings, security modules and containers around us all have a say."""
    refusals = []
    for with_user_namespace in (False, True) if os.getuid() == 0 else (True,):
        folder = Path(tempfile.mkdtemp(prefix="probe-", dir=root))
        try:
            spec = {"folder": str(folder), "with_user_namespace": with_user_namespace}
            answer = await spawner.ask("probe", spec, within=_PROBING)
        finally:
            remove_tree(folder)
        facts = answer.get("allowed")
        if facts is not None:
            return changed(
                Abilities.plain("", cgroups),
                namespaces=True,
                in_user_namespace=with_user_namespace,
                overlay=not facts["overlay"],
                fresh_proc=not facts["proc"],
                overlay_refusal=facts["overlay"],
                scope_refusal=facts["scope"],
            )
        refusals.append(answer.failure or "the probe gave no answer")
    return Abilities.plain("; in a user namespace: ".join(refusals), cgroups)


def plain_refusal(abilities: Abilities) -> str:
    """Why no pod is run at all; empty: pods are run. What is not isolated can read the agent's credentials, and with
    them be whatever the agent may be: that has to be somebody's wish."""
    if abilities.namespaces or abilities.plain_is_wanted:
        return ""
    return (
        f"containers cannot be isolated here ({abilities.refusal}), and as plain processes they could read this "
        f"node's credentials; who wants that says --container-runtime-endpoint={PLAIN}"
    )


def isolation(abilities: Abilities) -> str:
    """For who starts it: what keeps pods apart, in one line."""
    if not abilities.namespaces:
        return (
            f"Pods are plain processes of user {abilities.uid}: nothing keeps them from this machine's files, "
            "the credentials of this node among them."
        )
    own = ["root", "processes", "host name", "shared memory"]
    where = "in a user namespace" if abilities.in_user_namespace else "as users of this machine"
    limited = "" if abilities.limits_refusal else ", with limits"
    return f"Pods have their own {', '.join(own)}, {where}{limited}; they share this machine's network."


def seccomp_refusal() -> str:
    if not _FILTERS.exists():
        return "this kernel has no filters for system calls"
    machine = os.uname().machine
    return "" if spoken(machine) else f"the numbers of system calls on {machine} are not known here"


def runtime_status(abilities: Abilities, images: ImageSource, *, in_memory: bool) -> RuntimeStatus:
    refusal = plain_refusal(abilities)
    return RuntimeStatus(
        ready=not refusal,
        message=refusal,
        network_ready=True,
        isolation=isolation(abilities),
        limitations=limitations(abilities, images, in_memory=in_memory),
    )


def limitations(abilities: Abilities, images: ImageSource = "auto", *, in_memory: bool = True) -> tuple[str, ...]:
    """One sentence each. `in_memory`: there is a place that is not a disk."""
    found = [
        "Every pod uses this machine's network and addresses.",
        *_IMAGES.get(images, ()),
        "AppArmor and SELinux profiles are not applied: pods that ask for them are refused.",
    ]
    if abilities.seccomp_refusal:
        found.append(f"Pods that ask for a seccomp profile are refused: {abilities.seccomp_refusal}.")
    if abilities.may_change_user and not abilities.device_rules:
        found.append("Containers do not get CAP_MKNOD, because the kernel lets us set no rules for devices.")
    if not abilities.namespaces:
        found.append(
            f"Containers are plain processes: they share this machine's files, also the credentials of this node, its "
            f"processes and names, and only volumes mounted at their own place work ({abilities.refusal})."
        )
    elif not abilities.overlay:
        found.append(
            f"What containers see of this machine is read-only, and each has a whole copy of its image "
            f"({abilities.overlay_refusal})."
        )
    if abilities.namespaces and not abilities.fresh_proc:
        found.append("Containers see this machine's /proc.")
    if not abilities.may_change_user:
        mapped = abilities.namespaces and abilities.in_user_namespace
        found.append(
            f"All containers run as user {abilities.uid} of this machine"
            + (", by whatever number they know it" if mapped else "")
            + "; supplementalGroups and fsGroup that it is not in are refused."
        )
    if abilities.scope_refusal:
        found.append(
            f"Abstract unix sockets of this machine can be reached from containers ({abilities.scope_refusal})."
        )
    else:
        found.append(
            "Commands executed in a container reach abstract unix sockets of this machine; its program does not."
        )
    if not in_memory:
        found.append("Environments of containers lie on disk: none of the places for memory may be written to.")
    if abilities.limits_refusal:
        missing = " and ".join(name for name in ("memory", "cpu") if name not in abilities.limits)
        found.append(f"Pods are told that {missing} are not limited ({abilities.limits_refusal}).")
    return tuple(found)
