import errno
import os

import pytest

from pykubelet.runtime.process.shim import capabilities, kernel
from pykubelet.runtime.process.shim.files import CannotRun

KNOWN = 41


class Kernel:
    """One process's sets, in a kernel that lets it lower them or not."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, uid: int, permitted: int, may_lower: bool) -> None:
        self.bounding = (1 << KNOWN) - 1
        self.permitted, self.may_lower = permitted, may_lower
        monkeypatch.setattr(os, "geteuid", lambda: uid)
        monkeypatch.setattr(kernel, "is_in_bounding_set", lambda n: bool(self.bounding >> n & 1) if n < KNOWN else None)
        monkeypatch.setattr(kernel, "permitted_capabilities", lambda: self.permitted)
        monkeypatch.setattr(kernel, "prctl", self._drop)
        monkeypatch.setattr(kernel, "set_capabilities", lambda mask: setattr(self, "permitted", mask))

    def _drop(self, option: int, number: int) -> None:
        assert option == kernel.PR_CAPBSET_DROP
        if not self.may_lower:
            raise OSError(errno.EPERM, "not permitted")
        self.bounding &= ~(1 << number)


def test_sets_are_numbers_with_a_bit_for_each() -> None:
    assert capabilities.mask([]) == 0
    assert capabilities.mask([0, 10]) == 0x401
    assert capabilities.mask(None) == 2**64 - 1


def test_the_bounding_set_is_lowered_to_what_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Kernel(monkeypatch, uid=0, permitted=0xFF, may_lower=True)
    capabilities.lower_bounds(0x41)
    assert process.bounding == 0x41


@pytest.mark.parametrize(
    ("uid", "permitted"), [(0, 0xFF), (0, 0), (1000, 0x2)], ids=["root", "root-for-now", "user-with-more"]
)
def test_who_cannot_lower_it_and_has_more_to_give_runs_nothing(
    monkeypatch: pytest.MonkeyPatch, uid: int, permitted: int
) -> None:
    Kernel(monkeypatch, uid=uid, permitted=permitted, may_lower=False)
    with pytest.raises(CannotRun, match="lacks CAP_SETPCAP"):
        capabilities.lower_bounds(0x41)


def test_who_has_nothing_more_anyway_need_not_lower_it(monkeypatch: pytest.MonkeyPatch) -> None:
    Kernel(monkeypatch, uid=1000, permitted=0, may_lower=False)
    capabilities.lower_bounds(0)


@pytest.mark.parametrize(("uid", "left"), [(0, 0x41), (1000, 0)])
def test_root_keeps_what_it_may_and_others_nothing(monkeypatch: pytest.MonkeyPatch, uid: int, left: int) -> None:
    process = Kernel(monkeypatch, uid=uid, permitted=0xFF, may_lower=True)
    capabilities.keep(0x1041)
    assert process.permitted == left
