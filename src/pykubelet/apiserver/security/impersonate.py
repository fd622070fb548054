"""Acting as somebody else (`kubectl --as`), for those who may: each part of whom somebody wants to be is a right of its
own, as upstream has it."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Final
from urllib.parse import unquote

from multidict import CIMultiDictProxy

from pykubelet.api.validation import names
from pykubelet.apiserver import status
from pykubelet.apiserver.requests.request_info import RequestInfo
from pykubelet.apiserver.requests.users import (
    ANONYMOUS,
    AUTHENTICATED,
    SERVICE_ACCOUNT_PREFIX,
    SERVICE_ACCOUNTS,
    UNAUTHENTICATED,
    User,
)

_ANY: Final = "impersonate-"
_USER: Final = "Impersonate-User"
_GROUP: Final = "Impersonate-Group"
_UID: Final = "Impersonate-Uid"
_EXTRA: Final = "impersonate-extra-"
_AUTHENTICATION: Final = "authentication.k8s.io"

Check = Callable[[User, RequestInfo], Awaitable[object]]
"""Raises 403 when the user may not."""


async def acting(user: User, headers: CIMultiDictProxy[str], check: Check) -> User:
    """Whom the request is to be taken for. Raises 400 and 403: a wish to be less must never be passed over."""
    if _ANY not in " ".join(headers).lower():
        return user
    name, groups = headers.get(_USER, ""), tuple(headers.getall(_GROUP, []))
    uid, extra = headers.get(_UID, ""), _extra(headers)
    if not name:
        if groups or extra or uid:
            raise status.bad_request(f"requested to impersonate groups, a uid or extra info without {_USER}")
        return user
    account = _account(name)
    for wanted in _wanted(name, account, groups, uid, extra):
        await check(user, wanted)
    if account and not groups:
        groups = (SERVICE_ACCOUNTS, f"{SERVICE_ACCOUNTS}:{account[0]}")
    if name == ANONYMOUS.name:
        groups = groups if UNAUTHENTICATED in groups else (*groups, UNAUTHENTICATED)
    elif AUTHENTICATED not in groups and UNAUTHENTICATED not in groups:
        groups = (*groups, AUTHENTICATED)
    return User(name, groups, uid, extra)


def _wanted(
    name: str,
    account: tuple[str, str] | None,
    groups: tuple[str, ...],
    uid: str,
    extra: Mapping[str, tuple[str, ...]],
) -> Iterator[RequestInfo]:
    yield _right("serviceaccounts", account[1], account[0]) if account else _right("users", name)
    for group in groups:
        yield _right("groups", group)
    for key, values in extra.items():
        for value in values:
            yield _right("userextras", value, group=_AUTHENTICATION, part=key)
    if uid:
        yield _right("uids", uid, group=_AUTHENTICATION)


def _right(resource: str, name: str, namespace: str = "", *, group: str = "", part: str = "") -> RequestInfo:
    return RequestInfo(
        "impersonate",
        "",
        is_resource=True,
        group=group,
        version="v1",
        resource=resource,
        subresource=part,
        namespace=namespace,
        name=name,
    )


def _account(name: str) -> tuple[str, str] | None:
    """The namespace and the name of a service account, if it is the user of one."""
    if not name.startswith(SERVICE_ACCOUNT_PREFIX):
        return None
    namespace, colon, account = name.removeprefix(SERVICE_ACCOUNT_PREFIX).partition(":")
    is_one = colon and not names.dns_label(namespace) and not names.dns_subdomain(account)
    return (namespace, account) if is_one else None


def _extra(headers: CIMultiDictProxy[str]) -> Mapping[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for name, value in headers.items():
        if name.lower().startswith(_EXTRA):
            key = unquote(name.lower().removeprefix(_EXTRA))
            found[key] = (*found.get(key, ()), value)
    return found
