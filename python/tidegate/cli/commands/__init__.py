"""The command line: subcommands, options and help.

- `joins.py`: the subcommands that join two files; `streams.py`: those that accept any number of
  files; `indexes.py`: the subcommand that builds an index.
- `making.py`: builds subcommands from the table of options in `tidegate.options`.
- `options.py`: options that several subcommands share; `texts.py`: the help.
- `parsing.py`: parses the values of options.
- `running.py`: runs a subcommand, and reports a failure in one line.
"""
