import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pykubelet.apiserver.security.kubeconfig import kubeconfig, merged_kubeconfig, write_kubeconfig
from pykubelet.base.errors import Invalid

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def ours(server: str = "https://localhost:6443") -> dict[str, Any]:
    return kubeconfig(server, b"ca", b"certificate", b"key")


def test_a_kubeconfig_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "there" / "config"
    write_kubeconfig(path, ours())

    assert mode(path) == 0o600


def test_what_a_person_has_stays_when_ours_is_added() -> None:
    theirs = {
        "current-context": "work",
        "clusters": [{"name": "work", "cluster": {}}],
        "users": [{"name": "me", "user": {}}],
        "contexts": [{"name": "work", "context": {}}],
        "preferences": {"colors": True},
    }
    merged = merged_kubeconfig(theirs, ours())

    assert merged["current-context"] == "work"
    assert [each["name"] for each in merged["clusters"]] == ["work", "pykubelet"]
    assert merged["preferences"] == {"colors": True}


def test_ours_replaces_what_we_wrote_before() -> None:
    merged = merged_kubeconfig(ours("https://old:1"), ours("https://new:2"))

    assert [each["cluster"]["server"] for each in merged["clusters"]] == ["https://new:2"]
    assert merged["current-context"] == "pykubelet"


def test_a_kubeconfig_that_makes_no_sense_is_not_overwritten() -> None:
    with pytest.raises(Invalid, match="users of the kubeconfig is not a list of objects"):
        merged_kubeconfig({"users": "me"}, ours())
