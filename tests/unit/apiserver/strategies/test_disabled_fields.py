"""Fields of features that are off: dropped when they are new, kept when they are not."""

import copy
from typing import Any

import pytest

from kit.strategies import strategy_of
from pykubelet.apiserver.strategies.disabled_fields import drop_disabled

CONTAINER = {"name": "c", "image": "i"}
IMAGE = {"image": {"reference": "r"}}
SOURCE = {"configMap": {"name": "x"}}


def pod(**container: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{**CONTAINER, **container}]}}


def with_volume(volume: dict[str, Any], *mounts: str) -> dict[str, Any]:
    made = pod(volumeMounts=[{"name": each} for each in mounts]) if mounts else pod()
    made["spec"]["volumes"] = [{"name": "v", **volume}]
    return made


def projected(*sources: dict[str, Any]) -> dict[str, Any]:
    return with_volume({"projected": {"sources": list(sources)}})


CASES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (pod(restartPolicy="Never", restartPolicyRules=[{}]), pod()),
    (pod(lifecycle={"stopSignal": "SIGTERM"}), pod()),
    (pod(lifecycle={"stopSignal": "SIGTERM", "preStop": {}}), pod(lifecycle={"preStop": {}})),
    (
        pod(env=[{"name": "A", "valueFrom": {"fileKeyRef": {"key": "a"}}}]),
        pod(env=[{"name": "A", "valueFrom": {}}]),
    ),
    ({"spec": {"hostnameOverride": "a"}}, {"spec": {}}),
    (
        {"spec": {"initContainers": [{"name": "a", "restartPolicy": "Always", "restartPolicyRules": [{}]}]}},
        {"spec": {"initContainers": [{"name": "a", "restartPolicy": "Always"}]}},
    ),
    (
        {"spec": {"initContainers": [{"name": "a", "restartPolicy": "Never"}]}},
        {"spec": {"initContainers": [{"name": "a"}]}},
    ),
    (projected(SOURCE, {"clusterTrustBundle": {}}), projected(SOURCE, {})),
    (projected(SOURCE, {"podCertificate": {}}), projected(SOURCE, {})),
    (with_volume(IMAGE, "v", "w"), with_volume(IMAGE, "v", "w")),
]


@pytest.mark.parametrize(("given", "left"), CASES)
def test_what_is_new_is_dropped_wherever_a_pod_is_described_and_what_was_there_stays(
    given: dict[str, Any], left: dict[str, Any]
) -> None:
    pods, cron_jobs = strategy_of("", "pods").resource, strategy_of("batch", "cronjobs").resource
    new = copy.deepcopy(given)
    drop_disabled(pods, new, None)
    assert new == left
    again = copy.deepcopy(given)
    drop_disabled(pods, again, given)
    assert again == given
    inner = {"spec": {"jobTemplate": {"spec": {"template": copy.deepcopy(given)}}}}
    drop_disabled(cron_jobs, inner, None)
    assert inner["spec"]["jobTemplate"]["spec"]["template"] == left


def test_plain_fields_of_other_kinds_are_dropped_too() -> None:
    leases = strategy_of("coordination.k8s.io", "leases").resource
    given = {"spec": {"strategy": "OldestEmulationVersion", "preferredHolder": "a", "holderIdentity": "b"}}
    new = copy.deepcopy(given)
    drop_disabled(leases, new, None)
    assert new == {"spec": {"holderIdentity": "b"}}
    again = copy.deepcopy(given)
    drop_disabled(leases, again, given)
    assert again == given
    drop_disabled(leases, {}, None)
