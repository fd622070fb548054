"""The sync loop as a picture, taken at the moment that somebody asks."""

from collections import Counter
from typing import TYPE_CHECKING

from pykubelet.base.journal import UnderWay
from pykubelet.node.pod_config import INBOX_SIZE
from pykubelet.pod.moments import Journal, Phase
from pykubelet.pod.stats.loop_picture import Doing, LoopPicture, SourcePicture

if TYPE_CHECKING:
    from pykubelet.node.agent import Agent


def loop_picture(agent: "Agent", journal: Journal) -> LoopPicture:
    """Costs microseconds for each pod and never waits."""
    phases = Counter(worker.phase for worker in agent.workers.workers.values())
    going_on = journal.under_way()
    return LoopPicture(
        sources=tuple(
            SourcePicture(name=name, is_ready=name in agent.loop.ready_sources, pods=pods)
            for name, pods in agent.pods_by_source().items()
        ),
        inbox=agent.inbox.qsize(),
        inbox_size=INBOX_SIZE,
        handled=dict(agent.loop.handled),
        lateness=round(agent.loop.lateness, 3),
        workers={phase.value: phases[phase] for phase in Phase if phase is not Phase.GONE},
        work=tuple(_doing(each) for each in going_on if each.kind == "work"),
        calls=tuple(_doing(each) for each in going_on if each.kind == "call"),
        statuses=agent.statuses.queue(),
    )


def _doing(of: UnderWay) -> Doing:
    uid, namespace, name = of.about
    return Doing(what=of.what, since=of.since, uid=uid, namespace=namespace, name=name)
