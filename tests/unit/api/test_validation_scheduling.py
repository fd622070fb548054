"""Where a pod may run, and how it finds others: affinity, spreading, tolerations, DNS, host names."""

from typing import Any

import pytest

from unit.api.validation_pods import (
    DUPLICATE,
    FORBIDDEN,
    INVALID,
    NOT_SUPPORTED,
    REQUIRED,
    TOO_LONG,
    Expected,
    Fragment,
    Row,
    container,
    found,
    names_of,
    under,
)

NEEDED = "requiredDuringSchedulingIgnoredDuringExecution"
WISHED = "preferredDuringSchedulingIgnoredDuringExecution"
SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
SELECTOR = {"matchLabels": {"app": "web"}}


def exists(key: str) -> dict[str, str]:
    return {"key": key, "operator": "Exists"}


def node(*terms: Fragment) -> dict[str, Any]:
    return {"nodeAffinity": {NEEDED: {"nodeSelectorTerms": list(terms)}}}


def label(**requirement: Any) -> dict[str, Any]:
    return node({"matchExpressions": [{"key": "zone"} | requirement]})


def node_field(**requirement: Any) -> dict[str, Any]:
    return node({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]} | requirement]})


def near(**term: Any) -> dict[str, Any]:
    return {"podAffinity": {NEEDED: [{"topologyKey": "zone", "labelSelector": SELECTOR} | term]}}


EXPRESSION = f"nodeAffinity.{NEEDED}.nodeSelectorTerms[0].matchExpressions[0]"
FIELD = f"nodeAffinity.{NEEDED}.nodeSelectorTerms[0].matchFields[0]"
NEAR = f"podAffinity.{NEEDED}[0]"

AFFINITY: list[Row] = [
    ("none", {}, []),
    ("a node by its label", label(operator="In", values=["a"]), []),
    ("no term", node(), [(f"nodeAffinity.{NEEDED}.nodeSelectorTerms", REQUIRED)]),
    ("an empty term", node({}), []),
    ("In has values", label(operator="In"), [(f"{EXPRESSION}.values", REQUIRED)]),
    ("Exists has none", label(operator="Exists", values=["a"]), [(f"{EXPRESSION}.values", FORBIDDEN)]),
    ("Gt has one", label(operator="Gt", values=["1", "2"]), [(f"{EXPRESSION}.values", REQUIRED)]),
    ("Lt has one", label(operator="Lt", values=["1"]), []),
    ("an unknown operator", label(operator="Like"), [(f"{EXPRESSION}.operator", INVALID)]),
    ("a misspelled key", label(key="a b", operator="Exists"), [(f"{EXPRESSION}.key", INVALID)]),
    ("a misspelled value", label(operator="In", values=["a", "a b"]), [(f"{EXPRESSION}.values[1]", INVALID)]),
    ("a node by its name", node_field(), []),
    ("a node by two names", node_field(values=["a", "b"]), [(f"{FIELD}.values", REQUIRED)]),
    ("a node by a misspelled name", node_field(values=["A_"]), [(f"{FIELD}.values[0]", INVALID)]),
    (
        "a node by another field",
        node_field(key="x", operator="Exists"),
        [(f"{FIELD}.operator", INVALID), (f"{FIELD}.key", INVALID)],
    ),
    (
        "a wish has a weight, and may name values that no label has",
        {
            "nodeAffinity": {
                WISHED: [
                    {
                        "weight": 101,
                        "preference": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["a b"]}]},
                    },
                    {"weight": 100},
                ]
            }
        },
        [(f"nodeAffinity.{WISHED}[0].weight", INVALID)],
    ),
    ("near other pods", near(namespaces=["a"], namespaceSelector={}), []),
    (
        "near needs a topology",
        near(topologyKey=""),
        [(f"{NEAR}.topologyKey", REQUIRED)] + [(f"{NEAR}.topologyKey", INVALID)] * 2,
    ),
    ("near in a misspelled namespace", near(namespaces=["A"]), [(f"{NEAR}.namespace", INVALID)]),
    (
        "near misspelled pods",
        near(
            labelSelector={"matchLabels": {"a b": "c d"}}, namespaceSelector={"matchExpressions": [{"operator": "x"}]}
        ),
        [
            (f"{NEAR}.labelSelector.matchLabels", INVALID),
            (f"{NEAR}.labelSelector.matchLabels", INVALID),
            (f"{NEAR}.namespaceSelector.matchExpressions[0].operator", INVALID),
            (f"{NEAR}.namespaceSelector.matchExpressions[0].key", INVALID),
            (f"{NEAR}.namespaceSelector.matchExpressions[0].key", INVALID),
        ],
    ),
    (
        "expressions of a selector",
        near(
            labelSelector={
                "matchExpressions": [
                    {"key": "a", "operator": "NotIn"},
                    {"key": "a", "operator": "DoesNotExist", "values": ["b"]},
                    {"key": "a", "operator": "In", "values": ["b c"]},
                ]
            }
        ),
        [
            (f"{NEAR}.labelSelector.matchExpressions[0].values", REQUIRED),
            (f"{NEAR}.labelSelector.matchExpressions[1].values", FORBIDDEN),
            (f"{NEAR}.labelSelector.matchExpressions[2].values[0]", INVALID),
        ],
    ),
    (
        "keys need a selector",
        near(labelSelector=None, matchLabelKeys=["a b"], mismatchLabelKeys=["c d"]),
        [(f"{NEAR}.matchLabelKeys", FORBIDDEN), (f"{NEAR}.mismatchLabelKeys", FORBIDDEN)],
    ),
    (
        "keys are spelled as labels, and match or mismatch",
        near(matchLabelKeys=["a b", "c"], mismatchLabelKeys=["c", "d e"]),
        [
            (f"{NEAR}.matchLabelKeys[0]", INVALID),
            (f"{NEAR}.mismatchLabelKeys[1]", INVALID),
            (f"{NEAR}.matchLabelKeys[1]", INVALID),
        ],
    ),
    (
        "keys are not in the selector already",
        near(matchLabelKeys=["x", "app"], labelSelector=SELECTOR | {"matchExpressions": [exists("app"), exists("x")]}),
        [(f"{NEAR}[1]", INVALID)],
    ),
    (
        "far from other pods, more or less",
        {"podAntiAffinity": {WISHED: [{"weight": 0, "podAffinityTerm": {"topologyKey": "a b"}}]}},
        [
            (f"podAntiAffinity.{WISHED}[0].weight", INVALID),
            (f"podAntiAffinity.{WISHED}[0].podAffinityTerm.topologyKey", INVALID),
        ],
    ),
]

SPREADING: list[tuple[str, list[Fragment], Expected]] = [
    ("over zones", [SPREAD | {"minDomains": 1, "nodeAffinityPolicy": "Honor", "nodeTaintsPolicy": "Ignore"}], []),
    (
        "by nothing",
        [{}],
        [("[0].maxSkew", INVALID), ("[0].topologyKey", REQUIRED), ("[0].whenUnsatisfiable", NOT_SUPPORTED)],
    ),
    ("twice in the same way", [SPREAD, SPREAD], [("[0].{topologyKey, whenUnsatisfiable}", DUPLICATE)]),
    ("twice in two ways", [SPREAD, SPREAD | {"whenUnsatisfiable": "ScheduleAnyway"}], []),
    ("over no zone", [SPREAD | {"minDomains": 0}], [("[0].minDomains", INVALID)]),
    (
        "over zones if possible",
        [SPREAD | {"whenUnsatisfiable": "ScheduleAnyway", "minDomains": 1}],
        [("[0].minDomains", INVALID)],
    ),
    (
        "with unknown policies",
        [SPREAD | {"nodeAffinityPolicy": "x", "nodeTaintsPolicy": ""}],
        [("[0].nodeAffinityPolicy", NOT_SUPPORTED), ("[0].nodeTaintsPolicy", NOT_SUPPORTED)],
    ),
    ("with keys and no selector", [SPREAD | {"matchLabelKeys": ["a"]}], [("[0].matchLabelKeys", FORBIDDEN)]),
    (
        "with misspelled keys and selector",
        [SPREAD | {"matchLabelKeys": ["a b"], "labelSelector": {"matchLabels": {"c d": ""}}}],
        [("[0].matchLabelKeys[0]", INVALID), ("[0].labelSelector.matchLabels", INVALID)],
    ),
    (
        "with a key that the selector has twice",
        [SPREAD | {"matchLabelKeys": ["a"], "labelSelector": {"matchExpressions": [exists("a"), exists("a")]}}],
        [("[0][0]", INVALID)],
    ),
]

TOLERATIONS: list[Row] = [
    ("everything", {"operator": "Exists"}, []),
    ("nothing", {}, [("operator", INVALID)]),
    ("a value", {"key": "a", "value": "b", "effect": "NoExecute", "tolerationSeconds": 0}, []),
    ("a misspelled key", {"key": "a b"}, [("key", INVALID)]),
    ("a misspelled value, in one sentence", {"key": "a", "value": "b " * 40}, [("operator", INVALID)]),
    ("Exists with a value", {"key": "a", "operator": "Exists", "value": "b"}, [("operator", INVALID)]),
    ("an unknown operator", {"key": "a", "operator": "x"}, [("operator", NOT_SUPPORTED)]),
    ("an unknown operator without a key", {"operator": "x"}, [("operator", INVALID), ("operator", NOT_SUPPORTED)]),
    ("an unknown effect", {"key": "a", "effect": "x"}, [("effect", NOT_SUPPORTED)]),
    ("for a time, but without eviction", {"key": "a", "tolerationSeconds": 1}, [("effect", INVALID)]),
]

NETWORK: list[Row] = [
    ("a DNS policy is required", {"dnsPolicy": ""}, [("dnsPolicy", REQUIRED)]),
    ("a DNS policy is known", {"dnsPolicy": "x"}, [("dnsPolicy", NOT_SUPPORTED)]),
    ("no DNS policy needs a configuration", {"dnsPolicy": "None"}, [("dnsConfig", REQUIRED)]),
    ("with a server", {"dnsPolicy": "None", "dnsConfig": {"searches": ["A"]}}, [("dnsConfig.nameservers", REQUIRED)]),
    ("three servers", {"dnsConfig": {"nameservers": ["10.0.0.1", "::1", "010.0.0.1"]}}, []),
    ("four servers", {"dnsConfig": {"nameservers": ["10.0.0.1"] * 4}}, [("dnsConfig.nameservers", INVALID)]),
    ("a server is an address", {"dnsConfig": {"nameservers": ["dns"]}}, [("dnsConfig.nameservers[0]", INVALID)]),
    ("search domains", {"dnsConfig": {"searches": ["a.b.", ".", "_tcp.a"]}}, []),
    (
        "a misspelled search domain",
        {"dnsConfig": {"searches": ["a", "A", ""]}},
        [("dnsConfig.searches[1]", INVALID), ("dnsConfig.searches[2]", INVALID)],
    ),
    ("32 search domains", {"dnsConfig": {"searches": ["a"] * 33}}, [("dnsConfig.searches", INVALID)]),
    (
        "2048 characters of search domains",
        {"dnsConfig": {"searches": ["a" * 63 + "." + "b" * 63] * 17}},
        [("dnsConfig.searches", INVALID)],
    ),
    (
        "an option has a name",
        {"dnsConfig": {"options": [{"name": "ndots", "value": "5"}, {}]}},
        [("dnsConfig.options[1]", REQUIRED)],
    ),
    (
        "an alias",
        {"hostAliases": [{"ip": "x", "hostnames": ["a", "B"]}]},
        [("hostAliases[0].ip", INVALID), ("hostAliases[0].hostnames[1]", INVALID)],
    ),
    ("a host name has no dots", {"hostname": "a.b", "subdomain": "C"}, [("hostname", INVALID), ("subdomain", INVALID)]),
    ("a host name of one's own", {"hostnameOverride": "a.b"}, []),
    ("an empty host name of one's own", {"hostnameOverride": ""}, [("hostnameOverride", INVALID)]),
    ("a long host name of one's own", {"hostnameOverride": "h" * 65}, [("hostnameOverride", TOO_LONG)]),
    (
        "a host name of one's own, and of others",
        {"hostnameOverride": "a", "setHostnameAsFQDN": True, "hostNetwork": True},
        [("hostnameOverride", FORBIDDEN)] * 2,
    ),
    (
        "the host's network has the host's ports",
        {"hostNetwork": True, "containers": [container(ports=[{"containerPort": 80, "protocol": "TCP"}])]},
        [("containers[0].ports[0].hostPort", INVALID)],
    ),
    (
        "the same ports",
        {
            "hostNetwork": True,
            "containers": [container(ports=[{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}])],
        },
        [],
    ),
    (
        "scheduling gates",
        {"schedulingGates": [{"name": "example.com/a"}, {"name": "example.com/a"}, {"name": "a b"}]},
        [("schedulingGates[1]", DUPLICATE), ("schedulingGates[2]", INVALID)],
    ),
]


@pytest.mark.parametrize(("_what", "affinity", "expected"), AFFINITY, ids=names_of(AFFINITY))
def test_affinity_names_what_can_exist(_what: str, affinity: Fragment, expected: Expected) -> None:
    assert found({"affinity": affinity}) == under("spec.affinity", expected)


@pytest.mark.parametrize(("_what", "constraints", "expected"), SPREADING, ids=[row[0] for row in SPREADING])
def test_pods_are_spread(_what: str, constraints: list[Fragment], expected: Expected) -> None:
    assert found({"topologySpreadConstraints": constraints}) == under("spec.topologySpreadConstraints", expected)


@pytest.mark.parametrize(("_what", "toleration", "expected"), TOLERATIONS, ids=names_of(TOLERATIONS))
def test_a_pod_tolerates(_what: str, toleration: Fragment, expected: Expected) -> None:
    assert found({"tolerations": [toleration]}) == under("spec.tolerations[0]", expected)


@pytest.mark.parametrize(("_what", "spec", "expected"), NETWORK, ids=names_of(NETWORK))
def test_a_pod_is_found_and_finds_others(_what: str, spec: Fragment, expected: Expected) -> None:
    assert found(spec) == under("spec", expected)
