"""Programs that containerd's CRI side has lost sight of.

When a caller goes away in the middle of a start, containerd may give the container up while its task, as it calls the
running program, stays. From then on its CRI side neither stops the task, since it knows of none, nor removes the
container, since it has one. Containerd's own service can, and listens on the same socket.
"""

import asyncio
import signal
from contextlib import suppress
from typing import Final

from google.protobuf.empty_pb2 import Empty

from pykubelet.base.errors import NotFound, PykubeletError, Retry
from pykubelet.runtime.cri._gen import containerd_tasks_pb2 as containerd
from pykubelet.web.grpc_channel import Channel

_TASKS: Final = "containerd.services.tasks.v1.Tasks"
_NAMESPACE: Final = (("containerd-namespace", "k8s.io"),)
_PATIENCE: Final = 5.0
_PAUSE: Final = 0.05


async def end_lost_task(channel: Channel, container_id: str) -> bool:
    """Kill what runs in a container that should run no more. -> whether nothing runs in it now; not every runtime is
    containerd, and can be asked."""
    try:
        await _end(channel, container_id)
    except NotFound:
        return True
    except PykubeletError:
        return False
    return True


async def _end(channel: Channel, container_id: str) -> None:
    loop = asyncio.get_running_loop()
    patience = loop.time() + _PATIENCE
    kill = containerd.KillRequest(container_id=container_id, signal=signal.SIGKILL, all=True)
    delete = containerd.DeleteTaskRequest(container_id=container_id)
    with suppress(Retry):  # it was made, but never started
        await channel.call(f"{_TASKS}/Kill", kill, Empty, metadata=_NAMESPACE)
    while True:
        try:
            await channel.call(f"{_TASKS}/Delete", delete, containerd.DeleteResponse, metadata=_NAMESPACE)
            return
        except Retry:  # it is still dying
            if loop.time() > patience:
                raise
        await asyncio.sleep(_PAUSE)
