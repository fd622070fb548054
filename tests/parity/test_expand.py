"""The expansion of `$(NAME)`, replayed against what Kubernetes makes of the same texts."""

from kit.vectors import Case, replay, unequal
from pykubelet.pod.container.env import expand


def test_references_expand_as_upstream() -> None:
    replay("expand", _difference)


def _difference(case: Case) -> str:
    return unequal(repr(case["in"]), expand(case["in"], case.get("env") or {}), case["out"])
