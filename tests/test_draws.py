"""What a task draws at random depends on its key alone, not on what was imported before it in its worker."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.throwaway import Project

HELPERS = {
    "seeds": "import random\nimport numpy as np\nnp.random.seed(0)\nrandom.seed(0)\n",
    "draws": "import random\nimport numpy as np\nX = [random.random(), np.random.rand()]\n",
    "nested": "import random\nrandom.seed(1)\nimport seeds\nimport draws\n",
    "late": "import random\nrandom.seed(3)\n",
}
MODULE = """
import random

def draw(n: int, name: str) -> dict:
    first = random.random()
    __import__(name)
    import numpy as np
    return {"x": [first, random.random(), np.random.rand()]}
"""


@pytest.mark.parametrize("name", HELPERS)
def test_a_late_import_shifts_no_draw_of_any_task(tmp_path: Path, name: str) -> None:
    project = Project(tmp_path).module("drawn", MODULE).machine("one", 1)
    for helper, text in HELPERS.items():
        project.module(helper, text)
    found = []
    for order in ([0, 1, 2], [2, 1, 0]):
        flow = f"axes: {{n: {{values: {order}}}}}\nstages: {{s: {{module: 'drawn:draw', over: [n], params: {{name: {name}}}}}}}"
        run = project.workflow(flow).run("--site", "one", "--no-cache")
        found.append(dict(zip(order, run.values("s", "x"), strict=True)))
    assert found[0] == found[1]


def test_separators_of_json_are_put_back(tmp_path: Path) -> None:
    module = """
    import json

    def wide(n: int) -> dict:
        text = json.dumps({"a": [1, 2]})
        json.JSONEncoder.item_separator, json.JSONEncoder.key_separator = "; ", " = "
        return {"text": text, "many": [1, 2]}
    """
    flow = "axes: {n: {range: 3}}\nstages: {s: {module: 'wide:wide', over: [n]}}"
    run = Project(tmp_path).module("wide", module).machine("one", 1).workflow(flow).run("--site", "one")
    assert run.values("s", "text") == ['{"a": [1, 2]}'] * 3
