"""What the names of runtime classes mean, asked of an API server."""

import asyncio
import logging
from typing import Final

from pykubelet.api.meta import ObjectMeta
from pykubelet.api.struct import Struct, written
from pykubelet.base.errors import NotFound, Retry
from pykubelet.kube.before import Before
from pykubelet.kube.client import ApiClient, object_path

log = logging.getLogger(__name__)

_GROUP: Final = "node.k8s.io/v1"
_HOLDS: Final = 60.0


class RuntimeClass(Struct, frozen=True):
    """The part of it that a node needs: overhead and scheduling are in the pod when it arrives."""

    metadata: ObjectMeta = written(ObjectMeta)
    handler: str = ""


class KubeRuntimeClasses:
    """The RuntimeClasses port over HTTP. What was found is believed for a while, and for as long as the server does not
    answer: a pod that restarts should not have to wait for it."""

    def __init__(self, server: ApiClient, before: Before | None = None) -> None:
        self._server = server
        self._before = before or Before()
        self._known: dict[str, tuple[float, str]] = {}
        """By name: until when it need not be asked for, on the loop's clock, and its handler."""

    async def handler(self, name: str) -> str:
        now = asyncio.get_running_loop().time()
        until, handler = self._known.get(name, (None, ""))
        if until is not None and now < until:
            return handler
        asked = self._server.get(object_path("runtimeclasses", name=name, group=_GROUP), RuntimeClass)
        known = None if until is not None else self._before.recall(RuntimeClass, "runtimeclass", name)
        try:
            found = await (asked if known is None else self._before.or_else(asked, known))
        except NotFound:
            self._known.pop(name, None)
            self._before.drop("runtimeclass", name)
            raise NotFound(f'runtimeclass.node.k8s.io "{name}" not found') from None
        except Retry as error:
            if until is None:
                raise Retry(f"failed to lookup RuntimeClass {name}: {error}", after=error.after) from None
            log.info("runtime class %s is taken for what it was: %s", name, error)
            return handler
        if found is not known:
            self._known[name] = now + _HOLDS, found.handler
            self._before.save("runtimeclass", name, value=lambda: found)
        return found.handler
