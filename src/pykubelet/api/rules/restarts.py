"""Whether a container is started again after an end: its own rules, its own policy, and else its pod's."""

from pykubelet.api.container import Container, ContainerRestartRule
from pykubelet.api.pod import PodSpec


def restart_policy(spec: PodSpec, container: Container) -> str:
    """The policy that holds for one container, whatever its rules say."""
    return container.restart_policy or spec.restart_policy


def restarts_after(spec: PodSpec, container: Container, exit_code: int) -> bool:
    """The first rule that fits counts; rules go with a policy of the container's own."""
    if container.restart_policy is not None:
        rule = next((each for each in container.restart_policy_rules if _fits(each, exit_code)), None)
        if rule is not None and rule.action == "Restart":
            return True
    policy = restart_policy(spec, container)
    return exit_code != 0 if policy == "OnFailure" else policy != "Never"


def is_restartable(spec: PodSpec, container: Container) -> bool:
    """Whether there is any end after which it would be started again."""
    if container.restart_policy is not None and any(
        each.action == "Restart" for each in container.restart_policy_rules
    ):
        return True
    return restart_policy(spec, container) != "Never"


def has_own_policy(spec: PodSpec) -> bool:
    """Whether a main container has."""
    return any(each.restart_policy is not None for each in spec.containers)


def _fits(rule: ContainerRestartRule, exit_code: int) -> bool:
    codes = rule.exit_codes
    if codes is None:
        return False
    if codes.operator == "In":
        return exit_code in codes.values
    return codes.operator == "NotIn" and exit_code not in codes.values
