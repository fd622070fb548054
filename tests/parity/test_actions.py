"""What to do next for a pod, replayed against what the Go kubelet decides for the same pod and the same state."""

from typing import Any

from kit.vectors import Case, replay, unequal
from pykubelet.api.container import Container, EphemeralContainer
from pykubelet.api.handlers import Probe
from pykubelet.api.pod import Pod, PodSpec
from pykubelet.pod.container.hash import container_hash
from pykubelet.pod.lifecycle.plan import PodActions, plan
from pykubelet.pod.lifecycle.probe_results import ProbeResults, Result
from pykubelet.pod.observed import ObservedContainer, ObservedPod, ObservedSandbox, State


def test_pods_are_acted_upon_as_upstream_does() -> None:
    replay("actions", _difference)


def _difference(case: Case) -> str:
    pod = _pod(case)
    ours = _short(plan(pod, _observed(case, pod), _probes(case)))
    recorded = {key: case[key] or [] if isinstance(value, list) else case[key] for key, value in ours.items()}
    recorded["containersToKill"].sort(key=lambda kill: kill["id"])  # upstream keeps them in a map
    return unequal(case["case"], ours, recorded)


def _pod(case: Case) -> Pod:
    return Pod(
        spec=PodSpec(
            restart_policy=case["restartPolicy"],
            host_network=case["hostNetwork"],
            init_containers=tuple(_container(each) for each in case["initContainers"] or ()),
            containers=tuple(_container(each) for each in case["containers"] or ()),
            ephemeral_containers=tuple(
                EphemeralContainer(name=each["name"], image=each["image"]) for each in case["ephemeralContainers"] or ()
            ),
        )
    )


def _container(short: dict[str, Any]) -> Container:
    return Container(
        name=short["name"],
        image=short["image"],
        restart_policy=short.get("restartPolicy"),
        startup_probe=Probe() if short.get("startupProbe") else None,
        liveness_probe=Probe() if short.get("livenessProbe") else None,
    )


def _observed(case: Case, pod: Pod) -> ObservedPod:
    everyone = (*pod.spec.init_containers, *pod.spec.containers, *pod.spec.ephemeral_containers)
    hashes = {container.name: container_hash(container) for container in everyone}
    return ObservedPod(
        uid="u",
        sandboxes=tuple(
            ObservedSandbox(
                id=each["id"],
                ready=each["state"] == "READY",
                attempt=each["attempt"],
                ips=(each["ip"],) if each["ip"] else (),
                host_network=case["hostNetwork"],
            )
            for each in case["sandboxes"] or ()
        ),
        containers=tuple(
            ObservedContainer(
                id=each["id"],
                name=each["name"],
                state=State(each["state"]),
                attempt=each["restartCount"],
                hash=hashes.get(each["name"], "") if each["hashMatches"] else "changed",
                exit_code=each["exitCode"],
                reason=each.get("reason", ""),
            )
            for each in case["containerStatuses"] or ()
        ),
    )


def _probes(case: Case) -> ProbeResults:
    statuses = case["containerStatuses"] or ()
    return ProbeResults(
        liveness={each["id"]: Result(each["liveness"]) for each in statuses if "liveness" in each},
        startup={each["id"]: Result(each["startup"]) for each in statuses if "startup" in each},
    )


def _short(actions: PodActions) -> dict[str, Any]:
    kills = [
        {"name": kill.name, "id": kill.container_id} | ({"reason": kill.reason} if kill.reason else {})
        for kill in sorted(actions.kills, key=lambda kill: kill.container_id)
    ]
    return {
        "killPod": actions.kill_pod,
        "createSandbox": actions.create_sandbox,
        "attempt": actions.attempt,
        "initContainersToStart": list(actions.init_containers),
        "containersToStart": list(actions.containers),
        "ephemeralContainersToStart": list(actions.ephemeral_containers),
        "containersToKill": kills,
    }
