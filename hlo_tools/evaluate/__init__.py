"""Evaluate: what a module computes, in NumPy."""

from hlo_tools.evaluate.evaluator import Evaluator, evaluate, evaluate_devices
from hlo_tools.evaluate.limits import LimitError, Limits
from hlo_tools.evaluate.values import EvaluationError, Value

__all__ = [
    "EvaluationError",
    "Evaluator",
    "LimitError",
    "Limits",
    "Value",
    "evaluate",
    "evaluate_devices",
]
