"""Metrics as text in Prometheus' format 0.0.4, the way that Go writes it.

The library's own text would change what queries are written in: it says `le="1.0"` where Go says `le="1"`, gives every
counter the ending `_total`, and adds series of when each was made.
"""

import math
from collections.abc import Iterable
from typing import Final

from prometheus_client.core import Metric
from prometheus_client.samples import Sample

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPED: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


def text(families: Iterable[Metric]) -> bytes:
    lines: list[str] = []
    for family in families:
        is_counter = family.type == "counter"
        name = family.samples[0].name if is_counter and family.samples else family.name
        lines += (f"# HELP {name} {_help(family.documentation)}\n", f"# TYPE {name} {family.type}\n")
        lines += map(_line, family.samples)
    return "".join(lines).encode(errors="replace")


def _line(sample: Sample) -> str:
    if not sample.labels:
        return f"{sample.name} {_number(sample.value)}\n"
    pairs = ",".join(
        f'{label}="{_bound(value) if label == "le" else value.translate(_ESCAPED)}"'
        for label, value in sample.labels.items()
    )
    return f"{sample.name}{{{pairs}}} {_number(sample.value)}\n"


def _number(value: float) -> str:
    if math.isfinite(value):
        return repr(float(value)).removesuffix(".0")
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"


def _bound(number: str) -> str:
    return number.removesuffix(".0")


def _help(documentation: str) -> str:
    return documentation.replace("\\", r"\\").replace("\n", r"\n")
