from typing import Any

import pytest

from pykubelet.api.rules.resources import container_limits, container_requests, pod_requests
from unit.api.rules.resource_pods import pod_of


@pytest.mark.parametrize(
    ("containers", "init", "cpu"),
    [
        (["1", "2"], [], "3"),
        (["1"], ["5"], "5"),
        (["1"], ["5", "3"], "5"),
        (["1"], ["sidecar 2"], "3"),
        (["1"], ["sidecar 2", "5"], "7"),
        (["1"], ["5", "sidecar 2"], "5"),
        (["1"], ["sidecar 2", "sidecar 3", "1"], "6"),
        ([], ["sidecar 2", "1"], "3"),
    ],
)
def test_init_containers_run_one_by_one_beside_the_sidecars_before_them(
    containers: list[str], init: list[str], cpu: str
) -> None:
    def resources(amount: str) -> dict[str, Any]:
        number = amount.removeprefix("sidecar ")
        return {"requests": {"cpu": number}, "limits": {"memory": number}, "sidecar": number != amount}

    pod = pod_of(
        *({k: v for k, v in resources(each).items() if k != "sidecar"} for each in containers),
        init=tuple(map(resources, init)),
    )
    assert {name: str(amount) for name, amount in container_requests(pod.spec).items()} == {"cpu": cpu}
    assert {name: str(amount) for name, amount in container_limits(pod.spec).items()} == {"memory": cpu}


def test_a_pod_asks_for_what_it_says_as_a_whole_and_for_its_overhead() -> None:
    asked = {"requests": {"cpu": "1", "example.com/gpu": "2"}}
    pod = pod_of(asked, resources={"requests": {"cpu": "3", "example.com/gpu": "5"}}, overhead={"cpu": "100m"})
    amounts = {name: str(amount) for name, amount in pod_requests(pod.spec).items()}
    assert amounts == {"cpu": "3100m", "example.com/gpu": "2"}
