"""Array types used in annotations; shapes are said in docstrings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]
BoolArray = npt.NDArray[np.bool_]

#: Called as ``progress(stage, fraction_done_or_None, details)``.
Progress = Callable[[str, float | None, dict[str, Any]], None]
