"""One file a command: a function `command` whose parameters are its options and whose result is an Answer."""
