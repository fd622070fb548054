"""`up`: a small cluster on this machine, an API server and a node."""

import shutil
import time
from pathlib import Path
from typing import Any, Final

import msgspec

from pykubelet.api.rules.printed_pod import PrintedPod
from pykubelet.api.struct import changed
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
_ROOM: Final = 16 << 20
"""For keys, the store, logs and a few pods."""
_FAILING: Final = (
    "CrashLoopBackOff",
    "ImagePullBackOff",
    "ErrImagePull",
    "ErrImageNeverPull",
    "InvalidImageName",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
    "PostStartHookError",
)


def up(
    folder: Folder,
    say: Say,
    *,
    manifests: Path | None = None,
    runtime: str = "",
    bind: str = "",
    port: int = 0,
    controllers: tuple[str, ...] = (),
    refuse_unenforced: bool = False,
    services: bool = True,
    images: str = "",
) -> Plan:
    """Start everything, and return when the node is ready. Harmless when it runs.

    `manifests` is a folder or file of static pods; `runtime` an endpoint, empty: the best one that there is; `bind` an
    address to serve on, empty: as before, at first for this machine alone; `port` the API server's, 0: as before;
    `controllers` those that run, empty: as before, at first all; `services` whether to answer for services, if it can;
    `images` where the embedded runtime has them from, empty: as before. With
    `refuse_unenforced` pods whose limits cannot be enforced are not run.
    """
    installation, is_new = Installation(folder, say), False
    if installation.is_running:
        plan = check_same(
            folder,
            manifests=manifests,
            bind=bind,
            port=port,
            controllers=controllers,
            refuse_unenforced=refuse_unenforced,
            images=images,
        )
        say(f"It is running already (data in {folder.path}).")
        say(isolation_of(plan.runtime, folder.path) or f"Containers run on {plan.runtime}.")
    else:
        if is_new := not folder.mark.exists():
            _check_room(folder.path)
        plan = cluster_plan(
            folder,
            say,
            manifests,
            runtime=runtime,
            bind=bind,
            port=port,
            controllers=controllers,
            services=services,
            images=images,
        )
        plan = folder.save(changed(plan, refuse_unenforced=refuse_unenforced))
        _prepare(folder, plan)
        installation.start(plan)
    try:
        installation.wait(plan)
    except Invalid:
        if is_new and not installation.is_running:  # what never worked must not stand in the way of the next try
            installation.reset_quietly()
        raise
    return plan


def _check_room(path: Path) -> None:
    """For something new: what was there before is started on a full disk, too. Raises Invalid."""
    disk = shutil.disk_usage(next(each for each in (path, *path.parents) if each.exists()))
    if disk.total and disk.free < _ROOM:
        raise Invalid(
            f"{path}: {disk.free >> 10} KiB are free there, and it takes {_ROOM >> 20} MiB; "
            "make room, or choose another folder with --data"
        )


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
        text = progress(pods)
        if text != said and pods:
            say(text)
            said = text
        if (pods and all(map(is_settled, pods))) or time.monotonic() > deadline:
            return pods
        time.sleep(_LOOK)


def progress(pods: list[dict[str, Any]]) -> str:
    failing = sum(map(is_failing, pods))
    up = sum(is_settled(pod) and not is_failing(pod) for pod in pods)
    return f"{up} of {len(pods)} pods are up" + (f", {failing} cannot run" if failing else "")


def is_settled(pod: dict[str, Any]) -> bool:
    """Whether a pod has come to what it will be for a while: up, done, failed, or failing again and again."""
    if pod.get("status", {}).get("phase") == "Succeeded" or is_failing(pod):
        return True
    statuses = pod.get("status", {}).get("containerStatuses") or []
    return PrintedPod(pod).reason == "Running" and bool(statuses) and all(status.get("ready") for status in statuses)


def is_failing(pod: dict[str, Any]) -> bool:
    shown = PrintedPod(pod).reason.removeprefix("Init:")
    return pod.get("status", {}).get("phase") == "Failed" or shown in _FAILING


def why_failing(pod: dict[str, Any]) -> str:
    """In the words of the status."""
    status = pod.get("status", {})
    for each in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        state = each.get("state", {})
        told = state.get("waiting") or state.get("terminated") or {}
        if told.get("reason") in (*_FAILING, "Error", "StartError", "OOMKilled"):
            ended = (each.get("lastState") or {}).get("terminated") or told
            code = f"it ended with code {ended['exitCode']}" if "exitCode" in ended else ""
            is_looping = told["reason"] == "CrashLoopBackOff"  # of which the message says only how long it waits
            words = (ended.get("message"), code) if is_looping else (told.get("message"), code)
            return f"{each['name']}: {next(filter(None, words), told['reason'])}"
    return str(status.get("message") or status.get("reason") or PrintedPod(pod).reason)


def _prepare(folder: Folder, plan: Plan) -> None:
    """Keys and kubeconfigs are made before those who need them."""
    config = api_config(folder, plan)
    pki = prepare_pki(config)
    certificate, key = (path.read_bytes() for path in pki.node(plan.node))
    identity = kubeconfig(url(config), pki.authority.pem, certificate, key, user=f"system:node:{plan.node}")
    write_kubeconfig(folder.node_kubeconfig, identity)
    pki.node_serving(plan.node, (plan.node, plan.address, "localhost", "127.0.0.1"))
