"""Which fields a request can own at all."""

import pytest

from pykubelet.apiserver.patch.fields import Fields, Path
from pykubelet.apiserver.patch.reset import reach
from pykubelet.apiserver.schema.catalogue import schema_of

RESOURCES: Path = ("f:spec", "f:containers", 'k:{"name":"a"}', "f:resources")
EVERYTHING: Fields = frozenset(
    {
        ("f:metadata", "f:labels", "f:a"),
        ("f:metadata", "f:ownerReferences", 'k:{"uid":"1"}'),
        ("f:spec",),
        ("f:spec", "f:hostname"),
        ("f:spec", "f:containers", 'k:{"name":"a"}', "f:image"),
        RESOURCES,
        (*RESOURCES, "f:limits", "f:cpu"),
        ("f:spec", "f:ephemeralContainers", 'k:{"name":"e"}', "f:image"),
        ("f:status", "f:phase"),
        ("f:status", "f:certificate"),
        ("f:status", "f:conditions", 'k:{"type":"Ready"}', "f:status"),
    }
)


def within(*starts: str) -> Fields:
    """The fields that begin like one of these."""
    return frozenset(path for path in EVERYTHING if ".".join(path).startswith(starts))


@pytest.mark.parametrize(
    ("kind", "subresource", "version", "reached"),
    [
        ("Pod", "", "v1", EVERYTHING - within("f:status")),
        ("Pod", "status", "v1", EVERYTHING - within("f:spec", "f:metadata.f:ownerReferences")),
        ("Pod", "resize", "v1", within(".".join(RESOURCES)) | {("f:spec",)}),
        ("Pod", "ephemeralcontainers", "v1", within("f:spec.f:ephemeralContainers") | {("f:spec",)}),
        ("Node", "", "v1", EVERYTHING - within("f:status")),
        ("Node", "status", "v1", EVERYTHING - within("f:spec")),
        ("ConfigMap", "", "v1", EVERYTHING),
        ("Widget", "", "example.com/v1", EVERYTHING),
        ("CertificateSigningRequest", "", "certificates.k8s.io/v1", within("f:metadata")),
        (
            "CertificateSigningRequest",
            "approval",
            "certificates.k8s.io/v1",
            EVERYTHING - within("f:spec", "f:status.f:certificate"),
        ),
        (
            "CertificateSigningRequest",
            "status",
            "certificates.k8s.io/v1",
            EVERYTHING - within("f:spec", "f:status.f:conditions"),
        ),
    ],
)
def test_a_request_reaches_its_part_of_the_object(kind: str, subresource: str, version: str, reached: Fields) -> None:
    assert reach(kind, schema_of(version, kind), subresource)(EVERYTHING) == reached
