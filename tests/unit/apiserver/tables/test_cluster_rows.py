"""Rows of the kinds that a cluster is set up with."""

from typing import Any

import pytest

from unit.apiserver.tables.test_workload_rows import cells

GONE = {"deletionTimestamp": "2026-01-01T11:00:00Z"}
NETWORKING, STORAGE, DEVICES = "networking.k8s.io", "storage.k8s.io", "resource.k8s.io"
ADMISSION, FLOWS = "admissionregistration.k8s.io", "flowcontrol.apiserver.k8s.io"


@pytest.mark.parametrize(
    ("group", "plural", "content", "shown"),
    [
        (NETWORKING, "ingresses", {}, ["<none>", "*", "", "80", "30s"]),
        (
            NETWORKING,
            "ingresses",
            {
                "spec": {
                    "ingressClassName": "c",
                    "tls": [{}],
                    "rules": [{"host": "a"}, {"host": "b"}, {"host": "c"}, {"host": "d"}, {"host": "e"}],
                },
                "status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.1"}, {"hostname": "far.example"}]}},
            },
            ["c", "a,b,c + 2 more...", "10.0.0.1,far.example", "80, 443", "30s"],
        ),
        (
            NETWORKING,
            "ingressclasses",
            {"spec": {"controller": "e/c", "parameters": {"kind": "K", "apiGroup": "g", "name": "n"}}},
            ["e/c", "K.g/n", "30s"],
        ),
        (NETWORKING, "networkpolicies", {"spec": {"podSelector": {}}}, ["<none>", "30s"]),
        (NETWORKING, "servicecidrs", {"spec": {"cidrs": ["10.0.0.0/8", "fd00::/64"]}}, ["10.0.0.0/8,fd00::/64", "30s"]),
        (
            NETWORKING,
            "ipaddresses",
            {"spec": {"parentRef": {"resource": "services", "namespace": "n", "name": "s"}}},
            ["services/n/s"],
        ),
        (
            "rbac.authorization.k8s.io",
            "rolebindings",
            {
                "roleRef": {"kind": "Role", "name": "r"},
                "subjects": [
                    {"kind": "User", "name": "u"},
                    {"kind": "User", "name": "v"},
                    {"kind": "ServiceAccount", "namespace": "n", "name": "s"},
                ],
            },
            ["Role/r", "30s", "u, v", "", "n/s"],
        ),
        (STORAGE, "csidrivers", {"spec": {}}, [True, False, False, "<unset>", False, "<none>", "30s"]),
        (
            STORAGE,
            "csidrivers",
            {"spec": {"tokenRequests": [{"audience": "a"}], "volumeLifecycleModes": ["Persistent", "Ephemeral"]}},
            [True, False, False, "a", False, "Persistent,Ephemeral", "30s"],
        ),
        (STORAGE, "csinodes", {"spec": {"drivers": [{}, {}]}}, [2, "30s"]),
        (
            STORAGE,
            "volumeattachments",
            {"spec": {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "v"}}},
            ["a", "v", "n", False, "30s"],
        ),
        (DEVICES, "resourceclaims", {}, ["pending", "30s"]),
        (DEVICES, "resourceclaims", {"metadata": GONE}, ["deleted", "30s"]),
        (DEVICES, "resourceclaims", {"status": {"allocation": {}, "reservedFor": [{}]}}, ["allocated,reserved", "30s"]),
        (ADMISSION, "validatingwebhookconfigurations", {"webhooks": [{}]}, [1, "30s"]),
        (
            ADMISSION,
            "validatingadmissionpolicies",
            {"spec": {"validations": [{}], "paramKind": {"apiVersion": "v1", "kind": "K"}}},
            [1, "v1/K", "30s"],
        ),
        (
            ADMISSION,
            "validatingadmissionpolicybindings",
            {"spec": {"policyName": "p", "paramRef": {"name": "n"}}},
            ["p", "*/n", "30s"],
        ),
        (FLOWS, "flowschemas", {"spec": {"matchingPrecedence": 9}}, ["", 9, "<none>", "30s", "?"]),
        (
            FLOWS,
            "prioritylevelconfigurations",
            {"spec": {"type": "Limited", "limited": {"nominalConcurrencyShares": 5}}},
            ["Limited", 5, "<none>", "<none>", "<none>", "30s"],
        ),
        ("apiregistration.k8s.io", "apiservices", {}, ["Local", "Unknown", "30s"]),
    ],
)
def test_a_row_shows_what_matters(group: str, plural: str, content: dict[str, Any], shown: list[Any]) -> None:
    assert cells(group, plural, **content)[1:] == shown
