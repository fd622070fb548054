"""Every name that the kubelet of v1.34 serves, with its kind and labels (`tests/data/metrics.json`): we serve it, or
say why not."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from kit.readings import FACTS, reading
from pykubelet.server.metrics import cadvisor, metric_names, resource_metrics
from pykubelet.server.metrics.metric_names import Named
from pykubelet.server.metrics.metrics import Metrics
from pykubelet.web.exposition import text

UPSTREAM: dict[str, dict[str, dict[str, Any]]] = json.loads(
    (Path(__file__).parents[3] / "data" / "metrics.json").read_text()
)["endpoints"]
NOT_SERVED = {
    "go_.*": "of Go's runtime, which this agent does not have",
    "workqueue_.*": "of Go's work queues: pods have workers here, which kubelet_working_pods counts",
    "registered_metrics_total|disabled_metrics_total|hidden_metrics_total|cardinality_enforcement_.*": "of the Go "
    "library's own books about metrics",
    "aggregator_.*|apiserver_(audit|envelope|storage|validation|webhooks)_.*": "of code of the API server that the Go "
    "kubelet only carries along",
    "rest_client_transport_.*": "of the Go client's cache of connections",
    "rest_client_dns_resolution_duration_seconds": "the HTTP client keeps names resolved without telling",
    "rest_client_exec_plugin_.*": "credential plug-ins are run, but not counted yet",
    "plugin_manager_total_plugins": "plug-ins that register are not counted yet",
    "kubelet_evented_pleg_connection_latency_seconds": "a hint of the runtime names a pod, and no time",
    "kubelet_volume_metric_collection_duration_seconds": "one walk measures most volumes, and drivers are timed",
    "volume_manager_selinux_.*": "volumes are mounted without SELinux labels",
    "(force_cleaned|reconstruct)_.*_total": "nothing is rebuilt from memory: what is on disk is what counts",
    "machine_nvm_.*|machine_dimm_.*": "nothing on the machine says so without a library for it",
}
OF_THE_PROCESS = {name for name in UPSTREAM["/metrics"] if name.startswith("process_")}


def why_not(name: str) -> str:
    return next((why for pattern, why in NOT_SERVED.items() if re.fullmatch(pattern, name)), "")


def told(page: str) -> dict[str, tuple[str, set[str]]]:
    """The kind of each name in a text, and the labels that it was seen with."""
    found: dict[str, tuple[str, set[str]]] = {}
    name = ""
    for line in page.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            found[name] = kind, set()
        elif not line.startswith("#"):
            found[name][1].update(re.findall(r'[{,]([a-zA-Z_]+)="', line))
    return found


TABLES = {
    "/metrics": metric_names.METRICS,
    "/metrics/probes": metric_names.PROBES,
    "/metrics/slis": metric_names.SLIS,
}
PAGES = {
    "/metrics/cadvisor": lambda: cadvisor.exposition(reading(), FACTS),
    "/metrics/resource": lambda: resource_metrics.exposition(reading()),
}


@pytest.mark.parametrize("endpoint", TABLES)
def test_the_tables_have_upstreams_names_kinds_and_labels(endpoint: str) -> None:
    ours: dict[str, Named] = {each.name: each for each in TABLES[endpoint]}
    for name, upstream in UPSTREAM[endpoint].items():
        if name in ours:
            assert (ours[name].kind, sorted(ours[name].labels)) == (upstream["kind"], upstream["labels"]), name
            assert not why_not(name), name
        elif name not in OF_THE_PROCESS:
            assert why_not(name), name
    own = {name for name in ours if name not in UPSTREAM[endpoint]}
    assert all(name.startswith("pykubelet_") for name in own)


@pytest.mark.parametrize("endpoint", PAGES)
def test_the_pages_have_upstreams_names_kinds_and_labels(endpoint: str) -> None:
    ours, upstream = told(PAGES[endpoint]()), UPSTREAM[endpoint]
    assert set(ours) <= set(upstream)
    for name, (kind, labels) in ours.items():
        assert (kind, sorted(labels)) == (upstream[name]["kind"], upstream[name]["labels"]), name
        assert not why_not(name), name
    assert {name for name in upstream if name not in ours and not why_not(name)} == set()


def test_the_process_is_told_as_go_tells_it() -> None:
    ours = told(text(Metrics("n1")._families()).decode())
    for name in OF_THE_PROCESS:
        assert ours[name][0] == UPSTREAM["/metrics"][name]["kind"], name


def test_every_reason_is_still_needed() -> None:
    names = {name for names in UPSTREAM.values() for name in names}
    for pattern in NOT_SERVED:
        assert any(re.fullmatch(pattern, name) for name in names), pattern


# --- what is asked for

DASHBOARDS: dict[str, list[str]] = json.loads(
    (Path(__file__).parents[3] / "data" / "dashboard_metrics.json").read_text()
)
"""The metrics of a node that the public dashboards, rules and alerts for Kubernetes query, with the labels that they
select or group by."""
BY_PROMETHEUS = {"cluster", "instance", "job", "metrics_path", "node"}
"""Labels that come with the scrape."""
NOT_FOUND = {
    "go_goroutines": "of Go's runtime",
    "kubelet_node_config_error": "upstream itself has it no more",
    "storage_operation_errors_total": "upstream itself has it no more: the status is a label of the duration",
}


NOT_OURS = {"rest_client_requests_total": {"namespace"}}
"""Of other programs' series under the same name, which run in pods."""


def test_dashboards_find_every_metric_and_label_that_they_query() -> None:
    served = {each.name: set(each.labels) for each in metric_names.METRICS}
    served |= {name: labels for name, (_, labels) in told(PAGES["/metrics/cadvisor"]()).items()}
    served |= {name: set() for name in OF_THE_PROCESS}
    assert {name for name in DASHBOARDS if name not in served} == set(NOT_FOUND)
    for name, labels in DASHBOARDS.items():
        if name in served:
            assert set(labels) - BY_PROMETHEUS <= served[name] | NOT_OURS.get(name, set()), name
