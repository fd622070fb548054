"""Who makes a request, as authentication found out and authorization asks."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

MASTERS: Final = "system:masters"
NODES: Final = "system:nodes"
AUTHENTICATED: Final = "system:authenticated"
UNAUTHENTICATED: Final = "system:unauthenticated"
SERVICE_ACCOUNTS: Final = "system:serviceaccounts"
BOOTSTRAPPERS: Final = "system:bootstrappers"
NODE_PREFIX: Final = "system:node:"
BOOTSTRAP_PREFIX: Final = "system:bootstrap:"
SERVICE_ACCOUNT_PREFIX: Final = "system:serviceaccount:"
KUBELET_CLIENT: Final = "kube-apiserver-kubelet-client"
"""Whom kubelets know the API server as."""


class User(msgspec.Struct, frozen=True):
    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = {}
    address: str = ""
    """From where the request came, as we saw it."""

    def info(self) -> dict[str, Any]:
        """As a UserInfo of the API."""
        found: dict[str, Any] = {"username": self.name}
        if self.uid:
            found["uid"] = self.uid
        if self.groups:
            found["groups"] = list(self.groups)
        if self.extra:
            found["extra"] = {key: list(values) for key, values in self.extra.items()}
        return found


ANONYMOUS: Final = User("system:anonymous", (UNAUTHENTICATED,))


def authenticated(
    name: str, groups: tuple[str, ...] = (), uid: str = "", extra: Mapping[str, tuple[str, ...]] | None = None
) -> User:
    every = groups if AUTHENTICATED in groups else (*groups, AUTHENTICATED)
    return User(name, every, uid, extra or {})


def node_name(user: User) -> str | None:
    """The node that the user is; empty when it is one without a name, None when it is none at all."""
    if NODES not in user.groups:
        return None
    return user.name.removeprefix(NODE_PREFIX) if user.name.startswith(NODE_PREFIX) else ""


def service_account_user(namespace: str, name: str, uid: str, extra: Mapping[str, tuple[str, ...]]) -> User:
    groups = (SERVICE_ACCOUNTS, f"{SERVICE_ACCOUNTS}:{namespace}")
    return authenticated(f"{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}", groups, uid, extra)
