import json
from typing import Any

from kit.pods import make_pod
from pykubelet.api import codec
from pykubelet.api.container import Container
from pykubelet.api.pod import Pod
from pykubelet.api.struct import changed
from pykubelet.pod.container.hash import container_hash
from pykubelet.pod.container.labels import container_annotations, container_labels, sandbox_annotations, sandbox_labels

POD = make_pod("web", uid="u1", namespace="shop", labels={"app": "web"}, annotations={"note": "x"})


def container(**fields: Any) -> Container:
    return codec.convert(Container, {"name": "c", "image": "i:1", **fields})


def test_a_sandbox_has_the_labels_of_its_pod_and_who_it_is() -> None:
    assert sandbox_labels(POD) == {
        "app": "web",
        "io.kubernetes.pod.name": "web",
        "io.kubernetes.pod.namespace": "shop",
        "io.kubernetes.pod.uid": "u1",
    }


def test_a_pod_cannot_pretend_to_be_another() -> None:
    liar = make_pod("web", uid="u1", labels={"io.kubernetes.pod.uid": "u2"})
    assert sandbox_labels(liar)["io.kubernetes.pod.uid"] == "u1"


def test_a_sandbox_has_the_annotations_of_its_pod() -> None:
    assert sandbox_annotations(POD) == {"note": "x"}


def test_a_container_is_labelled_with_its_pod_and_its_name_alone() -> None:
    assert container_labels(POD, container()) == {
        "io.kubernetes.pod.name": "web",
        "io.kubernetes.pod.namespace": "shop",
        "io.kubernetes.pod.uid": "u1",
        "io.kubernetes.container.name": "c",
    }


def test_a_plain_container_carries_what_it_was_made_from() -> None:
    wanted = container(terminationMessagePath="/dev/termination-log", terminationMessagePolicy="File")
    assert container_annotations(POD, wanted, 3) == {
        "io.kubernetes.container.hash": container_hash(wanted),
        "io.kubernetes.container.restartCount": "3",
        "io.kubernetes.container.terminationMessagePath": "/dev/termination-log",
        "io.kubernetes.container.terminationMessagePolicy": "File",
    }


def graceful(**meta: Any) -> Pod:
    spec = changed(POD.spec, termination_grace_period_seconds=30)
    return changed(POD, spec=spec, metadata=changed(POD.metadata, **meta))


def test_grace_periods_are_noted_when_there_are_any() -> None:
    annotations = container_annotations(graceful(), container(), 0)
    assert annotations["io.kubernetes.pod.terminationGracePeriod"] == "30"
    assert "io.kubernetes.pod.deletionGracePeriod" not in annotations
    annotations = container_annotations(graceful(deletion_grace_period_seconds=0), container(), 0)
    assert annotations["io.kubernetes.pod.deletionGracePeriod"] == "0"


def test_hooks_and_ports_are_written_byte_for_byte_as_upstream_writes_them() -> None:
    wanted = container(
        lifecycle={
            "postStart": {"exec": {"command": ["no"]}},
            "preStop": {"httpGet": {"scheme": "HTTP", "host": "h", "port": 80, "path": "/a?b&c<d>"}},
        },
        ports=[
            {"protocol": "TCP", "containerPort": 80, "name": "http", "hostPort": 8080, "hostIP": "127.0.0.1"},
            {"protocol": "UDP", "containerPort": 53, "hostPort": 0},
        ],
    )
    annotations = container_annotations(POD, wanted, 0)
    assert annotations["io.kubernetes.container.preStopHandler"] == (
        '{"httpGet":{"path":"/a?b\\u0026c\\u003cd\\u003e","port":80,"host":"h","scheme":"HTTP"}}'
    )
    assert annotations["io.kubernetes.container.ports"] == (
        '[{"name":"http","hostPort":8080,"containerPort":80,"protocol":"TCP","hostIP":"127.0.0.1"},'
        '{"containerPort":53,"protocol":"UDP"}]'
    )


def test_every_kind_of_hook_can_be_read_back() -> None:
    for hook in ({"exec": {"command": ["a", "\u2028b"]}}, {"tcpSocket": {"port": "http"}}, {"sleep": {"seconds": 0}}):
        wanted = container(lifecycle={"preStop": hook})
        text = container_annotations(POD, wanted, 0)["io.kubernetes.container.preStopHandler"]
        assert json.loads(text) == hook
        assert text.isascii()


def test_a_hook_after_the_start_is_not_noted() -> None:
    annotations = container_annotations(POD, container(lifecycle={"postStart": {"sleep": {"seconds": 1}}}), 0)
    assert "io.kubernetes.container.preStopHandler" not in annotations
