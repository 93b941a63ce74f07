"""Handfast with servers of other projects: STARTTLS in front of them, TLS towards them."""
