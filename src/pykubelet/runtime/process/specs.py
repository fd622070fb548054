"""From what the node asks for to what the shim does. What this machine cannot give is refused here, with the reason."""

import os
import signal
import socket
import stat
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from pykubelet.api.security import Capabilities, SecurityContext
from pykubelet.base.errors import Invalid
from pykubelet.pod.ports.runtime import ContainerConfig, Device, Mount, SandboxConfig
from pykubelet.runtime.process.abilities import Abilities, plain_refusal
from pykubelet.runtime.process.images.images import UsedImage
from pykubelet.runtime.process.images.manifest import ImageConfig
from pykubelet.runtime.process.security import capabilities_of, context_of, home_of, target_of, user_of
from pykubelet.runtime.process.unenforced import process_limits
from pykubelet.runtime.process.unhonoured import refuse_unhonoured

if TYPE_CHECKING:
    from pykubelet.runtime.process.shim.spec import MountSpec, ProgramSpec, RootSpec

_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_KUBELET_FILES: Final = ("/etc/hosts", "/etc/resolv.conf", "/etc/hostname")


def sandbox_namespaces(config: SandboxConfig, abilities: Abilities) -> tuple[str, ...]:
    """Those that a pod's containers share, and that are not this machine's."""
    if not abilities.namespaces:
        return ()
    spec = config.pod.spec
    wanted = {
        "user": abilities.in_user_namespace,
        "uts": not spec.host_network,
        "ipc": not spec.host_ipc,
        "pid": bool(spec.share_process_namespace) and not spec.host_pid,
    }
    return tuple(kind for kind, is_wanted in wanted.items() if is_wanted)


def check_sandbox(config: SandboxConfig, abilities: Abilities) -> None:
    """Refuse what no container of this pod could be given."""
    if refusal := plain_refusal(abilities):
        raise Invalid(refusal)
    spec = config.pod.spec
    for port in config.ports:
        if port.host_port and port.host_port != port.container_port:
            raise Invalid(
                f"hostPort {port.host_port} cannot lead to container port {port.container_port}: "
                "pods use this machine's network, so both have to be the same"
            )
    if spec.security_context is not None and spec.security_context.sysctls:
        name = spec.security_context.sysctls[0].name
        raise Invalid(f"sysctl {name} cannot be set: the pod shares this machine's kernel settings")
    if spec.host_users is False and not abilities.in_user_namespace:
        raise Invalid("hostUsers: false is not provided: containers have this machine's users")


def resolv_conf(config: SandboxConfig) -> str:
    """What the pod asks for, else this machine's. Read now: it often is a link to where a container cannot look."""
    if not (config.dns_servers or config.dns_searches or config.dns_options):
        try:
            return Path("/etc/resolv.conf").read_text(errors="replace")
        except OSError:
            return ""
    lines = [f"nameserver {server}" for server in config.dns_servers]
    if config.dns_searches:
        lines.insert(0, "search " + " ".join(config.dns_searches))
    if config.dns_options:
        lines.append("options " + " ".join(config.dns_options))
    return "\n".join(lines) + "\n"


def hostname_of(sandbox: SandboxConfig) -> str:
    return socket.gethostname() if sandbox.pod.spec.host_network else sandbox.hostname or socket.gethostname()


def program_spec(
    sandbox: SandboxConfig, config: ContainerConfig, used: UsedImage | None, abilities: Abilities
) -> "ProgramSpec":
    """Which program, as whom, with what around it. Without an image it is one of this machine's."""
    image, folder = (used.config, used.accounts) if used else (ImageConfig(), None)
    refuse_unhonoured(sandbox.pod, config.name, abilities)
    context = context_of(sandbox.pod, config.name)
    user = user_of(sandbox.pod, config.name, image.user, folder, abilities)
    uid = user["uid"] if user else 0 if abilities.in_user_namespace else abilities.uid
    env = {"PATH": _PATH, "HOSTNAME": hostname_of(sandbox), "HOME": home_of(uid, folder)}
    if config.tty:
        env["TERM"] = "xterm"
    env |= dict(entry.partition("=")[::2] for entry in image.env)
    env |= dict(config.env)
    for name, value in env.items():
        if "\0" in name + value or "=" in name or not name:
            raise Invalid(
                f"environment variable {name!r} cannot be set: a name or value holds what no process can have"
            )
    # Who has no capabilities could still gain some from a file; dropping them has to mean that this is over.
    drops = not abilities.has_capabilities and bool(context.capabilities and context.capabilities.drop)
    return {
        "argv": _arguments(config, used),
        "env": env,
        "cwd": config.working_dir or image.working_dir or "/",
        "user": user,
        "capabilities": capabilities_of(context, abilities),
        "no_new_privileges": context.allow_privilege_escalation is False or drops,
        "scoped": not abilities.scope_refusal and not _shares(sandbox, config.name, context),
        "seccomp": None,
        "oom_score_adj": config.limits.oom_score_adj,
        "limits": process_limits(config.limits, abilities),
        "cgroups": [],
    }


def _shares(sandbox: SandboxConfig, name: str, context: SecurityContext) -> bool:
    """Whether a container is meant to reach this machine's sockets, or to look into processes of other containers:
    who is kept from the one cannot do the other."""
    spec, added = sandbox.pod.spec, (context.capabilities or Capabilities()).add
    traces = any(name.upper().removeprefix("CAP_") in ("SYS_PTRACE", "ALL") for name in added)
    looks = spec.host_pid or spec.share_process_namespace or target_of(sandbox.pod, name)
    return bool(traces or context.privileged or spec.host_network or looks)


def _arguments(config: ContainerConfig, used: UsedImage | None) -> list[str]:
    image = used.config if used else ImageConfig()
    if config.command:
        found = [*config.command, *config.args]
    elif config.args:
        # What has no entrypoint takes its arguments for the command; a flag is none, and meant for one that we lack.
        found = [*image.entrypoint, *config.args] if image.entrypoint or config.args[0][:1] != "-" else []
    else:
        found = [*image.entrypoint, *image.cmd]
    if not found:
        what = " here: the container runs this machine's programs" if used is None else ""
        raise Invalid(f"image {config.image or '(none)'} has no default command{what}; give the container a command")
    if any("\0" in each for each in found):
        raise Invalid("a command cannot hold a zero byte")
    return found


def stop_signal_of(config: ContainerConfig, used: UsedImage | None) -> int:
    name = config.stop_signal or (used.config.stop_signal if used else "") or "SIGTERM"
    if name.isdigit():
        return int(name)
    full = name if name.startswith("SIG") else f"SIG{name}"
    base, sign, offset = full.partition("+" if "+" in full else "-")
    try:
        return signal.Signals[base].value + (int(f"{sign}{offset}") if offset else 0)  # SIGRTMIN+3
    except (KeyError, ValueError):
        raise Invalid(f"there is no signal {name}") from None


def root_spec(
    sandbox: SandboxConfig,
    config: ContainerConfig,
    used: UsedImage | None,
    abilities: Abilities,
    scratch: str,
    mounted: Mapping[str, UsedImage] = MappingProxyType({}),
) -> "RootSpec | None":
    """None: the container has no root of its own. `mounted` are the images that are its volumes, by their ids."""
    for mount in (*config.mounts, *map(_as_mount, config.devices)):
        _check_mount(mount, config, abilities)
    context = context_of(sandbox.pod, config.name)
    if not abilities.namespaces:
        if used is not None:
            raise Invalid(f"image {config.image} cannot be used: {abilities.refusal}")
        if context.read_only_root_filesystem:
            raise Invalid(f"readOnlyRootFilesystem cannot be provided: {abilities.refusal}")
        return None
    return {
        "scratch": scratch,
        "image": [str(folder) for folder in used.layers] if used else [],
        "overlay": abilities.overlay,
        "in_user_namespace": abilities.in_user_namespace,
        "read_only": bool(context.read_only_root_filesystem),
        "privileged": bool(context.privileged),
        "fresh_proc": abilities.fresh_proc and not sandbox.pod.spec.host_pid,
        "hidden": [],
        "shm": "",
        "files": [],
        "mounts": [
            *(_mount_spec(each, mounted.get(each.image_id)) for each in config.mounts),
            *map(_device_spec, config.devices),
        ],
    }


def _check_mount(mount: Mount, config: ContainerConfig, abilities: Abilities) -> None:
    if mount.propagation == "Bidirectional":
        raise Invalid(f"mount {mount.container_path}: Bidirectional propagation is not provided")
    if not mount.container_path.startswith("/"):
        raise Invalid(f"mount {mount.container_path}: the path in the container has to be absolute")
    expected = mount.container_path in _KUBELET_FILES or mount.host_path == config.termination_message_path
    shown = f"{mount.host_path}/{mount.sub_path}" if mount.sub_path else mount.host_path
    in_place = mount.container_path == shown and not mount.read_only
    if mount.image and not abilities.namespaces:
        raise Invalid(f"image {mount.image} cannot be mounted: {abilities.refusal}")
    if not (abilities.namespaces or expected or in_place):
        raise Invalid(
            f"mount {mount.container_path} cannot be provided: containers are plain processes here, which see every "
            f"folder at its own place ({abilities.refusal})"
        )


def _mount_spec(mount: Mount, image: UsedImage | None = None) -> "MountSpec":
    return {
        "source": mount.host_path,
        "inside": mount.sub_path,
        "target": mount.container_path,
        "read_only": mount.read_only,
        "recursive_read_only": mount.read_only and mount.recursive_read_only,
        "follow": mount.propagation == "HostToContainer",
        "device": False,
        "image": [str(folder) for folder in image.layers] if image else [],
    }


def _as_mount(device: Device) -> Mount:
    """Raises Invalid when it is no device."""
    try:
        mode = os.stat(device.host_path).st_mode
    except OSError as error:
        raise Invalid(f"device {device.host_path} cannot be provided: {error.strerror}") from None
    if not (stat.S_ISCHR(mode) or stat.S_ISBLK(mode)):
        raise Invalid(f"{device.host_path} is no device: it cannot be given to a container as one")
    return Mount(host_path=device.host_path, container_path=device.container_path)


def _device_spec(device: Device) -> "MountSpec":
    spec = _mount_spec(_as_mount(device))
    spec["device"] = True
    return spec
