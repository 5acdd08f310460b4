"""Hold what every rule of the checker uses: its state, bindings, names, operands and conversions."""
