"""The spelling rules, one by one: a text and the number of its faults."""

import pytest

from pykubelet.api.validation import names

ADDRESSES = [
    ("10.0.0.1", True),
    ("010.000.00.1", True),  # leading zeros are decimal, as they always were
    ("256.0.0.1", False),
    ("10.0.0", False),
    ("10.0.0.1/8", False),
    ("", False),
    ("::", True),
    ("FE80:0:0:0:0:0:0:0abc", True),
    ("00001::", True),
    ("12345::", False),
    ("1:2:3:4:5:6:7::", True),
    ("1:2:3:4:5:6:7::8", False),
    ("1::2::3", False),
    ("::ffff:1.2.3.4", True),
    ("::ffff:1.2.3.256", False),
    ("1:2:3:4:5:6:7:1.2.3.4", False),
    ("fe80::1%eth0", False),
    ("example.com", False),
]

SPELLING = [
    (names.dns_label, "a-1", 0),
    (names.dns_label, "a\n", 1),
    (names.dns_label, "-a", 1),
    (names.dns_label, "a.b", 1),
    (names.dns_label, "é" * 32, 2),  # 32 letters, but 64 bytes
    (names.dns_subdomain, "a.b-c.1", 0),
    (names.dns_subdomain, "a..b", 1),
    (names.search_domain, "_a.b_c", 0),
    (names.search_domain, "__a", 1),
    (names.name_prefix, "a.-", 0),
    (names.name_prefix, "--", 0),
    (names.qualified_name, "a/b", 0),
    (names.qualified_name, "a.b_C", 0),
    (names.qualified_name, "", 2),
    (names.qualified_name, "/", 3),
    (names.qualified_name, "a/b/c", 1),
    (names.qualified_name, "A/b", 1),
    (names.label_value, "", 0),
    (names.label_value, "-" * 64, 2),
    (names.env_name, "a b~!", 0),
    (names.env_name, "a\tb", 1),
    (names.config_key, "a..b", 0),
    (names.config_key, "..", 1),
    (names.config_key, "../", 2),
    (names.port_name, "a-1", 0),
    (names.port_name, "", 2),
    (names.port_name, "-1--2-" * 3, 4),
    (names.http_header, "X-Y", 0),
    (names.http_header, "X_Y", 1),
    (names.sysctl, "a.b/c_d-e", 0),
    (names.sysctl, "a.", 1),
    (names.iscsi_name, "iqn.2001-04.com.example:disk", 0),
    (names.iscsi_name, "iqn.2001-04.com.example", 1),
    (names.iscsi_name, "eui.0123456789ABCDEF", 0),
    (names.iscsi_name, "naa." + "0" * 32, 0),
    (names.iscsi_name, "naa." + "0" * 31, 1),
    (names.iscsi_name, "", 1),
]


@pytest.mark.parametrize(("text", "good"), ADDRESSES)
def test_an_address_is_read_as_kubernetes_always_read_it(text: str, good: bool) -> None:
    assert (not names.ip_address(text)) == good


@pytest.mark.parametrize(("rule", "text", "faults"), SPELLING)
def test_a_rule_finds_each_fault_of_a_text(rule: names.Rule, text: str, faults: int) -> None:
    assert len(rule(text)) == faults


@pytest.mark.parametrize("pair", ["a:1", ":", "[::1]:2", "a:http"])
def test_a_host_and_a_port(pair: str) -> None:
    assert names.host_port(pair)


@pytest.mark.parametrize("pair", ["", "a", "a:b:c", "[a]", "[a]b:1", "[a:1", "a]:1", "::1"])
def test_not_a_host_and_a_port(pair: str) -> None:
    assert not names.host_port(pair)


def test_space_is_what_unicode_calls_space() -> None:
    assert " a ".strip(names.WHITESPACE) == "a"
    assert "\x1ca".strip(names.WHITESPACE) == "\x1ca"  # Python alone thinks that this is space
