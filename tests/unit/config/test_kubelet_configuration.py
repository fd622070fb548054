import json
from pathlib import Path
from typing import Any

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.config.kubelet_configuration import load_configuration
from pykubelet.config.options import EVICTION_HARD

HEAD = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"


def load(tmp_path: Path, text: str | bytes) -> dict[str, Any]:
    file = tmp_path / "kubelet.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_configuration(str(file))


def refusal(tmp_path: Path, text: str | bytes) -> str:
    with pytest.raises(Invalid) as caught:
        load(tmp_path, text)
    return str(caught.value).removeprefix(f"{tmp_path}/kubelet.yaml")


def test_json_will_do(tmp_path: Path) -> None:
    value = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "staticPodPath": "/m"}
    assert load(tmp_path, json.dumps(value)) == {"staticPodPath": "/m"}


def test_paths_begin_where_the_file_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    given = "staticPodPath: m\ntlsCertFile: ../c\nauthentication: {x509: {clientCAFile: /ca}}\nresolvConf: ''\n"
    assert load(tmp_path, HEAD + given) == {
        "staticPodPath": f"{tmp_path}/m",
        "tlsCertFile": f"{tmp_path}/../c",
        "authentication.x509.clientCAFile": "/ca",
        "resolvConf": "",
    }
    monkeypatch.chdir(tmp_path)
    assert load_configuration("kubelet.yaml")["staticPodPath"] == f"{tmp_path}/m"
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d/1.conf").write_text(f"{HEAD}staticPodPath: other\n")
    assert load_configuration("kubelet.yaml", "conf.d")["staticPodPath"] == "other"


def test_nothing_and_zero_mean_the_default_where_upstream_cannot_tell_them_apart(tmp_path: Path) -> None:
    unset = "port: 0\naddress: ''\nsyncFrequency: 0s\n"
    text = f"{unset}healthzPort: 0\nresolvConf: ''\neventRecordQPS: 0\nregisterNode: false\n"
    assert load(tmp_path, HEAD + text) == {
        "healthzPort": 0,
        "resolvConf": "",
        "eventRecordQPS": 0,
        "registerNode": False,
    }


def test_how_often_a_node_is_reported_follows_from_how_often_it_is_looked_at(tmp_path: Path) -> None:
    said = load(tmp_path, HEAD + "nodeStatusUpdateFrequency: 4s\n")
    assert said["nodeStatusReportFrequency"] == "4s"
    said = load(tmp_path, HEAD + "nodeStatusUpdateFrequency: 4s\nnodeStatusReportFrequency: 1m\n")
    assert said["nodeStatusReportFrequency"] == "1m"


def test_what_has_parts_is_read_with_them(tmp_path: Path) -> None:
    text = (
        "logging: {vmodule: [{filePattern: prober, verbosity: 5}], flushFrequency: 5000000000}\n"
        "reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}]\n"
        "shutdownGracePeriodByPodPriority: [{priority: 7, shutdownGracePeriodSeconds: 30}]\n"
        "featureGates: {MemoryQoS: true}\n"
    )
    assert load(tmp_path, HEAD + text) == {
        "logging.vmodule": ({"filePattern": "prober", "verbosity": 5},),
        "logging.flushFrequency": 5000000000,
        "reservedMemory": ({"numaNode": 0, "limits": {"memory": "1Gi"}},),
        "shutdownGracePeriodByPodPriority": ({"priority": 7, "shutdownGracePeriodSeconds": 30},),
        "featureGates": {"MemoryQoS": True},
    }


# --- drop-ins


def load_with(tmp_path: Path, base: str, drop_ins: dict[str, str]) -> dict[str, Any]:
    (tmp_path / "kubelet.yaml").write_text(HEAD + base)
    for name, text in drop_ins.items():
        file = tmp_path / "conf.d" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(HEAD + text)
    return load_configuration(str(tmp_path / "kubelet.yaml"), str(tmp_path / "conf.d"))


def test_drop_ins_are_merged_in_the_order_of_their_names_and_folders(tmp_path: Path) -> None:
    said = load_with(
        tmp_path,
        "maxPods: 1\nport: 1\nhealthzPort: 1\n",
        {
            "20-b.conf": "maxPods: 20\nport: 20\n",
            "10-a.conf": "maxPods: 10\nhealthzPort: 10\n",
            "15-folder/zz.conf": "maxPods: 15\nport: 15\neventBurst: 15\n",
            "30-other.yaml": "maxPods: 30\n",
        },
    )
    assert said | {"evictionHard": None} == {
        "maxPods": 20,
        "port": 20,
        "healthzPort": 10,
        "eventBurst": 15,
        "evictionHard": None,
    }


def test_objects_are_merged_lists_replaced_and_null_brings_the_default_back(tmp_path: Path) -> None:
    said = load_with(
        tmp_path,
        "featureGates: {MemoryQoS: true, NodeLogQuery: true}\nclusterDNS: [10.0.0.1]\nmaxPods: 7\n"
        "authentication: {anonymous: {enabled: true}, webhook: {cacheTTL: 1m}}\nkubeReserved: {cpu: 1}\n".replace(
            "cpu: 1", "cpu: '1'"
        ),
        {
            "a.conf": "featureGates: {NodeLogQuery: false}\nclusterDNS: [10.0.0.2]\nmaxPods: null\n"
            "authentication: {anonymous: {enabled: false}}\nkubeReserved: {memory: 1Gi}\n"
            "evictionHard: {memory.available: 1Gi}\n"
        },
    )
    assert said == {
        "featureGates": {"MemoryQoS": True, "NodeLogQuery": False},
        "clusterDNS": ("10.0.0.2",),
        "authentication.anonymous.enabled": False,
        "authentication.webhook.cacheTTL": "1m",
        "kubeReserved": {"cpu": "1", "memory": "1Gi"},
        "evictionHard": {**EVICTION_HARD, "memory.available": "1Gi"},
    }


def test_drop_ins_need_no_file_to_be_merged_into(tmp_path: Path) -> None:
    (tmp_path / "a.conf").write_text(HEAD + "maxPods: 7\n")
    assert load_configuration("", str(tmp_path))["maxPods"] == 7


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (HEAD + "maxPod: 7\n", ":3:9: maxPod: there is no such field; is it a typing error?"),
        (HEAD + "maxPods: many\n", ":3:10: maxPods: expected int, got str"),
        ("maxPods: 7\n", ":1:1: must be of apiVersion kubelet.config.k8s.io/v1beta1, kind KubeletConfiguration"),
    ],
)
def test_a_fault_of_a_drop_in_is_named_with_its_file_and_place(tmp_path: Path, text: str, fault: str) -> None:
    (tmp_path / "50-bad.conf").write_text(text)
    with pytest.raises(Invalid) as caught:
        load_configuration("", str(tmp_path))
    assert str(caught.value).startswith(f"{tmp_path}/50-bad.conf{fault}")


def test_a_folder_of_drop_ins_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=f"{tmp_path}/none: cannot be read: No such file or directory"):
        load_configuration("", str(tmp_path / "none"))


# --- faults


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (f"{HEAD}staticPodPaht: /m\n", ":3:16: staticPodPaht: there is no such field; is it a typing error?"),
        (
            f"{HEAD}authentication:\n  x509: {{ca: a}}\n",
            ":4:14: authentication.x509.ca: there is no such field; is it a typing error?",
        ),
        (
            f"{HEAD}reservedMemory: [{{numaNode: 0, limit: {{}}}}]\n",
            ":3:39: reservedMemory[0].limit: there is no such field; is it a typing error?",
        ),
        ("", ": must hold one KubeletConfiguration, but holds 0 documents"),
        (f"{HEAD}---\n{HEAD}", ": must hold one KubeletConfiguration, but holds 2 documents"),
        ("a: b: c", ":1:5: is not YAML: mapping values are not allowed in this context"),
        ("{", ":1:2: is not JSON: Expecting property name enclosed in double quotes"),
        (b"\xff", ":1:1: is not UTF-8 text"),
        (f"{HEAD}staticPodPath: /a\nstaticPodPath: /b\n", ":4:1: key 'staticPodPath' occurs twice, first on line 3"),
        (f"{HEAD}staticPodPath: 3\n", ":3:16: staticPodPath: expected str, got int"),
        (f"{HEAD}fileCheckFrequency: 20\n", ":3:21: fileCheckFrequency: expected str, got int"),
        (
            "kind: KubeletConfiguration\n",
            ":1:1: must be of apiVersion kubelet.config.k8s.io/v1beta1, kind KubeletConfiguration, "
            "but is of apiVersion (none), kind KubeletConfiguration",
        ),
        (
            "# a remark\napiVersion: v1\nkind: Pod\n",
            ":2:1: must be of apiVersion kubelet.config.k8s.io/v1beta1, kind KubeletConfiguration, "
            "but is of apiVersion v1, kind Pod",
        ),
    ],
)
def test_a_fault_of_the_file_is_named_with_its_place(tmp_path: Path, text: str | bytes, fault: str) -> None:
    assert refusal(tmp_path, text) == fault


def test_a_list_is_no_configuration(tmp_path: Path) -> None:
    assert refusal(tmp_path, "- a\n").startswith(":1:1: expected object")


@pytest.mark.parametrize(
    ("name", "reason"), [("missing", "No such file or directory"), (".", "Is a directory"), ("x" * 300, "too long")]
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str, reason: str) -> None:
    path = str(tmp_path / name)
    with pytest.raises(Invalid) as caught:
        load_configuration(path)
    assert str(caught.value).startswith(f"{path}: cannot be read: ")
    assert str(caught.value).endswith(reason)
