"""The places that a kernel reads a number from, and how each is changed afterwards."""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["HOLDERS", "Holder", "object_of"]


class Holder(NamedTuple):
    """Text in which ``{n}`` is the holder's number and ``{v}`` its value.

    Attributes:
        define: statements of the module; of the function around the kernel when ``inner``.
        read: expression in the kernel.
        change: statements run in the module, with ``kernel`` and ``cell(name)``.
        inner: whether it stands in the function around the kernel.
    """

    define: str
    read: str
    change: str
    inner: bool = False


def _class(body: str, read: str, change: str) -> Holder:
    return Holder(f"class C{{n}}{body}", read, change)


HOLDERS: dict[str, Holder] = {
    "global": Holder("G{n} = {v}", "G{n}", "G{n} = {v}"),
    "list": Holder("G{n} = [{v}]", "G{n}[0]", "G{n}[0] = {v}"),
    "list grown": Holder("G{n} = [{v}]", "sum(G{n})", "G{n}.append({v} - sum(G{n}))"),
    "dict": Holder("G{n} = dict(a={v})", "G{n}['a']", "G{n}['a'] = {v}"),
    "nested": Holder("G{n} = [dict(a=({v},))]", "G{n}[0]['a'][0]", "G{n}[0] = dict(a=({v},))"),
    "set": Holder("G{n} = {{{v}}}", "max(G{n})", "G{n}.clear(); G{n}.add({v})"),
    "deque": Holder("G{n} = collections.deque([{v}])", "G{n}[-1]", "G{n}.append({v})"),
    "bytearray": Holder("G{n} = bytearray([{v}])", "G{n}[0]", "G{n}[0] = {v}"),
    "array": Holder("G{n} = np.array([{v}])", "G{n}[0]", "G{n}[0] = {v}"),
    "array without dimensions": Holder("G{n} = np.array({v})", "int(G{n})", "G{n}[...] = {v}"),
    "view": Holder("B{n} = np.full(4, {v}); G{n} = B{n}[1:3]", "G{n}[1]", "B{n}[:] = {v}"),
    "namespace": Holder("G{n} = types.SimpleNamespace(a={v})", "G{n}.a", "G{n}.a = {v}"),
    "module": Holder("G{n} = types.ModuleType('m'); G{n}.a = {v}", "G{n}.a", "G{n}.a = {v}"),
    "context": Holder(
        "G{n} = contextvars.ContextVar('c{n}', default={v})", "G{n}.get()", "G{n}.set({v})"
    ),
    "environment": Holder(
        "os.environ['E{n}_{tag}'] = '{v}'",
        "os.environ['E{n}_{tag}']",
        "os.environ['E{n}_{tag}'] = '{v}'",
    ),
    "partial": Holder(
        "G{n} = functools.partial(max, {v})", "G{n}(-1)", "G{n} = functools.partial(max, {v})"
    ),
    "function": Holder("def f{n}(): return {v}", "f{n}()", "def f{n}(): return {v}"),
    "function of a function": Holder(
        "def g{n}(): return {v}\ndef f{n}(): return g{n}()", "f{n}()", "def g{n}(): return {v}"
    ),
    "code": Holder("def f{n}(): return {v}", "f{n}()", "f{n}.__code__ = (lambda: {v}).__code__"),
    "defaults": Holder("def f{n}(a={v}): return a", "f{n}()", "f{n}.__defaults__ = ({v},)"),
    "keyword defaults": Holder(
        "def f{n}(*, a={v}): return a", "f{n}()", "f{n}.__kwdefaults__['a'] = {v}"
    ),
    "function attribute": Holder(
        "def f{n}(): return f{n}.a\nf{n}.a = {v}", "f{n}()", "f{n}.a = {v}"
    ),
    "lambda in a dict": Holder(
        "G{n} = dict(a=lambda: {v})", "G{n}['a']()", "G{n}['a'] = lambda: {v}"
    ),
    "closure": Holder(
        "def m{n}(v): return lambda: v\nG{n} = m{n}({v})", "G{n}()", "G{n} = m{n}({v})"
    ),
    "cell": Holder(
        "def m{n}(v): return lambda: v\nG{n} = m{n}({v})",
        "G{n}()",
        "G{n}.__closure__[0].cell_contents = {v}",
    ),
    "counter": Holder(
        "def m{n}():\n    v = [{v}]\n    return lambda: v[0], v\nG{n}, L{n} = m{n}()",
        "G{n}()",
        "L{n}[0] = {v}",
    ),
    "class attribute": _class(": a = {v}", "C{n}.a", "C{n}.a = {v}"),
    "inherited": _class(": a = {v}\nclass D{n}(C{n}): pass", "D{n}.a", "C{n}.a = {v}"),
    "instance": _class(
        ":\n    def __init__(self): self.a = {v}\nG{n} = C{n}()", "G{n}.a", "G{n}.a = {v}"
    ),
    "of the class behind": _class(": a = {v}\nG{n} = C{n}()", "G{n}.a", "C{n}.a = {v}"),
    "slots": _class(
        ":\n    __slots__ = ('a',)\nG{n} = C{n}(); G{n}.a = {v}", "G{n}.a", "G{n}.a = {v}"
    ),
    "property": _class(
        ":\n    b = {v}\n    a = property(lambda self: self.b)\nG{n} = C{n}()",
        "G{n}.a",
        "G{n}.b = {v}",
    ),
    "cached property": _class(
        ":\n    b = {v}\n    @functools.cached_property\n    def a(self): return self.b\nG{n} = C{n}()",
        "G{n}.a",
        "C{n}.b = {v}; G{n}.__dict__.pop('a', None)",
    ),
    "method": _class(
        ":\n    b = {v}\n    def a(self): return self.b\nG{n} = C{n}().a", "G{n}()", "C{n}.b = {v}"
    ),
    "method replaced": _class(
        ":\n    def a(self): return {v}\nG{n} = C{n}()", "G{n}.a()", "C{n}.a = lambda self: {v}"
    ),
    "super": _class(
        ":\n    def a(self): return {v}\nclass D{n}(C{n}):\n    def a(self): return super().a()\nG{n} = D{n}()",
        "G{n}.a()",
        "C{n}.a = lambda self: {v}",
    ),
    "called object": _class(
        ":\n    b = [{v}]\n    def __call__(self): return self.b[0]\nG{n} = C{n}()",
        "G{n}()",
        "C{n}.b[0] = {v}",
    ),
    "getattr": _class(
        ":\n    b = dict(a={v})\n    def __getattr__(self, name): return C{n}.b['a']\nG{n} = C{n}()",
        "G{n}.anything",
        "C{n}.b['a'] = {v}",
    ),
    "getitem": _class(
        ":\n    b = {v}\n    def __getitem__(self, i): return C{n}.b\nG{n} = C{n}()",
        "G{n}[3]",
        "C{n}.b = {v}",
    ),
    "metaclass": Holder(
        "class M{n}(type):\n    @property\n    def a(cls): return cls.b\nclass C{n}(metaclass=M{n}): b = {v}",
        "C{n}.a",
        "C{n}.b = {v}",
    ),
    "dataclass": Holder(
        "@dataclasses.dataclass(slots=True)\nclass C{n}: a: int\nG{n} = C{n}({v})",
        "G{n}.a",
        "G{n}.a = {v}",
    ),
    "frozen dataclass": Holder(
        "@dataclasses.dataclass(frozen=True)\nclass C{n}: a: int\nG{n} = C{n}({v})",
        "G{n}.a",
        "object.__setattr__(G{n}, 'a', {v})",
    ),
    "enum": Holder(
        "C{n} = enum.Enum('C{n}', dict(a={v}))",
        "C{n}.a.value",
        "C{n} = enum.Enum('C{n}', dict(a={v}))",
    ),
    "chain map": Holder(
        "L{n} = dict(a={v}); G{n} = collections.ChainMap({{}}, L{n})",
        "G{n}['a']",
        "L{n}['a'] = {v}",
    ),
    "proxy": Holder(
        "L{n} = dict(a={v}); G{n} = types.MappingProxyType(L{n})", "G{n}['a']", "L{n}['a'] = {v}"
    ),
    "list of objects": Holder(
        "G{n} = [types.SimpleNamespace(a={v}) for _ in range(2)]", "G{n}[1].a", "G{n}[1].a = {v}"
    ),
    "globals": Holder("G{n} = {v}", "globals()['G{n}']", "G{n} = {v}"),
    "eval": Holder("G{n} = {v}", "eval('G{n}')", "G{n} = {v}"),
    "local import": Holder(
        "", "__import__('helper_{tag}').NUMBERS[{n}]", "helper.NUMBERS[{n}] = {v}"
    ),
    "helper": Holder(
        "helper.NUMBERS[{n}] = {v}", "helper.number({n})", "helper.NUMBERS[{n}] = {v}"
    ),
    "import from": Holder(
        "helper.NUMBERS[{n}] = {v}\nfrom helper_{tag} import number as number{n}",
        "number{n}({n})",
        "helper.NUMBERS[{n}] = {v}",
    ),
    "helper's function": Holder(
        "helper.f{n} = lambda: {v}", "helper.f{n}()", "helper.f{n} = lambda: {v}"
    ),
    "wrapped": Holder(
        "G{n} = [{v}]\n@functools.wraps(max)\ndef f{n}(): return G{n}[0]", "f{n}()", "G{n}[0] = {v}"
    ),
    "cached": Holder(
        "G{n} = [{v}]\n@functools.cache\ndef f{n}(): return G{n}[0]",
        "f{n}()",
        "G{n}[0] = {v}; f{n}.cache_clear()",
    ),
    "generator": Holder(
        "G{n} = [{v}]\ndef f{n}():\n    yield from G{n}", "sum(f{n}())", "G{n}[0] = {v}"
    ),
    "comprehension": Holder("G{n} = [{v}]", "[v for v in G{n}][0]", "G{n}[:] = [{v}]"),
    "conditional": Holder("G{n} = {v}; H{n} = 1", "(G{n} if H{n} else 0)", "G{n} = {v}"),
    "global in a loop": Holder("G{n} = {v}", "sum(1 for _ in range(G{n}))", "G{n} = {v}"),
    "inner": Holder("c{n} = {v}", "c{n}", "cell('c{n}').cell_contents = {v}", inner=True),
    "inner list": Holder(
        "c{n} = [{v}]", "c{n}[0]", "cell('c{n}').cell_contents[0] = {v}", inner=True
    ),
    "inner function": Holder(
        "c{n} = lambda: {v}", "c{n}()", "cell('c{n}').cell_contents = lambda: {v}", inner=True
    ),
    "inner object": Holder(
        "c{n} = types.SimpleNamespace(a=[{v}])",
        "c{n}.a[0]",
        "cell('c{n}').cell_contents.a[0] = {v}",
        inner=True,
    ),
    "inner kernel": Holder(
        "def k{n}(v): return lambda: v\nG{n} = nki.jit(k{n}({v}))",
        "G{n}.func()",
        "G{n} = nki.jit(k{n}({v}))",
    ),
    "module passed on": Holder(
        "def g{n}(m): return m.a\nG{n} = types.ModuleType('m'); G{n}.a = {v}",
        "g{n}(G{n})",
        "G{n}.a = {v}",
    ),
    "module passed on, imported": Holder(
        "helper.M{n} = {v}\ndef g{n}(m): return m.M{n}\n"
        "def f{n}():\n    import helper_{tag} as h\n    return g{n}(h)",
        "f{n}()",
        "helper.M{n} = {v}",
    ),
    "getattr of a module": Holder(
        "helper.a{n} = {v}", "getattr(helper, ''.join(('a', '{n}')))", "helper.a{n} = {v}"
    ),
    "import_module": Holder(
        "N{n} = 'helper_'",
        "__import__('importlib').import_module(f'{{N{n}}}{tag}').NUMBERS[{n}]",
        "helper.NUMBERS[{n}] = {v}",
    ),
    "module's getattr": Holder(
        "B{n} = dict(a={v}); G{n} = types.ModuleType('m'); G{n}.__getattr__ = lambda name: B{n}[name]",
        "G{n}.a",
        "B{n}['a'] = {v}",
    ),
    "module of a class": Holder(
        "class C{n}(types.ModuleType): a = property(lambda self: B{n}[0])\n"
        "B{n} = [{v}]; G{n} = C{n}('m')",
        "G{n}.a",
        "B{n}[0] = {v}",
    ),
    "frame": Holder("G{n} = {v}", "__import__('sys')._getframe().f_globals['G{n}']", "G{n} = {v}"),
    "builtins": Holder(
        "import builtins\nbuiltins.B{n}_{tag} = {v}", "B{n}_{tag}", "builtins.B{n}_{tag} = {v}"
    ),
    "file": Holder(
        "import pathlib\nP{n} = pathlib.Path(__file__).parent / '{n}_{tag}.txt'\n"
        "P{n}.write_text('{v}')",
        "P{n}.read_text()",
        "P{n}.write_text('{v}')",
    ),
    "file of numbers": Holder(
        "P{n} = os.path.join(os.path.dirname(__file__), '{n}_{tag}.npy')\n"
        "L{n} = np.load; np.save(P{n}, {v})",
        "L{n}(P{n})",
        "np.save(P{n}, {v})",
    ),
    "variable by another name": Holder(
        "from os import getenv as g{n}\nos.environ['F{n}_{tag}'] = '{v}'",
        "g{n}('F{n}_{tag}')",
        "os.environ['F{n}_{tag}'] = '{v}'",
    ),
    "expanded variable": Holder(
        "os.environ['X{n}_{tag}'] = '{v}'",
        "os.path.expandvars('$X{n}_{tag}')",
        "os.environ['X{n}_{tag}'] = '{v}'",
    ),
    "seeded": Holder(
        "import random\nrandom.seed({v})\nS{n} = {v}\ndef f{n}(): random.seed(S{n}); return random.random() * 0 + S{n}",
        "f{n}()",
        "S{n} = {v}",
    ),
    "attribute of a metaclass": Holder(
        "class M{n}(type): a = {v}\nclass C{n}(metaclass=M{n}): pass", "C{n}.a", "M{n}.a = {v}"
    ),
    "order of a set": Holder(
        "G{n} = {{{v}, {v} + 64}}",
        "next(iter(G{n})) * 0 + min(G{n})",
        "G{n} = {{{v} + 64, {v}}}",
    ),
    "shape of a view": Holder(
        "G{n} = memoryview(bytes(2 * {v})).cast('B', ({v}, 2))",
        "G{n}.shape[0]",
        "G{n} = memoryview(bytes(2 * {v})).cast('B', ({v}, 2))",
    ),
    **{
        f"filled {name}": Holder(
            f"{define}\ndef f{{n}}():\n    {fill}\n    return {read}",
            "f{n}()",
            f"{read} = {{v}}",
        )
        for name, define, fill, read in (
            ("global", "G{n} = {v}; N{n} = [0]", "N{n}[0] += 1", "G{n}"),
            ("list", "G{n} = [{v}]", "G{n}.append(0)", "G{n}[0]"),
            ("list in a list", "G{n} = [[0, {v}]]", "G{n}[0][0] += 1", "G{n}[0][1]"),
            ("dict", "G{n} = dict(a=dict(n=0, a={v}))", "G{n}['a']['n'] += 1", "G{n}['a']['a']"),
            ("deque", "G{n} = collections.deque([{v}])", "G{n}.append(0)", "G{n}[0]"),
            (
                "default dict",
                "G{n} = collections.defaultdict(int, a={v})",
                "G{n}['n'] += 1",
                "G{n}['a']",
            ),
            (
                "ordered dict",
                "G{n} = collections.OrderedDict(a={v})",
                "G{n}['n'] = len(G{n})",
                "G{n}['a']",
            ),
            ("class", "class C{n}: n = 0; a = {v}", "C{n}.n += 1", "C{n}.a"),
            ("module", "helper.n{n} = 0; helper.F{n} = {v}", "helper.n{n} += 1", "helper.F{n}"),
            (
                "slots",
                "class C{n}: __slots__ = ('n', 'a')\nG{n} = C{n}(); G{n}.n = 0; G{n}.a = {v}",
                "G{n}.n += 1",
                "G{n}.a",
            ),
            (
                "object in an object",
                "G{n} = types.SimpleNamespace(b=types.SimpleNamespace(n=0, a={v}))",
                "G{n}.b.n += 1",
                "G{n}.b.a",
            ),
            (
                "function",
                "def g{n}(): pass\ng{n}.n, g{n}.a = 0, {v}",
                "g{n}.n += 1",
                "g{n}.a",
            ),
            ("array", "G{n} = np.array([0, {v}])", "G{n}[0] += 1", "G{n}[1]"),
        )
    },
}
"""By name."""


def object_of(name: str, number: int) -> str:
    """The variable of a holder's object, which may be an argument; empty when it has none."""
    holder = HOLDERS[name]
    if holder.inner or "np." in holder.define:  # an array is a tensor of the call
        return ""
    read = holder.read.format(n=number, tag="")
    match = re.search(rf"(?<!['.\w])[GCDf]{number}\b", read)
    return match[0] if match else ""
