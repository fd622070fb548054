"""What the runtime still holds of pods that have ended."""

from datetime import UTC, datetime

import pytest

from kit.fake_runtime import FakeRuntime
from kit.virtual_time import virtual_time
from pykubelet.base.errors import Retry
from pykubelet.node.dead_containers import remove_dead
from pykubelet.pod.observed import ObservedContainer, ObservedPod, ObservedSandbox, State


class Logs:
    def __init__(self) -> None:
        self.forgotten: list[tuple[str, str, int]] = []

    async def link(self, namespace: str, pod: str, uid: str, container: str, attempt: int, container_id: str) -> None:
        raise AssertionError("nothing has begun")

    async def attempts(self, namespace: str, pod: str, uid: str, container: str) -> int:
        return 0

    async def forget(self, namespace: str, pod: str, uid: str, container: str, attempt: int, container_id: str) -> None:
        self.forgotten.append((uid, container, attempt))


def pod(uid: str, state: State = State.EXITED) -> ObservedPod:
    made = datetime(2026, 1, 1, tzinfo=UTC)
    container = ObservedContainer(
        id=f"c-{uid}", name="c", attempt=2, sandbox_id=f"s-{uid}", state=state, image="i", created_at=made
    )
    sandbox = ObservedSandbox(id=f"s-{uid}", attempt=0, ready=False, created_at=made)
    return ObservedPod(uid=uid, name=uid, namespace="default", sandboxes=(sandbox,), containers=(container,))


@virtual_time
async def test_what_has_ended_goes_with_its_logs_and_what_runs_or_may_run_again_stays() -> None:
    runtime, logs = FakeRuntime(), Logs()
    pods = (pod("ended"), pod("waits"), pod("odd", State.RUNNING))
    await remove_dead(runtime, logs, pods, lambda uid: uid != "waits")
    removed = [each for each in runtime.calls if each[0].startswith("remove")]
    assert removed == [("remove_container", "c-ended"), ("remove_sandbox", "s-ended")]
    assert logs.forgotten == [("ended", "c", 2)]


@virtual_time
async def test_what_cannot_be_removed_is_told_and_does_not_keep_the_rest() -> None:
    runtime = FakeRuntime()
    runtime.failures["remove_container"] = [Retry("it is busy")]
    with pytest.raises(Retry, match="container c-a: it is busy"):
        await remove_dead(runtime, None, (pod("a"), pod("b")), lambda uid: True)
    assert ("remove_container", "c-b") in runtime.calls
    assert ("remove_sandbox", "s-a") in runtime.calls
