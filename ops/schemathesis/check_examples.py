"""Reads an OpenAPI document and says which of its examples do not fit their schemas (exit 1)."""

import json
import sys

import jsonschema_rs

document = json.load(sys.stdin)
components = document["components"]
checked = 0
wrong = []


def check(place, schema, example):
    """`schema` refers to components by `#/components/…`: they stand beside it."""
    global checked
    checked += 1
    validator = jsonschema_rs.Draft202012Validator({**schema, "components": components}, validate_formats=True)
    wrong.extend(f"{place}: {error.message}" for error in validator.iter_errors(example))


def walk(place, value):
    if isinstance(value, list):
        for at, item in enumerate(value):
            walk(f"{place}/{at}", item)
    if not isinstance(value, dict):
        return
    examples = value.get("examples")
    if isinstance(examples, list):
        for example in examples:
            check(place, value, example)
    elif isinstance(examples, dict) and "schema" in value:
        for name, example in examples.items():
            example = components["examples"][name] if "$ref" in example else example
            check(f"{place}/{name}", value["schema"], example["value"])
    if "example" in value and "schema" in value:
        check(place, value["schema"], value["example"])
    for name, item in value.items():
        if name not in ("examples", "example"):
            walk(f"{place}/{name}", item)


walk("", document)
print("\n".join(wrong) or f"{checked} examples fit their schemas")
sys.exit(1 if wrong or checked < 100 else 0)
