"""What the cluster gets to see of a static pod."""

from datetime import UTC, datetime

import pytest

from kit.pods import make_pod
from pykubelet.api.meta import LocalObjectReference, ObjectMeta, OwnerReference
from pykubelet.api.node import Node
from pykubelet.api.pod import Pod
from pykubelet.api.rules.pod_kinds import is_mirror
from pykubelet.api.rules.well_known import HASH_ANNOTATION, MIRROR_ANNOTATION, SEEN_ANNOTATION, SOURCE_ANNOTATION
from pykubelet.api.struct import changed
from pykubelet.pod.lifecycle.mirror_pod import (
    Create,
    Delete,
    Keep,
    MirrorAction,
    Recreate,
    is_mirror_of,
    mirror_action,
    mirror_pod,
)

NODE = Node(metadata=ObjectMeta(name="n1", uid="uid-n1"))
NOW = datetime(2026, 1, 2, tzinfo=UTC)
STATIC = make_pod(
    "web-n1",
    uid="abc",
    labels={"app": "web"},
    annotations={SOURCE_ANNOTATION: "file", SEEN_ANNOTATION: "then", HASH_ANNOTATION: "abc"},
)
MIRROR = changed(mirror_pod(STATIC, NODE), metadata=changed(mirror_pod(STATIC, NODE).metadata, uid="from-the-server"))

NEEDY = changed(STATIC, spec=changed(STATIC.spec, image_pull_secrets=(LocalObjectReference(name="s"),)))


def with_meta(pod: Pod, **fields: object) -> Pod:
    return changed(pod, metadata=changed(pod.metadata, **fields))


OUTDATED = with_meta(MIRROR, annotations={**MIRROR.metadata.annotations, MIRROR_ANNOTATION: "old"})
DELETED = with_meta(MIRROR, deletion_timestamp=NOW)
ORDINARY = make_pod("job", annotations={SOURCE_ANNOTATION: "api"})
UNREGISTERED = Node(metadata=ObjectMeta(name="n1"))
REMOVED = Node(metadata=ObjectMeta(name="n1", uid="uid-n1", deletion_timestamp=NOW))
NEW = mirror_pod(STATIC, NODE)


def test_a_mirror_is_the_static_pod_with_its_hash_and_its_node_as_owner() -> None:
    assert NEW.spec == STATIC.spec
    assert (NEW.metadata.name, NEW.metadata.namespace) == ("web-n1", "default")
    assert NEW.metadata.labels == STATIC.metadata.labels
    assert NEW.metadata.annotations == {**STATIC.metadata.annotations, MIRROR_ANNOTATION: "abc"}
    assert NEW.metadata.owner_references == (
        OwnerReference(api_version="v1", kind="Node", name="n1", uid="uid-n1", controller=True),
    )
    assert is_mirror(NEW)
    assert not is_mirror(STATIC)


def test_the_server_gives_a_mirror_its_uid() -> None:
    assert NEW.metadata.uid == ""


def test_owners_that_a_manifest_names_are_replaced() -> None:
    owner = OwnerReference(api_version="v1", kind="Pod", name="x", uid="y")
    mirror = mirror_pod(with_meta(STATIC, owner_references=(owner,)), NODE)
    assert [each.kind for each in mirror.metadata.owner_references] == ["Node"]


@pytest.mark.parametrize(
    ("mirror", "same"),
    [
        pytest.param(MIRROR, True, id="the same name and hash"),
        pytest.param(OUTDATED, False, id="another hash"),
        pytest.param(with_meta(MIRROR, name="other"), False, id="another name"),
        pytest.param(with_meta(MIRROR, namespace="other"), False, id="another namespace"),
        pytest.param(with_meta(MIRROR, annotations={}), False, id="no hash at all"),
    ],
)
def test_what_is_a_mirror_of_a_static_pod(mirror: Pod, same: bool) -> None:
    assert is_mirror_of(mirror, STATIC) is same


@pytest.mark.parametrize(
    ("static", "mirror", "node", "is_ending", "action"),
    [
        pytest.param(STATIC, None, NODE, False, Create(NEW), id="no mirror yet: create it"),
        pytest.param(STATIC, MIRROR, NODE, False, Keep(), id="a mirror as it should be: keep it"),
        pytest.param(STATIC, OUTDATED, NODE, False, Recreate(OUTDATED, NEW), id="a mirror of old: another one"),
        pytest.param(STATIC, DELETED, NODE, False, Recreate(DELETED, NEW), id="somebody deletes it: another one"),
        pytest.param(None, MIRROR, NODE, False, Delete(MIRROR), id="an orphan: delete it"),
        pytest.param(None, None, NODE, False, Keep(), id="nothing at all: nothing to do"),
        pytest.param(None, MIRROR, NODE, True, Keep(), id="its pod is still stopping: keep showing it"),
        pytest.param(STATIC, None, NODE, True, Keep(), id="the pod has finished: nothing to create"),
        pytest.param(STATIC, OUTDATED, NODE, True, Keep(), id="the pod before is still stopping: keep showing that"),
        pytest.param(STATIC, None, None, False, Keep(), id="no node to own it: nothing to create"),
        pytest.param(STATIC, None, UNREGISTERED, False, Keep(), id="a node without a uid owns nothing"),
        pytest.param(STATIC, None, REMOVED, False, Keep(), id="a node that is being removed owns nothing new"),
        pytest.param(STATIC, OUTDATED, REMOVED, False, Delete(OUTDATED), id="and what is outdated goes"),
        pytest.param(NEEDY, None, NODE, False, Keep(), id="no server takes a mirror that refers to objects"),
        pytest.param(NEEDY, MIRROR, NODE, False, Delete(MIRROR), id="nor does it keep one of before"),
        pytest.param(ORDINARY, None, NODE, False, Keep(), id="an ordinary pod needs no mirror"),
    ],
)
def test_what_to_do_about_a_mirror(
    static: Pod | None, mirror: Pod | None, node: Node | None, is_ending: bool, action: MirrorAction
) -> None:
    assert mirror_action(static, mirror, node, is_ending=is_ending) == action
