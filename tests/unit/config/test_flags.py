"""Flags as the Go kubelet takes them."""

from collections.abc import Callable
from typing import Any

import click
import pytest
from click.testing import CliRunner

from pykubelet.api.scheduling import Taint
from pykubelet.base.errors import Invalid
from pykubelet.config import flags
from pykubelet.config.file import KubeletConfiguration


def parse(*args: str) -> KubeletConfiguration:
    found: list[KubeletConfiguration] = []

    @click.command()
    @flags.options
    def command(**given: Any) -> None:
        found.append(flags.overridden(KubeletConfiguration(), given))

    result = CliRunner().invoke(command, args)
    if result.exception:
        raise result.exception
    return found[0]


@pytest.mark.parametrize(
    ("args", "read", "value"),
    [
        ((), lambda c: c.register_node, True),
        (("--register-node=false",), lambda c: c.register_node, False),
        (("--register-node", "--port=1"), lambda c: (c.register_node, c.port), (True, 1)),
        (("--anonymous-auth=true",), lambda c: c.authentication.anonymous.enabled, True),
        (("--client-ca-file=/ca",), lambda c: c.authentication.x509.client_ca_file, "/ca"),
        (("--authorization-mode=AlwaysAllow",), lambda c: c.authorization.mode, "AlwaysAllow"),
        (("--kube-reserved=cpu=100m,memory=1Gi",), lambda c: dict(c.kube_reserved), {"cpu": "100m", "memory": "1Gi"}),
        (("--cluster-dns", "10.0.0.10,10.0.0.11"), lambda c: c.cluster_dns, ("10.0.0.10", "10.0.0.11")),
        (
            ("--register-with-taints=a=b:NoSchedule,c:NoExecute",),
            lambda c: c.register_with_taints,
            (Taint(key="a", value="b", effect="NoSchedule"), Taint(key="c", effect="NoExecute")),
        ),
        (("--enforce-node-allocatable=",), lambda c: c.enforce_node_allocatable, ()),
    ],
)
def test_a_flag_overrides_its_field(
    args: tuple[str, ...], read: Callable[[KubeletConfiguration], object], value: object
) -> None:
    assert read(parse(*args)) == value


@pytest.mark.parametrize(
    ("flag", "fault"),
    [
        ("--register-node=perhaps", "--register-node: write true or false, not 'perhaps'"),
        ("--port=http", "--port: 'http' is not a whole number"),
        ("--kube-reserved=cpu", "--kube-reserved: write name=value"),
        ("--register-with-taints=a=b", "--register-with-taints: write key=value:Effect"),
    ],
)
def test_a_value_that_cannot_be_read_is_told_with_its_flag(flag: str, fault: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse(flag)
    assert str(caught.value).startswith(fault)


def test_every_flag_names_a_field_that_is_there() -> None:
    for flag in flags.FLAGS:
        value: object = KubeletConfiguration()
        for part in flag.field.split("."):
            value = getattr(value, part)
