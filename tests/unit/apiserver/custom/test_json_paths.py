"""The paths that columns of custom resources are written in."""

from typing import Any

import pytest

from pykubelet.apiserver.custom.json_paths import found_at, parsed

OBJ: dict[str, Any] = {
    "metadata": {"name": "w", "creationTimestamp": "2026-01-01T11:59:30Z", "annotations": {"a.b/c": "x"}},
    "spec": {"size": 3, "on": True, "list": ["a", "b"], "map": {"k": "v"}, "ratio": 1.5},
    "status": {"conditions": [{"type": "Other", "status": "False"}, {"type": "Ready", "status": "True"}]},
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".spec.size", [3]),
        ("$.spec.size", [3]),
        ("{.spec.size}", [3]),
        (".spec.none.deeper", []),
        (".spec.list[1]", ["b"]),
        (".spec.list[-1]", ["b"]),
        (".spec.list[9]", []),
        (".spec.list[*]", ["a", "b"]),
        (".metadata.annotations['a.b/c']", ["x"]),
        ('.metadata.annotations["a.b/c"]', ["x"]),
        (r".metadata.annotations['a\.b/c']", ["x"]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[?(@.type != 'Ready')].status", ["False"]),
        (".status.conditions[?(@.reason)].status", []),
        ("..size", [3]),
        (".spec.list[0:1]", ["a"]),
        (r".metadata.annotations.a\.b/c", ["x"]),
        (".a[b]", []),
    ],
)
def test_a_path_leads_to_values(path: str, found: list[Any]) -> None:
    assert found_at(OBJ, path) == found


@pytest.mark.parametrize("path", ["spec", ".a[", ".a[b]", ".a b", ".a[?(x)]", "", "." + "a" * 2000])
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match=r"cannot be read|names nothing|longer"):
        parsed(path)
