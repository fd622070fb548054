"""The identity of static pods, replayed against the one that Kubernetes gives them."""

from kit.vectors import Case, replay, unequal
from pykubelet.api import codec
from pykubelet.api.documents import read_documents
from pykubelet.api.pod import Pod
from pykubelet.pod.lifecycle.static_pod import static_uid
from pykubelet.sources.pod_dump import pod_dump


def test_static_pods_have_upstreams_uid() -> None:
    replay("static_pod", _uid)


def _uid(case: Case) -> str:
    (document,) = read_documents(case["manifest"].encode())
    pod = codec.convert(Pod, document.value)
    made = static_uid(pod_dump(document.value, pod), case["node"], case["source"], case["origin"])
    return unequal(case["manifest"], pod.metadata.uid or made, case["uid"])
