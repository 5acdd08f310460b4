"""Lower what Hopper adds: TMA, mbarriers, wgmma and its accumulators."""
