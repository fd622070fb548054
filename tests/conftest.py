"""What tests of several kinds share: one private containerd, brought up for the first test that asks."""

from collections.abc import Iterator

import pytest

from kit.containerd import Containerd, containerd_for_tests


@pytest.fixture(scope="session")
def containerd() -> Iterator[Containerd]:
    with containerd_for_tests() as running:
        yield running
