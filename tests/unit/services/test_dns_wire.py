import contextlib
import struct

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.services import dns_wire as wire
from pykubelet.services.dns_wire import Malformed, Query, Record


def query(name: str = "Web.Default.svc.cluster.local.", kind: str = "A", **more: int) -> Query:
    return wire.read_query(dns.message.make_query(name, kind, **more).to_wire())  # type: ignore[arg-type]


def test_a_question_is_read() -> None:
    asked = query()
    assert (asked.text, asked.type, asked.klass) == ("web.default.svc.cluster.local", wire.A, wire.IN)
    assert (asked.fault, asked.size, asked.has_edns) == (wire.NO_ERROR, 512, False)
    assert query(".", "NS").text == ""


@pytest.mark.parametrize(("said", "size"), [(512, 512), (100, 512), (1000, 1000), (4096, 1232)])
def test_clients_say_how_much_they_take(said: int, size: int) -> None:
    asked = query(use_edns=0, payload=said)
    assert (asked.size, asked.has_edns) == (size, True)


def test_what_cannot_be_answered_is_told_why() -> None:
    assert query(use_edns=1).fault == wire.BAD_VERSION
    head = struct.Struct("!HHHHHH")
    assert wire.read_query(head.pack(7, 0, 2, 0, 0, 0) + b"\0\0\1\0\1\0\0\1\0\1").fault == wire.FORMAT_ERROR
    assert wire.read_query(head.pack(7, 0x2800, 1, 0, 0, 0) + b"\0\0\6\0\1").fault == wire.NOT_IMPLEMENTED
    assert wire.read_query(head.pack(7, 0, 1, 0, 0, 0) + b"\0\0\1\0\3").fault == wire.REFUSED
    for broken in (
        b"\xc0\x0c\0\1\0\1",
        b"\x3fabc",
        b"\x40abc\0\0\1\0\1",
        b"\1a\0\0\1",
        (b"\x3f" + b"a" * 63) * 4 + b"\0",
    ):
        assert wire.read_query(head.pack(7, 0, 1, 0, 0, 0) + broken).fault == wire.FORMAT_ERROR


@pytest.mark.parametrize("data", [b"", b"\0" * 11, struct.pack("!HHHHHH", 7, 0x8000, 1, 0, 0, 0) + b"\0\0\1\0\1"])
def test_answers_and_crumbs_are_not_answered(data: bytes) -> None:
    with pytest.raises(Malformed):
        wire.read_query(data)


def test_another_program_reads_what_is_written() -> None:
    asked = query(use_edns=0)
    records = [
        Record("Web.Default.svc.cluster.local", wire.A, ("10.96.0.1",)),
        Record("web.default.svc.cluster.local", wire.AAAA, ("fd00::1",)),
        Record("_http._tcp.web.default.svc.cluster.local", wire.SRV, (0, 100, 80, "web.default.svc.cluster.local")),
        Record("1.0.96.10.in-addr.arpa", wire.PTR, ("web.default.svc.cluster.local",)),
        Record("db.default.svc.cluster.local", wire.CNAME, ("db.example.org",), 30),
        Record("dns-version.cluster.local", wire.TXT, ("1.1.0",)),
    ]
    soa = Record("cluster.local", wire.SOA, ("ns.dns.cluster.local", "hostmaster.cluster.local", 1, 2, 3, 4, 5))
    said = dns.message.from_wire(wire.written(asked, wire.NO_ERROR, records, [soa]))
    assert said.id == asked.id
    assert said.flags & (dns.flags.QR | dns.flags.AA | dns.flags.RA | dns.flags.RD) == said.flags
    assert said.question[0].name.to_text() == "Web.Default.svc.cluster.local."
    assert [rrset.to_text() for rrset in said.answer] == [
        "Web.Default.svc.cluster.local. 5 IN A 10.96.0.1",
        "web.default.svc.cluster.local. 5 IN AAAA fd00::1",
        "_http._tcp.web.default.svc.cluster.local. 5 IN SRV 0 100 80 web.default.svc.cluster.local.",
        "1.0.96.10.in-addr.arpa. 5 IN PTR web.default.svc.cluster.local.",
        "db.default.svc.cluster.local. 30 IN CNAME db.example.org.",
        'dns-version.cluster.local. 5 IN TXT "1.1.0"',
    ]
    assert said.authority[0].to_text() == (
        "cluster.local. 5 IN SOA ns.dns.cluster.local. hostmaster.cluster.local. 1 2 3 4 5"
    )
    assert said.edns == 0
    bad = dns.message.from_wire(wire.written(query(use_edns=1), wire.BAD_VERSION))
    assert bad.rcode() == dns.rcode.BADVERS


def test_what_is_too_long_is_left_out_and_said_to_be() -> None:
    many = [Record("web.default.svc.cluster.local", wire.A, (f"10.1.0.{number}",)) for number in range(100)]
    asked = query()
    data = wire.written(asked, wire.NO_ERROR, many, limit=asked.size)
    assert len(data) <= 512
    said = dns.message.from_wire(data)
    assert said.flags & dns.flags.TC
    assert not said.answer
    assert wire.is_truncated(data)
    whole = dns.message.from_wire(wire.written(asked, wire.NO_ERROR, many))
    assert len(whole.answer[0]) == 100


def test_only_the_answer_to_a_question_is_one() -> None:
    question = dns.message.make_query("example.org.", "A")
    answer = dns.message.make_response(question).to_wire()
    assert wire.answers_to(question.to_wire(), answer)
    assert wire.answers_to(question.to_wire(), answer.replace(b"example", b"EXAMPLE"))
    assert not wire.answers_to(question.to_wire(), answer.replace(b"example", b"exampl3"))
    assert not wire.answers_to(question.to_wire(), wire.with_id(answer, question.id ^ 1))
    assert not wire.answers_to(question.to_wire(), question.to_wire())
    other = dns.message.make_query("example.org.", "AAAA", id=question.id)
    assert not wire.answers_to(question.to_wire(), dns.message.make_response(other).to_wire())


def test_the_addresses_in_anothers_answer_are_read() -> None:
    text = """id 7
opcode QUERY
rcode NOERROR
flags QR RD RA
;QUESTION
db.example.org. IN A
;ANSWER
db.example.org. 60 IN CNAME real.example.org.
real.example.org. 30 IN A 203.0.113.7
real.example.org. 30 IN TXT "no address"
"""
    found = wire.read_addresses(dns.message.from_text(text).to_wire())
    assert found == [
        Record("db.example.org", wire.CNAME, ("real.example.org",), 60),
        Record("real.example.org", wire.A, ("203.0.113.7",), 30),
    ]
    assert wire.asked(7, "db.example.org", wire.A) == dns.message.make_query("db.example.org.", "A", id=7).to_wire()


def test_a_name_that_leads_to_itself_ends() -> None:
    with pytest.raises(Malformed):
        wire.read_addresses(struct.pack("!HHHHHH", 7, 0x8180, 0, 1, 0, 0) + b"\xc0\x0c" + b"\0" * 20)


HEADS = st.builds(
    lambda number, flags, counts: struct.pack("!HHHHHH", number, flags, *counts),
    st.integers(0, 65535),
    st.sampled_from([0, 0x0100, 0x8180, 0x2800]),
    st.tuples(*[st.integers(0, 3)] * 4),
)
PIECES = st.sampled_from([b"\0", b"\3web", b"\xc0\x0c", b"\0\1\0\1", b"\0\0\x29\x10\0\0\0\0\0\0\0", b"\x3f"])


@given(
    st.binary(max_size=600) | st.builds(lambda head, rest: head + b"".join(rest), HEADS, st.lists(PIECES | st.binary()))
)
def test_whatever_comes_is_read_or_malformed(data: bytes) -> None:
    with contextlib.suppress(Malformed):
        asked = wire.read_query(data)
        answer = wire.written(asked, asked.fault, limit=asked.size)
        assert len(answer) <= max(asked.size, len(data) + 11), "no more comes out of us than was put in"
        assert asked.text is not None
        dns.message.from_wire(answer)
    with contextlib.suppress(Malformed, struct.error):
        wire.read_addresses(data)
    wire.answers_to(data, data)
