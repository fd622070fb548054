"""The words that the cells of tables are made of."""

from collections.abc import Mapping
from typing import Final

NONE: Final = "<none>"


def labels_text(labels: Mapping[str, str] | None) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or NONE
