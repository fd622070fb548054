"""`run`: the node agent."""

from typing import Any

import click

from pykubelet.cli.common import logging_options, start_logging
from pykubelet.config import flags


@click.command()
@click.option("--config", "config_file", metavar="FILE", help="KubeletConfiguration file; flags override it.")
@logging_options
@flags.options
def run(config_file: str | None, logging_format: str, verbosity: int, **texts: Any) -> None:
    """Run the node agent until it is told to stop. Pods go on running without it."""
    import asyncio

    from pykubelet.app.kubelet import run_kubelet
    from pykubelet.config.agent import make_config
    from pykubelet.config.kubelet_configuration import load_configuration

    start_logging(verbosity, logging_format)
    said = load_configuration(config_file) if config_file else {}
    asyncio.run(run_kubelet(make_config(said | flags.given(texts), flags=flags.shown(texts))))
