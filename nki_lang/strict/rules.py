"""The rules of the strict subset: Python that the vendor's compiler does not accept.

The compiler parses a kernel and everything it calls; what it cannot parse is an error there,
while tracing and the simulator run any Python. Each rule states the construct, the reason, and the
replacement. Facts from the vendor's language guide and migration guide, and from the published
front end of KLR.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["ENUM_PARAMETERS", "KNOWN_BUILTINS", "RULES", "Rule"]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

    Attributes:
        code: stable code, ``NKI-STRICT-...``.
        what: the construct; ``{}`` is replaced by the detail.
        why: why it is refused.
        instead: how to write it.
        warning: True if the compiler accepts it with a warning, maybe with other semantics.
    """

    code: str
    what: str
    why: str
    instead: str
    warning: bool = False


_PARSED = "the compiler parses kernels and has no such construct"
_STATIC = "the loop becomes a loop on the device, whose body is compiled once"

_TABLE = (
    Rule(
        "RAISE", "a 'raise' statement", _PARSED,
        "use 'assert condition, message', which the compiler evaluates",
    ),
    Rule(
        "TRY", "a 'try' statement", "the compiler's language has no exceptions",
        "decide with 'if' beforehand, or catch in the code that calls the kernel",
    ),
    Rule("LAMBDA", "a lambda", _PARSED, "write a function at the top level of the module and pass it"),
    Rule("COMPREHENSION", "a {}", _PARSED, "fill a list or dict in a 'for' loop"),
    Rule("YIELD", "'yield'", "functions are inlined, they cannot be suspended", "return a list"),
    Rule("ASYNC", "'async' or 'await'", "kernels are compiled, not scheduled", "use plain functions"),
    Rule("MATCH", "a 'match' statement", _PARSED, "use 'if' and 'elif'"),
    Rule("DEL", "a 'del' statement", _PARSED, "leave the name, or use dict.pop(key)"),
    Rule(
        "GLOBAL", "'{}'", "kernels are pure functions and cannot assign outside names",
        "pass a list, dict or NKIObject, or return the value",
    ),
    Rule(
        "IMPORT", "an 'import' inside a function", _PARSED,
        "move it to the top of the module",
    ),
    Rule("WALRUS", "an assignment inside an expression (':=')", _PARSED, "assign in a statement before"),
    Rule(
        "NESTED-DEF", "the {} defined inside a function",
        "functions and classes are looked up in modules", "move it to the top level of the module",
    ),
    Rule("SET", "a set", "there are tuples, lists and dicts only", "use a tuple or a list"),
    Rule("STARRED", "'*' expansion", "calls and tuples have a known length", "write the items out"),
    Rule(
        "KEYWORD-EXPANSION", "'**' expansion", "calls have known arguments",
        "pass each argument by its name",
    ),
    Rule(
        "VARARGS", "the parameter '*{}'", "calls have known arguments", "take a tuple",
    ),
    Rule(
        "KWARGS", "the parameter '**{}'",
        "the compiler takes it only while it stays empty", "name each parameter", warning=True,
    ),
    Rule(
        "KEYWORD-ONLY", "a '*' that makes parameters keyword-only",
        "not taken since NKI 0.3", "put parameters with defaults last, without '*'",
    ),
    Rule("LOOP-ELSE", "'else' after a {} loop", _PARSED, "set a flag in the loop and test it"),
    Rule(
        "WITH", "this 'with' statement",
        "the only context is nl.no_reorder(), without arguments and without 'as'",
        "open and close explicitly",
    ),
    Rule("MATMUL", "the '@' operator", "tensors have no operators in kernels", "call nisa.nc_matmul"),
    Rule(
        "IDENTITY", "'{}'", "values have no identity; it is read as '{}'", "write '{}'",
        warning=True,
    ),
    Rule(
        "CHAINED-IN", "'in' inside a chain of comparisons", _PARSED,
        "write two comparisons with 'and'",
    ),
    Rule(
        "DICT-KEY", "the dictionary key {}", "keys in braces are string literals",
        "write a string, or assign the item: d[key] = value",
    ),
    Rule("CONSTANT", "the constant {}", "values are None, booleans, integers, floats and strings",
         "compute it outside and pass a number"),
    Rule("ELLIPSIS", "'...' that is not an index", "'...' stands for dimensions of a tensor only",
         "write 'pass', or None for what is left out"),
    Rule("INTEGER", "the integer {}", "integers have 32 bits", "split it, or compute it on the device"),
    Rule("ASSIGN-TARGET", "an assignment to {}",
         "'=' unpacks tuples into plain names, and changes one list item or field at a time",
         "assign to names first, each item or field in a statement of its own"),
    Rule("TYPE-ALIAS", "a 'type' statement", _PARSED, "move it to the top of the module"),
    Rule("OLD-API", "the name {}", "NKI before 0.2 (neuronxcc.nki) was a different language",
         "it runs here as it is; nki-hlo migrate rewrites it for the current compiler (docs/beta1.md)"),
    Rule("LOOP-TARGET", "a loop over more than one name", "a loop has one simple variable",
         "unpack inside the loop"),
    Rule("DECORATOR", "the decorator {}", "only nki.jit, staticmethod and dataclass are known",
         "call the wrapped function directly"),
    Rule("BASE", "the class {}", "classes inherit from NKIObject, Enum or NamedTuple, and nothing else",
         "inherit from nl.NKIObject"),
    Rule("CLASS-BODY", "this statement in a class", "classes hold fields and methods",
         "move it into __init__ or out of the class"),
    Rule("BUILTIN", "a call of '{}'", "only some of Python's functions are supported",
         "use a loop; known are abs, bool, dict, divmod, float, int, isinstance, len, list, max, "
         "min, print, range, slice, str, tuple, type"),
    Rule("FORMAT-SPEC", "a format in an f-string", "f-strings hold plain values",
         "leave out what follows ':'"),
    Rule(
        "DYNAMIC-EXIT", "'{}' inside a loop on the device", _STATIC,
        "compute the bound in a register beforehand, or predicate the instructions",
    ),
    Rule(
        "LIST-DEFAULT", "the kernel parameter '{}' with a list as default",
        "kernel arguments are hashed, lists are not; not taken since NKI 0.3", "use a tuple",
    ),
    Rule(
        "BUFFER-NAME", "the buffer {} as a string", "buffers are objects since NKI 0.3",
        "write nl.{}",
    ),
    Rule(
        "INTEGER-ENUM", "the integer {} for '{}'", "members are not integers since NKI 0.3",
        "write the member, such as {}",
    ),
)  # fmt: skip

RULES: MappingProxyType[str, Rule] = MappingProxyType({rule.code: rule for rule in _TABLE})

ENUM_PARAMETERS: MappingProxyType[str, str] = MappingProxyType(
    {
        "engine": "nisa.engine.vector",
        "dge_mode": "nisa.dge_mode.hwdge",
        "oob_mode": "nisa.oob_mode.skip",
        "reduce_cmd": "nisa.reduce_cmd.reset_reduce",
        "perf_mode": "nisa.matmul_perf_mode.double_row",
    }
)
"""Parameters of instructions that are members of an enumeration."""

KNOWN_BUILTINS = frozenset(
    [
        "abs",
        "bool",
        "dict",
        "divmod",
        "float",
        "int",
        "isinstance",
        "len",
        "list",
        "max",
        "min",
        "print",
        "range",
        "slice",
        "str",
        "super",
        "tuple",
        "type",
    ]
)
"""Python's functions that the compiler has."""
