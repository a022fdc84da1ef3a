"""The Python parts of the native classes: threads, asyncio, logging, metrics and chains.

The native module never imports from this package. `attach` adds methods written in Python to the
native classes. It also registers the few Python functions that the native module calls.

- `methods.py`: the methods, and `attach`.
- `running.py`: operators that run on a thread; `awaiting.py`: operators and sources for asyncio.
- `punctuations.py`: punctuations as rows among the results.
- `chain.py`: chains of operators; `stepping.py`: threads that pause during a snapshot.
- `metrics.py`: formats the statistics of an operator, for monitoring tools and for display.
- `logger.py`: logs events, each kind at a limited rate.
- `rows.py`: converts dicts and tuples to tables, and measures the size of Arrow rows.
- `json_objects.py`: reads rows from JSON text.
- `main_interpreter.py`: rejects subinterpreters.
- `waits.py`: determines which threads are waiting for each other, to detect deadlocks.
"""
