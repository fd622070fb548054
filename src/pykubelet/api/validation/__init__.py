"""What an API server refuses: the rules for the creation of a pod, as Kubernetes 1.34 has them.

Every fault is found at once and carries upstream's field path and error type; the sentences are our own.
"""

from pykubelet.api.validation.options import PodValidationOptions
from pykubelet.api.validation.pod import check_pod, validate_ephemeral_containers, validate_pod, validate_pod_spec

__all__ = ["PodValidationOptions", "check_pod", "validate_ephemeral_containers", "validate_pod", "validate_pod_spec"]
