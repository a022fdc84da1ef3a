"""What Python adds to the native classes: threads, asyncio, logging, metrics and chains.

The native module never imports from this package. `attach` adds the methods that are written in
Python to the native classes, and passes the native module the few functions that it calls.

- `methods.py`: the methods, and `attach`.
- `running.py`: operators that run on a thread; `awaiting.py`: operators and sources for asyncio.
- `punctuations.py`: punctuations as rows among the results.
- `chain.py`: chains of operators; `stepping.py`: threads that pause during a snapshot.
- `metrics.py`: the statistics of an operator, for monitoring tools and for people.
- `logger.py`: what is logged, and how often.
- `rows.py`: converts dicts and tuples to tables, and measures the size of Arrow rows.
- `main_interpreter.py`: rejects subinterpreters.
- `waits.py`: which thread waits for which, to detect a wait that would never end.
"""
