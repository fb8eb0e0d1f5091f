"""Identifiers, comments and long lines of generated files; nothing here needs a framework."""

from __future__ import annotations

import ast

from hlo_tools.python_source import to_python
from hlo_tools.python_source.names import Names, identifier
from hlo_tools.python_source.wrapping import MAX_COLUMNS, wrapped
from tests.python_source.running import module_of


def test_identifiers_are_unique_and_hide_nothing() -> None:
    assert identifier("add.3") == "add_3"
    assert identifier("0-x") == "_0_x"
    names = Names(frozenset({"lax"}))
    assert [names.unique(text) for text in ("lax", "a.1", "a_1", "a-1", "lambda", "tuple", "é")] == [
        "lax_2", "a_1", "a_1_2", "a_1_3", "lambda_2", "tuple_2", "value",
    ]  # fmt: skip


def test_names_of_a_module_write_no_code() -> None:
    module = module_of("""HloModule m
ENTRY e {
  x = f32[2] parameter(0)
  ROOT r = f32[2] negate(x), metadata={op_name="a/b" source_file="m.py" source_line=3}
}""")
    code = '\n"""\nimport os\nos.abort()\n'
    module.proto.name = code
    root = module.entry.root
    root.proto.name = "r" + code
    root.proto.metadata.op_name = f"a{code}/b"
    root.proto.metadata.source_file = f"m{code}.py"
    module.touch()
    tree = ast.parse(to_python(module).text)
    imports = {
        alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names
    }
    assert "os" not in imports
    assert len([node for node in tree.body if isinstance(node, ast.FunctionDef)]) == 5


def test_long_lines_are_divided_at_commas() -> None:
    argument = ", ".join(f"name_{number}" for number in range(20))
    line = f'    x = f((1, 2), "a, b", g({argument}), lambda: h(a, b))'
    lines = wrapped(line)
    assert all(len(text) <= MAX_COLUMNS for text in lines)
    assert ast.dump(ast.parse("\n".join(lines).strip())) == ast.dump(ast.parse(line.strip()))
    assert wrapped("    y = f(x)") == ["    y = f(x)"]
