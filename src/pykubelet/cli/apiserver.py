"""`apiserver`: the embedded API server alone."""

from typing import Any

import click

from pykubelet.cli.common import PATH, controllers_option, logging_options, start_logging, words

_COUNT = click.IntRange(min=0)


@click.command()
@click.option(
    "--data-dir",
    "--data",
    "data_dir",
    type=PATH,
    metavar="PATH",
    help="Where its state, keys and kubeconfig are [as for `up`].",
)
@click.option(
    "--kubeconfig", default="", type=PATH, metavar="FILE", help="Where to write the administrator's [in the data]."
)
@click.option("--bind-address", default="127.0.0.1", show_default=True, metavar="IP", help="Where to serve.")
@click.option("--port", type=click.IntRange(1, 65535), default=6443, show_default=True)
@click.option("--tls-san", "names", multiple=True, metavar="NAME", help="Another name that clients use; repeatable.")
@click.option("--store", type=click.Choice(["sqlite", "memory", "etcd"]), default="sqlite", show_default=True)
@click.option("--etcd-servers", default="", metavar="URL[,URL]", help="Where etcd is, with --store=etcd.")
@click.option("--etcd-cafile", default="", type=PATH, metavar="FILE", help="Whose certificate etcd has.")
@click.option("--etcd-certfile", default="", type=PATH, metavar="FILE", help="By which etcd knows us.")
@click.option("--etcd-keyfile", default="", type=PATH, metavar="FILE", help="Its key.")
@click.option(
    "--import-from", default="", type=PATH, metavar="FILE", help="A state.db whose objects go into the store first."
)
@controllers_option
@click.option(
    "--kubelet-endpoint",
    "kubelet_endpoints",
    multiple=True,
    metavar="NODE=IP:PORT",
    help="Where the kubelet of a node is, whatever the node itself says; repeatable.",
)
@click.option("--cluster-dns", default="", metavar="IP", help="Make the service for names there, which nodes answer.")
@click.option(
    "--host-path-volumes",
    default="",
    type=PATH,
    metavar="FOLDER",
    help="Make volumes for claims as folders in there, and a storage class for that.",
)
@click.option("--insecure-kubelets", is_flag=True, help="Believe kubelets without a certificate of ours.")
@click.option(
    "--service-cluster-ip-range",
    default="10.96.0.0/16",
    show_default=True,
    metavar="CIDR",
    help="Which addresses services get; nothing else in reach may have them.",
)
@click.option(
    "--disable-admission-plugins",
    default="",
    metavar="NAME[,NAME]",
    help="Which parts of admission are left out, by upstream's names, such as PodSecurity.",
)
@click.option("--audit-log-path", default="", type=PATH, metavar="FILE", help="Log who did what; - is the output.")
@click.option("--audit-policy-file", default="", type=PATH, metavar="FILE", help="How much of what [Metadata of all].")
@click.option("--audit-log-maxage", type=_COUNT, default=0, metavar="DAYS", help="Keep older logs so long [for ever].")
@click.option("--audit-log-maxbackup", type=_COUNT, default=0, metavar="NUMBER", help="Keep so many of them [all].")
@click.option(
    "--audit-log-maxsize", type=_COUNT, default=100, metavar="MIB", show_default=True, help="Begin another after that."
)
@click.option("--audit-log-compress", is_flag=True, help="Pack older logs with gzip.")
@logging_options
def apiserver(
    data_dir: str | None,
    names: tuple[str, ...],
    kubelet_endpoints: tuple[str, ...],
    etcd_servers: str,
    controllers: str,
    logging_format: str,
    verbosity: int,
    **given: Any,
) -> None:
    """Run the embedded API server alone, until it is told to stop."""
    import asyncio
    import gc
    from pathlib import Path

    gc.disable()  # what is loaded stays: it is enabled once all is there
    from pykubelet.app.apiserver import run_apiserver
    from pykubelet.config.apiserver import ApiServerConfig
    from pykubelet.up.folder import default_folder

    start_logging(verbosity, logging_format)
    data = Path(data_dir).absolute() if data_dir else default_folder() / "apiserver"
    config = ApiServerConfig(
        data=data,
        kubeconfig=Path(given["kubeconfig"]).absolute() if given["kubeconfig"] else data / "kubeconfig",
        address=given["bind_address"],
        port=given["port"],
        names=names,
        store=given["store"],
        etcd_servers=words(etcd_servers),
        etcd_ca=given["etcd_cafile"],
        etcd_certificate=given["etcd_certfile"],
        etcd_key=given["etcd_keyfile"],
        import_from=Path(given["import_from"]).absolute() if given["import_from"] else None,
        controllers=words(controllers) or ("*",),
        kubelet_endpoints=kubelet_endpoints,
        cluster_dns=given["cluster_dns"],
        insecure_kubelets=given["insecure_kubelets"],
        host_path_volumes=str(Path(given["host_path_volumes"]).absolute()) if given["host_path_volumes"] else "",
        service_range=given["service_cluster_ip_range"],
        without_admission=words(given["disable_admission_plugins"]),
        audit_policy=given["audit_policy_file"],
        audit_log=given["audit_log_path"],
        audit_most_days=given["audit_log_maxage"],
        audit_most_files=given["audit_log_maxbackup"],
        audit_most_megabytes=given["audit_log_maxsize"],
        audit_compress=given["audit_log_compress"],
    )
    asyncio.run(run_apiserver(config))
