"""Makes the pictures of the README and of docs/gallery.md from real runs: `make pictures`.

python docs/pictures.py           runs every workflow of which it shows something, and takes all pictures anew
python docs/pictures.py tune …    those of these workflows
python docs/pictures.py --at DIR  runs them in DIR, and takes runs that are there already as they are

A picture is a part of a run's page (`diel report -o run.html`) as Chromium draws it without a network, light
and dark; or what `diel view` shows of it. It needs Chromium, as `make test` installs it, and
what the workflows need.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from shutil import which
from types import TracebackType
from typing import Any

from diel.store.project.runs import find_run
from diel.ui.view.app import ViewApp

PICTURES = Path(__file__).parent / "pictures"
EDGE = 8
"""Pixels around what is shown."""
SHOWN = {
    "active_learning": "round: judge.error by round",
    "after": "cluster: transition along size, a line for each seed",
    "alloy": "confirm: mixing against prediction",
    "assimilation": "analyse: the mean of error along round",
    "autotune": "measure: speedup against hp.timestep",
    "bench": "kernel: gflops along size",
    "corresponding_states": "argon.relax: energy (eV) against atoms",
    "coupled_solvers": "#timeline",
    "differentiable": "recover: error along noise, a line for each seed",
    "equation_of_state": "energy: result along stretch, a line for each symbol",
    "evolve": "trials on the Pareto front",
    "hello": "greet: letters by person",
    "ising_surrogate": "simulate: heat_capacity along temperature",
    "lammps_service": "#timeline",
    "large_batch": "train: the mean of accuracy along batch",
    "melt_surrogate": "simulate: pressure over temperature and density",
    "online_training": "learn: loss as it was reported",
    "parallel_cost": "train: rows_to_loss along batch, a line for each seed",
    "parallel_training": "train: step_ms by way",
    "patterns": "learn: validation_loss as it was reported",
    "pinn": "vortices: convection as it was reported",
    "population": "trial at seed=0: train.loss of each trial",
    "precision": "train: peak_mib by precision",
    "reinforcement": "learn: episode as it was reported",
    "relax": "relax: energy (eV) against atoms",
    "scaling": "strong: seconds along size, a line for each n",
    "scaling_law": "train: test_loss along rows, a line for each seed",
    "screening_service": "simulate: compressibility_factor over density and temperature",
    "search_architecture": "trials on the Pareto front",
    "steer": "trial: hyperparameters of each complete trial",
    "super_resolution": "judge: psnr by way",
    "surrogate_loop": "simulate: the part of its tasks that was answered",
    "sweep": "average: exponent along growth",
    "synthetic": "classify: accuracy by way",
    "tune": "trial: hyperparameters of each complete trial",
}
"""What is shown of a workflow: the chart whose caption has these words, or an element of its page."""
OPENING, VIEWED = "melt_surrogate", "active_learning"
"""The README opens with the page of the one, and shows the view of the other."""


class Chromium:
    """Chromium without a window or a network, led through a pipe by its DevTools protocol."""

    def __init__(self, profile: str) -> None:
        read_here, write_there = os.pipe()
        read_there, write_here = os.pipe()
        program = f'exec 3<&{read_there} 4>&{write_there}; exec "$@"'  # the descriptors that Chromium expects
        words = [
            which("chromium") or "chromium-headless-shell",
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
        ]
        words += [f"--user-data-dir={profile}", "--remote-debugging-pipe"]
        there = (read_there, write_there)
        self._process = subprocess.Popen(
            ["bash", "-c", program, "bash", *words], pass_fds=there, stderr=subprocess.DEVNULL
        )
        for one in there:
            os.close(one)
        self._replies, self._requests = read_here, write_here
        self._number, self._rest, self._session = 0, b"", {}
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        attached = self.ask("Target.attachToTarget", targetId=target, flatten=True)
        self._session = {"sessionId": attached["sessionId"]}
        self.ask("Network.enable")
        none = {"latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
        self.ask("Network.emulateNetworkConditions", offline=True, **none)

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """What Chromium answers; events that come meanwhile are left out."""
        self._number += 1
        request = {"id": self._number, "method": method, "params": params, **self._session}
        os.write(self._requests, json.dumps(request).encode() + b"\0")
        while True:
            while b"\0" not in self._rest:
                if not (more := os.read(self._replies, 1 << 20)):
                    raise SystemExit("chromium has ended")
                self._rest += more
            message, _, self._rest = self._rest.partition(b"\0")
            answer = json.loads(message)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise SystemExit(f"{method}: {answer['error']['message']}")
                return dict(answer["result"])

    def value(self, script: str) -> Any:
        """The value of an expression in the page, once it is known."""
        found = self.ask("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in found:
            raise SystemExit(f"{script}: {found['exceptionDetails']['text']}")
        return found["result"].get("value")

    def __enter__(self) -> Chromium:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.ask("Browser.close")
        self._process.wait(10)


_BOX = """(async (wanted) => {
  const wait = () => new Promise((done) => setTimeout(done, 100));
  for (let i = 0; i < 100 && document.documentElement?.dataset.drawn !== "yes"; i++) await wait();
  let found = wanted.startsWith("#") ? document.querySelector(wanted) : null;
  for (const figure of document.querySelectorAll("figure")) {
    if (found || !figure.querySelector("figcaption")?.textContent.includes(wanted)) continue;
    const choice = figure.closest(".choice");
    if (choice && figure.hidden) {
      const chooser = choice.querySelector("select");
      chooser.value = [...choice.querySelectorAll(":scope > figure")].indexOf(figure);
      chooser.dispatchEvent(new Event("change", {bubbles: true}));
      for (let i = 0; i < 10; i++) await wait();
    }
    found = figure;
  }
  if (!found) return null;
  found.querySelectorAll("details").forEach((one) => one.remove());
  const box = found.getBoundingClientRect();
  return [box.x + scrollX, box.y + scrollY, box.width, box.height];
})"""


def take(browser: Chromium, page: Path, wanted: str, size: tuple[int, int], target: Path) -> None:
    """Pictures of a part of a page, at most this large: TARGET.webp and TARGET-dark.webp."""
    screen = {"width": size[0], "height": 1200, "deviceScaleFactor": 1, "mobile": False}
    browser.ask("Emulation.setDeviceMetricsOverride", **screen)
    for theme, end in (("light", ".webp"), ("dark", "-dark.webp")):
        browser.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
        browser.ask("Page.navigate", url=page.resolve().as_uri())
        if (box := browser.value(f"{_BOX}({json.dumps(wanted)})")) is None:
            raise SystemExit(f"{page}: there is no '{wanted}'")
        x, y, width, height = box[0] - EDGE, box[1] - EDGE, box[2] + 2 * EDGE, min(box[3], size[1]) + 2 * EDGE
        clip = {"x": max(x, 0), "y": max(y, 0), "width": width, "height": height, "scale": 1}
        taken = browser.ask(
            "Page.captureScreenshot", clip=clip, captureBeyondViewport=True, format="webp", quality=90
        )
        Path(f"{target}{end}").write_bytes(base64.b64decode(taken["data"]))


async def take_view(runs: Path, target: Path) -> None:
    """What `diel view` shows of the last run, as Textual draws it."""
    app = ViewApp(runs, find_run(runs, "last"), 0.5)
    async with app.run_test(size=(100, 28)) as pilot:
        await pilot.pause(3)
        drawn = app.export_screenshot(title="diel view")
    target.write_text(re.sub(r"@font-face \{.*?\}", "", drawn, flags=re.DOTALL))  # fonts from the network


def page_of(name: str, folder: Path) -> Path:
    """The page of a run of a shipped workflow, which is run first where there is none."""

    def diel(*words: str) -> None:
        sys.stdout.write(f"{name}: diel {' '.join(words)}\n")
        sys.stdout.flush()
        command = [sys.executable, "-m", "diel", *words]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)

    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "runs").exists():
        diel("init", "--from", name)
        diel("run", f"{name}.yaml", "--quiet")
    diel("report", "--public", "-o", "run.html")
    return folder / "run.html"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="WORKFLOW")
    parser.add_argument("--at", type=Path, metavar="DIR")
    given = parser.parse_args()
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, Chromium(f"{scratch}/profile") as browser:
        for name in given.names or SHOWN:
            page = page_of(name, (given.at or Path(scratch)) / name)
            take(browser, page, SHOWN[name], (900, 600), PICTURES / name)
            if name == OPENING:
                take(browser, page, "#main", (1100, 900), PICTURES / "report")
            if name == VIEWED:
                asyncio.run(take_view(page.parent / "runs", PICTURES / "view.svg"))


if __name__ == "__main__":
    main()
