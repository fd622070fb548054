import json
import os
from pathlib import Path
from typing import Any

import pytest

from pykubelet.api.security import PodSecurityContext, SeccompProfile, SecurityContext
from pykubelet.api.struct import changed
from pykubelet.base.errors import Invalid
from pykubelet.runtime.process.abilities import Abilities, limitations
from pykubelet.runtime.process.filters import Filters
from pykubelet.runtime.process.seccomp.numbers import spoken
from unit.runtime.process.machine import sandbox_of
from unit.runtime.process.seccomp.bpf_machine import answer

ROOT = Abilities(uid=0, gid=0, namespaces=True)
PLAIN = Abilities(uid=7, gid=7, refusal="no")
DEFAULT, FREE = SeccompProfile(type="RuntimeDefault"), SeccompProfile(type="Unconfined")
pytestmark = pytest.mark.skipif(not spoken(os.uname().machine), reason="nothing can be filtered on this machine")


def made(
    own: SeccompProfile | None = None,
    shared: SeccompProfile | None = None,
    abilities: Abilities = ROOT,
    *,
    folder: Path = Path("/nowhere"),
    by_default: bool = False,
    capabilities: list[int] | None = None,
    **context: Any,
) -> bytes | None:
    pod = sandbox_of(SecurityContext(seccomp_profile=own, **context), PodSecurityContext(seccomp_profile=shared)).pod
    return Filters(folder=folder, by_default=by_default).filter_of(pod, "c", capabilities, abilities)


def own(name: str | None) -> SeccompProfile:
    return SeccompProfile(type="Localhost", localhost_profile=name)


def test_the_containers_word_counts_before_the_pods_and_that_before_the_agents() -> None:
    assert made() is None
    assert made(by_default=True) is not None
    assert made(shared=FREE, by_default=True) is None
    assert made(DEFAULT, FREE) is not None
    assert made(FREE, DEFAULT) is None
    assert made(DEFAULT, privileged=True) is None


def test_the_capabilities_decide_with_the_profile() -> None:
    few, admin = made(DEFAULT, capabilities=[]), made(DEFAULT, capabilities=[21])
    assert few != admin
    assert made(DEFAULT, capabilities=[]) is few


def test_a_profile_of_ones_own_is_a_file_of_the_agents_folder(tmp_path: Path) -> None:
    profiles = tmp_path / "seccomp"
    (profiles / "deep").mkdir(parents=True)
    (profiles / "deep" / "own.json").write_text('{"defaultAction": "SCMP_ACT_LOG"}')
    program = made(own("deep/own.json"), folder=profiles)
    assert program is not None
    assert answer(program, spoken(os.uname().machine)[0].token, 1) == 0x7FFC_0000
    (profiles / "deep" / "own.json").write_text('{"defaultAction": "SCMP_ACT_ALLOW"}')
    assert made(own("deep/own.json"), folder=profiles) != program


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("missing.json", "missing.json: No such file"),
        ("broken.json", "seccomp profile broken.json cannot be used"),
        ("pipe", "is not a file"),
        ("large.json", "is larger than 1 MiB"),
        ("long.json", "the kernel takes at most 4096"),
        ("../secret.json", "below the agent's folder"),
        ("/../secret.json", "below the agent's folder"),
        ("", "below the agent's folder"),
        (None, "below the agent's folder"),
    ],
)
def test_a_profile_that_cannot_be_used_is_refused(tmp_path: Path, name: str | None, reason: str) -> None:
    profiles = tmp_path / "seccomp"
    profiles.mkdir()
    (tmp_path / "secret.json").write_text('{"defaultAction": "SCMP_ACT_ALLOW"}')
    (profiles / "broken.json").write_text("{")
    (profiles / "large.json").write_bytes(b" " * ((1 << 20) + 1))
    rules = [
        {"names": ["mount"], "action": "SCMP_ACT_ALLOW", "args": [{"index": 0, "value": each, "op": "SCMP_CMP_EQ"}]}
        for each in range(2000)
    ]
    (profiles / "long.json").write_text(json.dumps({"defaultAction": "SCMP_ACT_ERRNO", "syscalls": rules}))
    os.mkfifo(profiles / "pipe")
    with pytest.raises(Invalid, match=reason):
        made(own(name), folder=profiles)


def test_without_the_kernels_help_nothing_runs_unfiltered() -> None:
    bare = changed(ROOT, seccomp_refusal="this kernel has no filters for system calls")
    with pytest.raises(Invalid, match="seccompProfile RuntimeDefault cannot be provided: this kernel has no filters"):
        made(DEFAULT, abilities=bare)
    with pytest.raises(Invalid, match="this kernel has no filters"):
        made(abilities=bare, by_default=True)
    assert made(abilities=bare) is None
    assert any("seccomp profile are refused: this kernel" in each for each in limitations(bare))


def test_a_plain_process_is_filtered_only_if_it_gains_no_privileges() -> None:
    with pytest.raises(Invalid, match="set allowPrivilegeEscalation to false"):
        made(DEFAULT, abilities=PLAIN)
    assert made(DEFAULT, abilities=PLAIN, allow_privilege_escalation=False) is not None
    assert made(DEFAULT, abilities=changed(PLAIN, uid=0)) is not None
