"""Charges the quotas of a namespace for what is written into it, before it is written: each quota is compared and then
replaced, so that no two writes get the last place.

What is being written is remembered until it is there, so that whoever counts meanwhile does not forget it.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Final

from pykubelet.apiserver import status
from pykubelet.apiserver.backend import Backend
from pykubelet.apiserver.objects import UNREADABLE, Object, of_entry, stored
from pykubelet.apiserver.schema.resources import Resource
from pykubelet.apiserver.status import ApiError
from pykubelet.apiserver.store.port import Entry, Stale
from pykubelet.apiserver.strategies.quota_rules import Charge, Refused, charged, charges, handles, refunded
from pykubelet.apiserver.strategies.quota_usage import Usage

_FREE: Final = (("", "events"), ("events.k8s.io", "events"))
"""What nobody counts."""


_FREE_OF_CHARGE: Final = nullcontext()
Replace = Callable[[Resource, Entry, bytes], Awaitable[int]]
"""Of the writer: raises Stale, and 404."""


def charging(
    backend: Backend,
    replace: Replace,
    resource: Resource,
    obj: Object,
    old: Object | None,
    part: str,
    *,
    dry_run: bool = False,
) -> AbstractAsyncContextManager[None]:
    """While this lasts, the object may be written. It is given back when that fails. Raises 403."""
    due = _due(backend, resource, obj, old, part) if obj["metadata"].get("namespace") in backend.quotas else []
    return _paying(backend, None if dry_run else replace, resource, obj, due) if due else _FREE_OF_CHARGE


@asynccontextmanager
async def _paying(
    backend: Backend, replace: Replace | None, resource: Resource, obj: Object, due: list[Charge]
) -> AsyncGenerator[None, None]:
    namespace, paid = obj["metadata"]["namespace"], list[Charge]()
    backend.charges.setdefault(namespace, []).extend(due)
    try:
        for each in due:
            await _change(backend, replace, namespace, each, charged)
            paid.append(each)
        yield
    except Exception as error:  # but not for who hangs up: it may be written all the same, and whoever counts finds out
        for each in paid if replace is not None else ():
            await _change(backend, replace, namespace, each, refunded)
        if isinstance(error, Refused):
            raise _forbidden(resource, obj, error) from None
        raise
    finally:
        for each in due:
            backend.charges[namespace].remove(each)
        if not backend.charges[namespace]:
            backend.charges.pop(namespace)


def _due(backend: Backend, resource: Resource, obj: Object, old: Object | None, part: str) -> list[Charge]:
    kind = (resource.group, resource.plural)
    if kind in _FREE or not handles(kind, obj, old, part):
        return []
    entries = list(backend.quotas.get(obj["metadata"]["namespace"], {}).values())
    try:
        return list(charges(map(of_entry, entries), kind, obj, old, backend.now()))
    except Refused as error:
        raise _forbidden(resource, obj, error) from None
    except UNREADABLE as error:  # nobody knows what such a quota allows
        raise status.internal(f"a quota of the namespace cannot be read: {error!r}") from None


async def _change(
    backend: Backend, replace: Replace | None, namespace: str, charge: Charge, how: Callable[[Object, Usage], Object]
) -> None:
    """Raises Refused. A quota that is gone, or is another one by now, asks for nothing."""
    quotas = backend.resources.of("", "resourcequotas")
    entry = await backend.cache.get_newest(quotas.key(namespace, charge.quota))
    while entry is not None:
        live = backend.object_of(quotas, entry.value, entry.revision)
        if live["metadata"].get("uid") != charge.uid:
            return
        new = how(live, charge.delta)
        if replace is None:
            return
        try:
            await replace(quotas, entry, stored(new))
            return
        except Stale as stale:
            entry = stale.entry
        except ApiError:
            return


def _forbidden(resource: Resource, obj: Object, why: Refused) -> ApiError:
    return status.forbidden(resource.plural, obj["metadata"].get("name", ""), str(why), resource.group)
