"""What a use of a tool is, and its entry in the list of tools."""

from dataclasses import dataclass

from .. import values
from ..source import cap


@dataclass
class Use:
    """One use of a tool."""

    schema: dict  # as the API takes it
    ask: str
    calls: list  # [(name, arguments)]
    results: list  # texts of the tool, one a call
    answer: str
    expect: tuple  # what the last answer contains
    kind: str = ""  # what the tool is for
    deed: object = None  # what it does, where that can be told from other deeds


def schema_of(src, name, description, properties, required):
    """An entry of the list; those who write one differ in the order of its parts and in what they add."""
    parameters = {"type": "object", "properties": properties, "required": required}
    if src.chance(0.12):
        parameters["additionalProperties"] = False
    if src.chance(0.06):
        for key, known in properties.items():
            known.setdefault("title", cap(key.replace("_", " ")))
    if not required and src.chance(0.5):
        del parameters["required"]
    function = {"name": name, "description": description, "parameters": parameters}
    if src.chance(0.06):
        function = {"description": description, "name": name, "parameters": parameters}
    elif src.chance(0.05):
        function["strict"] = True
    elif src.chance(0.04):
        function["description"] = f"{description} {cap(values.text(src))}."
    return {"type": "function", "function": function}
