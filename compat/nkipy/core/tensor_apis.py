"""``nkipy.core.tensor_apis``: functions that NumPy has not, for traced and for plain arrays."""

from hlo_tools.trace.convolution import conv2d, conv3d
from hlo_tools.trace.tensor_apis import constant, full, rms_norm, softmax, topk, zeros

__all__ = ["constant", "conv2d", "conv3d", "full", "rms_norm", "softmax", "topk", "zeros"]
