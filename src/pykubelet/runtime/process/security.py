"""Who a container runs as and what it may do, from the pod's and the container's security contexts."""

import grp
import pwd
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pykubelet.api.container import Container
from pykubelet.api.pod import Pod
from pykubelet.api.security import Capabilities, PodSecurityContext, SecurityContext
from pykubelet.base.errors import Invalid
from pykubelet.runtime.process.abilities import Abilities

if TYPE_CHECKING:
    from pykubelet.runtime.process.shim.spec import UserSpec

# fmt: off
CAPABILITIES: Final = (
    "CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP",
    "LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER",
    "SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE",
    "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP",
    "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF",
    "CHECKPOINT_RESTORE",
)
_USUAL: Final = (
    "CHOWN", "DAC_OVERRIDE", "FSETID", "FOWNER", "MKNOD", "SETGID", "SETUID", "SETFCAP", "SETPCAP",
    "NET_BIND_SERVICE", "SYS_CHROOT", "KILL", "AUDIT_WRITE",
)
"""Without NET_RAW, which on the machine's network would be everybody's traffic to read."""
# fmt: on


def container_of(pod: Pod, name: str) -> Container:
    """As its author wrote it."""
    spec = pod.spec
    found = (c for c in (*spec.containers, *spec.init_containers, *spec.ephemeral_containers) if c.name == name)
    return next(found, Container(name=name))


def target_of(pod: Pod, name: str) -> str:
    """The container among whose processes an ephemeral one wants to be; empty: it does not."""
    return next((each.target_container_name for each in pod.spec.ephemeral_containers if each.name == name), "")


def context_of(pod: Pod, name: str) -> SecurityContext:
    return container_of(pod, name).security_context or SecurityContext()


def user_of(pod: Pod, name: str, image_user: str, image: Path | None, abilities: Abilities) -> "UserSpec | None":
    """None: it stays the user that the runtime is. Names are looked up where the container will see them."""
    own, shared = context_of(pod, name), pod.spec.security_context or PodSecurityContext()
    accounts = _Accounts(image)
    image_uid, image_gid = accounts.parse(image_user)
    inside_uid = 0 if abilities.in_user_namespace else abilities.uid
    uid = next((u for u in (own.run_as_user, shared.run_as_user, image_uid) if u is not None), inside_uid)
    gid = next((g for g in (own.run_as_group, shared.run_as_group) if g is not None), None)
    if gid is None:
        asked = own.run_as_user is not None or shared.run_as_user is not None
        gid = image_gid if image_gid is not None and not asked else _default_group(uid, accounts, abilities)
    non_root = own.run_as_non_root if own.run_as_non_root is not None else shared.run_as_non_root
    if non_root and uid == 0:
        raise Invalid(f"container {name} has runAsNonRoot, but would run as root: give it a runAsUser")
    if abilities.may_change_user:
        extra = [*shared.supplemental_groups, *([] if shared.fs_group is None else [shared.fs_group])]
        known = [] if shared.supplemental_groups_policy == "Strict" else accounts.groups(uid)
        return {"uid": uid, "gid": gid, "groups": sorted({gid, *extra, *known}), "mapped": False}
    _refuse_groups(shared, name, gid, abilities)
    if abilities.in_user_namespace:
        return None if (uid, gid) == (0, 0) else {"uid": uid, "gid": gid, "groups": None, "mapped": True}
    if (uid, gid) != (abilities.uid, abilities.gid):
        raise Invalid(
            f"container {name} wants to run as user {uid} and group {gid}, but without root and without namespaces "
            f"this runtime can only be user {abilities.uid} and group {abilities.gid}"
        )
    return None


def _refuse_groups(shared: PodSecurityContext, name: str, gid: int, abilities: Abilities) -> None:
    """Without the right to become anybody. `gid` is the group that the container knows itself by."""
    mine = {gid} if abilities.in_user_namespace else {abilities.gid, *abilities.groups}
    wanted = {"fsGroup": [] if shared.fs_group is None else [shared.fs_group]}
    wanted["supplementalGroups"] = list(shared.supplemental_groups)
    for field, groups in wanted.items():
        foreign = [group for group in groups if group not in mine]
        if foreign:
            known = " or ".join(map(str, sorted(mine)))
            remedy = f"without root it can only be in group {known}: say that, or run the agent as root"
            raise Invalid(f"container {name}: {field} {foreign[0]} cannot be provided: {remedy}")
    if shared.supplemental_groups_policy == "Strict" and set(abilities.groups) - {abilities.gid}:
        what = "without root a container keeps the groups of the user that runs the agent"
        raise Invalid(f"container {name}: supplementalGroupsPolicy Strict cannot be provided: {what}")


def _default_group(uid: int, accounts: "_Accounts", abilities: Abilities) -> int:
    if uid == abilities.uid and not abilities.namespaces:
        return abilities.gid
    return accounts.group_of(uid)


def capabilities_of(context: SecurityContext, abilities: Abilities) -> list[int] | None:
    """The numbers of those that the container may have; None: there are none to be taken."""
    changes = context.capabilities or Capabilities()
    add, drop = _plain(changes.add), _plain(changes.drop)
    for name in (*add, *drop):
        if name not in (*CAPABILITIES, "ALL"):
            raise Invalid(f"there is no capability {name}")
    if not abilities.has_capabilities:
        if add:
            raise Invalid(f"capability {add[0]} cannot be added: without root and without namespaces there is none")
        return None
    if context.privileged:
        return None
    usual = set(_USUAL) if abilities.device_rules or abilities.in_user_namespace else set(_USUAL) - {"MKNOD"}
    kept = set() if "ALL" in drop else set(CAPABILITIES) if "ALL" in add else usual
    kept = (kept | set(add) - {"ALL"}) - set(drop)
    return sorted(CAPABILITIES.index(name) for name in kept)


def _plain(names: tuple[str, ...]) -> list[str]:
    return [name.upper().removeprefix("CAP_") for name in names]


def home_of(uid: int, image: Path | None) -> str:
    return _Accounts(image).home(uid)


class _Accounts:
    """passwd and group, of this machine or of an image."""

    def __init__(self, image: Path | None) -> None:
        self._image = image

    def parse(self, text: str) -> tuple[int | None, int | None]:
        """An image's `user`, `uid`, `user:group`, ..."""
        user, _, group = text.partition(":")
        if not user:
            return None, None
        uid = int(user) if user.isdigit() else self._number("etc/passwd", user)
        if not group:
            return uid, self.group_of(uid)
        return uid, int(group) if group.isdigit() else self._number("etc/group", group)

    def group_of(self, uid: int) -> int:
        fields = self._account(uid)
        return int(fields[3]) if fields else 0

    def home(self, uid: int) -> str:
        fields = self._account(uid)
        return fields[5] or "/" if fields else "/"

    def groups(self, uid: int) -> list[int]:
        fields = self._account(uid)
        if not fields:
            return []
        if self._image is None:
            return [group.gr_gid for group in grp.getgrall() if fields[0] in group.gr_mem]
        return [int(line[2]) for line in self._lines("etc/group", 4) if fields[0] in line[3].split(",")]

    def _account(self, uid: int) -> list[str] | None:
        if self._image is None:
            try:
                return [str(field) for field in pwd.getpwuid(uid)]
            except KeyError:
                return None
        return next((line for line in self._lines("etc/passwd", 7) if line[2] == str(uid)), None)

    def _number(self, file: str, name: str) -> int:
        found = next((int(line[2]) for line in self._lines(file, 4) if line[0] == name), None)
        if found is None:
            raise Invalid(f"the image's user or group {name} is not in its /{file}")
        return found

    def _lines(self, file: str, fields: int) -> list[list[str]]:
        path = (self._image or Path("/")) / file
        try:
            lines = [line.split(":") for line in path.read_text(errors="replace").splitlines()]
        except OSError:
            return []
        return [line for line in lines if len(line) >= fields and line[2].isdigit()]
