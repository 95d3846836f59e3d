"""One of several things by its name, with options of its own: a search's sampler and its pruner."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

from pydantic import BeforeValidator
from pydantic_core import PydanticKnownError

from diel.spec.model import Flaw, SpecModel, found, refuse


class Named(SpecModel):
    """What is chosen, and what it shall do otherwise than by its defaults."""

    options: ClassVar[Mapping[str, tuple[str, ...]]]
    """The options that each takes."""

    name: str

    def flaws(self) -> Iterator[Flaw]:
        for word in type(self).model_fields:
            takers = [name for name, words in self.options.items() if word in words]
            if takers and self.name not in takers and getattr(self, word) is not None:
                why = f"it goes with {' and '.join(takers)}"
                yield Flaw(f"`{word}` means nothing here: {why}", "drop it", (word,))

    @property
    def arguments(self) -> dict[str, Any]:
        """The options that are given."""
        given = {word: getattr(self, word) for word in self.options.get(self.name, ())}
        return {word: value for word, value in given.items() if value is not None}


def refuse_name(names: Iterator[str] | tuple[str, ...]) -> PydanticKnownError:
    """What is said of a name that is none of these."""
    return PydanticKnownError("literal_error", {"expected": ", ".join(f"'{name}'" for name in names)})


def or_name(model: type[Named], names: Callable[[], tuple[str, ...]], example: str) -> BeforeValidator:
    """Takes the bare name, too."""

    def check(value: Any) -> Any:
        if isinstance(value, str):
            if value not in (known := names()):
                raise refuse_name(known)
            return {"name": value}
        if not isinstance(value, dict | model):
            raise refuse(f"expected a name or a mapping, found {found(value)}", f"for instance {example}")
        return value

    return BeforeValidator(check)
