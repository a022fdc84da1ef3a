"""Calls on tables and files: from what a caller has to a result, in one direction.

A call opens its inputs, makes one query, asks it for one plan, chooses a way, and takes it:

    arguments ──▶ query ──▶ plan ──▶ way ──┬─ whole: the native function, on all rows
        │                    ▲             ├─ pruned: without row groups that match nothing
        └──▶ inputs ─────────┘             └─ in slices: `tidegate.bounded`, slice by slice in time

Two Arrow tables need no plan before the native function makes its own, so that nothing here is
asked for a small call.

- `functions.py`: what users call.
- `arguments.py`: errors for unknown arguments, each with the line to write instead.
- `joins.py`, `aggregates.py`, `merges.py`, `digests.py`: the steps of a call.
- `distinct.py`: refuses one stream in two places.
- `inputs.py`: opens inputs, and reads them on a thread of its own, so that Ctrl-C ends the wait.
- `ways.py`: whether inputs are read whole, in part or slice by slice.
- `explain.py`: the same steps up to the way, as text.

Modules that import pyarrow are imported by the first call that needs them, so that `import
tidegate` stays fast.
"""
