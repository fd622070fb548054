"""How much swap a container gets, by upstream's formula: its share of the machine's swap is that of its request in the
machine's memory."""

from pykubelet.api.container import Container
from pykubelet.api.pod import Pod
from pykubelet.api.quantity import Quantity
from pykubelet.api.rules.pod_kinds import is_critical
from pykubelet.api.rules.qos import qos_class
from pykubelet.api.rules.resources import MEMORY

_NOTHING = Quantity(0)


def swap_limit(pod: Pod, container: Container, memory: int, swap: int) -> int:
    """In bytes, on a machine with so much memory, and swap for pods. It is for what may use more memory than it asks
    for; critical pods must not wait for a disk."""
    wanted = container.resources.requests.get(MEMORY, _NOTHING)
    most = container.resources.limits.get(MEMORY, _NOTHING)
    if not swap or wanted == most or is_critical(pod) or qos_class(pod) != "Burstable":
        return 0
    if not memory > 0 or wanted.value > memory:
        return 0
    return int(wanted.value / memory * swap)
