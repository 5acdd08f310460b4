"""Turn a Python function into CUDA C++.  Private: nothing below is part of the API."""
