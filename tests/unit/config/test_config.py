import json
import logging
import socket
from pathlib import Path
from typing import Any

import pytest

from pykubelet.api.struct import changed
from pykubelet.app.machine import check_reserved
from pykubelet.base.errors import Invalid
from pykubelet.config.config import Config, ServerOptions, make_config
from pykubelet.config.file import KubeletConfiguration, load_configuration
from pykubelet.config.flags import headers as parse_header_flags
from pykubelet.pod.ports.node import MachineFacts

HEAD = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"


def load(tmp_path: Path, text: str | bytes) -> KubeletConfiguration:
    file = tmp_path / "kubelet.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_configuration(str(file))


def refusal(tmp_path: Path, text: str | bytes) -> str:
    with pytest.raises(Invalid) as caught:
        load(tmp_path, text)
    return str(caught.value).removeprefix(f"{tmp_path}/kubelet.yaml")


def config(**fields: Any) -> Config:
    """As made for a node n1 with its state in /r."""
    server = ServerOptions(cert_dir=Path("/r/pki"))
    return Config(node_name="n1", root_dir=Path("/r"), pod_logs_dir=Path("/r/logs"), server=server, **fields)


def made(configuration: KubeletConfiguration) -> Config:
    return changed(make_config(configuration, hostname_override="n1", root_dir="/r"), source=KubeletConfiguration())


def test_the_names_of_the_file_are_upstreams(tmp_path: Path) -> None:
    found = load(
        tmp_path,
        HEAD + "staticPodPath: /etc/kubernetes/manifests\n"
        "staticPodURL: https://example.com/pods\n"
        "staticPodURLHeader: {Authorization: [Bearer x], X-Team: [a, b]}\n"
        "fileCheckFrequency: 10s\n"
        "httpCheckFrequency: 1m30s\n",
    )
    assert made(found) == config(
        static_pod_path="/etc/kubernetes/manifests",
        static_pod_url="https://example.com/pods",
        static_pod_url_header={"Authorization": ("Bearer x",), "X-Team": ("a", "b")},
        file_check_frequency=10.0,
        http_check_frequency=90.0,
    )


def test_json_will_do(tmp_path: Path) -> None:
    value = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "staticPodPath": "/m"}
    assert load(tmp_path, json.dumps(value)).static_pod_path == "/m"


def test_the_defaults_are_upstreams(tmp_path: Path) -> None:
    found = made(load(tmp_path, HEAD))
    assert found == made(KubeletConfiguration()) == config()
    assert (found.file_check_frequency, found.http_check_frequency, found.node.max_pods) == (20.0, 20.0, 110)
    assert not found.server.anonymous
    assert found.server.authorization == "Webhook"


def test_nulls_are_as_if_not_written(tmp_path: Path) -> None:
    text = HEAD + "staticPodPath: null\nstaticPodURLHeader:\nfileCheckFrequency: ~\n"
    assert made(load(tmp_path, text)) == config()


def test_what_has_no_effect_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    load(tmp_path, HEAD + "staticPodPath: /m\npodsPerCore: 1\nlogging: {verbosity: 3}\n")
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (logging.WARNING, f"{tmp_path}/kubelet.yaml: {field} is not used by this version and has no effect")
        for field in ("podsPerCore", "logging.verbosity")
    ]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (f"{HEAD}staticPodPaht: /m\n", ":3:16: staticPodPaht: there is no such field; is it a typing error?"),
        (
            f"{HEAD}authentication:\n  x509: {{ca: a}}\n",
            ":4:14: authentication.x509.ca: there is no such field; is it a typing error?",
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


# --- durations


@pytest.mark.parametrize("text", ["0", "0s", "0h0m0s"])
def test_zero_means_the_default(text: str) -> None:
    configuration = KubeletConfiguration(file_check_frequency=text, http_check_frequency=text)
    config = make_config(configuration, hostname_override="n1")
    assert (config.file_check_frequency, config.http_check_frequency) == (20.0, 20.0)


@pytest.mark.parametrize("field", ["file_check_frequency", "http_check_frequency"])
@pytest.mark.parametrize("text", ["20", "", "soon", "-1s", "1d", "9999999h"])
def test_a_bad_duration_is_refused_by_its_name(field: str, text: str) -> None:
    configuration = changed(KubeletConfiguration(), **{field: text})
    with pytest.raises(Invalid) as caught:
        make_config(configuration, hostname_override="n1")
    assert str(caught.value).startswith(f"{field[:4]}CheckFrequency: ")


# --- the node's name


def test_the_node_has_the_hosts_name_in_small_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "Box.Example.COM\n")
    assert make_config(KubeletConfiguration()).node_name == "box.example.com"


@pytest.mark.parametrize(("given", "name"), [("n1", "n1"), ("Node-7", "node-7"), (" n1 ", "n1")])
def test_the_hosts_name_can_be_overridden(given: str, name: str) -> None:
    assert make_config(KubeletConfiguration(), hostname_override=given).node_name == name


@pytest.mark.parametrize("name", ["my_host", "-n1", "n1/../n2", "n" * 254, "Größe"])
def test_a_name_that_no_node_can_have_is_refused_with_a_way_out(name: str) -> None:
    with pytest.raises(Invalid, match="choose one with --hostname-override"):
        make_config(KubeletConfiguration(), hostname_override=name)


# --- headers


@pytest.mark.parametrize(
    ("flags", "headers"),
    [
        ((), {}),
        (("a:hello",), {"a": ("hello",)}),
        (("a:hello,b:again", "a:twice"), {"a": ("hello", "twice"), "b": ("again",)}),
        (("a: with: colons ",), {"a": ("with: colons",)}),
        ((" a :",), {"a": ("",)}),
        (("a:b,", ""), {"a": ("b",)}),
    ],
)
def test_headers_are_written_as_names_and_values(flags: tuple[str, ...], headers: dict[str, tuple[str, ...]]) -> None:
    assert parse_header_flags(flags) == headers


@pytest.mark.parametrize("flag", ["s3cret", ":s3cret", " :s3cret", "a:b,s3cret"])
def test_a_header_without_a_name_is_refused_without_showing_its_value(flag: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse_header_flags((flag,))
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("cgroupDriver: docker\n", "cgroupDriver: must be cgroupfs or systemd, got 'docker'"),
        ("imageGCLowThresholdPercent: 90\n", "imageGCLowThresholdPercent: must be below imageGCHighThresholdPercent"),
        ("serializeImagePulls: true\nmaxParallelImagePulls: 3\n", "maxParallelImagePulls: cannot be more than 1"),
        ("kubeReserved: {cpu: lots}\n", "kubeReserved.cpu: 'lots' is not a quantity"),
        ("systemReserved: {memory: -1Gi}\n", "systemReserved.memory: must not be negative"),
        ("kubeReserved: {gpu: '1'}\n", "kubeReserved: 'gpu' cannot be reserved; there are cpu, memory"),
        ("enforceNodeAllocatable: [everything]\n", "enforceNodeAllocatable: must be some of none, pods, system-"),
        ("enforceNodeAllocatable: [none, pods]\n", "enforceNodeAllocatable: cannot be none and something else"),
        ("containerLogMaxFiles: 1\n", "containerLogMaxFiles: must be 2 or more, got 1"),
        ("containerLogMaxSize: '0'\n", "containerLogMaxSize: must be positive"),
        ("clusterDNS: [ten]\n", "clusterDNS: 'ten' is not an address"),
        ("port: 70000\n", "port: must be from 0 to 65535, got 70000"),
        ("address: here\n", "address: 'here' is not an address"),
        ("authorization: {mode: Sometimes}\n", "authorization.mode: must be Webhook or AlwaysAllow, got 'Sometimes'"),
        ("tlsCertFile: /c\n", "tlsCertFile and tlsPrivateKeyFile need each other"),
        ("cpuCFSQuotaPeriod: 2s\n", "cpuCFSQuotaPeriod: must be from 1ms to 1s, got 2s"),
        ("nodeLeaseDurationSeconds: 0\n", "nodeLeaseDurationSeconds: must be positive, got 0"),
    ],
)
def test_values_that_make_no_sense_are_refused(tmp_path: Path, text: str, fault: str) -> None:
    with pytest.raises(Invalid) as caught:
        made(load(tmp_path, HEAD + text))
    assert str(caught.value).startswith(fault)


def test_what_is_reserved_for_the_system_and_the_agent_adds_up() -> None:
    found = made(KubeletConfiguration(kube_reserved={"cpu": "100m"}, system_reserved={"cpu": "1", "memory": "1Gi"}))
    assert {name: str(amount) for name, amount in found.node.reserved.items()} == {"cpu": "1100m", "memory": "1Gi"}


def test_a_node_cannot_keep_back_more_than_it_has() -> None:
    facts = MachineFacts(hostname="n1", ips=("10.0.0.1",), cpus=2, memory=1 << 30)
    check_reserved(made(KubeletConfiguration(kube_reserved={"cpu": "2", "ephemeral-storage": "1Ti"})), facts)
    too_much = made(KubeletConfiguration(kube_reserved={"cpu": "1"}, system_reserved={"cpu": "1500m"}))
    with pytest.raises(Invalid, match="2500m of cpu is more than this machine's 2"):
        check_reserved(too_much, facts)


def test_what_cannot_be_enforced_is_said(caplog: pytest.LogCaptureFixture) -> None:
    made(KubeletConfiguration(enforce_node_allocatable=("pods", "kube-reserved")))
    assert "kube-reserved has no control group of its own here" in caplog.text


def test_one_pull_at_a_time_when_they_are_to_be_serial() -> None:
    assert made(KubeletConfiguration()).images.most_pulls is None
    assert made(KubeletConfiguration(max_parallel_image_pulls=4)).images.most_pulls == 4
    assert made(KubeletConfiguration(serialize_image_pulls=True)).images.most_pulls == 1
