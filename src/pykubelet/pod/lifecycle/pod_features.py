"""What pods may ask for only where a feature gate lets them: a pod without leave is taken as if it had not asked."""

from typing import Final

from msgspec import Struct

from pykubelet.api.container import Container
from pykubelet.api.pod import Pod
from pykubelet.api.rules.resources import is_sidecar
from pykubelet.api.struct import changed
from pykubelet.pod.lifecycle.pod_update import Applied, Gone, Listed, Restored, SourceEvent


class PodFeatures(Struct, frozen=True, kw_only=True):
    restart_rules: bool = False
    """Restart policies and rules of single containers (ContainerRestartRules)."""
    stop_signals: bool = False
    """The signal by which a container is stopped (ContainerStopSignals)."""

    def event(self, said: SourceEvent) -> SourceEvent:
        """What a source says, with no more in it than is allowed."""
        match said:
            case Listed(pods=pods) | Restored(pods=pods):
                return changed(said, pods=tuple(map(self.pod, pods)))
            case Applied(pod=pod):
                return changed(said, pod=self.pod(pod))
            case Gone():
                return said

    def pod(self, pod: Pod) -> Pod:
        spec = pod.spec
        init = tuple(self._restricted(each, "Always" if is_sidecar(each) else None) for each in spec.init_containers)
        main = tuple(self._restricted(each, None) for each in spec.containers)
        if init == spec.init_containers and main == spec.containers:
            return pod
        return changed(pod, spec=changed(spec, init_containers=init, containers=main))

    def _restricted(self, container: Container, policy: str | None) -> Container:
        """The very same, if it does not ask for more. `policy`: its own, without any feature."""
        has_rules = container.restart_policy != policy or container.restart_policy_rules
        if has_rules and not self.restart_rules:
            container = changed(container, restart_policy=policy, restart_policy_rules=())
        if not self.stop_signals and container.lifecycle is not None and container.lifecycle.stop_signal is not None:
            container = changed(container, lifecycle=changed(container.lifecycle, stop_signal=None))
        return container


NO_FEATURES: Final = PodFeatures()
