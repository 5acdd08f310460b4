"""Lower what threads do together: barriers, collectives, votes, printing."""
