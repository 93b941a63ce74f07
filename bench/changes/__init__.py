"""Changes of a running proxy under load: reload, upgrade, renewal, the death of a backend, removal of a service, stop. Every request is counted."""
