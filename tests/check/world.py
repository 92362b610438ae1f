"""Programs of mt-cc (lib/cuda.py)."""
from cuda import OPTIONS, World  # noqa: F401
