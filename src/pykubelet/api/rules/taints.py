"""Which taints of a node a pod puts up with."""

from collections.abc import Iterable

from pykubelet.api.scheduling import Taint, Toleration


def tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    return any(is_tolerated_by(taint, each) for each in tolerations)


def is_tolerated_by(taint: Taint, toleration: Toleration) -> bool:
    """An empty effect or key of a toleration stands for all."""
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    match toleration.operator:
        case "Exists":
            return True
        case "" | "Equal":
            return toleration.value == taint.value
        case _:
            return False
