"""`pykubelet report` without an agent."""

import asyncio
import json
import tarfile
from datetime import UTC, datetime
from pathlib import Path

from click.testing import CliRunner

from pykubelet.base.journal import About, Noted
from pykubelet.cli.main import main
from pykubelet.host.journal_files import JournalFiles
from pykubelet.pod import moments as m
from pykubelet.pod.journal_rule import rule


def test_a_report_is_written_also_when_nothing_runs(tmp_path: Path) -> None:
    journal = JournalFiles(tmp_path / "data" / "state" / "journal", rule)
    event = m.EventRecorded("Warning", "Failed", 'login with token="hunter2hunter2" failed')
    journal.read(Noted(datetime.now(UTC), About("u1", "default", "web"), event))
    asyncio.run(journal.flush())
    (tmp_path / "data" / "kubelet.log").write_text("Authorization: Bearer hunter2hunter2\nall well\n")
    (tmp_path / "data" / "kubeconfig").write_text("client-key-data: hunter2hunter2")
    file = tmp_path / "report.tar.gz"
    arguments = ["report", str(file), "--data", str(tmp_path / "data")]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    assert "The agent does not answer: no agent answers at" in result.output
    with tarfile.open(file) as archive:
        parts = {each.name: archive.extractfile(each) for each in archive.getmembers()}
        content = {name: part.read().decode() for name, part in parts.items() if part}
    assert next(iter(content)) == "pykubelet-report/SUMMARY.txt"
    assert content["pykubelet-report/logs/kubelet.log"].endswith("all well\n")
    assert json.loads(content["pykubelet-report/journal/00000001.jsonl"])["n"] == "web"
    assert "hunter2" not in "".join(content.values())
    again = CliRunner().invoke(main, arguments)
    assert (again.exit_code, "is there already" in again.output) == (2, True)
