"""The lines for bash that an environment consists of, besides a user's own."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

_PLACES = (
    '"$LMOD_PKG/init/bash" "$MODULESHOME/init/bash" /usr/share/lmod/lmod/init/bash '
    "/opt/cray/pe/lmod/lmod/init/bash /usr/share/Modules/init/bash /usr/share/modules/init/bash "
    "/etc/profile.d/lmod.sh /etc/profile.d/z00_lmod.sh /etc/profile.d/modules.sh"
)
MODULE_COMMAND = (
    f"type module >/dev/null 2>&1 || for diel_file in {_PLACES}; do "
    'if [ -r "$diel_file" ]; then . "$diel_file"; type module >/dev/null 2>&1 && break; fi; done; '
    "type module >/dev/null 2>&1 || { echo 'neither Lmod nor Environment Modules is on this node'; false; }"
)
"""Defines `module`: non-interactive shells often lack it."""
_WORDS = ("module", "ml")


def uses_modules(modules: Sequence[str], setup: Sequence[str]) -> bool:
    return bool(modules) or any(line.split(maxsplit=1)[:1] in ([word] for word in _WORDS) for line in setup)


def module_lines(modules: Sequence[str]) -> Iterator[str]:
    return (f"module load {shlex.quote(module)}" for module in modules)


def conda_lines(prefix: Path) -> Iterator[str]:
    """What `conda activate` does, without Conda."""
    place = shlex.quote(str(prefix))
    yield f"export CONDA_PREFIX={place} CONDA_DEFAULT_ENV={place} CONDA_SHLVL=1 PATH={place}/bin:$PATH"
    scripts = f"{place}/etc/conda/activate.d/*.sh"
    yield f'for diel_file in {scripts}; do [ ! -r "$diel_file" ] || . "$diel_file"; done'


def spack_lines(given: str | Sequence[str]) -> Iterator[str]:
    """What `spack load SPEC…` or `spack env activate NAME` does."""
    if isinstance(given, str):
        words = f"env activate --sh {shlex.quote(given)}"
    else:
        words = f"load --sh {shlex.join(given)}"
    yield '[ -z "$SPACK_ROOT" ] || PATH=$SPACK_ROOT/bin:$PATH'
    yield f'diel_said=$(spack {words}) && eval "$diel_said"'
