"""No field of a security context is forgotten: each is honoured, refused, or listed with what becomes of it."""

from typing import Any

import msgspec
import pytest

from pykubelet.api.rules.well_known import APP_ARMOR_PREFIX
from pykubelet.api.security import (
    AppArmorProfile,
    PodSecurityContext,
    SecurityContext,
    SELinuxOptions,
    WindowsSecurityContextOptions,
)
from pykubelet.api.struct import changed
from pykubelet.base.errors import Invalid
from pykubelet.runtime.process.abilities import Abilities
from pykubelet.runtime.process.unhonoured import CONTAINER_FIELDS, POD_FIELDS, refuse_unhonoured
from unit.runtime.process.machine import sandbox_of

ROOT = Abilities(uid=0, gid=0, namespaces=True)
LABELS = SELinuxOptions(level="s0:c1,c2")


@pytest.mark.parametrize(("context", "known"), [(SecurityContext, CONTAINER_FIELDS), (PodSecurityContext, POD_FIELDS)])
def test_every_field_has_its_place(context: type[Any], known: dict[str, str]) -> None:
    assert {field.name for field in msgspec.structs.fields(context)} == set(known)


def refuse(abilities: Abilities = ROOT, *, own: dict[str, Any] | None = None, **shared: Any) -> None:
    pod = sandbox_of(SecurityContext(**own or {}), PodSecurityContext(**shared)).pod
    refuse_unhonoured(pod, "c", abilities)


@pytest.mark.parametrize("where", ["own", "shared"])
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("windows_options", WindowsSecurityContextOptions(run_as_user_name="x")),
        ("app_armor_profile", AppArmorProfile(type="RuntimeDefault")),
        ("app_armor_profile", AppArmorProfile(type="Localhost", localhost_profile="x")),
    ],
)
def test_what_cannot_be_given_is_refused_with_a_remedy(where: str, field: str, value: object) -> None:
    with pytest.raises(Invalid, match=r"^container c: \w+.* cannot be provided: .*; leave it out, or run the pod on"):
        refuse(**({"own": {field: value}} if where == "own" else {field: value}))


def test_all_of_proc_is_refused() -> None:
    refuse(own={"proc_mount": "Default"})
    with pytest.raises(Invalid, match="procMount Unmasked cannot be provided"):
        refuse(own={"proc_mount": "Unmasked"})


def test_labels_are_left_aside_only_where_the_kernel_has_none() -> None:
    refuse(se_linux_options=LABELS)
    guarded = changed(ROOT, se_linux=True)
    refuse(guarded, se_linux_options=SELinuxOptions())
    for wish in ({"own": {"se_linux_options": LABELS}}, {"se_linux_options": LABELS}):
        with pytest.raises(Invalid, match="seLinuxOptions cannot be provided"):
            refuse(guarded, **wish)


def test_to_be_without_a_profile_is_always_possible() -> None:
    free = AppArmorProfile(type="Unconfined")
    refuse(app_armor_profile=free)
    refuse(own={"app_armor_profile": free}, app_armor_profile=AppArmorProfile(type="RuntimeDefault"))


def test_annotations_of_old_count() -> None:
    pod = sandbox_of().pod
    for value in ("runtime/default", "localhost/x"):
        asked = changed(pod, metadata=changed(pod.metadata, annotations={f"{APP_ARMOR_PREFIX}c": value}))
        with pytest.raises(Invalid, match="appArmorProfile"):
            refuse_unhonoured(asked, "c", ROOT)
        refuse_unhonoured(asked, "other", ROOT)
