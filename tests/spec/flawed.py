"""What a model refuses, flaw by flaw."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from diel.workflow.models import Violation, Violations


def flaws_of(model: type[Any], given: object) -> list[Violation]:
    """The flaws for which a model refuses something."""
    with pytest.raises(ValidationError) as caught:
        model.model_validate(given)
    errors = [error["ctx"]["error"] for error in caught.value.errors()]
    return [flaw for error in errors if isinstance(error, Violations) for flaw in error.flaws]
