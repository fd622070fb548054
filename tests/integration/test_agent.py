"""The whole agent on a real containerd: pods come up, survive the agent, and go without a trace."""

from itertools import pairwise
from pathlib import Path

import pytest

from kit.agent_process import NODE_NAME, Node, ask
from kit.containerd import Containerd
from kit.waiting import wait_for


def manifest(name: str) -> str:
    return (
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\n"
        "spec:\n  terminationGracePeriodSeconds: 1\n"
        "  containers:\n  - name: c\n    image: busybox:1.36\n    imagePullPolicy: IfNotPresent\n"
        "    command: [sh, -c, 'trap exit TERM; while :; do sleep 1 & wait $!; done']\n"
    )


def test_pods_run_on_containerd_survive_the_agent_and_leave_nothing(tmp_path: Path, containerd: Containerd) -> None:
    node = Node(tmp_path, "--container-runtime-endpoint", containerd.endpoint)
    names = {f"p{number}" for number in range(5)}
    for name in names:
        (node.manifests / f"{name}.yaml").write_text(manifest(name))
    with node.agent() as first:
        wait_for(lambda: node.containers().keys() == names)
        before = node.containers()
        ips = {pod["status"]["podIP"] for pod in node.pods().values()}
        assert len(ips) == 5  # each has an address of its own
        first.stop()
    with node.agent("--stop-pods-on-exit") as second:
        wait_for(lambda: node.containers() == before)
        second.stop()
    assert containerd.ctr("tasks", "list", "--quiet").split() == []
    assert len(list((node.state / "logs").iterdir())) == 5  # what they said is kept for the next agent
    assert str(tmp_path) not in Path("/proc/mounts").read_text()
    node.remove_pods()
    assert list((node.state / "logs").iterdir()) == list((node.state / "pods").iterdir()) == []
    assert containerd.ctr("containers", "list", "--quiet").split() == []
    assert str(tmp_path) not in Path("/proc/mounts").read_text()


def test_an_agent_whose_runtime_never_came_ends_at_once_when_told_to_stop_its_pods(tmp_path: Path) -> None:
    node = Node(tmp_path, "--container-runtime-endpoint", f"unix://{tmp_path}/none.sock")
    with node.agent("--stop-pods-on-exit") as agent:
        wait_for(lambda: "waiting for the runtime" in node.told())
        agent.stop()


@pytest.mark.parametrize("runtime", ["containerd", "process"])
def test_the_journal_of_a_pod_is_told_to_people_on_the_machine(
    tmp_path: Path, containerd: Containerd, runtime: str
) -> None:
    flags = ("--container-runtime-endpoint", containerd.endpoint) if runtime == "containerd" else ()
    node = Node(tmp_path, *flags)
    (node.manifests / "web.yaml").write_text(manifest("web"))
    with node.agent("--stop-pods-on-exit", "--v=4") as agent:
        wait_for(lambda: node.containers())
        uid = node.pods()["web"]["metadata"]["uid"]
        noted = ask(node.state / "pykubelet.sock", f"journal {uid}", [])
        agent.stop()
    node.remove_pods()
    moments = [each["moment"] for each in noted]
    kinds = [moment["type"] for moment in moments]
    for first, second in pairwise(("Merged", "Admitted", "Began", "SandboxMade", "ContainerStarted")):
        assert kinds.index(first) < kinds.index(second)
    assert next(moment for moment in moments if moment["type"] == "SandboxMade")["seconds"] > 0
    assert f"default/web-{NODE_NAME}: Merged(" in node.log.read_text()
