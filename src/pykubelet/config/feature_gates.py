"""Feature gates: upstream's names, stages and defaults, and which of them change something here.

`feature_gates.txt` has a line for each gate of upstream's kubelet: name, stage, default, and whether it is locked.
"""

import logging
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from pykubelet.base.errors import Invalid

log = logging.getLogger(__name__)

_EVERY: Final = {"AllAlpha": "ALPHA", "AllBeta": "BETA"}
"""Gates that stand for all of a stage; one that is named itself is not among them."""

SWITCHES: Final[Mapping[str, str]] = {
    "CSIVolumeHealth": "",
    "ContainerCheckpoint": "server.checkpoints",
    "ContainerRestartRules": "features.restart_rules",
    "ContainerStopSignals": "features.stop_signals",
    "DisableCPUQuotaWithExclusiveCPUs": "pinning.unlimited_quota",
    "ImageVolume": "image_volumes",
    "KubeletFineGrainedAuthz": "server.auth.fine_grained",
    "SystemdWatchdog": "watchdog",
    "UserNamespacesSupport": "user_namespaces",
    # what may be configured, or how long waits are, depends on these
    **dict.fromkeys(("CPUManagerPolicyAlphaOptions", "CPUManagerPolicyBetaOptions"), ""),
    **dict.fromkeys(("TopologyManagerPolicyBetaOptions", "TopologyManagerPolicyOptions"), ""),
    **dict.fromkeys(("CustomCPUCFSQuotaPeriod", "ImageMaximumGCAge", "KubeletCrashLoopBackOffMax"), ""),
    **dict.fromkeys(("DRAExtendedResource", "DynamicResourceAllocation", "ResourceHealthStatus"), ""),
    **dict.fromkeys(("KubeletPodResourcesDynamicResources",), ""),
    **dict.fromkeys(("GracefulNodeShutdown", "GracefulNodeShutdownBasedOnPodPriority"), ""),
    **dict.fromkeys(("InPlacePodVerticalScaling", "InPlacePodVerticalScalingExclusiveCPUs"), ""),
    **dict.fromkeys(("InPlacePodVerticalScalingExclusiveMemory",), ""),
    **dict.fromkeys(("NodeLogQuery", "ReduceDefaultCrashLoopBackOffDecay", "RotateKubeletServerCertificate"), ""),
}
"""The gates that change something here, and the setting that each turns on or off, where it is one."""

ALWAYS_ON: Final = frozenset({"ComponentFlagz", "ComponentStatusz", "EventedPLEG"})
"""What this agent does in any case, whatever upstream's default."""


class Gate(NamedTuple):
    stage: str
    """ALPHA, BETA, GA or DEPRECATED."""
    is_on: bool
    is_locked: bool


@cache
def known_gates() -> Mapping[str, Gate]:
    """All of upstream's, by name."""
    found = {}
    for line in (Path(__file__).parent / "feature_gates.txt").read_text().splitlines():
        name, stage, default, *locked = line.split()
        found[name] = Gate(stage, default == "on", bool(locked))
    return found


def feature_gates(wanted: Mapping[str, bool]) -> dict[str, bool]:
    """Whether each gate is on. Raises Invalid for one that nobody knows or that cannot be changed."""
    known = known_gates()
    for name, is_on in wanted.items():
        gate = known.get(name)
        if gate is None:
            from difflib import get_close_matches  # most names are written well

            near = get_close_matches(name, known, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise Invalid(f"featureGates: unrecognized feature gate: {name}{hint}")
        if gate.is_locked and is_on != gate.is_on:
            locked = "true" if gate.is_on else "false"
            said = "true" if is_on else "false"
            raise Invalid(f"featureGates: cannot set feature gate {name} to {said}, feature is locked to {locked}")
    gates = {name: gate.is_on for name, gate in known.items()}
    for name, stage in _EVERY.items():
        if wanted.get(name):
            gates |= dict.fromkeys((each for each, gate in known.items() if gate.stage == stage), True)
    return {**gates, **wanted}


def tell(wanted: Mapping[str, bool]) -> None:
    """Say in the log which of the wanted gates are set in vain, and which are on their way out."""
    known = known_gates()
    for name, is_on in sorted(wanted.items()):
        gate, said = known[name], f"{name}={'true' if is_on else 'false'}"
        if gate.stage in ("GA", "DEPRECATED"):
            log.warning("feature gate %s: upstream will remove it, for it is %s", said, gate.stage)
        if name in _EVERY and is_on:
            log.warning("feature gate %s: it turns on only what this agent can do: %s", said, ", ".join(SWITCHES))
        elif name in ALWAYS_ON:
            if not is_on:
                log.warning("feature gate %s has no effect: here it is always on", said)
        elif is_on != gate.is_on and name not in SWITCHES and name not in _EVERY:
            log.warning("feature gate %s has no effect: here it is always %s", said, "off" if is_on else "on")


def stages() -> Mapping[str, str]:
    """The stage of each gate, as upstream's metric writes it."""
    return {name: "" if gate.stage == "GA" else gate.stage for name, gate in known_gates().items()}
