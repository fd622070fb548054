"""Namespaces."""

from kit.api_process import Api
from kit.strategies import faults, made, strategy_of


async def test_a_namespace_ends_when_nothing_holds_it(api: Api) -> None:
    _, made = await api.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "x"}})
    assert made["metadata"]["labels"] == {"kubernetes.io/metadata.name": "x"}
    assert (await api.ask("GET", "/api/v1/namespaces/x/serviceaccounts/default"))[0] == 200
    _, going = await api.ask("DELETE", "/api/v1/namespaces/x")
    assert going["status"]["phase"] == "Terminating"
    assert (await api.ask("DELETE", "/api/v1/namespaces/x"))[0] == 409
    going["spec"]["finalizers"] = []
    assert (await api.ask("PUT", "/api/v1/namespaces/x/finalize", going))[0] == 200
    assert (await api.ask("GET", "/api/v1/namespaces/x"))[0] == 404


def test_finalizers_have_names_of_their_own() -> None:
    namespaces = strategy_of("", "namespaces")
    for finalizers, expected in ((["kubernetes", "a.b/c"], []), (["bogus"], ["spec.finalizers"])):
        assert faults(namespaces, made(namespaces, spec={"finalizers": finalizers})) == expected
