"""The HTML page of a run: `page` is its form, `sections` what it says, `pictures` what it shows."""
