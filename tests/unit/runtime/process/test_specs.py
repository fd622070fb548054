import os
import signal
from pathlib import Path
from typing import Any

import pytest

from contract.runtime import sandbox_config
from pykubelet.api.security import Capabilities, PodSecurityContext, SecurityContext
from pykubelet.api.struct import changed
from pykubelet.base.errors import Invalid
from pykubelet.pod.ports.runtime import ContainerConfig
from pykubelet.runtime.process.abilities import Abilities, isolation, limitations
from pykubelet.runtime.process.images.images import UsedImage
from pykubelet.runtime.process.images.manifest import ImageConfig
from pykubelet.runtime.process.security import CAPABILITIES, capabilities_of, user_of
from pykubelet.runtime.process.specs import check_sandbox, program_spec, sandbox_namespaces, stop_signal_of
from unit.runtime.process.machine import sandbox_of

ROOT = Abilities(uid=0, gid=0, namespaces=True, overlay=True, fresh_proc=True)
USER = Abilities(uid=1000, gid=100, namespaces=True, in_user_namespace=True, overlay=True, fresh_proc=True)
PLAIN_ROOT = Abilities(uid=0, gid=0, refusal="no", plain_is_wanted=True)
PLAIN_USER = Abilities(uid=1000, gid=100, refusal="no", plain_is_wanted=True)
ENTRY = ImageConfig(entrypoint=("/entry", "-x"), cmd=("a", "b"))


@pytest.mark.parametrize(
    ("command", "args", "image", "argv"),
    [
        (("c",), (), ImageConfig(), ["c"]),
        (("c",), ("1", "2"), ImageConfig(), ["c", "1", "2"]),
        (("c",), (), ENTRY, ["c"]),
        ((), ("1",), ENTRY, ["/entry", "-x", "1"]),
        ((), (), ENTRY, ["/entry", "-x", "a", "b"]),
        ((), (), ImageConfig(cmd=("only",)), ["only"]),
        ((), ("sleep", "9"), ImageConfig(), ["sleep", "9"]),
        ((), ("sleep", "9"), ImageConfig(cmd=("default",)), ["sleep", "9"]),
    ],
)
def test_command_and_arguments_take_the_place_of_the_images(
    command: tuple[str, ...], args: tuple[str, ...], image: ImageConfig, argv: list[str]
) -> None:
    config = ContainerConfig(name="c", image="x", command=command, args=args)
    assert program_spec(sandbox_config(), config, used(image), ROOT)["argv"] == argv


@pytest.mark.parametrize("image", [None, ImageConfig(), ImageConfig(cmd=("default",))])
def test_flags_alone_are_no_command(image: ImageConfig | None) -> None:
    config = ContainerConfig(name="c", image="x", args=("-v",))
    words = "image x has no default command here" if image is None else "image x has no default command; give"
    with pytest.raises(Invalid, match=words):
        program_spec(sandbox_config(), config, used(image) if image else None, ROOT)


def used(config: ImageConfig) -> UsedImage:
    return UsedImage(config=config, accounts=Path("/nowhere"))


def user(abilities: Abilities, own: dict[str, Any], shared: dict[str, Any], image_user: str = "") -> object:
    sandbox = sandbox_of(SecurityContext(**own), PodSecurityContext(**shared))
    return user_of(sandbox.pod, "c", image_user, None, abilities)


def test_root_becomes_whoever_is_wanted() -> None:
    assert user(ROOT, {}, {}) == {"uid": 0, "gid": 0, "groups": [0], "mapped": False}
    strict = {"supplemental_groups_policy": "Strict"}
    assert user(ROOT, {"run_as_user": 7777}, {**strict, "supplemental_groups": (5,), "fs_group": 6}) == {
        "uid": 7777,
        "gid": 0,
        "groups": [0, 5, 6],
        "mapped": False,
    }
    assert user(ROOT, {"run_as_user": 7777}, {"run_as_user": 1, "run_as_group": 9}) == {
        "uid": 7777,
        "gid": 9,
        "groups": [9],
        "mapped": False,
    }


def test_an_ordinary_user_is_called_what_is_wanted() -> None:
    assert user(USER, {}, {}) is None
    assert user(USER, {"run_as_user": 0}, {"run_as_group": 0}) is None
    wanted = user(USER, {"run_as_user": 7777}, {"run_as_group": 9})
    assert wanted == {"uid": 7777, "gid": 9, "groups": None, "mapped": True}


def test_an_ordinary_user_gives_no_groups_that_it_is_not_in() -> None:
    for field, wish in (("supplementalGroups 5", {"supplemental_groups": (9, 5)}), ("fsGroup 5", {"fs_group": 5})):
        with pytest.raises(Invalid, match=f"{field} cannot be provided: without root it can only be in group 9"):
            user(USER, {"run_as_user": 7777}, {"run_as_group": 9, **wish})
    assert user(USER, {}, {"run_as_group": 9, "supplemental_groups": (9,), "fs_group": 9}) is not None
    with pytest.raises(Invalid, match=r"fsGroup 5 cannot be provided: .* in group 27 or 100"):
        user(changed(PLAIN_USER, groups=(27, 100)), {}, {"fs_group": 5})
    assert user(changed(PLAIN_USER, groups=(27, 100)), {}, {"fs_group": 27, "supplemental_groups": (100,)}) is None


def test_groups_that_cannot_be_left_are_not_called_strict() -> None:
    strict = {"supplemental_groups_policy": "Strict"}
    assert user(USER, {}, strict) is None
    with pytest.raises(Invalid, match="supplementalGroupsPolicy Strict cannot be provided"):
        user(changed(USER, groups=(100, 27)), {}, strict)


def test_an_ordinary_user_without_namespaces_stays_itself() -> None:
    assert user(PLAIN_USER, {}, {}) is None
    assert user(PLAIN_USER, {"run_as_user": 1000}, {}) is None
    with pytest.raises(Invalid, match="wants to run as user 7777"):
        user(PLAIN_USER, {"run_as_user": 7777}, {})


def test_an_images_user_counts_where_the_pod_says_nothing() -> None:
    assert user(ROOT, {}, {}, "7777:8888") == {"uid": 7777, "gid": 8888, "groups": [8888], "mapped": False}
    assert user(ROOT, {"run_as_user": 6666}, {}, "7777:8888") == {
        "uid": 6666,
        "gid": 0,
        "groups": [0],
        "mapped": False,
    }
    with pytest.raises(Invalid, match="no-such-user"):
        user(ROOT, {}, {}, "no-such-user")


def test_root_may_be_forbidden() -> None:
    with pytest.raises(Invalid, match="runAsNonRoot"):
        user(ROOT, {}, {"run_as_non_root": True})
    with pytest.raises(Invalid, match="runAsNonRoot"):
        user(USER, {"run_as_non_root": True}, {})
    assert user(ROOT, {"run_as_non_root": False}, {"run_as_non_root": True}) is not None
    assert user(PLAIN_USER, {"run_as_non_root": True}, {}) is None


def capabilities(abilities: Abilities, **changes: tuple[str, ...]) -> set[str] | None:
    numbers = capabilities_of(SecurityContext(capabilities=Capabilities(**changes)), abilities)
    return None if numbers is None else {CAPABILITIES[number] for number in numbers}


@pytest.mark.parametrize("abilities", [ROOT, USER, PLAIN_USER])
def test_a_capability_that_does_not_exist_is_refused(abilities: Abilities) -> None:
    for wish in ("add", "drop"):
        with pytest.raises(Invalid, match="no capability FLY"):
            capabilities(abilities, **{wish: ("CAP_FLY",)})


def test_what_is_dropped_is_gone_whatever_is_added() -> None:
    usual = capabilities(ROOT)
    assert usual is not None
    assert {"MKNOD", "AUDIT_WRITE", "SETFCAP"} <= usual
    assert not {"NET_RAW", "NET_ADMIN", "SYS_ADMIN"} & usual
    assert len(usual) == 13
    assert capabilities(ROOT, add=("ALL",), drop=("NET_RAW",)) == set(CAPABILITIES) - {"NET_RAW"}
    assert capabilities(ROOT, add=("CAP_NET_ADMIN", "net_raw"), drop=("NET_RAW",)) == usual | {"NET_ADMIN"}
    assert capabilities(ROOT, drop=("ALL",), add=("KILL",)) == {"KILL"}
    assert capabilities(ROOT, drop=("ALL",), add=("ALL",)) == set()


def test_without_rules_for_devices_nobody_makes_them() -> None:
    bare = changed(ROOT, device_rules=False)
    assert "MKNOD" not in (capabilities(bare) or ())
    assert any("do not get CAP_MKNOD" in each for each in limitations(bare))
    assert "MKNOD" in (capabilities(changed(USER, device_rules=False)) or ())  # its own namespace's, good for nothing


def test_a_plain_process_has_no_capabilities_to_be_given_and_gains_none_after_dropping_them() -> None:
    with pytest.raises(Invalid, match="capability NET_ADMIN cannot be added"):
        capabilities(PLAIN_USER, add=("NET_ADMIN",))
    for drop, expected in (((), False), (("ALL",), True)):
        sandbox = sandbox_of(SecurityContext(capabilities=Capabilities(drop=drop)))
        config = ContainerConfig(name="c", command=("x",))
        spec = program_spec(sandbox, config, None, PLAIN_USER)
        assert spec["no_new_privileges"] is expected


def test_who_has_no_capabilities_has_none_to_lose() -> None:
    assert capabilities_of(SecurityContext(), PLAIN_USER) is None
    assert capabilities_of(SecurityContext(privileged=True), ROOT) is None
    everything = capabilities_of(SecurityContext(capabilities=Capabilities(add=("ALL",))), ROOT)
    assert everything == list(range(41))


@pytest.mark.parametrize(
    ("spec", "abilities", "namespaces"),
    [
        ({}, ROOT, ("uts", "ipc")),
        ({}, USER, ("user", "uts", "ipc")),
        ({}, PLAIN_ROOT, ()),
        ({"host_network": True}, ROOT, ("ipc",)),
        ({"host_ipc": True}, ROOT, ("uts",)),
        ({"share_process_namespace": True}, ROOT, ("uts", "ipc", "pid")),
        ({"share_process_namespace": True, "host_pid": True}, ROOT, ("uts", "ipc")),
    ],
)
def test_a_sandbox_has_the_namespaces_that_its_pod_wants(
    spec: dict[str, Any], abilities: Abilities, namespaces: tuple[str, ...]
) -> None:
    assert sandbox_namespaces(sandbox_of(**spec), abilities) == namespaces


def test_user_namespaces_are_refused_to_root_and_given_to_users() -> None:
    with pytest.raises(Invalid, match="hostUsers"):
        check_sandbox(sandbox_of(host_users=False), ROOT)
    check_sandbox(sandbox_of(host_users=False), USER)


@pytest.mark.parametrize(
    ("own", "image", "number"),
    [
        ("", "", signal.SIGTERM),
        ("", "SIGQUIT", signal.SIGQUIT),
        ("", "3", signal.SIGQUIT),
        ("", "INT", signal.SIGINT),
        ("SIGUSR1", "SIGQUIT", signal.SIGUSR1),
        ("SIGRTMIN+3", "", signal.SIGRTMIN + 3),
        ("SIGRTMAX-1", "", signal.SIGRTMAX - 1),
    ],
)
def test_the_stop_signal_is_the_pods_or_the_images(own: str, image: str, number: int) -> None:
    config = used(ImageConfig(stop_signal=image)) if image else None
    assert stop_signal_of(ContainerConfig(name="c", stop_signal=own), config) == number


def test_a_signal_that_does_not_exist_is_refused() -> None:
    with pytest.raises(Invalid, match="no signal SIGNAL"):
        stop_signal_of(ContainerConfig(name="c"), used(ImageConfig(stop_signal="SIGNAL")))


def test_how_pods_are_kept_apart_is_told_in_a_line() -> None:
    for abilities in (ROOT, USER, PLAIN_ROOT, PLAIN_USER):
        assert isolation(abilities).endswith(".")
        assert "\n" not in isolation(abilities)
        assert ("plain processes" in isolation(abilities)) == (not abilities.namespaces)
    assert "user namespace" in isolation(USER)
    assert "with limits" in isolation(ROOT)
    assert "with limits" not in isolation(changed(ROOT, limits_refusal="no"))


def test_limitations_say_what_is_so() -> None:
    assert not any("processor" in each or "plain" in each or "user" in each for each in limitations(ROOT))
    assert any("run as user 1000 of this machine, by whatever number" in each for each in limitations(USER))
    assert any("plain processes" in each and "(no)" in each for each in limitations(PLAIN_ROOT))
    unlimited = changed(ROOT, limits_refusal="nothing may be written", overlay=False, overlay_refusal="old kernel")
    sentences = " ".join(limitations(unlimited))
    assert "not limited (nothing may be written)" in sentences
    assert "of this machine is read-only, and each has a whole copy of its image (old kernel)" in sentences
    assert all(each.endswith(".") for each in limitations(PLAIN_USER))


def test_home_is_what_the_accounts_say() -> None:
    config = ContainerConfig(name="c", command=("x",))
    env = program_spec(sandbox_config(), config, None, ROOT)["env"]
    assert env["HOME"] == os.path.expanduser("~root")
