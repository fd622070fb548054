from datetime import timedelta

from kit.moments import AT
from kit.pods import make_pod
from pykubelet.api.container import Container
from pykubelet.api.struct import changed
from pykubelet.pod.container.container_moments import container_kind, exits
from pykubelet.pod.moments import Exited
from pykubelet.pod.observed import ObservedContainer, ObservedPod, State


def test_the_kinds_of_containers() -> None:
    pod = make_pod()
    spec = changed(pod.spec, init_containers=(Container(name="i"),), ephemeral_containers=(Container(name="e"),))
    kinds = [container_kind(changed(pod, spec=spec), name) for name in ("i", "e", "c")]
    assert kinds == ["init_container", "ephemeral_container", "container"]


def ended(name: str, id: str, attempt: int, code: int = 0, state: State = State.EXITED) -> ObservedContainer:
    later = AT + timedelta(seconds=attempt)
    return ObservedContainer(
        id=id, name=name, attempt=attempt, state=state, exit_code=code, reason="Error", started_at=AT, finished_at=later
    )


def test_an_end_is_told_once() -> None:
    running = ObservedPod(uid="u", containers=(ended("c", "1", 0, state=State.RUNNING),))
    stopped = ObservedPod(uid="u", containers=(ended("c", "1", 0, 137),))
    assert list(exits(None, running)) == []
    assert list(exits(running, stopped)) == [Exited("c", 0, 137, "Error", AT, AT)]
    assert list(exits(stopped, stopped)) == []


def test_at_the_first_look_at_a_pod_its_earlier_ends_are_told_oldest_first() -> None:
    seen = ObservedPod(uid="u", containers=(ended("c", "2", 1, 1), ended("c", "1", 0, 1)))
    assert [each.attempt for each in exits(None, seen)] == [0, 1]
