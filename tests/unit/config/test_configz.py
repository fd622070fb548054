"""The configuration in force, as tools read it, rewrite it and hand it back."""

import json
from pathlib import Path
from typing import Any

from pykubelet.api import codec
from pykubelet.config.agent import eviction_hard, make_config
from pykubelet.config.flags import Flags
from pykubelet.config.kubelet_configuration import load_configuration

HEAD = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}


def shown(given: dict[str, Any]) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(codec.encode(make_config({"--root-dir": "/r", **given}).configuration))
    return value


def handed_back(tmp_path: Path, configuration: dict[str, Any]) -> dict[str, Any]:
    file = tmp_path / "kubelet.json"
    file.write_text(json.dumps(HEAD | configuration))
    return load_configuration(str(file))


def test_what_is_shown_can_be_handed_back_and_is_then_in_force(tmp_path: Path) -> None:
    given = {
        "maxPods": 7,
        "registerNode": False,
        "syncFrequency": "90s",
        "evictionHard": {"memory.available": "1Gi"},
        "featureGates": {"MemoryQoS": True, "NodeLogQuery": False},
        "logging.vmodule": ({"filePattern": "prober", "verbosity": 5},),
        "reservedMemory": ({"numaNode": 0, "limits": {"memory": "1Gi"}},),
        "kubeReserved": {"cpu": "100m"},
        "resolvConf": "",
        "eventRecordQPS": 0,
        "clusterDNS": ("10.0.0.10",),
        "rotateCertificates": True,
        "tracing.samplingRatePerMillion": 0,
    }
    first = shown(given)
    back = handed_back(tmp_path, first)
    assert shown(back) == first
    assert {key: back[key] for key in given if key != "syncFrequency"} == {
        key: value for key, value in given.items() if key != "syncFrequency"
    }
    assert back["syncFrequency"] == "1m30s"


def test_the_defaults_can_be_handed_back_without_a_word_about_what_has_no_effect(tmp_path: Path) -> None:
    assert shown(handed_back(tmp_path, shown({}))) == shown({})


def test_values_are_written_as_upstream_writes_them() -> None:
    found = shown({"authentication.webhook.cacheTTL": "120s", "runtimeRequestTimeout": "1500ms", "runOnce": False})
    assert found["authentication"]["webhook"]["cacheTTL"] == "2m0s"
    assert found["runtimeRequestTimeout"] == "1.5s"
    assert found["failCgroupV1"] is False  # a pointer of upstream's
    assert not found.keys() & {"runOnce", "readOnlyPort", "providerID", "clusterDNS"}
    assert found["authentication"]["x509"] == found["crashLoopBackOff"] == found["memorySwap"] == {}


def test_what_is_secret_is_masked() -> None:
    assert shown({"staticPodURLHeader": {"X-Key": ("s3cret",)}})["staticPodURLHeader"] == {"X-Key": ["<masked>"]}


def test_it_is_what_the_go_kubelet_shows_for_the_same_file_drop_in_and_flags(tmp_path: Path) -> None:
    """Recorded from v1.34, which shows the values of headers."""
    recorded = json.loads((Path(__file__).parents[2] / "data" / "kubelet_configz.json").read_text())
    (tmp_path / "kubelet.json").write_text(json.dumps(recorded["file"]))
    (tmp_path / "10.conf").write_text(json.dumps(recorded["drop_in"]))
    hard, flags = eviction_hard(is_kubelet=True), Flags(recorded["flags"]).given
    said = load_configuration(str(tmp_path / "kubelet.json"), str(tmp_path), eviction_hard=hard)
    given = said | flags | {"featureGates": said["featureGates"] | flags["featureGates"]}
    found = json.loads(codec.encode(make_config(given, is_kubelet=True).configuration))
    assert found == recorded["configz"] | {"staticPodURLHeader": {"X-Key": ["<masked>"]}}
