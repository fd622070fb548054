"""The union of moments is closed, can be written down and read back, and has no field that is only prose."""

from datetime import timedelta
from typing import get_args

import msgspec

from kit.moments import AT, one_of_each
from kit.pods import make_pod
from pykubelet.api.container import Container
from pykubelet.api.struct import changed
from pykubelet.pod import moments
from pykubelet.pod.moments import Exited, Moment, about, container_kind, exits
from pykubelet.pod.observed import ObservedContainer, ObservedPod, State


def test_every_moment_of_the_file_is_one_of_the_union() -> None:
    kinds = [each for each in vars(moments).values() if isinstance(each, type)]
    structs = {each for each in kinds if each.__module__ == moments.__name__ and issubclass(each, msgspec.Struct)}
    assert structs == set(get_args(Moment))
    assert len(structs) > 40


def test_each_belongs_to_one_theme() -> None:
    themes = (
        *(moments.Arrival, moments.Work, moments.Containers),
        *(moments.Probing, moments.Reporting, moments.OfNode),
    )
    for moment in one_of_each():
        assert sum(isinstance(moment, theme) for theme in themes) == 1


def test_what_is_written_down_can_be_read_back() -> None:
    for moment in one_of_each(error="why"):
        assert msgspec.json.decode(msgspec.json.encode(moment), type=Moment) == moment


def test_a_moment_is_about_a_pod() -> None:
    whose = about(make_pod("web", namespace="shop"))
    assert (whose.uid, whose.namespace, whose.name) == ("uid-web", "shop", "web")


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
