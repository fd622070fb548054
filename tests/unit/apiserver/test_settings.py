"""What may be chosen, and what may not."""

import pytest

from pykubelet.apiserver.settings import first_service, service_range, without_admission
from pykubelet.base.errors import Invalid


@pytest.mark.parametrize(
    ("text", "first"), [("10.96.0.0/16", "10.96.0.1"), ("192.168.4.0/24", "192.168.4.1"), ("fd00:1::/108", "fd00:1::1")]
)
def test_a_range_of_services(text: str, first: str) -> None:
    assert first_service(service_range(text)) == first


@pytest.mark.parametrize(
    "text", ["", "10.96.0.0", "10.96.0.1/16", "10.0.0.0/8", "10.96.0.0/28", "fd00::/64", "services"]
)
def test_what_is_none(text: str) -> None:
    with pytest.raises(Invalid, match="--service-cluster-ip-range"):
        service_range(text)


def test_admission_may_be_left_out_in_parts_that_are_known() -> None:
    assert without_admission(["PodSecurity", "Priority"]) == {"PodSecurity", "Priority"}
    with pytest.raises(Invalid, match="did you mean PodSecurity"):
        without_admission(["PodSecurityy"])
    with pytest.raises(Invalid, match="'NamespaceLifecycle' cannot be switched off here"):
        without_admission(["NamespaceLifecycle"])
