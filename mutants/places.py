"""The mutants of a module: the operators of cosmic-ray, one change each, without changes that are never executed."""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Operator
from cosmic_ray.plugins import get_operator, operator_names

# a decorator for the type checker or for readers: removing it changes nothing that runs
SILENT_DECORATORS = ("@override", "@overload", "@final")
# an operator of bits between numbers ends in a TypeError, which any test notices; `is` instead of `==` says little
UNINFORMATIVE = re.compile(
    r"BinaryOperator_(Add|Sub|Mul|Div|FloorDiv|Mod|Pow)_(Bit\w+|\wShift)|ComparisonOperator_(Eq|NotEq)_(Is|IsNot)$"
)
Span = tuple[tuple[int, int], tuple[int, int]]


@dataclass(frozen=True)
class Place:
    """One change that an operator of cosmic-ray can make: its position, and its number within the module."""

    module: str  # below src/prunus
    operator: str
    occurrence: int
    line: int
    column: int
    text: str  # the line, stripped
    repeat: int  # how many equal lines are above it

    @property
    def site(self) -> tuple[str, str, int, int]:
        """What stays the same when other lines of the module change."""
        return self.module, self.text, self.repeat, self.column

    @property
    def name(self) -> str:
        """A short name that does not depend on the number of the line."""
        key = repr((self.module, self.operator, self.text, self.repeat, self.column))
        return hashlib.sha256(key.encode()).hexdigest()[:10]


@cache
def operators() -> dict[str, Operator]:
    """Return the operators that need no arguments and tell something, by their names."""
    classes = {name: get_operator(name) for name in sorted(operator_names())}
    return {name: kind() for name, kind in classes.items() if not kind.arguments() and not UNINFORMATIVE.search(name)}


def places(root: Path, module: str) -> Iterator[Place]:
    """Yield every change of a module that can be executed."""
    source = (root / module).read_text()
    tree, lines, unread = get_ast(source), source.splitlines(), list(_never_executed(ast.parse(source)))
    nodes = list(ast_nodes(tree))
    for name, operator in operators().items():
        spans = [span for node in nodes for span in operator.mutation_positions(node)]
        for occurrence, (start, _end) in enumerate(spans):
            text = lines[start[0] - 1].strip()
            hidden = any(first <= start < last for first, last in unread)
            if not hidden and not text.startswith(SILENT_DECORATORS):
                repeat = sum(line.strip() == text for line in lines[: start[0] - 1])
                indent = len(lines[start[0] - 1]) - len(lines[start[0] - 1].lstrip())
                yield Place(module, name, occurrence, start[0], start[1] - indent, text, repeat)


def mutated(source: str, place: Place) -> str | None:
    """Return the source with the change, or None where it cannot be made or is not valid Python."""
    code = mutate_code(source, operators()[place.operator], place.occurrence)
    if code is None or code == source:
        return None
    try:
        compile(code, place.module, "exec")
    except SyntaxError:
        return None
    return str(code)


def _never_executed(tree: ast.AST) -> Iterator[Span]:
    """Yield annotations and what else only the type checker reads."""
    for node in ast.walk(tree):
        match node:
            case ast.arg(annotation=ast.expr() as hidden) | ast.AnnAssign(annotation=ast.expr() as hidden):
                yield _span(hidden)
            case ast.FunctionDef(returns=ast.expr() as hidden) | ast.AsyncFunctionDef(returns=ast.expr() as hidden):
                yield _span(hidden)
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                yield _span(node)
            case ast.keyword(arg="frozen", value=hidden):  # nothing assigns to them, as the type checker proves
                yield _span(hidden)
        if isinstance(node, ast.FunctionDef) and any(ast.unparse(name) == "overload" for name in node.decorator_list):
            yield _span(node)


def _span(node: ast.expr | ast.stmt) -> Span:
    assert node.end_lineno is not None and node.end_col_offset is not None
    return (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)
