"""`diel doctor`: checks that this machine, or a site, can run workflows."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import FrameType

import click

from diel.base.errors import DielError, UsageError, did_you_mean
from diel.cli.options import PATH, Output, duration, json_option, runs_option
from diel.doctor import EXTRAS, PROGRAMS, Finding, examine
from diel.observe.status.columns import paint, printable
from diel.site.find import find_site
from diel.site.site import Site, missing

WIDTH = 13
EXTRA_NAMES = frozenset({name for names in EXTRAS.values() for name in names} | PROGRAMS)


@click.command("doctor")
@click.argument("file", type=PATH, required=False)
@runs_option
@json_option
@click.option("--site", metavar="NAME", help="Also check this site; `local` if not given.")
@click.option("--deep", is_flag=True, help="Also run a small workflow (some seconds).")
@click.option(
    "--job",
    is_flag=True,
    help="Submit to each pool of the site a tiny job that reports back, and a real run.",
)
@click.option("--pool", "pools", metavar="NAME", multiple=True, help="Submit it to this pool only.")
@click.option("--wait", type=duration, metavar="TIME", default="5m", help="How long to wait for the jobs.")
def command(
    file: Path | None,
    runs: Path,
    out: Output,
    site: str | None,
    deep: bool,
    job: bool,
    pools: tuple[str, ...],
    wait: float,
) -> int:
    """Say what to do if they cannot. Exit with 0 if everything needed is there, with 1 otherwise; extras
    may be missing.

    Environments of the site, and of the workflow FILE if one is given, are made and tried.
    """
    if pools and not job:
        raise UsageError("--pool says where the trial job goes; add --job")
    findings: list[Finding] = []

    def show(finding: Finding) -> None:
        findings.append(finding)
        if not out.as_json:
            click.echo("\n".join(_lines(finding)))

    tried = _trial_site(site, pools) if job else None
    for finding in examine(runs, site, file, deep=deep):
        show(finding)
    if tried is not None:
        with _ended_by_signals():
            for finding in _tried(site, *tried, runs, wait, findings):
                show(finding)
    wrong = [finding.name for finding in findings if finding.required and not finding.ok]
    document = {"ok": not wrong, "checks": [asdict(finding) for finding in findings]}
    out.show(lambda: document, [_verdict(wrong, findings)])
    return 1 if wrong else 0


def _trial_site(name: str | None, pools: tuple[str, ...]) -> tuple[Site, list[str]] | None:
    """Return the site and the pools that get a job, None for a wrong site file. Raise UsageError."""
    try:
        site = find_site(name, Path())
    except DielError:
        return None
    if not site.scheduled:
        raise UsageError(f"site '{site.name}' has no scheduler to take a job; choose one with --site")
    for pool in pools:
        if pool not in site.pools:
            hint = did_you_mean(pool, site.pools) or f"pools: {', '.join(site.pools)}"
            raise UsageError(f"site '{site.name}' has no pool '{pool}'; {hint}")
    return site, list(dict.fromkeys(pools)) or list(site.pools)


def _tried(
    name: str | None, site: Site, pools: list[str], folder: Path, wait: float, findings: list[Finding]
) -> Iterator[Finding]:
    """Yield the trial jobs, if the findings so far allow them to be submitted."""
    needed = ("commands", "scheduler", "runs")
    bad = [finding.name for finding in findings if finding.name in needed and not finding.ok]
    bad += ["account"] if missing(site) else []
    if bad:
        yield Finding("job", False, "not submitted", f"first fix: {', '.join(bad)}")
        return
    from diel.doctor.trial import try_jobs  # here: only --job needs it

    def tell(text: str) -> None:  # beside the document, not in it
        click.echo(f"… {printable(text)}", err=True)

    yield from try_jobs(site, name, pools, folder, wait, tell)


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Make SIGTERM and SIGHUP end this as Ctrl-C does, so that no job is left behind."""

    def end(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _lines(finding: Finding) -> list[str]:
    lesser = ("✗", "red") if finding.required else ("–", "yellow")
    mark, colour = ("✓", "green") if finding.ok else lesser
    mark = paint(mark, fg=colour, bold=colour == "red")
    lines = [f"{mark} {finding.name:<{WIDTH}} {printable(finding.found)}"]
    return [*lines, f"  {'':<{WIDTH}} {paint(finding.fix, bold=finding.required)}"] if finding.fix else lines


def _verdict(wrong: list[str], findings: list[Finding]) -> str:
    lesser = [finding.name for finding in findings if not finding.ok and not finding.required]
    extras = [name for name in lesser if name in EXTRA_NAMES]
    advice = [name for name in lesser if name not in EXTRA_NAMES]
    rest = f"; extras that are missing: {', '.join(extras)}" if extras else ""
    rest += f"; worth a look: {', '.join(advice)}" if advice else ""
    word, colour = (f"not ready: {', '.join(wrong)}", "red") if wrong else ("ready", "green")
    return paint(f"\n{word}", fg=colour, bold=True) + rest
