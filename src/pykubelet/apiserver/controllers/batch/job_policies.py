"""What the policies of a job say of a pod that failed, and of the indexes that have succeeded. Pure."""

from typing import Any, Literal

from msgspec import Struct

from pykubelet.api.rules import completion_indexes as indexes
from pykubelet.api.rules.completion_indexes import Intervals
from pykubelet.apiserver.controllers.batch.job_pods import Ended, JobPod

Action = Literal["", "Ignore", "FailIndex", "Count", "FailJob"]


class Judgement(Struct, frozen=True):
    """What becomes of a failure. Without a rule for it, it counts."""

    action: Action = ""
    message: str = ""
    """Why the job fails with it."""

    @property
    def counts(self) -> bool:
        return self.action != "Ignore"


def judgement(policy: dict[str, Any] | None, pod: JobPod) -> Judgement:
    """Of the first rule that is about such a failure."""
    where = f"{pod.view.namespace}/{pod.view.name}"
    for number, rule in enumerate((policy or {}).get("rules") or ()):
        action: Action = rule.get("action", "")
        if (codes := rule.get("onExitCodes")) is not None:
            ended = _exit(codes, pod)
            if ended is None:
                continue
            why = f"Container {ended.container} for pod {where} failed with exit code {ended.code}"
        else:
            kind = _condition(rule.get("onPodConditions") or (), pod)
            if not kind:
                continue
            why = f"Pod {where} has condition {kind}"
        if action == "FailJob":
            return Judgement(action, f"{why} matching {action} rule at index {number}")
        return Judgement(action)
    return Judgement()


def _exit(wanted: dict[str, Any], pod: JobPod) -> Ended | None:
    name, values = wanted.get("containerName"), wanted.get("values") or ()
    for ended in pod.ended:
        is_named = name is None or name == ended.container
        if is_named and (ended.code in values) is (wanted.get("operator") == "In"):
            return ended
    return None


def _condition(patterns: Any, pod: JobPod) -> str:
    wanted = {(each.get("type", ""), each.get("status") or "True") for each in patterns}
    return next((kind for kind, status in pod.conditions if (kind, status) in wanted), "")


def success_message(policy: dict[str, Any] | None, completions: int, succeeded: Intervals) -> str:
    """Which rule says that enough has succeeded; empty: none does."""
    for number, rule in enumerate((policy or {}).get("rules") or ()) if succeeded else ():
        count = rule.get("succeededCount")
        if rule.get("succeededIndexes") is None:
            is_met = count is not None and indexes.total(succeeded) >= count
        else:
            wanted = indexes.parsed(rule["succeededIndexes"], completions)
            met = indexes.common(wanted, succeeded)
            is_met = bool(wanted) and (met == indexes.total(wanted) or (count is not None and met >= count))
        if is_met:
            return f"Matched rules at index {number}"
    return ""
