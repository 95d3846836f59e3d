"""`python -m tests.cluster up [DIR] [--wait]`, `python -m tests.cluster down [DIR]`."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

if not __package__:  # `python tests/cluster`: the checkout is not on the path
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tests.cluster.cluster import PREFIX, Cluster, missing, new_folder, temporary
from tests.cluster.daemon import ClusterError

_UP = """\
A Slurm with four virtual nodes is up, in {folder}. In your shell:

    export SLURM_CONF={conf}
    export DIEL_SITE={site}

    sinfo
    srun -N4 sh -c 'echo $SLURMD_NODENAME'
    diel run workflows/melt_surrogate.yaml

Other sites beside it: {others}.
"""
_LATER = """\
To take it down:

    {python} -m tests.cluster down {folder}
"""


def main(words: list[str] | None = None) -> int:
    """Exit code 0, 1 where the cluster does not come up, 2 for bad usage."""
    options = _parser().parse_args(words)
    try:
        if options.action == "up":
            return _up(options.folder, options.wait)
        return _down(options.folder)
    except ClusterError as error:
        print(f"tests.cluster: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.cluster",
        description="A real Slurm with four virtual nodes on this machine, to be thrown away. Needs root.",
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="up|down")
    up = actions.add_parser("up", help="bring a cluster up")
    up.add_argument("folder", nargs="?", metavar="DIR", type=Path, help="a new directory; or one in /tmp")
    up.add_argument("--wait", action="store_true", help="stay, and take it down at Ctrl-C")
    down = actions.add_parser("down", help="cancel its jobs, end its processes, remove its directory")
    down.add_argument("folder", nargs="?", metavar="DIR", type=Path, help="may be left out for the only one")
    return parser


def _up(folder: Path | None, wait: bool) -> int:
    reason = missing()
    if reason:
        raise ClusterError(reason)
    cluster = Cluster(folder or new_folder())
    cluster.up()
    others = sorted(path.name for path in (cluster.folder / "schedulers").glob("virtual_*.yaml"))
    conf, site = cluster.slurm_conf, cluster.site()
    print(_UP.format(folder=cluster.folder, conf=conf, site=site, others=", ".join(others)))
    if not wait:
        print(_LATER.format(python=sys.executable, folder=cluster.folder), end="")
        return 0
    print("Ctrl-C takes it down.", flush=True)
    # SIGINT may be ignored where a shell started this in the background.
    signals = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    signal.sigwait(signals)
    print("Taking it down ...", flush=True)
    cluster.down()
    return 0


def _down(folder: Path | None) -> int:
    if folder is None:
        found = [path.parent for path in temporary().glob(f"{PREFIX}*/slurm.conf")]
        if len(found) != 1:
            which = "\n".join(f"  {path}" for path in sorted(found)) or "  none"
            raise ClusterError(f"name the directory of the cluster; there are:\n{which}")
        folder = found[0]
    if not Cluster(folder).exists():
        raise ClusterError(f"no cluster in {folder}: it holds none that was made by `up`")
    Cluster(folder).down()
    print(f"The cluster in {folder} is down, and its directory removed.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
