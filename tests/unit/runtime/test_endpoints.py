"""Which runtime an endpoint stands for, and what each says that it can do."""

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from kit.fake_runtime import FakeRuntime
from pykubelet.api.struct import changed
from pykubelet.base.errors import Invalid
from pykubelet.pod.ports.runtime import Capabilities, Runtime
from pykubelet.runtime import endpoints
from pykubelet.runtime.cri.runtime import CriRuntime
from pykubelet.runtime.endpoints import make_runtime
from pykubelet.runtime.process.runtime import ProcessRuntime
from pykubelet.runtime.settings import RuntimeSettings


def settings(folder: Path, endpoint: str) -> RuntimeSettings:
    return RuntimeSettings(endpoint=endpoint, root=folder, log_root=folder)


def make_plugin(settings: RuntimeSettings) -> Runtime:
    """A runtime of somebody else."""
    made = FakeRuntime()
    made.capabilities = Capabilities(keeps_images=True)
    return made


@pytest.fixture(autouse=True)
def _plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = EntryPoint("slurm", f"{__name__}:make_plugin", endpoints.GROUP)
    monkeypatch.setattr(plugin.__class__, "load", lambda _: make_plugin)
    monkeypatch.setattr(endpoints, "entry_points", lambda group: [plugin] if group == endpoints.GROUP else [])


@pytest.mark.parametrize("endpoint", ["", "process"])
async def test_the_embedded_runtime_sees_to_its_logs_and_control_groups_itself(tmp_path: Path, endpoint: str) -> None:
    runtime = make_runtime(settings(tmp_path, endpoint))
    assert isinstance(runtime, ProcessRuntime)
    can = runtime.capabilities
    assert can.streams is not None
    assert can.places is not None
    assert (can.cgroup_driver, can.reopens_logs, can.keeps_images) == (None, False, True)
    await runtime.close()


async def test_the_embedded_runtime_isolates_unless_told_otherwise(tmp_path: Path) -> None:
    for endpoint, said in (("process://plain", "Pods are plain processes"), ("process", "Pods have their own root")):
        runtime = make_runtime(settings(tmp_path, endpoint))
        status = await runtime.status()
        assert status.isolation.startswith(said) or not status.ready
        await runtime.close()
    with pytest.raises(Invalid, match=r"is process or process://plain, not 'process://other'"):
        make_runtime(settings(tmp_path, "process://other"))


@pytest.mark.parametrize("endpoint", ["unix:///nowhere.sock", "/nowhere.sock"])
async def test_a_socket_is_of_a_cri_runtime_which_leaves_much_to_the_agent(tmp_path: Path, endpoint: str) -> None:
    runtime = make_runtime(settings(tmp_path, endpoint))
    assert isinstance(runtime, CriRuntime)
    can = runtime.capabilities
    assert None not in (can.streams, can.places, can.cgroup_driver)
    assert (can.reopens_logs, can.keeps_images) == (True, True)
    await runtime.close()


@pytest.mark.parametrize("endpoint", ["slurm", "slurm://cluster"])
async def test_any_other_name_is_of_a_plug_in_which_says_itself_what_it_can_do(tmp_path: Path, endpoint: str) -> None:
    assert make_runtime(settings(tmp_path, endpoint)).capabilities == Capabilities(keeps_images=True)


def test_a_name_that_nobody_has_is_refused_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="no runtime for the endpoint 'docker'; there are: process, unix://SOCKET, slurm"):
        make_runtime(settings(tmp_path, "docker"))


async def test_what_the_embedded_runtime_cannot_heed_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    wanted = changed(settings(tmp_path, "process"), image_endpoint="unix:///images.sock")
    await make_runtime(wanted).close()
    assert [record.getMessage() for record in caplog.records if "no effect" in record.getMessage()] == [
        "imageServiceEndpoint has no effect: the embedded runtime sees to that itself",
    ]
