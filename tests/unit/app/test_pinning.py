"""What the agent makes of its settings, this machine and the state files, before it runs any pod."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from kit.fake_runtime import FakeRuntime
from kit.pinning import made_up
from pykubelet.app import pinning as wiring
from pykubelet.app.foundations import lay_foundations
from pykubelet.app.pinning import pinning_gauges, pinning_parts
from pykubelet.base.errors import Invalid
from pykubelet.config.agent import make_config
from pykubelet.node.pinning import Pinning
from pykubelet.pod.pinning.cpu_state import CpuState
from pykubelet.pod.pinning.state_files import cpu_state_file

MI = 1 << 20
STATIC = {"cpuManagerPolicy": "static", "kubeReserved": {"cpu": "500m", "memory": "1Gi"}}


async def made(tmp_path: Path, given: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch) -> Pinning:
    machine = made_up(sockets=2, cores_per_node=2, memory=8 << 30)
    monkeypatch.setattr(wiring, "read_machine_topology", lambda: machine)
    common = {"staticPodPath": str(tmp_path), "--root-dir": str(tmp_path / "state"), "evictionHard": {}}
    async with AsyncExitStack() as stack:
        base = await lay_foundations(make_config({**common, **given}), stack)
        return Pinning(pinning_parts(base), FakeRuntime())


async def test_without_policies_this_machine_is_not_even_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read() -> None:
        raise AssertionError

    monkeypatch.setattr(wiring, "read_machine_topology", read)
    given = {"staticPodPath": str(tmp_path), "--root-dir": str(tmp_path / "state")}
    async with AsyncExitStack() as stack:
        parts = pinning_parts(await lay_foundations(make_config(given), stack))
    assert (parts.cpus, parts.memory) == (None, None)
    written = (tmp_path / "state/cpu_manager_state").read_bytes()
    assert written == b'{"policyName":"none","defaultCpuSet":"","checksum":1353318690}'
    assert (tmp_path / "state/memory_manager_state").exists()


async def test_the_reserved_processor_is_counted_up_to_a_whole_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pinning = await made(tmp_path, STATIC, monkeypatch)
    assert pinning.cpus is not None
    assert (pinning.cpus.reserved, pinning.shared_cpus) == (frozenset({0}), 3)
    pinning.counts.durations.append(0.5)
    took: list[float] = []
    values = {name: read() for name, read in pinning_gauges(lambda: pinning, took.append).items()}
    assert took == [0.5]
    assert values["kubelet_cpu_manager_shared_pool_size_millicores"] == {(): 3000}
    assert values["kubelet_container_aligned_compute_resources_count"] == {
        ("container", "physical_cpu"): 0,
        ("container", "uncore_cache"): 0,
    }


async def test_an_agent_goes_on_from_the_file_of_an_earlier_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "state").mkdir()
    state = CpuState(shared=frozenset({0, 1}), assigned={"a": {"c": frozenset({2, 3})}})
    (tmp_path / "state/cpu_manager_state").write_bytes(cpu_state_file("static", state))
    pinning = await made(tmp_path, STATIC, monkeypatch)
    assert pinning.cpus is not None
    assert pinning.cpus.state == state
    assert pinning.exclusive_by_numa == {1: 2}


@pytest.mark.parametrize(
    ("content", "given", "fault"),
    [
        (b"{", STATIC, "checkpoint is corrupted"),
        (cpu_state_file("none", CpuState()), STATIC, 'configured policy "static" differs from .* policy "none"'),
        (cpu_state_file("static", CpuState(shared=frozenset({0, 1, 2, 3}))), {}, 'policy "none" differs from'),
        (
            cpu_state_file("static", CpuState(shared=frozenset({0, 1, 2, 3, 4}))),
            STATIC,
            'current set of available CPUs "0-3" doesn\'t match with CPUs in state "0-4"',
        ),
    ],
)
async def test_a_state_file_that_cannot_be_used_is_told_and_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, given: Mapping[str, Any], fault: str
) -> None:
    file = tmp_path / "state/cpu_manager_state"
    file.parent.mkdir()
    file.write_bytes(content)
    with pytest.raises(Invalid, match=f"{fault}.*please drain this node and delete the CPU manager .*{file}"):
        await made(tmp_path, given, monkeypatch)
    assert file.read_bytes() == content


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"cpuManagerPolicy": "static", "reservedSystemCPUs": "7"}, "7 is not a subset of online-cpus"),
        (
            {**STATIC, "memoryManagerPolicy": "Static", "reservedMemory": ({"limits": {"memory": "512Mi"}},)},
            'the total amount "512Mi" of type "memory" is not equal to the value "1Gi"',
        ),
        (
            {
                **STATIC,
                "memoryManagerPolicy": "Static",
                "reservedMemory": ({"numaNode": 3, "limits": {"memory": "1Gi"}},),
            },
            "NUMA node 3 that does not exist on this machine",
        ),
    ],
)
async def test_what_this_machine_does_not_have_cannot_be_reserved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: Mapping[str, Any], fault: str
) -> None:
    with pytest.raises(Invalid, match=fault):
        await made(tmp_path, given, monkeypatch)


async def test_reserved_memory_has_to_be_what_is_reserved_and_what_eviction_keeps_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {
        "memoryManagerPolicy": "Static",
        "systemReserved": {"memory": "1Gi"},
        "evictionHard": {"memory.available": "100Mi"},
        "reservedMemory": (
            {"numaNode": 0, "limits": {"memory": "1Gi"}},
            {"numaNode": 1, "limits": {"memory": "100Mi"}},
        ),
    }
    pinning = await made(tmp_path, given, monkeypatch)
    assert pinning.memory is not None
    assert pinning.memory.state.machine[1].tables["memory"].system_reserved == 100 * MI
