"""What people are told of pods that are taken and should better be written in another way."""

import time
from typing import Any

import pytest

from kit.api_process import Api
from pykubelet.apiserver.verbs.pod_warnings import pod_warnings

PODS = "/api/v1/namespaces/default/pods"
C = "spec.containers[0]"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
NOBODY = "a null labelSelector results in matching no pod"
SECCOMP = "seccomp.security.alpha.kubernetes.io/pod"
OLD = "beta.kubernetes.io/os"
WHY = 'deprecated since v1.14; use "kubernetes.io/os" instead'
TERM = {"matchExpressions": [{"key": OLD, "operator": "Exists"}]}


def pod(container: dict[str, Any] | None = None, notes: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    metadata = {"name": "p", "annotations": notes or {}}
    return {"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "x", **(container or {})}], **spec}}


def ports(*given: dict[str, Any]) -> dict[str, Any]:
    return pod({"ports": [{"protocol": "TCP", **each} for each in given]})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (pod(), []),
        (pod(nodeSelector={OLD: "linux", "kubernetes.io/os": "linux"}), [f"spec.nodeSelector[{OLD}]: {WHY}"]),
        (
            pod(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [TERM]}}}),
            [f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0].key: {OLD} is {WHY}"],
        ),
        (
            pod(affinity={"nodeAffinity": {PREFERRED: [{"weight": 1, "preference": TERM}]}}),
            [f"spec.affinity.nodeAffinity.{PREFERRED}[0].preference.matchExpressions[0].key: {OLD} is {WHY}"],
        ),
        (
            pod(topologySpreadConstraints=[{"topologyKey": OLD}]),
            [
                f"spec.topologySpreadConstraints[0].topologyKey: {OLD} is {WHY}",
                f"spec.topologySpreadConstraints[0].labelSelector: {NOBODY}",
            ],
        ),
        (
            pod(
                affinity={"podAffinity": {REQUIRED: [{"topologyKey": "a"}, {"topologyKey": "a", "labelSelector": {}}]}}
            ),
            [f"spec.affinity.podAffinity.{REQUIRED}[0].labelSelector: {NOBODY}"],
        ),
        (
            pod(affinity={"podAntiAffinity": {PREFERRED: [{"podAffinityTerm": {"topologyKey": "a"}}]}}),
            [f"spec.affinity.podAntiAffinity.{PREFERRED}[0].podAffinityTerm.labelSelector: {NOBODY}"],
        ),
        (
            pod(notes={"scheduler.alpha.kubernetes.io/critical-pod": ""}),
            [
                "metadata.annotations[scheduler.alpha.kubernetes.io/critical-pod]: "
                'non-functional in v1.16+; use the "priorityClassName" field instead'
            ],
        ),
        (
            pod(notes={SECCOMP: "runtime/default"}),
            [f'metadata.annotations[{SECCOMP}]: non-functional in v1.27+; use the "seccompProfile" field instead'],
        ),
        (pod(notes={SECCOMP: "x"}, securityContext={"seccompProfile": {"type": "Unconfined"}}), []),
        (
            pod(volumes=[{"name": "a", "emptyDir": {}}, {"name": "b", "gitRepo": {"repository": "r"}}]),
            ["spec.volumes[1].gitRepo: deprecated in v1.11, and disabled by default in v1.33+"],
        ),
        (pod(hostAliases=[{"ip": "1.1.1.1"}, {"ip": "1.1.1.1"}]), ['spec.hostAliases[1].ip: duplicate ip "1.1.1.1"']),
        (
            pod(imagePullSecrets=[{"name": "a"}, {"name": "a"}, {}]),
            [
                'spec.imagePullSecrets[1].name: duplicate name "a"',
                'spec.imagePullSecrets[2].name: invalid empty name ""',
            ],
        ),
        (
            pod({"resources": {"limits": {"memory": "100m", "cpu": "100m"}, "requests": {"memory": "1Gi"}}}),
            [f'{C}.resources.limits[memory]: fractional byte value "100m" is invalid, must be an integer'],
        ),
        (
            pod({"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "$(A)2"}, {"name": "A", "value": "3"}]}),
            [f'{C}.env[2]: hides previous definition of "A", which may be dropped when using apply'],
        ),
        (
            ports({"containerPort": 80}, {"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}),
            [f"{C}.ports[1]: duplicate port definition with {C}.ports[0]"],
        ),
        (
            ports({"containerPort": 80}, {"containerPort": 80, "hostPort": 1}),
            [f"{C}.ports[1]: overlapping port definition with {C}.ports[0]"],
        ),
        (
            ports({"containerPort": 80, "hostPort": 1, "hostIP": "1.1.1.1"}, {"containerPort": 80, "hostPort": 1}),
            [f"{C}.ports[1]: dangerously ambiguous port definition with {C}.ports[0]"],
        ),
        (
            ports({"containerPort": 80, "name": "a"}, {"containerPort": 81, "name": "a"}),
            [
                f'{C}.ports[1]: duplicate port name "a" with {C}.ports[0], '
                f"services and probes that select ports by name will use {C}.ports[0]"
            ],
        ),
    ],
)
def test_what_is_said_of_a_pod(given: dict[str, Any], expected: list[str]) -> None:
    assert [*pod_warnings(given)] == expected


async def test_whoever_makes_the_pod_is_told_and_whoever_changes_it_is_not_again(api: Api) -> None:
    async with api.session.post(api.url + PODS, json=pod(nodeSelector={OLD: "linux"})) as answer:
        assert answer.status == 201
        (told,) = answer.headers.getall("Warning")
    assert told == '299 - "spec.nodeSelector[beta.kubernetes.io/os]: ' + WHY.replace('"', '\\"') + '"'
    merge = {"Content-Type": "application/merge-patch+json"}
    labelled = {"metadata": {"labels": {"a": "b"}}}
    async with api.session.patch(f"{api.url}{PODS}/p", json=labelled, headers=merge) as answer:
        assert (answer.status, "Warning" in answer.headers) == (200, False)


def test_a_pod_with_very_many_ports_is_looked_through_once() -> None:
    many = ports(*({"containerPort": 80, "hostPort": number + 1} for number in range(50_000)))
    begun = time.process_time()
    assert not [*pod_warnings(many)]
    assert time.process_time() - begun < 2  # each against each would be minutes
