"""The engine room: compiling, caching, threads, clocks, scans and sorts."""
