"""The API documentation as a page that loads nothing from other hosts."""

import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, TypeAlias

from prunus.names import shown

Part: TypeAlias = Mapping[str, Any]  # a part of an OpenAPI schema
FACTS = {"enum": "one of", "minimum": "at least", "maximum": "at most", "default": "default:"}
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}: API</title>
<link rel="icon" href="icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="page.css">
</head>
<body>
<header><img src="icon.svg" alt="" width="40" height="40"><div><h1>{title}</h1><p>{description}</p></div></header>
<main class="documentation">
{operations}
<p>OpenAPI schema: <a href="openapi.json">openapi.json</a>. <a href="./">Back to the page</a>.</p>
</main>
</body>
</html>
"""


def documentation_page(schema: Part) -> str:
    """Render an OpenAPI schema as HTML."""
    operations = (
        "\n".join(_operation(method, path, operation, schema))
        for path, methods in schema["paths"].items()
        for method, operation in methods.items()
    )
    return PAGE.format(
        title=escape(shown(schema["info"]["title"])),
        description=escape(schema["info"].get("description", "")),
        operations="\n".join(operations),
    )


def _operation(method: str, path: str, operation: Part, schema: Part) -> Iterator[str]:
    yield f"<section><h2><code>{method.upper()} {escape(path)}</code></h2>"
    yield f"<p>{escape(operation.get('description', operation.get('summary', '')))}</p>"
    parameters = [_parameter(parameter) for parameter in operation.get("parameters", [])]
    if "requestBody" in operation:
        content = operation["requestBody"]["content"]
        parameters += [
            f"<li><code>{escape(name)}</code>, a field of {escape(kind)}: one or more files</li>"
            for kind, body in content.items()
            for name in body["schema"]["properties"]
        ]
    if parameters:
        yield f"<ul>{''.join(parameters)}</ul>"
    for status, response in operation["responses"].items():
        text = escape(response.get("description", ""))
        yield f"<details><summary>{escape(status)}: {text}</summary>{_example(response, schema)}</details>"
    yield "</section>"


def _parameter(parameter: Part) -> str:
    kind = parameter["schema"]
    facts = "; ".join(f"{words} {_plain(kind[name])}" for name, words in FACTS.items() if name in kind)
    text = f"<code>{escape(parameter['name'])}</code> in the {escape(parameter['in'])}"
    return f"<li>{text}: {escape(parameter.get('description', ''))} ({escape(facts)})</li>"


def _plain(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _example(response: Part, schema: Part) -> str:
    shapes = [_shape(body.get("schema", {}), schema) for body in response.get("content", {}).values()]
    return "".join(f"<pre>{escape(json.dumps(shape, indent=2))}</pre>" for shape in shapes if shape)


def _shape(kind: Part, schema: Part) -> Any:  # noqa: ANN401  # any JSON
    """Return an example of a response, with types instead of values."""
    if "$ref" in kind:
        return _shape(schema["components"]["schemas"][kind["$ref"].rpartition("/")[2]], schema)
    if kind.get("type") == "object":
        return {name: _shape(value, schema) for name, value in kind.get("properties", {}).items()}
    if kind.get("type") == "array":
        return [_shape(kind.get("items", {}), schema)]
    return kind.get("type", "")
