"""Help in which a flag has no type: `--json`, not `--json <bool>`."""

from typing import Any

from typer.core import TyperCommand, TyperGroup
from typing_extensions import override


def _without_types(parameters: list[Any]) -> list[Any]:
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
    return parameters


class PlainCommand(TyperCommand):
    """A command with plain help."""

    @override
    def get_params(self, ctx: Any) -> list[Any]:  # its class differs between versions of typer
        return _without_types(super().get_params(ctx))


class PlainGroup(TyperGroup):
    """A group of commands with plain help."""

    @override
    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))
