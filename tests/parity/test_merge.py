"""The merge of pod sources, replayed against what the Go kubelet delivers for the same updates."""

from datetime import UTC, datetime
from typing import Any, Final

from kit.vectors import Case, replay, unequal
from pykubelet.api.container import Container
from pykubelet.api.meta import ObjectMeta
from pykubelet.api.pod import Pod, PodSpec, PodStatus
from pykubelet.api.rules.well_known import SEEN_ANNOTATION
from pykubelet.api.struct import rfc3339
from pykubelet.pod.lifecycle.merge import Merge, Notify
from pykubelet.pod.lifecycle.pod_update import PodUpdate

_NOW: Final = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_sources_merge_into_upstreams_deliveries() -> None:
    replay("merge", _difference)


def _difference(case: Case) -> str:
    merge = Merge(Notify(case["mode"]))
    for number, step in enumerate(case["steps"]):
        where = f"{case['name']} ({case['mode']}), step {number}: {step['op']} of {step['source']}"
        ours = [_short_update(update) for update in _applied(merge, step)]
        recorded = [{**update, "pods": update["pods"] or []} for update in step["out"] or ()]
        faults = [
            unequal(where, ours, recorded),
            unequal(f"{where}, sources seen", sorted(merge.seen), step["sourcesSeen"] or []),
        ]
        if any(faults):
            return "\n".join(filter(None, faults))
    return ""


def _applied(merge: Merge, step: dict[str, Any]) -> tuple[PodUpdate, ...]:
    source, pods = step["source"], [_pod(each) for each in step["pods"] or ()]
    match step["op"]:
        case "SET":
            return merge.set(source, pods, _NOW)
        case "REMOVE":
            return merge.remove(source, [pod.metadata.uid for pod in pods])
        case "ADD" | "UPDATE" | "DELETE":
            return merge.upsert(source, pods, _NOW)
        case other:
            raise ValueError(f"no such operation: {other}")


def _pod(short: dict[str, Any]) -> Pod:
    deletion = short.get("deletionTimestamp")
    return Pod(
        metadata=ObjectMeta(
            uid=short["uid"],
            name=short["name"],
            namespace=short["namespace"],
            labels=short.get("labels") or {},
            annotations=short.get("annotations") or {},
            deletion_timestamp=datetime.fromisoformat(deletion) if deletion else None,
            deletion_grace_period_seconds=short.get("deletionGracePeriodSeconds"),
        ),
        spec=PodSpec(node_name="n", containers=(Container(name="c", image=short.get("image", "")),)),
        status=PodStatus(phase=short.get("phase", "")),
    )


def _short_update(update: PodUpdate) -> dict[str, Any]:
    pods = sorted((_short(pod) for pod in update.pods), key=lambda pod: str(pod["uid"]))
    return {"op": str(update.op), "source": update.source, "pods": pods}


def _short(pod: Pod) -> dict[str, Any]:
    meta = pod.metadata
    written = {
        "labels": dict(meta.labels),
        "annotations": {k: "<time>" if k == SEEN_ANNOTATION else v for k, v in meta.annotations.items()},
        "image": pod.spec.containers[0].image,
        "deletionTimestamp": rfc3339(meta.deletion_timestamp) if meta.deletion_timestamp else "",
        "phase": pod.status.phase,
    }
    short: dict[str, Any] = {"uid": meta.uid, "name": meta.name, "namespace": meta.namespace}
    short |= {key: value for key, value in written.items() if value}
    if meta.deletion_grace_period_seconds is not None:
        short["deletionGracePeriodSeconds"] = meta.deletion_grace_period_seconds
    return short
