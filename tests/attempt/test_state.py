"""A task begins as every other does, whatever functions did in its worker before."""

from __future__ import annotations

import os
import sys
from importlib.machinery import ModuleSpec
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import pytest

from diel.worker.attempt import state
from tests.throwaway import Project

SPOILER = """
import decimal, logging, os, random, resource, signal, sys, time, warnings

decimal.getcontext().prec = 12
warnings.simplefilter("ignore", ResourceWarning)
drawn = random.random()


def found() -> dict:
    mask = os.umask(0o22)
    os.umask(mask)
    place = os.path.relpath(os.getcwd(), os.environ["DIEL_TASK_DIR"])
    return {
        "mask": mask, "digits": str(decimal.Decimal(1) / 3), "deepest": sys.getrecursionlimit(),
        "filters": len(warnings.filters), "handler": str(signal.getsignal(signal.SIGUSR1)), "place": place,
        "path": sys.path[:], "words": len(sys.argv), "variable": os.environ.get("SPOILT", ""),
        "stack": resource.getrlimit(resource.RLIMIT_STACK)[0], "level": logging.root.level,
        "handlers": len(logging.root.handlers), "timer": signal.getitimer(signal.ITIMER_REAL)[0],
        "drawn": drawn, "zone": time.tzname, "mask of signals": len(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
    }


def spoil(i: int) -> dict:
    seen = found()
    import numpy  # which adds filters of warnings, when it is imported for the first time

    seen |= {"errors": str(numpy.geterr()), "shown": str(numpy.ones(1) / 3)}
    os.umask(0o777)
    decimal.getcontext().prec = 3 + i
    decimal.setcontext(decimal.Context(prec=3 + i))
    sys.setrecursionlimit(5000 + i)
    warnings.simplefilter("error")
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    signal.setitimer(signal.ITIMER_REAL, 600)
    sys.path.insert(0, "/nowhere")
    sys.argv.append("word")
    os.environ.update(SPOILT="yes", TZ="Asia/Tokyo")
    time.tzset()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
    resource.setrlimit(resource.RLIMIT_STACK, (1 << 20, resource.getrlimit(resource.RLIMIT_STACK)[1]))
    logging.basicConfig(level=10 + i, force=True)
    numpy.seterr(all="raise")
    numpy.set_printoptions(precision=2)
    os.chdir("/")
    sys.stdout = open(os.devnull, "w")
    return {"seen": seen}


def draw(i: int) -> dict:
    import numpy

    return {"drawn": [random.random(), float(numpy.random.rand())]}


def shorten(xs: list, more: dict, k: int) -> dict:
    xs.pop(k)
    more["xs"].append(k)
    return {"left": [len(xs), len(more["xs"])]}
"""
FLOW = """
axes: {i: {POINTS}}
stages:
  made:
    command: |
      echo '{"xs": [[1, 2], [3], [4]]}' > "$DIEL_RESULT"
    outputs: {xs: {value: list}}
  spoil: {module: "spoiler:spoil", over: [i]}
  after: {command: "umask; ulimit -s", over: [i]}
  draw: {module: "spoiler:draw", over: [i]}
  shorten:
    module: "spoiler:shorten"
    over: [i]
    inputs: {xs: made.xs}
    params: {k: 0, more: {xs: []}}
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path).module("spoiler", SPOILER).machine("one", 1).machine("two", 2)


def test_what_a_function_changes_of_its_process_is_put_back(project: Project) -> None:
    run = project.workflow(FLOW.replace("POINTS", "range: 24")).run("--site", "one")
    first, *others = run.values("spoil", "seen")
    assert others == [first] * 23
    assert first["digits"] == "0.333333333333", "as the import of its file left it"
    assert run.values("shorten", "left") == [[2, 1]] * 24
    said = {run.stdout("after", i) for i in range(24)}
    assert len(said) == 1
    assert not said.pop().startswith("0777")


def test_a_context_of_decimal_that_an_import_made_is_each_tasks_own(project: Project) -> None:
    """The import of this file leaves all as it was: only the object that its tasks share is another one."""
    project.module(
        "digits",
        """
        import decimal

        def widen(i):
            before = decimal.getcontext().prec
            decimal.getcontext().prec = 50
            return {"before": before}
        """,
    ).workflow("axes: {i: {range: 12}}\nstages: {widen: {over: [i], module: digits:widen}}")
    assert project.run("--no-cache").values("widen", "before") == [28] * 12


def test_what_draws_without_a_seed_draws_the_same_in_any_order_and_bundle(project: Project) -> None:
    forward = project.workflow(FLOW.replace("POINTS", "range: 24")).run("--site", "one", "--no-cache")
    drawn = forward.values("draw", "drawn")
    assert len({tuple(pair) for pair in drawn}) == 24, "each its own"
    points = list(range(23, -1, -1))
    back = project.workflow(FLOW.replace("POINTS", f"values: {points}")).run("--site", "two", "--no-cache")
    assert back.values("draw", "drawn") == drawn[::-1]
    few = project.workflow(FLOW.replace("POINTS", "values: [7, 3]")).run("--site", "two", "--no-cache")
    assert few.values("draw", "drawn") == [drawn[7], drawn[3]]
    assert few.values("spoil", "seen")[0]["drawn"] == forward.values("spoil", "seen")[0]["drawn"]


def test_what_the_import_of_a_helper_sets_holds_for_each_file_that_imports_it(project: Project) -> None:
    project.module("helper", "import decimal\n\ndecimal.getcontext().prec = 5\nwords = []\n")
    for name in ("ours", "theirs"):
        project.module(
            name,
            """
            import decimal, sys
            import helper
            sys.path.insert(0, "/of/" + __name__.split("_")[2])

            def third() -> dict:
                helper.words.append(1)
                added = [path for path in sys.path if path.startswith("/of/")]
                return {"third": str(decimal.Decimal(1) / 3), "words": len(helper.words), "added": added}
            """,
        )
    flow = """
        stages:
          one: {module: "ours:third"}
          two: {module: "theirs:third", after: [one]}
          again: {module: "ours:third", after: [two], env: {AGAIN: 1}}
    """
    run = project.workflow(flow).run("--site", "one", "--no-cache")
    assert [run.value(stage, "third") for stage in ("one", "two", "again")] == ["0.33333"] * 3
    assert [run.value(stage, "words") for stage in ("one", "two", "again")] == [1, 1, 2], "globals stay"
    assert [run.value(stage, "added") for stage in ("one", "two")] == [["/of/ours"], ["/of/theirs"]]


LIBRARIES = """
import calendar, csv, decimal, gc, logging, multiprocessing, os, resource, signal, sys, tempfile, threading, warnings


def look() -> dict:
    import pandas, torch
    import matplotlib.pyplot as plt

    named = logging.getLogger("sim")
    return {
        "files": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "timers": [signal.getitimer(n)[0] for n in (signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)],
        "folder": tempfile.gettempdir(), "cores": len(os.sched_getaffinity(0)), "gc": gc.isenabled(),
        "sizes": gc.get_threshold(), "trace": str(sys.gettrace()), "profile": str(sys.getprofile()),
        "hooks": [f.__name__ for f in (sys.excepthook, sys.unraisablehook, threading.excepthook)],
        "shown": [warnings.showwarning.__name__, warnings.formatwarning.__name__], "field": csv.field_size_limit(),
        "dialects": [csv.get_dialect(name).delimiter for name in sorted(csv.list_dialects())],
        "threads": [threading.stack_size(), sys.getswitchinterval(), decimal.DefaultContext.prec],
        "traps": sorted(map(str, decimal.DefaultContext.traps.items())),
        "day": calendar.firstweekday(), "start": str(multiprocessing.get_start_method(allow_none=True)),
        "named": [named.level, len(named.handlers), named.propagate, named.disabled],
        "record": logging.getLogRecordFactory().__name__,
        "device": str(torch.get_default_device()), "exact": torch.are_deterministic_algorithms_enabled(),
        "autocast": torch.is_autocast_enabled("cpu"), "matmul": torch.get_float32_matmul_precision(),
        "least": float("5e-324") * 1.0, "cudnn": torch.backends.cudnn.benchmark,
        "rows": pandas.get_option("display.max_rows"), "width": plt.rcParams["lines.linewidth"],
        "lines": len(plt.gca().lines),
    }


def spoil(i: int) -> dict:
    seen = look()
    import pandas, torch
    import matplotlib.pyplot as plt

    def other(*_: object, **_more: object) -> None: ...

    resource.setrlimit(resource.RLIMIT_NOFILE, (200, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    signal.setitimer(signal.ITIMER_VIRTUAL, 600)
    signal.setitimer(signal.ITIMER_PROF, 600)
    tempfile.tempdir = "/nowhere"
    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
    gc.disable()
    gc.set_threshold(1 + i)
    sys.excepthook = sys.unraisablehook = threading.excepthook = other
    warnings.showwarning = warnings.formatwarning = other
    csv.field_size_limit(10)
    csv.register_dialect("excel", delimiter=";")
    csv.register_dialect("own", delimiter=":")
    csv.unregister_dialect("unix")
    threading.stack_size(1 << 20)
    sys.setswitchinterval(0.5)
    decimal.DefaultContext.prec = 4
    decimal.DefaultContext.traps[decimal.Inexact] = True
    calendar.setfirstweekday(3)
    multiprocessing.set_start_method("spawn", force=True)
    named = logging.getLogger("sim")
    named.setLevel(logging.INFO)
    named.addHandler(logging.FileHandler("sim.log"))
    named.propagate, named.disabled = False, True
    torch.set_default_device("meta")
    torch.use_deterministic_algorithms(True)
    torch.set_autocast_enabled("cpu", True)
    torch.set_float32_matmul_precision("medium")
    torch.set_flush_denormal(True)
    torch.backends.cudnn.benchmark = True
    pandas.set_option("display.max_rows", 7)
    plt.rcParams["lines.linewidth"] = 9
    plt.plot([1, 2])
    logging.setLogRecordFactory(other)
    import sklearn

    sklearn.set_config(working_memory=1)
    sys.settrace(other)
    sys.setprofile(other)
    return {"seen": seen}
"""


def test_what_a_function_changes_of_libraries_is_put_back(project: Project) -> None:
    flow = """
        axes: {i: {range: 4}}
        stages:
          spoil: {module: "libraries:spoil", over: [i]}
    """
    project.module("libraries", LIBRARIES)
    first, *others = project.workflow(flow).run("--site", "one").values("spoil", "seen")
    changed = [{name: pair for name, pair in seen.items() if pair != first[name]} for seen in others]
    assert changed == [{}] * 3


def test_a_library_that_another_thread_still_imports_is_let_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    partial = ModuleType("tempfile")
    partial.__spec__ = ModuleSpec("tempfile", None)
    monkeypatch.setattr(partial.__spec__, "_initializing", True, raising=False)
    monkeypatch.setitem(sys.modules, "tempfile", partial)
    assert state._library("tempfile") is None


LATE = """
import ctypes
import os
import subprocess


def third(n: int) -> dict:
    if n % 2:
        import precise
    import decimal

    return {"third": str(decimal.Decimal(1) / 3)}


def swap(n: int) -> dict:
    import numpy

    numpy.random.set_bit_generator(numpy.random.PCG64(n))
    os.putenv("PUT", "wrong")
    ctypes.CDLL(None).setenv(b"SET", b"wrong", 1)
    ctypes.CDLL(None).unsetenv(b"HOME")
    return {"set": True}


def draw(n: int) -> dict:
    import numpy

    text = subprocess.run("echo $PUT $SET $HOME", shell=True, text=True, capture_output=True).stdout
    return {"drawn": float(numpy.random.rand()), "text": text.strip()}
"""


def test_what_a_late_import_sets_holds_for_each_task_that_imports_it(project: Project) -> None:
    project.module("precise", "import decimal\n\ndecimal.getcontext().prec = 50\n").module("late", LATE)
    flow = "axes: {n: {range: 8}}\nstages: {third: {module: 'late:third', over: [n]}}"
    run = project.workflow(flow).run("--site", "one")
    assert [len(text) - 2 for text in run.values("third", "third")] == [28, 50] * 4


def test_generators_and_variables_of_c_are_put_back(project: Project) -> None:
    project.module("late", LATE)
    flow = """
    axes: {n: {range: 3}}
    stages:
      first: {module: "late:draw", over: [n]}
      swap: {module: "late:swap", over: [n], after: [first]}
      then: {module: "late:draw", over: [n], after: [swap]}
    """
    run = project.workflow(flow).run("--site", "one", "--no-cache")
    assert run.values("then", "drawn") == run.values("first", "drawn")
    assert {*run.values("then", "text")} == {*run.values("first", "text")}
    assert len({*run.values("first", "text")}) == 1


def test_an_import_that_raises_leaves_generators_as_they_were(
    project: Project, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path_factory.mktemp("packages") / "half"
    library.mkdir()
    (library / "part.py").write_text("import random\n\nrandom.random()\n")
    (library / "__init__.py").write_text("from half import part\n\nraise ImportError('its other half')\n")
    monkeypatch.setenv("PYTHONPATH", str(library.parent))
    project.module(
        "own",
        """
        import random

        def draw(n: int) -> dict:
            try:
                import half
            except ImportError:
                return {"drawn": random.random()}
        """,
    )
    flow = """
    axes: {n: {range: 2}}
    stages:
      first: {module: "own:draw", over: [n]}
      then: {module: "own:draw", over: [n], after: [first]}
    """
    run = project.workflow(flow).run("--site", "one", "--no-cache")
    assert run.values("then", "drawn") == run.values("first", "drawn")


def test_an_import_by_keywords_is_pythons() -> None:
    assert state._import_again("os.path", fromlist=["join"]) is sys.modules["os.path"]


def test_what_a_file_sets_after_an_import_holds_where_its_function_imports_again(project: Project) -> None:
    project.module("helper", "import decimal\n\ndecimal.getcontext().prec = 5\n")
    project.module(
        "own",
        """
        import decimal
        import helper
        decimal.getcontext().prec = 50

        def third(n: int) -> dict:
            import helper
            return {"third": str(decimal.Decimal(1) / 3)}
        """,
    )
    flow = "axes: {n: {range: 3}}\nstages: {third: {module: 'own:third', over: [n]}}"
    run = project.workflow(flow).run("--site", "one")
    assert [len(text) - 2 for text in run.values("third", "third")] == [50] * 3


SETS = """
import logging, os, sys, tempfile, warnings
import numpy

os.environ["POTENTIALS"] = "/opt/pots"
os.environ.setdefault("FLAVOUR", "plain")
sys.path.append("/opt/more")
warnings.simplefilter("error", ResourceWarning)
tempfile.tempdir = "/opt/tmp"
logging.getLogger("mine").setLevel(10)
logging.getLogger("mine").addHandler(logging.NullHandler())
numpy.seterr(divide="raise")
numpy.set_printoptions(precision=2)
"""
ASKS = """
import importlib
from importlib import import_module


def look() -> dict:
    import logging, numpy, os, sys, tempfile, warnings

    mine = logging.getLogger("mine")
    return {
        "seen": [
            os.environ.get("POTENTIALS"), os.environ.get("FLAVOUR"), "/opt/more" in sys.path,
            ("error", ResourceWarning) in [(f[0], f[2]) for f in warnings.filters], tempfile.tempdir,
            mine.level, len(mine.handlers), numpy.geterr()["divide"], numpy.get_printoptions()["precision"],
        ]
    }


def plain(i: int) -> dict:
    import helpers.sets
    return look()


def part(i: int) -> dict:
    from helpers import sets
    return look()


def called(i: int) -> dict:
    importlib.import_module("helpers.sets")
    return look()


def relative(i: int) -> dict:
    import_module(".sets", "helpers")
    return look()


def low(i: int) -> dict:
    __import__("helpers.sets")
    return look()


def below(i: int) -> dict:
    import helpers.sets.nothing
    return look()


def through(i: int) -> dict:
    import helpers.user
    return look()


def never(i: int) -> dict:
    return look()
"""
WAYS = ("plain", "part", "called", "relative", "low", "below", "through")


def test_what_an_import_sets_holds_in_each_way_in_which_a_function_asks_for_it(project: Project) -> None:
    for name, text in {"sets/__init__": SETS, "sets/nothing": "", "user": "import helpers.sets"}.items():
        path = project.folder / "modules" / "helpers" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    project.module("asks", ASKS).module("top", f"import helpers.sets{ASKS}")
    lines = [
        f"  {way}: {{over: [i], module: 'asks:{way}', after: [{before}]}}"
        for before, way in pairwise(("top", *WAYS, "never"))
    ]
    lines.append("  declares: {over: [i], module: 'asks:plain', after: [never], env: {FLAVOUR: rich}}")
    flow = ["axes: {i: {range: 2}}", "stages:", "  top: {over: [i], module: 'top:never'}", *lines]
    run = project.workflow("\n".join(flow)).run("--site", "one", "--no-cache")
    seen = {stage: run.values(stage, "seen") for stage in ("top", *WAYS, "declares", "never")}
    right = ["/opt/pots", "plain", True, True, "/opt/tmp", 10, 1, "raise", 2]
    rich = [right[0], "rich", *right[2:]]
    without = [None, None, False, False, None, 0, 0, "warn", 8]
    assert seen == dict.fromkeys(("top", *WAYS), [right] * 2) | {
        "declares": [rich] * 2,
        "never": [without] * 2,
    }


def test_what_a_task_set_before_an_import_stays(project: Project) -> None:
    """The import is executed once, in a task that had set other things than the later ones."""
    project.module("helper", SETS)
    project.module(
        "own",
        """
        import logging, os, sys, warnings

        def look(i: int) -> dict:
            import numpy

            os.environ["OF"] = f"task {i}"
            sys.path.append(f"/of/{i}")
            warnings.filterwarnings("error", message=f"of {i}")
            logging.getLogger("mine").propagate = logging.root.disabled = bool(i)
            import helper

            filters = [f[1].pattern for f in warnings.filters if f[1] and f[1].pattern.startswith("of")]
            return {
                "of": [os.environ["OF"], [p for p in sys.path if p.startswith("/of")], filters],
                "mine": [logging.getLogger("mine").propagate, logging.root.disabled],
            }
        """,
    )
    flow = "axes: {i: {range: 3}}\nstages: {look: {module: 'own:look', over: [i]}}"
    run = project.workflow(flow).run("--site", "one", "--no-cache")
    assert run.values("look", "of") == [[f"task {i}", [f"/of/{i}"], [f"of {i}"]] for i in range(3)]
    assert run.values("look", "mine") == [[bool(i)] * 2 for i in range(3)]


FLOATS = """
import ctypes

tiny, one, third = 5e-324, 1.0, 3.0


def look(i: int) -> dict:
    return {"least": tiny * one, "third": (one / third).hex(), "negative": (-one / third).hex()}


def spoil(i: int) -> dict:
    import torch

    seen = look(i)
    ctypes.CDLL(None).fesetround(0x800 if i % 2 else 0x400)
    torch.set_flush_denormal(True)
    return seen
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers of the ways to round are of x86")
def test_how_the_processor_computes_is_put_back(project: Project) -> None:
    stages = "spoil: {over: [i], module: 'floats:spoil'}\n  look: {over: [i], module: 'floats:look', after: [spoil]}"
    flow = f"axes: {{i: {{range: 3}}}}\nstages:\n  {stages}"
    run = project.module("floats", FLOATS).workflow(flow).run("--site", "one", "--no-cache")
    for stage in ("spoil", "look"):
        assert run.values(stage, "least") == [5e-324] * 3
        assert run.values(stage, "third") == [(1 / 3).hex()] * 3
        assert run.values(stage, "negative") == [(-1 / 3).hex()] * 3


TORCH = """
import torch


def look() -> dict:
    backends, module = torch.backends, torch.nn.modules.module
    with torch.autocast("cpu"):
        product = torch.full((2, 11), 64.0) @ torch.full((11, 2), 128.0)
    return {
        "product": float(product[0, 0]), "cudnn": [backends.cudnn.enabled, backends.cudnn.conv.fp32_precision],
        "mkldnn": [backends.mkldnn.enabled, backends.mkldnn.matmul.fp32_precision], "all": backends.fp32_precision,
        "matmul": [torch.get_float32_matmul_precision(), backends.cuda.matmul.fp32_precision],
        "half": backends.cuda.matmul.allow_bf16_reduced_precision_reduction,
        "sdp": backends.cuda.flash_sdp_enabled(), "anomaly": torch.is_anomaly_enabled(), "text": str(torch.ones(1) / 3),
        "valid": torch.distributions.Distribution._validate_args, "hooks": len(module._global_forward_hooks),
    }


def spoil(i: int) -> dict:
    seen = look()
    torch.set_autocast_dtype("cpu", torch.float16)
    torch.backends.cudnn.enabled = torch.backends.mkldnn.enabled = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    torch.set_float32_matmul_precision("medium")
    if i % 2:
        torch.backends.fp32_precision = torch.backends.cuda.matmul.fp32_precision = "tf32"
        torch.backends.cudnn.conv.fp32_precision = "ieee"
        torch.backends.mkldnn.matmul.fp32_precision = "bf16"
    torch.backends.cuda.enable_flash_sdp(False)
    torch.set_anomaly_enabled(True)
    torch.set_printoptions(precision=1)
    torch.distributions.Distribution.set_default_validate_args(False)
    torch.nn.modules.module.register_module_forward_hook(print)
    return {"seen": seen}
"""


def test_what_a_function_changes_of_torch_is_put_back(project: Project) -> None:
    flow = "axes: {i: {range: 4}}\nstages: {spoil: {module: 'computes:spoil', over: [i]}}"
    run = project.module("computes", TORCH).workflow(flow).run("--site", "one", "--no-cache")
    first, *others = run.values("spoil", "seen")
    assert others == [first] * 3
    assert first["product"] == 90112


SMALL = """
import asyncio, decimal, gc, logging, os, sys, threading


def look() -> dict:
    import mpmath, scipy.special, sympy, xarray

    return {
        "breakpoint": sys.breakpointhook.__name__, "traces": getattr(sys, "tracebacklimit", None),
        "trace": str(threading.gettrace()), "gc": len(gc.callbacks), "dlopen": sys.getdlopenflags(),
        "decimal": [decimal.ExtendedContext.prec, decimal.BasicContext.prec],
        "variables": [type(os.environ).__name__, os.environ.get("X")],
        "logging": [logging.getLoggerClass().__name__, logging.getLevelName(10), logging.raiseExceptions],
        "last": str(logging.lastResort), "policy": type(asyncio.get_event_loop_policy()).__name__,
        "mpmath": mpmath.mp.dps, "special": scipy.special.geterr(), "sympy": str(sympy.Integer(1) + 1),
        "added": str(sympy.Add(1, 1)), "xarray": xarray.get_options()["keep_attrs"],
    }


class Logger(logging.Logger): ...


class Policy(asyncio.DefaultEventLoopPolicy): ...


def spoil(i: int) -> dict:
    seen = look()
    import mpmath, scipy.special, sympy, xarray

    sys.breakpointhook, sys.tracebacklimit = print, 0
    threading.settrace(print)
    gc.callbacks.append(lambda *_: None)
    sys.setdlopenflags(sys.getdlopenflags() | os.RTLD_GLOBAL)
    decimal.ExtendedContext.prec = decimal.BasicContext.prec = 3
    os.environ = dict(os.environ, X="1")
    logging.setLoggerClass(Logger)
    logging.addLevelName(10, "ten")
    logging.raiseExceptions, logging.lastResort = False, None
    asyncio.set_event_loop_policy(Policy())
    mpmath.mp.dps = 50
    scipy.special.seterr(all="raise")
    sympy.core.parameters.global_parameters.evaluate = False
    xarray.set_options(keep_attrs=True)
    return {"seen": seen}
"""


def test_smaller_things_are_put_back_too(project: Project) -> None:
    flow = "axes: {i: {range: 3}}\nstages: {spoil: {module: 'small:spoil', over: [i]}}"
    run = project.module("small", SMALL).workflow(flow).run("--site", "one", "--no-cache")
    first, *others = run.values("spoil", "seen")
    assert others == [first] * 2
    assert first["variables"] == ["_Environ", None]
