"""Called by hatchling while it builds a wheel: what `man` finds after an installation, in `share/man`."""

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ManPages(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        sys.path[:0] = [str(Path(self.root, each)) for each in ("src", "tools")]
        from man_pages import pages

        self._folder = tempfile.TemporaryDirectory()
        for name, text in pages().items():
            path = Path(self._folder.name, name)
            path.write_text(text)
            build_data["shared_data"][str(path)] = f"share/man/man{path.suffix[1:]}/{name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if version != "editable":
            self._folder.cleanup()
