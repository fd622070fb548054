"""Jobs and cron jobs as they are accepted: defaults, selectors, what may change, what is refused."""

from typing import Any

import pytest

from kit.api_process import Api

JOBS = "/apis/batch/v1/namespaces/default/jobs"
CRON_JOBS = "/apis/batch/v1/namespaces/default/cronjobs"
MERGE = "application/merge-patch+json"


def job(name: str = "sums", **spec: Any) -> dict[str, Any]:
    pod = {"containers": [{"name": "main", "image": "x"}], "restartPolicy": "Never"}
    whole = {"template": {"spec": pod}, **spec}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": whole}


def cron_job(name: str = "tick", **spec: Any) -> dict[str, Any]:
    whole = {"schedule": "@daily", "jobTemplate": {"spec": job()["spec"]}, **spec}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": name}, "spec": whole}


async def test_a_job_gets_its_defaults_and_a_selector_of_its_own(api: Api) -> None:
    code, made = await api.ask("POST", JOBS, job())
    assert code == 201, made
    spec, uid = made["spec"], made["metadata"]["uid"]
    given = {name: spec[name] for name in ("completions", "parallelism", "backoffLimit", "completionMode", "suspend")}
    assert given == {
        "completions": 1,
        "parallelism": 1,
        "backoffLimit": 6,
        "completionMode": "NonIndexed",
        "suspend": False,
    }
    assert (spec["podReplacementPolicy"], spec["manualSelector"]) == ("TerminatingOrFailed", False)
    assert spec["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    assert spec["template"]["metadata"]["labels"] == {
        "job-name": "sums",
        "batch.kubernetes.io/job-name": "sums",
        "controller-uid": uid,
        "batch.kubernetes.io/controller-uid": uid,
    }
    assert (made["metadata"]["generation"], made["status"]) == (1, {})
    code, same = await api.ask("PUT", f"{JOBS}/sums", made)
    assert (code, same["metadata"]["generation"]) == (200, 1)


async def test_a_selector_by_hand_is_taken_as_it_is(api: Api) -> None:
    wanted = job(manualSelector=True, selector={"matchLabels": {"app": "x"}})
    assert (await api.ask("POST", JOBS, wanted))[0] == 422
    wanted["spec"]["template"]["metadata"] = {"labels": {"app": "x"}}
    code, made = await api.ask("POST", JOBS, wanted)
    assert (code, made["spec"]["selector"]) == (201, {"matchLabels": {"app": "x"}})
    assert made["metadata"]["labels"] == {"app": "x"}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"parallelism": -1}, "spec.parallelism"),
        ({"completionMode": "Indexed", "parallelism": 1}, "spec.completions"),
        ({"completionMode": "Other"}, "spec.completionMode"),
        ({"backoffLimitPerIndex": 1}, "spec.backoffLimitPerIndex"),
        ({"selector": {"matchLabels": {"app": "x"}}}, "spec.template.metadata.labels"),
        ({"podFailurePolicy": {"rules": [{"action": "Nothing"}]}}, "spec.podFailurePolicy.rules[0].action"),
        (
            {"podFailurePolicy": {"rules": [{"action": "Count", "onExitCodes": {"operator": "In", "values": [3, 1]}}]}},
            "spec.podFailurePolicy.rules[0].onExitCodes.values",
        ),
        ({"successPolicy": {"rules": [{"succeededCount": 1}]}}, "spec.successPolicy"),
        ({"podReplacementPolicy": "Never"}, "spec.podReplacementPolicy"),
        ({"managedBy": "me"}, "spec.managedBy"),
        (
            {"completionMode": "Indexed", "completions": 2, "successPolicy": {"rules": [{"succeededIndexes": "0-5"}]}},
            "spec.successPolicy.rules[0].succeededIndexes",
        ),
    ],
)  # fmt: skip
async def test_what_makes_no_sense_is_refused(api: Api, spec: dict[str, Any], field: str) -> None:
    code, answer = await api.ask("POST", JOBS, job(**spec))
    assert code == 422, answer
    assert field in [each["field"] for each in answer["details"]["causes"]]


async def test_pods_of_a_job_do_not_run_for_ever(api: Api) -> None:
    wanted = job()
    wanted["spec"]["template"]["spec"]["restartPolicy"] = "Always"
    code, answer = await api.ask("POST", JOBS, wanted)
    assert (code, answer["details"]["causes"][0]["field"]) == (422, "spec.template.spec.restartPolicy")


async def test_a_job_may_be_suspended_and_scaled_and_its_template_stays(api: Api) -> None:
    await api.ask("POST", JOBS, job())
    for change, code in (
        ({"parallelism": 3}, 200),
        ({"suspend": True}, 200),
        ({"completions": 2}, 422),
        ({"template": {"spec": {"hostname": "x"}}}, 422),
        ({"template": {"spec": {"nodeSelector": {"a": "b"}}}}, 200),
        ({"suspend": False}, 200),
        ({"template": {"spec": {"nodeSelector": {"a": "c"}}}}, 422),
        ({"completionMode": "Indexed"}, 422),
        ({"selector": {"matchLabels": {"x": "y"}}}, 422),
    ):
        answer = await api.ask("PATCH", f"{JOBS}/sums", {"spec": change}, kind=MERGE)
        assert answer[0] == code, (change, answer)


async def test_a_job_that_has_ended_stays_so(api: Api) -> None:
    await api.ask("POST", JOBS, job())

    async def say(status: dict[str, Any]) -> int:
        code, _ = await api.ask("PATCH", f"{JOBS}/sums/status", {"status": status}, kind=MERGE)
        return code

    def conditions(*kinds: str) -> list[dict[str, str]]:
        return [{"type": kind, "status": "True"} for kind in kinds]

    start, end = "2026-01-02T03:04:05Z", "2026-01-02T03:05:05Z"
    assert await say({"conditions": conditions("Complete")}) == 422
    assert await say({"ready": 2, "active": 1}) == 422
    assert await say({"completedIndexes": "0"}) == 422
    whole = {"conditions": conditions("SuccessCriteriaMet", "Complete"), "startTime": start, "completionTime": end}
    assert await say({**whole, "active": 1}) == 422
    assert await say({**whole, "succeeded": 1}) == 200
    assert await say({"conditions": []}) == 422
    assert await say({"succeeded": 0}) == 422
    assert await say({"completionTime": start}) == 422


async def test_a_cron_job_gets_its_defaults(api: Api) -> None:
    code, made = await api.ask("POST", CRON_JOBS, cron_job())
    assert code == 201, made
    spec = made["spec"]
    assert (spec["concurrencyPolicy"], spec["suspend"]) == ("Allow", False)
    assert (spec["successfulJobsHistoryLimit"], spec["failedJobsHistoryLimit"]) == (3, 1)
    assert "completions" not in spec["jobTemplate"]["spec"]
    assert spec["jobTemplate"]["spec"]["template"]["spec"]["dnsPolicy"] == "ClusterFirst"


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"schedule": ""}, "spec.schedule"),
        ({"schedule": "* * * *"}, "spec.schedule"),
        ({"schedule": "TZ=UTC * * * * *"}, "spec.schedule"),
        ({"timeZone": "Nowhere/City"}, "spec.timeZone"),
        ({"timeZone": "../etc/passwd"}, "spec.timeZone"),
        ({"timeZone": "Local"}, "spec.timeZone"),
        ({"concurrencyPolicy": "Sometimes"}, "spec.concurrencyPolicy"),
        ({"startingDeadlineSeconds": -1}, "spec.startingDeadlineSeconds"),
        ({"jobTemplate": {"spec": {**job()["spec"], "manualSelector": True}}}, "spec.jobTemplate.spec.manualSelector"),
        ({"jobTemplate": {"spec": {**job()["spec"], "completions": -1}}}, "spec.jobTemplate.spec.completions"),
    ],
)
async def test_a_cron_job_that_makes_no_sense_is_refused(api: Api, spec: dict[str, Any], field: str) -> None:
    code, answer = await api.ask("POST", CRON_JOBS, cron_job(**spec))
    assert code == 422, answer
    assert field in [each["field"] for each in answer["details"]["causes"]]


async def test_the_name_of_a_cron_job_leaves_room_for_the_time(api: Api) -> None:
    assert (await api.ask("POST", CRON_JOBS, cron_job("x" * 53)))[0] == 422
    assert (await api.ask("POST", CRON_JOBS, cron_job("x" * 52, timeZone="Europe/Berlin")))[0] == 201


@pytest.mark.parametrize(("own", "of_pods"), [({}, {}), ({}, {"x": "y"}), ({"z": "1"}, {"x": "y"})])
async def test_a_job_without_labels_has_those_of_its_pods(
    api: Api, own: dict[str, str], of_pods: dict[str, str]
) -> None:
    wanted = job()
    wanted["metadata"]["labels"] = own
    wanted["spec"]["template"]["metadata"] = {"labels": of_pods}
    _, made = await api.ask("POST", JOBS, wanted)
    assert made["metadata"]["labels"] == (own or made["spec"]["template"]["metadata"]["labels"])
