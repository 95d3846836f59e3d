"""A demand: what each task of a stage asks for, where expressions say it."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from diel.base.errors import DielError, did_you_mean
from diel.base.values import value_text
from diel.site.shape import Ask, Unplaceable, ask_of
from diel.site.site import Site
from diel.workflow.expressions import ExpressionError, Template, parse
from diel.workflow.expressions.quantity import Quantity
from diel.workflow.load import Document
from diel.workflow.load.misfits import QUOTED, check
from diel.workflow.models import Resources, Stage
from diel.workflow.models.model import quote
from diel.workflow.models.stage import PLACES, Place

Scope = Mapping[str, Any]
Chain = tuple[str, ...]
Words = Callable[[Site, str, Resources], tuple[str, ...]]

KNOWN = 2_000
"""The most different demands of a stage to keep."""
_UNITS: dict[str | int, tuple[str, str, tuple[int, int]]] = {
    "memory": ("a size", "1GiB", (1, 0)),
    **dict.fromkeys(("walltime", "timeout", "backoff"), ("a duration", "1m", (0, 1))),
}
_CAUSES = (("memory", ("memory",)), ("walltime", ("walltime",)), ("GPU", ("gpus_per_rank",)))
"""The keys that are to blame for what a pool lacks, by a word of its message; else those of ranks."""


class Demand:
    """What a stage's tasks ask for, by expressions. Methods raise Misfit, or ExpressionError for bad ones."""

    def __init__(
        self, document: Document, site: Site, name: str, words: Words, later: Collection[Place] = ()
    ) -> None:
        """`words` gives those that start a task's ranks, by site and pool; it raises Misfit. Of the keys
        `later` nothing is known yet: they are left out, or have their least value."""
        self._words = words
        self._document = document
        self._site = site
        self.name = name
        self.stage: Stage = document.spec.stages[name]
        self._later = later
        self._all: dict[Place, Template] = {key: parse(text) for key, text in self.stage.demand.items()}
        self.templates = {key: template for key, template in self._all.items() if key not in later}
        self._known: dict[tuple[Any, ...], Ask] = {}

    def of(self, scope: Scope) -> Ask:
        """Return the demand of a scope's task. `Misfit.key` is a key of the demand."""
        with self._at(scope):
            whole = tuple(self._value(key, template, scope) for key, template in self.templates.items())
            ask = self._known.get(whole)
            if ask is None:
                if len(self._known) >= KNOWN:
                    self._known.clear()
                ask = self._known[whole] = self._ask(dict(zip(self.templates, whole, strict=True)))
            return ask

    def values(self, scope: Scope) -> dict[Place, Any]:
        """Return the values of the expressions in a scope, sizes and durations with their units."""
        with self._at(scope):
            return {key: _evaluate(key, template, scope) for key, template in self.templates.items()}

    @contextmanager
    def _at(self, scope: Scope) -> Iterator[None]:
        """Say what is wrong at which point, and where in the file."""
        try:
            yield
        except Unplaceable as error:
            fits = [key for key in self.templates if key[0] == "resources"]
            keys = [error.key] if error.key in self._all and not error.unfit else fits
            point = _point((self._all[key] for key in keys), scope)
            message = f"with {point}: {error.message}" if point else error.message
            whole = ("stages", self.name, *error.key)
            problem = self._document.problem(whole, message, error.hint, offset=error.offset)
            place = f"{problem.file}:{problem.line}:{problem.column}"
            raise Unplaceable(message, error.hint, error.key, error.offset, place=place) from None

    def _value(self, key: Place, template: Template, scope: Scope) -> Any:
        return plain_value(key, _evaluate(key, template, scope))

    def check_alone(self, key: Place, scope: Scope) -> None:
        """Check one value of a task whose others are not known yet."""
        with self._at(scope):
            value = self._value(key, self._all[key], scope)
            resources = {} if value is None else {key[-1]: value}
            for flaw in check({"command": ("true",), "resources": resources}, Stage)[1]:
                raise Unplaceable(flaw.message, flaw.hint, key)

    def _ask(self, values: Mapping[Place, Any]) -> Ask:
        stage, flaws = check(self.stage.as_asked(values, self._later), Stage)
        if stage is None or flaws:
            at = flaws[0].key
            near = sorted(values, key=lambda key: (key[: len(at)] != at[: len(key)], key[:1] != at[:1]))
            hint = "" if flaws[0].hint == QUOTED else flaws[0].hint
            raise Unplaceable(flaws[0].message, hint, near[0])
        choices = {**self._document.spec.environments, **self._site.environments}
        if stage.environment is not None and stage.environment not in choices:
            hint = did_you_mean(stage.environment, choices) or f"environments: {', '.join(choices) or 'none'}"
            raise Unplaceable(f"no environment '{stage.environment}'", hint, ("environment",))
        stage = stage.without(self._later)
        update = {place: getattr(stage, place) for place in PLACES if place in Stage.model_fields}
        try:
            ask = ask_of(self._site, self.stage.model_copy(update=update))
            return ask._replace(launcher=self._words(self._site, ask.shape.pool, ask.spec.resources))
        except Unplaceable as error:
            keys = [key for key in self.templates if key[0] == "resources"]
            raise self._blamed(error, keys) from None

    def _blamed(self, error: Unplaceable, keys: Sequence[Place]) -> Unplaceable:
        """Return the misfit at the expression to blame; where there is one pool, the lack comes first."""
        if error.key in keys or not keys:
            return error
        causes = next((names for word, names in _CAUSES if word in error.hint), ())
        key = next((key for key in keys if key[1] in causes), keys[0])
        pool, _, rest = error.hint.partition(": ")
        if len(self._site.pools) == 1:
            lacking, _, hint = rest.partition("; ")
            return Unplaceable(lacking.replace("it has", f"{pool} has"), hint, key, unfit=True)
        return Unplaceable(error.message, error.hint, key, unfit=True)


def _evaluate(key: Place, template: Template, scope: Scope) -> Any:
    try:
        return template.value(scope)
    except ExpressionError as error:
        raise Unplaceable(error.message, error.hint, key, error.offset) from None
    except DielError as error:
        raise Unplaceable(str(error), "", key) from None


def plain_value(key: Place, value: Any) -> Any:
    """Write an expression's value as a workflow file would at a key. Raise Misfit."""
    unit = _UNITS.get(key[-1])
    if isinstance(value, Quantity):
        if unit is None or (value.size, value.time) != unit[2]:
            hint = f"for instance {unit[1]}" if unit else "divide it, as in x / 1GiB"
            raise Unplaceable(f"expected {unit[0] if unit else 'a whole number'}, found {value}", hint, key)
        return value.text
    if isinstance(value, bool | list | dict):  # alike or unlike others as keys of what is known
        expected = unit[0] if unit else "a whole number or a name"
        raise Unplaceable(f"expected {expected}, found {quote(value)}", "", key)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if unit is None and isinstance(value, float):
        hint = "round it: ceil(x), floor(x) or x // 2"
        raise Unplaceable(f"expected a whole number, found {quote(value)}", hint, key)
    if unit is not None and isinstance(value, int | float):
        hint = f"multiply it by a unit, as in ${{{{ {unit[1]} * x }}}}"
        raise Unplaceable(f"expected {unit[0]}, found {quote(value)} without a unit", hint, key)
    return value


def _point(templates: Iterable[Template], scope: Scope) -> str:
    """Name the point where a demand is wrong: `n=64, task.attempt=2`."""
    chains = sorted({chain for template in templates for chain in template.references})
    return ", ".join(filter(None, (_word(chain, scope) for chain in chains)))


def _word(chain: Chain, scope: Scope) -> str:
    value: Any = scope
    try:
        for name in chain:
            value = value[name]
    except (LookupError, TypeError, DielError):
        return ""
    name = ".".join(chain)
    with suppress(OSError):
        if isinstance(size := getattr(value, "bytes", None), int):
            return f"size({name})={Quantity(size, 1)}"
    return f"{name}={value_text(value)}" if isinstance(value, str | int | float | None) else ""
