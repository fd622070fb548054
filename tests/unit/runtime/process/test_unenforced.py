import os
import resource
from pathlib import Path

import pytest

from kit.pods import make_pod
from pykubelet.api.container import Container, ContainerPort, ResourceRequirements
from pykubelet.api.pod import Pod
from pykubelet.api.quantity import Quantity, parse
from pykubelet.api.struct import changed
from pykubelet.api.volumes import EmptyDirVolumeSource, Volume
from pykubelet.pod.ports.runtime import Limits
from pykubelet.runtime.process.abilities import Abilities
from pykubelet.runtime.process.unenforced import process_limits, unavailable_ports, unenforced
from unit.runtime.process.machine import Machine

ALL = frozenset({"memory", "cpu", "pids"})
ORDINARY = Abilities(uid=1000, gid=1000, namespaces=True, in_user_namespace=True, limits_refusal="they are root's")
DELEGATED = changed(ORDINARY, limits=ALL, limits_refusal="")
ROOT = Abilities(uid=0, gid=0, namespaces=True, limits=ALL)


def pod_of(*limits: dict[str, str], whole: dict[str, str] | None = None, volumes: tuple[Volume, ...] = ()) -> Pod:
    pod = make_pod("web")
    containers = tuple(
        Container(name=f"c{number}", resources=ResourceRequirements(limits=quantities(each)))
        for number, each in enumerate(limits)
    )
    resources = ResourceRequirements(limits=quantities(whole)) if whole else None
    return changed(pod, spec=changed(pod.spec, containers=containers, resources=resources, volumes=volumes))


def quantities(limits: dict[str, str]) -> dict[str, Quantity]:
    return {name: parse(text) for name, text in limits.items()}


def test_limits_that_the_kernel_lets_nobody_set_are_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    (said,) = unenforced(pod_of({"memory": "64Mi"}, {"memory": "1Gi", "cpu": "1"}, {}), ORDINARY)
    assert said == (
        "memory limits of c0, c1, but that no process has 1Gi more, and cpu limits of c1 (they are root's; run it as "
        "root, or with `systemd-run --user --scope -p Delegate=yes`)"
    )
    monkeypatch.setattr(os, "getuid", lambda: 0)  # in a container without them
    (said,) = unenforced(pod_of({"cpu": "1"}), changed(ORDINARY, uid=0))
    assert said.endswith(
        "(they are root's; have control groups mounted at /sys/fs/cgroup, so that they can be written to)"
    )


@pytest.mark.parametrize("abilities", [DELEGATED, ROOT], ids=["delegated", "root"])
def test_nothing_is_said_where_they_are_set(abilities: Abilities) -> None:
    assert unenforced(pod_of({"memory": "64Mi", "cpu": "1"}), abilities) == ()


def test_nothing_is_said_of_a_pod_that_asks_for_nothing() -> None:
    assert unenforced(pod_of({}, {}), ORDINARY) == ()


def test_what_is_delegated_in_part_is_unenforced_in_part() -> None:
    partly = changed(ORDINARY, limits=frozenset({"memory"}), limits_refusal="there is no controller for cpu")
    (cpu,) = unenforced(pod_of({"memory": "64Mi", "cpu": "1"}), partly)
    assert cpu.startswith("cpu limits of c0 (there is no controller for cpu; ")


def test_a_limit_of_the_pod_is_each_container_s_own() -> None:
    said = ("the pod's own memory limit: each container may use all of it",)
    assert unenforced(pod_of({}, {}, whole={"memory": "1Gi"}), ROOT) == said
    assert unenforced(pod_of({}, whole={"memory": "1Gi"}), ROOT) == ()
    assert unenforced(pod_of({}, whole={"memory": "1Gi"}), ORDINARY)[0].startswith("memory limits of all containers")


def test_volumes_in_memory_have_no_size_where_nobody_may_mount() -> None:
    volumes = (Volume(name="fast", empty_dir=EmptyDirVolumeSource(medium="Memory")),)
    assert unenforced(pod_of({}, volumes=volumes), ROOT) == ()
    assert unenforced(pod_of({}, volumes=volumes), DELEGATED) == (
        "the size of volumes in memory (fast): this user may not mount",
    )


def test_single_processes_are_bounded_where_containers_are_not() -> None:
    bounds = dict(process_limits(Limits(memory=64 << 20), ORDINARY))
    assert bounds[resource.RLIMIT_DATA] == (64 << 20) + (1 << 30)
    assert resource.RLIMIT_NPROC in bounds
    assert process_limits(Limits(memory=64 << 20), DELEGATED) == []
    assert process_limits(Limits(memory=64 << 20), ROOT) == []


async def test_the_bounds_hold_for_programs_and_for_commands(isolated: Machine) -> None:
    """As an ordinary user: these tests run as one, too."""
    script = "ulimit -d; ulimit -u"
    container_id = await isolated.start(f"{script}; exec sleep 1000", limits=Limits(memory=64 << 20))
    abilities = isolated.runtime._abilities
    assert abilities is not None
    bounds = dict(process_limits(Limits(memory=64 << 20), abilities))
    data = f"{bounds[resource.RLIMIT_DATA] >> 10}" if resource.RLIMIT_DATA in bounds else "unlimited"
    processes = bounds.get(resource.RLIMIT_NPROC, resource.getrlimit(resource.RLIMIT_NPROC)[0])
    shown = "unlimited" if processes == resource.RLIM_INFINITY else str(processes)
    shell = ("bash", "-c", script)
    done = await isolated.runtime.exec_sync(container_id, shell, 10)
    assert done.stdout.decode().split() == [data, shown]
    assert (os.getuid() == 0) == (resource.RLIMIT_NPROC not in bounds)


async def test_a_pod_that_forks_without_end_has_only_its_own_share(
    isolated: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a control group, or without one by its user namespace."""
    for module in ("cgroups", "unenforced"):
        monkeypatch.setattr(f"pykubelet.runtime.process.{module}.most_processes", lambda: 20)
    forks = "import os, time\nfor n in range(40):\n    os.fork() or time.sleep(1000)"
    _, said = await isolated.run("", command=("python3", "-c", forks), env=(("PATH", os.environ["PATH"]),))
    assert "BlockingIOError" in said


def listening(name: str, *ports: ContainerPort, init: tuple[ContainerPort, ...] = ()) -> Pod:
    pod = make_pod(name)
    containers, first = (Container(name="c", ports=ports),), (Container(name="first", ports=init),)
    return changed(pod, spec=changed(pod.spec, containers=containers, init_containers=first))


def test_pods_that_want_one_port_are_told_of_each_other() -> None:
    """All of them share this machine's network, so that the second one finds it taken."""
    web, dns = ContainerPort(container_port=80), ContainerPort(container_port=53, protocol="UDP")
    one, two = listening("one", web), listening("two", dns, web)
    said = unavailable_ports(two, [one, two], ROOT)
    assert said == "Pods share this machine's network here: port 80/TCP is wanted by default/one"
    assert unavailable_ports(one, [two], ROOT).endswith("wanted by default/two")
    for other in (listening("udp", changed(web, protocol="UDP")), listening("else"), listening("ends", init=(web,))):
        assert unavailable_ports(one, [one, other], ROOT) == "", other.metadata.name


def test_ports_of_root_are_not_for_an_ordinary_users_pods(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pod = listening("web", ContainerPort(container_port=80), ContainerPort(container_port=8080))
    said = "Pods share this machine's network here: only root may listen on port 80"
    for lowest, expected in (("1024\n", said), ("80\n", ""), (None, said)):
        setting = tmp_path / f"of-{lowest}"
        if lowest is not None:
            setting.write_text(lowest)
        monkeypatch.setattr("pykubelet.runtime.process.unenforced._LOWEST_PORT", setting)
        assert unavailable_ports(pod, [pod], ORDINARY) == expected
        assert unavailable_ports(pod, [pod], ROOT) == ""


def test_huge_pages_are_limited_where_there_is_a_controller_for_them() -> None:
    pod = pod_of({"hugepages-2Mi": "4Mi"}, {"hugepages-2Mi": "0"}, {})
    assert unenforced(pod, ROOT) == ("huge page limits of c0: there is no controller for hugetlb",)
    assert unenforced(pod, changed(ROOT, limits=ALL | {"hugetlb"})) == ()
