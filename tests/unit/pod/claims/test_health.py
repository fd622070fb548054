"""What a container's status tells of its devices, and for how long a driver's word counts."""

from kit.dra_driver import DRIVER, claim
from pykubelet.api import codec
from pykubelet.api.pod import ContainerStatus, Pod, PodStatus, ResourceHealth, ResourceStatus
from pykubelet.pod.claims.health import PATIENCE, ClaimedHealth, Health
from pykubelet.pod.claims.table import ClaimKey, ClaimTable, PreparedDevice
from pykubelet.pod.status.device_health import with_devices

POD = codec.convert(
    Pod,
    {
        "metadata": {"name": "p", "namespace": "default", "uid": "u"},
        "spec": {
            "containers": [
                {"name": "a", "resources": {"claims": [{"name": "mine", "request": "gpu"}]}},
                {"name": "b", "resources": {"claims": [{"name": "mine"}, {"name": "later"}]}},
                {"name": "c"},
            ],
            "resourceClaims": [{"name": "mine", "resourceClaimName": "one"}],
        },
    },
)
A, B, C = POD.spec.containers


def table() -> ClaimTable:
    made = ClaimTable()
    made.hold(claim("one", "u", devices=("gpu-0", "nic-0")), "u")
    devices = PreparedDevice("pool", "gpu-0", ("gpu",), ("v/c=0", "v/c=all")), PreparedDevice("pool", "nic-0", ("nic",))
    made.prepared(ClaimKey("default", "one"), {DRIVER: devices})
    return made


def status(name: str, **devices: str) -> ResourceStatus:
    return ResourceStatus(
        name=name, resources=tuple(ResourceHealth(resource_id=key, health=each) for key, each in devices.items())
    )


def test_what_is_told_of_each_container() -> None:
    health = ClaimedHealth()
    assert health.learn(DRIVER, {("pool", "gpu-0"): "Unhealthy"}, 0.0) == {("pool", "gpu-0")}
    assert health.statuses(POD, A, table(), 1.0) == (status("claim:mine/gpu", **{"v/c=0": "Unhealthy"}),)
    both = {"v/c=0": "Unhealthy", f"{DRIVER}/pool/nic-0": "Unknown"}
    assert health.statuses(POD, B, table(), 1.0) == (status("claim:mine", **both),)
    assert health.statuses(POD, C, table(), 1.0) == ()
    assert health.statuses(POD, A, ClaimTable(), 1.0) == ()


def test_a_drivers_word_counts_for_half_a_minute() -> None:
    health, key = ClaimedHealth(), ("pool", "gpu-0")
    health.learn(DRIVER, {key: "Healthy"}, 0.0)
    assert health.of(DRIVER, *key, PATIENCE) == "Healthy"
    assert health.of(DRIVER, *key, PATIENCE + 1) == "Unknown"
    assert health.learn(DRIVER, {key: "Healthy"}, 20.0) == frozenset()
    assert health.learn(DRIVER, {}, 30.0) == frozenset()
    assert health.learn(DRIVER, {}, 51.0) == {key}
    health.learn(DRIVER, {key: "Healthy"}, 52.0)
    assert health.forget(DRIVER) == {key}
    assert health.of(DRIVER, *key, 52.0) == "Unknown"


def test_a_driver_that_tells_of_other_devices_all_the_time_is_not_remembered_for_all_of_them() -> None:
    health = ClaimedHealth()
    well: Health = "Healthy"
    first, second = (dict.fromkeys((("pool", f"{name}-{n}") for n in range(40_000)), well) for name in ("a", "b"))
    health.learn(DRIVER, first, 0.0)
    assert health.learn(DRIVER, second, 1.0) == first.keys() | second.keys()
    assert health.of(DRIVER, "pool", "a-0", 1.0) == "Unknown"
    assert health.of(DRIVER, "pool", "b-0", 1.0) == "Healthy"
    assert health.forget(DRIVER) == second.keys()


def test_the_status_of_a_pod() -> None:
    before = PodStatus(container_statuses=tuple(ContainerStatus(name=each) for each in "ab"))
    told = status("claim:mine", x="Healthy")
    after = with_devices(before, {"a": (told,), "z": (told,)})
    assert [each.allocated_resources_status for each in after.container_statuses] == [(told,), ()]
    assert with_devices(before, {}) is before
