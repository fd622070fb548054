from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.pod_api import patched
from pykubelet.api import codec
from pykubelet.api.pod import (
    ContainerState,
    ContainerStateRunning,
    ContainerStatus,
    HostIP,
    PodCondition,
    PodIP,
    PodResourceClaimStatus,
    PodStatus,
)
from pykubelet.pod.status.patch import status_patch

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
ONE = datetime(2026, 1, 1, 13, tzinfo=UTC)


def condition(type: str = "Ready", status: str = "True", **fields: Any) -> PodCondition:
    return PodCondition(type=type, status=status, **fields)


def container(**fields: Any) -> ContainerStatus:
    return ContainerStatus(name="c", image="i", image_id="sha", **fields)


def ips(*addresses: str) -> tuple[PodIP, ...]:
    return tuple(PodIP(ip=each) for each in addresses)


CASES: dict[str, tuple[PodStatus, PodStatus, dict[str, Any] | None]] = {
    "nothing": (PodStatus(), PodStatus(), None),
    "no change": (
        PodStatus(phase="Running", conditions=(condition(),), pod_ips=ips("10.0.0.1")),
        PodStatus(phase="Running", conditions=(condition(),), pod_ips=ips("10.0.0.1")),
        None,
    ),
    "a word": (PodStatus(phase="Pending"), PodStatus(phase="Running"), {"phase": "Running"}),
    "only what changed": (
        PodStatus(phase="Pending", host_ip="10.1.1.1"),
        PodStatus(phase="Running", host_ip="10.1.1.1"),
        {"phase": "Running"},
    ),
    "a word that is no more": (
        PodStatus(phase="Failed", reason="Evicted", message="no room"),
        PodStatus(phase="Failed", message="no room"),
        {"reason": None},
    ),
    "a time in whole seconds": (PodStatus(), PodStatus(start_time=NOON), {"startTime": "2026-01-01T12:00:00Z"}),
    "a start time stays": (PodStatus(start_time=NOON), PodStatus(), None),
    "a class of service is set once": (PodStatus(), PodStatus(qos_class="Burstable"), {"qosClass": "Burstable"}),
    "and then the server's": (PodStatus(qos_class="BestEffort"), PodStatus(qos_class="Burstable"), None),
    "and never removed": (PodStatus(qos_class="BestEffort"), PodStatus(), None),
    "a generation grows": (
        PodStatus(observed_generation=1),
        PodStatus(observed_generation=2),
        {"observedGeneration": 2},
    ),
    "but does not shrink": (PodStatus(observed_generation=2), PodStatus(observed_generation=1), None),
    "nor vanish": (PodStatus(observed_generation=2), PodStatus(), None),
    "a first address": (
        PodStatus(),
        PodStatus(pod_ip="10.0.0.1", pod_ips=ips("10.0.0.1")),
        {"podIP": "10.0.0.1", "podIPs": [{"$patch": "replace"}, {"ip": "10.0.0.1"}]},
    ),
    "another address": (
        PodStatus(pod_ip="10.0.0.1", pod_ips=ips("10.0.0.1", "fd00::1")),
        PodStatus(pod_ip="10.0.0.2", pod_ips=ips("10.0.0.2", "fd00::1")),
        {"podIP": "10.0.0.2", "podIPs": [{"$patch": "replace"}, {"ip": "10.0.0.2"}, {"ip": "fd00::1"}]},
    ),
    "the same addresses the other way round": (
        PodStatus(pod_ips=ips("10.0.0.1", "fd00::1")),
        PodStatus(pod_ips=ips("fd00::1", "10.0.0.1")),
        {"podIPs": [{"$patch": "replace"}, {"ip": "fd00::1"}, {"ip": "10.0.0.1"}]},
    ),
    "no address any more": (
        PodStatus(pod_ip="10.0.0.1", pod_ips=ips("10.0.0.1")),
        PodStatus(),
        {"podIP": None, "podIPs": None},
    ),
    "the host's addresses": (
        PodStatus(host_ip="10.1.1.1", host_ips=(HostIP(ip="10.1.1.1"),)),
        PodStatus(host_ip="10.1.1.2", host_ips=(HostIP(ip="10.1.1.2"),)),
        {"hostIP": "10.1.1.2", "hostIPs": [{"$patch": "replace"}, {"ip": "10.1.1.2"}]},
    ),
    "a first condition": (
        PodStatus(),
        PodStatus(conditions=(condition(last_transition_time=NOON),)),
        {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T12:00:00Z"}]},
    ),
    "only the condition that changed": (
        PodStatus(conditions=(condition("Ready", "False"), condition("Initialized"))),
        PodStatus(conditions=(condition("Initialized"), condition("Ready"))),
        {"conditions": [{"type": "Ready", "status": "True"}]},
    ),
    "a reason that is no more": (
        PodStatus(conditions=(condition("Ready", "False", reason="ContainersNotReady", message="c"),)),
        PodStatus(conditions=(condition("Ready", "True"),)),
        {"conditions": [{"type": "Ready", "status": "True", "reason": None, "message": None}]},
    ),
    "the order of conditions means nothing": (
        PodStatus(conditions=(condition("Ready"), condition("Initialized"))),
        PodStatus(conditions=(condition("Initialized"), condition("Ready"))),
        None,
    ),
    "a condition of others": (
        PodStatus(conditions=(condition("example.com/Gate"), condition("Ready"))),
        PodStatus(conditions=(condition("Ready", "False"),)),
        {"conditions": [{"type": "Ready", "status": "False"}]},
    ),
    "no condition of our own": (PodStatus(conditions=(condition("example.com/Gate"),)), PodStatus(), None),
    "a condition of our own that is no more": (
        PodStatus(conditions=(condition("PodResizePending"), condition("Ready"))),
        PodStatus(conditions=(condition("Ready"),)),
        {"conditions": [{"$patch": "delete", "type": "PodResizePending"}]},
    ),
    "claims of others": (
        PodStatus(resource_claim_statuses=(PodResourceClaimStatus(name="gpu", resource_claim_name="gpu-1"),)),
        PodStatus(),
        None,
    ),
    "containers are replaced as a whole": (
        PodStatus(container_statuses=(container(ready=False),)),
        PodStatus(
            container_statuses=(
                container(ready=True, state=ContainerState(running=ContainerStateRunning(started_at=ONE))),
            )
        ),
        {
            "containerStatuses": [
                {
                    "name": "c",
                    "state": {"running": {"startedAt": "2026-01-01T13:00:00Z"}},
                    "lastState": {},
                    "ready": True,
                    "restartCount": 0,
                    "image": "i",
                    "imageID": "sha",
                }
            ]
        },
    ),
    "containers that are no more": (
        PodStatus(ephemeral_container_statuses=(container(),)),
        PodStatus(),
        {"ephemeralContainerStatuses": None},
    ),
}


@pytest.mark.parametrize(("shown", "wanted", "changes"), CASES.values(), ids=CASES)
def test_a_patch_holds_what_changed_and_no_more(
    shown: PodStatus, wanted: PodStatus, changes: dict[str, Any] | None
) -> None:
    expected = None if changes is None else {"metadata": {"uid": "u1"}, "status": changes}
    assert status_patch("u1", shown, wanted) == expected


_conditions = st.lists(
    st.builds(
        PodCondition,
        type=st.sampled_from(("Ready", "Initialized", "PodResizePending")),
        status=st.sampled_from(("True", "False")),
        reason=st.sampled_from(("", "Because")),
        last_transition_time=st.sampled_from((None, NOON, ONE)),
    ),
    unique_by=lambda each: each.type,
).map(tuple)
_addresses = st.lists(st.builds(PodIP, ip=st.sampled_from(("10.0.0.1", "fd00::1"))), unique=True).map(tuple)
_statuses = st.builds(
    PodStatus,
    phase=st.sampled_from(("", "Pending", "Running")),
    reason=st.sampled_from(("", "Evicted")),
    pod_ips=_addresses,
    conditions=_conditions,
    container_statuses=st.sampled_from(((), (container(),), (container(ready=True),))),
)


@given(_statuses, _statuses)
def test_a_patched_status_is_the_wanted_one_and_needs_no_other_patch(shown: PodStatus, wanted: PodStatus) -> None:
    patch = status_patch("u1", shown, wanted)
    result = patched(shown, patch["status"]) if patch else shown
    assert status_patch("u1", result, wanted) is None
    assert result.pod_ips == wanted.pod_ips
    assert sorted(map(codec.encode, result.conditions)) == sorted(map(codec.encode, wanted.conditions))
