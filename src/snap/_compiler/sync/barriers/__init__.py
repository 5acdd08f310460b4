"""Choose the fewest barriers that order all pairs, and insert them."""
