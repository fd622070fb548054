from typing import Any

import pytest

from pykubelet.api import codec
from pykubelet.api.documents import read_documents
from pykubelet.api.pod import Pod
from pykubelet.sources.pod_dump import pod_dump

MANIFEST = """\
apiVersion: v1
kind: Pod
metadata:
  name: web
  labels: {app: web, tier: front}
spec:
  containers:
  - name: main
    image: nginx:1.25
"""


def dump(text: str = MANIFEST) -> str:
    (document,) = read_documents(text.encode())
    return dump_of(document.value)


def dump_of(value: dict[str, Any]) -> str:
    return pod_dump(value, codec.convert(Pod, value))


@pytest.mark.parametrize(
    "text",
    [
        "# a comment\n" + MANIFEST.replace("image:", "image:   "),
        MANIFEST.replace("labels: {app: web, tier: front}", "labels: {tier: front, app: web}"),
        MANIFEST.replace("  - name: main\n    image: nginx:1.25\n", "  - image: 'nginx:1.25'\n    name: \"main\"\n"),
        "kind: Pod\n" + MANIFEST.replace("kind: Pod\n", ""),
        "---\n" + MANIFEST + "...\n",
        MANIFEST.replace("spec:\n", "spec:\n  nodeName: null\n"),
        MANIFEST.replace("spec:\n", "spec:\n  terminationGracePeriodSeconds: 30\n  hostNetwork: false\n"),
    ],
    ids=["comments", "labels", "container", "top", "markers", "null", "defaults"],
)
def test_comments_spacing_and_the_order_of_keys_do_not_change_it(text: str) -> None:
    assert dump(text) == dump()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("nginx:1.25", "nginx:1.26"),
        ("name: web", "name: web2"),
        ("tier: front", "tier: back"),
        ("  containers", "  terminationGracePeriodSeconds: 31\n  containers"),
        ("  containers", "  volumes: []\n  containers"),
    ],
)
def test_a_changed_manifest_has_another_dump(before: str, after: str) -> None:
    assert dump(MANIFEST.replace(before, after, 1)) != dump()


def test_it_is_printed_as_the_types_are_held() -> None:
    text = dump()
    assert text.startswith("(*core.Pod){TypeMeta:(v1.TypeMeta){Kind:(string) APIVersion:(string)} ObjectMeta:")
    assert "Labels:(map[string]string)map[app:web tier:front] Annotations:(map[string]string)<nil>" in text
    assert "ImagePullPolicy:(core.PullPolicy)IfNotPresent SecurityContext:(*core.SecurityContext)<nil>" in text


def test_a_time_is_printed_as_on_a_node_that_keeps_to_universal_time() -> None:
    text = dump(MANIFEST.replace("  name: web", "  creationTimestamp: 2026-06-02T03:04:05.5+02:00\n  name: web"))
    assert "{wall:(uint64)500000000 ext:(int64)63915959045 loc:(*time.Location){name:(string)Local zone:" in text


def test_a_sum_over_containers_is_held_as_a_sum_of_what_was_spelled() -> None:
    containers = [{"name": name, "resources": {"limits": {"cpu": cpu}}} for name, cpu in (("a", "1.5"), ("b", "250m"))]
    spec = {"containers": containers, "resources": {"limits": {"cpu": "4"}}}
    text = dump_of({"metadata": {"name": "web"}, "spec": spec})
    assert text.count("{value:(int64)15 scale:(resource.Scale)-1}") == 2, "a limit and the request that follows it"
    assert "Requests:(core.ResourceList)map[cpu:{i:(resource.int64Amount){value:(int64)1750 scale:" in text
