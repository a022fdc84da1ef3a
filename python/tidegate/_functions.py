"""What users call: native functions and classes, whose errors say which argument to write."""

from typing import TYPE_CHECKING

from tidegate import _tidegate
from tidegate._arguments import told, told_class
from tidegate._files import of_files

aggregate = told(of_files(_tidegate.aggregate))
aggregate_batches = told(of_files(_tidegate.aggregate_batches))
asof_join = told(of_files(_tidegate.asof_join))
asof_join_batches = told(of_files(_tidegate.asof_join_batches))
band_join = told(of_files(_tidegate.band_join))
band_join_batches = told(of_files(_tidegate.band_join_batches))
digest = told(_tidegate.digest)
interval_join = told(of_files(_tidegate.interval_join))
interval_join_batches = told(of_files(_tidegate.interval_join_batches))
merge = told(of_files(_tidegate.merge))
merge_batches = told(of_files(_tidegate.merge_batches))
overlap_join = told(of_files(_tidegate.overlap_join))
overlap_join_batches = told(of_files(_tidegate.overlap_join_batches))
window_join = told(of_files(_tidegate.window_join))
window_join_batches = told(of_files(_tidegate.window_join_batches))

if TYPE_CHECKING:
    Aggregate = _tidegate.Aggregate
    AsofJoin = _tidegate.AsofJoin
    BandJoin = _tidegate.BandJoin
    IntervalJoin = _tidegate.IntervalJoin
    Merge = _tidegate.Merge
    WindowJoin = _tidegate.WindowJoin
else:
    Aggregate = told_class(_tidegate.Aggregate)
    AsofJoin = told_class(_tidegate.AsofJoin)
    BandJoin = told_class(_tidegate.BandJoin)
    IntervalJoin = told_class(_tidegate.IntervalJoin)
    Merge = told_class(_tidegate.Merge)
    WindowJoin = told_class(_tidegate.WindowJoin)
