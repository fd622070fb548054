from typing import Any

import pytest

from pykubelet.pod.ports.runtime import RuntimeHandler
from pykubelet.runtime.cri._gen import cri_pb2 as cri
from pykubelet.runtime.cri.runtime import CriRuntime
from pykubelet.web.grpc_channel import Channel


def answering(monkeypatch: pytest.MonkeyPatch, answer: cri.StatusResponse) -> CriRuntime:
    async def call(self: Channel, method: str, request: Any, reply: Any, **options: Any) -> Any:
        assert method == "runtime.v1.RuntimeService/Status"
        return answer

    monkeypatch.setattr(Channel, "call", call)
    return CriRuntime("unix:///run/none.sock")


async def test_a_runtime_tells_its_handlers_and_what_each_can_do(monkeypatch: pytest.MonkeyPatch) -> None:
    features = cri.RuntimeHandlerFeatures(recursive_read_only_mounts=True, user_namespaces=True)
    answer = cri.StatusResponse(
        runtime_handlers=[cri.RuntimeHandler(), cri.RuntimeHandler(name="runc", features=features)],
        features=cri.RuntimeFeatures(supplemental_groups_policy=True),
    )
    status = await answering(monkeypatch, answer).status()
    full = RuntimeHandler(name="runc", recursive_read_only_mounts=True, user_namespaces=True)
    assert status.handlers == (RuntimeHandler(), full)
    assert status.supplemental_groups_policy is True


async def test_an_older_runtime_says_nothing_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    status = await answering(monkeypatch, cri.StatusResponse()).status()
    assert (status.handlers, status.supplemental_groups_policy) == ((), None)
