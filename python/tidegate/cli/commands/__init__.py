"""What stands on the command line: subcommands, options and help.

- `joins.py`: the subcommands that join two files; `streams.py`: those that take any number of
  files.
- `options.py`: options of several subcommands; `texts.py`: the help.
- `parsing.py`: from the texts of options to values; `running.py`: from values to the work, whose
  failures become one line.
"""
