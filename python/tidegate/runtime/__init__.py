"""What Python adds to the native classes: threads, asyncio, logging, metrics and chains.

The native module never imports from this package. `attach` adds the methods that are written in
Python to the native classes, and hands the native module the few functions that it calls.

- `methods.py`: the methods, and `attach`.
- `running.py`: operators that a thread drives; `awaiting.py`: operators and sources in asyncio.
- `punctuations.py`: punctuations as rows among the results.
- `chain.py`: operators behind each other; `stepping.py`: threads that rest during a
  snapshot.
- `metrics.py`: the numbers of an operator, for monitoring and for people.
- `logger.py`: what is logged, and how often.
- `rows.py`: dicts and tuples as a table; the size of Arrow rows.
- `main_interpreter.py`: refuses subinterpreters.
- `waits.py`: which thread waits for which, to detect a wait that would never end.
"""
