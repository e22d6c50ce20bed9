"""The generated pages of the documentation: reference and results. `make docs` builds the site with them."""
