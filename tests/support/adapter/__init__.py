"""The adapter under test: as a process, as an application over stub members, and over a metrics store."""
