"""Pull secrets: fetched when an image is about to be pulled, and not before."""

import logging

from pykubelet.api.objects import Secret
from pykubelet.api.pod import Pod
from pykubelet.base.errors import NotFound, PykubeletError
from pykubelet.pod.ports.api import PodObjects, Recorder

log = logging.getLogger(__name__)


async def fetch_pull_secrets(objects: PodObjects | None, recorder: Recorder, pod: Pod) -> tuple[Secret, ...]:
    """Those that cannot be had are told of; the pull itself will show whether they were needed."""
    meta, found, missing = pod.metadata, [], []
    for reference in pod.spec.image_pull_secrets:
        try:
            if objects is None:
                raise NotFound("there is no API server to get it from")
            found.append(await objects.secret(pod, reference.name, fresh=True))
        except PykubeletError as error:
            log.debug("pull secret %s/%s: %s", meta.namespace, reference.name, error)
            missing.append(reference.name)
    if missing:
        what = f"Unable to retrieve some image pull secrets ({', '.join(missing)})"
        message = f"{what}; attempting to pull the image may not succeed."
        recorder.event(pod, "Warning", "FailedToRetrieveImagePullSecret", message)
    return tuple(found)
