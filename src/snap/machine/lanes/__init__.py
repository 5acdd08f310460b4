"""Execute operations on lanes: values, memory, atomics, collectives, tensor cores."""
