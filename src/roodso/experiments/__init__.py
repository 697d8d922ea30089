"""Studies behind the claims of the documentation, each run again by one command."""
