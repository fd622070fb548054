"""What a cluster gets to see of a static pod: a pod of the same name that the API server holds and nobody runs."""

from msgspec import Struct

from pykubelet.api.meta import OwnerReference
from pykubelet.api.node import Node
from pykubelet.api.pod import Pod
from pykubelet.api.rules.pod_kinds import full_name, is_static
from pykubelet.api.rules.well_known import HASH_ANNOTATION, MIRROR_ANNOTATION
from pykubelet.api.struct import changed
from pykubelet.pod.container.references import api_references


class Create(Struct, frozen=True):
    """There is no mirror pod yet."""

    mirror: Pod


class Recreate(Struct, frozen=True):
    """The mirror pod shows something else: delete it, at once and by its uid, then create another.

    Without the delete's success there is nothing to create: the next event of the mirror pod tells what to do.
    """

    outdated: Pod
    mirror: Pod


class Delete(Struct, frozen=True):
    """The mirror pod has nothing to show: delete it, at once and by its uid."""

    outdated: Pod


class Keep(Struct, frozen=True):
    """All is as it should be, or nothing can be done about it now."""


MirrorAction = Create | Recreate | Delete | Keep


def mirror_pod(static: Pod, node: Node) -> Pod:
    """The mirror pod to create. Its node owns it: only for that does an API server let a node create a pod.

    The uid is left to the API server, because the mirror is a pod of its own.
    """
    meta = changed(
        static.metadata,
        uid="",
        annotations={**static.metadata.annotations, MIRROR_ANNOTATION: _hash(static)},
        owner_references=(
            OwnerReference(
                api_version="v1", kind="Node", name=node.metadata.name, uid=node.metadata.uid, controller=True
            ),
        ),
    )
    return changed(static, metadata=meta)


def is_mirror_of(mirror: Pod, static: Pod) -> bool:
    """Whether a pod is the mirror of this very version of a static pod."""
    return full_name(mirror) == full_name(static) and mirror.metadata.annotations.get(MIRROR_ANNOTATION) == _hash(
        static
    )


def mirror_action(
    static: Pod | None, mirror: Pod | None, node: Node | None, *, is_ending: bool = False
) -> MirrorAction:
    """What to do about the mirror pod of a name.

    `static` is None when no such pod is wished for (any more), `node` when the API server does not have it. `is_ending`
    says that the pod of that name has finished or is being stopped: while that lasts its mirror goes on showing it.
    """
    if is_ending or (static is not None and not is_static(static)):
        return Keep()
    if static is None or any(api_references(static.spec)):
        # What lies beside its manifest is not for the API server, which takes no mirror that refers to objects.
        return Keep() if mirror is None else Delete(mirror)
    if mirror is not None and mirror.metadata.deletion_timestamp is None and is_mirror_of(mirror, static):
        return Keep()
    if node is None or not node.metadata.uid or node.metadata.deletion_timestamp is not None:
        # Nobody could own the mirror; an outdated one would only mislead.
        return Keep() if mirror is None else Delete(mirror)
    wanted = mirror_pod(static, node)
    return Create(wanted) if mirror is None else Recreate(mirror, wanted)


def _hash(static: Pod) -> str:
    return static.metadata.annotations.get(HASH_ANNOTATION, "")
