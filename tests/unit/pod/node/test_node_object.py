import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pykubelet.api import codec
from pykubelet.api.meta import ObjectMeta
from pykubelet.api.node import AttachedVolume, Node, NodeAddress, NodeCondition, NodeStatus
from pykubelet.api.quantity import Quantity, parse
from pykubelet.api.rules.well_known import KUBELET_LABELS
from pykubelet.api.scheduling import Taint
from pykubelet.api.struct import changed
from pykubelet.pod.eviction.thresholds import parse_thresholds
from pykubelet.pod.node.node_object import (
    FULL_ISOLATION,
    KUBELET_VERSION,
    NodeSettings,
    RuntimeReport,
    metadata_patch,
    node_object,
    reported,
    status_patch,
    transitions,
    without_heartbeats,
)
from pykubelet.pod.ports.node import MachineFacts
from pykubelet.pod.ports.runtime import Image, RuntimeStatus, RuntimeVersion

NOW = datetime(2026, 1, 1, 12, 0, 0, 123456, tzinfo=UTC)
SECOND = NOW.replace(microsecond=0)
FACTS = MachineFacts(
    hostname="host-1",
    ips=("10.0.0.1", "fd00::1"),
    cpus=4,
    memory=16 << 30,
    storage=20959212 * 1024,
    architecture="amd64",
    kernel_version="6.1.0",
    os_image="Debian GNU/Linux 12 (bookworm)",
    machine_id="m",
    system_uuid="u",
    boot_id="b",
)
HEALTHY = RuntimeReport(
    status=RuntimeStatus(ready=True, network_ready=True), version=RuntimeVersion(name="process", version="0.1.0")
)


THRESHOLDS = parse_thresholds(
    {"memory.available": "100Mi", "nodefs.available": "10%", "nodefs.inodesFree": "5%"},
    {},
    {},
    {},
    for_allocatable=True,
)


def made(facts: MachineFacts = FACTS, runtime: RuntimeReport = HEALTHY, now: datetime = NOW, **options: Any) -> Node:
    settings = NodeSettings(name="n1", **{"thresholds": THRESHOLDS} | options.pop("settings", {}))
    return node_object(facts, settings, runtime, now, **options)


def condition(node: Node | NodeStatus, type: str) -> NodeCondition:
    status = node.status if isinstance(node, Node) else node
    return next(condition for condition in status.conditions if condition.type == type)


def written(resources: Any) -> dict[str, str]:
    return {name: str(amount) for name, amount in resources.items()}


def runtime(**status: Any) -> RuntimeReport:
    return RuntimeReport(status=RuntimeStatus(**{"ready": True, "network_ready": True, **status}))


# --- the object


def test_a_node_carries_the_labels_that_others_rely_on() -> None:
    node = made(settings={"labels": {"disk": "ssd", "kubernetes.io/hostname": "chosen"}})
    assert node.metadata.name == "n1"
    assert node.metadata.labels == {
        "kubernetes.io/hostname": "chosen",
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": "amd64",
        "disk": "ssd",
    }
    assert node.metadata.annotations == {"volumes.kubernetes.io/controller-managed-attach-detach": "true"}


def test_taints_and_the_provider_go_into_the_spec() -> None:
    taint = Taint(key="dedicated", value="gpu", effect="NoSchedule")
    node = made(settings={"taints": (taint,), "provider_id": "kind://n1"})
    assert (node.spec.taints, node.spec.provider_id) == ((taint,), "kind://n1")


def test_every_address_is_listed_before_the_hostname() -> None:
    assert made().status.addresses == (
        NodeAddress(type="InternalIP", address="10.0.0.1"),
        NodeAddress(type="InternalIP", address="fd00::1"),
        NodeAddress(type="Hostname", address="host-1"),
    )


def test_the_machine_is_described() -> None:
    status = made(settings={"port": 10260}).status
    assert status.daemon_endpoints.kubelet_endpoint.port == 10260
    assert codec.to_builtins(status.node_info) == {
        "machineID": "m",
        "systemUUID": "u",
        "bootID": "b",
        "kernelVersion": "6.1.0",
        "osImage": "Debian GNU/Linux 12 (bookworm)",
        "containerRuntimeVersion": "process://0.1.0",
        "kubeletVersion": KUBELET_VERSION,
        "kubeProxyVersion": "",
        "operatingSystem": "linux",
        "architecture": "amd64",
    }


def test_swap_is_told_when_there_is_some() -> None:
    swap = made(changed(FACTS, swap=2 << 30)).status.node_info.swap
    assert swap is not None
    assert swap.capacity == 2 << 30


def test_a_runtime_that_never_told_its_version_has_an_unknown_one() -> None:
    assert made(runtime=runtime()).status.node_info.container_runtime_version == "unknown://Unknown"


def test_the_version_is_one_that_kubernetes_can_read_and_takes_for_no_older_than_its_own() -> None:
    assert re.fullmatch(r"v1\.34\.\d+\+[0-9A-Za-z.-]+", KUBELET_VERSION)


def test_the_largest_images_are_listed_with_some_of_their_names() -> None:
    images = tuple(
        Image(id=str(size), names=tuple(f"i{size}:{tag}" for tag in range(7)), size=size) for size in range(60)
    )
    listed = made(runtime=changed(HEALTHY, images=images)).status.images
    assert [image.size_bytes for image in listed] == list(range(59, 9, -1))
    assert listed[0].names == tuple(f"i59:{tag}" for tag in range(5))


def test_the_object_can_be_sent_and_read() -> None:
    node = made()
    assert codec.decode(Node, codec.encode(node)) == node


# --- resources


def test_pods_get_what_the_thresholds_of_eviction_leave() -> None:
    status = made().status
    assert written(status.capacity) == {
        "cpu": "4",
        "memory": "16Gi",
        "pods": "110",
        "ephemeral-storage": "20959212Ki",
    }
    assert written(status.allocatable) == {
        "cpu": "4",
        "memory": f"{16 * 1024 - 100}Mi",
        "pods": "110",
        "ephemeral-storage": "19316009748",  # to the byte what the Go kubelet makes of this file system
    }


def test_a_small_machine_takes_as_many_pods_as_its_cores_can_bear() -> None:
    cpus = FACTS.cpus
    assert str(made(settings={"pods_per_core": 3}).status.capacity["pods"]) == str(3 * cpus)
    assert str(made(settings={"pods_per_core": 3, "max_pods": 2}).status.capacity["pods"]) == "2"


def test_storage_that_is_not_counted_is_no_resource_and_not_missed() -> None:
    node = made(settings={"local_storage": False})
    assert "ephemeral-storage" not in node.status.capacity
    assert condition(node, "Ready").status == "True"


def test_who_attaches_volumes_is_said_in_an_annotation() -> None:
    name = "volumes.kubernetes.io/controller-managed-attach-detach"
    assert made().metadata.annotations == {name: "true"}
    assert made(settings={"attach_by_controller": False}).metadata.annotations == {}


@pytest.mark.parametrize(("most", "told"), [(-1, 60), (0, 0), (7, 7)])
def test_as_many_images_are_named_as_people_want(most: int, told: int) -> None:
    images = tuple(Image(id=f"i{number}", names=(f"i{number}",), size=number) for number in range(60))
    report = RuntimeReport(status=HEALTHY.status, images=images)
    assert len(made(runtime=report, settings={"most_images": most}).status.images) == told


def test_huge_pages_are_not_memory_for_pods() -> None:
    status = made(changed(FACTS, hugepages={2 << 20: 1 << 30, 1 << 30: 0})).status
    assert (str(status.capacity["hugepages-2Mi"]), str(status.capacity["hugepages-1Gi"])) == ("1Gi", "0")
    assert str(status.allocatable["hugepages-2Mi"]) == "1Gi"
    assert str(status.capacity["memory"]) == "16Gi"
    assert str(status.allocatable["memory"]) == f"{15 * 1024 - 100}Mi"


def test_what_is_reserved_is_not_for_pods() -> None:
    status = made(
        settings={"kube_reserved": {"cpu": parse("500m")}, "system_reserved": {"memory": parse("924Mi")}, "max_pods": 5}
    ).status
    assert str(status.capacity["cpu"]) == "4"
    assert written(status.allocatable)["cpu"] == "3500m"
    assert written(status.allocatable)["memory"] == "15Gi"
    assert written(status.allocatable)["pods"] == "5"


def test_what_has_to_stay_free_is_as_configured() -> None:
    soft = parse_thresholds(
        {"memory.available": "1Gi"}, {"nodefs.available": "50%"}, {"nodefs.available": "1m"}, {}, for_allocatable=True
    )
    status = made(settings={"thresholds": soft}).status
    assert str(status.allocatable["memory"]) == "15Gi"
    assert status.allocatable["ephemeral-storage"] == status.capacity["ephemeral-storage"]
    status = made(settings={"thresholds": ()}).status
    assert status.allocatable == status.capacity


def test_nothing_is_left_rather_than_less_than_nothing() -> None:
    status = made(changed(FACTS, memory=64 << 20), settings={"kube_reserved": {"cpu": parse("8")}}).status
    assert status.allocatable["memory"] == status.allocatable["cpu"] == Quantity.of(0)


# --- conditions


def test_a_healthy_node_is_ready_and_under_no_pressure() -> None:
    said = [(each.type, each.status, each.reason, each.message) for each in made().status.conditions]
    assert said == [
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        (FULL_ISOLATION, "True", "RuntimeHasNoLimitations", "the container runtime isolates containers in full"),
        ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    ]
    assert {each.last_heartbeat_time for each in made().status.conditions} == {SECOND}


def test_pressures_are_told() -> None:
    node = made(pressures=("MemoryPressure", "DiskPressure", "PIDPressure"))
    assert [(each.status, each.reason, each.message) for each in node.status.conditions[:3]] == [
        ("True", "KubeletHasInsufficientMemory", "kubelet has insufficient memory available"),
        ("True", "KubeletHasDiskPressure", "kubelet has disk pressure"),
        ("True", "KubeletHasInsufficientPID", "kubelet has insufficient PID available"),
    ]
    assert condition(node, "Ready").status == "True"


@pytest.mark.parametrize(
    ("status", "message"),
    [
        ({"ready": False, "message": "it is down"}, "container runtime not ready: it is down"),
        ({"ready": False}, "container runtime not ready: it gives no reason"),
        ({"ready": False, "network_ready": False}, "container runtime not ready: it gives no reason"),
        ({"network_ready": False, "network_message": "no cni"}, "container runtime network not ready: no cni"),
        ({"network_ready": False}, "container runtime network not ready: it gives no reason"),
        (
            {"ready": False, "message": "starting", "network_ready": False, "network_message": "no cni"},
            "[container runtime not ready: starting, container runtime network not ready: no cni]",
        ),
    ],
)
def test_a_node_whose_runtime_is_not_ready_says_why(status: dict[str, Any], message: str) -> None:
    ready = condition(made(runtime=runtime(**status)), "Ready")
    assert (ready.status, ready.reason, ready.message) == ("False", "KubeletNotReady", message)


def test_troubles_of_the_agent_keep_the_node_from_being_ready() -> None:
    ready = condition(made(troubles=("PLEG is not healthy",)), "Ready")
    assert (ready.status, ready.message) == ("False", "PLEG is not healthy")


def test_a_node_that_does_not_know_its_storage_is_not_ready() -> None:
    ready = condition(made(changed(FACTS, storage=None)), "Ready")
    assert (ready.status, ready.message) == ("False", "missing node capacity for resources: ephemeral-storage")


def test_what_the_runtime_cannot_isolate_is_told_in_its_own_words() -> None:
    isolation = condition(made(runtime=runtime(limitations=("No cgroups.", "No user namespaces."))), FULL_ISOLATION)
    assert (isolation.status, isolation.reason) == ("False", "RuntimeHasLimitations")
    assert isolation.message == "No cgroups. No user namespaces."


def test_a_runtime_that_is_down_says_nothing_of_isolation() -> None:
    node = made(runtime=runtime(ready=False))
    assert FULL_ISOLATION not in [each.type for each in node.status.conditions]


# --- what should be shown


LATER = NOW + timedelta(minutes=7)
LATER_SECOND = LATER.replace(microsecond=0)


def test_a_transition_time_moves_only_with_the_status_and_a_heartbeat_always() -> None:
    before = made().status
    after = reported(before, made(runtime=runtime(network_ready=False), now=LATER).status)
    for type, moved in (("Ready", LATER_SECOND), ("MemoryPressure", SECOND)):
        assert condition(after, type).last_transition_time == moved
        assert condition(after, type).last_heartbeat_time == LATER_SECOND


def test_another_message_is_no_transition() -> None:
    before = made(runtime=runtime(network_ready=False, network_message="one")).status
    after = reported(before, made(runtime=runtime(network_ready=False, network_message="two"), now=LATER).status)
    ready = condition(after, "Ready")
    assert ready.message.endswith("two")
    assert ready.last_transition_time == SECOND


def test_what_others_say_stays() -> None:
    theirs = NodeCondition(type="NetworkUnavailable", status="False", reason="RouteCreated", last_heartbeat_time=SECOND)
    volume = AttachedVolume(name="v", device_path="/dev/v")
    said = made().status
    shown = changed(
        said,
        capacity={**said.capacity, "example.com/gpu": Quantity.of(2)},
        conditions=(theirs, *said.conditions),
        volumes_attached=(volume,),
    )
    wanted = reported(shown, made(now=LATER).status)
    assert wanted.conditions[0] == theirs
    assert wanted.volumes_attached == (volume,)
    assert wanted.capacity["example.com/gpu"] == Quantity.of(2)


def test_an_extended_resource_that_somebody_adds_becomes_allocatable_and_goes_with_its_capacity() -> None:
    said = made().status
    shown = changed(said, capacity={**said.capacity, "example.com/gpu": Quantity.of(2)})
    assert reported(shown, said).allocatable["example.com/gpu"] == Quantity.of(2)
    shown = changed(said, allocatable={**said.allocatable, "example.com/gpu": Quantity.of(2)})
    assert "example.com/gpu" not in reported(shown, said).allocatable


def test_a_resource_that_cannot_be_measured_now_stays_as_it_was() -> None:
    shown = made().status
    wanted = reported(shown, made(changed(FACTS, storage=None)).status)
    assert wanted.capacity == shown.capacity
    assert wanted.allocatable == shown.allocatable


def test_huge_pages_of_a_size_that_is_no_more_are_taken_away() -> None:
    shown = made(changed(FACTS, hugepages={64 << 10: 0})).status
    wanted = reported(shown, made().status)
    assert "hugepages-64Ki" not in {**wanted.capacity, **wanted.allocatable}


def test_heartbeats_alone_are_no_news() -> None:
    before = made().status
    after = reported(before, made(now=LATER).status)
    assert before != after
    assert without_heartbeats(before) == without_heartbeats(after)


# --- patches


def test_equal_statuses_need_no_patch() -> None:
    assert status_patch(made().status, made().status) == {"status": {}}


def test_a_patch_holds_what_differs_and_takes_away_what_is_gone() -> None:
    shown = made(changed(FACTS, hugepages={64 << 10: 0}, swap=4096, cpus=2)).status
    assert status_patch(shown, made().status)["status"] == {
        "capacity": {"cpu": "4", "hugepages-64Ki": None},
        "allocatable": {"cpu": "4", "hugepages-64Ki": None},
        "nodeInfo": {"swap": None},
    }


def test_addresses_are_replaced_since_two_of_them_have_the_same_merge_key() -> None:
    patch = status_patch(made().status, made(changed(FACTS, ips=("10.0.0.2",))).status)
    assert patch["status"] == {
        "addresses": [
            {"$patch": "replace"},
            {"type": "InternalIP", "address": "10.0.0.2"},
            {"type": "Hostname", "address": "host-1"},
        ]
    }


def test_a_condition_is_patched_whole_and_the_others_are_left_out() -> None:
    shown = NodeStatus(
        conditions=(
            NodeCondition(type="Ready", status="Unknown", reason="NodeStatusUnknown", message="lost"),
            NodeCondition(type="Theirs", status="True"),
        )
    )
    wanted = changed(
        shown, conditions=(NodeCondition(type="Ready", status="True", reason="KubeletReady"), shown.conditions[1])
    )
    assert status_patch(shown, wanted)["status"] == {
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": None}]
    }


def test_labels_that_are_right_need_no_patch_and_those_of_people_are_not_touched() -> None:
    said = made(settings={"labels": {"mine": "new"}}).metadata
    shown = changed(said, labels={**said.labels, "mine": "changed by hand", "theirs": "x"})
    assert metadata_patch(shown, said, KUBELET_LABELS) is None


def test_default_labels_and_our_annotation_are_put_right() -> None:
    said = made().metadata
    shown = ObjectMeta(
        labels={**said.labels, "kubernetes.io/arch": "wrong", "theirs": "x"}, annotations={"theirs": "y"}
    )
    assert metadata_patch(shown, said, KUBELET_LABELS) == {
        "metadata": {
            "labels": {"kubernetes.io/arch": "amd64"},
            "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
        }
    }


# --- events


def test_a_new_node_tells_that_it_is_under_no_pressure() -> None:
    assert transitions(NodeStatus(), made().status) == [
        "NodeHasSufficientMemory",
        "NodeHasNoDiskPressure",
        "NodeHasSufficientPID",
    ]


def test_each_condition_that_changes_is_told() -> None:
    well, ill = made().status, made(runtime=runtime(network_ready=False), pressures=("DiskPressure",)).status
    assert transitions(well, ill) == ["NodeHasDiskPressure", "NodeNotReady"]
    assert transitions(ill, well) == ["NodeHasNoDiskPressure", "NodeReady"]
    assert transitions(well, made(now=LATER).status) == []
