"""Check statements: control flow, assignments, declarations, groups and splits."""
