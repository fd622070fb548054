"""Limits on files, and who is above one."""

from typing import Any

import pytest

from kit.pods import make_pod
from pykubelet.api.container import Container, ResourceRequirements
from pykubelet.api.pod import Pod
from pykubelet.api.quantity import parse
from pykubelet.api.struct import changed
from pykubelet.api.volumes import EmptyDirVolumeSource, Volume
from pykubelet.pod.eviction.eviction import Eviction
from pykubelet.pod.eviction.local_storage import (
    has_own_image_disk,
    is_limited,
    storage_eviction,
    total_limit,
)
from pykubelet.pod.stats.stats import ContainerReading, Disk, NodeReading, PodReading, Usage, VolumeUsage

MI = 1 << 20
NOW = Usage(at=1)


def container(name: str, limit: str = "", **more: Any) -> Container:
    limits = {"ephemeral-storage": parse(limit)} if limit else {}
    return Container(name=name, resources=ResourceRequirements(limits=limits), **more)


def pod(*containers: Container, size: str = "", **spec: Any) -> Pod:
    made = make_pod("web")
    limit = parse(size) if size else None
    volume = Volume(name="cache", empty_dir=EmptyDirVolumeSource(size_limit=limit))
    return changed(made, spec=changed(made.spec, containers=containers or (container("a"),), volumes=(volume,), **spec))


def disk(used: int | None) -> Disk | None:
    return None if used is None else Disk(at=1, used=used)


def reading(
    roots: dict[str, tuple[int | None, int | None]] | None = None,
    *,
    cache: int | None = None,
    ephemeral: int | None = None,
) -> PodReading:
    """`roots`: what containers have written to their own layers and to their logs."""
    containers = tuple(
        ContainerReading(
            id=name, name=name, image="", group="", created_at=None, usage=NOW, root=disk(root), logs=disk(logs)
        )
        for name, (root, logs) in (roots or {}).items()
    )
    volumes = () if cache is None else (VolumeUsage(name="cache", disk=Disk(at=1, used=cache), is_ephemeral=True),)
    return PodReading(
        uid="uid-web",
        name="web",
        namespace="default",
        created_at=None,
        group="",
        usage=NOW,
        containers=containers,
        volumes=volumes,
        ephemeral=disk(ephemeral),
    )


def verdict(of: Pod, used: PodReading, *, own_image_disk: bool = False) -> Eviction | None:
    return storage_eviction(of, used, own_image_disk=own_image_disk)


def test_a_volume_that_is_larger_than_it_may_be() -> None:
    web = pod(size="10Mi")
    assert verdict(web, reading(cache=10 * MI)) is None
    assert verdict(web, reading(cache=10 * MI + 1)) == Eviction(
        "emptydirfs.limit", 'Usage of EmptyDir volume "cache" exceeds the limit "10Mi". ', 1
    )


@pytest.mark.parametrize("size", ["", "0"])
def test_no_size_and_size_zero_are_no_limit(size: str) -> None:
    assert not is_limited(pod(size=size))
    assert verdict(pod(size=size), reading(cache=1 << 40)) is None


def test_all_that_a_pod_writes_counts_against_what_its_containers_may_write_together() -> None:
    web = pod(container("a", "1Mi"), container("b", "1024Ki"), container("c"))
    assert verdict(web, reading(ephemeral=2 * MI)) is None
    assert verdict(web, reading(ephemeral=2 * MI + 1)) == Eviction(
        "ephemeralpodfs.limit", "Pod ephemeral local storage usage exceeds the total limit of containers 2Mi. ", 1
    )


def test_the_limit_of_the_whole_is_that_of_its_worst_moment_with_its_overhead() -> None:
    sidecar = container("side", "1Mi", restart_policy="Always")
    web = pod(container("a", "2Mi"), init_containers=(sidecar, container("init", "4Mi")))
    assert total_limit(web) == parse("5Mi")
    overhead = {"ephemeral-storage": parse("1Mi")}
    assert total_limit(changed(web, spec=changed(web.spec, overhead=overhead))) == parse("6Mi")
    assert total_limit(pod(overhead=overhead)) is None


def test_a_limit_of_zero_lets_a_pod_write_nothing() -> None:
    web = pod(container("a", "0"))
    assert is_limited(web)
    assert verdict(web, reading({"a": (0, 0)}, ephemeral=0)) is None
    found = verdict(web, reading({"a": (1, 0)}, ephemeral=1))
    assert found is not None
    assert found.message.endswith("total limit of containers 0. ")


def test_a_container_that_writes_more_than_its_share() -> None:
    web = pod(container("a", "1Mi"), container("b", "10Mi"))
    assert verdict(web, reading({"a": (MI - 5, 5), "b": (9 * MI, 0)}, ephemeral=10 * MI)) is None
    assert verdict(web, reading({"b": (0, 0), "a": (MI, 1)}, ephemeral=MI + 1)) == Eviction(
        "ephemeralcontainerfs.limit", 'Container a exceeded its local ephemeral storage limit "1Mi". ', 1
    )


def test_layers_on_a_disk_of_their_own_do_not_count_against_a_container() -> None:
    web = pod(container("a", "1Mi"), container("b", "100Mi"))
    used = reading({"a": (MI, 1)}, ephemeral=MI + 1)
    assert verdict(web, used, own_image_disk=True) is None
    assert verdict(web, reading({"a": (0, MI + 1)}), own_image_disk=True) is not None
    nodes = [
        NodeReading(usage=NOW, disk=Disk(at=1, device="/dev/a"), images=Disk(at=1, device=device))
        for device in ("/dev/a", "/dev/b")
    ]
    assert [has_own_image_disk(each) for each in nodes] == [False, True]
    assert not has_own_image_disk(NodeReading(usage=NOW))


def test_the_first_of_several_reasons_is_the_volumes_then_the_whole_pods() -> None:
    web = pod(container("a", "1Mi"), size="1Mi")
    all_above = reading({"a": (2 * MI, 0)}, cache=2 * MI, ephemeral=4 * MI)
    no_volume = reading({"a": (2 * MI, 0)}, ephemeral=4 * MI)
    only_container = reading({"a": (2 * MI, 0)})
    signals = [found.signal for each in (all_above, no_volume, only_container) if (found := verdict(web, each))]
    assert signals == ["emptydirfs.limit", "ephemeralpodfs.limit", "ephemeralcontainerfs.limit"]


def test_nobody_is_ended_for_what_was_not_measured() -> None:
    assert verdict(pod(container("a", "1Mi"), size="1Mi"), reading({"a": (None, None)})) is None
