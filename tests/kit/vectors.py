"""Facts recorded from Kubernetes, and the replay of them.

`tests/data/vectors/<name>.jsonl` holds one case a line. `PYKUBELET_<NAME>_VECTORS` may name one more file of the same
form, so that other recordings can be replayed without changing a test.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

Case = dict[str, Any]

_RECORDED: Final = Path(__file__).parents[1] / "data" / "vectors"
_SHOWN: Final = 5
_LONGEST_SHOWN: Final = 2000


def cases(name: str) -> list[Case]:
    """Every recorded case, those of the further file last."""
    files = [_RECORDED / f"{name}.jsonl"]
    if further := os.environ.get(f"PYKUBELET_{name.upper().replace('-', '_')}_VECTORS"):
        files.append(Path(further))
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    return [json.loads(line) for line in lines]


def replay(name: str, difference: Callable[[Case], str], *, having: str = "") -> None:
    """Ask `difference` about each case, or about those that have the field `having`.

    It answers "" when we agree with what was recorded, else says how we differ.
    """
    recorded = [case for case in cases(name) if not having or having in case]
    assert recorded, f"no {name} vectors"
    differences = [text for case in recorded if (text := _asked(difference, case))]
    verdict = f"{name}: {len(recorded) - len(differences)} of {len(recorded)} agree"
    print(verdict)
    if differences:
        pytest.fail("\n".join([verdict, *differences[:_SHOWN]]), pytrace=False)


def unequal(what: str, ours: object, recorded: object) -> str:
    """ "" when both are equal, else a line that shows them."""
    return "" if ours == recorded else f"{what}:\n  ours     {ours}\n  recorded {recorded}"


def _asked(difference: Callable[[Case], str], case: Case) -> str:
    try:
        return difference(case)[:_LONGEST_SHOWN]
    except Exception as error:  # a case that breaks us is a case in which we differ
        return f"{type(error).__name__}: {error} in {json.dumps(case)}"[:_LONGEST_SHOWN]
