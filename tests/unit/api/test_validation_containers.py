"""Containers: names, images, ports, probes, hooks, and what sets the kinds apart."""

import pytest

from pykubelet.api.validation import PodValidationOptions
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
    with_container,
)

TCP = {"containerPort": 80, "protocol": "TCP"}
EXEC = {"exec": {"command": ["true"]}}
LIVE = EXEC | {"successThreshold": 1}
HTTP = {"path": "/", "port": 80, "scheme": "HTTP"}


BASICS: list[Row] = [
    ("a container has a name", {"name": ""}, [("name", REQUIRED)]),
    ("a name is a DNS label", {"name": "Bad_Name"}, [("name", INVALID)]),
    ("a name has no dots", {"name": "a.b"}, [("name", INVALID)]),
    ("a name has 63 characters at most", {"name": "n" * 64}, [("name", INVALID)]),
    ("a container has an image", {"image": ""}, [("image", REQUIRED)]),
    ("an image has no spaces around it", {"image": " busybox"}, [("image", INVALID)]),
    ("nor other kinds of space", {"image": "busybox\u3000"}, [("image", INVALID)]),
    ("a termination message policy", {"terminationMessagePolicy": "x"}, [("terminationMessagePolicy", NOT_SUPPORTED)]),
    ("an empty one", {"terminationMessagePolicy": ""}, [("terminationMessagePolicy", REQUIRED)]),
    ("a pull policy", {"imagePullPolicy": "x"}, [("imagePullPolicy", NOT_SUPPORTED)]),
    ("an empty pull policy", {"imagePullPolicy": ""}, [("imagePullPolicy", REQUIRED)]),
    ("a restart policy is for init containers", {"restartPolicy": "Always"}, [("restartPolicy", FORBIDDEN)]),
    ("a resize policy", {"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}]}, []),
    (
        "a resize policy is for cpu and memory",
        {"resizePolicy": [{"resourceName": "gpu", "restartPolicy": "x"}, {}]},
        [("resizePolicy", NOT_SUPPORTED)] * 2 + [("resizePolicy", REQUIRED)] * 2,
    ),
    (
        "one resize policy for each resource",
        {"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}] * 2},
        [("resizePolicy[1]", DUPLICATE)],
    ),
]

PORTS: list[Row] = [
    ("a port", {"ports": [TCP | {"name": "http", "hostPort": 8080, "hostIP": "not checked"}]}, []),
    ("a port has a number", {"ports": [{"protocol": "TCP"}]}, [("ports[0].containerPort", REQUIRED)]),
    ("a port's number has 16 bits", {"ports": [TCP | {"containerPort": 65536}]}, [("ports[0].containerPort", INVALID)]),
    ("a host port too", {"ports": [TCP | {"hostPort": -1}]}, [("ports[0].hostPort", INVALID)]),
    ("a host port of 0 is none", {"ports": [TCP | {"hostPort": 0}]}, []),
    ("a protocol is required", {"ports": [TCP | {"protocol": ""}]}, [("ports[0].protocol", REQUIRED)]),
    ("a protocol is known", {"ports": [TCP | {"protocol": "tcp"}]}, [("ports[0].protocol", NOT_SUPPORTED)]),
    ("a port's name is short", {"ports": [TCP | {"name": "n" * 16}]}, [("ports[0].name", INVALID)]),
    ("a port's name has a letter", {"ports": [TCP | {"name": "80"}]}, [("ports[0].name", INVALID)]),
    ("a port's name is lower case", {"ports": [TCP | {"name": "A"}]}, [("ports[0].name", INVALID)] * 2),
    ("a port's name has single dashes inside", {"ports": [TCP | {"name": "-a--b"}]}, [("ports[0].name", INVALID)] * 2),
    (
        "names of ports differ",
        {"ports": [TCP | {"name": "a"}, TCP | {"name": "a"}]},
        [("ports[1].name", DUPLICATE)],
    ),
    (
        "a host port is taken once",
        {"ports": [TCP | {"hostPort": 80}, TCP | {"hostPort": 80}]},
        [("ports[1].hostPort", DUPLICATE)],
    ),
    (
        "a host port may be taken on several addresses and protocols",
        {
            "ports": [
                TCP | {"hostPort": 80},
                TCP | {"hostPort": 80, "hostIP": "10.0.0.1"},
                TCP | {"hostPort": 80, "protocol": "UDP"},
            ]
        },
        [],
    ),
]

PROBES: list[Row] = [
    ("a liveness probe", {"livenessProbe": LIVE}, []),
    ("a probe does something", {"readinessProbe": {}}, [("readinessProbe", REQUIRED)]),
    (
        "a probe does one thing",
        {"readinessProbe": EXEC | {"tcpSocket": {"port": 80}, "grpc": {"port": 80}}},
        [("readinessProbe.tcpSocket", FORBIDDEN), ("readinessProbe.grpc", FORBIDDEN)],
    ),
    ("a command is not empty", {"readinessProbe": {"exec": {}}}, [("readinessProbe.exec.command", REQUIRED)]),
    (
        "a request has a path",
        {"readinessProbe": {"httpGet": HTTP | {"path": ""}}},
        [("readinessProbe.httpGet.path", REQUIRED)],
    ),
    (
        "a request has a port",
        {"readinessProbe": {"httpGet": HTTP | {"port": 0}}},
        [("readinessProbe.httpGet.port", INVALID)],
    ),
    ("a port may have a name", {"readinessProbe": {"httpGet": HTTP | {"port": "http"}}}, []),
    (
        "a name has a letter",
        {"readinessProbe": {"httpGet": HTTP | {"port": "80"}}},
        [("readinessProbe.httpGet.port", INVALID)],
    ),
    (
        "an empty name",
        {"readinessProbe": {"tcpSocket": {"port": ""}}},
        [("readinessProbe.tcpSocket.port", INVALID)] * 2,
    ),
    (
        "a scheme is in capitals",
        {"readinessProbe": {"httpGet": HTTP | {"scheme": "http"}}},
        [("readinessProbe.httpGet.scheme", NOT_SUPPORTED)],
    ),
    (
        "a header",
        {"readinessProbe": {"httpGet": HTTP | {"httpHeaders": [{"name": "A B"}]}}},
        [("readinessProbe.httpGet.httpHeaders", INVALID)],
    ),
    ("gRPC has a port", {"readinessProbe": {"grpc": {"port": 65536}}}, [("readinessProbe.grpc.port", INVALID)]),
    (
        "no number is negative",
        {
            "readinessProbe": EXEC
            | {
                "initialDelaySeconds": -1,
                "timeoutSeconds": -1,
                "periodSeconds": -1,
                "successThreshold": -1,
                "failureThreshold": -1,
            }
        },
        under(
            "readinessProbe",
            [
                ("initialDelaySeconds", INVALID),
                ("timeoutSeconds", INVALID),
                ("periodSeconds", INVALID),
                ("successThreshold", INVALID),
                ("failureThreshold", INVALID),
            ],
        ),
    ),
    ("readiness may need several successes", {"readinessProbe": EXEC | {"successThreshold": 3}}, []),
    (
        "liveness needs one success",
        {"livenessProbe": EXEC | {"successThreshold": 2}},
        [("livenessProbe.successThreshold", INVALID)],
    ),
    (
        "start-up needs one success",
        {"startupProbe": EXEC | {"successThreshold": 2}},
        [("startupProbe.successThreshold", INVALID)],
    ),
    ("a liveness probe has a grace period", {"livenessProbe": LIVE | {"terminationGracePeriodSeconds": 1}}, []),
    (
        "which is more than 0",
        {"startupProbe": LIVE | {"terminationGracePeriodSeconds": 0}},
        [("startupProbe.terminationGracePeriodSeconds", INVALID)],
    ),
    (
        "a readiness probe has none",
        {"readinessProbe": EXEC | {"terminationGracePeriodSeconds": 0}},
        [("readinessProbe.terminationGracePeriodSeconds", INVALID)] * 2,
    ),
]

HOOKS: list[Row] = [
    ("hooks", {"lifecycle": {"postStart": EXEC, "preStop": {"sleep": {"seconds": 30}}}}, []),
    ("a hook does something", {"lifecycle": {"preStop": {}}}, [("lifecycle.preStop", REQUIRED)]),
    ("a hook may sleep for no time", {"lifecycle": {"preStop": {"sleep": {"seconds": 0}}}}, []),
    (
        "a hook does not sleep backwards",
        {"lifecycle": {"postStart": {"sleep": {"seconds": -1}}}},
        [("lifecycle.postStart.sleep", INVALID)],
    ),
    (
        "a hook sleeps within the grace period",
        {"lifecycle": {"preStop": {"sleep": {"seconds": 31}}}},
        [("lifecycle.preStop.sleep", INVALID)],
    ),
    (
        "a hook does one thing",
        {"lifecycle": {"preStop": EXEC | {"httpGet": HTTP, "tcpSocket": {"port": 0}, "sleep": {"seconds": -1}}}},
        [
            ("lifecycle.preStop.httpGet", FORBIDDEN),
            ("lifecycle.preStop.tcpSocket", FORBIDDEN),
            ("lifecycle.preStop.sleep", FORBIDDEN),
        ],
    ),
    (
        "a stop signal needs an operating system",
        {"lifecycle": {"stopSignal": "SIGTERM"}},
        [("lifecycle.stopSignal", FORBIDDEN)],
    ),
]

SIGNALS = [
    ("linux", "SIGUSR1", []),
    ("linux", "SIGRTMIN+15", []),
    ("linux", "SIGRTMIN+16", [NOT_SUPPORTED]),
    ("linux", "SIGRTMAX-14", []),
    ("linux", "SIGRTMAX-15", [NOT_SUPPORTED]),
    ("linux", "TERM", [NOT_SUPPORTED]),
    ("windows", "SIGKILL", []),
    ("windows", "SIGUSR1", [NOT_SUPPORTED]),
]


INIT: list[Row] = [
    ("an init container", {}, []),
    ("its name is its own", {"name": "main"}, [("name", DUPLICATE)]),
    (
        "a sidecar",
        {"restartPolicy": "Always", "livenessProbe": LIVE, "startupProbe": LIVE, "lifecycle": {"preStop": EXEC}},
        [],
    ),
    (
        "a sidecar's probes are checked",
        {"restartPolicy": "Always", "readinessProbe": {}},
        [("readinessProbe", REQUIRED)],
    ),
    ("no other restart policy", {"restartPolicy": "Never"}, [("restartPolicy", NOT_SUPPORTED)]),
    (
        "probes and hooks are for sidecars",
        {"livenessProbe": {}, "readinessProbe": {}, "startupProbe": {}, "lifecycle": {}},
        [
            ("lifecycle", FORBIDDEN),
            ("livenessProbe", FORBIDDEN),
            ("readinessProbe", FORBIDDEN),
            ("startupProbe", FORBIDDEN),
        ],
    ),
    ("its image has no spaces around it", {"image": "busybox\n"}, [("image", INVALID)]),
]

RULE = {"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}
RESTART_RULES: list[Row] = [
    ("a policy with rules", {"restartPolicy": "Never", "restartPolicyRules": [RULE]}, []),
    ("rules need a policy", {"restartPolicyRules": [RULE]}, [("restartPolicy", REQUIRED)]),
    ("the policy is known", {"restartPolicy": "x"}, [("restartPolicy", NOT_SUPPORTED)]),
    (
        "a rule is known and has exit codes",
        {"restartPolicy": "Never", "restartPolicyRules": [{"action": "x"}]},
        [("restartPolicyRules[0].action", NOT_SUPPORTED), ("restartPolicyRules[0].exitCodes", REQUIRED)],
    ),
    (
        "exit codes are in or not in at most 255",
        {"restartPolicy": "Never", "restartPolicyRules": [RULE | {"exitCodes": {"values": [1] * 256}}]},
        [
            ("restartPolicyRules[0].exitCodes.operator", NOT_SUPPORTED),
            ("restartPolicyRules[0].exitCodes.values", TOO_LONG),
        ],
    ),
    (
        "20 rules at most",
        {"restartPolicy": "Never", "restartPolicyRules": [RULE] * 21},
        [("restartPolicyRules", TOO_LONG)],
    ),
]

OF_ONE_CONTAINER = [*BASICS, *PORTS, *PROBES, *HOOKS]


@pytest.mark.parametrize(("_what", "fields", "expected"), OF_ONE_CONTAINER, ids=names_of(OF_ONE_CONTAINER))
def test_a_container_follows_the_rules(_what: str, fields: Fragment, expected: Expected) -> None:
    assert found(with_container(fields)) == under("spec.containers[0]", expected)


@pytest.mark.parametrize(("_what", "fields", "expected"), INIT, ids=names_of(INIT))
def test_an_init_container_follows_the_rules(_what: str, fields: Fragment, expected: Expected) -> None:
    spec = {"initContainers": [container(name="init") | dict(fields)]}
    assert found(spec) == under("spec.initContainers[0]", expected)


@pytest.mark.parametrize(("_what", "fields", "expected"), RESTART_RULES, ids=names_of(RESTART_RULES))
def test_restart_rules_are_checked_where_they_are_switched_on(_what: str, fields: Fragment, expected: Expected) -> None:
    options = PodValidationOptions(container_restart_rules=True)
    assert found(with_container(fields), options=options) == under("spec.containers[0]", expected)
    if "restartPolicy" in fields:
        spec = {"initContainers": [container(name="init") | dict(fields)]}
        assert found(spec, options=options) == under("spec.initContainers[0]", expected)


def test_a_sidecar_always_restarts_and_needs_no_rules() -> None:
    spec = {"initContainers": [container(name="side", restartPolicy="Always", restartPolicyRules=[RULE])]}
    faults = found(spec, options=PodValidationOptions(container_restart_rules=True))
    assert faults == [("spec.initContainers[0].restartPolicyRules", FORBIDDEN)]


@pytest.mark.parametrize(("os", "signal", "kinds"), SIGNALS)
def test_a_stop_signal_exists_on_the_operating_system(os: str, signal: str, kinds: list[str]) -> None:
    spec = with_container({"lifecycle": {"stopSignal": signal}}) | {"os": {"name": os}}
    assert found(spec) == [("spec.containers[0].lifecycle.stopSignal", kind) for kind in kinds]


def test_containers_have_different_names_and_host_ports() -> None:
    one = container(ports=[TCP | {"hostPort": 80}])
    assert found({"containers": [one, one]}) == [
        ("spec.containers[1].name", DUPLICATE),
        ("spec.containers[1].ports[0].hostPort", DUPLICATE),
    ]


def test_init_containers_may_share_a_host_port_since_they_run_one_by_one() -> None:
    ports = [TCP | {"hostPort": 80}]
    assert found({"initContainers": [container(name="a", ports=ports), container(name="b", ports=ports)]}) == []


def test_a_pod_that_never_restarts_is_not_restarted_for_a_resize() -> None:
    policy = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
    spec = {"restartPolicy": "Never", "containers": [container(resizePolicy=policy)]}
    assert found(spec) == [("spec.containers[0].resizePolicy", INVALID)]
