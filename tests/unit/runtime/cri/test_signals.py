"""Signals by name and as the CRI counts them."""

import pytest

from pykubelet.api.validation import probe
from pykubelet.runtime.cri._gen import cri_pb2 as cri
from pykubelet.runtime.cri.signals import signal_name, signal_value


@pytest.mark.parametrize(
    ("name", "number"), [("SIGTERM", 23), ("SIGRTMIN", 35), ("SIGRTMIN+15", 50), ("SIGRTMAX-14", 51), ("SIGRTMAX", 65)]
)
def test_there_and_back(name: str, number: int) -> None:
    assert signal_value(name) == number
    assert signal_name(number) == name


def test_what_is_not_known_is_the_runtime_s_choice() -> None:
    assert signal_value("") == signal_value("SIGNONE") == cri.RUNTIME_DEFAULT
    assert signal_name(0) is None
    assert signal_name(99) is None


def test_every_signal_that_a_pod_may_name_is_known() -> None:
    names = getattr(probe, "_SIGNALS", ())
    assert all(signal_value(name) for name in names)
