//! Calls back: one worker an app, with limits per app and per host.
