"""Which text belongs to which flag: as Go's flags have it."""

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.config.command_line import parse

ALONE = {"help": "true", "v": "", "port": "", "register-node": "true", "max-pods": ""}


@pytest.mark.parametrize(
    ("arguments", "given"),
    [
        ([], []),
        (["--port", "1"], [("port", "1")]),
        (["--port=1"], [("port", "1")]),
        (["--port="], [("port", "")]),
        (["--port", "--register-node"], [("port", "--register-node")]),
        (["--max_pods=7"], [("max-pods", "7")]),
        (["--register-node"], [("register-node", "true")]),
        (["--register-node=false"], [("register-node", "false")]),
        (["--register-node", "--port=1"], [("register-node", "true"), ("port", "1")]),
        (["-v", "4"], [("v", "4")]),
        (["-v=4"], [("v", "4")]),
        (["-v4"], [("v", "4")]),
        (["--v=4"], [("v", "4")]),
        (["-hv4"], [("help", "true"), ("v", "4")]),
        (["--port=1", "--"], [("port", "1")]),
    ],
)
def test_a_command_line_is_read_as_go_reads_it(arguments: list[str], given: list[tuple[str, str]]) -> None:
    assert list(parse(arguments, ALONE)) == given


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (["--prot=1"], "unknown flag: --prot; did you mean --port?"),
        (["--entirely-else"], "unknown flag: --entirely-else"),
        (["--port"], "flag needs an argument: --port"),
        (["-v"], "flag needs an argument: -v"),
        (["-port=1"], "unknown shorthand flag: 'p' in -port=1; did you mean --port?"),
        (["---port"], "bad flag syntax: ---port"),
        (["--=1"], "bad flag syntax: --=1"),
        (["run"], "unknown command run"),
        (["--register-node", "false"], "unknown command false"),
        (["--", "--port=1"], "unknown command --port=1"),
        (["-"], "unknown command -"),
    ],
)
def test_what_is_no_flag_is_refused_with_the_one_that_was_meant(arguments: list[str], fault: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse(arguments, ALONE)
    assert str(caught.value) == fault
