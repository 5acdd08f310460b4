"""Keep asynchronous work in flight: copies, TMA, wgmma, mbarriers."""
