"""Strategic merge patches on pods, replayed against what an API server makes of them."""

import copy

from kit.vectors import Case, replay, unequal
from pykubelet.apiserver.patch.strategic_merge import apply_strategic_merge_patch
from pykubelet.apiserver.schema.catalogue import schema_of


def test_strategic_merge_patches_merge_as_upstream() -> None:
    replay("smp", _difference)


def _difference(case: Case) -> str:
    given = copy.deepcopy(case)
    result = apply_strategic_merge_patch(case["original"], case["patch"], schema_of("v1", "Pod"))
    return unequal(case["case"], result, case["result"]) or unequal(f"{case['case']}, the input", case, given)
