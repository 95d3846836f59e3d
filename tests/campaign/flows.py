"""The workflows that are disturbed. Each attempt leaves a mark outside the run, and holds a lock while it lives."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

BEGIN = (
    "exec 9>>OUT/locks/$DIEL_TASK_ID; "
    'flock -n 9 || echo "beside $DIEL_TASK_ID $DIEL_ATTEMPT 0" >> OUT/marks; '
    'echo "began $DIEL_TASK_ID $DIEL_ATTEMPT $(date +%s.%N)" >> OUT/marks'
)
"""The first line of each command. The kernel lets go of the lock when the last process of the attempt is gone."""

MODULES = '''
    import contextlib, fcntl, json, os, time
    import numpy as np

    @contextlib.contextmanager
    def begun(context):
        """The same for a function."""
        with open(f"OUT/locks/{context.task_id}", "a") as lock, open("OUT/marks", "a") as marks:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                marks.write(f"beside {context.task_id} {context.attempt} 0\\n")
            marks.write(f"began {context.task_id} {context.attempt} {time.time()}\\n")
            marks.flush()
            yield

    @diel.module(kind="analysis")
    def root(context: diel.Context, square: int) -> dict:
        with begun(context):
            time.sleep(0.05)
            return {"root": square ** 0.5, "file": np.full(3, square)}

    @diel.module(kind="simulation")
    def pair(context: diel.Context, comm: "MPI.Comm", k: int) -> dict:
        with begun(context) if comm.Get_rank() == 0 else contextlib.nullcontext():
            time.sleep(0.3)
            return {"sum": comm.allreduce(k + comm.Get_rank())}

    @diel.module(kind="analysis")
    def total(context: diel.Context, values: list[int]) -> dict:
        with begun(context):
            return {"count": len(values), "sum": sum(values)}

    @diel.module(kind="simulation")
    def make(context: diel.Context, seed: int, count: int) -> dict:
        with begun(context):
            out = context.stream("samples")
            for number in range(count):
                large = number % 97 == 0  # too large for the broker: it goes through a file
                out.put({"at": [seed, number], "x": np.full(10_000 if large else 3, number)})
                if number >= out.count:
                    time.sleep(0.008)
            return {"made": count}

    def take(context, folder):
        """Keeps what was got together with the commit: under a name made of its place."""
        items, part = context.stream("samples"), []
        begun_at = items.number

        def keep():
            path = f"{folder}/{context.index}-{begun_at:06d}.json"
            with open(path + ".part", "w") as file:
                json.dump(part, file)
            os.replace(path + ".part", path)
            items.commit()

        for item in items:
            assert set(item["x"].tolist()) == {item["at"][1]}
            part.append(item["at"])
            if len(part) == 20:
                keep()
                begun_at, part = items.number, []
        keep()

    @diel.module(kind="training")
    def share(context: diel.Context, reader: int) -> dict:
        with begun(context):
            os.makedirs("OUT/parts", exist_ok=True)
            take(context, "OUT/parts")
            return {"reader": reader}

    @diel.module(kind="training")
    def watch(context: diel.Context) -> dict:
        """Gets all; a new attempt gets again what the one before did not commit."""
        with begun(context):
            last, items = {}, context.stream("samples")
            for item in items:
                seed, number = item["at"]
                assert number == last.get(seed, -1) + 1, (last, item["at"])
                last[seed] = number
            return {"read": items.number, "last": sorted(last.items())}

    @diel.module(kind="analysis")
    def add(context: diel.Context, made: list[int], readers: list[int]) -> dict:
        """What both readers got, each item once."""
        with begun(context):
            parts = sorted(os.listdir("OUT/parts"))
            items = sorted(tuple(at) for name in parts for at in json.load(open(f"OUT/parts/{name}")))
            return {"made": sum(made), "got": len(items), "different": len(set(items)), "parts": len(parts) > 0}
'''

SWEEP = """
    axes:
      i: {range: SIZE}
      k: {range: 4}
    stages:
      square:
        over: [i]
        command: |
          BEGIN
          sleep 0.1
          echo "$DIEL_TASK_ID" > name.txt
          echo "{\\"square\\": ${{ i * i }}}" > "$DIEL_RESULT"
        outputs: {square: {value: int}, name: {path: name.txt}}
      root:
        over: [i]
        module: "ends:root"
        params: {square: "${{ square.square }}"}
      long:
        over: [k]
        command: |
          BEGIN
          sleep 1.5
          echo "{\\"k\\": ${{ k }}}" > "$DIEL_RESULT"
        outputs: {k: {value: int}}
      pair:
        over: [k]
        module: "ends:pair"
        resources: {ranks: 2}
      total:
        module: "ends:total"
        params: {values: "${{ square.square }}"}
"""

SEARCH = """
    hyperparameters:
      x: {type: float, low: -2, high: 2}
      n: {type: int, low: 1, high: 9}
      way: {type: choice, choices: [up, down]}
    axes:
      trial:
        search:
          {sampler: tpe, trials: SIZE, seed: 7, startup: 5, minimize: judge.cost, parameters: [x, n, way]}
    stages:
      simulate:
        over: [trial]
        command: |
          BEGIN
          sleep 0.1
          [ ${{ trial }} != 3 ] || exit 1
          echo "{\\"energy\\": ${{ hp.x ** 2 + (1 if hp.way == 'up' else 0) }}}" > "$DIEL_RESULT"
        outputs: {energy: {value: float}}
      judge:
        over: [trial]
        command: |
          BEGIN
          echo "{\\"cost\\": ${{ simulate.energy + abs(hp.n - 4) }}}" > "$DIEL_RESULT"
        outputs: {cost: {value: float}}
      best:
        command: |
          BEGIN
          echo "{\\"cost\\": ${{ inputs.cost }}, \\"n\\": ${{ inputs.n }}}" > "$DIEL_RESULT"
        inputs:
          cost: {from: judge.cost, at: {trial: best}}
          n: {from: hp.n, at: {trial: best}}
        outputs: {cost: {value: float}, n: {value: int}}
"""

LOOP = """
    hyperparameters:
      x: {type: float, low: -2, high: 2}
    axes:
      round: {loop: {max: 20, until: "best.cost < 0.0001 or round == LAST"}}
      trial: {search: {sampler: random, trials: 3, seed: 3, minimize: judge.cost, parameters: [x]}}
    stages:
      judge:
        over: [round, trial]
        inputs: {before: {from: best.cost, at: {round: previous}, initially: 8.0}}
        command: |
          BEGIN
          sleep 0.2
          echo "{\\"cost\\": ${{ inputs.before / 2 + abs(hp.x) / 10 }}}" > "$DIEL_RESULT"
        outputs: {cost: {value: float}}
      best:
        over: [round]
        inputs: {cost: {from: judge.cost, at: {trial: best}}}
        command: |
          BEGIN
          echo "{\\"cost\\": ${{ inputs.cost }}}" > "$DIEL_RESULT"
        outputs: {cost: {value: float}}
      end:
        command: |
          BEGIN
          echo "{\\"cost\\": ${{ inputs.cost }}}" > "$DIEL_RESULT"
        inputs: {cost: {from: best.cost, at: {round: last}}}
        outputs: {cost: {value: float}}
"""

STREAM = """
    axes:
      seed: {range: 2}
      reader: {range: 2}
    stages:
      make:
        over: [seed]
        module: "ends:make"
        params: {count: SIZE}
        outputs: {samples: {stream: {buffer: 50}}}
        on: {node: {retries: 100}}
      share:
        over: [reader]
        module: "ends:share"
        inputs: {samples: {from: make.samples, share: true}}
        on: {node: {retries: 100}}
      watch:
        module: "ends:watch"
        inputs: {samples: {from: make.samples}}
        on: {node: {retries: 100}}
      add:
        module: "ends:add"
        params: {made: "${{ make.made }}", readers: "${{ share.reader }}"}
        after: [watch]
"""

COMPILED = """
    axes:
      seed: {range: 2}
      reader: {range: 2}
    stages:
      build:
        command: |
          BEGIN
          TMPDIR=. cc -O1 -o flow $(PYTHON -m diel client) ${{ files.source }}
        files: {source: HERE/flow.c}
        outputs: {program: {path: flow}}
      make:
        over: [seed]
        command: |
          BEGIN
          ${{ build.program }} make ${{ seed }} SIZE
        outputs: {samples: {stream: {buffer: 50}}, made: {value: int}}
        on: {node: {retries: 100}}
      share:
        over: [reader]
        module: "ends:share"
        inputs: {samples: {from: make.samples, share: true}}
        on: {node: {retries: 100}}
      watch:
        command: |
          BEGIN
          ${{ build.program }} watch
        inputs: {samples: {from: make.samples}}
        outputs: {read: {value: int}}
        on: {node: {retries: 100}}
      add:
        module: "ends:add"
        params: {made: "${{ make.made }}", readers: "${{ share.reader }}"}
        after: [watch]
"""

ALWAYS = ("controller", "worker", "workers", "pool", "everything")


@dataclass(frozen=True)
class Flow:
    """A workflow that takes longer, the more often it is to be disturbed."""

    name: str
    text: str
    stages: tuple[str, ...]
    kinds: tuple[str, ...]
    """What there is to kill on one machine."""
    size: Callable[[int], int]
    """How large it is for so many kills."""
    fails: tuple[str, ...] = ()
    """Tasks that fail by themselves, killed or not."""

    def workflow(self, kills: int, out: str) -> str:
        size = self.size(kills)
        text = self.text.replace("BEGIN", BEGIN).replace("OUT", out)
        text = text.replace("HERE", str(Path(__file__).parent)).replace("PYTHON", sys.executable)
        return text.replace("SIZE", str(size)).replace("LAST", str(size - 1))


FLOWS = {
    flow.name: flow
    for flow in (
        Flow(
            "sweep",
            SWEEP,
            ("square", "root", "long", "pair", "total"),
            (*ALWAYS, "task"),
            lambda kills: 10 + 15 * kills,
        ),
        Flow(
            "search",
            SEARCH,
            ("simulate", "judge", "best"),
            (*ALWAYS, "task"),
            lambda kills: 5 + 4 * kills,
            ("simulate/3",),
        ),
        Flow("loop", LOOP, ("judge", "best", "end"), (*ALWAYS, "task"), lambda kills: min(20, 3 + 2 * kills)),
        Flow(
            "stream",
            STREAM,
            ("make", "share", "watch", "add"),
            (*ALWAYS, "broker"),
            lambda kills: 100 + 80 * kills,
        ),
        Flow(
            "compiled",
            COMPILED,
            ("build", "make", "share", "watch", "add"),
            (*ALWAYS, "broker", "task"),
            lambda kills: 100 + 80 * kills,
        ),
    )
}
