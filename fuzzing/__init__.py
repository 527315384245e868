"""Search for inputs that break something."""

import os

# One thread, as the searches state; before numpy is imported. Idle threads of OpenBLAS spin, which counts as work.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
