"""The HTML page of a run: `page` lays it out, `sections` writes it, `pictures` draws."""
