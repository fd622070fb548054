"""Which seccomp profile a container gets, and the filter that it becomes: made once for each profile and set of
capabilities."""

import os
import stat
from functools import lru_cache
from pathlib import Path
from typing import Final

from msgspec import Struct

from pykubelet.api.pod import Pod
from pykubelet.api.security import PodSecurityContext, SeccompProfile
from pykubelet.base.errors import Invalid
from pykubelet.runtime.process.abilities import Abilities
from pykubelet.runtime.process.seccomp import bpf, profile
from pykubelet.runtime.process.seccomp.profile import Machine
from pykubelet.runtime.process.security import CAPABILITIES, context_of

_RUNTIME_DEFAULT: Final = Path(profile.__file__).with_name("runtime_default.json")
_LARGEST: Final = 1 << 20


class Filters(Struct, frozen=True, kw_only=True):
    """What the agent was told: where people put their profiles, and whether silence means the runtime's own."""

    folder: Path
    by_default: bool = False

    def filter_of(self, pod: Pod, name: str, capabilities: list[int] | None, abilities: Abilities) -> bytes | None:
        """None: all calls are allowed. Raises Invalid for what cannot be had. Reads files."""
        wanted = self._wanted(pod, name)
        if wanted is None or wanted.type == "Unconfined" or context_of(pod, name).privileged:
            return None
        if abilities.seccomp_refusal:
            raise Invalid(
                f"container {name}: seccompProfile {wanted.type} cannot be provided: {abilities.seccomp_refusal}"
            )
        if not (abilities.has_capabilities or context_of(pod, name).allow_privilege_escalation is False):
            raise Invalid(
                f"container {name}: seccompProfile {wanted.type} cannot be provided to a plain process that may gain "
                "privileges: set allowPrivilegeEscalation to false"
            )
        names = frozenset(f"CAP_{CAPABILITIES[number]}" for number in capabilities or ())
        try:
            return _compiled(self._text(wanted), names)
        except Invalid as error:
            which = wanted.localhost_profile or wanted.type
            raise Invalid(f"container {name}: seccomp profile {which} cannot be used: {error}") from None

    def _wanted(self, pod: Pod, name: str) -> SeccompProfile | None:
        shared = pod.spec.security_context or PodSecurityContext()
        silent = SeccompProfile(type="RuntimeDefault") if self.by_default else None
        return context_of(pod, name).seccomp_profile or shared.seccomp_profile or silent

    def _text(self, wanted: SeccompProfile) -> bytes:
        match wanted.type:
            case "RuntimeDefault":
                return _read(_RUNTIME_DEFAULT)
            case "Localhost":
                path = Path(os.path.normpath(self.folder / (wanted.localhost_profile or "").lstrip("/")))
                if not path.is_relative_to(self.folder) or path == self.folder:
                    raise Invalid("localhostProfile has to be a file below the agent's folder of profiles")
                return _read(path)
            case other:
                raise Invalid(f"there is no type {other}")


def _read(path: Path) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise Invalid(f"{path} is not a file")
            text = file.read(_LARGEST + 1)
    except OSError as error:
        raise Invalid(f"{path}: {error.strerror}") from None
    if len(text) > _LARGEST:
        raise Invalid(f"{path} is larger than {_LARGEST >> 20} MiB")
    return text


@lru_cache(maxsize=64)
def _compiled(text: bytes, capabilities: frozenset[str]) -> bytes:
    """The kernel does not change while we run."""
    here = os.uname()
    machine = Machine(architecture=here.machine, release=here.release)
    try:
        return bpf.compiled(profile.filter_of(profile.parse(text), capabilities, machine))
    except bpf.TooLong as error:
        raise Invalid(str(error)) from None
