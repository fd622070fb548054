"""Creation-time validation, replayed against what Kubernetes finds wrong with the same pods."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from kit.vectors import Case, replay
from pykubelet.api.codec import convert
from pykubelet.api.pod import Pod
from pykubelet.api.validation import PodValidationOptions, validate_pod

_OPTIONS: Final = PodValidationOptions(allow_privileged=False)  # as it was when the facts were recorded


def test_pods_have_the_faults_that_upstream_finds() -> None:
    replay("pod", _difference)


def _difference(case: Case) -> str:
    errors = validate_pod(convert(Pod, case["defaulted"]), _OPTIONS)
    found = Counter((error.field, str(error.type)) for error in errors)
    recorded = Counter((error["field"], error["type"]) for error in case.get("errors") or ())
    lines = [*_listed("not found by us", recorded - found), *_listed("found only by us", found - recorded)]
    return "\n  ".join([str(case.get("case", "?")), *lines]) if lines else ""


def _listed(what: str, errors: Counter[tuple[str, str]]) -> Iterator[str]:
    for (field, kind), count in errors.items():
        yield f"{what}: {field} {kind}" + (f", {count} times" if count > 1 else "")
