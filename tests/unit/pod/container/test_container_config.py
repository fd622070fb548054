from typing import Any

import pytest

from kit.pods import make_pod
from pykubelet.api import codec
from pykubelet.api.container import Container
from pykubelet.api.pod import Pod, PodSpec
from pykubelet.api.struct import changed
from pykubelet.base.errors import Invalid
from pykubelet.pod.container.container_config import check_user, container_config, container_limits
from pykubelet.pod.ports.runtime import ContainerConfig, Image, Mount

GIB = 2**30


def pod_of(container: dict[str, Any], **spec: Any) -> tuple[Pod, Container]:
    wanted = codec.convert(PodSpec, {"containers": [{"name": "c", "image": "i:1", **container}], **spec})
    return changed(make_pod(uid="u1"), spec=wanted), wanted.containers[0]


def config_of(container: dict[str, Any], attempt: int = 0, **options: Any) -> ContainerConfig:
    pod, wanted = pod_of(container)
    given = {"env": (), "mounts": (), "image": Image(id="sha256:1"), "memory_capacity": 4 * GIB, **options}
    return container_config(pod, wanted, attempt, **given)


# --- the whole


def test_a_container_is_asked_for_with_everything_decided() -> None:
    mounts = (Mount(host_path="/h", container_path="/c"),)
    config = config_of(
        {"command": ["$(A)"], "args": ["-x", "$(B)"], "workingDir": "/w", "stdin": True, "stdinOnce": True},
        attempt=3,
        env=(("A", "sh"), ("B", "1")),
        mounts=mounts,
        termination_log="/root/pods/u1/containers/c/00000003",
    )
    assert (config.name, config.attempt) == ("c", 3)
    assert (config.image, config.image_id) == ("i:1", "sha256:1")
    assert (config.command, config.args) == (("sh",), ("-x", "1"))
    assert config.working_dir == "/w"
    assert config.env == (("A", "sh"), ("B", "1"))
    assert config.mounts == mounts
    assert config.log_path == "c/3.log"
    assert (config.stdin, config.stdin_once, config.tty) == (True, True, False)
    assert config.termination_message_path == "/root/pods/u1/containers/c/00000003"
    assert config.labels["io.kubernetes.container.name"] == "c"
    assert config.annotations["io.kubernetes.container.restartCount"] == "3"


# --- limits


@pytest.mark.parametrize(
    ("resources", "shares", "quota"),
    [
        ({}, 2, None),
        ({"requests": {"cpu": "1m"}}, 2, None),
        ({"requests": {"cpu": "0"}, "limits": {"cpu": "1"}}, 2, 100_000),
        ({"requests": {"cpu": "100m"}}, 102, None),
        ({"limits": {"cpu": "500m"}}, 512, 50_000),
        ({"requests": {"cpu": "250m"}, "limits": {"cpu": "2"}}, 256, 200_000),
        ({"limits": {"cpu": "1m"}}, 2, 1000),
        ({"requests": {"cpu": "300"}}, 262_144, None),
        ({"limits": {"cpu": "0"}}, 2, None),
    ],
)
def test_processors_become_shares_and_a_quota(resources: dict[str, Any], shares: int, quota: int | None) -> None:
    limits = config_of({"resources": resources}).limits
    assert (limits.cpu_shares, limits.cpu_quota) == (shares, quota)


def test_quotas_can_be_turned_off() -> None:
    limits = config_of({"resources": {"limits": {"cpu": "1"}}}, cpu_cfs_quota=False).limits
    assert (limits.cpu_shares, limits.cpu_quota) == (1024, None)


@pytest.mark.parametrize(("amount", "limit"), [("64Mi", 64 * 2**20), ("0", None), ("1500m", 2)])
def test_memory_is_limited_in_whole_bytes(amount: str, limit: int | None) -> None:
    assert config_of({"resources": {"limits": {"memory": amount}}}).limits.memory == limit


def test_a_container_without_limits_may_use_what_its_pod_may_use() -> None:
    whole = {"limits": {"cpu": "2", "memory": "1Gi"}}
    pod, container = pod_of({"resources": {"limits": {"cpu": "1"}}}, resources=whole)
    limits = container_limits(pod, container, 4 * GIB)
    assert (limits.cpu_shares, limits.cpu_quota, limits.memory) == (1024, 100_000, GIB)


def test_who_asks_for_less_memory_dies_sooner() -> None:
    assert config_of({}).limits.oom_score_adj == 1000
    assert config_of({"resources": {"requests": {"memory": "1Gi"}}}).limits.oom_score_adj == 750


# --- root


@pytest.mark.parametrize(
    ("shared", "own", "user", "refusal"),
    [
        ({}, {}, "", None),
        ({"runAsNonRoot": True}, {}, "1000", None),
        ({"runAsNonRoot": True}, {}, "1000:0", None),
        ({"runAsNonRoot": True}, {}, "", "will run as root"),
        ({"runAsNonRoot": True}, {}, "0", "will run as root"),
        ({"runAsNonRoot": True}, {}, "0:1000", "will run as root"),
        ({"runAsNonRoot": True}, {}, "nobody", "cannot verify user is non-root"),
        ({"runAsNonRoot": True}, {}, "4294967296", "invalid user id"),
        ({"runAsNonRoot": True}, {"runAsUser": 7}, "", None),
        ({"runAsNonRoot": True, "runAsUser": 7}, {"runAsUser": 0}, "7", "container's runAsUser breaks non-root policy"),
        ({"runAsNonRoot": True, "runAsUser": 7}, {}, "", None),
        ({"runAsNonRoot": True}, {"runAsNonRoot": False}, "", None),
        ({}, {"runAsNonRoot": True}, "", "will run as root"),
    ],
)
def test_who_must_not_be_root_does_not_run_as_root(
    shared: dict[str, Any], own: dict[str, Any], user: str, refusal: str | None
) -> None:
    pod, container = pod_of({"securityContext": own}, securityContext=shared)
    image = Image(id="sha256:1", user=user)
    if refusal is None:
        check_user(pod, container, image)
        return
    with pytest.raises(Invalid, match=refusal):
        container_config(pod, container, 0, image=image, env=(), mounts=(), memory_capacity=GIB)
