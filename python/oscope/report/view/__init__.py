"""The browser application: the store's runs, read-only, on this machine only (`oscope view`)."""
