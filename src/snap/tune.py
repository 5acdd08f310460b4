"""Keep `from snap.tune import Tuner` for one version; the names are in `snap` itself now.

Input: an import of the old module.  Output: the function `snap.tune`, which carries its names.  Invariant: it warns.
Non-goals: `snap.tune(...)`, which never imports this.
"""

import sys

from snap._tune.search import tune
from snap.diag.renamed import renamed

renamed("from snap.tune import ...", "from snap import ...")
sys.modules[__name__] = tune  # type: ignore[assignment]  # the import system binds what it finds here as `snap.tune`
