"""Streams into containers: the runtime says where its own streaming server takes over."""

from collections.abc import Sequence
from typing import Final

from pykubelet.base.errors import Invalid
from pykubelet.pod.ports.server import Connection, Session, StreamUrl
from pykubelet.runtime.cri._gen import cri_pb2 as cri
from pykubelet.runtime.cri.observe import SERVICE
from pykubelet.web.grpc_channel import Channel, Unimplemented

_CHECKPOINTING: Final = 300.0


class CriStreams:
    """The Streams port."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    async def exec(
        self, container_id: str, command: Sequence[str], *, stdin: bool, stdout: bool, stderr: bool, tty: bool
    ) -> StreamUrl | Session:
        request = cri.ExecRequest(
            container_id=container_id, cmd=command, stdin=stdin, stdout=stdout, stderr=stderr, tty=tty
        )
        return StreamUrl((await self._channel.call(f"{SERVICE}/Exec", request, cri.ExecResponse)).url)

    async def attach(
        self, container_id: str, *, stdin: bool, stdout: bool, stderr: bool, tty: bool
    ) -> StreamUrl | Session:
        request = cri.AttachRequest(container_id=container_id, stdin=stdin, stdout=stdout, stderr=stderr, tty=tty)
        return StreamUrl((await self._channel.call(f"{SERVICE}/Attach", request, cri.AttachResponse)).url)

    async def port_forward(self, sandbox_id: str, ports: Sequence[int]) -> StreamUrl | None:
        request = cri.PortForwardRequest(pod_sandbox_id=sandbox_id, port=ports)
        return StreamUrl((await self._channel.call(f"{SERVICE}/PortForward", request, cri.PortForwardResponse)).url)

    async def connect(self, sandbox_id: str, port: int) -> Connection:
        raise Invalid("connections into pods are made by the runtime's own streaming server")

    async def checkpoint(self, container_id: str, location: str) -> None:
        request = cri.CheckpointContainerRequest(container_id=container_id, location=location)
        try:
            await self._channel.call(
                f"{SERVICE}/CheckpointContainer", request, cri.CheckpointContainerResponse, deadline=_CHECKPOINTING
            )
        except Unimplemented:
            raise Invalid("this runtime cannot write checkpoints of containers") from None
