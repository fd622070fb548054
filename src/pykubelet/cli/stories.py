"""Where `explain` has its stories from: the agent of this machine, its files when it does not run, an API server and
through it the agents of other nodes. All give the same JSON."""

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from pykubelet.api import codec
from pykubelet.api.pod import Pod
from pykubelet.base.errors import Invalid, NotFound, PykubeletError, Retry
from pykubelet.host.journal_files import read_journal
from pykubelet.pod import moments as m
from pykubelet.pod.story.container_facts import container_facts
from pykubelet.pod.story.diagnosis import NodeTrouble
from pykubelet.pod.story.story import VERSION, Story, story
from pykubelet.server.control_socket import ask
from pykubelet.server.logs.last_words import last_words

_DEFAULT: Final = "default"
_POD: Final = ("pod", "pods", "po")
_NODE: Final = ("node", "nodes", "no")
_WITH_PODS: Final = (
    *("deployment", "deployments", "deploy", "replicaset", "replicasets", "rs", "statefulset", "statefulsets", "sts"),
    *("daemonset", "daemonsets", "ds", "job", "jobs", "cronjob", "cronjobs", "cj", "service", "services", "svc"),
)
_LOGS: Final = Path("/var/log/pods")
Told = dict[str, Any]
"""A Story or a StoryList, as JSON has it."""


class Places(Struct, frozen=True, kw_only=True):
    state: Path | None = None
    """Of an agent of this machine."""
    kubeconfig: str = ""


class Asked(Struct, frozen=True, kw_only=True):
    name: str = ""
    """Empty: all pods that are not well."""
    namespace: str = ""
    """Empty: that of the kubeconfig's context, or else `default` for a pod and all of them for a list."""
    is_node: bool = False
    """No pod is meant that has the name."""
    everywhere: bool = False
    """A list of all namespaces, whatever the context says."""
    since: datetime | None = None


def named(words: tuple[str, ...]) -> tuple[str, str, bool]:
    """Name, namespace, and whether it is a node's: as kubectl takes them (`pod/web`, `pod web`), and as a list prints
    them (`default/web`). Raises Invalid for what has no story."""
    kinds, what = (*_POD, *_NODE, *_WITH_PODS), "/".join(words)
    if len(words) > 2 or (len(words) == 2 and words[0].lower() not in kinds):
        raise Invalid(f"explain takes one pod or node at a time, and all without a name: not {' '.join(words)}")
    scope, _, name = what.rpartition("/")
    kind = scope.lower()
    if kind in _WITH_PODS or "/" in scope or (scope and not name):
        remedy = "`kubectl get pods` lists pods, and `explain` alone tells those that are not well"
        raise Invalid(f"explain takes a pod or a node, not {what}: {remedy}")
    return name, "" if kind in (*_POD, *_NODE) else scope, kind in _NODE


async def tell(places: Places, asked: Asked) -> Told:
    """Raises NotFound when nobody knows the pod, Retry when nobody can be asked."""
    asked = _settled(places, asked)
    refusals: list[PykubeletError] = []
    found: Told | None = None
    for source in (_from_agent, _from_disk, _from_api):
        try:
            told = await source(places, asked)
        except (NotFound, Retry) as error:
            refusals.append(error)
            continue
        if told is None:
            continue
        if asked.name and told.get("state") != "Gone":
            return told
        found = _joined(found, told) if found and not asked.name else found or told  # another may have its name now
    if found is not None:
        return found
    raise next((each for each in refusals if isinstance(each, NotFound)), refusals[0] if refusals else _nobody())


def _settled(places: Places, asked: Asked) -> Asked:
    """With the namespace that is meant: kubectl, too, takes the context's where none is given."""
    if asked.namespace or asked.everywhere or not places.kubeconfig:
        return asked
    from pykubelet.kube import kubeconfig

    return replace(asked, namespace=kubeconfig.load(places.kubeconfig).namespace)


def _nobody() -> Retry:
    return Retry("there is nobody to ask: name an agent's folder with --data or --root-dir, or give --kubeconfig")


def _joined(first: Told, second: Told) -> Told:
    """What the agent itself says of a pod is worth more."""
    known = {(each["namespace"], each["name"]) for each in first["items"]}  # a mirror has another uid
    more = [
        each
        for each in second["items"]
        if (each["namespace"], each["name"]) not in known
        if each["node"] != first["node"] or not first["node"] or first.get("isStarting")
    ]
    return {**first, "items": [*first["items"], *more]}


# --- the agent of this machine


async def _from_agent(places: Places, asked: Asked) -> Told | None:
    if places.state is None:
        return None
    since = f" {asked.since.isoformat()}" if asked.since else ""
    of_one = asked.name and not asked.is_node
    question = f"explain {asked.namespace or _DEFAULT} {asked.name}{since}" if of_one else "explain"
    answer: Told = await ask(places.state / "pykubelet.sock", question)
    if asked.is_node:
        if answer["node"] != asked.name:
            raise NotFound(f"there is no node {asked.name} on this machine: its node is {answer['node']}")
        return answer
    if "error" in answer:
        everything = await ask(places.state / "pykubelet.sock", "explain")
        if asked.name and asked.name == everything.get("node"):
            return dict(everything)
        if everything.get("isStarting"):
            raise Retry(answer["error"])
        raise NotFound(answer["error"])
    return answer if asked.name else _of_namespace(answer, asked)


def _of_namespace(told: Told, asked: Asked) -> Told:
    items = [each for each in told["items"] if asked.namespace in ("", each["namespace"])]
    return {**told, "items": items}


# --- its files


async def _from_disk(places: Places, asked: Asked) -> Told | None:
    if places.state is None or asked.is_node or not (places.state / "journal").is_dir():
        return None
    try:
        await ask(places.state / "pykubelet.sock", "ping")
    except Retry:
        return await asyncio.to_thread(_read, places.state / "journal", log_root(places.state), asked)
    return None  # who runs has been asked


def log_root(state: Path) -> Path:
    """Where the agent with that state has the logs of its pods."""
    own = state / "logs"
    return own if own.is_dir() else _LOGS


def _read(folder: Path, logs: Path, asked: Asked) -> Told:
    namespace = asked.namespace or (_DEFAULT if asked.name else "")
    noted = read_journal(folder, name=asked.name, namespace=namespace)
    pods = _by_name(noted)
    if not asked.name:
        told = [_from_moments(each, asked, logs) for each in pods]
        items = [_as_json(each) for each in told if not each.is_well]
        return {"version": VERSION, "kind": "StoryList", "node": "", "items": items}
    if not pods:
        raise NotFound(f"nothing is written down of pod {namespace}/{asked.name} in {folder}")
    return _as_json(_from_moments(pods[0], asked, logs))


def _by_name(noted: list[m.Noted]) -> list[list[m.Noted]]:
    """The moments of each pod; of several that had one name, those of the last. The mirror of a static pod, which has
    a uid of its own, arrives and is not heard of again."""
    pods: dict[tuple[str, str], dict[str, list[m.Noted]]] = {}
    for each in noted:
        if each.about.uid:
            pods.setdefault((each.about.namespace, each.about.name), {}).setdefault(each.about.uid, []).append(each)
    return [max(of_name.values(), key=_weight) for of_name in pods.values()]


def _weight(moments: list[m.Noted]) -> tuple[bool, datetime]:
    has_lived = not all(isinstance(each.moment, m.Watched | m.Merged) for each in moments)
    return has_lived, moments[-1].at


def _from_moments(moments: list[m.Noted], asked: Asked, logs: Path) -> Story:
    ways = (each.moment for each in reversed(moments) if isinstance(each.moment, m.PodDeleted | m.PhaseEntered))
    last = next(ways, None)  # a static pod whose file comes back has the uid that it had
    is_gone = isinstance(last, m.PodDeleted) or (last and last.phase in (m.Phase.GONE, m.Phase.REMOVING))
    return story(
        None,
        moments,
        now=datetime.now(UTC),
        last_words=_words(moments, logs),
        trouble=NodeTrouble(agent=not is_gone),
        is_gone=bool(is_gone),
        since=asked.since,
    )


def _words(moments: list[m.Noted], logs: Path) -> dict[str, str]:
    """As far as the logs are still there."""
    about = moments[-1].about
    failed = [
        (each.name, each.restarts - (each.running_since is not None))
        for each in container_facts(None, moments)
        if each.ended is not None and each.ended.exit_code != 0
    ]
    return last_words(str(logs / f"{about.namespace}_{about.name}_{about.uid}"), failed)


# --- an API server, and through it the agents of its nodes


async def _from_api(places: Places, asked: Asked) -> Told | None:
    if not places.kubeconfig:
        return None
    from pykubelet.kube import kubeconfig  # an HTTP client takes long to load
    from pykubelet.kube.client import ApiClient, object_path
    from pykubelet.kube.credentials import Credentials

    async with ApiClient(Credentials(kubeconfig.load(places.kubeconfig)), timeout=10.0, qps=0) as server:

        async def of_node(node: str, rest: str = "", since: str | None = None) -> Told:
            path = f"{object_path('nodes', name=node, subresource='proxy')}/explain{rest}"
            found: Told = json.loads(await server.request("GET", path, params={"since": since}))
            return found

        if not asked.name:
            return await _all_of(server, of_node, object_path("pods", namespace=asked.namespace))
        namespace = asked.namespace or _DEFAULT
        if asked.is_node:
            return await of_node(asked.name)
        try:
            pod = await server.get(object_path("pods", namespace=namespace, name=asked.name), Pod)
        except NotFound:
            try:
                return await of_node(asked.name)
            except PykubeletError:
                what = f"there is no pod {asked.name} in namespace {namespace}, and no node of that name"
                raise NotFound(what) from None
        node = pod.spec.node_name
        if not node:
            return _as_json(_from_status(pod, asked.since))
        try:
            since = asked.since.isoformat() if asked.since else None
            return await of_node(node, f"/{namespace}/{asked.name}", since)
        except PykubeletError as error:
            why = f"told from its status alone, for the agent of node {node} does not tell more: {error}"
            return {**_as_json(_from_status(pod, asked.since)), "note": why}


async def _all_of(server: Any, of_node: Any, path: str) -> Told:
    class PodList(Struct, frozen=True):
        items: tuple[Pod, ...] = ()

    pods = (await server.get(path, PodList)).items
    told = {pod.metadata.uid: _from_status(pod) for pod in pods}
    unwell = {uid: _as_json(each) for uid, each in told.items() if not each.is_well}
    nodes = sorted({each.node for each in told.values() if each.node})
    answers = await asyncio.gather(*(of_node(node) for node in nodes), return_exceptions=True)
    for node, answer in zip(nodes, answers, strict=True):
        if isinstance(answer, dict):
            if not answer.get("isStarting"):  # what the agent itself says of a pod is worth more
                unwell = {uid: each for uid, each in unwell.items() if each["node"] != node}
            unwell |= {each["uid"]: each for each in answer["items"] if each["uid"] in told}
    return {"version": VERSION, "kind": "StoryList", "node": "", "pods": len(pods), "items": list(unwell.values())}


def _from_status(pod: Pod, since: datetime | None = None) -> Story:
    return story(pod, (), now=datetime.now(UTC), since=since)


def _as_json(value: Story) -> Told:
    found: Told = json.loads(codec.encode(value))
    return found
