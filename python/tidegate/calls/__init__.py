"""Calls on tables and files: all steps from the caller's inputs to the result.

A call opens its inputs, builds one query, computes one plan from it, and chooses how to run it:

    arguments ──▶ query ──▶ plan ──▶ way ──┬─ whole: the native function on all rows
        │                    ▲             ├─ pruned: without row groups that match nothing
        └──▶ inputs ─────────┘             └─ in slices: `tidegate.bounded`, slice by slice in time

If the inputs are Arrow data, the native function builds the plan itself, so these steps do not slow
down small calls.

- `functions.py`: the functions that users call.
- `arguments.py`: errors that show what to write instead of unknown arguments.
- `remedies.py`: adds advice to errors from native code; `casts.py`: the code for casts to times.
- `joins.py`, `aggregates.py`, `merges.py`, `digests.py`: the steps of a call.
- `join_all.py`, `steps.py`: joins of several tables; the plan and the execution of their steps.
- `features.py`: the functions for features; `feature_joins.py`: the join of each view.
- `point_in_time.py`: checks that features do not depend on the future.
- `epochs.py`: converts numeric times for calls with `unit`.
- `progress.py`: reports the progress of a call.
- `distinct.py`: rejects a stream that is passed twice in one call.
- `inputs.py`: opens inputs and reads them on a separate thread, so that Ctrl-C can interrupt it.
- `ways.py`: decides whether inputs are read whole, in part or slice by slice.
- `explain.py`: describes these steps as text, without running the query.

Modules that import pyarrow are imported by the first call that needs them, to keep `import
tidegate` fast.
"""
