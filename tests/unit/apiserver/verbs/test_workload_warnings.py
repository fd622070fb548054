"""Whoever makes a workload hears what its pods would be warned of."""

from typing import Any

import pytest

from kit.api_process import Api

APPS = "/apis/apps/v1/namespaces/default"


async def told(api: Api, plural: str, kind: str, name: str = "web", **spec: Any) -> list[str]:
    container = {"name": "a", "image": "b", "env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
    whole = {"selector": {"matchLabels": {"app": "web"}}, "template": template, **spec}
    body = {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": whole}
    async with api.session.post(f"{api.url}{APPS}/{plural}", json=body) as answer:
        assert answer.status == 201, await answer.text()
        return answer.headers.getall("Warning", [])


@pytest.mark.parametrize(
    ("plural", "kind"), [("deployments", "Deployment"), ("statefulsets", "StatefulSet"), ("daemonsets", "DaemonSet")]
)
async def test_what_is_odd_about_the_template_is_told_with_its_place(api: Api, plural: str, kind: str) -> None:
    (text,) = await told(api, plural, kind)
    assert "spec.template.spec.containers[0].env[1]" in text


async def test_a_name_with_dots_makes_no_good_host_names(api: Api) -> None:
    first, _ = await told(api, "replicasets", "ReplicaSet", "a.b")
    assert "a DNS label is recommended" in first


async def test_a_history_without_an_end_is_told(api: Api) -> None:
    texts = await told(api, "statefulsets", "StatefulSet", "kept", revisionHistoryLimit=-1)
    assert any("a negative value retains all historical revisions" in text for text in texts)
