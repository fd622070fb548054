import ssl

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.web.ciphers import TlsPolicy


def made(version: str = "", *suites: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    TlsPolicy(version, suites).apply(context)
    return context


def old_suites(context: ssl.SSLContext) -> list[str]:
    return [each["name"] for each in context.get_ciphers() if each["protocol"] != "TLSv1.3"]


@pytest.mark.parametrize("version", ["", "VersionTLS10", "VersionTLS11", "VersionTLS12"])
def test_nothing_older_than_tls_1_2_is_spoken(version: str) -> None:
    assert made(version).minimum_version == ssl.TLSVersion.TLSv1_2


def test_tls_1_3_can_be_insisted_on() -> None:
    context = made("VersionTLS13", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256")
    assert context.minimum_version == ssl.TLSVersion.TLSv1_3


def test_suites_are_named_as_go_names_them() -> None:
    context = made("", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384")
    assert old_suites(context) == ["ECDHE-ECDSA-CHACHA20-POLY1305", "ECDHE-RSA-AES256-GCM-SHA384"]


def test_whoever_names_suites_of_tls_1_3_only_gets_tls_1_3() -> None:
    assert made("", "TLS_AES_128_GCM_SHA256").minimum_version == ssl.TLSVersion.TLSv1_3


def test_a_weak_suite_is_possible_and_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    assert old_suites(made("", "TLS_RSA_WITH_AES_128_GCM_SHA256")) == ["AES128-GCM-SHA256"]
    assert "TLS_RSA_WITH_AES_128_GCM_SHA256 is insecure" in caplog.text


@pytest.mark.parametrize("version", ["1.2", "TLSv1.2", "VersionTLS14"])
def test_an_unknown_version_is_refused(version: str) -> None:
    with pytest.raises(Invalid, match=r"tlsMinVersion: .* does not exist"):
        made(version)


@pytest.mark.parametrize("suite", ["ECDHE-RSA-AES256-GCM-SHA384", "TLS_NONE", ""])
def test_an_unknown_suite_is_refused(suite: str) -> None:
    with pytest.raises(Invalid, match=r"tlsCipherSuites: .* does not exist"):
        made("", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", suite)


def test_a_suite_that_openssl_has_given_up_is_refused() -> None:
    with pytest.raises(Invalid, match="offers none of RC4-SHA"):
        made("", "TLS_RSA_WITH_RC4_128_SHA")
