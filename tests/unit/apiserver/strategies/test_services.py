"""Services and their addresses."""

import asyncio
from typing import Any

import pytest

from kit.api_process import Api

NS = "/api/v1/namespaces/default"
MERGE = "application/merge-patch+json"


def causes(refused: Any) -> list[tuple[str, str]]:
    return [(each["reason"], each["field"]) for each in refused["details"]["causes"]]


async def test_services_never_share_an_address_and_give_it_back(api: Api) -> None:
    def service(name: str, **spec: Any) -> dict[str, Any]:
        return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}

    _, one = await api.ask("POST", f"{NS}/services", service("a"))
    address = one["spec"]["clusterIP"]
    assert address.startswith("10.96.")
    code, refused = await api.ask("POST", f"{NS}/services", service("b", clusterIP=address))
    assert (code, causes(refused)) == (422, [("FieldValueInvalid", "spec.clusterIPs")])
    code, refused = await api.ask("PATCH", f"{NS}/services/a", {"spec": {"clusterIP": "10.96.9.9"}}, kind=MERGE)
    assert code == 422
    await api.ask("DELETE", f"{NS}/services/a")
    assert (await api.ask("POST", f"{NS}/services", service("b", clusterIP=address)))[0] == 201
    _, headless = await api.ask("POST", f"{NS}/services", service("c", clusterIP="None"))
    assert headless["spec"]["clusterIPs"] == ["None"]
    _, outer = await api.ask("POST", f"{NS}/services", service("d", type="NodePort"))
    assert 30000 <= outer["spec"]["ports"][0]["nodePort"] < 32768


async def test_a_dry_run_of_a_service_takes_no_address(api: Api) -> None:
    given = {"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}}
    _, shown = await api.ask("POST", f"{NS}/services?dryRun=All", given)
    address = shown["spec"]["clusterIP"]
    given["spec"]["clusterIP"] = address  # type: ignore[index]
    assert (await api.ask("POST", f"{NS}/services", given))[0] == 201


async def test_a_service_may_become_a_mere_name_and_back(api: Api) -> None:
    given = {"metadata": {"name": "a"}, "spec": {"type": "ExternalName", "externalName": "example.com"}}
    _, name = await api.ask("POST", f"{NS}/services", given)
    assert "clusterIP" not in name["spec"]
    back = {"spec": {"type": "ClusterIP", "externalName": None, "ports": [{"port": 80}]}}
    _, address = await api.ask("PATCH", f"{NS}/services/a", back, kind=MERGE)
    assert address["spec"]["clusterIP"].startswith("10.96.")
    again = {"spec": {"type": "ExternalName", "externalName": "example.com"}}
    _, name = await api.ask("PATCH", f"{NS}/services/a", again, kind=MERGE)
    assert "clusterIP" not in name["spec"]


async def test_a_mere_name_cannot_give_back_the_address_of_another_service(api: Api) -> None:
    spec = {"ports": [{"port": 80}]}
    _, one = await api.ask("POST", f"{NS}/services", {"metadata": {"name": "a"}, "spec": spec})
    address = one["spec"]["clusterIP"]
    name = {"type": "ExternalName", "externalName": "example.com", "clusterIP": address}
    for query in ("?dryRun=All", ""):
        code, refused = await api.ask("POST", f"{NS}/services{query}", {"metadata": {"name": "b"}, "spec": name})
        assert (code, causes(refused)) == (422, [("FieldValueForbidden", "spec.clusterIPs")])
    taken = {"metadata": {"name": "c"}, "spec": {**spec, "clusterIP": address}}
    assert (await api.ask("POST", f"{NS}/services", taken))[0] == 422


def service(name: str = "t", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}


INVALID, FORBIDDEN, UNSUPPORTED = "FieldValueInvalid", "FieldValueForbidden", "FieldValueNotSupported"
OUTER = {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30200}]}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (OUTER, [(INVALID, "spec.ports[0].nodePort")]),
        ({"type": "NodePort", "ports": [{"port": 80, "nodePort": 20}]}, [(INVALID, "spec.ports[0].nodePort")]),
        ({"ports": [{"port": 80, "nodePort": 30201}]}, [(FORBIDDEN, "spec.ports[0].nodePort")]),
        ({"selector": {"bad key!": "x"}}, [(INVALID, "spec.selector")]),
        ({"ipFamilies": ["IPv6"]}, [(INVALID, "spec.ipFamilies[0]")]),
        ({"ipFamilies": ["IPv5"]}, [(UNSUPPORTED, "spec.ipFamilies[0]")]),
        ({"ipFamilies": ["IPv4", "IPv6"]}, [(INVALID, "spec.ipFamilyPolicy")]),
        ({"ipFamilyPolicy": "RequireDualStack"}, [(INVALID, "spec.ipFamilyPolicy")]),
        ({"externalIPs": ["x"]}, [(INVALID, "spec.externalIPs[0]")]),
        ({"externalIPs": ["127.0.0.1"]}, [(INVALID, "spec.externalIPs[0]")]),
        ({"loadBalancerSourceRanges": ["10.0.0.0/8"]}, [(FORBIDDEN, "spec.LoadBalancerSourceRanges")]),
        (
            {"type": "LoadBalancer", "loadBalancerSourceRanges": ["x"]},
            [(INVALID, "spec.LoadBalancerSourceRanges[0]")],
        ),
        (
            {"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 86401}}},
            [(INVALID, "spec.sessionAffinityConfig.clientIP.timeoutSeconds")],
        ),
        ({"externalTrafficPolicy": "Local"}, [(INVALID, "spec.externalTrafficPolicy")]),
        ({"type": "NodePort", "externalTrafficPolicy": "X"}, [(UNSUPPORTED, "spec.externalTrafficPolicy")]),
        ({"healthCheckNodePort": 30300}, [(INVALID, "spec.healthCheckNodePort")]),
        ({"type": "LoadBalancer", "clusterIP": "None"}, [(INVALID, "spec.clusterIPs[0]")]),
        ({"clusterIP": "10.96.3.4", "clusterIPs": ["10.96.3.3"]}, [(INVALID, "spec.clusterIPs")]),
        ({"clusterIP": "x"}, [(INVALID, "spec.clusterIPs[0]")]),
        ({"ports": [{"port": 80, "targetPort": "Bad_Name"}]}, [(INVALID, "spec.ports[0].targetPort")]),
        ({"loadBalancerClass": "a.b/c"}, [(FORBIDDEN, "spec.loadBalancerClass")]),
    ],
)
async def test_what_makes_no_sense_is_refused(api: Api, spec: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    assert (await api.ask("POST", f"{NS}/services", service("other", **OUTER)))[0] == 201
    code, refused = await api.ask("POST", f"{NS}/services", service(**spec))
    assert (code, causes(refused)) == (422, expected)
    left = [
        each["metadata"]["name"]
        for each in (await api.ask("GET", "/apis/networking.k8s.io/v1/ipaddresses"))[1]["items"]
    ]
    used = [each["spec"]["clusterIP"] for each in (await api.ask("GET", "/api/v1/services"))[1]["items"]]
    assert sorted(left) == sorted(used), "what was refused holds no address"


async def test_a_port_of_the_nodes_is_one_services_until_it_gives_it_back(api: Api) -> None:
    assert (await api.ask("POST", f"{NS}/services", service("a", **OUTER)))[0] == 201
    both = [api.ask("POST", f"{NS}/services", service(name, type="NodePort")) for name in "bcdefgh"]
    found = [made["spec"]["ports"][0]["nodePort"] for _, made in await asyncio.gather(*both)]
    assert len({30200, *found}) == 8
    _, inner = await api.ask("PATCH", f"{NS}/services/a", {"spec": {"type": "ClusterIP"}}, kind=MERGE)
    assert "nodePort" not in inner["spec"]["ports"][0]
    assert "externalTrafficPolicy" not in inner["spec"]
    racing = [api.ask("POST", f"{NS}/services", service(name, **OUTER)) for name in "xyz"]
    assert sorted(code for code, _ in await asyncio.gather(*racing)) == [201, 422, 422]


async def test_a_balancer_that_keeps_to_its_node_has_a_port_for_its_health(api: Api) -> None:
    spec = {"type": "LoadBalancer", "externalTrafficPolicy": "Local"}
    _, made = await api.ask("POST", f"{NS}/services", service(**spec))
    port = made["spec"]["healthCheckNodePort"]
    assert port in range(30000, 32768)
    assert port != made["spec"]["ports"][0]["nodePort"]
    _, kept = await api.ask("PUT", f"{NS}/services/t", service(**spec))
    assert kept["spec"]["healthCheckNodePort"] == port
    assert kept["spec"]["ports"][0]["nodePort"] == made["spec"]["ports"][0]["nodePort"]
    change = {"spec": {"externalTrafficPolicy": "Cluster"}}
    _, without = await api.ask("PATCH", f"{NS}/services/t", change, kind=MERGE)
    assert "healthCheckNodePort" not in without["spec"]
    _, name = await api.ask(
        "PATCH", f"{NS}/services/t", {"spec": {"type": "ExternalName", "externalName": "a.b"}}, kind=MERGE
    )
    assert set(name["spec"]) == {"externalName", "ports", "sessionAffinity", "type"}


async def test_a_service_without_address_and_selector_is_of_both_families(api: Api) -> None:
    _, made = await api.ask("POST", f"{NS}/services", service(clusterIP="None"))
    assert (made["spec"]["ipFamilies"], made["spec"]["ipFamilyPolicy"]) == (["IPv4", "IPv6"], "RequireDualStack")
    _, made = await api.ask("POST", f"{NS}/services", service("u", ipFamilyPolicy="PreferDualStack"))
    assert (made["spec"]["ipFamilies"], made["spec"]["ipFamilyPolicy"]) == (["IPv4"], "PreferDualStack")


async def test_many_ports_of_the_nodes_are_found_with_one_look_at_the_others(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, all_ = [], api.backend.all

    async def counted(group: str, plural: str, namespace: str = "") -> list[dict[str, Any]]:
        looks.append(plural)
        return await all_(group, plural, namespace)

    monkeypatch.setattr(api.backend, "all", counted)
    ports = [{"name": f"p{number}", "port": number + 1} for number in range(20)]
    code, made = await api.ask("POST", f"{NS}/services", service("many", type="NodePort", ports=ports))
    assert code == 201, made
    assert len({each["nodePort"] for each in made["spec"]["ports"]}) == 20
    assert looks.count("services") <= 2
