"""What a new pod gets from the cluster around it: tolerations, priority, an account and its token, overhead."""

from typing import Any, Final

from pykubelet.api.rules.object_references import object_references
from pykubelet.api.rules.well_known import MIRROR_ANNOTATION, NOT_READY_TAINT, UNREACHABLE_TAINT
from pykubelet.apiserver import status
from pykubelet.apiserver.objects import Object, at, name_suffix
from pykubelet.apiserver.schema.schema import copied
from pykubelet.apiserver.strategies.base import Lookup
from pykubelet.apiserver.strategies.priority_classes import SYSTEM_PRIORITIES

_TOKEN_FOLDER: Final = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - a place, not a secret
_TOKEN_VOLUME: Final = "kube-api-access-"  # noqa: S105 - a name, not a secret
_TOLERATED: Final = (NOT_READY_TAINT, UNREACHABLE_TAINT)
_SECONDS: Final = 300


async def admit(pod: Object, lookup: Lookup) -> None:
    without = lookup.settings.without_admission
    add_default_tolerations(pod, lookup)
    if "Priority" not in without:
        await _set_priority(pod, lookup)
    if "ServiceAccount" not in without:
        await _set_account(pod, lookup)
    if "RuntimeClass" not in without:
        await _set_runtime_class(pod, lookup)


def add_default_tolerations(pod: Object, lookup: Lookup) -> None:
    if "DefaultTolerationSeconds" in lookup.settings.without_admission:
        return
    tolerations: list[dict[str, Any]] = pod["spec"].setdefault("tolerations", [])
    for taint in _TOLERATED:
        if not any(_covers(each, taint) for each in tolerations):
            tolerations.append(
                {"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _SECONDS}
            )
    if not tolerations:
        del pod["spec"]["tolerations"]


def _covers(toleration: dict[str, Any], taint: str) -> bool:
    return toleration.get("key", "") in ("", taint) and toleration.get("effect", "") in ("", "NoExecute")


async def _set_priority(pod: Object, lookup: Lookup) -> None:
    spec = pod["spec"]
    name = spec.get("priorityClassName", "")
    found: Object | None = None
    if name:
        found = await lookup.find("scheduling.k8s.io", "priorityclasses", "", name)
        if found is None and name not in SYSTEM_PRIORITIES:
            raise _forbidden(pod, f"no PriorityClass with name {name} was found")
    else:
        classes = await lookup.known("scheduling.k8s.io", "priorityclasses")
        default = [each for each in classes if each.get("globalDefault")]
        found = min(default, key=lambda each: int(each["value"])) if default else None
        if found is not None:
            spec["priorityClassName"] = found["metadata"]["name"]
    value = found["value"] if found is not None else SYSTEM_PRIORITIES.get(name, 0)
    if spec.get("priority", value) != value:
        raise _forbidden(
            pod,
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
            f"priority admission controller computed {value} from the given PriorityClass name",
        )
    spec["priority"] = value
    policy = (found or {}).get("preemptionPolicy", "PreemptLowerPriority")
    if spec.get("preemptionPolicy", policy) != policy:
        raise _forbidden(
            pod,
            f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in pod spec; "
            f"priority admission controller computed {policy} from the given PriorityClass name",
        )
    spec["preemptionPolicy"] = policy


async def _set_account(pod: Object, lookup: Lookup) -> None:
    spec, metadata = pod["spec"], pod["metadata"]
    if MIRROR_ANNOTATION in metadata.get("annotations", {}):
        _check_mirror(pod)
        return
    name = spec.get("serviceAccountName") or "default"
    spec["serviceAccountName"] = spec["serviceAccount"] = name
    namespace = metadata.get("namespace", "")
    account = await lookup.find("", "serviceaccounts", namespace, name)
    if account is None:
        # The account of a new namespace is made a moment after the namespace itself.
        if name == "default" and await lookup.find("", "namespaces", "", namespace):
            return
        why = f'error looking up service account {namespace}/{name}: serviceaccount "{name}" not found'
        raise _forbidden(pod, why)
    if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
        spec["imagePullSecrets"] = copied(account["imagePullSecrets"])
    wanted = spec.get("automountServiceAccountToken")
    if wanted is None:
        wanted = account.get("automountServiceAccountToken", True)
    if wanted:
        _mount_token(spec)


def _check_mirror(pod: Object) -> None:
    spec = pod["spec"]
    if spec.get("serviceAccountName"):
        raise _forbidden(pod, "a mirror pod may not reference service accounts")
    kinds = [each.kind for each in object_references(spec)]
    if any(each.plural == "secrets" for each in kinds):
        raise _forbidden(pod, "a mirror pod may not reference secrets")
    if any(each.plural == "serviceaccounts" for each in kinds):
        raise _forbidden(pod, "a mirror pod may not use ServiceAccountToken volume projections")


def _mount_token(spec: dict[str, Any]) -> None:
    containers = [*spec.get("initContainers", ()), *spec.get("containers", ())]
    without = [each for each in containers if not _has_mount(each)]
    if not without:
        return
    known = (each["name"] for each in spec.get("volumes", ()) if each.get("name", "").startswith(_TOKEN_VOLUME))
    there = next(known, "")
    name = there or _TOKEN_VOLUME + name_suffix()
    for container in without:
        mounts = container.setdefault("volumeMounts", [])
        mounts.append({"name": name, "readOnly": True, "mountPath": _TOKEN_FOLDER})
    if not there:
        spec.setdefault("volumes", []).append({"name": name, "projected": _token_volume()})


def _has_mount(container: dict[str, Any]) -> bool:
    return any(mount.get("mountPath") == _TOKEN_FOLDER for mount in container.get("volumeMounts", ()))


def _token_volume() -> dict[str, Any]:
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    return {
        "defaultMode": 0o644,
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [namespace]}},
        ],
    }


async def _set_runtime_class(pod: Object, lookup: Lookup) -> None:
    spec = pod["spec"]
    name = spec.get("runtimeClassName")
    if not name:
        return
    found = await lookup.find("node.k8s.io", "runtimeclasses", "", name)
    if found is None:
        raise _forbidden(pod, f'pod rejected: RuntimeClass "{name}" not found')
    overhead = at(found, "overhead.podFixed")
    if overhead:
        if spec.get("overhead") not in (None, {}, overhead):
            raise _forbidden(pod, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
        spec["overhead"] = copied(overhead)
    if selector := at(found, "scheduling.nodeSelector"):
        own = spec.setdefault("nodeSelector", {})
        if any(own.get(key, value) != value for key, value in selector.items()):
            raise _forbidden(
                pod, "pod rejected: conflict: runtimeClass.scheduling.nodeSelector and pod.spec.nodeSelector"
            )
        own.update(selector)
    for toleration in at(found, "scheduling.tolerations", ()):
        if toleration not in spec["tolerations"]:
            spec["tolerations"].append(copied(toleration))


def _forbidden(pod: Object, why: str) -> status.ApiError:
    return status.forbidden("pods", pod["metadata"].get("name", ""), why)
