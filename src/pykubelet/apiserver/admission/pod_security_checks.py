"""The checks of the Pod Security Standards, each as of the versions in which it changed. Pure.

A check answers with the reason and the details of what it forbids, or None.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from pykubelet.apiserver.objects import at

Spec = Mapping[str, Any]
Fault = tuple[str, str]
Check = Callable[[Mapping[str, Any], Spec], Fault | None]
"""metadata, spec -> reason and details"""

LATEST: Final = 34
"""The minor version of the newest rules."""
_CAPABILITIES: Final = frozenset(
    (
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    )
)
_VOLUMES: Final = frozenset(
    (
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    )
)
_SELINUX: Final = frozenset(("", "container_t", "container_init_t", "container_kvm_t"))
_SYSCTLS: Final = frozenset(
    (
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range",
        "net.ipv4.ip_unprivileged_port_start",
    )
)
_SYSCTLS_27: Final = _SYSCTLS | {"net.ipv4.ip_local_reserved_ports"}
_SYSCTLS_29: Final = _SYSCTLS_27 | {
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
}
_SYSCTLS_32: Final = _SYSCTLS_29 | {"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"}
_APPARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
_SECCOMP_POD: Final = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER: Final = "container.seccomp.security.alpha.kubernetes.io/"
_PROFILES: Final = ("Localhost", "RuntimeDefault")
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe", "lifecycle.postStart", "lifecycle.preStop")


class Versioned(msgspec.Struct, frozen=True):
    name: str
    since: tuple[tuple[int, Check], ...]
    """Minor versions, and the check from then on."""
    replaces: str = ""
    """A check of the level below, which is left out where this one is made."""

    def at(self, version: int) -> Check | None:
        return next((check for minor, check in reversed(self.since) if minor <= version), None)


def faults(level: str, version: int, metadata: Mapping[str, Any], spec: Spec) -> list[Fault]:
    """What a level forbids of a pod, by the rules of a minor version."""
    version = min(version, LATEST)
    chosen: list[Check] = []
    if level == "restricted":
        replaced = {each.replaces for each in RESTRICTED if each.at(version) is not None}
        every = [each for each in BASELINE if each.name not in replaced] + list(RESTRICTED)
    else:
        every = list(BASELINE) if level == "baseline" else []
    chosen = [check for each in every if (check := each.at(version)) is not None]
    return [found for check in chosen if (found := check(metadata, spec)) is not None]


# --- baseline


def _apparmor(metadata: Mapping[str, Any], spec: Spec) -> Fault | None:
    setters, values = _set_badly(spec, "appArmorProfile", lambda given: given.get("type", "") not in _PROFILES)
    bad = sorted({each.get("type", "") for each in values})
    notes = [
        f"{key}={_quote(value)}"
        for key, value in (metadata.get("annotations") or {}).items()
        if key.startswith(_APPARMOR) and value not in ("", "runtime/default") and not value.startswith("localhost/")
    ]
    if notes:
        bad += sorted(notes)
        setters.append("annotation" if len(notes) == 1 else "annotations")
    if not setters:
        return None
    reason = "forbidden AppArmor profile" if len(bad) == 1 else "forbidden AppArmor profiles"
    return reason, f"{' and '.join(setters)} must not set AppArmor profile type to {_quoted(bad)}"


def _capabilities(metadata: Mapping[str, Any], spec: Spec) -> Fault | None:
    bad = {
        name: _added(context) - _CAPABILITIES for name, context in _contexts(spec) if _added(context) - _CAPABILITIES
    }
    if not bad:
        return None
    what = _quoted(sorted(set().union(*bad.values())))
    return "non-default capabilities", f"{_who(bad)} must not include {what} in securityContext.capabilities.add"


def _host_namespaces(metadata: Mapping[str, Any], spec: Spec) -> Fault | None:
    found = [f"{name}=true" for name in ("hostNetwork", "hostPID", "hostIPC") if spec.get(name)]
    return ("host namespaces", ", ".join(found)) if found else None


def _host_paths(metadata: Mapping[str, Any], spec: Spec) -> Fault | None:
    names = [each.get("name", "") for each in spec.get("volumes") or () if each.get("hostPath") is not None]
    return ("hostPath volumes", _who(names, "volume")) if names else None


def _host_ports(metadata: Mapping[str, Any], spec: Spec) -> Fault | None:
    bad = {
        each.get("name", ""): {str(port["hostPort"]) for port in each.get("ports") or () if port.get("hostPort")}
        for each in _containers(spec)
    }
    names, ports = [name for name, found in bad.items() if found], sorted(set().union(*bad.values()))
    if not names:
        return None
    return "hostPort", f"{_who(names)} {_use(names)} {_plural('hostPort', ports)} {', '.join(ports)}"


def _probe_hosts(metadata: Mapping[str, Any], spec: Spec) -> Fault | None:
    bad: dict[str, set[str]] = {}
    for each in _containers(spec):
        hosts = {at(each, f"{probe}.{way}.host", "") for probe in _PROBES for way in ("httpGet", "tcpSocket")} - {""}
        if hosts:
            bad.setdefault(each.get("name", ""), set()).update(hosts)
    if not bad:
        return None
    forbidden = sorted(set().union(*bad.values()))
    what = f"{_plural('probe or lifecycle host', forbidden)} {_quoted(forbidden)}"
    return "probe or lifecycle host", f"{_who(sorted(bad))} {_use(bad)} {what}"


def _privileged(metadata: Mapping[str, Any], spec: Spec) -> Fault | None:
    names = [name for name, context in _contexts(spec) if context.get("privileged")]
    return ("privileged", f"{_who(names)} must not set securityContext.privileged=true") if names else None


def _proc_mount(metadata: Mapping[str, Any], spec: Spec) -> Fault | None:
    bad = [
        (name, str(context["procMount"])) for name, context in _contexts(spec) if context.get("procMount") is not None
    ]
    bad = [each for each in bad if each[1] != "Default"]
    if not bad:
        return None
    kinds = _quoted(sorted({kind for _, kind in bad}))
    return "procMount", f"{_who([name for name, _ in bad])} must not set securityContext.procMount to {kinds}"


def _selinux(types: frozenset[str]) -> Check:
    def check(metadata: Mapping[str, Any], spec: Spec) -> Fault | None:
        def is_bad(given: Mapping[str, Any]) -> bool:
            return given.get("type", "") not in types or bool(given.get("user") or given.get("role"))

        setters, values = _set_badly(spec, "seLinuxOptions", is_bad)
        if not setters:
            return None
        bad = sorted({each["type"] for each in values if each.get("type", "") not in types})
        said = [f"{_plural('type', bad)} {_quoted(bad)}"] if bad else []
        said += [f"{part} may not be set" for part in ("user", "role") if any(each.get(part) for each in values)]
        text = f"{' and '.join(setters)} set forbidden securityContext.seLinuxOptions: {'; '.join(said)}"
        return "seLinuxOptions", text

    return check


def _seccomp_annotations(metadata: Mapping[str, Any], spec: Spec) -> Fault | None:
    notes = metadata.get("annotations") or {}
    keys = [_SECCOMP_POD, *(f"{_SECCOMP_CONTAINER}{each.get('name', '')}" for each in _containers(spec))]
    fine = ("runtime/default", "docker/default")
    bad = {key: notes[key] for key in keys if key in notes and notes[key] not in fine}
    texts = sorted(f"{key}={_quote(value)}" for key, value in bad.items() if not value.startswith("localhost/"))
    return ("seccompProfile", f"forbidden {_plural('annotation', texts)} {', '.join(texts)}") if texts else None


def _seccomp(metadata: Mapping[str, Any], spec: Spec) -> Fault | None:
    setters, values = _set_badly(spec, "seccompProfile", lambda given: given.get("type", "") not in _PROFILES)
    if not setters:
        return None
    types = _quoted(sorted({each.get("type", "") for each in values}))
    return "seccompProfile", f"{' and '.join(setters)} must not set securityContext.seccompProfile.type to {types}"


def _sysctls(allowed: frozenset[str]) -> Check:
    def check(metadata: Mapping[str, Any], spec: Spec) -> Fault | None:
        names = [each.get("name", "") for each in at(spec, "securityContext.sysctls", ())]
        bad = [name for name in names if name not in allowed]
        return ("forbidden sysctls", ", ".join(bad)) if bad else None

    return check


def _host_process(metadata: Mapping[str, Any], spec: Spec) -> Fault | None:
    setters, _ = _set_badly(spec, "windowsOptions", lambda given: bool(given.get("hostProcess")))
    text = f"{' and '.join(setters)} must not set securityContext.windowsOptions.hostProcess=true"
    return ("hostProcess", text) if setters else None


# --- restricted


def _escalation(metadata: Mapping[str, Any], spec: Spec) -> Fault | None:
    names = [name for name, context in _contexts(spec) if context.get("allowPrivilegeEscalation") is not False]
    text = f"{_who(names)} must set securityContext.allowPrivilegeEscalation=false"
    return ("allowPrivilegeEscalation != false", text) if names else None


def _few_capabilities(metadata: Mapping[str, Any], spec: Spec) -> Fault | None:
    keeps = [name for name, context in _contexts(spec) if "ALL" not in at(context, "capabilities.drop", ())]
    adds = {name: _added(context) - {"NET_BIND_SERVICE"} for name, context in _contexts(spec)}
    adds = {name: found for name, found in adds.items() if found}
    said = [f'{_who(keeps)} must set securityContext.capabilities.drop=["ALL"]'] if keeps else []
    if adds:
        what = _quoted(sorted(set().union(*adds.values())))
        said.append(f"{_who(adds)} must not include {what} in securityContext.capabilities.add")
    return ("unrestricted capabilities", "; ".join(said)) if said else None


def _few_volumes(metadata: Mapping[str, Any], spec: Spec) -> Fault | None:
    bad = [each for each in spec.get("volumes") or () if not any(each.get(kind) is not None for kind in _VOLUMES)]
    if not bad:
        return None
    kinds = {
        next((key for key, given in each.items() if key != "name" and given is not None), "unknown") for each in bad
    }
    names = [each.get("name", "") for each in bad]
    what = f"{_plural('restricted volume type', kinds)} {_quoted(sorted(kinds))}"
    return "restricted volume types", f"{_who(names, 'volume')} {_use(names)} {what}"


def _non_root(metadata: Mapping[str, Any], spec: Spec) -> Fault | None:
    whole = at(spec, "securityContext.runAsNonRoot")
    own = {name: context.get("runAsNonRoot") for name, context in _contexts(spec)}
    setters = ["pod"] if whole is False else []
    if names := [name for name, given in own.items() if given is False]:
        setters.append(_who(names))
    if setters:
        return "runAsNonRoot != true", f"{' and '.join(setters)} must not set securityContext.runAsNonRoot=false"
    names = [name for name, given in own.items() if given is None and not whole]
    text = f"pod or {_who(names)} must set securityContext.runAsNonRoot=true"
    return ("runAsNonRoot != true", text) if names else None


def _user(metadata: Mapping[str, Any], spec: Spec) -> Fault | None:
    setters = ["pod"] if at(spec, "securityContext.runAsUser") == 0 else []
    if names := [name for name, context in _contexts(spec) if context.get("runAsUser") == 0]:
        setters.append(_who(names))
    return ("runAsUser=0", f"{' and '.join(setters)} must not set runAsUser=0") if setters else None


def _seccomp_needed(metadata: Mapping[str, Any], spec: Spec) -> Fault | None:
    if (bad := _seccomp(metadata, spec)) is not None:
        return bad
    if at(spec, "securityContext.seccompProfile") is not None:
        return None
    names = [name for name, context in _contexts(spec) if context.get("seccompProfile") is None]
    needs = 'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    return ("seccompProfile", f"pod or {_who(names)} {needs}") if names else None


def _of_linux(check: Check) -> Check:
    """What Windows does not have, nobody needs to set there."""

    def checked(metadata: Mapping[str, Any], spec: Spec) -> Fault | None:
        return None if at(spec, "os.name") == "windows" else check(metadata, spec)

    return checked


BASELINE: Final = (
    Versioned("appArmorProfile", ((0, _apparmor),)),
    Versioned("capabilities_baseline", ((0, _capabilities),)),
    Versioned("hostNamespaces", ((0, _host_namespaces),)),
    Versioned("hostPathVolumes", ((0, _host_paths),)),
    Versioned("hostPorts", ((0, _host_ports),)),
    Versioned("hostProbesAndHostLifecycle", ((34, _probe_hosts),)),
    Versioned("privileged", ((0, _privileged),)),
    Versioned("procMount", ((0, _proc_mount),)),
    Versioned("seLinuxOptions", ((0, _selinux(_SELINUX)), (31, _selinux(_SELINUX | {"container_engine_t"})))),
    Versioned("seccompProfile_baseline", ((0, _seccomp_annotations), (19, _seccomp))),
    Versioned(
        "sysctls",
        (
            (0, _sysctls(_SYSCTLS)),
            (27, _sysctls(_SYSCTLS_27)),
            (29, _sysctls(_SYSCTLS_29)),
            (32, _sysctls(_SYSCTLS_32)),
        ),
    ),
    Versioned("windowsHostProcess", ((0, _host_process),)),
)
RESTRICTED: Final = (
    Versioned("allowPrivilegeEscalation", ((8, _escalation), (25, _of_linux(_escalation)))),
    Versioned(
        "capabilities_restricted",
        ((22, _few_capabilities), (25, _of_linux(_few_capabilities))),
        replaces="capabilities_baseline",
    ),
    Versioned("restrictedVolumes", ((0, _few_volumes),), replaces="hostPathVolumes"),
    Versioned("runAsNonRoot", ((0, _non_root),)),
    Versioned("runAsUser", ((23, _user),)),
    Versioned(
        "seccompProfile_restricted",
        ((19, _seccomp_needed), (25, _of_linux(_seccomp_needed))),
        replaces="seccompProfile_baseline",
    ),
)
"""Both in the order in which a refusal names them."""


# --- looking at pods


def _containers(spec: Spec) -> Iterator[Mapping[str, Any]]:
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(kind) or ()


def _contexts(spec: Spec) -> list[tuple[str, Mapping[str, Any]]]:
    return [(each.get("name", ""), each.get("securityContext") or {}) for each in _containers(spec)]


def _set_badly(
    spec: Spec, field: str, is_bad: Callable[[Mapping[str, Any]], bool]
) -> tuple[list[str], list[Mapping[str, Any]]]:
    """-> who sets it to something bad, and to what"""
    setters, values, names = [], [], []
    whole = at(spec, f"securityContext.{field}")
    if whole is not None and is_bad(whole):
        setters.append("pod")
        values.append(whole)
    for name, context in _contexts(spec):
        given = context.get(field)
        if given is not None and is_bad(given):
            names.append(name)
            values.append(given)
    if names:
        setters.append(_who(names))
    return setters, values


def _added(context: Mapping[str, Any]) -> set[str]:
    return set(at(context, "capabilities.add", ()))


# --- words


def _who(names: Iterable[str], kind: str = "container") -> str:
    found = list(names)
    return f"{_plural(kind, found)} {_quoted(found)}"


def _plural(word: str, of: Iterable[object]) -> str:
    return word if len(list(of)) == 1 else f"{word}s"


def _use(of: Iterable[object]) -> str:
    return "uses" if len(list(of)) == 1 else "use"


def _quoted(values: Iterable[str]) -> str:
    return ", ".join(f'"{each}"' for each in values)


def _quote(value: str) -> str:
    return msgspec.json.encode(value).decode()
