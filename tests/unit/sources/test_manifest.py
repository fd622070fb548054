import json
import re
from textwrap import dedent

import pytest

from pykubelet.api.pod import Pod
from pykubelet.api.rules.pod_kinds import FILE_SOURCE, URL_SOURCE
from pykubelet.api.rules.well_known import HASH_ANNOTATION
from pykubelet.api.scheduling import Toleration
from pykubelet.sources.manifest import BadManifest, Place, read_manifest

FILE = Place(origin="/etc/pods/web.yaml", source=FILE_SOURCE, node_name="n1")
SECRET_URL = Place(
    origin="https://me:pw@example.com/pods?token=s3cret",
    source=URL_SOURCE,
    node_name="n1",
    shown="https://example.com/pods",
)

WEB = """\
apiVersion: v1
kind: Pod
metadata:
  name: web
spec:
  containers:
    - name: server
      image: nginx:1.27
"""
DB = WEB.replace("name: web", "name: db").replace("nginx:1.27", "redis:7")


def read(text: str | bytes, place: Place = FILE) -> tuple[Pod, ...]:
    return read_manifest(text if isinstance(text, bytes) else text.encode(), place).pods


def faults(text: str | bytes, place: Place = FILE) -> list[str]:
    with pytest.raises(BadManifest) as caught:
        read(text, place)
    assert str(caught.value) == "\n".join(caught.value.faults)
    return list(caught.value.faults)


def names(text: str) -> list[str]:
    return [pod.metadata.name for pod in read(text)]


def as_json(name: str = "web", spec: dict[str, object] | None = None) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "server", "image": "nginx:1.27"}], **(spec or {})},
    }


def listed(kind: str, *items: str) -> str:
    """A list of pods, one document."""
    entries = "".join(f"- {item.replace(chr(10), chr(10) + '  ').rstrip()}\n" for item in items)
    return f"apiVersion: v1\nkind: {kind}\nitems:\n{entries}"


# --- what is read


def test_yaml_and_json_give_the_same_pod() -> None:
    assert read(WEB) == read(json.dumps(as_json())) == read(json.dumps(as_json(), indent=4))


@pytest.mark.parametrize(
    "text",
    [
        f"{WEB}---\n{DB}",
        f"---\n{WEB}---\n---\n# nothing here\n---\n{DB}...\n",
        listed("PodList", WEB, DB),
        listed("List", WEB, DB),
        f"{listed('PodList', WEB)}---\n{DB}",
        json.dumps({"apiVersion": "v1", "kind": "List", "items": [as_json("web"), as_json("db")]}),
        json.dumps({"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": [as_json("web"), as_json("db")]}),
    ],
    ids=["documents", "empty documents", "PodList", "List", "list and document", "JSON List", "JSON PodList"],
)
def test_several_pods_are_read_in_their_order(text: str) -> None:
    assert names(text) == ["web-n1", "db-n1"]


def test_an_item_of_a_list_need_not_say_what_it_is() -> None:
    assert names(listed("PodList", WEB.removeprefix("apiVersion: v1\nkind: Pod\n"))) == ["web-n1"]


@pytest.mark.parametrize("items", ["", "items:", "items: []", "items: null"])
def test_an_empty_list_is_no_pod_and_no_fault(items: str) -> None:
    assert read(f"apiVersion: v1\nkind: PodList\n{items}\n") == ()


def test_defaults_are_filled_in() -> None:
    (pod,) = read(WEB)
    assert pod.spec.restart_policy == "Always"
    assert pod.spec.containers[0].image_pull_policy == "IfNotPresent"


# --- what makes it a static pod


def test_a_static_pod_belongs_to_its_node() -> None:
    (pod,) = read(WEB)
    assert (pod.metadata.name, pod.metadata.namespace) == ("web-n1", "default")
    assert pod.spec.node_name == "n1"
    assert pod.status.phase == "Pending"
    assert pod.metadata.uid == pod.metadata.annotations[HASH_ANNOTATION]
    assert len(pod.metadata.uid) == 32


def test_the_suffix_of_the_name_is_in_small_letters() -> None:
    place = Place(origin="/etc/pods/web.yaml", source=FILE_SOURCE, node_name="N1")
    (fault,) = faults(WEB, place)  # of the two places with the node's name, only its own has capitals
    assert "spec.nodeName" in fault


def test_a_namespace_that_is_given_stays() -> None:
    (pod,) = read(WEB.replace("name: web", "name: web\n  namespace: kube-system"))
    assert pod.metadata.namespace == "kube-system"


def test_a_uid_that_is_given_stays() -> None:
    (pod,) = read(WEB.replace("name: web", "name: web\n  uid: 0b8f"))
    assert pod.metadata.uid == "0b8f"
    assert pod.metadata.annotations == {HASH_ANNOTATION: "0b8f"}


def test_the_uid_is_the_same_until_manifest_or_place_change() -> None:
    def uid(text: str = WEB, **place: str) -> str:
        fields = {"origin": FILE.origin, "source": FILE.source, "node_name": FILE.node_name, **place}
        return read(text, Place(**fields))[0].metadata.uid

    assert uid() == uid() == uid("# a remark\n" + WEB)
    others = [
        uid(WEB.replace("1.27", "1.28")),
        uid(origin="/etc/pods/other.yaml"),
        uid(node_name="n2"),
        uid(source=URL_SOURCE),
    ]
    assert len({uid(), *others}) == 5


def test_a_pod_from_a_file_tolerates_every_trouble_of_its_node() -> None:
    (pod,) = read(WEB)
    assert pod.spec.tolerations == (Toleration(operator="Exists", effect="NoExecute"),)


def test_a_pod_from_a_url_tolerates_only_what_it_says() -> None:
    (pod,) = read(WEB, SECRET_URL)
    assert pod.spec.tolerations == ()


def test_own_annotations_stay_beside_ours() -> None:
    (pod,) = read(WEB.replace("name: web", "name: web\n  annotations: {team: blue}"))
    assert pod.metadata.annotations["team"] == "blue"
    assert HASH_ANNOTATION in pod.metadata.annotations


# --- what is refused, and how that is said


@pytest.mark.parametrize("text", ["", "\n", "---\n---\n", "# only a remark\n", "null", "\ufeff"])
def test_a_text_without_a_pod_is_refused(text: str) -> None:
    assert faults(text) == ["/etc/pods/web.yaml: holds no pod"]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("just words", "1:1: is not a Kubernetes object, but plain text or a list"),
        ("- a\n- b\n", "1:1: is not a Kubernetes object, but plain text or a list"),
        ("# first\nfoo: bar\n", "2:1: is neither a Pod nor a PodList of apiVersion v1: apiVersion (none), kind (none)"),
        (
            "kind: Deployment\napiVersion: apps/v1\n",
            "1:1: is neither a Pod nor a PodList of apiVersion v1: apiVersion apps/v1, kind Deployment",
        ),
        (
            WEB.replace("v1", "v2"),
            "1:1: is neither a Pod nor a PodList of apiVersion v1: apiVersion v2, kind Pod",
        ),
        (
            "kind: [Pod]\napiVersion: v1\n",
            "1:1: is neither a Pod nor a PodList of apiVersion v1: apiVersion v1, kind ['Pod']",
        ),
        ("kind: PodList\napiVersion: v1\nitems: many\n", "3:8: items: expected a list of pods"),
        (listed("List", "kind: Service"), "4:3: items[0].kind: is 'Service', not a Pod"),
        (listed("List", "just words"), "4:3: items[0]: expected object, got str"),
        (WEB.replace("name: web", "labels: {}"), "4:3: metadata.name: is required"),
        ("apiVersion: v1\nkind: Pod\n", "1:1: metadata.name: is required"),
        (WEB.replace("nginx:1.27", "3"), "8:14: spec.containers[0].image: expected str, got int"),
        (WEB + "      image: nginx\n", "9:7: key 'image' occurs twice, first on line 8"),
        ("a: b: c", "1:5: is not YAML: mapping values are not allowed in this context"),
        ('{"kind": "Pod"', "1:15: is not JSON: Expecting ',' delimiter"),
        (b"kind: \xff", "1:7: is not UTF-8 text"),
    ],
)
def test_a_fault_is_named_with_its_place(text: str | bytes, fault: str) -> None:
    assert faults(text) == [f"/etc/pods/web.yaml:{fault}"]


def test_all_faults_of_all_pods_are_told_together() -> None:
    text = dedent("""\
        apiVersion: v1
        kind: Pod
        metadata:
          name: Web_1
        spec:
          restartPolicy: Sometimes
          containers:
            - name: c
              image: ""
              ports:
                - containerPort: 99999
        ---
        apiVersion: v1
        kind: Service
        ---
        apiVersion: v1
        kind: PodList
        items:
          - metadata: {name: fine}
            spec:
              containers:
                - {name: c, image: busybox, tty: maybe}
          - metadata: {name: fine}
            spec:
              containers: []
        """)
    told = sorted(faults(text), key=lambda fault: [int(number) for number in fault.split(":")[1:3]])
    assert [fault.removeprefix("/etc/pods/web.yaml:").split(",")[0] for fault in told] == [
        "4:9: metadata.name: must be lower case letters",
        "6:18: spec.restartPolicy: must be one of Always",
        "9:14: spec.containers[0].image: is required",
        "11:26: spec.containers[0].ports[0].containerPort: must be between 1 and 65535",
        "13:1: is neither a Pod nor a PodList of apiVersion v1: apiVersion v1",
        "22:42: items[0].spec.containers[0].tty: expected bool | null",
        "25:19: items[1].spec.containers: must have at least one container",
    ]


def test_one_bad_pod_makes_a_bad_manifest() -> None:
    assert len(faults(f"{WEB}---\n{DB.replace('redis:7', '')}")) == 1


SECRET_VOLUME = {"volumes": [{"name": "v", "secret": {"secretName": "s"}}]}
CONFIG_MAP_VOLUME = {"volumes": [{"name": "v", "configMap": {"name": "m"}}]}
SECRET_ENV = {"containers": [{"name": "c", "image": "i", "envFrom": [{"secretRef": {"name": "s"}}]}]}
PULL_SECRET = {"imagePullSecrets": [{"name": "s"}]}


def without_place(fault: str) -> str:
    return re.sub(r":1:\d+: ", ": ", fault, count=1)


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ({"serviceAccountName": "robot"}, "spec.serviceAccountName: static pods may not reference serviceaccounts"),
        (
            {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
            "spec.volumes[0].persistentVolumeClaim: static pods may not reference persistentvolumeclaims",
        ),
        (
            {"volumes": [{"name": "v", "csi": {"driver": "d"}}]},
            "spec.volumes[0].csi: static pods may not reference csidrivers (via CSI volumes)",
        ),
    ],
)
@pytest.mark.parametrize("place", [FILE, SECRET_URL], ids=["file", "URL"])
def test_a_static_pod_may_need_nothing_that_only_an_api_server_has(
    spec: dict[str, object], fault: str, place: Place
) -> None:
    (told,) = faults(json.dumps(as_json(spec=spec)), place)
    assert without_place(told) == f"{place}: {fault}"


@pytest.mark.parametrize(
    ("spec", "field", "key"),
    [
        (PULL_SECRET, "spec.imagePullSecrets[0]", ("secret", "default", "s")),
        (SECRET_VOLUME, "spec.volumes[0].secret", ("secret", "default", "s")),
        (CONFIG_MAP_VOLUME, "spec.volumes[0].configMap", ("configmap", "default", "m")),
        (SECRET_ENV, "spec.containers[0].envFrom[0].secretRef", ("secret", "default", "s")),
    ],
)
def test_what_may_lie_beside_the_manifest_is_needed(
    spec: dict[str, object], field: str, key: tuple[str, str, str]
) -> None:
    text = json.dumps(as_json(spec=spec))
    found = read_manifest(text.encode(), FILE)
    (pod,) = found.pods
    what = f"{field}: static pods may not reference {key[0]}s that are not in the manifest folder"
    ((uid, needs),) = found.needs.items()
    assert uid == pod.metadata.uid
    assert {name: without_place(told) for name, told in needs.items()} == {
        key: f"{FILE}: {what}: there is no {key[2]!r}"
    }
    (told,) = faults(text, SECRET_URL)
    assert without_place(told) == f"{SECRET_URL}: {field}: static pods may not reference {key[0]}s"


def test_config_maps_and_secrets_come_with_the_pods_of_a_file() -> None:
    objects = """\
apiVersion: v1
kind: Secret
metadata: {name: s, namespace: other}
data: {a: AAE=, b: eA==}
stringData: {b: plain}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: m}
data: {k: v}
"""
    found = read_manifest(f"{WEB}---\n{objects}".encode(), FILE)
    assert [pod.metadata.name for pod in found.pods] == ["web-n1"]
    secret, config_map = found.objects["secret", "other", "s"], found.objects["configmap", "default", "m"]
    assert secret.data == {"a": b"\0\1", "b": b"plain"}
    assert config_map.data == {"k": "v"}
    assert read_manifest(objects.encode(), FILE).pods == ()
    assert len(faults(objects, SECRET_URL)) == 2, "a URL brings pods and nothing else"


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ("metadata: {name: s}\ndata: {a: 'top!secret'}", "a.yaml:4:11: data[a]: illegal base64 data at input byte 3"),
        ("metadata: {name: s}\nstringData: {../a: top!secret}", "'../a' cannot be the name of a file"),
        ("metadata: {name: s}\nstringData: {..data: top!secret}", "'..data' cannot be the name of a file"),
        ("metadata: {name: A_B}\nstringData: {a: top!secret}", "metadata.name: 'A_B' cannot be used"),
        ("stringData: {a: top!secret}", "metadata.name: is required"),
        ("metadata: {name: s}\nstringData: {a: 7}", "expected str, got int"),
    ],
)
def test_a_secret_that_cannot_be_used_is_told_of_and_its_content_is_not(fields: str, fault: str) -> None:
    place = Place(origin="a.yaml", source="file", node_name="n")
    (told,) = faults(f"apiVersion: v1\nkind: Secret\n{fields}\n", place)
    assert "top!secret" not in told
    assert fault in told


def test_base64_of_a_secret_may_be_wrapped() -> None:
    text = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata:\n  a: |\n    AAEA\n    AQ==\n"
    assert read_manifest(text.encode(), FILE).objects["secret", "default", "s"].data == {"a": b"\0\1\0\1"}


def test_an_object_is_defined_once_in_a_file() -> None:
    one = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\n"
    assert faults(f"{one}---\n{one}") == ["/etc/pods/web.yaml:7:11: configmap default/m is defined twice"]


def test_a_manifest_may_have_ten_mebibytes() -> None:
    padding = b"#" * ((10 << 20) - len(WEB))
    assert len(read(WEB.encode() + padding)) == 1
    assert faults(WEB.encode() + padding + b"#") == ["/etc/pods/web.yaml: is larger than 10 MiB"]


def test_a_place_with_secrets_is_not_shown() -> None:
    (fault,) = faults("just words", SECRET_URL)
    assert fault == "https://example.com/pods:1:1: is not a Kubernetes object, but plain text or a list"


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [*a]",
        "[" * 100_000,
        "{" * 100_000,
        "a: &a [x, x]\n"
        + "".join(
            f"b{n}: &b{n} [*{'a' if not n else f'b{n - 1}'}, *{'a' if not n else f'b{n - 1}'}]\n" for n in range(40)
        ),
        "!!python/object/apply:os.system ['true']",
        '{"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "\\ud800"}, "spec": {}}',
        "apiVersion: v1\nkind: Pod\nmetadata: {name: web, creationTimestamp: yesterday}\n",
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: web}}\nspec: {{priority: {'9' * 5000}}}\n",
    ],
    ids=["loop", "deep list", "deep map", "bomb", "tag", "half a character", "no time", "long number"],
)
def test_hostile_text_is_a_bad_manifest_like_any_other(text: str) -> None:
    assert faults(text)


@pytest.mark.parametrize("uid", ["../../etc", "a/b", ".", "-x", "a b"])
def test_a_uid_that_could_not_name_a_folder_is_a_fault(uid: str) -> None:
    text = f"apiVersion: v1\nkind: Pod\nmetadata: {{name: web, uid: '{uid}'}}\nspec: {{containers: []}}\n"
    with pytest.raises(BadManifest) as caught:
        read_manifest(text.encode(), Place(origin="/m/web.yaml", source="file", node_name="n1"))
    assert caught.value.faults[0].startswith("/m/web.yaml:3:28: metadata.uid: must be letters, digits")


# --- fields that nobody knows

TYPO = """\
apiVersion: v1
kind: Pod
metadata:
  name: web
  label: {a: b}
spec:
  containers:
    - name: server
      image: nginx:1.27
      comand:
        - sleep
      resources:
        limits: {cpu: 1}
      zzz: 1
"""


def test_a_field_that_is_not_known_is_told_with_its_line_and_the_nearest_name() -> None:
    assert faults(TYPO) == [
        "/etc/pods/web.yaml:5:3: metadata.label: there is no such field; did you mean labels?",
        "/etc/pods/web.yaml:10:7: spec.containers[0].comand: there is no such field; did you mean command?",
        "/etc/pods/web.yaml:14:7: spec.containers[0].zzz: there is no such field",
    ]


def test_it_is_told_besides_all_else_that_is_wrong() -> None:
    told = faults(TYPO.replace("name: server", "name: Server"))
    assert [fault.split(":")[1] for fault in told] == ["5", "10", "14", "8"]


def test_in_the_lenient_way_it_is_told_and_ignored() -> None:
    found = read_manifest(TYPO.encode(), FILE, lenient=True)
    assert [pod.metadata.name for pod in found.pods] == ["web-n1"]
    assert found.ignored[1].startswith("/etc/pods/web.yaml:10:7: ")
    assert found.ignored[1].endswith("did you mean command?; it is ignored")
    assert read_manifest(WEB.encode(), FILE, lenient=True).ignored == ()


def test_lists_and_what_lies_beside_pods_are_looked_at_too() -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndate: {any.thing: x}\n"
    (fault,) = faults(text)
    assert fault == "/etc/pods/web.yaml:4:1: date: there is no such field; did you mean data?"
    assert faults(listed("PodList", TYPO).replace("items:", "item: []\nitems:"))[:2] == [
        "/etc/pods/web.yaml:3:1: item: there is no such field; did you mean items?",
        "/etc/pods/web.yaml:9:5: items[0].metadata.label: there is no such field; did you mean labels?",
    ]


def test_a_name_that_looks_like_a_path_is_found_where_it_stands() -> None:
    assert faults(WEB + "  a.b[0]: 1\n") == ["/etc/pods/web.yaml:9:3: spec.a.b[0]: there is no such field"]
