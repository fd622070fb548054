"""Orphan clean-up: pods that are on this machine and that no source knows are stopped and removed."""

import logging
from collections.abc import Iterable

from pykubelet.api.meta import ObjectMeta
from pykubelet.api.pod import Pod
from pykubelet.node.workers import PodWorkers
from pykubelet.pod.lifecycle.termination_grace import orphan_grace
from pykubelet.pod.moments import Journal, OrphanFound, about
from pykubelet.pod.observed import ObservedPod

log = logging.getLogger(__name__)


def clean_up_orphans(
    workers: PodWorkers, journal: Journal, pods: Iterable[ObservedPod], *, for_good: bool = True
) -> None:
    """Each gets a worker that ends it, unless it has one: then that sees to it."""
    for observed in pods:
        if observed.uid in workers.workers:
            continue
        name = f"{observed.namespace}/{observed.name}" if observed.name else "of which only a folder is left"
        log.info("pod %s (%s) belongs to nobody and is %s", name, observed.uid, "removed" if for_good else "stopped")
        orphan = Pod(metadata=ObjectMeta(uid=observed.uid, name=observed.name, namespace=observed.namespace))
        grace = max(map(orphan_grace, observed.containers), default=0)
        journal.note(OrphanFound(in_runtime=bool(observed.name)), about(orphan))
        workers.tell(orphan, grace=grace, by="orphaned", removed=for_good)


def is_orphan(pod: Pod) -> bool:
    """Known to nobody but the runtime: there is nothing to report of it, and nobody to report it to."""
    return not pod.spec.containers
