"""What only a kubelet can answer, passed on to it: logs, exec, attach, port-forward, and proxies to nodes and pods.

The kubelet sees us, by our own certificate, and never the client's credentials: whether he may was decided before.
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import Final
from urllib.parse import quote, urlencode

import aiohttp
from aiohttp import web
from yarl import URL

from pykubelet.apiserver import status
from pykubelet.apiserver.backend import Backend
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.requests.calls import Call
from pykubelet.apiserver.requests.options import flag
from pykubelet.apiserver.subresources.log_options import log_options
from pykubelet.apiserver.subresources.passing_on import refusal, streamed, tunnelled, unreachable, why
from pykubelet.apiserver.subresources.targets import Target, Targets
from pykubelet.apiserver.verbs.handlers import Connect
from pykubelet.web.unverified import unverified_context
from pykubelet.web.upgrade import wants_upgrade

Contexts = Callable[[bool], ssl.SSLContext]
"""whether the kubelet's certificate need not be verified -> TLS for connections to kubelets; blocking"""

_STREAMS: Final = {"stdin": "input", "stdout": "output", "stderr": "error", "tty": "tty"}
_SHORT: Final = aiohttp.ClientTimeout(total=10.0)


class KubeletProxy:
    """Each method is a connection for the server's table."""

    def __init__(self, contexts: Contexts, targets: Targets, *, insecure: bool = False) -> None:
        """`insecure`: kubelets are believed whatever their certificate; for trying things out."""
        self._contexts = contexts
        self._targets = targets
        self._insecure = insecure

    def connections(self) -> dict[tuple[str, str, str], Connect]:
        return {
            ("", "pods", "attach"): self.attach,
            ("", "pods", "exec"): self.exec,
            ("", "pods", "log"): self.log,
            ("", "pods", "portforward"): self.port_forward,
            ("", "pods", "proxy"): self.pod,
            ("", "nodes", "proxy"): self.node,
            ("", "services", "proxy"): self.service,
        }

    async def log(self, request: web.Request, call: Call, backend: Backend) -> web.StreamResponse:
        options = log_options(request.query, call.info.name)
        pod = await backend.live("pods", call.info.namespace, call.info.name)
        container = container_name(pod, request.query.get("container", ""))
        if not at(pod, "spec.nodeName"):
            return web.Response(text="")
        target = _target("containerLogs", pod, container) + (f"?{urlencode(options)}" if options else "")
        insecure = flag(request.query, "insecureSkipTLSVerifyBackend")
        node = at(pod, "spec.nodeName")
        return await self._pass_on(request, backend, node, target, insecure=insecure, says_why=True)

    async def exec(self, request: web.Request, call: Call, backend: Backend) -> web.StreamResponse:
        return await self._session(request, call, backend, "exec")

    async def attach(self, request: web.Request, call: Call, backend: Backend) -> web.StreamResponse:
        return await self._session(request, call, backend, "attach")

    async def port_forward(self, request: web.Request, call: Call, backend: Backend) -> web.StreamResponse:
        pod = await backend.live("pods", call.info.namespace, call.info.name)
        node = _node_of(pod)
        query = urlencode([("port", port) for port in request.query.getall("ports", [])])
        target = _target("portForward", pod) + (f"?{query}" if query else "")
        return await self._upgrade(request, backend, node, target, says_why=True)

    async def node(self, request: web.Request, call: Call, backend: Backend) -> web.StreamResponse:
        target = _rest(request, call)
        if wants_upgrade(request):
            return await self._upgrade(request, backend, call.info.name, target)
        return await self._pass_on(request, backend, call.info.name, target)

    async def pod(self, request: web.Request, call: Call, backend: Backend) -> web.StreamResponse:
        """To the pod itself. Its name may be `scheme:name:port`."""
        scheme, name, port = proxied(call.info.name)
        pod = await backend.live("pods", call.info.namespace, name)
        return await _proxy(request, call, scheme, await self._targets.pod(backend, pod, port))

    async def service(self, request: web.Request, call: Call, backend: Backend) -> web.StreamResponse:
        """To one of the pods behind it. Its name may be `scheme:name:port`."""
        scheme, name, port = proxied(call.info.name)
        return await _proxy(
            request, call, scheme, await self._targets.service(backend, call.info.namespace, name, port)
        )

    async def text(self, backend: Backend, node: str, target: str) -> str:
        """What the kubelet of a node answers us, for ourselves. Raises ApiError."""
        to = await self._targets.kubelet(backend, node)
        context = await asyncio.to_thread(self._contexts, self._insecure)
        url = URL(f"https://{to.shown}{target}", encoded=True)
        connector = aiohttp.TCPConnector(ssl=context, force_close=True)
        async with aiohttp.ClientSession(connector=connector, timeout=_SHORT) as session:
            try:
                async with session.get(url, allow_redirects=False, server_hostname=to.name) as answer:
                    if answer.status != 200:
                        raise await refusal(answer, to.where)
                    return await answer.text()
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                raise unreachable(to, why(error)) from None

    async def _session(self, request: web.Request, call: Call, backend: Backend, what: str) -> web.StreamResponse:
        pod = await backend.live("pods", call.info.namespace, call.info.name)
        container = container_name(pod, request.query.get("container", ""))
        node = _node_of(pod)
        query = [(theirs, "1") for ours, theirs in _STREAMS.items() if flag(request.query, ours)]
        query += [("command", each) for each in request.query.getall("command", [])]
        target = f"{_target(what, pod, container)}?{urlencode(query)}"
        return await self._upgrade(request, backend, node, target, says_why=True)

    async def _upgrade(
        self, request: web.Request, backend: Backend, node: str, target: str, *, says_why: bool = False
    ) -> web.StreamResponse:
        if not wants_upgrade(request):
            raise status.bad_request("Upgrade request required")
        to = await self._targets.kubelet(backend, node)
        context = await asyncio.to_thread(self._contexts, self._insecure)
        return await tunnelled(request, to, target, context, says_why=says_why)

    async def _pass_on(
        self,
        request: web.Request,
        backend: Backend,
        node: str,
        target: str,
        *,
        insecure: bool = False,
        says_why: bool = False,
    ) -> web.StreamResponse:
        """`says_why`: a refusal is told in the words of the API, instead of as the kubelet has put it."""
        to = await self._targets.kubelet(backend, node)
        context = await asyncio.to_thread(self._contexts, self._insecure or insecure)
        return await streamed(request, to, target, context, says_why=says_why)


def container_name(pod: Object, wanted: str) -> str:
    """The container that is meant; without a name there must be only one. Raises 400."""
    spec, name = pod["spec"], pod["metadata"]["name"]
    parts = ("initContainers", "containers", "ephemeralContainers")
    everything = [each["name"] for part in parts for each in spec.get(part) or ()]
    if wanted:
        if wanted not in everything:
            raise status.bad_request(f"container {wanted} is not valid for pod {name}")
        return wanted
    containers = spec.get("containers") or []
    if len(containers) == 1:
        return str(containers[0]["name"])
    choice = f", choose one of: [{' '.join(everything)}]" if containers else ""
    raise status.bad_request(f"a container name must be specified for pod {name}{choice}")


def proxied(text: str) -> tuple[str, str, str]:
    """`scheme:name:port`, `name:port` or `name` -> all three. Raises 400."""
    match text.split(":"):
        case [name]:
            return "http", name, ""
        case [name, port]:
            return "http", name, port
        case ["http" | "https" | "" as scheme, name, port]:
            return scheme or "http", name, port
    raise status.bad_request(f'invalid request "{text}": it has to be name, name:port or https:name:port')


def _node_of(pod: Object) -> str:
    node = at(pod, "spec.nodeName", "")
    if not node:
        raise status.bad_request(f"pod {pod['metadata']['name']} does not have a host assigned")
    return str(node)


def _target(what: str, pod: Object, *more: str) -> str:
    metadata = pod["metadata"]
    return "/" + "/".join(quote(each, safe="") for each in (what, metadata["namespace"], metadata["name"], *more))


def _rest(request: web.Request, call: Call) -> str:
    """What comes after `/proxy` in the path, as it was written, and the query. It begins with a slash: whatever else
    came right after an address could make another one of it."""
    path = call.info.raw_rest or "/"
    query = request.rel_url.raw_query_string
    return f"{path}?{query}" if query else path


async def _proxy(request: web.Request, call: Call, scheme: str, to: Target) -> web.StreamResponse:
    context = unverified_context() if scheme == "https" else None  # nobody can vouch for a pod's certificate
    target = _rest(request, call)
    if wants_upgrade(request):
        return await tunnelled(request, to, target, context)
    return await streamed(request, to, target, context)
