"""stunnel's and hitch's own test suites with Handfast in the place of either program; scripts/other-suites runs them."""
