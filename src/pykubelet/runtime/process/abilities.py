"""What this machine lets the runtime do, and what follows for the containers: said plainly, to mislead nobody."""

import logging
import os
import tempfile
from pathlib import Path
from typing import Self

from msgspec import Struct

from pykubelet.runtime.process.spawner import Spawner
from pykubelet.runtime.process.store import remove_tree

log = logging.getLogger(__name__)

_PROBING = 30.0


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
    overlay_refusal: str = ""
    limits_refusal: str = ""
    """Why memory and processor time cannot be limited; empty: they can."""

    @classmethod
    def plain(cls, refusal: str, limits_refusal: str) -> Self:
        return cls(uid=os.getuid(), gid=os.getgid(), refusal=refusal, limits_refusal=limits_refusal)

    @property
    def may_change_user(self) -> bool:
        """To any user at all."""
        return self.uid == 0 and not self.in_user_namespace


async def probe_abilities(spawner: Spawner, root: Path, limits_refusal: str) -> Abilities:
    """By really trying: the kernel's settings, security modules and containers around us all have a say."""
    refusal = ""
    for with_user_namespace in (False, True) if os.getuid() == 0 else (True,):
        folder = Path(tempfile.mkdtemp(prefix="probe-", dir=root))
        try:
            spec = {"folder": str(folder), "with_user_namespace": with_user_namespace}
            answer = await spawner.ask("probe", spec, within=_PROBING)
        finally:
            remove_tree(folder)
        facts = answer.get("allowed")
        if facts is not None:
            return Abilities(
                uid=os.getuid(),
                gid=os.getgid(),
                namespaces=True,
                in_user_namespace=with_user_namespace,
                overlay=not facts["overlay"],
                fresh_proc=not facts["proc"],
                overlay_refusal=facts["overlay"],
                limits_refusal=limits_refusal,
            )
        refusal = answer.failure or "the probe gave no answer"
    return Abilities.plain(refusal, limits_refusal)


def limitations(abilities: Abilities) -> tuple[str, ...]:
    """One sentence each."""
    found = [
        "Every pod uses this machine's network and addresses.",
        "Images are not pulled: containers see this machine's files unless an unpacked image is there.",
        "Seccomp, AppArmor and SELinux profiles are not applied.",
    ]
    if not abilities.namespaces:
        found.append(
            f"Containers are plain processes: they share this machine's files, processes and names, and only volumes "
            f"mounted at their own place work ({abilities.refusal})."
        )
    elif not abilities.overlay:
        found.append(f"A container's root is read-only but for /tmp, /run and volumes ({abilities.overlay_refusal}).")
    if abilities.namespaces and not abilities.fresh_proc:
        found.append("Containers see this machine's /proc.")
    if not abilities.may_change_user:
        mapped = abilities.namespaces and abilities.in_user_namespace
        found.append(
            f"All containers run as user {abilities.uid} of this machine"
            + (", by whatever number they know it" if mapped else "")
            + "; supplementalGroups and fsGroup have no effect."
        )
    if abilities.limits_refusal:
        found.append(f"Memory and processor time are not limited ({abilities.limits_refusal}).")
    return tuple(found)
