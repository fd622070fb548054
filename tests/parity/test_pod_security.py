"""The levels of the Pod Security Standards forbid what upstream forbids, in the same words."""

from kit.vectors import Case, replay
from pykubelet.apiserver.admission.pod_security import policy_of

LABEL = "pod-security.kubernetes.io/enforce"


def difference(case: Case) -> str:
    for standard, wanted in case["forbidden"].items():
        level, _, version = standard.partition(":")
        policy, _ = policy_of({LABEL: level, f"{LABEL}-version": version})
        found = policy.enforce.faults(case["metadata"], case["spec"])
        said = ", ".join(f"{reason} ({detail})" if detail else reason for reason, detail in found)
        if said != wanted:
            return f"{standard}: {said!r} instead of {wanted!r}"
    return ""


def test_the_levels_forbid_what_upstream_forbids() -> None:
    replay("pod_security", difference)
