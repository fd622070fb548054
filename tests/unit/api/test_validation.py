"""The pod as a whole: its metadata, its simple fields, its names, and the sentences that people read."""

from typing import Any

import pytest

from pykubelet.api.codec import convert
from pykubelet.api.field_errors import InvalidObject
from pykubelet.api.pod import PodSpec
from pykubelet.api.validation import (
    PodValidationOptions,
    check_pod,
    validate_ephemeral_containers,
    validate_pod,
    validate_pod_spec,
)
from unit.api.validation_pods import (
    CONTAINER,
    DUPLICATE,
    FORBIDDEN,
    INVALID,
    NOT_FOUND,
    NOT_SUPPORTED,
    REQUIRED,
    SPEC,
    TOO_LONG,
    Expected,
    Fragment,
    Row,
    container,
    found,
    names_of,
    pod_of,
    under,
)

OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u1"}
TOLERATIONS = "scheduler.alpha.kubernetes.io/tolerations"
COST = "controller.kubernetes.io/pod-deletion-cost"

METADATA: list[Row] = [
    ("a name is required", {"name": ""}, [("name", REQUIRED)]),
    ("a name is lower case", {"name": "Web"}, [("name", INVALID)]),
    ("a name may have dots", {"name": "web.v1"}, []),
    ("a name may have 253 characters", {"name": "w" * 253}, []),
    ("a name may not have 254 characters", {"name": "w" * 254}, [("name", INVALID)]),
    ("a name too long and misspelled has two faults", {"name": "W" * 254}, [("name", INVALID)] * 2),
    ("a generateName may end with a dash", {"generateName": "web-"}, []),
    ("a generateName is lower case", {"generateName": "Web-"}, [("generateName", INVALID)]),
    ("a generateName of only a dash is none", {"generateName": "-"}, [("generateName", INVALID)]),
    ("a namespace is required", {"namespace": ""}, [("namespace", REQUIRED)]),
    ("a namespace has no dots", {"namespace": "a.b"}, [("namespace", INVALID)]),
    ("a generation is not negative", {"generation": -1}, [("generation", INVALID)]),
    ("a label key may have a domain", {"labels": {"example.com/app": "web"}}, []),
    ("a label key has one slash at most", {"labels": {"a/b/c": "web"}}, [("labels", INVALID)]),
    ("a label key has a domain before the slash", {"labels": {"/app": "web"}}, [("labels", INVALID)]),
    ("a label key has a name after the slash", {"labels": {"example.com/": "web"}}, [("labels", INVALID)] * 2),
    ("a label key's domain is lower case", {"labels": {"Example.com/app": "web"}}, [("labels", INVALID)]),
    ("a label key's name has 63 characters at most", {"labels": {"k" * 64: "web"}}, [("labels", INVALID)]),
    ("a label value may be empty", {"labels": {"app": ""}}, []),
    ("a label value has no spaces", {"labels": {"app": "a b"}}, [("labels", INVALID)]),
    ("a label value has 63 characters at most", {"labels": {"app": "v" * 64}}, [("labels", INVALID)]),
    ("an annotation key may be in capitals", {"annotations": {"EXAMPLE.com/App": "x"}}, []),
    ("an annotation key has no spaces", {"annotations": {"a b": "x"}}, [("annotations", INVALID)]),
    ("annotations may fill 256 KiB", {"annotations": {"a": "x" * (256 * 1024 - 1)}}, []),
    ("annotations may not exceed 256 KiB", {"annotations": {"a": "x" * 256 * 1024}}, [("annotations", TOO_LONG)]),
    ("annotations are counted in bytes", {"annotations": {"a": "é" * 128 * 1024}}, [("annotations", TOO_LONG)]),
    ("an owner is whole", {"ownerReferences": [OWNER]}, []),
    (
        "an owner needs all its parts",
        {"ownerReferences": [{}]},
        [(f"ownerReferences.{part}", INVALID) for part in ("apiVersion", "kind", "name", "uid")],
    ),
    (
        "an owner's version has one slash at most",
        {"ownerReferences": [OWNER | {"apiVersion": "a/b/c"}]},
        [("ownerReferences.apiVersion", INVALID)],
    ),
    (
        "an event owns nothing",
        {"ownerReferences": [OWNER | {"apiVersion": "v1", "kind": "Event"}]},
        [("ownerReferences", INVALID)],
    ),
    ("an event of another group may own", {"ownerReferences": [OWNER | {"kind": "Event"}]}, []),
    (
        "only one owner is the controller",
        {"ownerReferences": [OWNER | {"controller": True}, OWNER | {"controller": True, "name": "b"}]},
        [("ownerReferences", INVALID)],
    ),
    ("a finalizer has a domain", {"finalizers": ["example.com/clean"]}, []),
    ("a finalizer without a domain is a standard one", {"finalizers": ["orphan"]}, []),
    ("any other finalizer without a domain is refused", {"finalizers": ["clean"]}, [("finalizers[0]", INVALID)]),
    ("a misspelled finalizer", {"finalizers": ["example.com/a b"]}, [("finalizers", INVALID)]),
    (
        "orphan and foregroundDeletion exclude each other",
        {"finalizers": ["orphan", "foregroundDeletion"]},
        [("finalizers", INVALID)],
    ),
    (
        "managed fields are applied or updated",
        {"managedFields": [{"operation": "Apply", "fieldsType": "FieldsV1"}]},
        [],
    ),
    (
        "managed fields know no other operation or type",
        {"managedFields": [{"operation": "Delete", "fieldsType": "V2"}]},
        [("managedFields[0].operation", INVALID), ("managedFields[0].fieldsType", INVALID)],
    ),
    (
        "a field manager is printable, short, and its subresource too",
        {"managedFields": [{"operation": "Apply", "manager": "a\x00\x01" + "m" * 128, "subresource": "s" * 257}]},
        [
            ("managedFields[0].manager", TOO_LONG),
            ("managedFields[0].manager", INVALID),
            ("managedFields[0].manager", INVALID),
            ("managedFields[0].subresource", TOO_LONG),
        ],
    ),
]

ANNOTATIONS: list[tuple[str, str, str, Expected]] = [
    ("a mirror pod needs a node", "kubernetes.io/config.mirror", "x", [("[kubernetes.io/config.mirror]", INVALID)]),
    ("a deletion cost", COST, "-10", []),
    ("a deletion cost with zeros after the sign", COST, "-007", []),
    ("a deletion cost of zero", COST, "0", []),
    ("a deletion cost has no leading zero", COST, "01", [(f"[{COST}]", INVALID)]),
    ("a deletion cost has no plus", COST, "+1", [(f"[{COST}]", INVALID)]),
    ("a deletion cost is not empty", COST, "", [(f"[{COST}]", INVALID)]),
    ("a deletion cost has 32 bits", COST, "2147483648", [(f"[{COST}]", INVALID)]),
    ("a deletion cost far beyond 32 bits", COST, "9" * 5000, [(f"[{COST}]", INVALID)]),
    ("a deletion cost beyond 32 bits after many zeros", COST, "-" + "0" * 20 + "9" * 10, [(f"[{COST}]", INVALID)]),
    ("the lowest deletion cost after many zeros", COST, "-" + "0" * 20 + "2147483648", []),
    ("tolerations as text", TOLERATIONS, '[{"KEY":"a","operator":"Exists","other":1}]', []),
    ("tolerations that are null", TOLERATIONS, "null", []),
    ("tolerations that are not JSON", TOLERATIONS, "nonsense", [("", INVALID)]),
    ("tolerations that are not a list", TOLERATIONS, "{}", [("", INVALID)]),
    ("tolerations of numbers", TOLERATIONS, "[1]", [("", INVALID)]),
    ("tolerations with fractions of seconds", TOLERATIONS, '[{"tolerationSeconds":1.0}]', [("", INVALID)]),
    ("tolerations that tolerate nothing", TOLERATIONS, "[null]", [(f"{TOLERATIONS}[0].operator", INVALID)]),
]

WHOLE: list[Row] = [
    ("a plain pod is valid", {}, []),
    ("a pod has containers", {"containers": []}, [("containers", REQUIRED)]),
    (
        "a grace period is required",
        {"terminationGracePeriodSeconds": None},
        [("terminationGracePeriodSeconds", REQUIRED)],
    ),
    ("a negative grace period means one second", {"terminationGracePeriodSeconds": -5}, []),
    ("a restart policy is required", {"restartPolicy": ""}, [("restartPolicy", REQUIRED)]),
    ("a restart policy is known", {"restartPolicy": "Sometimes"}, [("restartPolicy", NOT_SUPPORTED)]),
    ("a node selector is made of labels", {"nodeSelector": {"a b": "c d"}}, [("nodeSelector", INVALID)] * 2),
    ("a service account", {"serviceAccountName": "Bad_"}, [("serviceAccountName", INVALID)]),
    ("the old field of the service account counts", {"serviceAccount": "Bad_"}, [("serviceAccountName", INVALID)]),
    ("a node name", {"nodeName": "Bad_"}, [("nodeName", INVALID)]),
    ("a deadline of 0", {"activeDeadlineSeconds": 0}, [("activeDeadlineSeconds", INVALID)]),
    ("a deadline beyond 32 bits", {"activeDeadlineSeconds": 2**31}, [("activeDeadlineSeconds", INVALID)]),
    ("the longest deadline", {"activeDeadlineSeconds": 2**31 - 1}, []),
    ("a pull secret may be empty", {"imagePullSecrets": [{}]}, []),
    ("a priority class", {"priorityClassName": "Bad_"}, [("priorityClassName", INVALID)]),
    ("a runtime class", {"runtimeClassName": "Bad_"}, [("runtimeClassName", INVALID)]),
    ("an empty runtime class is a class too", {"runtimeClassName": ""}, [("runtimeClassName", INVALID)]),
    ("a preemption policy", {"preemptionPolicy": "Never"}, []),
    ("an empty preemption policy", {"preemptionPolicy": ""}, [("preemptionPolicy", REQUIRED)]),
    ("an unknown preemption policy", {"preemptionPolicy": "x"}, [("preemptionPolicy", NOT_SUPPORTED)]),
    ("overhead is counted as limits", {"overhead": {"cpu": "-1"}}, [("overhead.limits[cpu]", INVALID)]),
    ("overhead is of known resources", {"overhead": {"gpu": "1"}}, [("overhead.limits[gpu]", INVALID)] * 2),
    (
        "a readiness gate",
        {"readinessGates": [{"conditionType": "a b"}]},
        [("readinessGates[0].conditionType", INVALID)],
    ),
    ("an empty operating system", {"os": {}}, [("os.name", REQUIRED)]),
    ("an unknown operating system", {"os": {"name": "plan9"}}, [("os", NOT_SUPPORTED)]),
    (
        "ephemeral containers are added later",
        {"ephemeralContainers": [container(name="debug")]},
        [("ephemeralContainers", FORBIDDEN)],
    ),
    (
        "a gated pod has no node",
        {"nodeName": "n1", "schedulingGates": [{"name": "example.com/wait"}]},
        [("nodeName", FORBIDDEN)],
    ),
    ("a claim on a device", {"resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}]}, []),
    (
        "a claim has a name, and names a claim",
        {"resourceClaims": [{}]},
        [("resourceClaims[0].name", REQUIRED), ("resourceClaims[0]", INVALID)],
    ),
    (
        "a claim names one thing, well spelled",
        {"resourceClaims": [{"name": "A", "resourceClaimName": "B_", "resourceClaimTemplateName": "C_"}]},
        [
            ("resourceClaims[0].name", INVALID),
            ("resourceClaims[0]", INVALID),
            ("resourceClaims[0].resourceClaimName", INVALID),
            ("resourceClaims[0].resourceClaimTemplateName", INVALID),
        ],
    ),
    (
        "claims have different names",
        {"resourceClaims": [{"name": "a", "resourceClaimName": "c"}, {"name": "a", "resourceClaimName": "d"}]},
        [("resourceClaims[1].name", DUPLICATE)],
    ),
]

EPHEMERAL: list[Row] = [
    ("a debug container", {"targetContainerName": "main"}, []),
    ("its name is its own", {"name": "main"}, [("name", DUPLICATE)]),
    ("its target exists", {"targetContainerName": "nobody"}, [("targetContainerName", NOT_FOUND)]),
    ("its image has no spaces around it", {"image": "busybox "}, [("image", INVALID)]),
    ("it may use the pod's volumes", {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}, []),
    (
        "it uses no part of a volume",
        {"volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": "a", "subPathExpr": "b"}]},
        [
            ("volumeMounts[0].subPathExpr", INVALID),
            ("volumeMounts[0].subPath", FORBIDDEN),
            ("volumeMounts[0].subPathExpr", FORBIDDEN),
        ],
    ),
    (
        "it has no part in the pod's work",
        {
            "ports": [{"containerPort": 80, "protocol": "TCP"}],
            "resources": {"limits": {"cpu": "1"}},
            "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}],
            "restartPolicy": "Always",
            "restartPolicyRules": [{}],
            "livenessProbe": {},
            "readinessProbe": {},
            "startupProbe": {},
            "lifecycle": {},
        },
        [
            (field, FORBIDDEN)
            for field in (
                "ports",
                "resources",
                "resizePolicy",
                "restartPolicy",
                "restartPolicyRules",
                "livenessProbe",
                "readinessProbe",
                "startupProbe",
                "lifecycle",
            )
        ],
    ),
]


@pytest.mark.parametrize(("_what", "meta", "expected"), METADATA, ids=names_of(METADATA))
def test_metadata_follows_the_rules(_what: str, meta: Fragment, expected: Expected) -> None:
    assert found(meta=meta) == under("metadata", expected)


@pytest.mark.parametrize(("_what", "key", "value", "expected"), ANNOTATIONS, ids=[row[0] for row in ANNOTATIONS])
def test_an_annotation_with_a_meaning_is_checked(_what: str, key: str, value: str, expected: Expected) -> None:
    faults = found(meta={"annotations": {key: value}})
    assert faults == [(field.rstrip("."), kind) for field, kind in under("metadata.annotations", expected)]


@pytest.mark.parametrize(("_what", "spec", "expected"), WHOLE, ids=names_of(WHOLE))
def test_a_spec_follows_the_rules(_what: str, spec: Fragment, expected: Expected) -> None:
    assert found(spec) == under("spec", expected)


@pytest.mark.parametrize(("_what", "fields", "expected"), EPHEMERAL, ids=names_of(EPHEMERAL))
def test_an_ephemeral_container_joins_a_pod_that_exists(_what: str, fields: Fragment, expected: Expected) -> None:
    spec = {"containers": [CONTAINER], "volumes": [{"name": "v", "emptyDir": {}}]}
    debug = container(name="debug") | dict(fields)
    pod = pod_of(spec | {"ephemeralContainers": [debug]})
    faults = [(error.field, error.type) for error in validate_ephemeral_containers(pod.spec)]
    assert faults == under("spec.ephemeralContainers[0]", expected)


def test_a_static_pod_has_no_claims_on_devices() -> None:
    spec = {"nodeName": "n", "resourceClaims": [{"name": "a", "resourceClaimName": "c"}]}
    assert found(spec, {"annotations": {"kubernetes.io/config.mirror": "x"}}) == [("[]", FORBIDDEN)]


def test_a_good_pod_passes_the_check() -> None:
    check_pod(pod_of())


def test_a_bad_pod_fails_the_check_with_all_its_faults() -> None:
    with pytest.raises(InvalidObject) as caught:
        check_pod(pod_of({"restartPolicy": "x", "dnsPolicy": "y"}))
    assert [error.field for error in caught.value.errors] == ["spec.restartPolicy", "spec.dnsPolicy"]


def test_a_template_may_leave_open_what_a_pod_may_not() -> None:
    port = {"containerPort": 80, "protocol": "TCP"}
    spec = convert(
        PodSpec,
        SPEC
        | {
            "hostNetwork": True,
            "containers": [container(image=" ", ports=[port])],
            "volumes": [{"name": "v", "image": {"pullPolicy": "Always"}}],
        },
    )
    assert validate_pod_spec(spec, None, "spec.template.spec", PodValidationOptions(resource_is_pod=False)) == ()
    assert [error.field for error in validate_pod_spec(spec, None, "template")] == [
        "template.volumes[0].image.reference",
        "template.containers[0].ports[0].hostPort",
    ]


SENTENCES: list[tuple[dict[str, Any], str]] = [
    (
        {
            "containers": [
                container(ports=[{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 70000, "protocol": "TCP"}])
            ]
        },
        "spec.containers[0].ports[1].containerPort: must be between 1 and 65535, got 70000",
    ),
    ({"containers": [container(image="")]}, "spec.containers[0].image: is required"),
    ({"restartPolicy": "x"}, "spec.restartPolicy: must be one of Always, OnFailure, Never, got x"),
    ({"hostname": "a.b"}, "spec.hostname: must not contain dots: use '-' instead, got a.b"),
    (
        {"containers": [container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}})]},
        "spec.containers[0].resources.requests: must be at most the limit of cpu, which is 1, got 2",
    ),
    (
        {"containers": [container(volumeMounts=[{"name": "data", "mountPath": "/data"}])]},
        "spec.containers[0].volumeMounts[0].name: must name a valid volume of this pod, got data",
    ),
    (
        {"volumes": [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}]},
        "spec.volumes[0].hostPath: must not be set beside emptyDir: choose one",
    ),
    (
        {"containers": [container(lifecycle={"preStop": {"sleep": {"seconds": 31}}})]},
        "spec.containers[0].lifecycle.preStop.sleep: must be between 0 and the pod's terminationGracePeriodSeconds, "
        "which is 30, got 31",
    ),
]


@pytest.mark.parametrize(("spec", "sentence"), SENTENCES, ids=[sentence for _, sentence in SENTENCES])
def test_a_fault_reads_as_a_sentence_with_a_remedy(spec: Fragment, sentence: str) -> None:
    assert [str(error) for error in validate_pod(pod_of(spec))] == [sentence]
