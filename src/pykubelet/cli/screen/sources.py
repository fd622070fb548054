"""Where `top` has what it shows from: the agent of this machine, or an API server and through it the agents of its
nodes. Both give the same values."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct

from pykubelet.api.rules.printed_pod import PrintedPod
from pykubelet.base.errors import NotFound, PykubeletError, Retry
from pykubelet.cli.screen.log_tail import follow
from pykubelet.cli.screen.pod_lines import PodLine
from pykubelet.cli.screen.view import Open
from pykubelet.cli.stories import Asked, Places, log_root, tell
from pykubelet.cli.story_text import story_text
from pykubelet.server.control_socket import ask

if TYPE_CHECKING:
    from pykubelet.kube.client import ApiClient, Params

State = Mapping[str, Any]
"""A NodeState, as JSON has it."""
_TAIL = 500


class Look(Struct, frozen=True):
    states: tuple[State, ...]
    complaint: str = ""


class Source:
    """`async with` it. With a folder of an agent that one is asked, and an API server only for what it cannot tell."""

    def __init__(self, places: Places, node: str = "") -> None:
        self._places = places
        self._node = node
        self._stack = AsyncExitStack()
        self._server: ApiClient | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def look(self) -> Look:
        """Raises Retry when nobody answers."""
        if (state := self._places.state) is None:
            return await self._look_around()
        answer = await ask(state / "pykubelet.sock", "state")
        if "error" in answer:
            raise Retry(
                "the agent tells nothing of its pods: it was started without its server or its debugging handlers"
            )
        return Look((answer,))

    async def lines(self, what: Open) -> list[str]:
        """Of an explanation, of events, or of the pod itself. Raises PykubeletError."""
        pod = what.pod
        match what.kind:
            case "explain":
                told = await tell(self._places, Asked(name=pod.name, namespace=pod.namespace))
                return story_text(told).splitlines()
            case "events":
                return await self._events(pod)
            case "yaml":
                return _yaml(await self._object(pod))
            case _:
                return []

    async def log(self, what: Open) -> AsyncIterator[list[str]]:
        """What the container has written last, and what it writes. Raises PykubeletError."""
        pod = what.pod
        if self._places.state is not None:
            folder = log_root(self._places.state) / f"{pod.namespace}_{pod.name}_{pod.uid}" / what.container
            async for lines in follow(folder):
                yield lines
            return
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/log"
        params: Params = {"container": what.container, "follow": True, "tailLines": _TAIL}
        async with (await self.server()).stream(path, params) as lines_of:
            async for line in lines_of:
                yield [line.decode(errors="replace")]

    async def server(self) -> "ApiClient":
        """Raises Retry when there is none."""
        if self._server is None:
            if not self._places.kubeconfig:
                raise Retry("this goes through an API server: give --kubeconfig")
            from pykubelet.kube import kubeconfig  # an HTTP client takes long to load
            from pykubelet.kube.client import ApiClient
            from pykubelet.kube.credentials import Credentials

            config = kubeconfig.load(self._places.kubeconfig)
            self._server = await self._stack.enter_async_context(ApiClient(Credentials(config), timeout=10.0, qps=0))
        return self._server

    # --- inside

    async def _events(self, pod: PodLine) -> list[str]:
        if self._places.state is not None:
            noted = await ask(self._places.state / "pykubelet.sock", f"journal {pod.uid}")
            told = [(each, each["moment"]) for each in noted if each["moment"].get("type") == "EventRecorded"]
            return [
                _event(each.get("until") or each["at"], each.get("times", 1), event["reason"], event["message"])
                for each, event in told
            ] or ["There are none."]
        params = {"fieldSelector": f"involvedObject.name={pod.name},involvedObject.uid={pod.uid}"}
        path = f"/api/v1/namespaces/{pod.namespace}/events"
        found = json.loads(await (await self.server()).request("GET", path, params=params))["items"]
        events = [
            _event(
                each.get("lastTimestamp") or each.get("eventTime") or each["metadata"].get("creationTimestamp") or "",
                each.get("count") or 1,
                each.get("reason", ""),
                each.get("message", ""),
            )
            for each in found
        ]
        return sorted(events) or ["There are none."]

    async def _object(self, pod: PodLine) -> dict[str, Any]:
        if self._places.state is not None:
            answer = await ask(self._places.state / "pykubelet.sock", "pods")
            for each in answer.get("items") or ():
                if each["metadata"].get("uid") == pod.uid:
                    return {"apiVersion": "v1", "kind": "Pod", **each}
            raise NotFound("it is gone")
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
        found: dict[str, Any] = json.loads(await (await self.server()).request("GET", path))
        return found

    async def _look_around(self) -> Look:
        server = await self.server()
        nodes = [self._node] if self._node else await self._nodes(server)
        answers = await asyncio.gather(*(_of_node(server, node) for node in nodes), return_exceptions=True)
        states: list[State] = []
        silent: dict[str, BaseException] = {}
        for node, answer in zip(nodes, answers, strict=True):
            if isinstance(answer, PykubeletError):
                silent[node] = answer
            elif isinstance(answer, BaseException):
                raise answer
            else:
                states.append(answer)
        if silent:
            states += await _by_status(server, set(silent))
        why = "; ".join(f"{node} tells no more than the pods' status: {error}" for node, error in silent.items())
        return Look(tuple(states), why)

    async def _nodes(self, server: "ApiClient") -> list[str]:
        found = json.loads(await server.request("GET", "/api/v1/nodes"))["items"]
        return sorted(each["metadata"]["name"] for each in found)


async def _of_node(server: "ApiClient", node: str) -> State:
    state: State = json.loads(await server.request("GET", f"/api/v1/nodes/{node}/proxy/page/state"))
    return state


async def _by_status(server: "ApiClient", nodes: set[str]) -> list[State]:
    """Of nodes with another agent, or with one that does not answer."""
    from pykubelet.api import codec
    from pykubelet.api.pod import Pod
    from pykubelet.pod.story.story import story

    pods = json.loads(await server.request("GET", "/api/v1/pods"))["items"]
    found: dict[str, list[Any]] = {node: [] for node in nodes}
    for each in pods:
        node = each.get("spec", {}).get("nodeName", "")
        if node in found:
            told = story(codec.convert(Pod, each), (), now=datetime.now(UTC))
            found[node].append(_row(each, told.is_well, told.sentence))
    return [{"node": {"name": node, "isReady": True}, "pods": rows} for node, rows in sorted(found.items())]


def _row(pod: dict[str, Any], is_well: bool, sentence: str) -> dict[str, Any]:
    meta, printed = pod["metadata"], PrintedPod(pod)
    states = {
        each["name"]: next(iter(each.get("state") or {}), "") for each in pod["status"].get("containerStatuses", ())
    }
    containers = [{"name": each["name"], "state": states.get(each["name"], "")} for each in pod["spec"]["containers"]]
    return {
        "uid": meta["uid"],
        "namespace": meta["namespace"],
        "name": meta["name"],
        "reason": printed.reason,
        "isWell": is_well,
        "sentence": sentence,
        "ready": printed.ready,
        "total": printed.total,
        "restarts": printed.restarts,
        "startedAt": pod["status"].get("startTime") or meta.get("creationTimestamp"),
        "containers": containers,
    }


def _event(at: str, times: int, reason: str, message: str) -> str:
    often = f" ({times} times)" if times > 1 else ""
    return f"{at[:19].replace('T', ' ')}  {reason}: {message}{often}"


def _yaml(value: dict[str, Any]) -> list[str]:
    import yaml

    value.get("metadata", {}).pop("managedFields", None)
    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=1000)
    return text.splitlines()
