import re

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kit.certificates import Authority
from pykubelet.api.node import NodeAddress
from pykubelet.api.rules.well_known import CLIENT_SIGNER, SERVING_SIGNER
from pykubelet.kube.csr import (
    Template,
    digested_name,
    node_template,
    satisfies,
    serving_template,
    signing_request,
    usages,
)


def addresses(*pairs: tuple[str, str]) -> list[NodeAddress]:
    return [NodeAddress(type=kind, address=address) for kind, address in pairs]


def test_a_node_is_a_member_of_its_group() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    request = x509.load_pem_x509_csr(signing_request(key, node_template("n1")))
    assert request.is_signature_valid
    assert request.subject.rfc4514_string() == "CN=system:node:n1,O=system:nodes"
    assert list(request.extensions) == []


def test_a_serving_certificate_is_for_the_addresses_of_the_node() -> None:
    template = serving_template(
        "n1",
        addresses(
            ("Hostname", "n1"),
            ("InternalIP", "10.0.0.2"),
            ("InternalIP", "fd00:0::1"),
            ("ExternalIP", "10.0.0.1"),
            ("ExternalIP", "not an address"),
            ("InternalDNS", "n1.example"),
            ("InternalDNS", "n1"),
            ("ExternalDNS", ""),
        ),
    )
    assert template == Template(
        common_name="system:node:n1",
        organizations=("system:nodes",),
        dns_names=("n1", "n1.example"),
        ips=("10.0.0.1", "10.0.0.2", "fd00::1"),
    )
    request = x509.load_pem_x509_csr(signing_request(ec.generate_private_key(ec.SECP256R1()), template))
    names = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["n1", "n1.example"]
    assert [str(each) for each in names.get_values_for_type(x509.IPAddress)] == ["10.0.0.1", "10.0.0.2", "fd00::1"]


def test_a_host_name_that_is_an_address_counts_as_one() -> None:
    template = serving_template("n1", addresses(("Hostname", "10.0.0.1")))
    assert template is not None
    assert (template.dns_names, template.ips) == ((), ("10.0.0.1",))


def test_without_an_ip_address_there_is_nothing_to_ask_for() -> None:
    assert serving_template("n1", addresses(("Hostname", "n1"))) is None


def test_a_certificate_may_say_more_than_is_wanted_but_not_less() -> None:
    issued = Authority().issue("web", organizations=["a", "b"], hosts=["web", "10.0.0.1", "10.0.0.2"])
    certificate = x509.load_pem_x509_certificate(issued.certificate)
    assert satisfies(certificate, Template(common_name="web", organizations=("b",), ips=("10.0.0.2",)))
    assert not satisfies(certificate, Template(common_name="other"))
    assert not satisfies(certificate, Template(common_name="web", organizations=("c",)))
    assert not satisfies(certificate, Template(common_name="web", ips=("10.0.0.3",)))
    assert not satisfies(certificate, Template(common_name="web", dns_names=("web2",)))


def test_usages_are_those_of_a_key_that_encrypts_no_keys() -> None:
    assert usages(CLIENT_SIGNER) == ("digital signature", "client auth")
    assert usages(SERVING_SIGNER) == ("digital signature", "server auth")


def test_the_name_is_the_one_that_kubernetes_would_give() -> None:
    key = ec.derive_private_key(42, ec.SECP256R1())
    name = digested_name(key, node_template("n1"), CLIENT_SIGNER)
    assert name == "node-csr-Rjm5QyQx5rJMG90glxbqS91eEm4y671BCy-ogsHxJq4"


def test_the_name_depends_on_key_and_wish_alone() -> None:
    key, other = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    name = digested_name(key, node_template("n1"), CLIENT_SIGNER)
    assert re.fullmatch(r"node-csr-[A-Za-z0-9_-]{43}", name)
    assert digested_name(key, node_template("n1"), CLIENT_SIGNER) == name
    assert digested_name(other, node_template("n1"), CLIENT_SIGNER) != name
    assert digested_name(key, node_template("n2"), CLIENT_SIGNER) != name
    assert digested_name(key, node_template("n1"), SERVING_SIGNER) != name


def test_a_node_may_have_a_long_name() -> None:
    name = "n" * 200
    pem = signing_request(ec.generate_private_key(ec.SECP256R1()), node_template(name))
    with pytest.warns(UserWarning, match="length"):
        subject = x509.load_pem_x509_csr(pem).subject
    assert subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == f"system:node:{name}"
