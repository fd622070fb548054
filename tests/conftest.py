"""What tests of several kinds share: one private containerd, brought up for the first test that asks."""

import os
from collections.abc import Generator, Iterator

import pytest

from kit.containerd import Containerd, containerd_for_tests


@pytest.fixture(scope="session")
def containerd() -> Iterator[Containerd]:
    with containerd_for_tests() as running:
        yield running


_MAY_BE_SKIPPED = (
    "root may be anybody",
    "runtime does not support user namespaces",
    "containerd heeds supplementalGroupsPolicy from 2.0 on",
    "containerd knows recursive read-only mounts from 2.0 on",
)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where everything is meant to be tested, a part that is missing is a failure, but for what it cannot have."""
    report = yield
    if os.environ.get("CI") == "true" and report.skipped and isinstance(report.longrepr, tuple):
        reason = str(report.longrepr[2])
        if not reason.endswith(_MAY_BE_SKIPPED):
            report.outcome = "failed"
            report.longrepr = f"{item.nodeid} did not run, though everything is to be tested here: {reason}"
    return report
