"""Which controllers run here: what `--controllers` says, in kube-controller-manager's words, its older names included.

Whoever runs a real kube-controller-manager or kube-scheduler beside this server switches ours off by the same names.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from pykubelet.base.errors import Invalid

SCHEDULER: Final = "kube-scheduler"
_ALL: Final = "*"
_NONE: Final = "-*"
_FOREIGN: Final = frozenset(
    (
        "bootstrap-signer-controller",
        "cloud-node-lifecycle-controller",
        "device-taint-eviction-controller",
        "endpointslice-mirroring-controller",
        "kube-apiserver-serving-clustertrustbundle-publisher-controller",
        "legacy-serviceaccount-token-cleaner-controller",
        "node-ipam-controller",
        "node-route-controller",
        "podcertificaterequest-cleaner-controller",
        "selinux-warning-controller",
        "service-cidr-controller",
        "service-lb-controller",
        "storage-version-migrator-controller",
        "storageversion-garbage-collector-controller",
        "taint-eviction-controller",
        "ttl-controller",
    )
)
"""What upstream has and we do not, or not yet: a list that was written for upstream's is taken as it is."""
_OLDER: Final = {
    "attachdetach": "persistentvolume-attach-detach-controller",
    "bootstrapsigner": "bootstrap-signer-controller",
    "cloud-node-lifecycle": "cloud-node-lifecycle-controller",
    "csrapproving": "certificatesigningrequest-approving-controller",
    "csrcleaner": "certificatesigningrequest-cleaner-controller",
    "csrsigning": "certificatesigningrequest-signing-controller",
    "endpoint": "endpoints-controller",
    "endpointslicemirroring": "endpointslice-mirroring-controller",
    "garbagecollector": "garbage-collector-controller",
    "horizontalpodautoscaling": "horizontal-pod-autoscaler-controller",
    "legacy-service-account-token-cleaner": "legacy-serviceaccount-token-cleaner-controller",
    "nodeipam": "node-ipam-controller",
    "nodelifecycle": "node-lifecycle-controller",
    "podgc": "pod-garbage-collector-controller",
    "pv-protection": "persistentvolume-protection-controller",
    "pvc-protection": "persistentvolumeclaim-protection-controller",
    "resource-claim-controller": "resourceclaim-controller",
    "root-ca-cert-publisher": "root-ca-certificate-publisher-controller",
    "route": "node-route-controller",
    "service": "service-lb-controller",
    "storage-version-gc": "storageversion-garbage-collector-controller",
    "tokencleaner": "token-cleaner-controller",
}
"""Those that are more than the newer name without `-controller`."""


def chosen(wanted: Sequence[str], ours: Iterable[str]) -> frozenset[str]:
    """Which of ours run. The first word about a controller counts; without one, `*` does. Raises Invalid.

    `-*` says what nothing would say, for who wants none of them.
    """
    names = frozenset(ours)
    said: dict[str, bool] = {}
    for word in wanted:
        if word not in (_ALL, _NONE):
            said.setdefault(_name(word.removeprefix("-"), names), not word.startswith("-"))
    return frozenset(name for name in names if said.get(name, _ALL in wanted))


def _name(word: str, ours: frozenset[str]) -> str:
    for name in (word, _OLDER.get(word, ""), f"{word}-controller"):
        if name in ours or name in _FOREIGN:
            return name
    raise Invalid(f"--controllers: {word!r} is not in the list of known controllers: {', '.join(sorted(ours))}")
