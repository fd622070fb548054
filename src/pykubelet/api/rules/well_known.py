"""Names that mean the same to every part of a cluster: labels, annotations, taints and signers."""

from typing import Final

# --- annotations of pods
SOURCE_ANNOTATION: Final = "kubernetes.io/config.source"
SEEN_ANNOTATION: Final = "kubernetes.io/config.seen"
MIRROR_ANNOTATION: Final = "kubernetes.io/config.mirror"
HASH_ANNOTATION: Final = "kubernetes.io/config.hash"
APP_ARMOR_PREFIX: Final = "container.apparmor.security.beta.kubernetes.io/"

# --- labels of nodes
HOSTNAME_LABEL: Final = "kubernetes.io/hostname"
OS_LABEL: Final = "kubernetes.io/os"
ARCH_LABEL: Final = "kubernetes.io/arch"
OLD_OS_LABEL: Final = "beta.kubernetes.io/os"
OLD_ARCH_LABEL: Final = "beta.kubernetes.io/arch"
KUBELET_LABELS: Final = (
    HOSTNAME_LABEL,
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
    OS_LABEL,
    ARCH_LABEL,
    OLD_OS_LABEL,
    OLD_ARCH_LABEL,
)
"""Those that an agent gives its own node."""

# --- taints of nodes
UNSCHEDULABLE_TAINT: Final = "node.kubernetes.io/unschedulable"
NOT_READY_TAINT: Final = "node.kubernetes.io/not-ready"
UNREACHABLE_TAINT: Final = "node.kubernetes.io/unreachable"

# --- signers of certificates
CLIENT_SIGNER: Final = "kubernetes.io/kube-apiserver-client-kubelet"
SERVING_SIGNER: Final = "kubernetes.io/kubelet-serving"

# --- storage classes
OLD_CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
DEFAULT_CLASS_ANNOTATION: Final = "storageclass.kubernetes.io/is-default-class"
PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
REMOVED_VOLUMES: Final = "pykubelet.io/remove-volumes"
"""Of a node that has made folders for volumes: those that it is asked to take away."""
HOST_PATH_PROVISIONER: Final = "pykubelet.io/host-path"
