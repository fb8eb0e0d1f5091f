"""The rules of a valid module as one table: code, title, why."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["RULES", "Rule"]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

    Attributes:
        code: stable identifier.
        title: the rule in a few words.
        why: what goes wrong when it is broken, and what usually breaks it.
    """

    code: str
    title: str
    why: str


_RULE_TABLE = (
    ("HLO-V001", "the entry computation exists",
     "A module starts at its entry; the id of the entry names none of its computations."),
    ("HLO-V002", "ids of computations are unique",
     "Calls name computations by id; two with one id cannot be distinguished."),
    ("HLO-V003", "ids of instructions are unique in their computation",
     "Operands name instructions by id (the low 32 bits in newer files)."),
    ("HLO-V004", "names exist and are unique",
     "Text names instructions and computations; two of one name make text that reads differently."),
    ("HLO-V005", "operands exist",
     "An operand id names no instruction of the computation; a tool removed one that was used."),
    ("HLO-V006", "called computations exist",
     "A called computation id names no computation of the module."),
    ("HLO-V007", "the root exists", "The root id names no instruction of the computation."),
    ("HLO-V008", "control predecessors exist",
     "A control predecessor id names no instruction of the computation."),
    ("HLO-V009", "instructions do not depend on each other in a cycle",
     "No order of execution exists."),
    ("HLO-V010", "computations do not call each other in a cycle",
     "HLO has no recursion; inlining and scheduling would not end."),
    ("HLO-V011", "the opcode exists", "No such operation in XLA as of 2026-08."),
    ("HLO-V012", "the number of operands matches the opcode",
     "Each opcode takes a fixed number of operands, or any number."),
    ("HLO-V013", "parameters are numbered 0, 1, ... once each",
     "Callers pass arguments by number."),
    ("HLO-V014", "the program shape is that of parameters and root",
     "Readers that look only at the program shape would allocate wrong buffers."),
    ("HLO-V015", "the module's host program shape is that of its entry",
     "The runtime allocates inputs and outputs from it."),
    ("HLO-V016", "the schedule lists every instruction once, operands first",
     "A scheduled module runs in the order of its schedule; each computation that runs needs one, "
     "but for bodies of fusions."),
    ("HLO-V017", "aliases and donors name existing buffers of one size",
     "An aliased output is written over its input."),
    ("HLO-V018", "the result shape is the one that the operation infers",
     "XLA's text parser and importers do not check this; only compiling shows it."),
    ("HLO-V019", "operands and attributes obey the operation's rules",
     "The operation is not defined for these operands or attributes."),
    ("HLO-V020", "layouts order each dimension once",
     "A layout lists the dimensions from minor to major."),
    ("HLO-V021", "constants hold as many elements as their shape has",
     "A constant whose elements were left out (elided) or damaged has no value."),
    ("HLO-V022", "a constant has the shape of its value",
     "The instruction's shape and the literal's shape differ."),
    ("HLO-V023", "the opcode calls as many computations as it needs",
     "A while has a body and a condition, a reduce one reducer, and so on."),
    ("HLO-V024", "element types exist", "The number names no element type of XLA."),
    ("HLO-V025", "an instruction has a shape", "Every instruction states its result shape."),
    ("HLO-V026", "metadata points at existing source frames",
     "The stack frame id is beyond the module's table of frames."),
    ("HLO-V027", "a custom call's aliases name existing operands and outputs",
     "The output would be written over something else."),
    ("HLO-V028", "a computation is used one way",
     "A fused or asynchronous computation belongs to one caller, and the entry to none."),
    ("HLO-V029", "extents are not negative", "Nothing has less than no elements."),
    ("HLO-V030", "shared payloads exist",
     "An instruction takes its metadata or configuration from the module's list of payloads."),
    ("HLO-V031", "what is started is done once",
     "A start, its updates and its done are one operation; another user would read what is not "
     "there yet."),
    ("HLO-V032", "an asynchronous computation holds one operation",
     "It is run as that operation; sends and receives, and marked groups, may stand together."),
    ("HLO-V033", "computations are called in their thread",
     "Only asynchronous operations lead from one thread to another."),
    ("HLO-V034", "a sharding fits its shape, the devices and its loop",
     "Each device has its tile once; a loop or branch keeps the sharding of what it carries."),
    ("HLO-V035", "both ends of a transfer agree",
     "A send or receive and its done have one channel, and a host channel one kind of transfer."),
    ("HLO-V036", "a composite call is described",
     "Readers replace it by what its frontend attributes name."),
    ("HLO-V037", "everything in a fused computation is used there",
     "A fusion returns its root and nothing else."),
    ("HLO-V038", "a buffer is passed on once",
     "Two writers of one buffer, or a buffer where arrays are meant, have no order."),
    ("HLO-V039", "transfers do not wait for each other for ever",
     "Devices run the schedule in order; a receive that only follows blocks its send "
     "(checked with --deadlocks, in scheduled modules)."),
    ("HLO-V040", "values lie in the memory that their operation can reach",
     "A slice is taken from the host's memory, an update put there (checked with "
     "--layout-sensitive, or --also device-memory)."),
    ("HLO-V041", "dimensions have a bound",
     "Buffers cannot be allocated for a dimension without one (--unbounded allows them)."),
    ("HLO-V042", "instructions keep the name that they were scheduled by",
     "Profiles name them by it (checked with --also names)."),
    ("HLO-V043", "origins have the structure of the value",
     "Each array of the result has one origin."),
    ("HLO-V044", "every field and enum number is known",
     "A newer producer wrote a field that this version does not know; what it says about the "
     "operation would be ignored (--allow-unknown-fields ignores it)."),
)  # fmt: skip

RULES: dict[str, Rule] = {code: Rule(code, title, why) for code, title, why in _RULE_TABLE}
"""Code -> rule."""
