"""`up`: a small cluster on this machine, an API server and a node."""

import time
from pathlib import Path
from typing import Any, Final

import msgspec

from pykubelet.api.rules.printed_pod import PrintedPod
from pykubelet.apiserver.security.kubeconfig import kubeconfig, merged_kubeconfig, write_kubeconfig
from pykubelet.base.errors import Invalid
from pykubelet.config.apiserver import prepare_pki, url
from pykubelet.up.folder import Folder, Plan, Say
from pykubelet.up.installation import Installation
from pykubelet.up.parts import api_config
from pykubelet.up.plan import check_same, cluster_plan
from pykubelet.up.runtime_choice import isolation_of

SETTLE_SECONDS: Final = 60.0
_LOOK: Final = 0.1
_FAILING: Final = ("CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull", "ErrImageNeverPull", "InvalidImageName")


def up(folder: Folder, say: Say, *, manifests: Path | None = None, runtime: str = "", bind: str = "") -> Plan:
    """Start everything, and return when the node is ready. Harmless when it runs.

    `manifests` is a folder or file of static pods; `runtime` an endpoint, empty: the best one that there is; `bind` an
    address to serve on, empty: as before, at first for this machine alone.
    """
    installation = Installation(folder, say)
    if installation.is_running:
        plan = check_same(folder, manifests=manifests, bind=bind)
        say(f"It is running already (data in {folder.path}).")
        say(isolation_of(plan.runtime, folder.path) or f"Containers run on {plan.runtime}.")
    else:
        plan = folder.save(cluster_plan(folder, say, manifests=manifests, runtime=runtime, bind=bind))
        _prepare(folder, plan)
        installation.start(plan)
    installation.wait(plan)
    return plan


def api_url(folder: Folder, plan: Plan) -> str:
    return url(api_config(folder, plan))


def merge(folder: Folder, path: Path, say: Say) -> None:
    """Add the cluster to a kubeconfig of the person's own."""
    ours = msgspec.json.decode(folder.admin_kubeconfig.read_bytes())
    try:
        existing = msgspec.yaml.decode(path.read_bytes()) if path.exists() else {}
    except (OSError, msgspec.DecodeError) as error:
        raise Invalid(f"{path}: cannot be read: {error}") from None
    write_kubeconfig(path, merged_kubeconfig(existing or {}, ours))
    say(f"{path} knows the cluster now, as the context {ours['current-context']}.")


def settled_pods(folder: Folder, say: Say) -> list[dict[str, Any]]:
    """Wait until the pods have come to rest, telling how far they are. -> all of them, also when it takes too long"""
    deadline, said = time.monotonic() + SETTLE_SECONDS, ""
    while True:
        pods = folder.pods()
        settled = [pod for pod in pods if is_settled(pod)]
        text = f"{len(settled)} of {len(pods)} pods are up"
        if text != said and pods:
            say(text)
            said = text
        if (pods and len(settled) == len(pods)) or time.monotonic() > deadline:
            return pods
        time.sleep(_LOOK)


def is_settled(pod: dict[str, Any]) -> bool:
    """Whether a pod has come to what it will be for a while: up, done, failed, or failing again and again."""
    shown = PrintedPod(pod).reason.removeprefix("Init:")
    if pod.get("status", {}).get("phase") in ("Succeeded", "Failed") or shown in _FAILING:
        return True
    statuses = pod.get("status", {}).get("containerStatuses") or []
    return shown == "Running" and bool(statuses) and all(status.get("ready") for status in statuses)


def _prepare(folder: Folder, plan: Plan) -> None:
    """Keys and kubeconfigs are made before those who need them."""
    config = api_config(folder, plan)
    pki = prepare_pki(config)
    certificate, key = (path.read_bytes() for path in pki.node(plan.node))
    identity = kubeconfig(url(config), pki.authority.pem, certificate, key, user=f"system:node:{plan.node}")
    write_kubeconfig(folder.node_kubeconfig, identity)
    pki.node_serving(plan.node, (plan.node, plan.address, "localhost", "127.0.0.1"))
