"""kubectl and jobs: made, waited for, failed, and made by the clock; also when the API server is killed in between.

The containers are processes of this machine, as they are where there is no container runtime.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from kit.up_cluster import IMAGE, UpCluster, cluster_up, kill
from kit.waiting import wait_for

pytestmark = pytest.mark.timeout(150)


@pytest.fixture(scope="module")
def cluster() -> Iterator[UpCluster]:
    with cluster_up() as running:
        yield running


def job(name: str, script: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": IMAGE, "command": ["sh", "-c", script]}
    pod = {"containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 1}
    whole = {"template": {"spec": pod}, **spec}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": whole}


def complete(cluster: UpCluster, name: str) -> None:
    cluster.kubectl("wait", "--for=condition=complete", f"job/{name}", "--timeout=60s")


def test_a_job_is_created_waited_for_and_deleted_with_its_pods(cluster: UpCluster) -> None:
    cluster.kubectl("create", "job", "hello", f"--image={IMAGE}", "--", "echo", "hello, job")
    complete(cluster, "hello")
    assert cluster.kubectl("logs", "job/hello") == "hello, job\n"
    assert "Completed" in cluster.kubectl("describe", "job", "hello")
    cluster.kubectl("delete", "job", "hello")
    wait_for(lambda: not cluster.json("get", "pods", "-l", "job-name=hello")["items"])


def test_an_indexed_job_gives_each_pod_its_number(cluster: UpCluster) -> None:
    wanted = job("indexed", "echo I am $JOB_COMPLETION_INDEX", completions=3, parallelism=2, completionMode="Indexed")
    cluster.apply(wanted)
    complete(cluster, "indexed")
    said = cluster.kubectl("logs", "-l", "job-name=indexed", "--tail=-1").splitlines()
    assert sorted(said) == ["I am 0", "I am 1", "I am 2"]
    assert cluster.json("get", "job", "indexed")["status"]["completedIndexes"] == "0-2"


def test_a_job_that_fails_says_so(cluster: UpCluster) -> None:
    cluster.apply(job("failing", "exit 3", backoffLimit=0))
    cluster.kubectl("wait", "--for=condition=failed", "job/failing", "--timeout=60s")
    assert "BackoffLimitExceeded" in cluster.kubectl("describe", "job", "failing")


def test_a_job_goes_by_itself_after_its_time(cluster: UpCluster) -> None:
    cluster.apply(job("passing", "true", ttlSecondsAfterFinished=1))
    wait_for(lambda: "passing" not in cluster.kubectl("get", "jobs", "-o", "name"), seconds=60)
    wait_for(lambda: not cluster.json("get", "pods", "-l", "job-name=passing")["items"])


def test_a_cron_job_makes_jobs_by_the_clock_and_by_hand(cluster: UpCluster) -> None:
    image = f"--image={IMAGE}"
    cluster.kubectl("create", "cronjob", "tick", image, "--schedule=@every 1s", "--", "echo", "tick")
    wait_for(lambda: cluster.json("get", "cronjob", "tick")["status"].get("lastSuccessfulTime"), seconds=90)
    cluster.kubectl("patch", "cronjob", "tick", "-p", json.dumps({"spec": {"suspend": True}}))
    cluster.kubectl("create", "job", "by-hand", "--from=cronjob/tick")
    complete(cluster, "by-hand")
    assert cluster.kubectl("logs", "job/by-hand") == "tick\n"
    cluster.kubectl("delete", "cronjob", "tick")
    wait_for(lambda: "tick-" not in cluster.kubectl("get", "jobs,pods", "-o", "name"))


def test_no_pod_is_counted_twice_or_forgotten_when_the_server_is_killed(cluster: UpCluster) -> None:
    cluster.apply(job("steady", "sleep 0.3", completions=12, parallelism=4))
    for _ in range(3):
        wait_for(lambda: cluster.try_kubectl("get", "job", "steady"))
        kill(cluster.apiserver_pid())
        wait_for(lambda: "steady" in cluster.try_kubectl("get", "job", "steady"), seconds=60)
    complete(cluster, "steady")
    status = cluster.json("get", "job", "steady")["status"]
    assert (status["succeeded"], status.get("failed", 0)) == (12, 0)
    pods = cluster.json("get", "pods", "-l", "job-name=steady")["items"]
    assert len(pods) == 12
    assert all("finalizers" not in each["metadata"] for each in pods)
