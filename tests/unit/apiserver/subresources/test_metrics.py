"""Rates from what kubelets count: two looks, taken when somebody asks."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from kit.api_process import Api, serving_api
from pykubelet.apiserver.backend import Backend
from pykubelet.apiserver.status import internal
from pykubelet.apiserver.subresources.metrics import Metrics, Sample, read_samples, usage

NOW = datetime(2026, 1, 2, tzinfo=UTC)
METRICS = "/apis/metrics.k8s.io/v1beta1"


def text(seconds: float, cpu: float, container: float | None = None, node: float = 1000.0) -> str:
    stamp = round((node + seconds) * 1000)
    lines = [
        "# TYPE node_cpu_usage_seconds_total counter",
        f"node_cpu_usage_seconds_total {cpu} {stamp}",
        f"node_memory_working_set_bytes 1.048576e+06 {stamp}",
        "scrape_error 0",
    ]
    if container is not None:
        labels = '{container="c",namespace="default",pod="x"}'
        lines += [
            f"container_cpu_usage_seconds_total{labels} {container} {stamp}",
            f"container_memory_working_set_bytes{labels} 2048 {stamp}",
            f"container_start_time_seconds{labels} {node}",
        ]
    return "\n".join(lines)


def test_samples_are_read_from_the_text_form() -> None:
    found = read_samples(text(1, 7.5, 2.0) + "\nnot a metric\n", NOW)
    assert found == {
        ("", "", ""): Sample(1001.0, 7.5, 1048576.0),
        ("default", "x", "c"): Sample(1001.0, 2.0, 2048.0, 1000.0),
    }


def test_usage_is_what_was_used_in_between() -> None:
    found = usage(Sample(10.0, 5.0, 0.0), Sample(14.0, 7.0, 99.0))
    assert found is not None
    assert (found.cores, found.window, found.memory) == (0.5, 4.0, 99.0)


@pytest.mark.parametrize("before", [None, Sample(15.0, 900.0, 0.0, began=3.0)])
def test_a_container_that_began_in_between_is_counted_from_its_begin(before: Sample | None) -> None:
    found = usage(before, Sample(20.0, 5.0, 1.0, began=10.0))
    assert found is not None
    assert (found.cores, found.window) == (0.5, 10.0)


def test_one_look_alone_is_no_rate() -> None:
    assert usage(None, Sample(20.0, 5.0, 1.0)) is None
    assert usage(Sample(20.0, 5.0, 1.0), Sample(20.0, 5.0, 1.0)) is None


class Kubelets:
    """`answers` of each node, one after the other; the last is given again and again."""

    def __init__(self, **answers: list[str]) -> None:
        self.answers = answers
        self.asked: list[str] = []

    async def text(self, backend: Backend, node: str, target: str) -> str:
        self.asked.append(node)
        if node not in self.answers:
            raise internal("it does not answer")
        answers = self.answers[node]
        return answers.pop(0) if len(answers) > 1 else answers[0]


@asynccontextmanager
async def api_with(kubelets: Kubelets) -> AsyncIterator[Api]:
    async with serving_api() as api:
        for (group, plural), verb in Metrics(kubelets.text).verbs().items():
            api.server.answer(group, plural, "", verb)
        for node in ("n1", "n2"):
            await api.ask("POST", "/api/v1/nodes", {"metadata": {"name": node, "labels": {"is": node}}})
        spec = {"nodeName": "n1", "containers": [{"name": "c", "image": "x"}]}
        pod = {"metadata": {"name": "x", "labels": {"app": "x"}}, "spec": spec}
        await api.ask("POST", "/api/v1/namespaces/default/pods", pod)
        status = {"status": {"phase": "Running"}}
        kind = "application/merge-patch+json"
        await api.ask("PATCH", "/api/v1/namespaces/default/pods/x/status", status, kind=kind)
        yield api


async def asked(api: Api, path: str) -> tuple[int, Any]:
    return await api.ask("GET", METRICS + path)


async def test_nodes_and_pods_are_measured_and_a_silent_kubelet_spoils_nothing() -> None:
    kubelets = Kubelets(n1=[text(0, 10, 1), text(2, 11, 1.5), text(2.1, 11, 1.5)])
    async with api_with(kubelets) as api:
        code, pods = await asked(api, "/namespaces/default/pods")
        assert (code, len(kubelets.asked)) == (200, 2)
        [pod] = pods["items"]
        assert pod["containers"] == [{"name": "c", "usage": {"cpu": "250000000n", "memory": "2Ki"}}]
        assert (pod["metadata"]["labels"], pod["window"]) == ({"app": "x"}, "2.000s")
        _, nodes = await asked(api, "/nodes")
        assert [each["metadata"]["name"] for each in nodes["items"]] == ["n1"]
        assert nodes["items"][0]["usage"]["memory"] == "1024Ki"
        assert kubelets.asked.count("n1") == 3, "the look before is good enough"
        code, _ = await asked(api, "/nodes/n1")
        assert code == 200


async def test_selectors_choose_and_what_is_not_there_is_not_found() -> None:
    kubelets = Kubelets(n1=[text(0, 10, 1), text(2, 11, 1.5)])
    async with api_with(kubelets) as api:
        _, found = await asked(api, "/pods?labelSelector=app%3Dother")
        assert found["items"] == []
        _, found = await asked(api, "/pods?labelSelector=app%3Dx")
        assert len(found["items"]) == 1
        code, told = await asked(api, "/namespaces/default/pods/absent")
        assert (code, told["message"]) == (404, 'podmetrics.metrics.k8s.io "default/absent" not found')
        code, told = await asked(api, "/nodes/n2")
        assert (code, told["reason"]) == (404, "NotFound"), json.dumps(told)
