"""Acting as somebody else (`kubectl --as`): for masters alone, who may do everything anyway."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote

from multidict import CIMultiDictProxy

from pykubelet.apiserver import status
from pykubelet.apiserver.requests.users import (
    ANONYMOUS,
    AUTHENTICATED,
    MASTERS,
    SERVICE_ACCOUNT_PREFIX,
    SERVICE_ACCOUNTS,
    UNAUTHENTICATED,
    User,
)

_USER: Final = "Impersonate-User"
_GROUP: Final = "Impersonate-Group"
_UID: Final = "Impersonate-Uid"
_EXTRA: Final = "impersonate-extra-"


def acting(user: User, headers: CIMultiDictProxy[str]) -> User:
    """Whom the request is to be taken for. Raises 400 and 403: a wish to be less must never be passed over."""
    name, groups = headers.get(_USER, ""), tuple(headers.getall(_GROUP, []))
    extra = _extra(headers)
    if not name:
        if groups or extra or _UID in headers:
            raise status.bad_request(f"requested to impersonate groups, a uid or extra info without {_USER}")
        return user
    if MASTERS not in user.groups:
        why = f'User "{user.name}" cannot impersonate resource "users" in API group "" at the cluster scope'
        raise status.forbidden("users", name, why)
    if not groups and name.startswith(SERVICE_ACCOUNT_PREFIX):
        namespace = name.removeprefix(SERVICE_ACCOUNT_PREFIX).partition(":")[0]
        groups = (SERVICE_ACCOUNTS, f"{SERVICE_ACCOUNTS}:{namespace}")
    everybody = UNAUTHENTICATED if name == ANONYMOUS.name else AUTHENTICATED
    groups = groups if everybody in groups else (*groups, everybody)
    return User(name, groups, headers.get(_UID, ""), extra)


def _extra(headers: CIMultiDictProxy[str]) -> Mapping[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for name, value in headers.items():
        if name.lower().startswith(_EXTRA):
            key = unquote(name.lower().removeprefix(_EXTRA))
            found[key] = (*found.get(key, ()), value)
    return found
