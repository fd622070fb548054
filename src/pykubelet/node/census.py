"""Counting an agent's pods, at the moment that somebody asks."""

from typing import TYPE_CHECKING, Final

from pykubelet.pod.moments import Phase
from pykubelet.pod.stats.census import Census, Lifecycle, Working, census
from pykubelet.pod.status.phase import is_terminal_phase

if TYPE_CHECKING:
    from pykubelet.node.agent import Agent

_LIFECYCLES: Final[dict[Phase, Lifecycle]] = {
    Phase.WAITING: "sync",
    Phase.RUNNING: "sync",
    Phase.STOPPING: "terminating",
}


def take_census(agent: "Agent") -> Census:
    """Costs microseconds for each pod and never waits."""
    desired = agent.table.pods()
    told = ((pod, agent.statuses.get(pod.metadata.uid) or pod.status) for pod in desired)
    return census(
        desired=desired,
        active=[pod for pod, status in told if not is_terminal_phase(status.phase)],
        mirrors=len(agent.table.mirrors()),
        working=[
            Working(worker.wish.pod, _LIFECYCLES.get(worker.phase, "terminated"))
            for worker in agent.workers.workers.values()
        ],
        seen=agent.pleg.seen.values(),
        lateness=agent.loop.lateness,
        resizing=agent.resizing(),
    )
