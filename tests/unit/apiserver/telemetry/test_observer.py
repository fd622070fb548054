"""Every request is counted, and written down as deep as the policy wants it."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from kit.api_process import Api, ByToken, serving_api
from kit.waiting import eventually
from pykubelet.apiserver.telemetry.audit_log import AuditFile, AuditLog
from pykubelet.apiserver.telemetry.audit_policy import GroupResources, Level, Policy, PolicyRule
from pykubelet.apiserver.telemetry.observer import Auditing

MAPS = "/api/v1/namespaces/default/configmaps"


class Audited:
    def __init__(self, api: Api, path: Path) -> None:
        self.api = api
        self._path = path

    async def events(self, count: int) -> list[dict[str, Any]]:
        """As soon as there are so many, and no more."""
        await eventually(lambda: self._path.read_bytes().count(b"\n") >= count)
        found = [json.loads(line) for line in self._path.read_text().splitlines()]
        assert len(found) == count
        return found


@asynccontextmanager
async def audited(tmp_path: Path, *rules: PolicyRule, **policy: Any) -> AsyncGenerator[Audited, None]:
    path = tmp_path / "audit.log"
    log = AuditLog(AuditFile(str(path)))
    log.open()
    async with serving_api(auditing=Auditing(Policy(rules=rules, **policy), log)) as api:
        running = asyncio.create_task(log.run())
        yield Audited(api, path)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def about(level: Level, *names: str) -> PolicyRule:
    return PolicyRule(level=level, resources=(GroupResources(resources=names),))


async def test_a_request_is_written_down_before_and_after(tmp_path: Path) -> None:
    async with audited(tmp_path, about("Metadata", "configmaps")) as watched:
        await watched.api.ask("GET", "/version")
        await watched.api.ask("POST", MAPS, {"metadata": {"name": "a"}, "data": {"secret": "x"}})
        before, after = await watched.events(2)
        assert [before["stage"], after["stage"]] == ["RequestReceived", "ResponseComplete"]
        assert before["auditID"] == after["auditID"]
        assert after["objectRef"] == {"resource": "configmaps", "namespace": "default", "name": "a", "apiVersion": "v1"}
        assert (after["verb"], after["requestURI"], after["responseStatus"]["code"]) == ("create", MAPS, 201)
        assert after["sourceIPs"] == ["127.0.0.1"]
        assert "requestObject" not in after
        assert "secret" not in json.dumps([before, after])


async def test_the_objects_are_part_of_it_where_they_are_wanted(tmp_path: Path) -> None:
    rules = (about("RequestResponse", "configmaps"),)
    async with audited(tmp_path, *rules, omit_stages=("RequestReceived",), omit_managed_fields=True) as watched:
        await watched.api.ask("POST", MAPS, {"metadata": {"name": "a"}, "data": {"x": "y"}})
        await watched.api.ask("GET", MAPS)
        made, listed = await watched.events(2)
        assert made["requestObject"] == {"metadata": {"name": "a"}, "data": {"x": "y"}}
        assert made["responseObject"]["metadata"]["uid"]
        assert "managedFields" not in json.dumps(listed["responseObject"])


async def test_a_refusal_says_why(tmp_path: Path) -> None:
    async with audited(tmp_path, about("Request", "configmaps"), omit_stages=("RequestReceived",)) as watched:
        code, _ = await watched.api.ask("POST", MAPS, {"metadata": {"name": "NO"}})
        (event,) = await watched.events(1)
        assert code == event["responseStatus"]["code"] == 422
        assert event["responseStatus"]["reason"] == "Invalid"
        assert event["requestObject"]["metadata"] == {"name": "NO"}
        assert "responseObject" not in event


async def test_it_is_noted_why_somebody_may_and_what_was_said_about_it(tmp_path: Path) -> None:
    async with audited(tmp_path, about("Metadata", "pods"), omit_stages=("RequestReceived",)) as watched:
        watched.api.backend.access = ByToken()
        labels = {"pod-security.kubernetes.io/audit": "baseline"}
        who = {"Authorization": "Bearer x"}
        await watched.api.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "x", "labels": labels}}, **who)
        spec = {"hostPID": True, "containers": [{"name": "c", "image": "i"}]}
        body = {"metadata": {"name": "p"}, "spec": spec}
        code, answer = await watched.api.ask("POST", "/api/v1/namespaces/x/pods", body, **who)
        assert code == 201, answer
        (event,) = await watched.events(1)
        assert event["annotations"] == {
            "authorization.k8s.io/decision": "allow",
            "authorization.k8s.io/reason": "RBAC: allowed by a token",
            "pod-security.kubernetes.io/enforce-policy": "privileged:latest",
            "pod-security.kubernetes.io/audit-violations": (
                'would violate PodSecurity "baseline:latest": host namespaces (hostPID=true)'
            ),
        }


async def test_a_watch_has_begun_long_before_it_is_over(tmp_path: Path) -> None:
    async with audited(tmp_path, about("Metadata", "configmaps"), omit_stages=("RequestReceived",)) as watched:
        async with watched.api.session.get(f"{watched.api.url}{MAPS}?watch=1") as answer:
            assert answer.status == 200
            (event,) = await watched.events(1)
            assert (event["stage"], event["verb"]) == ("ResponseStarted", "watch")
        assert [each["stage"] for each in await watched.events(2)] == ["ResponseStarted", "ResponseComplete"]


async def test_a_request_has_a_name(tmp_path: Path) -> None:
    async with serving_api() as api:
        async with api.session.get(f"{api.url}{MAPS}", headers={"Audit-Id": "mine"}) as answer:
            assert answer.headers["Audit-Id"] == "mine"
        names = set()
        for given in ("", "x" * 65):
            async with api.session.get(f"{api.url}/nowhere", headers={"Audit-Id": given}) as answer:
                names.add(answer.headers["Audit-Id"])
        assert {len(name) for name in names} == {36}
        assert len(names) == 2


# --- numbers


async def samples(api: Api) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    async with api.session.get(f"{api.url}/metrics") as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        text = await answer.text()
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return found


def having(series: dict[tuple[tuple[str, str], ...], float], **labels: str) -> float:
    return sum(value for key, value in series.items() if labels.items() <= dict(key).items())


async def test_requests_are_counted_by_what_they_are_about() -> None:
    async with serving_api() as api:
        await api.ask("POST", MAPS, {"metadata": {"name": "a"}})
        await api.ask("GET", f"{MAPS}/a")
        await api.ask("GET", f"{MAPS}/b")
        await api.ask("PATCH", f"{MAPS}/a", {"data": {}}, kind="application/merge-patch+json")
        found = await samples(api)
        total = found["apiserver_request_total"]
        about = {"resource": "configmaps", "group": "", "version": "v1", "scope": "resource", "component": "apiserver"}
        assert having(total, verb="GET", code="200", **about) == 1
        assert having(total, verb="GET", code="404", **about) == 1
        assert having(total, verb="PATCH", code="200", **about) == 1
        assert having(total, verb="POST", code="201", resource="configmaps", scope="namespace") == 1
        seconds = found["apiserver_request_duration_seconds_bucket"]
        assert having(seconds, verb="GET", resource="configmaps", le="+Inf") == 2
        assert having(found["apiserver_storage_objects"], resource="configmaps") >= 1
        assert having(found["apiserver_current_inflight_requests"], request_kind="mutating") == 0
        assert having(found["kubernetes_build_info"], major="1", minor="34") == 1
        assert found["process_resident_memory_bytes"]


async def test_what_lasts_is_counted_while_it_does() -> None:
    async with serving_api() as api:
        async with api.session.get(f"{api.url}{MAPS}?watch=1"):
            found = await samples(api)
            assert having(found["apiserver_longrunning_requests"], verb="WATCH", resource="configmaps") == 1

        async def is_over() -> bool:
            return having((await samples(api))["apiserver_longrunning_requests"], verb="WATCH") == 0

        for _ in range(100):
            if await is_over():
                break
        assert await is_over()


async def test_what_anybody_asks_for_makes_no_series_of_its_own() -> None:
    async with serving_api() as api:
        await samples(api)
        before = len((await samples(api))["apiserver_request_total"])
        for number in range(50):
            await api.ask("GET", f"/api/v1/namespaces/n{number}/things{number}")
            await api.ask("GET", f"/nowhere/{number}")
            await api.ask("GET", f"/api/v1/namespaces/default/pods/p{number}")
            await api.ask("PUT", f"/api/v1/namespaces/default/pods/p{number}", {}, kind=f"application/x{number}")
        assert len((await samples(api))["apiserver_request_total"]) <= before + 4
        assert len(api.server._observer.tallies._series) <= before + 8
