"""Which fields of others an apply would change, and what is said about it."""

import json

import pytest

from pykubelet.apiserver.patch.apply_conflicts import ApplyConflict, Cause, apply_conflicts, without_last_applied
from pykubelet.apiserver.patch.field_managers import APPLY, UPDATE, Manager, Owned
from pykubelet.apiserver.patch.fields import Fields, Path
from pykubelet.apiserver.schema.catalogue import schema_of

POD = schema_of("v1", "Pod")
ME, YOU, EDITOR = Manager("me", APPLY), Manager("you", APPLY), Manager("kubectl-edit", UPDATE, "v1")
HOST: Path = ("f:spec", "f:hostname")
DOMAIN: Path = ("f:spec", "f:subdomain")


def owners(**fields: Fields) -> dict[Manager, Owned]:
    by_name = {"me": ME, "you": YOU, "editor": EDITOR}
    return {by_name[name]: Owned(owned, "v1") for name, owned in fields.items()}


BOTH: Fields = frozenset({HOST, DOMAIN})


@pytest.mark.parametrize(
    ("owned", "changed", "causes"),
    [
        (owners(), BOTH, []),
        (owners(me=BOTH), BOTH, []),
        (owners(you=BOTH), frozenset(), []),
        (owners(you=BOTH), frozenset({("f:spec",), ("f:spec", "f:nodeName")}), []),
        (owners(you=BOTH), frozenset({HOST}), [(YOU, HOST)]),
        (owners(you=BOTH, me=BOTH, editor=frozenset({HOST})), BOTH, [(EDITOR, HOST), (YOU, HOST), (YOU, DOMAIN)]),
    ],
)
def test_what_others_own_of_what_is_changed(
    owned: dict[Manager, Owned], changed: Fields, causes: list[tuple[Manager, Path]]
) -> None:
    assert apply_conflicts(owned, ME, changed) == causes


@pytest.mark.parametrize(
    ("causes", "message"),
    [
        ([Cause(YOU, HOST)], 'Apply failed with 1 conflict: conflict with "you": .spec.hostname'),
        (
            [Cause(EDITOR, HOST), Cause(YOU, HOST), Cause(YOU, DOMAIN)],
            'Apply failed with 3 conflicts: conflicts with "kubectl-edit" using v1:\n- .spec.hostname\n'
            'conflicts with "you":\n- .spec.hostname\n- .spec.subdomain',
        ),
    ],
)
def test_a_conflict_says_whose_the_fields_are(causes: list[Cause], message: str) -> None:
    assert str(ApplyConflict(causes)) == message


LIVE = {"apiVersion": "v1", "kind": "Pod", "spec": {"hostname": "h", "subdomain": "changed since"}}
LAST = {"apiVersion": "v1", "kind": "Pod", "spec": {"hostname": "h", "subdomain": "s"}}


@pytest.mark.parametrize(
    ("last", "remaining"),
    [
        (json.dumps(LAST), {DOMAIN}),
        (json.dumps({**LAST, "spec": {}}), {HOST, DOMAIN}),
        (json.dumps({**LAST, "apiVersion": "v2"}), {HOST, DOMAIN}),
        (json.dumps({**LAST, "bogus": 1}), {HOST, DOMAIN}),
        ("[" * 100_000, {HOST, DOMAIN}),
        ("[]", {HOST, DOMAIN}),
        ("", {HOST, DOMAIN}),
    ],
)
def test_what_kubectl_applied_before_and_nobody_changed_since_is_no_conflict(last: str, remaining: set[Path]) -> None:
    causes = [Cause(EDITOR, HOST), Cause(EDITOR, DOMAIN)]
    assert {cause.path for cause in without_last_applied(causes, last, LIVE, POD, "v1")} == remaining
