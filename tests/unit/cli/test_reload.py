"""`pykubelet reload` asks the agent, and tells what it says."""

from pathlib import Path

from click.testing import CliRunner, Result

from kit.told_agent import told_agent
from pykubelet.cli.main import main


def reload(state: Path) -> Result:
    return CliRunner().invoke(main, ["reload", "--root-dir", str(state)])


def test_what_was_applied_and_what_was_not_is_printed(tmp_path: Path) -> None:
    with told_agent(tmp_path) as agent:
        agent.answers["reload"] = {"applied": ["syncFrequency"], "kept": ["maxPods"]}
        assert reload(tmp_path).output == "applied: syncFrequency\ntakes a restart: maxPods\n"
        agent.answers["reload"] = {"applied": [], "kept": []}
        assert reload(tmp_path).output == "the configuration is what it was\n"
        for kind, code in (("Invalid", 2), ("Retry", 1)):
            agent.answers["reload"] = {"error": "config.yaml:3: no", "kind": kind}
            refused = reload(tmp_path)
            assert (refused.exit_code, refused.output) == (code, "pykubelet: config.yaml:3: no\n")
    assert reload(tmp_path).exit_code == 1
