"""The groups that pods live in: what they are called, and what the kernel is told about them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.api.container import Container, ResourceRequirements
from pykubelet.api.meta import ObjectMeta
from pykubelet.api.pod import Pod, PodSpec, PodStatus
from pykubelet.api.quantity import Quantity, parse
from pykubelet.base.errors import Invalid
from pykubelet.pod.container.cgroup import (
    UNLIMITED,
    CgroupDriver,
    GroupLimits,
    class_group,
    class_groups,
    class_limits,
    group_of,
    named_group,
    node_limits,
    path_of,
    pod_group,
    pod_limits,
    quota_of,
    runtime_parent,
    shares_of,
    slice_name,
    spelled_page_size,
    uid_of,
    weight_of,
)

UID = "0f6e1d2c-aaaa-bbbb-cccc-1234567890ab"
UNDERSCORED = UID.replace("-", "_")
MI = 2**20


def amounts(**texts: str) -> dict[str, Quantity]:
    return {name.replace("_", "-"): parse(text) for name, text in texts.items()}


def asks(requests: dict[str, str] | None = None, limits: dict[str, str] | None = None) -> ResourceRequirements:
    return ResourceRequirements(requests=amounts(**(requests or {})), limits=amounts(**(limits or {})))


def pod(*containers: ResourceRequirements, init: tuple[Container, ...] = (), **spec: Any) -> Pod:
    main = tuple(Container(name=f"c{n}", resources=each) for n, each in enumerate(containers))
    return Pod(
        metadata=ObjectMeta(name="web", namespace="default", uid=UID),
        spec=PodSpec(containers=main, init_containers=init, **spec),
    )


GUARANTEED = asks({"cpu": "500m", "memory": "64Mi"}, {"cpu": "500m", "memory": "64Mi"})
BURSTABLE = asks({"cpu": "250m", "memory": "32Mi"}, {"cpu": "1", "memory": "64Mi"})


# --- names


@pytest.mark.parametrize(
    ("root", "qos", "path", "parent"),
    [
        ("/", "Guaranteed", f"/kubepods/pod{UID}", f"/kubepods/pod{UID}"),
        ("", "Burstable", f"/kubepods/burstable/pod{UID}", f"/kubepods/burstable/pod{UID}"),
        ("/a/b/", "BestEffort", f"/a/b/kubepods/besteffort/pod{UID}", f"/a/b/kubepods/besteffort/pod{UID}"),
    ],
)
def test_groups_are_paths_for_cgroupfs(root: str, qos: str, path: str, parent: str) -> None:
    group = pod_group(class_group(group_of(root), qos), UID)
    assert (path_of(group, "cgroupfs"), runtime_parent(group, "cgroupfs")) == (path, parent)


@pytest.mark.parametrize(
    ("root", "qos", "path"),
    [
        ("/", "Guaranteed", f"/kubepods.slice/kubepods-pod{UNDERSCORED}.slice"),
        (
            "/",
            "Burstable",
            f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UNDERSCORED}.slice",
        ),
        (
            "/my-own",
            "BestEffort",
            "/my_own.slice/my_own-kubepods.slice/my_own-kubepods-besteffort.slice"
            f"/my_own-kubepods-besteffort-pod{UNDERSCORED}.slice",
        ),
    ],
)
def test_groups_are_slices_for_systemd_and_the_runtime_is_told_the_last_one(root: str, qos: str, path: str) -> None:
    group = pod_group(class_group(group_of(root), qos), UID)
    assert path_of(group, "systemd") == path
    assert runtime_parent(group, "systemd") == path.rpartition("/")[2]


def test_the_top_of_all_slices_has_a_name_of_its_own() -> None:
    assert (slice_name(()), path_of((), "systemd"), path_of((), "cgroupfs")) == ("-.slice", "/", "/")


@pytest.mark.parametrize("root", ["/a/../b", "..", "/a/./b", "/a\0b"])
def test_a_root_that_leads_elsewhere_is_refused(root: str) -> None:
    with pytest.raises(Invalid, match="cgroupRoot"):
        group_of(root)


@pytest.mark.parametrize("uid", ["", "../../../x", "a/b", "a_b", "a b", "-a", "a\n", "x" * 129])
def test_a_uid_that_cannot_name_a_group_is_refused(uid: str) -> None:
    with pytest.raises(Invalid, match="uid"):
        pod_group(("kubepods",), uid)


@pytest.mark.parametrize("driver", ["cgroupfs", "systemd"])
@given(uid=st.from_regex(r"[a-z0-9][a-z0-9.-]{0,35}", fullmatch=True))
def test_a_pod_is_known_again_by_its_folder(driver: CgroupDriver, uid: str) -> None:
    for parent in class_groups(("my-own",)):
        folder = path_of(pod_group(parent, uid), driver).rpartition("/")[2]
        assert uid_of(folder, parent, driver) == uid


@pytest.mark.parametrize(
    ("folder", "driver"),
    [
        ("burstable", "cgroupfs"),
        ("pod", "cgroupfs"),
        ("pod_x", "cgroupfs"),
        ("cri-containerd-1.scope", "cgroupfs"),
        ("kubepods-burstable.slice", "systemd"),
        ("kubepods-burstable-podx.slice", "systemd"),
        ("kubepods-podx.scope", "systemd"),
        ("podx", "systemd"),
        ("system-podx.slice", "systemd"),
    ],
)
def test_what_is_no_pods_folder_is_left_alone(folder: str, driver: CgroupDriver) -> None:
    assert uid_of(folder, ("kubepods",), driver) == ""


# --- conversions, against upstream's own formulas


def upstream_shares(milli: int) -> int:
    if milli == 0:
        return 2
    shares = int(milli * 1024 / 1000)
    return 2 if shares < 2 else 262144 if shares > 262144 else shares


def upstream_quota(milli: int, period: int) -> int:
    if milli == 0:
        return 0
    quota = milli * period // 1000
    return 1000 if quota < 1000 else quota


@given(st.integers(0, 10**9))
def test_shares_are_upstreams(milli: int) -> None:
    assert shares_of(milli) == upstream_shares(milli)


@given(st.integers(0, 10**9), st.integers(1000, 1_000_000))
def test_quotas_are_upstreams_but_none_is_said_to_be_none(milli: int, period: int) -> None:
    assert quota_of(milli, period) == (upstream_quota(milli, period) or UNLIMITED)


@given(st.integers(2, 262144))
def test_weights_are_upstreams(shares: int) -> None:
    assert weight_of(shares) == ((shares - 2) * 9999) // 262142 + 1


@given(st.integers(0, 10**7), st.integers(0, 10**7))
def test_more_shares_never_weigh_less_and_all_weights_are_allowed(one: int, other: int) -> None:
    few, many = sorted((weight_of(one), weight_of(other)))
    assert 1 <= few <= many <= 10_000
    assert (weight_of(one) <= weight_of(other)) or one > other


@pytest.mark.parametrize(("shares", "weight"), [(2, 1), (1024, 39), (262144, 10000), (10**6, 10000), (0, 1)])
def test_some_weights_that_everybody_knows(shares: int, weight: int) -> None:
    assert weight_of(shares) == weight


# --- pods


def test_a_guaranteed_pod_is_held_to_its_limits() -> None:
    assert pod_limits(pod(GUARANTEED, GUARANTEED)) == GroupLimits(
        cpu_shares=1024, cpu_quota=100_000, memory=128 * MI, pids=UNLIMITED, hugepages={}
    )


def test_a_burstable_pod_is_held_to_limits_when_all_its_containers_have_them() -> None:
    assert pod_limits(pod(BURSTABLE), pids=100) == GroupLimits(
        cpu_shares=256, cpu_quota=100_000, memory=64 * MI, pids=100, hugepages={}
    )
    limits = pod_limits(pod(BURSTABLE, asks({"cpu": "250m"}, {"memory": "1Mi"})))
    assert (limits.cpu_shares, limits.cpu_quota, limits.memory) == (512, UNLIMITED, 65 * MI)


def test_a_best_effort_pod_weighs_as_little_as_can_be_and_has_no_limits() -> None:
    assert pod_limits(pod(asks())) == GroupLimits(
        cpu_shares=2, cpu_quota=UNLIMITED, memory=UNLIMITED, pids=UNLIMITED, hugepages={}
    )


def test_the_class_that_was_reported_before_counts() -> None:
    reported = Pod(metadata=ObjectMeta(uid=UID), spec=pod(BURSTABLE).spec, status=PodStatus(qos_class="BestEffort"))
    assert pod_limits(reported).memory == UNLIMITED


def test_an_init_container_without_a_limit_leaves_the_pod_without_one() -> None:
    limited = Container(name="i", resources=asks(None, {"cpu": "2", "memory": "256Mi"}))
    assert pod_limits(pod(BURSTABLE, init=(limited,))).cpu_quota == 200_000
    assert pod_limits(pod(BURSTABLE, init=(limited,))).memory == 256 * MI
    assert pod_limits(pod(BURSTABLE, init=(Container(name="i"),))).cpu_quota == UNLIMITED


def test_an_init_container_beside_a_limited_sidecar_counts_as_limited_as_upstream_has_it() -> None:
    sidecar = Container(name="s", restart_policy="Always", resources=asks(None, {"cpu": "1", "memory": "1Mi"}))
    assert pod_limits(pod(BURSTABLE, init=(sidecar, Container(name="i")))).cpu_quota == 200_000
    assert pod_limits(pod(BURSTABLE, init=(Container(name="i"), sidecar))).cpu_quota == UNLIMITED


def test_limits_of_the_whole_pod_count_instead_of_those_of_its_containers() -> None:
    whole = asks({"cpu": "1", "memory": "100Mi"}, {"cpu": "2", "memory": "200Mi"})
    limits = pod_limits(pod(asks(), BURSTABLE, resources=whole))
    assert (limits.cpu_shares, limits.cpu_quota, limits.memory) == (1024, 200_000, 200 * MI)


def test_overhead_is_added_to_what_is_asked_for_and_to_limits_that_are_there() -> None:
    limits = pod_limits(pod(BURSTABLE, overhead=amounts(cpu="250m", memory="6Mi")))
    assert (limits.cpu_shares, limits.cpu_quota, limits.memory) == (512, 125_000, 70 * MI)
    assert pod_limits(pod(asks({"cpu": "1"}), overhead=amounts(cpu="250m"))).cpu_quota == UNLIMITED


def test_quotas_can_be_switched_off_and_have_a_period() -> None:
    assert pod_limits(pod(GUARANTEED), cpu_cfs_quota=False).cpu_quota == UNLIMITED
    limits = pod_limits(pod(GUARANTEED), period=10_000)
    assert (limits.cpu_quota, limits.cpu_period) == (5_000, 10_000)


def test_huge_pages_are_limited_by_the_size_of_a_page() -> None:
    paged = asks({"cpu": "1", "hugepages_2Mi": "8Mi", "hugepages_1Gi": "1Gi"})
    assert pod_limits(pod(paged, paged)).hugepages == {2 * MI: 16 * MI, 2**30: 2 * 2**30}


def test_a_page_size_that_is_none_is_passed_over() -> None:
    assert pod_limits(pod(asks({"cpu": "1", "hugepages_huge": "1"}))).hugepages == {}


# --- those above them


def test_burstable_pods_weigh_together_what_they_ask_for() -> None:
    limits = class_limits([pod(BURSTABLE), pod(BURSTABLE, BURSTABLE), pod(GUARANTEED), pod(asks())])
    assert limits == {"Burstable": GroupLimits(cpu_shares=768), "BestEffort": GroupLimits(cpu_shares=2)}
    assert class_limits([])["Burstable"].cpu_shares == 2


def test_the_node_gives_pods_what_is_not_reserved() -> None:
    capacity = amounts(cpu="4", memory="8Gi", pid="32768")
    assert node_limits(capacity, amounts(cpu="500m", memory="1Gi", pid="768", ephemeral_storage="1Gi")) == GroupLimits(
        cpu_shares=3584, memory=7 * 2**30, pids=32000, hugepages={}
    )
    assert node_limits(capacity, {}).memory == 8 * 2**30


def test_a_node_that_reserves_all_it_has_says_nothing_about_memory() -> None:
    assert node_limits(amounts(cpu="1", memory="1Gi"), amounts(cpu="2", memory="2Gi")) == GroupLimits(
        cpu_shares=2, hugepages={}
    )
    assert node_limits({}, {}) == GroupLimits(hugepages={})


def test_pods_together_have_the_huge_pages_of_the_machine_and_no_others() -> None:
    assert node_limits(amounts(cpu="1", hugepages_2Mi="64Mi"), {}).hugepages == {2 * MI: 64 * MI}


@pytest.mark.parametrize(
    ("name", "driver", "path"),
    [
        ("/system.slice", "systemd", "/system.slice"),
        ("/kube.slice/kube-daemons.slice", "systemd", "/kube.slice/kube-daemons.slice"),
        ("/kube_x.slice", "systemd", "/kube_x.slice"),
        ("/podruntime/x", "cgroupfs", "/podruntime/x"),
    ],
)
def test_a_group_of_others_is_found_by_the_name_that_they_have_for_it(
    name: str, driver: CgroupDriver, path: str
) -> None:
    assert path_of(named_group(name, driver), driver) == path


@pytest.mark.parametrize(("size", "text"), [(2**21, "2MB"), (2**30, "1GB"), (2**16, "64KB"), (2**34, "16GB")])
def test_page_sizes_are_spelled_as_the_kernel_does(size: int, text: str) -> None:
    assert spelled_page_size(size) == text
