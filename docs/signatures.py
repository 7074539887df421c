"""What a reader of source code does not see, for the API pages: an extension of griffe.

Equinox modules and named tuples write their constructor from their fields; it is written down, so
that a class is shown with its settings and their defaults. And a function that a package lists
hides the file of the same name: `gamps.runs.start` is what `from gamps.runs import start` gives.
"""

from typing import Any

import griffe

GENERATED = {"equinox.Module", "typing.NamedTuple"}
PLAIN, NAMED = griffe.ParameterKind.positional_or_keyword, griffe.ParameterKind.keyword_only


class Signatures(griffe.Extension):
    """Adds an `__init__` to classes that have one by their base, and puts hidden files aside."""

    def on_package(self, *, pkg: griffe.Module, **kwargs: Any) -> None:
        """Called once the whole package is loaded, so that bases of other files are known."""
        del kwargs
        _visit(pkg)
        _uncover(pkg)


def _uncover(package: griffe.Module) -> None:
    """In place of a file that a listed name hides, what the package lists of it."""
    for name, member in list(package.members.items()):
        if not isinstance(member, griffe.Module):
            continue
        _uncover(member)
        if name in (package.exports or ()) and name in member.members:
            for own in set(map(str, package.exports or ())) & set(member.members):
                if package.imports.get(own) == f"{member.path}.{own}":
                    package.set_member(own, member.members[own])


def _visit(parent: griffe.Module | griffe.Class) -> None:
    for member in list(parent.members.values()):
        if isinstance(member, griffe.Class) and _generated(member):
            _add(member)
        if isinstance(member, griffe.Module | griffe.Class):
            _visit(member)


def _generated(class_: griffe.Class) -> bool:
    """Whether the constructor comes from the fields."""
    if "__init__" in class_.members:
        return False
    named = {base if isinstance(base, str) else base.canonical_path for base in class_.bases}
    return bool(named & GENERATED) or any(_generated(c) for c in class_.mro())


def _add(class_: griffe.Class) -> None:
    fields: dict[str, griffe.Parameter] = {}
    for owner in (*reversed(class_.mro()), class_):
        for member in owner.members.values():
            field = member.is_attribute and member.annotation and "property" not in member.labels
            if field and not member.name.startswith("_"):
                said = _said(member.value)
                fields[member.name] = griffe.Parameter(
                    member.name,
                    annotation=member.annotation,
                    kind=NAMED if "kw_only" in said else PLAIN,
                    default=said.get("default"),
                )
    if fields:
        ordered = sorted(fields.values(), key=lambda field: field.kind is NAMED)
        parameters = griffe.Parameters(griffe.Parameter("self", kind=PLAIN), *ordered)
        init = griffe.Function("__init__", parameters=parameters, parent=class_)
        class_.set_member("__init__", init)


def _said(value: Any) -> dict[str, Any]:
    """What a field is told: a value is its default, unless it is a call of `field` or its like."""
    function = str(value.function) if isinstance(value, griffe.ExprCall) else ""
    if function.rpartition(".")[-1] == "field":
        return {a.name: a.value for a in value.arguments if isinstance(a, griffe.ExprKeyword)}
    if function in {
        "number",
        "_share",
    }:  # gamps._utils.fields and gamps.search.weights: the default comes last
        return {"default": value.arguments[-1]} if value.arguments else {}
    return {} if value is None else {"default": value}
