"""`diel doctor`: checks that this machine can run workflows."""

from __future__ import annotations

import json
from pathlib import Path

import click

from diel.cli.checkup import Finding, examine
from diel.cli.columns import paint, printable
from diel.cli.options import json_option, runs_option
from diel.paths import runs_dir

WIDTH = 13


@click.command("doctor")
@runs_option
@json_option
@click.option("--site", metavar="NAME", help="Check this site's file; `local` where it is not given.")
@click.option("--deep", is_flag=True, help="Run a small workflow through Parsl, too: some seconds.")
def command(runs: Path | None, as_json: bool, site: str | None, deep: bool) -> int:
    """Check that this machine can run workflows, and tell what to do where it cannot.

    Exits with 0 where all that is needed is there, with 1 otherwise; extras may be missing.
    """
    findings = []
    for finding in examine(runs_dir(runs), site, deep=deep):
        findings.append(finding)
        if not as_json:
            click.echo("\n".join(_lines(finding)))
    wrong = [finding.name for finding in findings if finding.required and not finding.ok]
    if as_json:
        document = {"ok": not wrong, "checks": [finding.document() for finding in findings]}
        click.echo(json.dumps(document))
    else:
        click.echo(_verdict(wrong, findings))
    return 1 if wrong else 0


def _lines(finding: Finding) -> list[str]:
    if finding.ok:
        mark = paint("✓", fg="green")
    else:
        mark = paint("✗", fg="red", bold=True) if finding.required else paint("–", fg="yellow")
    lines = [f"{mark} {finding.name:<{WIDTH}} {printable(finding.found)}"]
    if finding.fix:
        lines.append(f"  {'':<{WIDTH}} {paint(finding.fix, bold=finding.required)}")
    return lines


def _verdict(wrong: list[str], findings: list[Finding]) -> str:
    missing = [finding.name for finding in findings if not finding.ok and not finding.required]
    extras = f"; extras that are missing: {', '.join(missing)}" if missing else ""
    if wrong:
        return paint(f"\nnot ready: {', '.join(wrong)}", fg="red", bold=True) + extras
    return paint("\nready", fg="green", bold=True) + extras
