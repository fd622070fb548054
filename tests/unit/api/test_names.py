import pytest

from pykubelet.api.names import json_name


@pytest.mark.parametrize(
    ("attribute", "name"),
    [
        ("name", "name"),
        ("node_name", "nodeName"),
        ("pod_ip", "podIP"),
        ("pod_ips", "podIPs"),
        ("host_pid", "hostPID"),
        ("host_ipc", "hostIPC"),
        ("pod_cidrs", "podCIDRs"),
        ("container_id", "containerID"),
        ("disk_uri", "diskURI"),
        ("system_uuid", "systemUUID"),
        ("set_hostname_as_fqdn", "setHostnameAsFQDN"),
        ("scale_io", "scaleIO"),
        ("target_wwns", "targetWWNs"),
        ("downward_api", "downwardAPI"),
        ("fields_v1", "fieldsV1"),
        ("last_known_good", "lastKnownGood"),
    ],
)
def test_words_are_joined_and_abbreviations_capitalised(attribute: str, name: str) -> None:
    assert json_name(attribute) == name


@pytest.mark.parametrize(
    ("attribute", "name"),
    [("api_version", "apiVersion"), ("ip", "ip"), ("uid", "uid"), ("fs_group", "fsGroup"), ("os_image", "osImage")],
)
def test_an_abbreviation_that_comes_first_stays_small(attribute: str, name: str) -> None:
    assert json_name(attribute) == name


def test_the_underscore_that_keeps_a_name_from_being_a_keyword_is_dropped() -> None:
    assert json_name("continue_") == "continue"
