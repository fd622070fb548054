"""Who stops for a critical pod: the order of the classes, the fewest pods, and what always holds."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.api.pod import Pod
from pykubelet.api.rules.pod_kinds import is_critical
from pykubelet.api.rules.well_known import MIRROR_ANNOTATION
from pykubelet.api.struct import changed
from pykubelet.pod.admission.admission import Admission, Admitted, Rejected
from pykubelet.pod.admission.fit import NodeUsage, Shortage
from pykubelet.pod.admission.preemption import Unreclaimable, may_preempt, victims
from unit.pod.admission_pods import CRITICAL, guaranteed, node, pod

GIB = 1 << 30


def need(**amounts: int) -> list[Shortage]:
    return [Shortage(name, requested=much, used=0, capacity=0) for name, much in amounts.items()]


def fallen(shortages: list[Shortage], *pods: Pod, preemptor: Pod | None = None) -> list[str]:
    chosen = victims(preemptor or pod(priority=CRITICAL), pods, shortages)
    assert not isinstance(chosen, Unreclaimable)
    return [each.metadata.uid for each in chosen]


def mirror(**more: Any) -> Pod:
    asked = pod(**more)
    return changed(asked, metadata=changed(asked.metadata, annotations={MIRROR_ANNOTATION: "hash"}))


@pytest.mark.parametrize(
    ("preemptor", "victim", "may"),
    [
        pytest.param(pod(priority=CRITICAL), pod(), True, id="a critical pod before one without priority"),
        pytest.param(pod(priority=CRITICAL), pod(priority=CRITICAL - 1), True, id="a critical pod before a high one"),
        pytest.param(pod(static=True), pod(priority=1000), True, id="a static pod is critical whatever its priority"),
        pytest.param(pod(priority=CRITICAL), pod(static=True), False, id="nobody before a static one without priority"),
        pytest.param(pod(priority=CRITICAL), mirror(), False, id="nobody before a mirror without priority"),
        pytest.param(pod(priority=CRITICAL), pod(priority=CRITICAL), False, id="nobody before an equal"),
        pytest.param(pod(priority=CRITICAL), pod(priority=CRITICAL + 1), False, id="nobody before a higher one"),
        pytest.param(pod(priority=CRITICAL + 1), pod(priority=CRITICAL), True, id="a higher one before a lower"),
        pytest.param(pod(static=True), pod(static=True), False, id="two static pods without priority"),
        pytest.param(pod(static=True, priority=2), pod(static=True, priority=1), True, id="static pods by priority"),
    ],
)
def test_who_goes_before_whom(preemptor: Pod, victim: Pod, may: bool) -> None:
    assert may_preempt(preemptor, victim) is may


@pytest.mark.parametrize(
    ("shortages", "pods", "stopped"),
    [
        pytest.param(
            need(cpu=1000),
            [pod("burstable", {"cpu": "1"}), guaranteed("guaranteed", {"cpu": "1"})],
            ["burstable"],
            id="burstable pods before guaranteed ones",
        ),
        pytest.param(
            need(pods=1),
            [guaranteed("guaranteed", {}), pod("burstable", {"cpu": "1"}), pod("best effort")],
            ["best effort"],
            id="best effort pods before all others",
        ),
        pytest.param(
            need(cpu=1500),
            [pod("burstable", {"cpu": "1"}), guaranteed("guaranteed", {"cpu": "1"}), pod("best effort")],
            ["burstable", "guaranteed"],
            id="a guaranteed pod for what the others cannot give",
        ),
        pytest.param(
            need(cpu=1500),
            [pod("burstable", {"cpu": "1"}), guaranteed("guaranteed", {"cpu": "2"})],
            ["guaranteed"],
            id="no burstable pod when the guaranteed one that falls anyway is enough",
        ),
        pytest.param(
            need(cpu=1000),
            [pod("small", {"cpu": "500m"}), pod("fits", {"cpu": "1"}), pod("large", {"cpu": "3"})],
            ["fits"],
            id="one pod rather than two, and of those the smallest that is enough",
        ),
        pytest.param(
            need(cpu=1000),
            [pod("much memory", {"cpu": "1", "memory": "1Gi"}), pod("little memory", {"cpu": "2", "memory": "1Mi"})],
            ["little memory"],
            id="smaller means less memory before less cpu",
        ),
        pytest.param(
            need(cpu=1000, memory=GIB),
            [
                pod("cpu", {"cpu": "1"}),
                pod("memory", {"memory": "1Gi"}),
                pod("both", {"cpu": "900m", "memory": "900Mi"}),
                pod("rest", {"cpu": "100m", "memory": "200Mi"}),
            ],
            ["both", "rest"],
            id="the pod that comes closest to all needs, then the one that closes the rest",
        ),
        pytest.param(
            need(cpu=1050),
            [pod("bare", {"cpu": "1"}), pod("with overhead", {"cpu": "1"}, overhead={"cpu": "50m"})],
            ["with overhead"],
            id="overhead is given back too",
        ),
        pytest.param(
            need(cpu=1000),
            [pod("containers", {"cpu": "1"}), pod("whole", {"cpu": "2"}, resources={"requests": {"cpu": "500m"}})],
            ["containers"],
            id="a pod with resources of its own counts by those",
        ),
        pytest.param(
            need(pods=2),
            [pod("critical", priority=CRITICAL), pod("1"), pod("2"), pod("static", static=True)],
            ["2", "1"],
            id="critical pods stay",
        ),
        pytest.param([], [pod("1")], [], id="nobody for nothing"),
    ],
)
def test_who_stops(shortages: list[Shortage], pods: list[Pod], stopped: list[str]) -> None:
    assert fallen(shortages, *pods) == stopped


def test_when_all_together_are_not_enough_nobody_stops() -> None:
    overhead_alone = pod("1", overhead={"cpu": "9"})
    assert victims(pod(static=True), [overhead_alone, pod("2", {"cpu": "1"})], need(cpu=1500, memory=1)) == (
        Unreclaimable({"cpu": 500, "memory": 1})
    )


CLASSES = ("BestEffort", "Burstable", "Guaranteed")
PRIORITIES = st.sampled_from((None, 0, 1000, CRITICAL, CRITICAL + 1000))
REQUESTS = st.fixed_dictionaries(
    {},
    optional={
        "cpu": st.integers(1, 40).map(lambda n: f"{n}00m"),
        "memory": st.integers(1, 40).map(lambda n: f"{n}00Mi"),
        "example.com/gpu": st.sampled_from(("1", "2")),
    },
)


@st.composite
def crowds(draw: st.DrawFn) -> tuple[Pod, ...]:
    """Some pods of every class and standing."""

    def one(uid: str) -> Pod:
        is_static = draw(st.integers(0, 4)) == 0
        status = {"qosClass": draw(st.sampled_from(CLASSES))}
        asked = pod(uid, draw(REQUESTS), static=is_static, status=status)
        return changed(asked, spec=changed(asked.spec, priority=draw(PRIORITIES)))

    return tuple(one(str(uid)) for uid in range(draw(st.integers(0, 8))))


@given(crowds(), REQUESTS, st.sampled_from((pod("new", static=True), pod("new", priority=CRITICAL + 500))))
def test_preemption_frees_enough_and_takes_nobody_of_equal_or_higher_standing(
    others: tuple[Pod, ...], requests: dict[str, str], asking: Pod
) -> None:
    asked = changed(asking.spec, containers=pod(requests=requests).spec.containers)
    asking = changed(asking, spec=asked)
    usage = NodeUsage(others)
    admission = Admission(node({"cpu": "8", "memory": "8Gi", "pods": "6", "example.com/gpu": "4"}))
    answer = admission.admit(asking, usage)
    if not isinstance(answer, Rejected):
        return
    assert bool(answer.preempt) == (answer.reason != "UnexpectedAdmissionError")
    assert len(set(answer.preempt)) == len(answer.preempt)
    for each in others:
        if each.metadata.uid in answer.preempt:
            usage.remove(each.metadata.uid)
            assert not is_critical(each) or (asking.spec.priority or 0) > (each.spec.priority or 0)
    if answer.preempt:
        assert admission.admit(asking, usage) == Admitted()


@given(crowds(), st.integers(1, 4000), st.integers(0, 4 * GIB))
def test_either_enough_is_freed_or_there_was_not_enough(others: tuple[Pod, ...], cpu: int, memory: int) -> None:
    preemptor = pod(priority=CRITICAL + 1)
    shortages = need(cpu=cpu, memory=memory)
    chosen = victims(preemptor, others, shortages)
    eligible = [each for each in others if may_preempt(preemptor, each)]
    usage = NodeUsage(eligible if isinstance(chosen, Unreclaimable) else chosen)
    enough = all(usage.used(each.resource) >= each.missing for each in shortages)
    assert enough is not isinstance(chosen, Unreclaimable)


@given(crowds(), st.integers(1, 4000))
def test_a_guaranteed_pod_falls_only_when_all_others_are_not_enough(others: tuple[Pod, ...], cpu: int) -> None:
    preemptor = pod(priority=CRITICAL)
    chosen = victims(preemptor, others, need(cpu=cpu))
    lesser = [each for each in others if may_preempt(preemptor, each) and each.status.qos_class != "Guaranteed"]
    if NodeUsage(lesser).used("cpu") >= cpu:
        assert not isinstance(chosen, Unreclaimable)
        assert not [each for each in chosen if each.status.qos_class == "Guaranteed"]
