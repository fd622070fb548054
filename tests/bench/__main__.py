"""`make bench`: what things cost, as tables. Compare the ratios: machines are shared and noisy."""

import sys

from bench import agent, api, config_maps, cri, freeze, http, merge, process, stats, store

SUITES = {
    "merge": merge.run,
    "agent": agent.run,
    "cri": cri.run,
    "process": process.run,
    "stats": stats.run,
    "http": http.run,
    "store": store.run,
    "api": api.run,
    "config-maps": config_maps.run,
    "freeze": freeze.run,
}


def main() -> None:
    names = sys.argv[1:] or list(SUITES)
    for name in names:
        if name not in SUITES:
            sys.exit(f"no benchmark {name!r}; there are: {', '.join(SUITES)}")
        SUITES[name]()


if __name__ == "__main__":
    main()
