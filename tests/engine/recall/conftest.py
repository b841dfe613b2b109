"""One core for BLAS, as the service sets it: its threads spin, and tests share the machine."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
