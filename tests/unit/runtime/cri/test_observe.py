"""How a runtime is looked at: what is asked, and what is made of the answers."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from pykubelet.api.pod import ContainerUser, LinuxContainerUser
from pykubelet.base.errors import NotFound, Retry
from pykubelet.pod.observed import EnforcedLimits, ObservedContainer, ObservedSandbox, State
from pykubelet.runtime.cri._gen import cri_pb2 as cri
from pykubelet.runtime.cri.observe import Observer, observed_container, observed_sandbox
from pykubelet.runtime.cri.termination import log_tail
from pykubelet.web.grpc_channel import Channel

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = 1_000_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Shelf:
    """A runtime's answers, and a count of the questions."""

    def __init__(self) -> None:
        self.sandboxes: dict[str, cri.PodSandboxStatus] = {}
        self.containers: dict[str, cri.ContainerStatus] = {}
        self.asked: Counter[str] = Counter()
        self.vanishing: set[str] = set()
        """In the lists, but gone when asked about."""
        self.silent: set[str] = set()

    def add(self, uid: str, *, count: int = 1) -> None:
        meta = cri.PodSandboxMetadata(uid=uid, name=f"pod-{uid}", namespace="default")
        network = cri.PodSandboxNetworkStatus(ip="10.0.0.1", additional_ips=[cri.PodIP(ip="fd00::1")])
        self.sandboxes[f"s-{uid}"] = cri.PodSandboxStatus(id=f"s-{uid}", metadata=meta, network=network, created_at=1)
        for number in range(count):
            self.containers[f"c-{uid}-{number}"] = cri.ContainerStatus(
                id=f"c-{uid}-{number}",
                metadata=cri.ContainerMetadata(name=f"c{number}"),
                state=cri.CONTAINER_RUNNING,
                created_at=number + 1,
                started_at=SECOND,
                labels={"io.kubernetes.pod.uid": uid, "io.kubernetes.container.name": f"c{number}"},
            )

    async def call(self, method: str, request: Any, reply: Any, **_: Any) -> Any:
        name = method.rpartition("/")[2]
        self.asked[name] += 1
        match name:
            case "ListPodSandbox":
                uid = request.filter.label_selector.get("io.kubernetes.pod.uid")
                found = [s for s in self.sandboxes.values() if not uid or s.metadata.uid == uid]
                items = [cri.PodSandbox(id=s.id, metadata=s.metadata, state=s.state) for s in found]
                return cri.ListPodSandboxResponse(items=items)
            case "ListContainers":
                wanted = dict(request.filter.label_selector)
                there = [c for c in self.containers.values() if wanted.items() <= dict(c.labels).items()]
                listed = [cri.Container(id=c.id, state=c.state, labels=c.labels, metadata=c.metadata) for c in there]
                return cri.ListContainersResponse(containers=listed)
            case "PodSandboxStatus":
                return cri.PodSandboxStatusResponse(status=self.sandboxes[request.pod_sandbox_id])
            case _:
                if request.container_id in self.vanishing:
                    raise NotFound("gone")
                if request.container_id in self.silent:
                    raise Retry("busy")
                return cri.ContainerStatusResponse(status=self.containers[request.container_id])


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


@pytest.fixture
def observer(shelf: Shelf) -> Observer:
    return Observer(cast(Channel, shelf), now=lambda: NOW)


async def test_a_quiet_node_is_seen_with_two_questions(shelf: Shelf, observer: Observer) -> None:
    for number in range(50):
        shelf.add(f"u{number}", count=2)
    first = await observer.pods()
    assert len(first) == 50
    assert shelf.asked == {"ListPodSandbox": 1, "ListContainers": 1, "PodSandboxStatus": 50, "ContainerStatus": 100}
    shelf.asked.clear()
    assert await observer.pods() == first
    assert await observer.pod("u7") == next(pod for pod in first if pod.uid == "u7")
    assert shelf.asked == {"ListPodSandbox": 2, "ListContainers": 2}


async def test_a_sandbox_that_has_just_been_made_is_asked_about_once(shelf: Shelf, observer: Observer) -> None:
    shelf.add("u", count=0)
    made = await observer.sandbox("s-u")
    assert made.ips == ("10.0.0.1", "fd00::1")
    assert shelf.asked == {"PodSandboxStatus": 1}
    assert (await observer.pod("u")).sandboxes == (made,)
    assert shelf.asked == {"PodSandboxStatus": 1, "ListPodSandbox": 1, "ListContainers": 1}


async def test_only_what_changed_its_state_is_asked_about(shelf: Shelf, observer: Observer) -> None:
    shelf.add("u", count=3)
    await observer.pods()
    shelf.containers["c-u-1"].state = cri.CONTAINER_EXITED
    shelf.containers["c-u-1"].exit_code = 3
    shelf.asked.clear()
    pod = await observer.pod("u")
    assert [(c.name, c.state, c.exit_code) for c in pod.containers] == [
        ("c2", State.RUNNING, 0),
        ("c1", State.EXITED, 3),
        ("c0", State.RUNNING, 0),
    ]
    assert shelf.asked == {"ListPodSandbox": 1, "ListContainers": 1, "ContainerStatus": 1}


async def test_what_goes_between_the_list_and_the_question_is_gone(shelf: Shelf, observer: Observer) -> None:
    shelf.add("u", count=2)
    shelf.vanishing.add("c-u-0")
    assert [c.name for c in (await observer.pod("u")).containers] == ["c1"]


async def test_what_the_runtime_lost_sight_of_is_asked_about_each_time(shelf: Shelf, observer: Observer) -> None:
    shelf.add("u")
    shelf.containers["c-u-0"].state = cri.CONTAINER_UNKNOWN
    for _ in range(2):
        assert (await observer.pod("u")).containers[0].state is State.UNKNOWN
    assert shelf.asked["ContainerStatus"] == 2


async def test_a_container_that_was_stopped_before_it_began_has_ended(shelf: Shelf, observer: Observer) -> None:
    shelf.add("u")
    shelf.containers["c-u-0"].state = cri.CONTAINER_CREATED
    assert (await observer.pod("u")).containers[0].state is State.CREATED
    observer.abandon("c-u-0")
    for _ in range(2):
        seen = (await observer.pods())[0].containers[0]
        assert (seen.state, seen.exit_code, seen.finished_at) == (State.EXITED, 137, NOW)
    assert shelf.asked["ContainerStatus"] == 2
    del shelf.containers["c-u-0"]
    await observer.pods()
    assert not observer.is_abandoned("c-u-0")


async def test_containers_that_belong_to_no_pod_are_not_seen(shelf: Shelf, observer: Observer) -> None:
    shelf.containers["stranger"] = cri.ContainerStatus(id="stranger")
    assert await observer.pods() == ()


def test_a_container_of_the_go_kubelet_is_read_back_whole() -> None:
    status = cri.ContainerStatus(
        id="c-1",
        metadata=cri.ContainerMetadata(name="web", attempt=1),
        state=cri.CONTAINER_EXITED,
        created_at=1 * SECOND,
        started_at=2 * SECOND,
        finished_at=3 * SECOND,
        exit_code=137,
        image=cri.ImageSpec(image="docker.io/library/nginx:1"),
        image_ref="docker.io/library/nginx@sha256:abc",
        image_id="sha256:def",
        reason="OOMKilled",
        message="too much",
        user=cri.ContainerUser(linux=cri.LinuxContainerUser(uid=7, gid=0, supplemental_groups=[8, 9])),
        resources=cri.ContainerResources(
            linux=cri.LinuxContainerResources(
                cpu_shares=512, cpu_quota=5000, cpu_period=10_000, memory_limit_in_bytes=9
            )
        ),
        labels={"io.kubernetes.container.name": "web", "io.kubernetes.pod.uid": "u"},
        annotations={
            "io.kubernetes.container.hash": "1a2b",
            "io.kubernetes.container.restartCount": "4",
            "io.kubernetes.pod.terminationGracePeriod": "30",
        },
    )
    listed = cri.Container(id="c-1", pod_sandbox_id="s-1", image=cri.ImageSpec(image="sha256:def"))
    assert observed_container(status, listed) == ObservedContainer(
        id="c-1",
        name="web",
        state=State.EXITED,
        sandbox_id="s-1",
        attempt=4,
        hash="1a2b",
        image="docker.io/library/nginx:1",
        image_id="docker.io/library/nginx@sha256:abc",
        created_at=EPOCH + timedelta(seconds=1),
        started_at=EPOCH + timedelta(seconds=2),
        finished_at=EPOCH + timedelta(seconds=3),
        exit_code=137,
        reason="OOMKilled",
        message="too much",
        grace_seconds=30,
        user=ContainerUser(linux=LinuxContainerUser(uid=7, gid=0, supplemental_groups=(8, 9))),
        limits=EnforcedLimits(cpu_shares=512, cpu_quota=5000, cpu_period=10_000, memory=9),
    )


@pytest.mark.parametrize(
    ("state", "network", "wanted"),
    [
        (cri.SANDBOX_READY, cri.POD, ObservedSandbox(id="s", ready=True, ips=("10.0.0.1", "fd00::1"))),
        (cri.SANDBOX_NOTREADY, cri.POD, ObservedSandbox(id="s", ready=False)),
        (cri.SANDBOX_READY, cri.NODE, ObservedSandbox(id="s", ready=True, host_network=True)),
    ],
)
def test_sandboxes(state: cri.PodSandboxState, network: cri.NamespaceMode, wanted: ObservedSandbox) -> None:
    status = cri.PodSandboxStatus(
        id="s",
        state=state,
        network=cri.PodSandboxNetworkStatus(ip="10.0.0.1", additional_ips=[cri.PodIP(ip="fd00::1")]),
        linux=cri.LinuxPodSandboxStatus(namespaces=cri.Namespace(options=cri.NamespaceOption(network=network))),
    )
    assert observed_sandbox(status) == wanted


@pytest.mark.parametrize(
    ("log", "text"),
    [
        (b"", ""),
        (b"t stdout F one\nt stderr F two\n", "one\ntwo\n"),
        (b"t stdout P on\nt stdout F e\n", "one\n"),
        (b"half a li\nt stdout F \n", "\n"),
        (b"t stdout F 10%\r20%\r\n", "10%\r20%\r\n"),
        (b"".join(b"t stdout F %d\n" % number for number in range(100)), "".join(f"{n}\n" for n in range(20, 100))),
        (b"t stdout F " + b"x" * 5000 + b"\n", "x" * 2047 + "\n"),
    ],
)
def test_the_last_lines_of_a_log(log: bytes, text: str) -> None:
    assert log_tail(log) == text


async def test_what_cannot_be_asked_about_hides_nobody_else(shelf: Shelf, observer: Observer) -> None:
    shelf.add("u1")
    shelf.add("u2")
    shelf.silent.add("c-u1-0")
    first, second = await observer.pods()
    assert [(c.id, c.state) for c in first.containers] == [("c-u1-0", State.RUNNING)]
    assert second.containers[0].started_at is not None
    with pytest.raises(Retry):  # who decides about the pod has to know
        await observer.pod("u1")
    shelf.silent.clear()
    assert (await observer.pods())[0].containers[0].started_at is not None
