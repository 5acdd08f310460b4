"""Show the properties of a kernel: bounds, overflow, races, initialization."""
