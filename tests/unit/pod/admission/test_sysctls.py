"""Kernel settings: which are allowed, and which of those only without the host's namespaces."""

from typing import Any

import pytest

from pykubelet.pod.admission.sysctls import Sysctls, safe_sysctls
from unit.pod.admission_pods import pod


def fault(*names: str, allowed: tuple[str, ...] = (), **spec: Any) -> str:
    context = {"sysctls": [{"name": name, "value": "1"} for name in names]}
    return Sysctls(allowed).fault(pod(securityContext=context, **spec))


@pytest.mark.parametrize(
    ("names", "allowed", "spec", "said"),
    [
        pytest.param([], [], {}, "", id="no setting, no fault"),
        pytest.param(["kernel.sem"], ["kernel.sem"], {}, "", id="an allowed name"),
        pytest.param(["kernel.sem"], [], {}, '"kernel.sem" not allowlisted', id="a name that is not allowed"),
        pytest.param(["net.core.somaxconn"], ["net.core.*"], {}, "", id="an allowed pattern"),
        pytest.param(["net.ipv4.x"], ["net.core.*"], {}, '"net.ipv4.x" not allowlisted', id="not of the pattern"),
        pytest.param(["kernel.shmmax"], ["kernel.shm*"], {}, "", id="an old pattern of names"),
        pytest.param(["net/core/somaxconn"], ["net.core.*"], {}, "", id="slashes separate as dots do"),
        pytest.param(["net.core.somaxconn"], ["net/core/*"], {}, "", id="slashes separate in patterns too"),
        pytest.param(
            ["net/ipv4/conf/eth0.1/x"], [], {}, '"net.ipv4.conf.eth0/1.x" not allowlisted', id="told by its usual name"
        ),
        pytest.param(["fs.mqueue.msg_max"], ["fs.mqueue.*"], {}, "", id="message queues are apart for each pod"),
        pytest.param(
            ["net.core.x"],
            ["net.core.*"],
            {"hostNetwork": True},
            '"net.core.x" not allowed with host Net enabled',
            id="nothing of the network with the host's network",
        ),
        pytest.param(
            ["kernel.sem"],
            ["kernel.sem"],
            {"hostIPC": True},
            '"kernel.sem" not allowed with host IPC enabled',
            id="nothing of IPC with the host's IPC",
        ),
        pytest.param(["kernel.sem"], ["kernel.sem"], {"hostNetwork": True}, "", id="IPC with the host's network"),
        pytest.param(
            ["kernel.sem", "vm.swappiness"], ["kernel.sem"], {}, '"vm.swappiness" not allowlisted', id="the first fault"
        ),
    ],
)
def test_settings_of_a_pod(names: list[str], allowed: list[str], spec: dict[str, Any], said: str) -> None:
    assert fault(*names, allowed=tuple(allowed), **spec) == said


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("vm.swappiness", "not known to be namespaced"),
        ("*", "not known to be namespaced"),
        ("net*", "not known to be namespaced"),
        ("kernel.*", "not known to be namespaced"),
        ("net.*.x", "must have at most 253 characters"),
        ("net.ipv4." + "x" * 250, "must have at most 253 characters"),
        ("", "must have at most 253 characters"),
    ],
)
def test_what_the_kernel_does_not_keep_apart_cannot_be_allowed(pattern: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Sysctls([pattern])


def test_a_setting_is_safe_from_the_kernel_on_that_keeps_it_apart() -> None:
    assert "net.ipv4.tcp_rmem" in safe_sysctls("4.15.0-20-generic")
    assert "net.ipv4.tcp_rmem" not in safe_sysctls("4.14.336")
    assert "net.ipv4.tcp_fin_timeout" not in safe_sysctls("4.5")
    assert len(safe_sysctls("6.1.0")) == 12


@pytest.mark.parametrize("kernel", ["", "unknown", "6"])
def test_an_unknown_kernel_has_only_what_every_kernel_has(kernel: str) -> None:
    assert len(safe_sysctls(kernel)) == 5


def test_every_safe_setting_can_be_allowed() -> None:
    assert fault(*safe_sysctls("6.1"), allowed=safe_sysctls("6.1")) == ""
