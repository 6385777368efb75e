"""Tables and progress, for a terminal, a pipe, a notebook, or an HTML page."""
