"""Security: users, privileges, profiles, sysctls, the host's namespaces, and what each operating system has."""

from typing import Any

import pytest

from pykubelet.api.validation import PodValidationOptions
from unit.api.validation_pods import (
    DUPLICATE,
    FORBIDDEN,
    INVALID,
    NOT_FOUND,
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

SECCOMP = "seccomp.security.alpha.kubernetes.io/pod"
SECCOMP_MAIN = "container.seccomp.security.alpha.kubernetes.io/main"
APP_ARMOR_MAIN = "container.apparmor.security.beta.kubernetes.io/main"
APP_ARMOR_OTHER = "container.apparmor.security.beta.kubernetes.io/other"


def windows(**options: Any) -> dict[str, Any]:
    return {"windowsOptions": options}


OF_BOTH: list[Row] = [
    ("a user and a group", {"runAsUser": 0, "runAsGroup": 2**31 - 1}, []),
    ("ids are not negative", {"runAsUser": -1, "runAsGroup": -1}, [("runAsUser", INVALID), ("runAsGroup", INVALID)]),
    ("ids have 31 bits", {"runAsUser": 2**31, "runAsGroup": 2**31}, [("runAsUser", INVALID), ("runAsGroup", INVALID)]),
    ("a profile of the runtime", {"seccompProfile": {"type": "RuntimeDefault"}}, []),
    ("a profile has a type", {"seccompProfile": {}}, [("seccompProfile.type", REQUIRED)]),
    ("a profile's type is known", {"seccompProfile": {"type": "x"}}, [("seccompProfile.type", NOT_SUPPORTED)]),
    ("a profile of the host", {"seccompProfile": {"type": "Localhost", "localhostProfile": "a/b"}}, []),
    (
        "a profile of the host has a file",
        {"seccompProfile": {"type": "Localhost"}},
        [("seccompProfile.localhostProfile", REQUIRED)],
    ),
    (
        "which is below the profiles",
        {"seccompProfile": {"type": "Localhost", "localhostProfile": "/../a"}},
        [("seccompProfile.localhostProfile", INVALID)] * 2,
    ),
    (
        "no other profile has a file",
        {"seccompProfile": {"type": "Unconfined", "localhostProfile": "a"}},
        [("seccompProfile.localhostProfile", INVALID)],
    ),
    ("AppArmor by the runtime", {"appArmorProfile": {"type": "RuntimeDefault"}}, []),
    ("AppArmor has a type", {"appArmorProfile": {"localhostProfile": "a"}}, [("appArmorProfile.type", REQUIRED)]),
    ("which is known", {"appArmorProfile": {"type": "x"}}, [("appArmorProfile.type", NOT_SUPPORTED)]),
    (
        "AppArmor of the host has a name",
        {"appArmorProfile": {"type": "Localhost"}},
        [("appArmorProfile.localhostProfile", REQUIRED)],
    ),
    (
        "not an empty one",
        {"appArmorProfile": {"type": "Localhost", "localhostProfile": ""}},
        [("appArmorProfile.localhostProfile", REQUIRED)],
    ),
    (
        "without spaces around it",
        {"appArmorProfile": {"type": "Localhost", "localhostProfile": " "}},
        [("appArmorProfile.localhostProfile", INVALID)],
    ),
    (
        "and shorter than a page",
        {"appArmorProfile": {"type": "Localhost", "localhostProfile": "a" * 4096}},
        [("appArmorProfile.localhostProfile", TOO_LONG)],
    ),
    (
        "no other profile has a name",
        {"appArmorProfile": {"type": "Unconfined", "localhostProfile": "a"}},
        [("appArmorProfile.localhostProfile", INVALID)],
    ),
    ("a credential's name", windows(gmsaCredentialSpecName="A"), [("windowsOptions.gmsaCredentialSpecName", INVALID)]),
    ("a credential", windows(gmsaCredentialSpec="{}"), []),
    ("an empty credential", windows(gmsaCredentialSpec=""), [("windowsOptions.gmsaCredentialSpec", INVALID)]),
    ("a long credential", windows(gmsaCredentialSpec="x" * 65537), [("windowsOptions.gmsaCredentialSpec", INVALID)]),
]

WINDOWS_USERS = [
    ("ContainerUser", 0),
    ("domain\\user", 0),
    ("sub.domain-1\\user", 0),
    ("", 1),
    ("a\tb", 1),
    ("a\\b\\c", 1),
    ("domain\\", 1),
    ("\\user", 1),
    (".domain\\user", 1),
    ("a:b\\user", 1),
    ("d" * 256 + "\\user", 2),
    ("u" * 105, 1),
    (". .", 1),
    ("a@b", 1),
    ("..\\..", 2),
    ("a*\\b*", 2),
]

OF_CONTAINER: list[Row] = [
    ("a privileged container", {"privileged": True}, []),
    ("proc as usual", {"procMount": "Default"}, []),
    ("proc unmasked needs users of its own", {"procMount": "Unmasked"}, [("procMount", INVALID)]),
    ("proc otherwise", {"procMount": "x"}, [("procMount", NOT_SUPPORTED)]),
    ("privileged and not", {"privileged": True, "allowPrivilegeEscalation": False}, [("", INVALID)]),
    (
        "administrator and not",
        {"capabilities": {"add": ["CAP_SYS_ADMIN", "CAP_SYS_ADMIN"]}, "allowPrivilegeEscalation": False},
        [("", INVALID)] * 2,
    ),
    ("other capabilities", {"capabilities": {"add": ["SYS_ADMIN"]}, "allowPrivilegeEscalation": False}, []),
]

OF_POD: list[Row] = [
    ("groups", {"fsGroup": 1, "supplementalGroups": [1, 2]}, []),
    (
        "wrong groups",
        {"fsGroup": -1, "supplementalGroups": [1, 2**31]},
        [("fsGroup", INVALID), ("supplementalGroups[1]", INVALID)],
    ),
    (
        "policies",
        {"fsGroupChangePolicy": "Always", "supplementalGroupsPolicy": "Strict", "seLinuxChangePolicy": "Recursive"},
        [],
    ),
    (
        "unknown policies",
        {"fsGroupChangePolicy": "", "supplementalGroupsPolicy": "x", "seLinuxChangePolicy": "MountOption"},
        [
            ("fsGroupChangePolicy", NOT_SUPPORTED),
            ("supplementalGroupsPolicy", NOT_SUPPORTED),
            ("seLinuxChangePolicy", NOT_SUPPORTED),
        ],
    ),
    ("sysctls", {"sysctls": [{"name": "net.ipv4.ip_forward"}, {"name": "kernel/shm_rmid_forced"}]}, []),
    (
        "misspelled sysctls",
        {"sysctls": [{"name": ""}, {"name": "A"}, {"name": "a..b"}, {"name": "s" * 254}]},
        [("sysctls[0].name", REQUIRED), *((f"sysctls[{index}].name", INVALID) for index in (1, 2, 3))],
    ),
    ("a sysctl twice", {"sysctls": [{"name": "a.b"}] * 2}, [("sysctls[1].name", DUPLICATE)]),
]

HOST: list[Row] = [
    ("processes shared within the pod", {"shareProcessNamespace": True}, []),
    (
        "processes shared with the host too",
        {"shareProcessNamespace": True, "hostPID": True},
        [("securityContext.shareProcessNamespace", INVALID)],
    ),
    (
        "the host's network keeps its settings",
        {
            "hostNetwork": True,
            "securityContext": {"sysctls": [{"name": "net.a"}, {"name": "net/a"}, {"name": "kernel.sem"}]},
        },
        [("securityContext.sysctls[0].name", INVALID), ("securityContext.sysctls[1].name", INVALID)],
    ),
    (
        "the host's IPC keeps its settings",
        {
            "hostIPC": True,
            "securityContext": {"sysctls": [{"name": "net.a"}, {"name": "fs.mqueue.a"}, {"name": "kernel/sem"}]},
        },
        [("securityContext.sysctls[1].name", INVALID), ("securityContext.sysctls[2].name", INVALID)],
    ),
    (
        "users of its own",
        {"hostUsers": False, "containers": [container(securityContext={"procMount": "Unmasked"})]},
        [],
    ),
    (
        "users of its own and the host's namespaces",
        {"hostUsers": False, "hostNetwork": True, "hostPID": True, "hostIPC": True},
        [("hostNetwork", FORBIDDEN), ("HostPID", FORBIDDEN), ("HostIPC", FORBIDDEN)],
    ),
    (
        "users of its own and devices",
        {"hostUsers": False, "containers": [container(volumeDevices=[{"name": "v", "devicePath": "/a"}])]},
        [("containers[0].volumeDevices[0].name", NOT_FOUND), ("containers[0].volumeDevices", FORBIDDEN)],
    ),
]

ON_WINDOWS: list[Row] = [
    ("a pod for Windows", {"securityContext": windows(runAsUserName="ContainerUser")}, []),
    (
        "has nothing of Linux",
        {
            "hostUsers": True,
            "hostPID": True,
            "hostIPC": True,
            "shareProcessNamespace": False,
            "securityContext": {
                "appArmorProfile": {"type": "Unconfined"},
                "seLinuxOptions": {},
                "seccompProfile": {"type": "Unconfined"},
                "fsGroup": 0,
                "fsGroupChangePolicy": "Always",
                "sysctls": [{"name": "a.b"}],
                "runAsUser": 0,
                "runAsGroup": 0,
                "supplementalGroups": [0],
                "supplementalGroupsPolicy": "Merge",
                "seLinuxChangePolicy": "Recursive",
            },
        },
        [
            (field, FORBIDDEN)
            for field in (
                "securityContext.appArmorProfile",
                "securityContext.seLinuxOptions",
                "hostUsers",
                "hostPID",
                "hostIPC",
                "securityContext.seccompProfile",
                "securityContext.fsGroup",
                "securityContext.fsGroupChangePolicy",
                "securityContext.sysctls",
                "shareProcessNamespace",
                "securityContext.runAsUser",
                "securityContext.runAsGroup",
                "securityContext.supplementalGroups",
                "securityContext.supplementalGroupsPolicy",
                "securityContext.seLinuxChangePolicy",
            )
        ],
    ),
    ("nor without a security context", {"hostUsers": False}, [("hostUsers", FORBIDDEN)]),
    (
        "nor in its containers",
        {
            "containers": [
                container(
                    securityContext={
                        "appArmorProfile": {"type": "Unconfined"},
                        "seLinuxOptions": {},
                        "seccompProfile": {"type": "Unconfined"},
                        "capabilities": {},
                        "readOnlyRootFilesystem": False,
                        "privileged": False,
                        "allowPrivilegeEscalation": False,
                        "procMount": "Default",
                        "runAsUser": 0,
                        "runAsGroup": 0,
                    }
                )
            ]
        },
        [
            (f"containers[0].securityContext.{field}", FORBIDDEN)
            for field in (
                "appArmorProfile",
                "seLinuxOptions",
                "seccompProfile",
                "capabilities",
                "readOnlyRootFilesystem",
                "privileged",
                "allowPrivilegeEscalation",
                "procMount",
                "runAsUser",
                "runAsGroup",
            )
        ],
    ),
    ("processes of the host", {"hostNetwork": True, "securityContext": windows(hostProcess=True)}, []),
    ("have the host's network", {"securityContext": windows(hostProcess=True)}, [("hostNetwork", INVALID)]),
    (
        "all or none",
        {
            "hostNetwork": True,
            "containers": [container(securityContext=windows(hostProcess=True)), container(name="b")],
        },
        [("", INVALID)],
    ),
    (
        "as the pod says",
        {
            "hostNetwork": True,
            "securityContext": windows(hostProcess=True),
            "containers": [container(securityContext=windows(hostProcess=False))],
        },
        [("containers[0].securityContext.windowsOptions.hostProcess", INVALID)],
    ),
]

PROFILES: list[tuple[str, Fragment, Fragment, Expected]] = [
    ("a seccomp annotation", {SECCOMP: "docker/default", SECCOMP_MAIN: "localhost/a"}, {}, []),
    (
        "a wrong seccomp annotation",
        {SECCOMP: "x", SECCOMP_MAIN: "localhost//a"},
        {},
        [(f"metadata.annotations.{SECCOMP}", INVALID), (f"metadata.annotations.{SECCOMP_MAIN}", INVALID)],
    ),
    ("an AppArmor annotation", {APP_ARMOR_MAIN: "localhost/a"}, {}, []),
    ("an empty AppArmor annotation", {APP_ARMOR_MAIN: ""}, {}, []),
    ("a wrong AppArmor annotation", {APP_ARMOR_MAIN: "x"}, {}, [(f"metadata.annotations[{APP_ARMOR_MAIN}]", INVALID)]),
    (
        "an AppArmor annotation for nobody",
        {APP_ARMOR_OTHER: "unconfined"},
        {},
        [(f"metadata.annotations[{APP_ARMOR_OTHER}]", INVALID)],
    ),
    (
        "seccomp twice, the same",
        {SECCOMP: "docker/default", SECCOMP_MAIN: "localhost/a"},
        {
            "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [
                container(securityContext={"seccompProfile": {"type": "Localhost", "localhostProfile": "a"}})
            ],
        },
        [],
    ),
    (
        "seccomp twice, not the same",
        {SECCOMP: "runtime/default", SECCOMP_MAIN: "localhost/a"},
        {
            "securityContext": {"seccompProfile": {"type": "Unconfined"}},
            "containers": [
                container(securityContext={"seccompProfile": {"type": "Localhost", "localhostProfile": "b"}})
            ],
        },
        [
            ("spec.securityContext.seccompProfile.type", FORBIDDEN),
            ("spec.containers[0].securityContext.seccompProfile.localhostProfile", FORBIDDEN),
        ],
    ),
    (
        "AppArmor twice, once for the whole pod",
        {APP_ARMOR_MAIN: "unconfined"},
        {"securityContext": {"appArmorProfile": {"type": "RuntimeDefault"}}},
        [("spec.containers[0].securityContext.appArmorProfile.type", FORBIDDEN)],
    ),
    (
        "AppArmor twice, the container's own counts",
        {APP_ARMOR_MAIN: "unconfined"},
        {
            "securityContext": {"appArmorProfile": {"type": "RuntimeDefault"}},
            "containers": [container(securityContext={"appArmorProfile": {"type": "Unconfined"}})],
        },
        [],
    ),
    (
        "AppArmor of Docker is not a name",
        {APP_ARMOR_MAIN: "runtime/default"},
        {"securityContext": {"appArmorProfile": {"type": "Localhost", "localhostProfile": "a"}}},
        [("spec.containers[0].securityContext.appArmorProfile.type", FORBIDDEN)],
    ),
]


@pytest.mark.parametrize(("_what", "context", "expected"), OF_BOTH, ids=names_of(OF_BOTH))
def test_pod_and_container_have_these_rules_in_common(_what: str, context: Fragment, expected: Expected) -> None:
    assert found({"securityContext": context}) == under("spec.securityContext", expected)
    containers = [container(securityContext=context)]
    assert found({"containers": containers}) == under("spec.containers[0].securityContext", expected)


@pytest.mark.parametrize(("_what", "context", "expected"), OF_CONTAINER, ids=names_of(OF_CONTAINER))
def test_a_container_is_confined_in_one_way(_what: str, context: Fragment, expected: Expected) -> None:
    containers = [container(securityContext=context)]
    assert found({"containers": containers}) == under("spec.containers[0].securityContext", expected)


@pytest.mark.parametrize(("_what", "context", "expected"), OF_POD, ids=names_of(OF_POD))
def test_a_pod_sets_groups_policies_and_sysctls(_what: str, context: Fragment, expected: Expected) -> None:
    assert found({"securityContext": context}) == under("spec.securityContext", expected)


@pytest.mark.parametrize(("_what", "spec", "expected"), HOST, ids=names_of(HOST))
def test_what_is_shared_with_the_host_stays_as_it_is(_what: str, spec: Fragment, expected: Expected) -> None:
    assert found(spec) == under("spec", expected)


@pytest.mark.parametrize(("_what", "spec", "expected"), ON_WINDOWS, ids=names_of(ON_WINDOWS))
def test_a_windows_pod_has_what_windows_has(_what: str, spec: Fragment, expected: Expected) -> None:
    assert found({"os": {"name": "windows"}} | dict(spec)) == under("spec", expected)


@pytest.mark.parametrize(("_what", "annotations", "spec", "expected"), PROFILES, ids=[row[0] for row in PROFILES])
def test_old_annotations_agree_with_the_fields(
    _what: str, annotations: Fragment, spec: Fragment, expected: Expected
) -> None:
    assert found(spec, {"annotations": annotations}) == expected


@pytest.mark.parametrize(("user", "faults"), WINDOWS_USERS)
def test_a_windows_user_is_spelled_as_windows_wants_it(user: str, faults: int) -> None:
    spec = {"securityContext": windows(runAsUserName=user)}
    assert found(spec) == [("spec.securityContext.windowsOptions.runAsUserName", INVALID)] * faults


def test_a_linux_pod_has_no_windows_options() -> None:
    spec = {
        "os": {"name": "linux"},
        "securityContext": windows(),
        "containers": [container(securityContext=windows())],
    }
    assert found(spec) == [
        ("spec.securityContext.windowsOptions", FORBIDDEN),
        ("spec.containers[0].securityContext.windowsOptions", FORBIDDEN),
    ]


def test_a_windows_pod_has_no_app_armor_to_agree_with() -> None:
    spec = {"os": {"name": "windows"}, "securityContext": {"appArmorProfile": {"type": "RuntimeDefault"}}}
    faults = found(spec, {"annotations": {APP_ARMOR_MAIN: "unconfined"}})
    assert faults == [("spec.securityContext.appArmorProfile", FORBIDDEN)]


def test_a_cluster_may_forbid_privileges() -> None:
    options = PodValidationOptions(allow_privileged=False)
    spec = {
        "hostNetwork": True,
        "containers": [container(securityContext={"privileged": True} | windows(hostProcess=True))],
    }
    assert found(spec, options=options) == [
        ("spec.containers[0].securityContext.privileged", FORBIDDEN),
        ("spec", FORBIDDEN),
    ]
