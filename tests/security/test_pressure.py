"""Pods that would have the node run short and others go for it: one that is a single process of very many threads, and
one that does not listen when it is told to go."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from kit.agent_process import NODE_NAME, Node
from kit.api_server import LoopbackApi, loopback_api
from kit.waiting import wait_for

pytestmark = pytest.mark.timeout(120)

MANY: Final = 600
THREADS: Final = f"""
import threading, time
for _ in range({MANY}):
    threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
time.sleep(1000)
"""
DEAF: Final = f"trap '' TERM; i=0; while [ $i -lt {MANY} ]; do sleep 1000 & i=$((i+1)); done; while :; do sleep 1; done"
POLITE: Final = "for i in 1 2 3 4 5 6 7 8 9; do sleep 1000 & done; wait"


def processes_left() -> int:
    most = min(int(Path(f"/proc/sys/kernel/{name}").read_text()) for name in ("pid_max", "threads-max"))
    return most - int(Path("/proc/loadavg").read_text().split()[3].partition("/")[2])


@pytest.fixture
def api(tmp_path: Path) -> Iterator[LoopbackApi]:
    with loopback_api(tmp_path / "kubeconfig") as running:
        yield running


def pod(name: str, *command: str, grace: int = 600) -> dict[str, Any]:
    container = {"name": "c", "image": "machine", "command": list(command)}
    spec = {"nodeName": NODE_NAME, "containers": [container], "terminationGracePeriodSeconds": grace}
    return {"metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"}, "spec": spec}


def test_neither_threads_nor_deaf_ears_have_the_polite_go(api: LoopbackApi, tmp_path: Path) -> None:
    """Of processes each of the polite has more than whoever has all its threads in one."""
    few = f"--eviction-hard=pid.available<{processes_left() - MANY // 2}"
    node = Node(tmp_path, "--kubeconfig", str(tmp_path / "kubeconfig"), few)

    def told() -> str:
        return f"{ {name: each.get('status') for name, each in api.pods().items()} }\n{node.told()}"

    def is_evicted(name: str) -> bool:
        return bool(api.pods()[name].get("status", {}).get("reason") == "Evicted")

    with node.agent("--stop-pods-on-exit") as agent:
        for number in range(2):
            api.apply(pod(f"polite-{number}", "sh", "-c", POLITE, grace=1))
        wait_for(lambda: len(node.containers()) == 2, seconds=30, otherwise=told)
        api.apply(pod("threads", "python3", "-c", THREADS))
        api.apply(pod("deaf", "sh", "-c", DEAF))
        wait_for(lambda: is_evicted("threads") and is_evicted("deaf"), seconds=60, otherwise=told)
        assert not is_evicted("polite-0"), told()
        assert not is_evicted("polite-1"), told()
        assert len(node.containers()) == 2, told()
        agent.stop()
