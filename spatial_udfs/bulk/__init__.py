"""The bulk engine's part: Sedona columns and kernels from Arrow to Arrow."""
