"""Walk a typed program symbolically: which elements it accesses, under which conditions, and what its integers are."""
