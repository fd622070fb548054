"""`pykubelet restart` asks the agent, and tells what it says."""

from pathlib import Path

from click.testing import CliRunner, Result

from kit.told_agent import told_agent
from pykubelet.cli.main import main


def restart(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["restart", *arguments])


def test_the_agent_is_asked_and_its_word_told(tmp_path: Path) -> None:
    with told_agent(tmp_path) as agent:
        agent.answers["restart"] = {"container": "app"}
        done = restart("web", "-c", "app", "-n", "prod", "--root-dir", str(tmp_path))
        assert (done.exit_code, done.output) == (0, "app of prod/web is being restarted\n")
        assert agent.questions[-1] == "restart prod web app"
        for kind, code in (("Invalid", 2), ("NotFound", 2), ("Retry", 1)):
            agent.answers["restart"] = {"error": "no", "kind": kind}
            refused = restart("web", "--root-dir", str(tmp_path))
            assert (refused.exit_code, refused.output) == (code, "pykubelet: no\n")
        assert agent.questions[-1] == "restart default web"
        assert restart("web x", "--root-dir", str(tmp_path)).exit_code == 2


def test_nobody_there_is_said_in_one_line(tmp_path: Path) -> None:
    nobody = restart("web", "--root-dir", str(tmp_path))
    assert (nobody.exit_code, nobody.output.count("\n")) == (1, 1)
