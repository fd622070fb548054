"""`make bench`: what things cost, as tables. Compare the ratios: machines are shared and noisy."""

import sys
from importlib import import_module

SUITES = (
    "merge",
    "agent",
    "cri",
    "process",
    "stats",
    "http",
    "store",
    "api",
    "crd",
    "workloads",
    "fairness",
    "config-maps",
    "csi",
    "freeze",
    "page",
)


def main() -> None:
    names = sys.argv[1:] or SUITES
    for name in names:
        if name not in SUITES:
            sys.exit(f"no benchmark {name!r}; there are: {', '.join(SUITES)}")
        import_module(
            f"bench.{name.replace('-', '_')}"
        ).run()  # only this one: another tree may not have what others need


if __name__ == "__main__":
    main()
