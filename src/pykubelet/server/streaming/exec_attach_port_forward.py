"""`/exec`, `/attach`, `/portForward`, `/run`, `/checkpoint`: into a container, by the runtime's own door or by ours."""

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from aiohttp import web
from msgspec.structs import asdict

from pykubelet.api.pod import ContainerState, Pod
from pykubelet.base.errors import Invalid, NotFound
from pykubelet.pod.container.logs import logged_container
from pykubelet.pod.ports.runtime import Runtime
from pykubelet.pod.ports.server import Inside, Session, Streams, StreamUrl
from pykubelet.server.application import ASKING, Handler, Route, plain
from pykubelet.server.streaming.port_forward import forward
from pykubelet.server.streaming.remote_command import serve_session
from pykubelet.server.streaming.runtime_tunnel import tunnel_to_runtime
from pykubelet.server.streaming.session_lines import wanted

_RUN_SECONDS: Final = 120.0
_MOST_PORTS: Final = 100
_MOST_SESSIONS: Final = 256
"""Of one identity at a time. An API server has one for all its users."""


class ContainerStreams:
    def __init__(
        self,
        inside: Inside,
        runtime: Runtime,
        streams: Streams,
        *,
        checkpoints: Path | None,
        idle: float = 14400.0,
        enabled: bool = True,
    ) -> None:
        self._inside = inside
        self._runtime = runtime
        self._streams = streams
        self._checkpoints = checkpoints
        self._idle = idle
        self._enabled = enabled
        self._sessions: Counter[str] = Counter()

    def routes(self) -> tuple[Route, ...]:
        pod, container = "/{namespace}/{pod}", "/{container}"
        found = [Route("POST", f"/checkpoint{pod}{container}", self._checkpoint)] if self._checkpoints else []
        for uid in ("", "/{uid}"):
            found.append(Route("POST", f"/run{pod}{uid}{container}", self._checked(self._run)))
            for method in ("GET", "POST"):
                found += [
                    Route(method, f"/exec{pod}{uid}{container}", self._checked(self._exec)),
                    Route(method, f"/attach{pod}{uid}{container}", self._checked(self._attach)),
                    Route(method, f"/portForward{pod}{uid}", self._checked(self._port_forward)),
                ]
        return tuple(found)

    def _checked(self, handler: Handler) -> Handler:
        async def disabled(_: web.Request) -> web.StreamResponse:
            return plain(405, "Debug endpoints are disabled.\n")

        async def counted(request: web.Request) -> web.StreamResponse:
            asking = request.get(ASKING)
            name = asking.name if asking else ""
            if self._sessions[name] >= _MOST_SESSIONS:
                return plain(429, f"{name} has {_MOST_SESSIONS} open streams on this node; end some of them\n")
            self._sessions[name] += 1
            try:
                return await handler(request)
            finally:
                self._sessions[name] -= 1
                if not self._sessions[name]:
                    del self._sessions[name]

        return counted if self._enabled else disabled

    async def _exec(self, request: web.Request) -> web.StreamResponse:
        streams, command = wanted(request), request.query.getall("command", [])
        if not command:
            raise Invalid("you must specify at least 1 command parameter")
        made = await self._streams.exec(self._container(request), command, **asdict(streams))
        return await self._hold(request, made, tty=streams.tty)

    async def _attach(self, request: web.Request) -> web.StreamResponse:
        streams = wanted(request)
        made = await self._streams.attach(self._container(request), **asdict(streams))
        return await self._hold(request, made, tty=streams.tty, attached=True)

    async def _hold(
        self, request: web.Request, made: StreamUrl | Session, *, tty: bool, attached: bool = False
    ) -> web.StreamResponse:
        if isinstance(made, StreamUrl):
            return await tunnel_to_runtime(request, made.url, idle=self._idle)
        return await serve_session(request, made, tty=tty, idle=self._idle, attached=attached)

    async def _port_forward(self, request: web.Request) -> web.StreamResponse:
        ports = _ports(request)
        sandbox_id = self._inside.sandbox_id(self._pod(request).metadata.uid)
        if not sandbox_id:
            raise NotFound("the pod has no sandbox that runs\n")
        made = await self._streams.port_forward(sandbox_id, ports)
        if isinstance(made, StreamUrl):
            return await tunnel_to_runtime(request, made.url, idle=self._idle)
        return await forward(request, lambda port: self._streams.connect(sandbox_id, port), ports, idle=self._idle)

    async def _run(self, request: web.Request) -> web.StreamResponse:
        command = tuple(request.query.get("cmd", "").split(" "))
        if not command[0]:
            raise Invalid("you must specify the cmd parameter")
        result = await self._runtime.exec_sync(self._container(request), command, _RUN_SECONDS)
        output = result.stdout + result.stderr
        if result.exit_code:
            return web.Response(status=500, body=output + f"\ncommand ended with code {result.exit_code}\n".encode())
        return web.Response(body=output, content_type="application/json")

    async def _checkpoint(self, request: web.Request) -> web.StreamResponse:
        pod, name = self._pod(request), request.match_info["container"]
        container_id = self._container(request)
        assert self._checkpoints is not None  # else there is no such route
        self._checkpoints.mkdir(mode=0o700, parents=True, exist_ok=True)
        full_name = f"{pod.metadata.name}_{pod.metadata.namespace}"
        path = self._checkpoints / f"checkpoint-{full_name}-{name}-{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}.tar"
        await self._streams.checkpoint(container_id, str(path))
        return web.json_response({"items": [str(path)]})

    # --- who is meant

    def _pod(self, request: web.Request) -> Pod:
        namespace, name = request.match_info["namespace"], request.match_info["pod"]
        pod = self._inside.find_pod(namespace, name, request.match_info.get("uid", ""))
        if pod is None:
            raise NotFound("pod does not exist\n")
        return pod

    def _container(self, request: web.Request) -> str:
        """The id of the one that runs."""
        pod, name = self._pod(request), request.match_info["container"]
        spec, status = pod.spec, pod.status
        if all(each.name != name for each in (*spec.containers, *spec.init_containers, *spec.ephemeral_containers)):
            raise NotFound(f'container not found ("{name}")\n')
        told = (*status.container_statuses, *status.init_container_statuses, *status.ephemeral_container_statuses)
        state = next((each.state for each in told if each.name == name), ContainerState())
        if state.running is not None:
            return logged_container(pod, name, previous=False)
        raise NotFound(f'container not found ("{name}"), {_why_it_does_not_run(state)}\n')


def _why_it_does_not_run(state: ContainerState) -> str:
    """Without a colon: clients who read answers as YAML would take the sentence for an object, and show nothing."""
    if state.terminated is not None:
        ended = state.terminated
        return f"it has ended ({ended.reason or 'Error'}, exit code {ended.exit_code})"
    reason = state.waiting.reason if state.waiting else ""
    return f"it is waiting to start ({reason})" if reason else "it has not been started yet"


def _ports(request: web.Request) -> list[int]:
    """WebSocket clients name them beforehand; with SPDY each stream says its own."""
    texts = [part for text in request.query.getall("port", []) for part in text.split(",") if part]
    if len(texts) > _MOST_PORTS or not all(text.isdecimal() and 0 < int(text) < 65536 for text in texts):
        raise Invalid("port: must be from 1 to 65535, several separated by commas")
    return [int(text) for text in texts]
