"""Pods for tests, in one line."""

from collections.abc import Mapping

from pykubelet.api.container import Container
from pykubelet.api.meta import ListMeta, ObjectMeta
from pykubelet.api.pod import Pod, PodSpec, PodStatus
from pykubelet.api.struct import Struct, written


class PodList(Struct, frozen=True):
    kind: str = ""
    api_version: str = ""
    metadata: ListMeta = written(ListMeta)
    items: tuple[Pod, ...] = written(tuple)


def make_pod(
    name: str = "web",
    *,
    uid: str = "",
    namespace: str = "default",
    image: str = "busybox:1.36",
    node_name: str = "n1",
    phase: str = "",
    version: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Pod:
    return Pod(
        api_version="v1",
        kind="Pod",
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=uid or f"uid-{name}",
            resource_version=version,
            labels=labels or {},
            annotations=annotations or {},
        ),
        spec=PodSpec(node_name=node_name, containers=(Container(name="c", image=image),)),
        status=PodStatus(phase=phase),
    )
