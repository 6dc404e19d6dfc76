"""The shell around the core: sockets, timers, plugins, files and processes."""
