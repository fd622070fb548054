"""Quantities, replayed against what Kubernetes makes of the same spellings."""

from kit.vectors import Case, replay, unequal
from pykubelet.api.quantity import parse


def test_quantities_read_and_print_as_upstream() -> None:
    replay("quantity", _difference)


def _difference(case: Case) -> str:
    try:
        quantity = parse(case["in"])
    except ValueError as error:
        return "" if case.get("error") else f"{case['in']!r} is refused: {error}"
    if case.get("error"):
        return f"{case['in']!r} is read as {quantity}, but should be refused"
    ours = {"canonical": str(quantity), "sign": quantity.sign}
    # Upstream's int64 overflows where our integers stay exact: there is nothing to compare beyond it.
    for key, number in (("value", quantity.value), ("milli", quantity.milli)):
        if abs(number) < 2**63:
            ours[key] = str(number)
    return unequal(repr(case["in"]), ours, {key: case[key] for key in ours})
