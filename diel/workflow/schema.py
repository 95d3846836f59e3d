"""The JSON Schema of a workflow file, for editors, made from the models."""

import json
from typing import Any

from pydantic.json_schema import GenerateJsonSchema
from pydantic_core.core_schema import PlainValidatorFunctionSchema

from diel.workflow.models import SpecModel, Workflow
from diel.workflow.models.forms import AxisForm, StaticForm

_WORD = {"type": ["string", "number", "boolean", "null"]}
_EXPRESSION = {"type": "string", "pattern": r"\$\{\{", "examples": ["${{ hp.n }}"]}
_SIZES = ("Axis", "StaticForm", "Sample", "SampleRange", "Search", "Loop")
"""Where expressions over hyperparameters are evaluated as the file is read."""
_SHORT_FORMS: dict[str, dict[str, Any]] = {
    "Input": {"type": "string", "minLength": 1, "examples": ["simulate.energy"]},
    "Output": {"type": "string", "minLength": 1, "examples": ["energy.csv"]},
    "FileForm": {"type": "string", "minLength": 1, "examples": ["points.csv"]},
    "PythonPackages": {"type": "string", "minLength": 1, "examples": ["requirements.txt"]},
    "Container": {"type": "string", "minLength": 1, "examples": ["tools.sif"]},
    "Sharding": {"enum": ["rank", "task"]},
    "Include": {"type": "string", "minLength": 1, "examples": ["relax.yaml"]},
    "Stream": {"const": True},
    "Service": {"const": True},
    "Retries": {"type": "integer", "minimum": 0, "maximum": 1000},
}


class _Generator(GenerateJsonSchema):
    """Treats models that are built later like all others."""

    def function_plain_schema(self, schema: PlainValidatorFunctionSchema) -> dict[str, Any]:
        model: type[SpecModel] = getattr(schema["function"]["function"], "__self__")  # noqa: B009
        model.model_rebuild()
        return self.generate_inner(model.__pydantic_core_schema__)


def schema() -> dict[str, Any]:
    """Return the schema (draft 2020-12), with the short forms that the loader takes."""
    text = json.dumps(Workflow.model_json_schema(schema_generator=_Generator))
    document = json.loads(text.replace("AxisForm", "Axis"))
    definitions = document["$defs"]
    for name, short in _SHORT_FORMS.items():
        full = definitions[name]
        definitions[name] = {"description": full.pop("description", ""), "anyOf": [short, full]}
    for name in ("Sampler", "Pruner"):
        full = definitions[name]
        short = full["properties"]["name"]
        definitions[name] = {"description": full.pop("description"), "anyOf": [short, full]}
        definitions["Search"]["properties"][name.lower()]["default"] = short["default"]
    for name in _SIZES:
        for key, field in definitions[name]["properties"].items():
            definitions[name]["properties"][key] = _or_expression(field)
    for name in ("Resources", "Retries"):  # a task's demand
        whole = next(
            part for part in definitions[name].get("anyOf", [definitions[name]]) if "properties" in part
        )
        whole["properties"] = {key: _or(field, _EXPRESSION) for key, field in whole["properties"].items()}
    definitions["Retries"]["anyOf"].append(_EXPRESSION)
    for stage in (definitions["Stage"]["properties"], definitions["PartialStage"]["properties"]):
        stage |= {key: _or(stage[key], _EXPRESSION) for key in ("timeout", "environment")}
    ways = [{"required": ["module"]}, {"required": ["command"]}]
    definitions["Stage"]["anyOf"] = [{"required": ["extends"]}, {"oneOf": ways}]
    document["required"].remove("stages")
    document["anyOf"] = [{"required": ["stages"]}, {"required": ["include"]}]
    for name, model in (("StaticForm", StaticForm), ("Axis", AxisForm)):
        definitions[name]["oneOf"] = [{"required": [form]} for form in model.forms()]
    for stage in (definitions["Stage"]["properties"], definitions["PartialStage"]["properties"]):
        # A command's words and variables are text as written, whatever YAML would make of them.
        _any_of(stage["command"], [_WORD, {"type": "array", "items": _WORD, "minItems": 1}])
        stage["env"]["additionalProperties"] = _WORD
        for key, field in stage.items():
            stage[key] = _or(field, {"type": "null"})  # null takes away an extended value
    definitions["Environment"]["properties"]["variables"]["additionalProperties"] = _WORD
    _tidy(document)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:diel:workflow:1",
        "title": "diel workflow",
        **{key: value for key, value in document.items() if key != "title"},
    }


def _or(field: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Let a field take something else instead of its value."""
    notes = {key: field[key] for key in ("description", "default") if key in field}
    bare = {key: value for key, value in field.items() if key not in notes}
    return notes | {"anyOf": [*bare.get("anyOf", [bare]), other]}


def _any_of(field: dict[str, Any], branches: list[dict[str, Any]]) -> None:
    for key in ("type", "anyOf", "items"):
        field.pop(key, None)
    field["anyOf"] = branches


def _or_expression(field: dict[str, Any]) -> dict[str, Any]:
    """Let a field take an expression instead of a number, true, false or a list of values."""
    notes = {key: field[key] for key in ("description", "default") if key in field}
    bare = {key: value for key, value in field.items() if key not in notes}
    branches = [dict(branch) for branch in bare.get("anyOf", [bare])]
    for branch in branches:
        if branch.get("items"):
            branch["items"] = _or_expression(branch["items"])
        if "prefixItems" in branch:
            branch["prefixItems"] = [_or_expression(item) for item in branch["prefixItems"]]
        for shape, value in branch.get("patternProperties", {}).items():
            branch["patternProperties"] = {shape: _or_expression(value)}
    if any(map(_is_evaluated, branches)):
        branches.append(_EXPRESSION)
    return {**notes, **(branches[0] if len(branches) == 1 else {"anyOf": branches})}


def _is_evaluated(branch: dict[str, Any]) -> bool:
    names = branch.get("items", {}).get("type") == "string"
    return "anyOf" in branch or (
        branch.get("type") in ("integer", "number", "boolean", "array") and not names
    )


def _tidy(part: Any) -> None:
    """Close mappings to names of the wrong form, and drop titles that repeat a key."""
    if isinstance(part, list):
        for item in part:
            _tidy(item)
    if not isinstance(part, dict):
        return
    if "patternProperties" in part:
        part["additionalProperties"] = False
    for field in part.get("properties", {}).values():
        field.pop("title", None)
    for item in part.values():
        _tidy(item)
