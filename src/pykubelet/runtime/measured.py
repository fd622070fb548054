"""How long the calls of a runtime take that lives inside of the agent, and has no wire on which they could be noted."""

from collections.abc import Awaitable, Callable
from functools import partial, wraps
from typing import Any, Final, Protocol, TypeVar

from pykubelet.base.timed import CANCELLED, timed
from pykubelet.pod.moments import Journal, RuntimeCalled

_CALLS: Final = {
    "version": "Version",
    "status": "Status",
    "pods": "ListPodSandbox",
    "observe": "PodSandboxStatus",
    "run_sandbox": "RunPodSandbox",
    "stop_sandbox": "StopPodSandbox",
    "remove_sandbox": "RemovePodSandbox",
    "create_container": "CreateContainer",
    "start_container": "StartContainer",
    "update_container": "UpdateContainerResources",
    "stop_container": "StopContainer",
    "remove_container": "RemoveContainer",
    "exec_sync": "ExecSync",
    "image": "ImageStatus",
    "pull_image": "PullImage",
    "images": "ListImages",
    "remove_image": "RemoveImage",
    "image_storage": "ImageFsInfo",
    "reopen_log": "ReopenContainerLog",
}
"""What a runtime over the wire would be asked."""


class Measured(Protocol):
    journal: Journal


R = TypeVar("R", bound=Measured)


def measured(runtime: type[R]) -> type[R]:
    """A class of runtimes that note each call in their journal, under the name that the CRI has for
    it. Also for the runtimes of others: without it their calls are not counted."""
    for name, method in _CALLS.items():
        if (call := getattr(runtime, name, None)) is not None:  # not every runtime can do everything
            setattr(runtime, name, _noted(method, call))
    return runtime


def _noted(method: str, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    @wraps(call)
    async def noted(self: Measured, *args: Any, **more: Any) -> Any:
        begun = self.journal.begin("call", method)
        try:
            with timed(self.journal, partial(_called, method)):
                return await call(self, *args, **more)
        finally:
            self.journal.end(begun)

    return noted


def _called(method: str, seconds: float, error: str) -> RuntimeCalled:
    return RuntimeCalled(method, seconds, "" if error == CANCELLED else error)
