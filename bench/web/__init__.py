"""What the tools for HTTP mode share: fronts under test, raw HTTP/1 and HTTP/2 clients, and where foreign programs are."""
