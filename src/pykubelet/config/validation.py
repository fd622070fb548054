"""What cannot be meant, although each value is well written: upstream's ValidateKubeletConfiguration, and more."""

import logging
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pykubelet.pod.admission.sysctls import Sysctls

log = logging.getLogger(__name__)

_ENFORCEABLE: Final = (
    *("none", "pods", "system-reserved", "kube-reserved"),
    *("system-reserved-compressible", "kube-reserved-compressible"),
)


def faults(values: Mapping[str, Any]) -> Iterator[str]:
    """A sentence for each thing that is wrong with values by the options' keys."""
    yield from _of_single_values(values)
    yield from _of_images(values)
    yield from _of_enforcement(values["enforceNodeAllocatable"])
    try:
        Sysctls(values["allowedUnsafeSysctls"])
    except ValueError as error:
        yield f"allowedUnsafeSysctls: {error}"
    if bool(values["--image-credential-provider-config"]) != bool(values["--image-credential-provider-bin-dir"]):
        yield "--image-credential-provider-config and --image-credential-provider-bin-dir need each other"
    if values["--bootstrap-kubeconfig"] and not values["--kubeconfig"]:
        yield "--bootstrap-kubeconfig needs --kubeconfig: that is the file to be made"
    if bool(values["tlsCertFile"]) != bool(values["tlsPrivateKeyFile"]):
        yield "tlsCertFile and tlsPrivateKeyFile need each other"


def _of_single_values(values: Mapping[str, Any]) -> Iterator[str]:
    pods, lease, files = values["maxPods"], values["nodeLeaseDurationSeconds"], values["containerLogMaxFiles"]
    if pods < 0:
        yield f"maxPods: must not be negative, got {pods}"
    if lease <= 0:
        yield f"nodeLeaseDurationSeconds: must be positive, got {lease}"
    if files < 2:
        yield f"containerLogMaxFiles: must be 2 or more, got {files}"
    for name in ("port", "readOnlyPort", "healthzPort"):
        if not 0 <= values[name] <= 65535:
            yield f"{name}: must be from 0 to 65535, got {values[name]}"
    for name, choices in (
        ("cgroupDriver", ("cgroupfs", "systemd")),
        ("authorization.mode", ("Webhook", "AlwaysAllow")),
        ("configMapAndSecretChangeDetectionStrategy", ("Watch", "Cache", "Get")),
    ):
        if values[name] not in choices:
            yield f"{name}: must be {' or '.join(choices)}, got {values[name]!r}"


def _of_images(values: Mapping[str, Any]) -> Iterator[str]:
    high, low = values["imageGCHighThresholdPercent"], values["imageGCLowThresholdPercent"]
    most = values["maxParallelImagePulls"]
    if not 0 <= low < high <= 100:
        yield f"imageGCLowThresholdPercent: must be below imageGCHighThresholdPercent ({high}), got {low}"
    if most is not None and most < 1:
        yield f"maxParallelImagePulls: must be 1 or more, got {most}"
    if values["serializeImagePulls"] and most is not None and most > 1:
        yield "maxParallelImagePulls: cannot be more than 1 while serializeImagePulls is true"


def _of_enforcement(wanted: tuple[str, ...]) -> Iterator[str]:
    if unknown := [each for each in wanted if each not in _ENFORCEABLE]:
        yield f"enforceNodeAllocatable: must be some of {', '.join(_ENFORCEABLE)}, got {unknown[0]!r}"
    if "none" in wanted and len(wanted) > 1:
        yield "enforceNodeAllocatable: cannot be none and something else"
    for each in (each for each in wanted if each not in ("none", "pods")):
        log.warning("enforceNodeAllocatable: %s has no control group of its own here, and is not enforced", each)
