"""A cause in one plain sentence, and what somebody may try: people read this first, and often nothing else."""

from datetime import datetime
from typing import assert_never

from pykubelet.api.durations import span
from pykubelet.pod.story import causes as c


def sentence(cause: c.Cause, now: datetime) -> str:
    """What is the matter; follows the pod's name."""
    match cause:
        case c.NotScheduled() | c.SchedulingGated() | c.NoRoom() | c.NoDevices() | c.UntoleratedTaint():
            return _unplaced(cause)
        case (
            c.ImageNotFound() | c.TagNotFound() | c.ImageDenied() | c.RegistryUnreachable() | c.ImagePullFailed()
            | c.ImageNeverPulled() | c.InvalidImageName() | c.PullSlow()
        ):  # fmt: skip
            return _of_image(cause, now)
        case (
            c.ObjectNotFound() | c.KeyNotFound() | c.VolumeFailed() | c.ClaimNotReady() | c.DriverAway()
            | c.NetworkNotReady() | c.SandboxFailed() | c.PortTaken()
        ):  # fmt: skip
            return _of_needs(cause)
        case c.RuntimeDown() | c.ApiServerAway() | c.AgentDown():
            return _of_node(cause, now)
        case c.Evicted() | c.Preempted() | c.DeadlineExceeded() | c.Rejected() | c.Failed():
            return _of_end(cause)
        case c.Crashed() | c.OutOfMemory() | c.ReadOnlyFileSystem() | c.PermissionDenied():
            return _of_exit(cause)
        case _:
            return _of_container(cause)


def _unplaced(cause: c.Unplaced) -> str:
    match cause:
        case c.NoRoom(resources=resources, node=node):
            what = " and ".join(resources)
            return f"was turned away by {node}: not enough {what}" if node else f"has no node: none has enough {what}"
        case c.UntoleratedTaint(taints=taints):
            what = f"taint {', '.join(taints)}" if taints else "taints"
            return f"has no node: it does not tolerate the {what} of the nodes"
        case c.NoDevices(claim="", device_class="", message=message):
            free = "cannot allocate all claims" in message
            return f"has no node: {'none has the devices that it claims, and free' if free else _short(message)}"
        case c.NoDevices(claim=claim, device_class=kind):
            what = f"resource claim {claim}" if claim else f"device class {kind}"
            return f"has no node: there is no {what}, which it needs"
        case c.SchedulingGated(gates=gates):
            return f"has no node: its scheduling gates are still there ({', '.join(gates)})"
        case c.NotScheduled(message=message):
            return f"has no node: {_short(message) or 'no scheduler has looked at it yet'}"
        case _:
            assert_never(cause)


def _of_image(cause: c.OfImage, now: datetime) -> str:
    match cause:
        case c.ImageNotFound(image=image, container=name):
            return f"waits for image {image} of container {name}, which its registry does not have"
        case c.TagNotFound(image=image, container=name):
            return f"waits for image {image} of container {name}: its registry has nothing of that name and tag"
        case c.ImageDenied(image=image, container=name, has_secret=has_secret):
            why = "its pull secrets are not accepted" if has_secret else "the pod has no pull secret"
            return f"may not pull image {image} of container {name}: the registry asks who it is, and {why}"
        case c.RegistryUnreachable(image=image, container=name):
            return f"waits for image {image} of container {name}, whose registry cannot be reached"
        case c.ImagePullFailed(image=image, container=name, message=message):
            return f"cannot pull image {image} of container {name}: {_short(message)}"
        case c.ImageNeverPulled(image=image, container=name):
            return f"waits for image {image} of container {name}, which is not on the node and is never to be pulled"
        case c.InvalidImageName(image=image, container=name):
            return f"cannot start: {image!r} of container {name} is not an image name"
        case c.PullSlow(image=image, since=since):
            return f"is pulling image {image}, for {_span(since, now)} now"
        case _:
            assert_never(cause)


def _of_needs(cause: c.OfNeeds) -> str:
    match cause:
        case c.ObjectNotFound(kind=kind, name=name, namespace=namespace):
            return f"waits for {kind} {namespace}/{name}, which does not exist"
        case c.KeyNotFound(kind=kind, name=name, namespace=namespace, key=key):
            return f"waits for key {key} of {kind} {namespace}/{name}, which the {kind} does not have"
        case c.VolumeFailed(volume=volume, message=message):
            return (
                f"waits for {f'volume {volume}' if volume else 'a volume'}, which cannot be mounted: {_short(message)}"
            )
        case c.ClaimNotReady(claim=claim, message=message):
            return f"waits for resource claim {claim}: {_short(message)}"
        case c.DriverAway(driver=driver, message=message):
            return f"waits for DRA driver {driver}: {_short(message)}"
        case c.NetworkNotReady(message=message):
            return f"waits for the node's network: {_short(message)}"
        case c.SandboxFailed(message=message):
            return f"cannot start: its sandbox cannot be made: {_short(message)}"
        case c.PortTaken(port=port, container=name):
            what = f"port {port}" if port else "its port"
            return f"keeps crashing: {name} finds {what} taken" if name else f"was turned away: host {what} is taken"
        case _:
            assert_never(cause)


def _of_exit(cause: c.Crashed | c.OutOfMemory | c.ReadOnlyFileSystem | c.PermissionDenied) -> str:
    who = f"init container {cause.container}" if cause.is_init else cause.container
    often = f" {cause.times} times" if cause.times > 1 else ""
    words = f"; last words: `{cause.last_words}`" if cause.last_words else ""
    match cause:
        case c.OutOfMemory(limit=limit, peak=peak):
            figures = ", ".join(f"{name} {value}" for name, value in (("limit", limit), ("peak", peak)) if value)
            why = f"OOMKilled: {figures}" if figures else "OOMKilled"
            what = f"{who} exited{often} with code {cause.exit_code} ({why})"
        case c.ReadOnlyFileSystem():
            what = f"{who} writes to a read-only file system and exited{often} with code {cause.exit_code}"
        case c.PermissionDenied(user=user):
            whom = f" as user {user}" if user is not None else ""
            what = f"{who} is denied permission{whom} and exited{often} with code {cause.exit_code}"
        case c.Crashed(reason=reason):
            shown = f" ({reason})" if reason not in ("", "Error", "Completed") else ""
            what = f"{who} exited{often} with code {cause.exit_code}{shown}"
        case _:
            assert_never(cause)
    return f"{'fails' if cause.times < 2 else 'keeps crashing'}: {what}{words}"


def _of_container(
    cause: c.ContainerNotMade | c.WrongUser | c.CommandNotFound | c.ProbeFailed | c.HookFailed | c.ReadinessGate,
) -> str:
    match cause:
        case c.ContainerNotMade(container=name, message=message):
            return f"cannot start container {name}: {_short(message)}"
        case c.WrongUser(container=name, message=message):
            return f"cannot start container {name} as the user it should be: {_short(message)}"
        case c.CommandNotFound(container=name, command=command, message=message):
            return f"cannot run {command or 'its command'} in container {name}: {_short(message) or 'not found'}"
        case c.ProbeFailed(is_ending=True, probe=probe, container=name, message=message):
            return f"is ending container {name}: its {probe} probe has failed{f': {message}' if message else ''}"
        case c.ProbeFailed(probe="readiness", container=name, message=message):
            words = f": {message}" if message else ""
            return f"runs, but gets no traffic: the readiness probe of {name} fails{words}"
        case c.ProbeFailed(probe="startup", container=name, message=message, seconds=seconds):
            given = f" within the {seconds:g} s that its startup probe gives it" if seconds else ""
            return f"keeps being restarted: {name} has not started{given}{f': {message}' if message else ''}"
        case c.ProbeFailed(container=name, message=message, times=times):
            often = f", {times} times so far" if times > 1 else ""
            words = f": {message}" if message else ""
            return f"keeps being restarted: the liveness probe of {name} fails{words}{often}"
        case c.HookFailed(container=name, hook=hook):
            return f"cannot start: the {hook} hook of container {name} fails"
        case c.ReadinessGate(gates=gates):
            return f"runs, but gets no traffic: nobody has set its readiness gates ({', '.join(gates)})"
        case _:
            assert_never(cause)


def _of_node(cause: c.OfNode, now: datetime) -> str:
    match cause:
        case c.RuntimeDown(message=message, since=since):
            return f"is on a node whose container runtime does not answer{_for(since, now)}: {_short(message)}"
        case c.ApiServerAway(since=since):
            return f"is on a node that cannot reach the API server{_for(since, now)}"
        case c.AgentDown(since=since, was_stopped=was_stopped):
            heard = f", last heard of {_span(since, now)} ago" if since else ""
            return f"{'was stopped, and ' if was_stopped else ''}is on a node whose agent does not run{heard}"
        case _:
            assert_never(cause)


def _of_end(cause: c.OfEnd) -> str:
    match cause:
        case c.Evicted(message=message):
            return f"was evicted: {_short(message) or 'the node ran short of something'}"
        case c.Preempted(by=by):
            return f"was ended to make room for {by or 'a pod of higher priority'}"
        case c.DeadlineExceeded(seconds=seconds):
            return f"was ended: it ran past its deadline{f' of {seconds:g} s' if seconds else ''}"
        case c.Rejected(reason=reason, message=message):
            return f"was turned away by the node ({reason}): {_short(message)}"
        case c.Failed(reason=reason, message=message):
            return f"has failed{f' ({reason})' if reason else ''}{f': {_short(message)}' if message else ''}"
        case _:
            assert_never(cause)


def _for(since: datetime | None, now: datetime) -> str:
    return f" for {_span(since, now)}" if since else ""


def _span(since: datetime, now: datetime) -> str:
    return span(max(0.0, (now - since).total_seconds()))


def _short(message: str) -> str:
    """In one line, and no longer than one can read."""
    flat = " ".join(message.split()).rstrip(".")
    return flat if len(flat) <= 240 else f"{flat[:239]}…"
