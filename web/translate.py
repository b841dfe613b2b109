"""JavaScript from the small part of Python that the certificate's wording is written in.

Constants and functions are translated one by one, from their syntax alone. What lies outside that part is
refused: the page says what the Python says, or it is not built. tests/webpage compares the two.
"""

from __future__ import annotations

import ast
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

# Methods that mean the same on both sides: those of Fields, and this one of strings.
_METHODS = {
    *("text", "choice", "count", "flag", "moment", "has", "starts", "is_word", "listing"),
    "split",
}
_COMPARISONS: dict[type[ast.cmpop], str] = {ast.Eq: "===", ast.NotEq: "!=="}


class Untranslatable(Exception):
    """The Python uses something this translator does not know."""

    def __init__(self, node: ast.AST) -> None:
        super().__init__(f"{type(node).__name__} in line {getattr(node, 'lineno', '?')}")


def constants(source: str, names: Collection[str]) -> str:
    """Return the named constants of a module.

    Raises Untranslatable; KeyError for a name the module does not assign.
    """
    found = dict(pair for node in ast.parse(source).body for pair in _assigned(node))
    return "".join(f"const {name} = {_expression(found[name])};\n" for name in names)


def literal(source: str, name: str) -> str:
    """Return the text that a module assigns to the name. Raises KeyError for a name it does not assign."""
    found = dict(pair for node in ast.parse(source).body for pair in _assigned(node))
    return str(ast.literal_eval(found[name]))


def module(source: str, *, without: Collection[str] = ()) -> str:
    """Return a module's constants and functions but those left out; imports and classes are left out too.

    Raises Untranslatable.
    """
    out: list[str] = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef):
            if node.name not in without:
                out.append(_function(node))
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            out += [
                f"const {name} = {_expression(value)};"
                for name, value in _assigned(node)
                if name != "__all__"
            ]
        elif not isinstance(node, ast.Import | ast.ImportFrom | ast.ClassDef | ast.If | ast.Expr):
            raise Untranslatable(node)
    return "\n".join(out) + "\n"


def _assigned(node: ast.stmt) -> list[tuple[str, ast.expr]]:
    if isinstance(node, ast.Assign):
        target, value = node.targets[0], node.value
    elif isinstance(node, ast.AnnAssign):
        target, value = node.target, node.value
    else:
        return []
    return [(target.id, value)] if isinstance(target, ast.Name) and value else []


# --- functions and statements


def _function(node: ast.FunctionDef) -> str:
    taken = node.args
    if taken.vararg or taken.kwarg or taken.defaults or taken.posonlyargs or node.decorator_list:
        raise Untranslatable(node)
    parameters = [arg.arg for arg in taken.args]
    if taken.kwonlyargs:
        parameters.append("{ " + ", ".join(arg.arg for arg in taken.kwonlyargs) + " }")
    lines = _block(node.body)
    if names := _locals(node):
        lines = [f"let {', '.join(names)};", *lines]
    return f"function {node.name}({', '.join(parameters)}) {{\n{_indented(lines)}\n}}"


def _locals(node: ast.FunctionDef) -> list[str]:
    """Return the names a function assigns, but for loop variables, which are declared in place."""
    names = [
        leaf.id
        for inner in ast.walk(node)
        if isinstance(inner, ast.Assign | ast.AnnAssign)
        for target in (inner.targets if isinstance(inner, ast.Assign) else [inner.target])
        for leaf in ast.walk(target)
        if isinstance(leaf, ast.Name)
    ]
    return list(dict.fromkeys(names))


def _block(statements: Iterable[ast.stmt]) -> list[str]:
    return [line for statement in statements for line in _statement(statement)]


def _statement(node: ast.stmt) -> list[str]:  # noqa: C901  # one case for each kind of statement
    match node:
        case ast.Expr(value=ast.Constant(value=str())):  # a docstring
            return []
        case ast.Expr(value=value):
            return [f"{_expression(value)};"]
        case ast.Return(value=ast.expr() as value):
            return [f"return {_expression(value)};"]
        case ast.Raise(exc=ast.Call() as error):
            return [f"throw {_expression(error)};"]
        case ast.Assign(targets=[target], value=value):
            return [f"{_expression(target)} = {_expression(value)};"]
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            return [f"{_expression(target)} = {_expression(value)};"]
        case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=ast.List(elts=items)):
            return [f"{name}.push({', '.join(map(_expression, items))});"]
        case ast.If():
            return _if(node)
        case ast.For(target=target, iter=items, body=body, orelse=[]):
            return [
                f"for (const {_expression(target)} of {_expression(items)}) {{",
                _indented(_block(body)),
                "}",
            ]
        case ast.Try():
            return _try(node)
        case _:
            raise Untranslatable(node)


def _if(node: ast.If) -> list[str]:
    lines = [f"if ({_expression(node.test)}) {{", _indented(_block(node.body))]
    if node.orelse:
        lines += ["} else {", _indented(_block(node.orelse))]
    return [*lines, "}"]


def _try(node: ast.Try) -> list[str]:
    match node:
        case ast.Try(
            body=body, handlers=[ast.ExceptHandler(type=ast.Name(id=kind), name=str() as name, body=caught)]
        ):
            if node.orelse or node.finalbody:
                raise Untranslatable(node)
            passing = f"if (!({name} instanceof {kind})) throw {name};"
            return [
                "try {",
                _indented(_block(body)),
                f"}} catch ({name}) {{",
                _indented([passing, *_block(caught)]),
                "}",
            ]
        case _:
            raise Untranslatable(node)


def _indented(lines: Iterable[str]) -> str:
    return "\n".join(f"  {line}" for text in lines for line in text.split("\n"))


# --- expressions


def _expression(node: ast.expr) -> str:  # noqa: C901  # one case for each kind of expression
    match node:
        case ast.Constant(value=None | bool() | str() | int() | float()):
            return json.dumps(node.value)
        case ast.Name(id=name):
            return name
        case ast.JoinedStr(values=parts):
            return "`" + "".join(map(_part, parts)) + "`"
        case ast.Tuple(elts=items) | ast.List(elts=items):
            return f"[{', '.join(map(_expression, items))}]"
        case ast.Dict(keys=keys, values=values):
            return "new Map([" + ", ".join(map(_entry, keys, values)) + "])"
        case ast.Starred(value=value):
            return f"...{_expression(value)}"
        case ast.IfExp(test=test, body=body, orelse=otherwise):
            return f"({_expression(test)} ? {_expression(body)} : {_expression(otherwise)})"
        case ast.BoolOp(op=operator, values=values):
            sign = " && " if isinstance(operator, ast.And) else " || "
            return "(" + sign.join(map(_expression, values)) + ")"
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return f"!({_expression(operand)})"
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return f"({_expression(left)} + {_expression(right)})"
        case ast.Compare():
            return _comparison(node)
        case ast.Attribute(value=ast.Name(id=owner), attr=name):
            return f"{owner}.{name}"
        case ast.Subscript(value=ast.Dict() as table, slice=key):
            return f"{_expression(table)}.get({_expression(key)})"
        case ast.Subscript(value=value, slice=ast.Constant(value=int() as index)):
            return f"{_expression(value)}[{index}]"
        case ast.GeneratorExp(elt=item, generators=loops) | ast.ListComp(elt=item, generators=loops):
            return _comprehension(item, loops)
        case ast.Call():
            return _call(node)
        case _:
            raise Untranslatable(node)


def _part(node: ast.expr) -> str:
    """Return one piece of an f-string."""
    match node:
        case ast.Constant(value=str() as text):
            return json.dumps(text)[1:-1].replace("`", "\\`").replace("$", "\\$")
        case ast.FormattedValue(value=value, conversion=-1, format_spec=None):
            return "${" + _expression(value) + "}"
        case _:
            raise Untranslatable(node)


def _entry(key: ast.expr | None, value: ast.expr) -> str:
    if key is None:
        raise Untranslatable(value)
    return f"[{_expression(key)}, {_expression(value)}]"


def _comparison(node: ast.Compare) -> str:
    match node:
        case ast.Compare(left=left, ops=[operator], comparators=[right]) if type(operator) in _COMPARISONS:
            return f"({_expression(left)} {_COMPARISONS[type(operator)]} {_expression(right)})"
        case ast.Compare(left=left, ops=[ast.Is()], comparators=[ast.Constant(value=None)]):
            # What a Map does not hold is undefined.
            return f"(({_expression(left)} ?? null) === null)"
        case _:
            raise Untranslatable(node)


def _comprehension(item: ast.expr, loops: list[ast.comprehension]) -> str:
    loop, *rest = loops
    if loop.ifs or loop.is_async:
        raise Untranslatable(item)
    inner = _comprehension(item, rest) if rest else _expression(item)
    step = "flatMap" if rest else "map"
    return f"{_expression(loop.iter)}.{step}(({_expression(loop.target)}) => {inner})"


def _call(node: ast.Call) -> str:
    taken = [*map(_expression, node.args)]
    if node.keywords:
        named = [f"{word.arg}: {_expression(word.value)}" for word in node.keywords if word.arg]
        taken.append("{ " + ", ".join(named) + " }")
    match node.func:
        case ast.Name(id="tuple"):
            return taken[0]
        case ast.Name(id="str"):  # only ever of what was caught
            return f"{taken[0]}.message"
        case ast.Attribute(value=ast.Name(id="re"), attr="compile"):
            return f'new RegExp({taken[0]}, "gu")'
        case ast.Name(id=name):
            new = "new " if name[0].isupper() else ""  # a class
            return f"{new}{name}({', '.join(taken)})"
        case ast.Attribute(value=owner, attr="append"):
            return f"{_expression(owner)}.push({taken[0]})"
        case ast.Attribute(value=owner, attr="items"):
            return f"{_expression(owner)}.entries()"
        case ast.Attribute(value=owner, attr="get"):
            return f"({_expression(owner)}.get({taken[0]}) ?? {taken[1] if len(taken) > 1 else 'null'})"
        case ast.Attribute(value=owner, attr=name) if name in _METHODS:
            return f"{_expression(owner)}.{name}({', '.join(taken)})"
        case _:
            raise Untranslatable(node)
