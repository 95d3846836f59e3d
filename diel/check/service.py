"""Checks that services fit beside the stages that ask them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from diel.check.demand import shared_room_flaws
from diel.errors import Problem, counted
from diel.graph.stage_graph import reach
from diel.site import Site, rooms

if TYPE_CHECKING:
    from diel.check.workflow import Checked


def check_room(
    checked: Checked, site: Site, placed: Mapping[str, tuple[str, int]], shapes: Mapping[str, str]
) -> list[Problem]:
    """Find consumers without room beside their services, which would wait for ever. `placed` gives the pool
    and the cores of a task by stage, `shapes` its resource shape."""
    stages = checked.workflow.stages
    sharing = [name for name, stage in stages.items() if stage.service is not None or stage.asks]
    problems = list(shared_room_flaws(checked, site, sharing))
    for name, stage in stages.items():
        if stage.service is not None or not stage.asks:
            continue
        needed = reach(stage.asks, lambda other: stages[other].asks)
        for pool, room in rooms(site).items():
            held = {other: _held(checked, site, placed, other, pool) for other in needed}
            own = placed[name][1] if _pool(site, placed[name][0]) == pool else 0
            total = sum(held.values()) + own
            if total <= room:
                continue
            parts = [f"'{other}' {many}" for other, many in held.items() if many]
            where = f"pool '{pool}'" if pool else "this machine"
            cores = counted(own, "core")
            message = f"'{name}' needs {cores} beside those of its services ({', '.join(parts)}): "
            message += f"{total} in all, and {where} has {room}"
            hint = "take fewer replicas or cores"
            if not site.scheduled:
                hint += ", or write `shared_cores: true` if a service works while its consumers wait for it"
            problems.append(checked.document.problem(("stages", name, "services"), message, hint))
            break
        else:
            problems += _too_many_shapes(checked, site, placed, shapes, name, needed)
    return problems


def _too_many_shapes(
    checked: Checked,
    site: Site,
    placed: Mapping[str, tuple[str, int]],
    shapes: Mapping[str, str],
    name: str,
    needed: Sequence[str],
) -> Iterator[Problem]:
    """Report stages that need too many blocks: each shape has its own, and a service's block stays."""
    by_pool: dict[str, dict[str, None]] = {}
    for member in (name, *needed):
        by_pool.setdefault(placed[member][0], {})[shapes[member]] = None
    for pool, distinct in by_pool.items():
        if site.scheduled and len(distinct) > site.pools[pool].blocks:
            message = f"'{name}' and its services need blocks of {len(distinct)} shapes at the same time "
            message += f"({', '.join(distinct)}), and pool '{pool}' may have {site.pools[pool].blocks}"
            hint = "give them the same resources, put one into another pool, or raise the pool's `blocks`"
            yield checked.document.problem(("stages", name, "services"), message, hint)


def _held(checked: Checked, site: Site, placed: Mapping[str, tuple[str, int]], name: str, pool: str) -> int:
    service = checked.workflow.stages[name].service
    own, cores = placed[name]
    return cores * service.replicas if service is not None and _pool(site, own) == pool else 0


def _pool(site: Site, name: str) -> str:
    return name if site.scheduled else ""
