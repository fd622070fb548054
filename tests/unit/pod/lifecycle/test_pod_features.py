"""Without a gate a pod is taken as if it had not asked."""

from pykubelet.api.container import Container, ContainerRestartRule
from pykubelet.api.handlers import Lifecycle
from pykubelet.api.pod import Pod, PodSpec
from pykubelet.pod.lifecycle.pod_features import NO_FEATURES, PodFeatures
from pykubelet.pod.lifecycle.pod_update import Applied, Gone, Listed, Restored

RULES = (ContainerRestartRule(action="Restart"),)
SIDECAR = Container(name="side", restart_policy="Always", restart_policy_rules=RULES)
MAIN = Container(
    name="c", restart_policy="Always", restart_policy_rules=RULES, lifecycle=Lifecycle(stop_signal="SIGUSR1")
)
POD = Pod(spec=PodSpec(init_containers=(SIDECAR,), containers=(MAIN,)))


def test_what_no_gate_allows_is_left_out() -> None:
    spec = NO_FEATURES.pod(POD).spec
    assert spec.init_containers == (Container(name="side", restart_policy="Always"),)
    assert spec.containers == (Container(name="c", lifecycle=Lifecycle()),)


def test_each_gate_allows_its_own() -> None:
    (main,) = PodFeatures(restart_rules=True).pod(POD).spec.containers
    assert (main.restart_policy, main.restart_policy_rules, main.lifecycle) == ("Always", RULES, Lifecycle())
    (main,) = PodFeatures(stop_signals=True).pod(POD).spec.containers
    assert (main.restart_policy, main.lifecycle) == (None, MAIN.lifecycle)
    assert PodFeatures(restart_rules=True, stop_signals=True).pod(POD) is POD


def test_whatever_a_source_says_goes_through_it() -> None:
    plain = NO_FEATURES.pod(POD)
    assert NO_FEATURES.pod(plain) is plain
    assert NO_FEATURES.event(Applied(POD)) == Applied(plain)
    assert NO_FEATURES.event(Restored((POD,))) == Restored((plain,))
    assert NO_FEATURES.event(Gone("u")) == Gone("u")
    assert NO_FEATURES.event(Listed((POD,), frozenset({"x"}))) == Listed((plain,), frozenset({"x"}))
